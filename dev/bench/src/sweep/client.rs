//! The clients of a sweep: one for each driver, which sends the messages of a cell.

use super::cells::{Cell, Driver, Primitive, Stand};
use super::server::Meeting;
use super::store::{StoreBlocking, StoreClient, StoreHandle, message, pattern};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use upbeat::{HandleStream, Stream, spawn};

/// Calls that a node, or an awaited handle, has open at once.
const OPEN: u64 = 64;
/// Threads that await the calls of a handle.
const THREADS: u64 = 4;

/// The messages of a cell, and how many of them have moved.
#[derive(Clone)]
struct Work {
    cell: Cell,
    messages: u64,
    moved: Arc<AtomicU64>,
}

impl Work {
    fn message(&self, number: u64) -> &'static [u8] {
        static PATTERN: OnceLock<Vec<u8>> = OnceLock::new();
        message(PATTERN.get_or_init(pattern), number, self.cell.len())
    }

    fn moved(&self) {
        self.moved.fetch_add(1, Relaxed);
    }

    /// Returns the items of a stream.
    fn items(&self) -> Stream<Vec<u8>> {
        let work = self.clone();
        Stream::of((0..self.messages).map(move |number| {
            work.moved();
            work.message(number).to_vec()
        }))
    }

    /// Checks an item, or the reply to a call.
    fn check(&self, number: u64, bytes: &[u8]) -> Result<(), String> {
        self.moved();
        match bytes == self.message(number) {
            true => Ok(()),
            false => Err(format!("message {number} came back with {} other bytes", bytes.len())),
        }
    }

    /// Checks the number of items that came.
    fn check_count(&self, came: u64) -> Result<(), String> {
        match came == self.messages {
            true => Ok(()),
            false => Err(format!("{came} of {} items came", self.messages)),
        }
    }

    fn check_tally(&self, tally: (u64, u64)) -> Result<(), String> {
        let wanted = if self.cell.primitive == Primitive::Down { 0 } else { self.messages };
        match tally == (wanted, 0) {
            true => Ok(()),
            false => Err(format!(
                "{} of {wanted} messages came, and {} were not the next ones",
                tally.0, tally.1
            )),
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Runs a cell.
pub(super) fn run(
    stand: Stand,
    cell: Cell,
    messages: u64,
    meeting: &Meeting,
    moved: &Arc<AtomicU64>,
) -> Result<(), String> {
    let work = Work { cell, messages, moved: Arc::clone(moved) };
    debug_assert_eq!(stand, meeting.stand);
    match cell.driver {
        Driver::Node => node(&work, meeting),
        Driver::Blocking => {
            let handle: StoreHandle = meeting.handles()?.connect(&meeting.to).map_err(text)?;
            blocking(&work, &handle)
        }
        Driver::Awaited => {
            let handle: StoreHandle = meeting.handles()?.connect(&meeting.to).map_err(text)?;
            awaited(&work, &handle)
        }
    }
}

fn node(work: &Work, meeting: &Meeting) -> Result<(), String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("client/{}/{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
    let node = meeting.builder(&name)?.build().map_err(text)?;
    node.block_on(async {
        let store: StoreClient = node.connect(&meeting.to).await.map_err(text)?;
        store.begin().await.map_err(text)?;
        match work.cell.primitive {
            Primitive::Call => calls_of_tasks(work, &store).await?,
            Primitive::Oneway => {
                for number in 0..work.messages {
                    store.note(work.message(number).to_vec()).await.map_err(text)?;
                    work.moved();
                }
            }
            Primitive::Loan => {
                for number in 0..work.messages {
                    let mut loan = store.loan_put(work.cell.len()).await.map_err(text)?;
                    loan.write_at(0, work.message(number));
                    loan.send().await.map_err(text)?;
                    work.moved();
                }
            }
            Primitive::Up => work.check_count(store.up(work.items()).await.map_err(text)?)?,
            Primitive::Down => {
                let len = work.cell.len() as u64;
                let mut items = store.down(work.messages, len).await.map_err(text)?;
                let mut number = 0;
                while let Some(item) = items.next().await {
                    work.check(number, &item.map_err(text)?)?;
                    number += 1;
                }
                work.check_count(number)?;
            }
        }
        work.check_tally(store.tally().await.map_err(text)?)
    })
}

/// Has tasks call, each one call after another.
async fn calls_of_tasks(work: &Work, store: &StoreClient) -> Result<(), String> {
    let work = Rc::new(work.clone());
    let tasks: Vec<_> = (0..OPEN)
        .map(|first| {
            let (work, store) = (Rc::clone(&work), store.clone());
            spawn(async move {
                for number in (first..work.messages).step_by(OPEN as usize) {
                    let bytes = store.echo(work.message(number).to_vec()).await.map_err(text)?;
                    work.check(number, &bytes)?;
                }
                Ok::<(), String>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.map_err(text)??;
    }
    Ok(())
}

fn blocking(work: &Work, handle: &StoreHandle) -> Result<(), String> {
    let store: StoreBlocking<'_> = handle.blocking();
    store.begin().map_err(text)?;
    match work.cell.primitive {
        Primitive::Call => {
            for number in 0..work.messages {
                let bytes = store.echo(work.message(number).to_vec()).map_err(text)?;
                work.check(number, &bytes)?;
            }
        }
        Primitive::Oneway => {
            for number in 0..work.messages {
                store.note(work.message(number).to_vec()).map_err(text)?;
                work.moved();
            }
        }
        Primitive::Up => work.check_count(store.up(work.items()).map_err(text)?)?,
        Primitive::Down => {
            let items = store.down(work.messages, work.cell.len() as u64).map_err(text)?;
            let mut came = 0;
            for (number, item) in (0..).zip(items.blocking()) {
                work.check(number, &item.map_err(text)?)?;
                came += 1;
            }
            work.check_count(came)?;
        }
        Primitive::Loan => return Err("handles loan nothing".to_owned()),
    }
    work.check_tally(store.tally().map_err(text)?)
}

fn awaited(work: &Work, handle: &StoreHandle) -> Result<(), String> {
    block_on(handle.begin()).map_err(text)?;
    match work.cell.primitive {
        Primitive::Call => thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|first| {
                    scope.spawn(move || {
                        for number in (first..work.messages).step_by(THREADS as usize) {
                            let call = handle.echo(work.message(number).to_vec());
                            work.check(number, &block_on(call).map_err(text)?)?;
                        }
                        Ok::<(), String>(())
                    })
                })
                .collect();
            threads.into_iter().try_for_each(|thread| match thread.join() {
                Ok(done) => done,
                Err(_) => Err("a thread has panicked".to_owned()),
            })
        })?,
        Primitive::Oneway => block_on(async {
            for number in 0..work.messages {
                handle.note(work.message(number).to_vec()).await.map_err(text)?;
                work.moved();
            }
            Ok::<(), String>(())
        })?,
        Primitive::Up => {
            work.check_count(block_on(handle.up(work.items())).map_err(text)?)?;
        }
        Primitive::Down => block_on(async {
            let len = work.cell.len() as u64;
            let items: Stream<Vec<u8>> = handle.down(work.messages, len).await.map_err(text)?;
            let mut items: HandleStream<Vec<u8>> = items.into_send().map_err(text)?;
            let mut number = 0;
            while let Some(item) = items.next().await {
                work.check(number, &item.map_err(text)?)?;
                number += 1;
            }
            work.check_count(number)
        })?,
        Primitive::Loan => return Err("handles loan nothing".to_owned()),
    }
    work.check_tally(block_on(handle.tally()).map_err(text)?)
}

/// Polls a future in this thread, and parks in between.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        thread::park();
    }
}
