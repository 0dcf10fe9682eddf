//! Handlers that call: what waits for whom when a slot serves one handler after another.

use super::{Alone, Gate, local, settle};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use upbeat::{CallError, Node, spawn};

#[upbeat::service]
trait Far {
    async fn next(&self) -> u64;
}

/// Counts its calls, and may keep them waiting.
#[derive(Clone, Default)]
struct Counting {
    calls: Rc<Cell<u64>>,
    gate: Gate,
}

impl Far for Counting {
    async fn next(&self) -> u64 {
        self.gate.pass().await;
        self.calls.set(self.calls.get() + 1);
        self.calls.get()
    }
}

#[upbeat::service]
trait Between {
    async fn relay(&self) -> u64;
    async fn mixed(&self, what: u8) -> u64;
}

type Call = Pin<Box<dyn Future<Output = Result<u64, CallError>>>>;

/// Calls the far node in each of its calls.
#[derive(Clone)]
struct Relaying {
    far: Rc<FarClient>,
    gate: Gate,
    /// The result of the call that a handler has handed on.
    handed_on: Rc<Cell<Option<u64>>>,
    wakers: Rc<RefCell<Vec<Waker>>>,
    polls: Rc<Cell<u32>>,
}

const HANDS_ON: u8 = 0;
const WAITS: u8 = 1;
const WAKES_ITSELF: u8 = 2;

impl Relaying {
    /// Sends a call in its first poll, and has a task of its own wait for the reply.
    async fn hand_on(&self) {
        let far = Rc::clone(&self.far);
        let mut call: Call = Box::pin(async move { far.next().await });
        poll_fn(|context| {
            assert!(call.as_mut().poll(context).is_pending(), "the far node was not turned");
            Poll::Ready(())
        })
        .await;
        let (handed_on, gate) = (Rc::clone(&self.handed_on), self.gate.clone());
        drop(spawn(async move {
            gate.pass().await;
            handed_on.set(Some(call.await.expect("a reply")));
        }));
    }

    /// Wakes itself three times in its first poll.
    async fn wake_itself(&self) {
        poll_fn(|context| {
            self.polls.set(self.polls.get() + 1);
            if self.polls.get() > 1 {
                return Poll::Ready(());
            }
            (0..3).for_each(|_| context.waker().wake_by_ref());
            self.wakers.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Between for Relaying {
    async fn relay(&self) -> u64 {
        self.far.next().await.expect("a reply")
    }

    async fn mixed(&self, what: u8) -> u64 {
        match what {
            HANDS_ON => self.hand_on().await,
            WAITS => return self.far.next().await.expect("a reply"),
            WAKES_ITSELF => self.wake_itself().await,
            _ => {}
        }
        0
    }
}

/// A client, the node between, and the far node, which take turns.
struct Three {
    nodes: [Node; 3],
    near: Rc<BetweenClient>,
    between: Relaying,
    far: Counting,
    _alone: Alone,
}

impl Three {
    fn new(names: [&'static str; 3]) -> Three {
        let (alone, client) = local(names[0]);
        let make = |name| Node::builder(name).program("tasks").local_only().build().unwrap();
        let nodes = [client, make(names[1]), make(names[2])];
        let far = Counting::default();
        far.gate.open();
        nodes[2].serve(FarServer::new(far.clone())).unwrap();
        let client: FarClient = connected(&nodes, 1, async move |node| {
            node.connect(names[2]).await.expect("a connection")
        });
        let between = Relaying {
            far: Rc::new(client),
            gate: Gate::default(),
            handed_on: Rc::default(),
            wakers: Rc::default(),
            polls: Rc::default(),
        };
        nodes[1].serve(BetweenServer::new(between.clone())).unwrap();
        let near: BetweenClient = connected(&nodes, 0, async move |node| {
            node.connect(names[1]).await.expect("a connection")
        });
        let near = Rc::new(near);
        Three { nodes, near, between, far, _alone: alone }
    }

    /// Turns all nodes until nothing is left to do.
    fn settle(&self) {
        while self.nodes.iter().any(Node::turn) {}
    }

    /// Makes a call. Returns where its result will be.
    fn call(&self, what: u8) -> Rc<Cell<Option<u64>>> {
        let (near, result) = (Rc::clone(&self.near), Rc::new(Cell::new(None)));
        let place = Rc::clone(&result);
        drop(self.nodes[0].spawn(async move {
            place.set(Some(near.mixed(what).await.expect("a reply")));
        }));
        result
    }
}

/// Turns all nodes until one of them is connected.
fn connected<C: 'static>(
    nodes: &[Node],
    at: usize,
    connect: impl AsyncFn(Node) -> C + 'static,
) -> C {
    let connected = Rc::new(RefCell::new(None));
    let (place, node) = (Rc::clone(&connected), nodes[at].clone());
    drop(nodes[at].spawn(async move {
        let client = connect(node).await;
        *place.borrow_mut() = Some(client);
    }));
    while connected.borrow().is_none() {
        nodes.iter().for_each(settle);
    }
    connected.take().expect("a client")
}

#[test]
fn a_reply_reaches_a_call_whose_handler_has_ended_while_the_next_one_waits() {
    let three = Three::new(["nested/hand/near", "nested/hand/between", "nested/hand/far"]);
    // One handler of the method has been a task before.
    let first = three.call(WAITS);
    three.settle();
    assert_eq!(first.get(), Some(1));
    three.far.gate.shut();
    let handed = three.call(HANDS_ON);
    three.settle();
    assert_eq!((handed.get(), three.between.handed_on.get()), (Some(0), None));
    let waits = three.call(WAITS);
    three.settle();
    assert_eq!(waits.get(), None);
    // Both replies come; the call that was handed on is polled later.
    three.far.gate.open();
    three.settle();
    assert_eq!((waits.get(), three.between.handed_on.get()), (Some(3), None));
    three.between.gate.open();
    three.settle();
    assert_eq!(three.between.handed_on.get(), Some(2));
}

#[test]
fn a_handler_that_wakes_itself_in_its_first_poll_is_polled_once_more() {
    let three = Three::new(["nested/wake/near", "nested/wake/between", "nested/wake/far"]);
    let call = three.call(WAKES_ITSELF);
    three.settle();
    assert_eq!((call.get(), three.between.polls.get()), (Some(0), 2));
    // Its waker is of a handler that has ended: the next one of the slot is not ended by it.
    three.far.gate.shut();
    let next = three.call(WAITS);
    three.settle();
    three.between.wakers.take().into_iter().for_each(Waker::wake);
    three.settle();
    assert_eq!(next.get(), None);
    three.far.gate.open();
    three.settle();
    assert_eq!(next.get(), Some(1));
}
