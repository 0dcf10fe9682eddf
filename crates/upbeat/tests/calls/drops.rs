//! Values whose `Drop` panics, wherever the runtime drops them: a panic costs at most the call that it
//! belongs to, the reply that was sent stays the only one, and all panics are counted.

use crate::common::process::{Other, input_ends, say};
use crate::common::server::{KINDS, Kind, Server};
use crate::common::{BEGINS, Directory, Signal, Watchdog, node, soon, until};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use upbeat::{CallError, Counter, Node, Stream, TaskEnded, Waiting, within};

/// A value whose `Drop` panics where it was made, or where it was received.
#[derive(Debug, Default, Serialize, Deserialize, upbeat::Wire)]
struct Bomb {
    number: u64,
    panics_there: bool,
    #[serde(skip, default = "yes")]
    is_there: bool,
    #[serde(skip)]
    panics_here: bool,
}

fn yes() -> bool {
    true
}

impl Bomb {
    fn here(number: u64) -> Bomb {
        Bomb { number, panics_here: true, ..Bomb::default() }
    }

    fn there() -> Bomb {
        Bomb { panics_there: true, ..Bomb::default() }
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        let panics = self.panics_here || self.panics_there && self.is_there;
        // Without the hook: a text for each of these would hide the one of a panic that nobody meant.
        if panics {
            std::panic::resume_unwind(Box::new("dropped, on purpose"));
        }
    }
}

#[upbeat::service]
trait Arsenal {
    /// Holds its argument for ever.
    async fn hold(&self, bomb: Bomb);
    /// Holds its argument for ever, as a one-way message.
    #[oneway]
    async fn hold_oneway(&self, bomb: Bomb);
    /// Holds a bomb in each of two children, and in the body of their scope.
    async fn hold_in_scope(&self);
    /// Returns a bomb, after a wait if `late` is set.
    async fn give(&self, number: u64, late: bool) -> Bomb;
    /// Gives items that panic when they were sent, and a writer that panics when it is dropped.
    async fn items(&self) -> Stream<Bomb>;
    /// Leaves a task whose result panics, and ends a task that holds a bomb.
    async fn tasks(&self);
    /// Computes a bomb that nobody waits for.
    async fn computes(&self);
    /// Handlers that stand here.
    async fn standing(&self) -> u64;
    async fn panics(&self) -> u64;
    async fn nap(&self, ms: u64, value: u64) -> u64;
}

#[derive(Default)]
struct Depot {
    node: RefCell<Option<Node>>,
    standing: Rc<Cell<u64>>,
}

struct Standing(Rc<Cell<u64>>);

impl Drop for Standing {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Depot {
    fn stand(&self) -> Standing {
        self.standing.set(self.standing.get() + 1);
        Standing(Rc::clone(&self.standing))
    }

    fn node(&self) -> Node {
        self.node.borrow().clone().unwrap()
    }
}

impl Arsenal for Depot {
    async fn hold(&self, bomb: Bomb) {
        let _standing = self.stand();
        pending::<()>().await;
        drop(bomb);
    }

    async fn hold_oneway(&self, bomb: Bomb) {
        let _standing = self.stand();
        pending::<()>().await;
        drop(bomb);
    }

    async fn hold_in_scope(&self) {
        let _standing = self.stand();
        let holds = || async {
            let _bomb = Bomb::here(0);
            pending::<()>().await;
        };
        upbeat::scope(async |scope| {
            let _children = [scope.spawn(holds()), scope.spawn(holds())];
            holds().await;
        })
        .await;
    }

    async fn give(&self, number: u64, late: bool) -> Bomb {
        if late {
            upbeat::yield_now().await;
        }
        Bomb::here(number)
    }

    async fn items(&self) -> Stream<Bomb> {
        upbeat::stream(async |sink| {
            let _bomb = Bomb::here(0);
            for number in 0..20 {
                sink.send(Bomb::here(number)).await;
                upbeat::yield_now().await;
            }
            pending::<()>().await;
        })
    }

    async fn tasks(&self) {
        let node = self.node();
        drop(node.spawn(async { Bomb::here(0) }));
        let held = node.spawn(async {
            let _bomb = Bomb::here(0);
            pending::<()>().await;
        });
        upbeat::yield_now().await;
        held.cancel();
        assert_eq!(held.await, Err(TaskEnded::Cancelled));
    }

    async fn computes(&self) {
        let (left, waits) = std::sync::mpsc::channel::<()>();
        let computes = self.node().compute(move || {
            // Nobody waits by then, however late this thread runs.
            waits.recv().unwrap_err();
            Bomb::here(0)
        });
        drop(computes);
        drop(left);
    }

    async fn standing(&self) -> u64 {
        self.standing.get()
    }

    async fn panics(&self) -> u64 {
        self.node().counted(Counter::Panics)
    }

    async fn nap(&self, ms: u64, value: u64) -> u64 {
        upbeat::sleep(Duration::from_millis(ms)).await;
        value
    }
}

/// Serves in this thread until `quit` is given.
fn serve(name: &str, place: &Path, quit: Signal, ready: impl FnOnce()) {
    let node = node(name, place, Waiting::Adaptive);
    let depot = Rc::new(Depot::default());
    *depot.node.borrow_mut() = Some(node.clone());
    node.serve(ArsenalServer::shared(Rc::clone(&depot))).unwrap();
    ready();
    node.block_on(quit);
    node.shut_down(Duration::from_millis(1));
    *depot.node.borrow_mut() = None;
}

/// Plays the part `arsenal NAME`. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let Some(name) = part.strip_prefix("arsenal ") else { return false };
    serve(name, place, input_ends(), || say("serving"));
    true
}

/// A server, and a client's node beside it. Where it ends, the server must not have died.
struct Stand {
    node: Node,
    name: String,
    place: PathBuf,
    _server: Server,
    _directory: Directory,
}

impl Stand {
    fn new(kind: Kind) -> Stand {
        let directory = Directory::new();
        let place = directory.path();
        let own = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let name = format!("arsenal/{own}");
        let other = || Other::start(&format!("arsenal {name}"), &place);
        let (named, at) = (name.clone(), place.clone());
        let server = Server::of(kind, other, move |quit, ready| serve(&named, &at, quit, ready));
        let node = node(&format!("client/{own}"), &place, Waiting::Adaptive);
        Stand { node, name, place, _server: server, _directory: directory }
    }

    async fn client(&self) -> ArsenalClient {
        self.node.connect(&self.name).await.unwrap()
    }
}

/// Waits until so many handlers stand there.
async fn standing(arsenal: &ArsenalClient, count: u64) {
    soon(async {
        while arsenal.standing().await.unwrap() != count {
            upbeat::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Waits until so many panics were counted there; more are wrong.
async fn panicked(arsenal: &ArsenalClient, count: u64) {
    soon(async {
        while arsenal.panics().await.unwrap() < count {
            upbeat::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert_eq!(arsenal.panics().await, Ok(count));
}

#[test]
fn a_handler_that_is_dropped_where_it_waits() {
    let _watchdog = Watchdog::new("dropped handlers");
    for kind in KINDS {
        let stand = Stand::new(kind);
        stand.node.block_on(async {
            let arsenal = stand.client().await;
            let beside = arsenal.clone();
            let beside = stand.node.spawn(async move { beside.nap(50, 3).await });
            // At its deadline.
            let call = arsenal.hold(Bomb::there()).deadline(BEGINS);
            assert_eq!(call.await, Err(CallError::deadline(true)));
            standing(&arsenal, 0).await;
            panicked(&arsenal, 1).await;
            // By its caller.
            let mut call = Box::pin(arsenal.hold(Bomb::there()));
            assert!(within(Duration::from_millis(1), call.as_mut()).await.is_err());
            standing(&arsenal, 1).await;
            drop(call);
            panicked(&arsenal, 2).await;
            // Three more bombs lie in a scope. None of them finds the thread panicking.
            let call = arsenal.hold_in_scope().deadline(BEGINS);
            assert_eq!(call.await, Err(CallError::deadline(true)));
            panicked(&arsenal, 5).await;
            standing(&arsenal, 0).await;
            assert_eq!(beside.await.unwrap(), Ok(3));
        });
        // With its caller's node.
        let caller = node(&format!("{}/gone", stand.node.name()), &stand.place, Waiting::Adaptive);
        caller.block_on(async {
            let arsenal: ArsenalClient = caller.connect(&stand.name).await.unwrap();
            for _ in 0..2 {
                let mut call = Box::pin(arsenal.hold(Bomb::there()));
                assert!(within(Duration::from_millis(1), call.as_mut()).await.is_err());
                std::mem::forget(call);
            }
            arsenal.hold_oneway(Bomb::there()).await.unwrap();
            standing(&arsenal, 3).await;
        });
        drop(caller);
        stand.node.block_on(async {
            let arsenal = stand.client().await;
            // A one-way message outlives its sender.
            standing(&arsenal, 1).await;
            panicked(&arsenal, 7).await;
            assert_eq!(arsenal.nap(0, 4).await, Ok(4));
            // Values that are left when the server ends do no harm either.
            arsenal.hold_oneway(Bomb::there()).await.unwrap();
            standing(&arsenal, 2).await;
        });
        assert_eq!(stand.node.counted(Counter::SessionsLost), 0);
    }
}

#[test]
fn a_result_whose_reply_was_sent() {
    let _watchdog = Watchdog::new("results");
    for kind in KINDS {
        for sampling in [0, 1] {
            let stand = Stand::new(kind);
            stand.node.set_sampling(sampling);
            stand.node.block_on(async {
                let arsenal = stand.client().await;
                let beside = arsenal.clone();
                let beside = stand.node.spawn(async move { beside.nap(50, 3).await });
                for number in 0..10 {
                    // Where it is first polled, and as a task.
                    let given = soon(arsenal.give(number, number % 2 == 0)).await;
                    assert_eq!(given.unwrap().number, number);
                    panicked(&arsenal, number + 1).await;
                }
                // A call with a deadline goes another way.
                let call = arsenal.give(10, false).deadline(Duration::from_secs(20));
                assert_eq!(call.await.unwrap().number, 10);
                panicked(&arsenal, 11).await;
                assert_eq!(beside.await.unwrap(), Ok(3), "innocent calls go on");
            });
            assert_eq!(stand.node.counted(Counter::PeerFaults), 0);
            assert_eq!(stand.node.counted(Counter::SessionsLost), 0);
        }
    }
}

#[test]
fn what_is_left_of_tasks_computations_and_streams() {
    let _watchdog = Watchdog::new("left");
    for kind in KINDS {
        let stand = Stand::new(kind);
        stand.node.block_on(async {
            let arsenal = stand.client().await;
            arsenal.tasks().await.unwrap();
            panicked(&arsenal, 2).await;
            arsenal.computes().await.unwrap();
            panicked(&arsenal, 3).await;
            let mut items = arsenal.items().await.unwrap();
            for number in 0..5 {
                let item = soon(items.next()).await;
                assert_eq!(item.unwrap().unwrap().number, number);
            }
            drop(items);
            // At least those that were read, and the writer.
            soon(async { while arsenal.panics().await.unwrap() < 9 {} }).await;
            assert_eq!(arsenal.nap(0, 4).await, Ok(4));
        });
        assert_eq!(stand.node.counted(Counter::SessionsLost), 0);
    }
}

#[test]
fn a_node_that_ends_while_its_thread_panics() {
    let _watchdog = Watchdog::new("ends");
    let thread = std::thread::spawn(|| {
        let node = Node::builder("drops/ends").local_only().build().unwrap();
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let node = node;
            for _ in 0..3 {
                drop(node.spawn(async {
                    let _bomb = Bomb::here(0);
                    pending::<()>().await;
                }));
            }
            let unread = node.spawn(async { Bomb::here(0) });
            node.block_on(async {
                until(|| node.counted(Counter::TasksInNewSlots) > 0).await;
                upbeat::yield_now().await;
                std::mem::forget(unread);
                panic!("the first");
            })
        }));
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"the first"));
    });
    assert!(thread.join().is_ok());
}

#[test]
fn a_closure_that_is_told_of_a_lost_peer() {
    let _watchdog = Watchdog::new("on_lost");
    let directory = Directory::new();
    let name = directory.path().parent().unwrap().file_name().unwrap().to_owned();
    let name = name.to_str().unwrap();
    let builder = Node::builder(&format!("{name}/told")).program(crate::common::PROGRAM);
    let builder = builder.directory(directory.path()).waiting(Waiting::Adaptive);
    let told = builder.on_lost(|lost| panic!("it was told of {lost}")).build().unwrap();
    told.serve(ArsenalServer::new(Depot::default())).unwrap();
    let quit = Signal::default();
    let (quits, to, place) = (quit.clone(), format!("{name}/told"), directory.path());
    let caller = std::thread::spawn(move || {
        let caller = node(&format!("{to}/caller"), &place, Waiting::Adaptive);
        caller.block_on(async {
            let arsenal: ArsenalClient = caller.connect(&to).await.unwrap();
            assert_eq!(arsenal.nap(0, 1).await, Ok(1));
        });
        drop(caller);
        quits.give();
    });
    told.block_on(async {
        quit.await;
        until(|| told.counted(Counter::SessionsLost) == 1).await;
        until(|| told.counted(Counter::Panics) == 1).await;
    });
    caller.join().unwrap();
}
