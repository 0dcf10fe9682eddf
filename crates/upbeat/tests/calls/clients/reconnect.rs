//! The client of a node that was killed or shut down calls the next node of that name.

use crate::common::process::{Other, linger, say};
use crate::common::work::{WorkServer, Worker};
use crate::common::{Directory, PROGRAM, SOON, Watchdog, alone, node, soon, until};
use rustix::process::Signal;
use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter, InPlace, Node, Stream, Waiting, Why};

/// A call that fails promptly does so within this time, also on a busy machine.
const PROMPTLY: Duration = Duration::from_secs(3);
const BRIEFLY: Duration = Duration::from_millis(40);

/// Writes down each call that runs, in a file that outlives the server.
#[upbeat::service]
pub(crate) trait Ledger {
    async fn enter(&self, entry: u64) -> u64;
    /// Never ends.
    async fn hang(&self, entry: u64);
    #[oneway]
    async fn tell(&self, entry: u64);
    async fn below(&self, entry: u64) -> Stream<u64>;
    async fn sum(&self, entry: u64, numbers: Stream<u64>) -> u64;
    async fn bytes(&self, entry: u64, bytes: InPlace<u8>) -> u64;
}

pub(crate) struct Book(PathBuf);

/// Returns the service that writes into the ledger of this place.
pub(crate) fn book(place: &Path) -> Book {
    Book(place.join("entries"))
}

impl Book {
    fn write(&self, entry: u64) -> u64 {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0).unwrap();
        file.write_all(format!("{entry}\n").as_bytes()).unwrap();
        entry
    }
}

impl Ledger for Book {
    async fn enter(&self, entry: u64) -> u64 {
        self.write(entry)
    }

    async fn hang(&self, entry: u64) {
        self.write(entry);
        std::future::pending().await
    }

    async fn tell(&self, entry: u64) {
        self.write(entry);
    }

    async fn below(&self, entry: u64) -> Stream<u64> {
        Stream::of(0..self.write(entry))
    }

    async fn sum(&self, entry: u64, mut numbers: Stream<u64>) -> u64 {
        let mut sum = self.write(entry);
        while let Some(Ok(number)) = numbers.next().await {
            sum += number;
        }
        sum
    }

    async fn bytes(&self, entry: u64, bytes: InPlace<u8>) -> u64 {
        self.write(entry);
        bytes.iter().map(u64::from).sum()
    }
}

/// Serves until it is killed, or until its input ends. The methods of a later node have other numbers.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let Some(("ledger", which)) = part.split_once(' ') else { return false };
    let server = node("clients/server", place, Waiting::Adaptive);
    if which == "later" {
        server.serve(WorkServer::new(Worker::default())).unwrap();
    }
    server.serve(LedgerServer::new(book(place))).unwrap();
    say("serving");
    let (quit, quits) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        linger();
        quit.send(()).unwrap();
    });
    server.block_on(input_ended(|| quits.try_recv().is_ok()));
    server.shut_down(SOON);
    true
}

async fn input_ended(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        upbeat::sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) fn started(which: &str, place: &Path) -> Other {
    let mut other = Other::start(&format!("ledger {which}"), place);
    other.expect("serving");
    other
}

/// Kills a server, and waits until the client's node has noticed.
async fn killed(client: &Node, mut server: Other) {
    server.kill();
    server.child.wait().unwrap();
    until(|| client.sessions() == 0).await;
}

/// The entries that were written, in order.
pub(crate) fn entries(place: &Path) -> Vec<u64> {
    let text = fs::read_to_string(place.join("entries")).unwrap_or_default();
    let mut entries: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    entries.sort_unstable();
    entries
}

async fn connected(client: &Node, wait_for: Duration) -> LedgerClient {
    client.connect("clients/server").wait_for(wait_for).await.unwrap()
}

#[test]
fn the_next_call_reaches_the_next_node_and_no_call_runs_twice() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("the next node"));
    let directory = Directory::new();
    let place = directory.path();
    let client = node("clients/client", &place, Waiting::Adaptive);
    let server = started("first", &place);
    client.block_on(async {
        let ledger: LedgerClient = client.connect("clients/server").await.unwrap();
        assert_eq!(ledger.enter(1).await, Ok(1));
        let mut hanging = Box::pin(ledger.hang(2));
        let begun = async { until(|| entries(&place) == [1, 2]).await };
        assert!(crate::common::first(&mut hanging, begun).await.is_err());
        killed(&client, server).await;
        let error = hanging.await.unwrap_err();
        assert!(matches!(error, CallError::Unknown(_)) && error.may_have_run(), "{error}");

        // Nobody is there, and this client does not wait.
        let began = Instant::now();
        for entry in 10..12 {
            let error = ledger.enter(entry).await.unwrap_err();
            let CallError::NotConnected { text, .. } = &error else { panic!("{error}") };
            assert!(text.contains("has died") && text.contains("reconnecting failed"), "{text}");
            assert!(!error.may_have_run());
        }
        assert!(began.elapsed() < PROMPTLY);

        let server = started("later", &place);
        assert_eq!(ledger.enter(3).await, Ok(3));
        assert_eq!(ledger.enter(4).deadline(SOON).await, Ok(4));
        killed(&client, server).await;
        // The session that was reached is lost as well.
        let mut server = started("first", &place);
        assert_eq!(ledger.clone().enter(5).await, Ok(5));
        assert_eq!(ledger.enter(6).await, Ok(6));
        // A node that is shut down ends its sessions in another way.
        server.end();
        until(|| client.sessions() == 0).await;
        let _server = started("later", &place);
        assert_eq!(ledger.enter(7).await, Ok(7));
        assert_eq!(client.sessions(), 1);
    });
    assert_eq!(entries(&place), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn streams_loans_and_oneway_messages_reconnect() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("other messages"));
    let directory = Directory::new();
    let place = directory.path();
    let client = node("clients/client", &place, Waiting::Adaptive);
    let mut server = started("first", &place);
    client.block_on(async {
        let ledger: LedgerClient = client.connect("clients/server").await.unwrap();
        let sum = |entry| ledger.sum(entry, Stream::of(0..1000));
        let loaned = async |entry| {
            let mut loan = ledger.loan_bytes(entry, 5000).await?;
            loan.write_at(0, &[1; 5000]);
            loan.send().await
        };
        for round in 1..4 {
            let entries_of = |at: u64| 10 * round + at;
            let mut old = ledger.below(entries_of(0)).await.unwrap();
            assert_eq!(old.next().await, Some(Ok(0)));
            let half_built = ledger.loan_bytes(entries_of(9), 5000).await.unwrap();
            // A call of each round is the first that meets the loss.
            killed(&client, server).await;
            server = started(if round == 2 { "first" } else { "later" }, &place);
            if round == 1 {
                ledger.tell(entries_of(1)).await.unwrap();
            }
            if round == 2 {
                assert_eq!(sum(entries_of(1)).await, Ok(entries_of(1) + 499_500));
            }
            if round == 3 {
                assert_eq!(loaned(entries_of(1)).await, Ok(5000));
            }
            assert!(half_built.send().await.is_err_and(|error| !error.may_have_run()));
            // The stream ends with an error, unless all of its items had come.
            let mut items = 1;
            let end = loop {
                match old.next().await {
                    Some(Ok(item)) => assert_eq!(item, std::mem::replace(&mut items, item + 1)),
                    end => break end,
                }
            };
            assert!(items == entries_of(0) || matches!(end, Some(Err(_))), "{items}: {end:?}");
            ledger.tell(entries_of(2)).await.unwrap();
            assert_eq!(sum(entries_of(3)).await, Ok(entries_of(3) + 499_500));
            assert_eq!(loaned(entries_of(4)).await, Ok(5000));
            let mut new = ledger.below(entries_of(5)).await.unwrap();
            let mut items = 0;
            while let Some(item) = new.next().await {
                assert_eq!(item, Ok(items));
                items += 1;
            }
            assert_eq!(items, entries_of(5));
            // The call that is sent at once is as good as any, once the session is there.
            assert_eq!(ledger.enter(entries_of(6)).try_send().unwrap().await, Ok(entries_of(6)));
            ledger.tell(entries_of(7)).try_send().unwrap();
            assert_eq!(ledger.enter(entries_of(8)).await, Ok(entries_of(8)));
        }
    });
    let expected: Vec<u64> = (1..4).flat_map(|round| 10 * round..10 * round + 9).collect();
    assert_eq!(entries(&place), expected);
}

#[test]
fn a_message_that_must_not_wait_begins_to_reconnect() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("messages that do not wait"));
    let directory = Directory::new();
    let place = directory.path();
    let client = node("clients/client", &place, Waiting::Adaptive);
    let server = started("first", &place);
    client.block_on(async {
        let ledger: LedgerClient = client.connect("clients/server").await.unwrap();
        killed(&client, server).await;
        let _server = started("later", &place);
        let tried = ledger.enter(1).try_send().map(drop);
        assert!(matches!(tried, Err(CallError::NotSent(_))), "{tried:?}");
        soon(async {
            while ledger.tell(2).try_send().is_err() {
                upbeat::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        assert_eq!(ledger.enter(3).try_send().unwrap().await, Ok(3));
    });
    assert_eq!(entries(&place), [2, 3]);
}

#[test]
fn calls_that_wait_share_one_attempt() {
    const CALLS: u64 = 1000;
    let (_alone, _watchdog) = (alone(), Watchdog::new("calls that wait"));
    let directory = Directory::new();
    let place = directory.path();
    let client = node("clients/client", &place, Waiting::Adaptive);
    let server = started("first", &place);
    client.block_on(async {
        let (one, two) = (connected(&client, SOON).await, connected(&client, SOON).await);
        killed(&client, server).await;
        let (sent, opened) =
            (client.counted(Counter::CallsSent), client.counted(Counter::SessionsOpened));
        let answers = Rc::new(RefCell::new(Vec::new()));
        let calls: Vec<_> = (0..CALLS)
            .map(|entry| {
                let ledger = if entry % 2 == 0 { one.clone() } else { two.clone() };
                let answers = Rc::clone(&answers);
                client.spawn(async move {
                    let answer = ledger.enter(entry).await;
                    answers.borrow_mut().push(answer);
                })
            })
            .collect();
        upbeat::sleep(BRIEFLY).await;
        assert!(answers.borrow().is_empty(), "{:?}", answers.borrow());
        let _server = started("later", &place);
        for call in calls {
            soon(call).await.unwrap();
        }
        assert!(answers.borrow().iter().all(Result::is_ok));
        // Beside the calls, one that has bound the methods.
        assert_eq!(client.counted(Counter::CallsSent) - sent, CALLS + 1);
        assert_eq!(client.counted(Counter::SessionsOpened) - opened, 1);
    });
    assert_eq!(entries(&place), (0..CALLS).collect::<Vec<_>>());
}

/// A handle waits as a client does.
#[test]
fn calls_of_a_handle_wait_for_the_next_node() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("calls of a handle"));
    let directory = Directory::new();
    let place = directory.path();
    let mut server = started("first", &place);
    let handles = || upbeat::handle::builder().program(PROGRAM).directory(&place);
    let ledger: LedgerHandle = handles().wait_for(SOON).connect("clients/server").unwrap();
    let at_once: LedgerHandle = handles().connect("clients/server").unwrap();
    assert_eq!(crate::common::block_on(ledger.enter(1)), Ok(1));
    server.kill();
    server.child.wait().unwrap();
    let error = at_once.blocking().enter(9).unwrap_err();
    assert!(!matches!(error, CallError::Deadline(_)), "{error}");
    let late = ledger.blocking().deadline(BRIEFLY).enter(9);
    assert!(late.is_err(), "{late:?}");
    std::thread::scope(|scope| {
        let awaited = scope.spawn(|| {
            loop {
                // The first call may be sent before the loss is noticed. It never runs.
                match crate::common::block_on(ledger.enter(2)) {
                    Err(CallError::Unknown(_)) => {}
                    done => return done,
                }
            }
        });
        let blocking = scope.spawn(|| ledger.blocking().enter(3));
        std::thread::sleep(2 * BRIEFLY);
        assert!(!awaited.is_finished() && !blocking.is_finished());
        let _server = started("later", &place);
        assert_eq!(awaited.join().unwrap(), Ok(2));
        assert_eq!(blocking.join().unwrap(), Ok(3));
    });
    assert_eq!(entries(&place), [1, 2, 3]);
}

#[test]
fn a_call_waits_as_long_as_its_client_and_its_deadline_say() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("waiting calls"));
    let directory = Directory::new();
    let place = directory.path();
    let client = node("clients/client", &place, Waiting::Adaptive);
    let server = started("first", &place);
    client.block_on(async {
        let long = connected(&client, Duration::from_secs(3600)).await;
        let short = connected(&client, BRIEFLY).await;
        let at_once: LedgerClient = client.connect("clients/server").await.unwrap();
        // A stopped process is not replaced, and its session is not lost before the process is.
        server.signal(Signal::STOP);
        assert_eq!(long.enter(1).deadline(BRIEFLY).await, Err(CallError::deadline(true)));
        killed(&client, server).await;

        let began = Instant::now();
        let late = long.enter(2).deadline(BRIEFLY).await.unwrap_err();
        // The call has waited for a session, and was never sent.
        assert_eq!(late, CallError::deadline(false));
        assert!(!late.may_have_run() && late.to_string().contains("`enter` of service"), "{late}");
        assert!(began.elapsed() >= BRIEFLY && began.elapsed() < PROMPTLY);
        // Given up while another call goes on to wait.
        let mut waits = Box::pin(long.enter(3));
        assert!(upbeat::within(BRIEFLY, &mut waits).await.is_err());
        assert!(upbeat::within(BRIEFLY, long.enter(4)).await.is_err());
        // Each client waits for its own time beside the others.
        let began = Instant::now();
        let error = at_once.enter(5).await.unwrap_err();
        assert!(matches!(error, CallError::NotConnected { .. }), "{error}");
        let error = short.enter(6).await.unwrap_err();
        assert!(matches!(error, CallError::NotConnected { .. }), "{error}");
        assert!(began.elapsed() >= BRIEFLY && began.elapsed() < PROMPTLY);
        let _server = started("later", &place);
        assert_eq!(soon(waits).await, Ok(3));
        assert_eq!(at_once.enter(7).await, Ok(7));
        assert_eq!(short.enter(8).await, Ok(8));
    });
    assert_eq!(entries(&place), [3, 7, 8]);
}

#[test]
fn a_node_that_is_shut_down_ends_the_waits_of_its_calls() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a shut down while calls wait"));
    let directory = Directory::new();
    let place = directory.path();
    let client = node("clients/client", &place, Waiting::Adaptive);
    let server = started("first", &place);
    let ledger = client.block_on(connected(&client, Duration::from_secs(3600)));
    client.block_on(killed(&client, server));
    let mut waits = Box::pin(ledger.enter(1));
    let ended = client.block_on(upbeat::within(BRIEFLY, &mut waits));
    assert!(ended.is_err(), "{ended:?}");
    let began = Instant::now();
    client.shut_down(SOON);
    for ended in [crate::common::block_on(waits), crate::common::block_on(ledger.enter(2))] {
        let Err(CallError::NotSent(lost)) = &ended else { panic!("{ended:?}") };
        assert_eq!(lost.why, Why::ShutDown);
    }
    assert!(matches!(ledger.tell(3).try_send(), Err(CallError::NotSent(_))));
    assert!(began.elapsed() < PROMPTLY);
    assert!(entries(&place).is_empty());
}
