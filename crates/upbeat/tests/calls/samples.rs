//! Sampled messages: what is written down of them, where, and what is not.

use crate::common::server::{KINDS, Kind, Stand};
use crate::common::work::{Division, WorkClient, WorkHandle};
use crate::common::{PROGRAM, Watchdog, block_on, over_network, until};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use upbeat::{CallError, Counter, Node, Waiting, within};
use upbeat_core::bill::event::{BadEnd, Event};
use upbeat_core::bill::way::{CALL, MessageEvents, Point, SERVED, StampMode, WAYS, Way};
use upbeat_memory::samples::{Record, SamplesView, observe};
use upbeat_memory::ticks::ticks_per_second;

const LONG: Duration = Duration::from_secs(20);

/// A record, with its texts instead of their numbers.
struct Written {
    record: Record,
    manner: StampMode,
    subject: String,
    lock: Option<String>,
}

impl Written {
    fn is_whole(&self) -> bool {
        self.manner == StampMode::Whole
    }

    fn has(&self, happened: MessageEvents) -> bool {
        MessageEvents(self.record.flags).has(happened)
    }

    fn way(&self) -> &'static Way {
        WAYS[usize::from(self.record.kind)]
    }

    fn is_of_a_call(&self) -> bool {
        self.way().is_answered()
    }

    /// Microseconds from the point before this one.
    fn us_until(&self, point: Point) -> u64 {
        let at = self.way().place(point.index()).expect("a point of its way");
        let ticks = self.record.stamps[at] - self.record.stamps[at - 1];
        ticks * 1_000_000 / ticks_per_second()
    }
}

/// A node's page, if it has one.
fn page(pid: u32, node: &str) -> Option<SamplesView> {
    observe(pid).unwrap().into_iter().find(|view| view.node() == node)
}

/// All records of a page.
fn records(view: &SamplesView) -> impl Iterator<Item = Record> + '_ {
    (view.oldest()..view.written())
        .map(|number| view.read(number).expect("nobody writes meanwhile"))
}

/// The events of a page, with the methods.
fn events(view: &SamplesView) -> Vec<(Event, String)> {
    let method =
        |number| view.subject(number).expect("a text").split('\n').nth(2).unwrap().to_owned();
    let event = |record: Record| Some((Event::from_byte(record.rung)?, method(record.subject)));
    records(view).filter_map(event).collect()
}

/// All records of messages that a node bills, each of which keeps the rules. Calls that it has served are not among
/// them.
fn written(view: &SamplesView) -> Vec<Written> {
    let read = |record: Record| {
        let manner = StampMode::from_byte(record.rung).expect("a manner");
        let way = WAYS[usize::from(record.kind)];
        let stamps = &record.stamps[..way.points()];
        match manner {
            StampMode::Whole => assert!(stamps.is_sorted() && stamps[0] > 0, "{record:?}"),
            StampMode::Pair(point) => {
                let place = way.place(usize::from(point.max(1))).expect("a point of its way");
                assert!(stamps[place] >= stamps[0], "{record:?}");
            }
            _ => {}
        }
        let text = view.subject(record.subject).expect("a text");
        let mut lines: Vec<&str> = text.split('\n').collect();
        let [at, carrier] = [lines.pop().unwrap(), lines.pop().unwrap()];
        let is_remote = matches!(carrier, "tcp" | "tls");
        assert_eq!((is_remote, at.starts_with("127.")), (over_network(), over_network()), "{text}");
        // The processes of one host share a clock. The record of a whole call to another host has a doubt.
        let took = stamps[stamps.len() - 1].saturating_sub(stamps[0]);
        let doubts = is_remote && manner == StampMode::Whole;
        assert!(record.doubt != 0 || !doubts, "{record:?}");
        // Both ways of a call bound it.
        assert!(!way.is_answered() || record.doubt <= took, "{record:?}");
        let subject = lines.join("\n");
        Written { record, manner, subject, lock: view.subject(record.note) }
    };
    let is_billed =
        |record: &Record| record.kind != SERVED.number() && Event::from_byte(record.rung).is_none();
    records(view).filter(is_billed).map(read).collect()
}

/// The manners in which calls are sampled. Between hosts a pair whose stamps are of two clocks is a full sample.
fn wanted() -> BTreeSet<u8> {
    let pairs = CALL.pairs().filter(|pair| !over_network() || !pair.compares(CALL));
    pairs.chain([StampMode::Whole]).map(StampMode::byte).collect()
}

impl Stand {
    /// Returns the samples that the caller has written, once there are that many.
    async fn taken(&self, samples: u64) -> Vec<Written> {
        until(|| self.node.counted(Counter::SamplesTaken) >= samples).await;
        let view = page(std::process::id(), &self.node.name()).expect("a page");
        let all = written(&view);
        assert_eq!(all.len() as u64, self.node.counted(Counter::SamplesTaken));
        all
    }

    fn server_pid(&mut self) -> u32 {
        match &mut self.server {
            crate::common::server::Server::Shared(other) => other.child.id(),
            crate::common::server::Server::Local(..) => std::process::id(),
        }
    }

    async fn work(&self) -> WorkClient {
        self.node.connect(&self.name()).await.unwrap()
    }
}

#[test]
fn every_sampled_call_is_written_down_at_its_caller_until_none_is_wanted() {
    let _watchdog = Watchdog::new("samples of calls");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let work = stand.work().await;
            assert!(page(std::process::id(), &stand.node.name()).is_none(), "none is asked for");
            stand.node.set_sampling(1);
            for n in 1..=400 {
                assert_eq!(work.add(n, 1).await, Ok(n + 1));
                assert_eq!(work.divide(n, 1).await, Ok(n));
                let failed = work.divide(n, 0).await;
                assert_eq!(failed, Err(CallError::Method(Division::ByZero)));
                assert_eq!(work.add(n, 2).deadline(LONG).await, Ok(n + 2));
            }
            stand.node.set_sampling(0);
            let all = stand.taken(1600).await;
            assert_eq!((all.len(), stand.node.counted(Counter::SamplesLost)), (1600, 0));
            let of = |method: &str| {
                let subject = format!("{}\nWork\n{method}", stand.name());
                all.iter().filter(|one| one.subject == subject).count()
            };
            assert_eq!((of("add"), of("divide")), (800, 800));
            assert!(all.iter().all(Written::is_of_a_call));
            assert!(!all.iter().any(|one| one.has(MessageEvents::PROMOTED) || one.lock.is_some()));
            let manners: BTreeSet<u8> = all.iter().map(|one| one.record.rung).collect();
            assert_eq!(manners, wanted());

            for n in 0..300 {
                assert_eq!(work.add(n, 1).await, Ok(n + 1));
            }
            assert_eq!(stand.taken(1600).await.len(), 1600, "none is wanted any more");
        });
    }
}

#[test]
fn one_way_messages_are_written_down_at_their_receiver() {
    let _watchdog = Watchdog::new("samples of one-way messages");
    for kind in KINDS {
        let mut stand = Stand::new(kind, Waiting::Adaptive);
        let (pid, server) = (stand.server_pid(), stand.name());
        stand.node.block_on(async {
            let work = stand.work().await;
            stand.node.set_sampling(1);
            for number in 1..=400 {
                work.note(number).await.unwrap();
                // This call keeps the lane from filling up, since a full lane loses stamps.
                assert_eq!(work.noted().await, Ok((number, number, 0)));
            }
            for number in 401..=440 {
                // On a busy machine some of it is over before it is seen to wait.
                work.note_late(number, 20).await.unwrap();
                while work.noted().await != Ok((number, number, 0)) {
                    upbeat::sleep(Duration::from_millis(1)).await;
                }
            }
            stand.node.set_sampling(0);
            while work.counted(Counter::SamplesTaken as u64).await != Ok(440) {}
            assert_eq!(work.counted(Counter::SamplesLost as u64).await, Ok(0));
            assert_eq!(work.counted(Counter::PromotedByTimer as u64).await, Ok(40));
            let all = written(&page(pid, &server).expect("a page"));
            assert_eq!(all.len(), 440);
            assert!(!all.iter().any(Written::is_of_a_call));
            let of = |method: &str| {
                let subject = format!("{}\nWork\n{method}", stand.node.name());
                all.iter().filter(move |one| one.subject == subject).collect::<Vec<_>>()
            };
            assert!(!of("note").iter().any(|one| one.has(MessageEvents::PROMOTED)));
            let late = of("note_late");
            assert_eq!((of("note").len(), late.len()), (400, 40));
            // The head announces a message's manner in all cases, so its receiver knows of each.
            assert!(late.iter().all(|one| one.has(MessageEvents::PROMOTED)));
            let mut wholes = late.iter().filter(|one| one.is_whole()).peekable();
            assert!(wholes.peek().is_some());
            assert!(wholes.all(|one| one.us_until(Point::Waited) >= 1_000));
        });
    }
}

#[test]
fn promoted_handlers_say_what_they_waited_for() {
    let _watchdog = Watchdog::new("samples of promoted handlers");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let work = stand.work().await;
            // Two of whom nobody takes samples, of whom one waits for the lock when it is a task.
            let held = stand.node.spawn({
                let work = work.clone();
                async move { work.locked(0, 20).await }
            });
            assert_eq!(work.locked(1, 0).await, Ok(()));
            assert_eq!(held.await.unwrap(), Ok(()));
            stand.node.set_sampling(1);
            for n in 0..32 {
                // On a busy machine some of it is over before it is seen to wait.
                assert_eq!(work.nap(20, n).await, Ok(n));
            }
            let before = work.counted(Counter::PromotedByLock as u64).await.unwrap();
            for _ in 0..32 {
                let held = stand.node.spawn({
                    let work = work.clone();
                    // So long that the next one comes meanwhile, also on a busy machine.
                    async move { work.locked(0, 20).await }
                });
                crate::common::yield_now().await;
                assert_eq!(work.locked(0, 0).await, Ok(()));
                assert_eq!(held.await.unwrap(), Ok(()));
            }
            stand.node.set_sampling(0);
            let after = work.counted(Counter::PromotedByLock as u64).await.unwrap();
            // One whose caller is held up may find the lock free.
            assert!((28..=32).contains(&(after - before)), "{}", after - before);
            let all = stand.taken(32 + 1 + 64).await;
            let of = |method: &str| {
                let subject = format!("{}\nWork\n{method}", stand.name());
                all.iter().filter(move |one| one.subject == subject && one.is_whole())
            };
            let naps: Vec<_> = of("nap").collect();
            assert!(naps.len() >= 8);
            for nap in naps {
                assert!(nap.has(MessageEvents::PROMOTED));
                assert!(nap.us_until(Point::Waited) >= 1_000 && nap.us_until(Point::Locked) == 0);
                assert_eq!(nap.lock, None, "it waited for no lock");
            }
            let waited: Vec<_> = of("locked").filter(|one| one.lock.is_some()).collect();
            assert!(waited.len() >= 8, "{}", waited.len());
            // The owner may have held the lock for a while before another handler asked for it.
            let longest = waited.iter().map(|one| one.us_until(Point::Locked)).max();
            assert!(longest >= Some(1_000), "{longest:?}");
            for one in waited {
                assert!(one.has(MessageEvents::PROMOTED));
                assert_eq!(one.lock.as_deref(), Some("vault"));
                assert!(one.us_until(Point::Locked) > 0, "{:?}", one.record);
            }
        });
    }
}

/// Such clients come and go, and each line of a bill takes room in a table.
#[test]
fn clients_without_names_share_a_line_at_their_server() {
    let _watchdog = Watchdog::new("samples of clients without names");
    let mut stand = Stand::new(Kind::Shared, Waiting::Adaptive);
    for _ in 0..3 {
        let client = Node::client_builder().program(PROGRAM).directory(&stand.place).sampling(1);
        let client = client.build().unwrap();
        client.block_on(async {
            let work: WorkClient = client.connect(&stand.name()).await.unwrap();
            for n in 0..8 {
                assert_eq!(work.add(n, 1).await, Ok(n + 1));
            }
        });
    }
    let view = page(stand.server_pid(), &stand.name()).expect("a page");
    let text = |record: Record| view.subject(record.subject).expect("a text");
    let served: Vec<_> =
        records(&view).filter(|one| one.kind == SERVED.number()).map(text).collect();
    assert!(served.len() >= 20, "{served:?}");
    assert!(served.iter().all(|text| text.starts_with("client/*\nWork\nadd\n")), "{served:?}");
}

#[test]
fn calls_that_fail_or_are_given_up_are_told_and_harm_no_others() {
    let _watchdog = Watchdog::new("samples of failures");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let work = stand.work().await;
            stand.node.set_sampling(1);
            for n in 0..200 {
                assert!(matches!(
                    work.panics("no".into(), n % 2 == 0).await,
                    Err(CallError::Failed { .. })
                ));
                let _ = within(Duration::from_micros(200), work.forever()).await;
                let late = work.forever().deadline(Duration::from_micros(200)).await;
                assert_eq!(late, Err(CallError::deadline(true)));
                assert_eq!(work.add(n, 1).await, Ok(n + 1));
            }
            stand.node.set_sampling(0);
            let view = || page(std::process::id(), &stand.node.name()).expect("a page");
            let add = format!("{}\nWork\nadd", stand.name());
            let adds = || written(&view()).iter().filter(|one| one.subject == add).count();
            until(|| adds() == 200).await;
            let all = written(&view());
            // Each call that ended without a result is told with the way in which it did.
            let events = events(&view());
            let of = |how, method: &str| {
                events.iter().filter(|one| one.0 == Event::Ended(how) && one.1 == method).count()
            };
            assert_eq!(of(BadEnd::Failed, "panics"), 200);
            // A deadline may pass at the callee first.
            let forever = [BadEnd::GivenUp, BadEnd::Failed].map(|how| of(how, "forever"));
            assert!(forever[0] > 0 && forever[0] + forever[1] == 400, "{forever:?}");
            let taken = (all.len() + events.len()) as u64;
            assert_eq!(taken, stand.node.counted(Counter::SamplesTaken));
        });
    }
}

/// Calls of a handle are billed as those of a node are, whether they block or are awaited, in one page for all
/// sessions of the handle; its one-way messages by their receiver.
#[test]
fn messages_of_handles_are_written_down() {
    let _watchdog = Watchdog::new("samples of handles");
    const CALLS: u64 = 400;
    for kind in KINDS {
        let mut stand = Stand::new(kind, Waiting::Adaptive);
        let (pid, server) = (stand.server_pid(), stand.name());
        let connect = |one_in: u32| -> WorkHandle {
            let builder = upbeat::handle::builder().program(PROGRAM).directory(&stand.place);
            builder.sampling(one_in).connect(&server).unwrap()
        };
        let name = format!("a handle of {server}");
        let none = connect(0);
        assert_eq!(none.blocking().add(1, 2), Ok(3));
        assert_eq!(block_on(none.add(1, 2)), Ok(3));
        assert!(page(std::process::id(), &name).is_none(), "none is asked for");
        let handle = connect(1);
        let work = handle.blocking();
        for n in 1..=CALLS {
            assert_eq!(work.add(n, 1), Ok(n + 1));
            let failed = work.divide(n, 0);
            assert_eq!(failed, Err(CallError::Method(Division::ByZero)));
        }
        block_on(async {
            for n in 1..=CALLS {
                assert_eq!(handle.nap(0, n).await, Ok(n));
            }
        });
        for n in 1..=CALLS {
            work.note(n).unwrap();
            assert_eq!(work.noted(), Ok((n, n, 0)));
        }
        let all = written(&page(std::process::id(), &name).expect("a page"));
        let of = |all: &[Written], method: &str| {
            let is_it = |one: &&Written| one.subject.ends_with(&format!("\nWork\n{method}"));
            all.iter().filter(is_it).count() as u64
        };
        assert!(all.iter().all(Written::is_of_a_call));
        // The stamps behind the very last answer of a session nobody reads.
        for method in ["add", "divide", "nap", "noted"] {
            let billed = of(&all, method);
            assert!((CALLS - 1..=CALLS).contains(&billed), "{billed} of {method}, {kind:?}");
        }
        let manners: BTreeSet<u8> = all.iter().map(|one| one.record.rung).collect();
        assert_eq!(manners, wanted());
        let theirs = written(&page(pid, &server).expect("a page"));
        assert!(theirs.iter().all(|one| one.subject == "a handle\nWork\nnote"));
        assert_eq!(of(&theirs, "note"), CALLS);
    }
}

/// A waker that is not the node's own.
struct Around(Waker);

impl Wake for Around {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
    }
}

/// A future that is polled with such a waker, so that nobody polls it while its answer lies open.
struct Elsewhere<F>(F);

impl<F: Future + Unpin> Future for Elsewhere<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let waker = Waker::from(Arc::new(Around(context.waker().clone())));
        Pin::new(&mut self.0).poll(&mut Context::from_waker(&waker))
    }
}

#[test]
fn an_answer_that_was_copied_says_so() {
    let _watchdog = Watchdog::new("samples of copied answers");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        stand.node.block_on(async {
            let work = stand.work().await;
            stand.node.set_sampling(1);
            for n in 0..200 {
                assert_eq!(Elsewhere(work.add(n, 1)).await, Ok(n + 1));
            }
            stand.node.set_sampling(0);
            let all = stand.taken(200).await;
            assert_eq!((all.len(), stand.node.counted(Counter::SamplesLost)), (200, 0));
            let mut wholes = all.iter().filter(|one| one.is_whole()).peekable();
            assert!(wholes.peek().is_some() && wholes.all(|one| one.has(MessageEvents::STASHED)));
        });
    }
}

#[test]
fn one_in_so_many_is_sampled() {
    let _watchdog = Watchdog::new("one in so many");
    let stand = Stand::new(Kind::Shared, Waiting::Adaptive);
    stand.node.block_on(async {
        let work = stand.work().await;
        stand.node.set_sampling(20);
        assert_eq!(stand.node.sampling(), 20);
        for n in 0..20_000 {
            assert_eq!(work.add(n, 1).await, Ok(n + 1));
        }
        let taken = stand.node.counted(Counter::SamplesTaken);
        assert!((400..1600).contains(&taken), "{taken}");
    });
}

/// With every call sampled and many open at once, no open sample gives way to a later one.
#[test]
fn calls_that_are_open_together_keep_their_samples() {
    let _watchdog = Watchdog::new("open samples");
    for kind in KINDS {
        let mut stand = Stand::new(kind, Waiting::Adaptive);
        let (pid, server) = (stand.server_pid(), stand.name());
        stand.node.block_on(async {
            let work = std::rc::Rc::new(stand.work().await);
            stand.node.set_sampling(1);
            let counted = |counter| stand.node.counted(counter);
            // Between hosts a sample has to wait until the two clocks were compared.
            while counted(Counter::SamplesTaken) == 0 {
                work.add(1, 2).await.unwrap();
            }
            let before = [Counter::SamplesTaken, Counter::SamplesLost].map(counted);
            let naps: Vec<_> = (0..64)
                .map(|n| {
                    let work = std::rc::Rc::clone(&work);
                    stand.node.spawn(async move { work.nap(20, n).await })
                })
                .collect();
            for nap in naps {
                nap.await.unwrap().unwrap();
            }
            stand.node.set_sampling(0);
            // The stamps behind the last answers come with the next one.
            let [taken, lost] =
                [(Counter::SamplesTaken, before[0]), (Counter::SamplesLost, before[1])]
                    .map(|(counter, before)| move || counted(counter) - before);
            while taken() + lost() < 64 {
                work.add(1, 2).await.unwrap();
            }
            // A request that has to wait at its receiver is sampled no longer: over TLS that is one in three.
            assert!(lost() <= 32, "{} of 64 samples were lost", lost());
            // The server's operator sees the calls that it serves.
            let view = page(pid, &server).expect("a page");
            let served = records(&view).filter(|one| one.kind == SERVED.number()).count();
            assert!(served >= 16, "{served}");
        });
    }
}
