//! Contexts: what a handler reads of its call's, and what it carries on.

use crate::common::{Directory, PROGRAM, Signal, Watchdog, node, soon};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use upbeat::{CallError, Context, InPlace, Node, Stream, Waiting};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, upbeat::Wire)]
pub(crate) struct Tenant(pub(crate) u64);

impl Context for Tenant {
    const KEY: &'static str = "tenant";
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
pub(crate) struct Trace(pub(crate) String);

impl Context for Trace {
    const KEY: &'static str = "trace";
}

/// Another type of the same key.
struct Wrong;

impl upbeat::Wire for Wrong {
    fn describe(_: &mut upbeat::wire::Describe) {}

    fn put(&self, out: &mut upbeat::wire::Output<'_>) -> Result<(), upbeat::wire::WireError> {
        out.bytes(&[0xff; 11]);
        Ok(())
    }

    fn take(_: &mut upbeat::wire::Input<'_>) -> Result<Wrong, upbeat::wire::WireError> {
        Ok(Wrong)
    }
}

impl Context for Wrong {
    const KEY: &'static str = "tenant";
}

/// The tenant and the trace that a handler sees.
type Seen = (Option<u64>, Option<String>);

fn seen() -> Seen {
    let trace = upbeat::context::<Trace>().map(|Trace(text)| text);
    (upbeat::context::<Tenant>().map(|Tenant(number)| number), trace)
}

#[upbeat::service]
pub(crate) trait Relay {
    /// Returns the context that the handler sees at once, and after a wait.
    async fn look(&self, filler: Vec<u8>) -> (Seen, Seen);
    #[oneway]
    async fn note(&self, filler: Vec<u8>);
    /// Returns the context that the last message's handler has seen.
    async fn noted(&self) -> Seen;
    /// Returns the contexts that another node sees of calls: plain, with a tenant of its own, alone, from a task, from
    /// a task's task, from a child, and of a one-way message. All of them are made after a wait if `waits` is set.
    async fn through(&self, waits: bool) -> Vec<Seen>;
    /// The bytes, and the tenant.
    async fn keep(&self, bytes: InPlace<u8>) -> (u64, Option<u64>);
    /// Counts what is seen where a stream of arguments is read.
    async fn feed(&self, numbers: Stream<u64>) -> (Seen, u64);
    async fn stream(&self) -> Stream<u64>;
}

#[derive(Default)]
struct Node1 {
    noted: RefCell<Seen>,
    next: RefCell<Option<Rc<RelayClient>>>,
    looks: Cell<u64>,
}

impl Node1 {
    fn next(&self) -> Rc<RelayClient> {
        self.next.borrow().clone().expect("a relay")
    }
}

async fn seen_by(relay: &RelayClient) -> Seen {
    relay.look(vec![]).await.unwrap().0
}

impl Relay for Node1 {
    async fn look(&self, _: Vec<u8>) -> (Seen, Seen) {
        let at_once = seen();
        self.looks.set(self.looks.get() + 1);
        upbeat::yield_now().await;
        (at_once, seen())
    }

    async fn note(&self, _: Vec<u8>) {
        *self.noted.borrow_mut() = seen();
    }

    async fn noted(&self) -> Seen {
        assert_eq!(seen(), (None, None), "of the message before");
        self.noted.borrow().clone()
    }

    async fn through(&self, waits: bool) -> Vec<Seen> {
        let next = self.next();
        if waits {
            upbeat::yield_now().await;
        }
        let mut all = vec![seen_by(&next).await];
        all.push(next.look(vec![]).with(&Tenant(9)).await.unwrap().0);
        all.push(next.look(vec![]).without_context().await.unwrap().0);
        all.push(next.look(vec![]).with(&Tenant(9)).without_context().await.unwrap().0);
        let spawned = upbeat::spawn({
            let next = Rc::clone(&next);
            async move {
                upbeat::yield_now().await;
                let first = seen_by(&next).await;
                let second = upbeat::spawn(async move { seen_by(&next).await });
                [first, second.await.unwrap()]
            }
        });
        all.extend(spawned.await.unwrap());
        let child = upbeat::scope(async |scope| {
            let child = scope.spawn(seen_by(&next));
            child.await
        });
        all.push(child.await);
        next.note(vec![]).await.unwrap();
        all.push(next.noted().without_context().await.unwrap());
        all
    }

    async fn keep(&self, bytes: InPlace<u8>) -> (u64, Option<u64>) {
        (bytes.to_vec().iter().map(|byte| u64::from(*byte)).sum(), seen().0)
    }

    async fn feed(&self, mut numbers: Stream<u64>) -> (Seen, u64) {
        let mut sum = 0;
        while let Some(number) = numbers.next().await {
            sum += number.unwrap();
        }
        (seen(), sum)
    }

    async fn stream(&self) -> Stream<u64> {
        let Tenant(of) = upbeat::context().unwrap_or(Tenant(0));
        Stream::of(0..of)
    }
}

/// Runs a test against two nodes, of which the first calls the second.
fn with_relays(what: &'static str, test: impl AsyncFn(&RelayClient, &Path, &str)) {
    let _watchdog = Watchdog::new(what);
    let directory = Directory::new();
    let place = directory.path();
    let name = format!("{what}/{}", place.parent().unwrap().file_name().unwrap().display());
    let quit = Signal::default();
    std::thread::scope(|scope| {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let serve = |role: &'static str, next: Option<String>| {
            let (place, quit, ready) = (place.clone(), quit.clone(), ready.clone());
            let name = format!("{name}/{role}");
            scope.spawn(move || {
                let node = node(&name, &place, Waiting::Adaptive);
                let relay = Rc::new(Node1::default());
                node.serve(RelayServer::shared(Rc::clone(&relay))).unwrap();
                node.block_on(async {
                    if let Some(next) = next {
                        let client: RelayClient = node.connect(&next).await.unwrap();
                        *relay.next.borrow_mut() = Some(Rc::new(client));
                    }
                    ready.send(()).unwrap();
                    quit.await;
                });
            });
        };
        serve("last", None);
        is_ready.recv().unwrap();
        serve("first", Some(format!("{name}/last")));
        is_ready.recv().unwrap();
        let own: Node = node(&format!("{name}/client"), &place, Waiting::Adaptive);
        let first = format!("{name}/first");
        own.block_on(soon(async {
            let relay: RelayClient = own.connect(&first).await.unwrap();
            test(&relay, &place, &first).await;
        }));
        quit.give();
    });
}

fn of(tenant: u64, trace: &str) -> Seen {
    (Some(tenant), Some(trace.to_owned()))
}

#[test]
fn a_context_travels_with_messages_of_every_length_and_with_no_others() {
    with_relays("context", async |relay, _, _| {
        let both = of(7, "t");
        for bytes in [0, 40, 60, 90, 200, 5_000, 70_000, 3 << 20] {
            let filler = || vec![1; bytes];
            let call = relay.look(filler()).with(&Tenant(7)).with(&Trace("t".into()));
            assert_eq!(call.await, Ok((both.clone(), both.clone())), "{bytes}");
            assert_eq!(relay.look(filler()).await.unwrap().1, (None, None), "{bytes}");
            let late = Duration::from_secs(20);
            let call = relay.look(filler()).deadline(late).extendable(late).with(&Tenant(8));
            assert_eq!(call.await.unwrap().1, (Some(8), None), "{bytes}");
            relay.note(filler()).with(&Trace("n".into())).await.unwrap();
            assert_eq!(relay.noted().await, Ok((None, Some("n".into()))), "{bytes}");
            relay.note(filler()).await.unwrap();
            assert_eq!(relay.noted().await, Ok((None, None)), "{bytes}");
        }
        let twice = relay.look(vec![]).with(&Tenant(1)).with(&Tenant(2));
        assert_eq!(twice.await.unwrap().0, (Some(2), None));
        let sent = relay.look(vec![]).with(&Tenant(3)).try_send().unwrap();
        assert_eq!(sent.await.unwrap().0, (Some(3), None));
        relay.note(vec![]).with(&Tenant(4)).try_send().unwrap();
        assert_eq!(relay.noted().await, Ok((Some(4), None)));
        // As many messages are built in place as there are buffers: a context takes none beside theirs.
        let loans = (0..8).map(async |number| {
            let loan = relay.loan_keep(300_000);
            let Ok(Ok(mut loan)) = upbeat::within(Duration::from_millis(20), loan).await else {
                return;
            };
            loan.write_at(0, &[1; 300_000]);
            upbeat::sleep(Duration::from_millis(30)).await;
            let sent = loan.send().with(&Tenant(number)).await;
            assert_eq!(sent, Ok((300_000, Some(number))));
        });
        upbeat::all(loans).await;
        // Many at once: some wait for room, and are sent again.
        let many = (0..300).map(|number| relay.look(vec![2; 20_000]).with(&Tenant(number)));
        for (number, looked) in upbeat::all(many).await.into_iter().enumerate() {
            assert_eq!(looked.unwrap().1, (Some(number as u64), None));
        }
    });
}

#[test]
fn what_a_handler_calls_has_its_context_and_what_is_given_besides() {
    with_relays("carry", async |relay, _, _| {
        let (both, alone) = (of(7, "t"), (None, None));
        let own = (Some(9), Some("t".to_owned()));
        let expected = vec![
            both.clone(),
            own,
            alone.clone(),
            (Some(9), None),
            both.clone(),
            both.clone(),
            both.clone(),
            both,
        ];
        for waits in [false, true] {
            let calls = relay.through(waits).with(&Tenant(7)).with(&Trace("t".into()));
            assert_eq!(calls.await.as_ref(), Ok(&expected), "{waits}");
            let plain = relay.through(waits).await.unwrap();
            assert_eq!(plain[0], alone, "{waits}");
            assert_eq!(plain[1], (Some(9), None), "{waits}");
            assert_eq!(plain[4..], [(); 4].map(|()| alone.clone()), "{waits}");
        }
    });
}

#[test]
fn a_context_travels_with_calls_that_open_streams_and_through_handles() {
    with_relays("ways", async |relay, place, name| {
        let fed = relay.feed(Stream::of(0..10)).with(&Tenant(5)).await;
        assert_eq!(fed, Ok(((Some(5), None), 45)));
        let mut numbers = relay.stream().with(&Tenant(3)).await.unwrap();
        let mut count = 0;
        while numbers.next().await.is_some() {
            count += 1;
        }
        assert_eq!(count, 3);
        let handle = || -> RelayHandle {
            upbeat::handle::builder().program(PROGRAM).directory(place).connect(name).unwrap()
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let handle = handle();
                let blocking = handle.blocking().with(&Tenant(1)).with(&Trace("b".into()));
                for bytes in [0, 300, 100_000] {
                    assert_eq!(blocking.look(vec![0; bytes]).unwrap().1, of(1, "b"));
                }
                blocking.note(vec![]).unwrap();
                assert_eq!(handle.blocking().noted(), Ok(of(1, "b")));
                crate::common::block_on(async {
                    let call = handle.look(vec![]).with(&Tenant(2));
                    assert_eq!(call.await.unwrap().1, (Some(2), None));
                    assert_eq!(handle.look(vec![]).await.unwrap().1, (None, None));
                    handle.note(vec![]).with(&Tenant(3)).await.unwrap();
                });
            });
        });
    });
}

#[test]
fn a_context_that_cannot_travel_or_be_read_is_told_of() {
    with_relays("bounds", async |relay, _, _| {
        let long = relay.look(vec![]).with(&Trace("x".repeat(5000))).await.unwrap_err();
        let CallError::Context { text, .. } = &long else { panic!("{long:?}") };
        assert!(text.contains("`trace`") && text.contains("4096"), "{long}");
        assert!(!long.may_have_run());
        let long = relay.note(vec![]).with(&Trace("x".repeat(5000))).await;
        assert!(matches!(long, Err(CallError::Context { .. })), "{long:?}");
        let looked = relay.look(vec![]).with(&Wrong).with(&Trace("t".into())).await;
        assert_eq!(looked.unwrap().0, (None, Some("t".into())));
        assert_eq!(relay.look(vec![]).with(&Tenant(7)).await.unwrap().0, (Some(7), None));
    });
}
