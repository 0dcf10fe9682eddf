//! Every kind of argument and result.

use crate::common::Watchdog;
use crate::common::server::{KINDS, Stand};
use crate::common::work::{Division, Point, Record, WorkClient};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use upbeat::error::Called;
use upbeat::wire::{Serde, Wire};
use upbeat::{CallError, Node, Waiting};
use upbeat_core::frame::FailCode;
use upbeat_core::limits::MESSAGE_BYTES_MAX;
use upbeat_memory::probe::{Count, tally};

const POLICIES: [Waiting; 2] = [Waiting::Adaptive, Waiting::Sleeping];

#[test]
fn a_main_that_returns_an_error_prints_a_readable_text() {
    let shown = |error: CallError<Division>| format!("{error:?}");
    assert_eq!(shown(CallError::Method(Division::NotWhole { rest: 1 })), "NotWhole { rest: 1 }");
    let refused = CallError::Refused { text: "no".into(), called: Called::default() };
    assert_eq!(shown(refused), "the callee refused the call: no (CallError::Refused)");
}

/// A text of the peer does what it likes to no terminal and no log.
#[test]
fn texts_of_the_peer_are_escaped() {
    let (text, called) = (Box::<str>::from("\u{1b}[2Jno\nnew line"), Called::default());
    let errors = [
        CallError::<Infallible>::Refused { text: text.clone(), called: called.clone() },
        CallError::Stream { text: text.clone(), called: called.clone() },
        CallError::Failed { code: FailCode::Panicked, text, called },
    ];
    for error in errors {
        let shown = error.to_string();
        assert!(shown.contains("[2Jno") && !shown.contains(char::is_control), "{shown:?}");
    }
}

/// A value that takes long to read.
struct Slow;

impl Serialize for Slow {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u8(1)
    }
}

impl<'de> Deserialize<'de> for Slow {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Slow, D::Error> {
        std::thread::sleep(2 * TIME_OF_A_CALL);
        u8::deserialize(from).map(|_| Slow)
    }
}

/// The time that the caller of a slow value has.
const TIME_OF_A_CALL: Duration = Duration::from_millis(150);

/// Takes slow values.
#[upbeat::service]
trait Takes {
    async fn slow(&self, value: Serde<Slow>);
}

struct Counts(Rc<Cell<u32>>);

impl Takes for Counts {
    async fn slow(&self, _: Serde<Slow>) {
        self.0.set(self.0.get() + 1);
    }
}

/// The time in which arguments are read counts: no handler begins when it has passed.
#[test]
fn a_deadline_ends_within_long_arguments() {
    let _watchdog = Watchdog::new("deadlines of long arguments");
    let node = Node::builder("calls/slow").local_only().build().unwrap();
    let begun = Rc::new(Cell::new(0));
    node.serve(TakesServer::new(Counts(Rc::clone(&begun)))).unwrap();
    node.block_on(async {
        let takes: TakesClient = node.connect("calls/slow").await.unwrap();
        assert_eq!(takes.slow(Serde(Slow)).await, Ok(()));
        let late = takes.deadline(TIME_OF_A_CALL).slow(Serde(Slow)).await;
        assert!(matches!(late, Err(CallError::Deadline(_))), "{late:?}");
        assert_eq!(takes.slow(Serde(Slow)).await, Ok(()));
        assert_eq!(begun.get(), 2);
    });
}

fn with_each(test: impl AsyncFn(&WorkClient)) {
    for kind in KINDS {
        for waiting in POLICIES {
            let stand = Stand::new(kind, waiting);
            stand.node.block_on(async {
                let work: WorkClient = stand.node.connect(&stand.name()).await.unwrap();
                test(&work).await;
            });
        }
    }
}

fn record(depth: u32) -> Record {
    let inner = (depth > 0).then(|| Box::new(record(depth - 1)));
    Record { name: "ü".repeat(depth as usize), numbers: (0..depth).collect(), inner }
}

#[test]
fn values_of_every_form() {
    let _watchdog = Watchdog::new("values");
    with_each(async |work| {
        work.null().await.unwrap();
        assert_eq!(work.add(40, 2).await, Ok(42));
        let point = Point { x: f64::MIN_POSITIVE, y: -0.5 };
        assert_eq!(work.point(point).await, Ok(Point { x: point.y, y: point.x }));
        for text in ["", "a", "seven b", "eight by", "naïve", &"x".repeat(5000)] {
            assert_eq!(work.text(text.to_owned()).await.as_deref(), Ok(text));
        }
        for depth in [0, 1, 7, 30] {
            assert_eq!(work.record(record(depth)).await, Ok(record(depth)));
        }
        assert_eq!(work.divide(6, 3).await, Ok(2));
        assert_eq!(work.divide(6, 0).await, Err(CallError::Method(Division::ByZero)));
        let rest = CallError::Method(Division::NotWhole { rest: 2 });
        assert_eq!(work.divide(6, 4).await, Err(rest));
    });
}

#[test]
fn bytes_of_every_length() {
    let _watchdog = Watchdog::new("lengths");
    with_each(async |work| {
        let kib = std::array::from_fn(|at| at as u8);
        assert_eq!(work.kib(kib).await, Ok(kib));
        let page = std::array::from_fn(|at| (at / 7) as u8);
        assert_eq!(work.page(page).await, Ok(page));
        let around = [8, 32, 40, 64, 96, 1024, 3800, 3840, 4096, 8192, 60_000, 65_536, 100 << 10];
        let around = around.iter().flat_map(|bytes| [bytes - 1, *bytes, bytes + 1]);
        for bytes in around.chain([0, 500_000, 5 << 20]) {
            let sent: Vec<u8> = (0..bytes).map(|at| (at * 31) as u8).collect();
            assert!(work.bytes(sent.clone()).await.unwrap() == sent, "{bytes} bytes");
        }
    });
}

#[test]
fn messages_that_are_too_large() {
    let _watchdog = Watchdog::new("too large");
    with_each(async |work| {
        let most = MESSAGE_BYTES_MAX;
        let error = work.bytes(vec![0; most]).await.unwrap_err();
        assert_eq!(error, CallError::TooLarge { bytes: most + 8, most, called: Called::default() });
        assert!(!error.may_have_run());
        let error = work.blob(most as u64).await.unwrap_err();
        assert!(matches!(error, CallError::Failed { code: FailCode::TooLarge, .. }), "{error}");
        assert!(error.to_string().contains(&most.to_string()), "{error}");
        // Neither has hurt the session.
        assert_eq!(work.add(1, 2).await, Ok(3));
        assert_eq!(work.noted().await, Ok((0, 0, 0)));
        let long = 24 << 20;
        assert_eq!(work.blob(long).await.map(|bytes| bytes.len() as u64), Ok(long));
    });
}

#[test]
fn a_result_is_read_where_it_lies() {
    let _watchdog = Watchdog::new("in place");
    with_each(async |work| {
        const { assert!(<(u64, u64)>::BYTES_LIKELY == 16 && Point::PLAIN) };
        for n in 0..10_000 {
            assert_eq!(work.add(n, n).await, Ok(2 * n));
        }
    });
}

/// Serde reads all values of a sequence from one copy: the time for them grows with their number, and not with its square.
#[test]
fn a_sequence_of_values_that_serde_reads_is_copied_once() {
    let _watchdog = Watchdog::new("sequences");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        let copies = |count: u64| {
            stand.node.block_on(async {
                let work: WorkClient = stand.node.connect(&stand.name()).await.unwrap();
                let before = tally()[Count::Copies as usize];
                let naps = work.naps(count).await.unwrap();
                assert!(naps.iter().map(Duration::as_nanos).eq(0..u128::from(count)));
                tally()[Count::Copies as usize] - before
            })
        };
        // In the lane, and in a buffer.
        for (few, many) in [(2, 100), (10_000, 100_000)] {
            let (few, many) = (copies(few), copies(many));
            assert!(many <= few + 10, "{few} and {many} copies");
        }
    }
}
