//! Layers: what they see, refuse and observe; and how many handlers of a service run at once.

use crate::common::{Directory, PROGRAM, Signal, Watchdog, node, soon, yield_now};
use crate::context::carried::Tenant;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use upbeat::error::{Called, FailCode};
use upbeat::{CallError, CallInfo, Counter, Layer, Next, Node, Outcome, Refusal, Waiting};

#[upbeat::service]
pub(crate) trait Shop {
    async fn buy(&self, n: u64) -> Result<u64, String>;
    /// Waits until the gate opens, and gives how many handlers stood there at most.
    async fn wait(&self, n: u64) -> u64;
    async fn panic(&self);
    #[oneway]
    async fn note(&self, n: u64);
    #[oneway]
    async fn hang(&self);
}

/// Opens the gate of [`Shop::wait`].
#[upbeat::service]
trait Gatekeeper {
    async fn greet(&self);
    async fn open(&self);
}

struct Keeper(Rc<Counts>);

impl Gatekeeper for Keeper {
    async fn greet(&self) {}

    async fn open(&self) {
        self.0.open.set(true);
    }
}

#[derive(Default)]
struct Counts {
    ran: RefCell<Vec<u64>>,
    standing: Cell<u64>,
    most: Cell<u64>,
    open: Cell<bool>,
}

/// Counts while a handler stands.
struct Standing<'a>(&'a Counts);

impl Counts {
    fn stand(&self) -> Standing<'_> {
        self.standing.set(self.standing.get() + 1);
        self.most.set(self.most.get().max(self.standing.get()));
        Standing(self)
    }

    fn ran(&self) -> Vec<u64> {
        self.ran.borrow().clone()
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.0.standing.set(self.0.standing.get() - 1);
    }
}

impl Shop for Counts {
    async fn buy(&self, n: u64) -> Result<u64, String> {
        let _standing = self.stand();
        self.ran.borrow_mut().push(n);
        if n == 13 { Err("not that".into()) } else { Ok(n) }
    }

    async fn wait(&self, n: u64) -> u64 {
        let _standing = self.stand();
        self.ran.borrow_mut().push(n);
        while !self.open.get() {
            upbeat::sleep(Duration::from_millis(1)).await;
        }
        self.most.get()
    }

    async fn panic(&self) {
        panic!("as it should");
    }

    async fn note(&self, n: u64) {
        let _standing = self.stand();
        self.ran.borrow_mut().push(n);
    }

    async fn hang(&self) {
        let _standing = self.stand();
        std::future::pending().await
    }
}

/// The log of the layers: the name of the layer, the subject, and the outcome.
type Log = Arc<Mutex<Vec<(&'static str, String, Option<Outcome>)>>>;

/// Lets a tenant through, unless it is 0. Waits a little for an odd one.
struct Gate(&'static str, Log);

impl Gate {
    fn log(&self, call: &CallInfo, outcome: Option<Outcome>) {
        self.1.lock().unwrap().push((self.0, call.method().to_owned(), outcome));
    }
}

impl Layer for Gate {
    async fn around(&self, call: &CallInfo, next: Next<'_>) -> Result<(), Refusal> {
        assert_eq!(call.service(), "Shop");
        assert_eq!(call.is_oneway(), ["note", "hang"].contains(&call.method()));
        self.log(call, None);
        match call.context::<Tenant>() {
            None if self.0 == "outer" => Err(Refusal::new("no tenant")),
            Some(Tenant(0)) if self.0 == "inner" => Err(Refusal::new("not this tenant")),
            Some(Tenant(1)) => panic!("of the layer"),
            Some(Tenant(2)) => Ok(()),
            Some(Tenant(odd)) if odd % 2 == 1 => {
                yield_now().await;
                assert_eq!(upbeat::context::<Tenant>(), Some(Tenant(odd)));
                next.run().await
            }
            // A time limit.
            Some(Tenant(10)) if self.0 == "inner" => {
                let within = upbeat::within(Duration::from_millis(1), next.run()).await;
                within.unwrap_or_else(|_| Err(Refusal::new("too slow")))
            }
            // A refusal that comes too late.
            Some(Tenant(4)) => next.run().await.and(Err(Refusal::new("too late"))),
            _ => next.run().await,
        }
    }

    fn ended(&self, call: &CallInfo, outcome: Outcome, took: Duration) {
        assert!(took < Duration::from_secs(60));
        self.log(call, Some(outcome));
        if call.context() == Some(Tenant(6)) {
            panic!("of what observes");
        }
    }
}

/// Runs a server in another thread, and a test against it in a node of this one.
fn against(
    what: &'static str,
    serve: impl FnOnce(&Node) -> Rc<Counts> + Send,
    test: impl AsyncFn(&Node, &ShopClient, &Path, &str),
    then: impl FnOnce(&Node, &Counts) + Send,
) {
    let _watchdog = Watchdog::new(what);
    let directory = Directory::new();
    let place = directory.path();
    let name = format!("{what}/{}", place.parent().unwrap().file_name().unwrap().display());
    let quit = Signal::default();
    std::thread::scope(|scope| {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (at, own, stop) = (place.clone(), name.clone(), quit.clone());
        scope.spawn(move || {
            let node = node(&own, &at, Waiting::Adaptive);
            let counts = serve(&node);
            ready.send(()).unwrap();
            node.block_on(stop);
            then(&node, &counts);
        });
        is_ready.recv().unwrap();
        let own = node(&format!("{name}/client"), &place, Waiting::Adaptive);
        own.block_on(soon(async {
            let shop: ShopClient = own.connect(&name).await.unwrap();
            test(&own, &shop, &place, &name).await;
        }));
        quit.give();
    });
}

fn refused<T, E>(text: &str) -> Result<T, CallError<E>> {
    Err(CallError::Refused { text: text.into(), called: Called::default() })
}

#[test]
fn layers_let_through_refuse_and_observe_in_the_order_in_which_they_are_written() {
    let log = Log::default();
    let layer = |name| Gate(name, Arc::clone(&log));
    against(
        "layers",
        |node| {
            let counts = Rc::new(Counts::default());
            let server = ShopServer::shared(Rc::clone(&counts));
            node.serve(server.layer(layer("outer")).layer(layer("inner"))).unwrap();
            counts
        },
        async |_, shop, place, name| {
            assert_eq!(shop.buy(1).with(&Tenant(3)).await, Ok(1));
            assert_eq!(shop.buy(2).with(&Tenant(8)).await, Ok(2));
            let fails = shop.buy(13).with(&Tenant(8)).await;
            assert_eq!(fails, Err(CallError::Method("not that".into())));
            assert_eq!(shop.buy(3).await, refused("no tenant"));
            let denied = shop.buy(3).with(&Tenant(0)).await;
            assert_eq!(denied, refused("not this tenant"));
            assert!(!denied.unwrap_err().may_have_run());
            let none = "a layer of the service ended the call without running its method";
            assert_eq!(shop.buy(3).with(&Tenant(2)).await, refused(none));
            assert_eq!(shop.buy(4).with(&Tenant(4)).await, Ok(4));
            assert_eq!(shop.buy(6).with(&Tenant(6)).await, Ok(6));
            for tenant in [1, 8, 9] {
                let panicked = shop.panic().with(&Tenant(tenant)).await.unwrap_err();
                assert!(panicked.to_string().contains("the handler panicked"), "{panicked}");
            }
            shop.note(3).await.unwrap();
            shop.note(5).with(&Tenant(8)).await.unwrap();
            let late = shop.wait(7).with(&Tenant(8)).deadline(Duration::from_millis(20)).await;
            assert_eq!(late, Err(CallError::deadline(true)));
            let slow = shop.wait(10).with(&Tenant(10)).await.unwrap_err();
            assert!(matches!(
                &slow,
                CallError::Failed { code: FailCode::Aborted, text, .. } if &**text == "too slow"
            ));
            assert!(slow.may_have_run(), "the method had begun: {slow}");
            assert_eq!(shop.buy(8).with(&Tenant(3)).await, Ok(8));
            let (place, name) = (place.to_owned(), name.to_owned());
            let through = std::thread::spawn(move || {
                let handle = upbeat::handle::builder().program(PROGRAM).directory(&place);
                let shop: ShopHandle = handle.connect(&name).unwrap();
                assert_eq!(shop.blocking().buy(3), refused("no tenant"));
                assert_eq!(shop.blocking().with(&Tenant(3)).buy(9), Ok(9));
            });
            through.join().unwrap();
        },
        |node, counts| {
            assert_eq!(counts.ran(), [1, 2, 13, 4, 6, 5, 7, 10, 8, 9]);
            assert!(node.counted(Counter::Panics) >= 4);
        },
    );
    let log = log.lock().unwrap();
    let of = |at: usize| [0, 1, 2, 3].map(|next| (log[at + next].0, log[at + next].2));
    let both = |outcome| {
        let ended = Some(outcome);
        [("outer", None), ("inner", None), ("inner", ended), ("outer", ended)]
    };
    assert_eq!(of(0), both(Outcome::Replied), "a layer that waits");
    assert_eq!(of(4), both(Outcome::Replied));
    assert_eq!(of(8), both(Outcome::Failed));
    assert_eq!((log[12].2, log[13].2), (None, Some(Outcome::Refused)), "by the outer one alone");
    assert_eq!(of(14), both(Outcome::Refused));
    let count = |layer: &'static str, method: &str, outcome| {
        log.iter().filter(|seen| **seen == (layer, method.to_owned(), Some(outcome))).count()
    };
    // Two of the method; one of the outer layer, which the inner one does not see.
    assert_eq!(count("inner", "panic", Outcome::Panicked), 2);
    assert_eq!(count("outer", "panic", Outcome::Panicked), 3);
    assert_eq!(count("outer", "wait", Outcome::Cancelled), 1);
    assert_eq!(
        (count("inner", "wait", Outcome::Aborted), count("outer", "wait", Outcome::Aborted)),
        (1, 1)
    );
    assert_eq!(count("outer", "note", Outcome::Refused), 1);
    assert_eq!(count("inner", "note", Outcome::Replied), 1);
    assert_eq!(count("outer", "buy", Outcome::Refused), 4);
    let begun = log.iter().filter(|seen| seen.2.is_none()).count();
    assert_eq!(begun * 2, log.len(), "each that has begun has ended, once");
}

#[test]
fn no_more_handlers_run_at_once_than_a_service_allows() {
    against(
        "limit",
        |node| {
            let counts = Rc::new(Counts::default());
            node.serve(ShopServer::shared(Rc::clone(&counts)).max_concurrent(3)).unwrap();
            node.serve(GatekeeperServer::new(Keeper(Rc::clone(&counts)))).unwrap();
            counts
        },
        async |own, shop, _, name| {
            let keeper: GatekeeperClient = own.connect(name).await.unwrap();
            let many = upbeat::all((0..20).map(|n| shop.wait(n)));
            let late = async {
                yield_now().await;
                let late = shop.wait(100).deadline(Duration::from_millis(5)).await;
                assert_eq!(late, Err(CallError::deadline(true)));
                // A waiting call that is cancelled gives its place up.
                let waits = upbeat::within(Duration::from_millis(1), shop.wait(101)).await;
                assert!(waits.is_err());
                drop(waits);
                // A cancel may go behind the next call, and goes before the one behind its answer.
                keeper.greet().await.unwrap();
                // Three stand by now, and of the others none has begun.
                keeper.open().await.unwrap();
            };
            let noted = async {
                yield_now().await;
                shop.note(200).await.unwrap();
            };
            let (many, _, _) = three(many, late, noted).await;
            assert!(many.into_iter().all(|most| most == Ok(3)));
            assert_eq!(shop.buy(13).await, Err(CallError::Method("not that".into())));
            for _ in 0..3 {
                assert!(shop.panic().await.is_err());
            }
            assert_eq!(shop.buy(300).await, Ok(300));
        },
        |_, counts| {
            let mut in_order = (0..20).collect::<Vec<_>>();
            in_order.extend([200, 13, 300]);
            assert_eq!(counts.ran(), in_order);
            assert_eq!((counts.most.get(), counts.standing.get()), (3, 0));
        },
    );
}

/// Awaits three futures of different kinds.
async fn three<A, B: Future<Output = ()>, C: Future<Output = ()>>(
    a: impl Future<Output = A>,
    b: B,
    c: C,
) -> (A, (), ()) {
    upbeat::scope(async |scope| {
        let (b, c) = (scope.spawn(b), scope.spawn(c));
        (a.await, b.await, c.await)
    })
    .await
}

#[test]
fn a_limit_holds_behind_layers_and_for_messages_whose_sender_is_gone() {
    against(
        "mixed",
        |node| {
            let counts = Rc::new(Counts::default());
            let log = Log::default();
            let server = ShopServer::shared(Rc::clone(&counts)).max_concurrent(1);
            node.serve(server.layer(Gate("outer", log))).unwrap();
            counts
        },
        async |_, shop, _, _| {
            shop.hang().with(&Tenant(8)).await.unwrap();
            let waits = shop.buy(1).with(&Tenant(8)).deadline(Duration::from_millis(20)).await;
            assert_eq!(waits, Err(CallError::deadline(true)));
            // A refused call takes no place and waits for none.
            assert_eq!(shop.buy(2).await, refused("no tenant"));
        },
        |_, counts| assert_eq!((counts.ran(), counts.most.get()), (vec![], 1)),
    );
}
