//! The slow receiver: its service, its pace, and its process.
//!
//! A message waits at a gate until it is let through. The gate lets a number of messages pass each second, which
//! is the capacity, and waiting costs no CPU: this measures the runtime and not the handler.

use super::{BUDGET, CAPACITY, Command, tell_counts};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use upbeat_cli::bench::control::{Control, Done};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::Ground;
use upbeat_cli::bench::hosts::{Policy, builder, refused};
use upbeat_cli::bench::message::Message;
use upbeat_cli::bench::pair::{self, Server};
use upbeat_cli::bench::pin::Cpus;
use upbeat_cli::bench::timing::Work;

/// The name of the receiver.
pub(super) const NAME: &str = "bench-incast/desk";

/// How often messages are let through.
const BEAT: Duration = Duration::from_millis(1);

/// The service that takes messages.
#[upbeat::service]
pub(super) trait Desk {
    /// Does nothing, and replies at once.
    async fn null(&self);
    /// Takes the sender's message of this number, and replies when it was let through.
    async fn take(&self, sender: u32, number: u64, body: Message);
    /// Takes a message without a reply.
    #[oneway]
    async fn push(&self, sender: u32, number: u64, body: Message);
}

/// The receiver's counts, and whether it is slow.
#[derive(Default)]
struct Books {
    arrived: AtomicU64,
    done: AtomicU64,
    /// Messages whose number was not the next of their sender.
    misordered: AtomicU64,
    /// Whether all messages are let through at once.
    open: AtomicBool,
}

/// Lets through as many messages as it is told.
#[derive(Default)]
struct Gate {
    open: Cell<bool>,
    passes: Cell<u64>,
    waiting: RefCell<VecDeque<Waker>>,
}

impl Gate {
    async fn pass(&self) {
        poll_fn(|context| {
            if self.open.get() {
                return Poll::Ready(());
            }
            match self.passes.get().checked_sub(1) {
                Some(left) => {
                    self.passes.set(left);
                    Poll::Ready(())
                }
                None => {
                    self.waiting.borrow_mut().push_back(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
    }

    /// Lets `count` more through. Permits that no message takes are kept up to `most`.
    fn release(&self, count: u64, most: u64) {
        let mut waiting = self.waiting.borrow_mut();
        let woken = waiting.len().min(usize::try_from(count).unwrap_or(usize::MAX));
        let kept = self.passes.get() + count;
        let wanted = waiting.len() as u64 + most;
        self.passes.set(kept.min(wanted));
        waiting.drain(..woken).for_each(Waker::wake);
    }

    fn set_open(&self, open: bool) {
        if open == self.open.replace(open) {
            return;
        }
        self.passes.set(0);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}

struct SlowDesk {
    books: Arc<Books>,
    gate: Rc<Gate>,
    next: RefCell<HashMap<u32, u64>>,
}

impl SlowDesk {
    async fn serve(&self, sender: u32, number: u64) {
        // The order is that of arrival; other messages may pass a handler that waits.
        let expected = self.next.borrow_mut().insert(sender, number + 1).unwrap_or(0);
        if expected != number {
            self.books.misordered.fetch_add(1, Relaxed);
        }
        self.books.arrived.fetch_add(1, Relaxed);
        self.gate.pass().await;
        self.books.done.fetch_add(1, Relaxed);
    }
}

impl Desk for SlowDesk {
    async fn null(&self) {}

    async fn take(&self, sender: u32, number: u64, _body: Message) {
        self.serve(sender, number).await;
    }

    async fn push(&self, sender: u32, number: u64, _body: Message) {
        self.serve(sender, number).await;
    }
}

/// Lets messages through at the capacity, for ever.
async fn pace(gate: &Gate, books: &Books) {
    let mut last = Instant::now();
    let mut owed = 0.0;
    loop {
        upbeat::sleep(BEAT).await;
        let now = Instant::now();
        owed += (now - last).as_secs_f64() * CAPACITY as f64;
        last = now;
        gate.set_open(books.open.load(Relaxed));
        let count = owed as u64;
        owed -= count as f64;
        // The permits of ten beats may be kept, so that a late beat loses none.
        gate.release(count, CAPACITY / 100);
    }
}

/// Runs the receiver's process.
pub(super) fn serve(cpus: Cpus, scratch: &Path) -> Result<(), BenchError> {
    pair::serve(cpus, |control, _| DeskProcess::open(control, scratch))
}

struct DeskProcess {
    books: Arc<Books>,
}

impl DeskProcess {
    fn open(control: &Control, scratch: &Path) -> Result<DeskProcess, BenchError> {
        let books = Arc::new(Books::default());
        let (theirs, directory) = (Arc::clone(&books), scratch.to_owned());
        let (say, said) = channel();
        // The thread runs, like this process, on the CPU that the client of the rounds does not use.
        std::thread::spawn(move || {
            let builder = builder(NAME, Some(&directory), Policy::Adaptive).budget(BUDGET);
            let node = match builder.build().map_err(refused("a node")) {
                Ok(node) => node,
                Err(error) => {
                    let _ = say.send(Err(error));
                    return;
                }
            };
            let (gate, books) = (Rc::new(Gate::default()), theirs);
            let next = RefCell::default();
            let desk = SlowDesk { books: Arc::clone(&books), gate: Rc::clone(&gate), next };
            let served = node.serve(DeskServer::new(desk)).map_err(refused("serving"));
            let _ = say.send(served);
            node.block_on(pace(&gate, &books));
        });
        said.recv().map_err(|_| BenchError::protocol("the receiver is gone"))??;
        control.send(&Done)?;
        Ok(DeskProcess { books })
    }
}

impl Server for DeskProcess {
    fn round(&mut self, job: &str, _: Work, ground: &mut Ground) -> Result<(), BenchError> {
        match Command::read(job)? {
            Command::Open(open) => self.books.open.store(open, Relaxed),
            Command::Tell => {}
            other => return Err(BenchError::protocol(format!("the receiver is told {other:?}"))),
        }
        let Books { arrived, done, misordered, .. } = &*self.books;
        tell_counts(ground, &[arrived, done, misordered]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Gate;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn as_many_pass_as_are_let_through() {
        let gate = Gate::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(gate.pass())).collect();
        let mut passed = || {
            waiting.retain_mut(|one| one.as_mut().poll(&mut context).is_pending());
            5 - waiting.len()
        };
        assert_eq!(passed(), 0);
        gate.release(2, 1);
        assert_eq!(passed(), 2);
        gate.set_open(true);
        assert_eq!(passed(), 5);
        gate.set_open(false);
        gate.release(7, 1);
        assert_eq!(gate.passes.get(), 1, "what nobody waits for is not kept");
        assert_eq!(
            pin!(gate.pass()).poll(&mut Context::from_waker(Waker::noop())),
            Poll::Ready(())
        );
    }
}
