//! The service of the tests.

use super::{Signal, block_on, soon};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use upbeat::{InPlace, Node, ServiceRef, sleep};
use zerocopy::{FromBytes, Immutable, IntoBytes};

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, upbeat::Wire)]
#[repr(C)]
#[wire(plain)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, upbeat::Wire)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) numbers: Vec<u32>,
    pub(crate) inner: Option<Box<Record>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, upbeat::Wire)]
pub(crate) enum Division {
    ByZero,
    NotWhole { rest: u64 },
}

#[upbeat::service]
pub(crate) trait Work {
    async fn null(&self);
    async fn add(&self, a: u64, b: u64) -> u64;
    async fn point(&self, point: Point) -> Point;
    async fn text(&self, text: String) -> String;
    async fn bytes(&self, bytes: Vec<u8>) -> Vec<u8>;
    async fn kib(&self, bytes: [u8; 1024]) -> [u8; 1024];
    async fn page(&self, bytes: [u8; 4096]) -> [u8; 4096];
    async fn record(&self, record: Record) -> Record;
    async fn divide(&self, a: u64, b: u64) -> Result<u64, Division>;
    /// So many bytes.
    async fn blob(&self, bytes: u64) -> Vec<u8>;
    /// The numbers below `count`.
    async fn numbers(&self, count: u64) -> InPlace<u32>;
    /// Half as many points, if it is even.
    async fn points(&self, count: u64) -> Result<Vec<Point>, Division>;
    /// As many durations: of no nanosecond, of one, and so on.
    async fn naps(&self, count: u64) -> Vec<Duration>;
    /// Waits, and says what it was given.
    async fn nap(&self, ms: u64, value: u64) -> u64;
    /// Waits, takes a lock, and holds it for so long.
    async fn locked(&self, after_ms: u64, for_ms: u64);
    /// Never ends by itself.
    async fn forever(&self);
    /// Never ends by itself, and calls on for ever somewhere else.
    async fn forever_at(&self, node: String);
    /// Panics with this text, after a wait if `late` is set.
    async fn panics(&self, text: String, late: bool) -> u64;
    /// Adds on another node.
    async fn relay(&self, node: String, a: u64, b: u64) -> Result<u64, String>;
    /// Adds so often by calling back, and passes the reference on to these nodes, one to the next.
    async fn call_back(
        &self,
        to: ServiceRef<WorkClient>,
        through: Vec<ServiceRef<WorkClient>>,
        times: u64,
    ) -> Result<u64, String>;
    /// Stops the whole node for so long.
    async fn stall(&self, ms: u64);
    /// Drives the node from within.
    async fn block(&self, shut_down: bool);
    /// How many handlers stand in `forever` or `nap`, and how many have begun to.
    async fn waiting(&self) -> (u64, u64);
    /// The numbers that `note` was given: how many, the last one, and how many out of order.
    async fn noted(&self) -> (u64, u64, u64);
    /// Counts from one node's counters.
    async fn counted(&self, counter: u64) -> u64;
    #[oneway]
    async fn note(&self, number: u64);
    #[oneway]
    async fn note_text(&self, number: u64, text: String);
    /// Notes the number after a wait.
    #[oneway]
    async fn note_late(&self, number: u64, ms: u64);
    #[oneway]
    async fn note_panics(&self, late: bool);
    /// Ends the server.
    #[oneway]
    async fn quit(&self);
}

/// The implementation of `Work`.
#[derive(Default)]
pub(crate) struct Worker {
    pub(crate) node: RefCell<Option<Node>>,
    pub(crate) quit: Signal,
    pub(crate) waiting: Rc<Cell<u64>>,
    pub(crate) begun: Cell<u64>,
    count: Cell<u64>,
    last: Cell<u64>,
    disorder: Cell<u64>,
    vault: Vault,
}

/// The mutex that handlers lock.
struct Vault(upbeat::Mutex<()>);

impl Default for Vault {
    fn default() -> Vault {
        Vault(upbeat::Mutex::named("vault", ()))
    }
}

/// Counts while it stands.
pub(crate) struct Standing(Rc<Cell<u64>>);

impl Standing {
    fn new(count: &Rc<Cell<u64>>) -> Standing {
        count.set(count.get() + 1);
        Standing(Rc::clone(count))
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Worker {
    pub(crate) fn new(quit: Signal) -> Worker {
        Worker { quit, ..Worker::default() }
    }

    fn stand(&self) -> Standing {
        self.begun.set(self.begun.get() + 1);
        Standing::new(&self.waiting)
    }

    fn node(&self) -> Node {
        self.node.borrow().clone().expect("a node")
    }

    fn enter(&self, number: u64) {
        self.disorder.set(self.disorder.get() + u64::from(number != self.last.get() + 1));
        self.last.set(number);
        self.count.set(self.count.get() + 1);
    }
}

impl Work for Worker {
    async fn null(&self) {}

    async fn add(&self, a: u64, b: u64) -> u64 {
        a.wrapping_add(b)
    }

    async fn point(&self, point: Point) -> Point {
        Point { x: point.y, y: point.x }
    }

    async fn text(&self, text: String) -> String {
        text
    }

    async fn bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    async fn kib(&self, bytes: [u8; 1024]) -> [u8; 1024] {
        bytes
    }

    async fn page(&self, bytes: [u8; 4096]) -> [u8; 4096] {
        bytes
    }

    async fn record(&self, record: Record) -> Record {
        record
    }

    async fn divide(&self, a: u64, b: u64) -> Result<u64, Division> {
        match a.checked_rem(b) {
            None => Err(Division::ByZero),
            Some(0) => Ok(a / b),
            Some(rest) => Err(Division::NotWhole { rest }),
        }
    }

    async fn blob(&self, bytes: u64) -> Vec<u8> {
        let every: Vec<u8> = (0..=255).collect();
        let mut blob = every.repeat((bytes as usize).div_ceil(every.len()));
        blob.truncate(bytes as usize);
        blob
    }

    async fn numbers(&self, count: u64) -> InPlace<u32> {
        (0..count as u32).collect::<Vec<u32>>().into()
    }

    async fn points(&self, count: u64) -> Result<Vec<Point>, Division> {
        let rest = count % 2;
        let point = |at| Point { x: at as f64, y: -1.0 };
        if rest == 0 {
            Ok((0..count / 2).map(point).collect())
        } else {
            Err(Division::NotWhole { rest })
        }
    }

    async fn naps(&self, count: u64) -> Vec<Duration> {
        (0..count).map(Duration::from_nanos).collect()
    }

    async fn nap(&self, ms: u64, value: u64) -> u64 {
        let _standing = self.stand();
        sleep(Duration::from_millis(ms)).await;
        value
    }

    async fn locked(&self, after_ms: u64, for_ms: u64) {
        if after_ms > 0 {
            sleep(Duration::from_millis(after_ms)).await;
        }
        let _held = self.vault.0.lock().await;
        if for_ms > 0 {
            sleep(Duration::from_millis(for_ms)).await;
        }
    }

    async fn forever(&self) {
        let _standing = self.stand();
        std::future::pending::<()>().await;
    }

    async fn forever_at(&self, node: String) {
        let _standing = self.stand();
        let other: WorkClient = self.node().connect(&node).await.unwrap();
        let _ = other.forever().await;
    }

    async fn panics(&self, text: String, late: bool) -> u64 {
        if late {
            sleep(Duration::from_millis(1)).await;
        }
        // As `panic!` does, but without a line on the screen.
        std::panic::resume_unwind(Box::new(text));
    }

    async fn relay(&self, node: String, a: u64, b: u64) -> Result<u64, String> {
        let other = self.node().connect::<WorkClient>(&node).await;
        let other = other.map_err(|error| error.to_string())?;
        other.add(a, b).await.map_err(|error| error.to_string())
    }

    async fn call_back(
        &self,
        to: ServiceRef<WorkClient>,
        mut through: Vec<ServiceRef<WorkClient>>,
        times: u64,
    ) -> Result<u64, String> {
        if let Some(next) = through.pop() {
            let next = next.connect(&self.node()).await.map_err(|error| error.to_string())?;
            return next.call_back(to, through, times).await.map_err(|error| error.to_string());
        }
        let to = to.connect(&self.node()).await.map_err(|error| error.to_string())?;
        let mut sum = 0;
        for _ in 0..times {
            sum = to.add(sum, 1).await.map_err(|error| error.to_string())?;
        }
        Ok(sum)
    }

    async fn stall(&self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }

    async fn block(&self, shut_down: bool) {
        let node = self.node();
        match shut_down {
            false => node.block_on(async {}),
            true => node.shut_down(Duration::from_secs(1)),
        }
    }

    async fn waiting(&self) -> (u64, u64) {
        (self.waiting.get(), self.begun.get())
    }

    async fn noted(&self) -> (u64, u64, u64) {
        (self.count.get(), self.last.get(), self.disorder.get())
    }

    async fn counted(&self, counter: u64) -> u64 {
        self.node().counted(upbeat::Counter::ALL[counter as usize])
    }

    async fn note(&self, number: u64) {
        self.enter(number);
    }

    async fn note_text(&self, number: u64, _text: String) {
        self.enter(number);
    }

    async fn note_late(&self, number: u64, ms: u64) {
        let _standing = self.stand();
        sleep(Duration::from_millis(ms)).await;
        self.enter(number);
    }

    async fn note_panics(&self, late: bool) {
        if late {
            sleep(Duration::from_millis(1)).await;
        }
        std::panic::resume_unwind(Box::new("a note that panics"));
    }

    async fn quit(&self) {
        self.quit.give();
    }
}

const MIB: usize = 1 << 20;

/// Does what every session does: short and long values both ways.
pub(crate) async fn works(work: &WorkClient) {
    assert_eq!(soon(work.add(2, 3)).await, Ok(5));
    for bytes in [0, 100, 5_000, 60_000, 70_000, 3 * MIB] {
        let sent: Vec<u8> = (0..bytes).map(|at| (at * 7 + bytes) as u8).collect();
        assert_eq!(soon(work.bytes(sent.clone())).await, Ok(sent));
    }
}

/// Does the same through a handle, whose calls block or are awaited.
pub(crate) fn handle_works(work: &WorkHandle) {
    let blocking = work.blocking();
    assert_eq!(blocking.add(3, 4), Ok(7));
    assert_eq!(blocking.bytes(vec![5; 2 * MIB]), Ok(vec![5; 2 * MIB]));
    assert_eq!(block_on(work.add(4, 5)), Ok(9));
    assert_eq!(block_on(work.bytes(vec![6; MIB])), Ok(vec![6; MIB]));
}
