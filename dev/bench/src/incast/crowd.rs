//! The senders: a node each, on a thread of its own, in one process.
//!
//! Each sends by the clock, whether or not its earlier messages are done: a sender that waits for room
//! falls behind, and then sends as fast as flow control allows until it has caught up.

use super::desk::{DeskClient, NAME};
use super::{BYTES, Command, OPEN_CALLS, tell_counts};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::task::Poll;
use std::time::{Duration, Instant};
use upbeat::Node;
use upbeat_cli::bench::control::{Control, Done};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::Ground;
use upbeat_cli::bench::hosts::{Policy, node, refused};
use upbeat_cli::bench::message::Message;
use upbeat_cli::bench::pair::{self, Server};
use upbeat_cli::bench::pin::{self, Cpus};
use upbeat_cli::bench::timing::Work;

/// How often a sender reads the clock, and the command.
const BEAT: Duration = Duration::from_millis(1);

/// Bytes of a message's first two arguments, each in a word of its own.
const NUMBERS: usize = 16;

const STOP: u64 = 0;
const ONEWAYS: u64 = 1;
const CALLS: u64 = 2;

/// The command to all senders, and their counts.
#[derive(Default)]
struct Books {
    /// The command.
    what: AtomicU64,
    /// Messages a second that each should send.
    per_second: AtomicU64,
    sent: AtomicU64,
    /// Messages that should have been sent by the clock.
    offered: AtomicU64,
    failed: AtomicU64,
    /// Senders that are not at rest, and calls that are not answered.
    busy: AtomicU64,
}

/// A sender that sends by the clock.
struct LoadGenerator {
    number: u32,
    node: Node,
    client: Rc<DeskClient>,
    books: Arc<Books>,
    body: Message,
    open: Rc<Cell<usize>>,
}

impl LoadGenerator {
    async fn run(&self) {
        let mut next = 0;
        loop {
            let what = self.books.what.load(Relaxed);
            if what != STOP {
                self.books.busy.fetch_add(1, Relaxed);
                self.go(what, &mut next).await;
                self.books.busy.fetch_sub(1, Relaxed);
            }
            upbeat::sleep(BEAT).await;
        }
    }

    /// Sends until the command changes. `next` is the number of the next message.
    async fn go(&self, what: u64, next: &mut u64) {
        let (start, first) = (Instant::now(), *next);
        let per_second = self.books.per_second.load(Relaxed) as f64;
        let due = || (start.elapsed().as_secs_f64() * per_second) as u64;
        while self.books.what.load(Relaxed) == what {
            while *next - first < due() && self.books.what.load(Relaxed) == what {
                if what == ONEWAYS {
                    let sent = self.client.push(self.number, *next, self.body.clone()).await;
                    self.note_failure(sent.is_err());
                } else if self.open.get() < OPEN_CALLS {
                    self.call(*next).await;
                } else {
                    break;
                }
                self.books.sent.fetch_add(1, Relaxed);
                *next += 1;
            }
            upbeat::sleep(BEAT).await;
        }
        self.books.offered.fetch_add(due(), Relaxed);
    }

    /// Makes a call, and has a task wait for its reply.
    async fn call(&self, number: u64) {
        let (client, books, open) =
            (Rc::clone(&self.client), Arc::clone(&self.books), Rc::clone(&self.open));
        let (sender, body) = (self.number, self.body.clone());
        open.set(open.get() + 1);
        books.busy.fetch_add(1, Relaxed);
        let mut call = Box::pin(async move {
            if client.take(sender, number, body).await.is_err() {
                books.failed.fetch_add(1, Relaxed);
            }
            books.busy.fetch_sub(1, Relaxed);
            open.set(open.get() - 1);
        });
        // The call is polled here first, because tasks may begin in another order than they were made in.
        let first = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
        if first.is_pending() {
            drop(self.node.spawn(call));
        }
    }

    fn note_failure(&self, failed: bool) {
        self.books.failed.fetch_add(u64::from(failed), Relaxed);
    }
}

/// Runs a sender's thread: connects, reports that, and follows the commands.
fn run_sender(
    number: u32,
    directory: &Path,
    cpus: Cpus,
    books: Arc<Books>,
    say: &Sender<Result<(), BenchError>>,
) -> Result<(), BenchError> {
    pin::keep_on(&[cpus.client, cpus.server])?;
    let node = node(&format!("bench-incast/sender/{number}"), Some(directory), Policy::Adaptive)?;
    let client: DeskClient = node.block_on(node.connect(NAME)).map_err(refused("connecting"))?;
    // A receiver that is gone has ended the benchmark.
    let _ = say.send(Ok(()));
    let (client, open) = (Rc::new(client), Rc::default());
    let sender =
        LoadGenerator { number, node, client, books, body: Message::of(BYTES - NUMBERS), open };
    sender.node.block_on(sender.run());
    Ok(())
}

/// Runs the senders' process.
pub(super) fn serve(cpus: Cpus) -> Result<(), BenchError> {
    pair::serve(cpus, |control, _| CrowdProcess::open(control, cpus))
}

struct CrowdProcess {
    cpus: Cpus,
    books: Arc<Books>,
}

impl CrowdProcess {
    fn open(control: &Control, cpus: Cpus) -> Result<CrowdProcess, BenchError> {
        control.send(&Done)?;
        Ok(CrowdProcess { cpus, books: Arc::default() })
    }

    fn connect(&self, senders: u32, directory: &Path) -> Result<(), BenchError> {
        let (say, said) = channel();
        for number in 0..senders {
            let (say, books, cpus) = (say.clone(), Arc::clone(&self.books), self.cpus);
            let directory: PathBuf = directory.to_owned();
            std::thread::spawn(move || {
                if let Err(error) = run_sender(number, &directory, cpus, books, &say) {
                    let _ = say.send(Err(error));
                }
            });
        }
        drop(say);
        (0..senders)
            .try_for_each(|_| said.recv().map_err(|_| BenchError::protocol("a sender is gone"))?)
    }
}

impl Server for CrowdProcess {
    fn round(&mut self, job: &str, _: Work, ground: &mut Ground) -> Result<(), BenchError> {
        match Command::read(job)? {
            Command::Connect { senders, directory } => self.connect(senders, &directory)?,
            Command::Go { calls, per_second } => {
                self.books.per_second.store(per_second, Relaxed);
                self.books.what.store(if calls { CALLS } else { ONEWAYS }, Relaxed);
            }
            Command::Stop => self.books.what.store(STOP, Relaxed),
            Command::Tell => {}
            other => return Err(BenchError::protocol(format!("the senders are told {other:?}"))),
        }
        let Books { sent, offered, failed, busy, .. } = &*self.books;
        tell_counts(ground, &[sent, offered, failed, busy]);
        Ok(())
    }
}
