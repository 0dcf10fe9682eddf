//! The interfaces, and the nodes that serve them slowly, each on a thread of its own.
#![allow(unreachable_pub)]

use std::cell::Cell;
use std::error::Error;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use upbeat::{BuildError, Mutex, Node, ServeError, Waiting};

/// For so long the auditor holds the lock.
const AUDIT: Duration = Duration::from_micros(50);
/// The audit comes after so many transfers.
const TRANSFERS_PER_AUDIT: u64 = 100;
/// A sum takes so long; a handler should pause after 100 us.
const SUM: Duration = Duration::from_micros(300);
/// So long nobody looks for notes.
const ABSENCE: Duration = Duration::from_millis(3);
/// And then so often.
const LOOKS: u32 = 16;

#[upbeat::service]
pub trait Bank {
    /// Moves a sum from one account to another.
    async fn transfer(&self, from: u32, to: u32, sum: i64);
}

#[upbeat::service]
pub trait Sums {
    /// Adds up numbers, very thoroughly.
    async fn sum(&self, numbers: Vec<u64>) -> u64;
}

#[upbeat::service]
pub trait Echo {
    /// Answers.
    async fn ping(&self);
}

#[upbeat::service]
pub trait Diary {
    /// Writes an entry. The caller does not wait.
    #[oneway]
    async fn note(&self, text: String);
}

/// A bank whose accounts are audited now and then.
struct Branch {
    node: Node,
    accounts: Rc<Mutex<Vec<i64>>>,
    transfers: Cell<u64>,
}

impl Bank for Branch {
    async fn transfer(&self, from: u32, to: u32, sum: i64) {
        let mut accounts = self.accounts.lock().await;
        let places = accounts.len();
        accounts[from as usize % places] -= sum;
        accounts[to as usize % places] += sum;
        self.transfers.set(self.transfers.get() + 1);
        if self.transfers.get().is_multiple_of(TRANSFERS_PER_AUDIT) {
            // The audit runs as a task of its own.
            drop(self.node.spawn(audit(Rc::clone(&self.accounts))));
        }
    }
}

/// The first cause: a task holds a lock while it waits for something else.
async fn audit(accounts: Rc<Mutex<Vec<i64>>>) {
    let accounts = accounts.lock().await;
    let began = Instant::now();
    while began.elapsed() < AUDIT {
        assert_eq!(black_box(&*accounts).iter().sum::<i64>(), 0);
        others_first().await;
    }
}

/// Lets the node do everything else that there is to do.
async fn others_first() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The second cause: a handler that goes on and on without a pause.
struct Abacus;

impl Sums for Abacus {
    async fn sum(&self, numbers: Vec<u64>) -> u64 {
        let began = Instant::now();
        let mut sum = 0;
        while began.elapsed() < SUM {
            sum = black_box(&numbers).iter().sum();
        }
        sum
    }
}

/// The third cause is its node, which sleeps whenever nothing is to be done.
struct Voice;

impl Echo for Voice {
    async fn ping(&self) {}
}

/// The fourth cause is its node, which is not driven for a while.
struct Notebook;

impl Diary for Notebook {
    async fn note(&self, text: String) {
        drop(black_box(text));
    }
}

/// The nodes that serve, each on its thread. Dropped, they end.
pub struct Servers {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Servers {
    /// Starts them, and waits until all of them serve.
    pub fn start() -> Result<Servers, Box<dyn Error>> {
        let mut servers = Servers { over: Arc::default(), threads: Vec::new() };
        servers.add("bank", Waiting::Adaptive, |node| {
            let accounts = Rc::new(Mutex::named("accounts", vec![0; 64]));
            let transfers = Cell::new(0);
            node.serve(BankServer::new(Branch { node: node.clone(), accounts, transfers }))?;
            Ok(drive)
        })?;
        servers.add("sums", Waiting::Adaptive, |node| {
            node.serve(SumsServer::new(Abacus))?;
            Ok(drive)
        })?;
        servers.add("sleeper", Waiting::Sleeping, |node| {
            node.serve(EchoServer::new(Voice))?;
            Ok(drive)
        })?;
        servers.add("slowpoke", Waiting::Adaptive, |node| {
            node.serve(DiaryServer::new(Notebook))?;
            Ok(drive_rarely)
        })?;
        Ok(servers)
    }

    fn add(
        &mut self,
        name: &'static str,
        waiting: Waiting,
        serve: impl FnOnce(&Node) -> Result<fn(&Node, &AtomicBool), ServeError> + Send + 'static,
    ) -> Result<(), Box<dyn Error>> {
        let (ready, is_ready) = mpsc::channel();
        let over = Arc::clone(&self.over);
        self.threads.push(thread::spawn(move || {
            let serving = || -> Result<_, BuildError> {
                let node = Node::builder(name).waiting(waiting).build()?;
                let drive = serve(&node)?;
                Ok((node, drive))
            };
            match serving() {
                Ok((node, drive)) => {
                    let _ = ready.send(Ok(()));
                    drive(&node, &over);
                    node.shut_down(Duration::from_secs(1));
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        }));
        is_ready.recv()??;
        Ok(())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The panic hook has printed the message of a thread that has panicked.
            let _ = thread.join();
        }
    }
}

/// As a node should be driven.
fn drive(node: &Node, over: &AtomicBool) {
    node.block_on(async {
        while !over.load(Ordering::Relaxed) {
            upbeat::sleep(Duration::from_millis(20)).await;
        }
    });
}

/// As a node should not be driven: it is away for long, and does not tell its peers.
fn drive_rarely(node: &Node, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        for _ in 0..LOOKS {
            node.turn();
        }
        thread::sleep(ABSENCE);
    }
}
