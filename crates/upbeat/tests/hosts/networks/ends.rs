//! A network that is parted for longer than sessions outlive their connections: every call ends in time.

use crate::common::{Watchdog, block_on, setting, soon, until};
use crate::networks::ledger::{LedgerClient, LedgerHandle};
use crate::networks::namespaces::with_network;
use crate::networks::{Client, Over, Stand};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter, Waiting};

/// Calls of a node that are open when the network parts, and that are made then.
const CALLS: u64 = 50;
/// How late an error may come: a busy machine takes its time.
const LATE: Duration = Duration::from_secs(8);
/// How early, by the clock of the one that counts.
const EARLY: Duration = Duration::from_millis(500);

/// The times of a run.
struct Times {
    /// A peer is silent after this time, and one second more at most: the system counts in seconds.
    peer_timeout: Duration,
    /// And then its sessions end after this.
    resume_within: Duration,
    parted: OnceLock<Instant>,
    ready: AtomicUsize,
    ended: AtomicUsize,
    healed: AtomicBool,
}

impl Times {
    fn wait(&self, is_so: impl Fn() -> bool) {
        while !is_so() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// That a call whose end this is has ended in time, without a look at when the silence was noticed.
    fn check(&self, ended: &CallError) {
        let took = self.parted.get().unwrap().elapsed();
        println!("{took:?}: {ended}");
        assert!(took > self.resume_within, "{took:?}");
        let most = self.peer_timeout + Duration::from_secs(1) + self.resume_within + LATE;
        assert!(took < most, "{took:?}: {ended}");
    }
}

fn play(stand: &Stand<'_>, times: &Times, client: Client, over: Over) {
    stand.near().enter();
    let handle = |waiting| {
        let builder = stand.handle(over).waiting(waiting).resume_within(times.resume_within);
        let builder = builder.peer_timeout(times.peer_timeout);
        let ledger: LedgerHandle = builder.connect(stand.to(over)).unwrap();
        times.ready.fetch_add(1, SeqCst);
        ledger
    };
    let heal = || {
        times.ended.fetch_add(1, SeqCst);
        times.wait(|| times.healed.load(SeqCst));
    };
    match client {
        Client::Node(waiting) => play_node(stand, times, over, waiting),
        Client::Blocking(waiting) => {
            let ledger = handle(waiting);
            let ended = ledger.blocking().forever();
            let Err(ended @ CallError::Unknown(_)) = ended else { panic!("{ended:?}") };
            times.check(&ended);
            heal();
            assert_eq!(ledger.blocking().bytes(vec![7]), Ok(vec![7]));
        }
        Client::Awaited => {
            let ledger = handle(Waiting::Adaptive);
            let ended = block_on(ledger.forever());
            let Err(ended @ CallError::Unknown(_)) = ended else { panic!("{ended:?}") };
            times.check(&ended);
            heal();
            assert_eq!(block_on(ledger.bytes(vec![7])), Ok(vec![7]));
        }
    }
}

fn play_node(stand: &Stand<'_>, times: &Times, over: Over, waiting: Waiting) {
    let builder = stand.node(over, waiting).resume_within(times.resume_within);
    let node = builder.peer_timeout(times.peer_timeout).build().unwrap();
    let call = |ledger: &LedgerClient| {
        let ledger = ledger.clone();
        node.spawn(async move {
            let ended = ledger.forever().await;
            (ended.unwrap_err(), Instant::now())
        })
    };
    node.block_on(async {
        let ledger: LedgerClient = node.connect(stand.to(over)).await.unwrap();
        let open: Vec<_> = (0..CALLS).map(|_| call(&ledger)).collect();
        times.ready.fetch_add(1, SeqCst);
        until(|| times.parted.get().is_some()).await;
        let late: Vec<_> = (0..CALLS).map(|_| call(&ledger)).collect();
        while node.counted(Counter::SessionsSuspended) == 0 {
            upbeat::sleep(Duration::from_millis(1)).await;
        }
        let suspended = Instant::now();
        let noticed = suspended - *times.parted.get().unwrap();
        assert!(noticed < times.peer_timeout + Duration::from_secs(1) + LATE, "{noticed:?}");
        let ends = times.resume_within;
        for (nth, call) in (0..).zip(open.into_iter().chain(late)) {
            let (ended, at) = call.await.unwrap();
            let took = at - suspended;
            assert!(took + EARLY > ends && took < ends + LATE, "{took:?}: {ended}");
            match &ended {
                CallError::NotSent(_) if nth >= CALLS => {}
                CallError::Unknown(lost) => {
                    let words = format!("no other could be made within {} ms", ends.as_millis());
                    assert!(lost.to_string().contains(&words), "{lost}");
                }
                other => panic!("{other:?}"),
            }
        }
        println!("noticed after {noticed:?}, ended {:?} later", suspended.elapsed());
        // A new call reconnects, which takes longer than its deadline, or is refused.
        let late = soon(ledger.open().deadline(Duration::from_secs(1))).await;
        assert!(
            matches!(late, Err(CallError::Deadline(_) | CallError::NotConnected { .. })),
            "{late:?}"
        );
        times.ended.fetch_add(1, SeqCst);
        while !times.healed.load(SeqCst) {
            upbeat::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(soon(ledger.bytes(vec![6])).await, Ok(vec![6]));
        let again: LedgerClient = node.connect(stand.to(over)).await.unwrap();
        assert_eq!(soon(again.bytes(vec![7])).await, Ok(vec![7]));
    });
    assert_eq!(node.counted(Counter::SessionsLost), 1);
}

/// As long as `UPBEAT_PARTITION_SECONDS` says, with ten and five seconds for the two times of a session; without it
/// with a second for each, until all has ended.
#[test]
fn calls_end_in_time_where_the_network_stays_parted() {
    with_network("ends::calls_end_in_time_where_the_network_stays_parted", |network| {
        let _watchdog = Watchdog::new("a network that stays parted");
        let lasts = Duration::from_secs(setting("UPBEAT_PARTITION_SECONDS", 0));
        let (peer_timeout, resume_within) = if lasts.is_zero() { (1, 1) } else { (10, 5) };
        let times = Times {
            peer_timeout: Duration::from_secs(peer_timeout),
            resume_within: Duration::from_secs(resume_within),
            parted: OnceLock::new(),
            ready: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            healed: AtomicBool::new(false),
        };
        let stand = Stand::new(network, times.peer_timeout);
        let clients = [
            (Client::Node(Waiting::Adaptive), Over::Tcp),
            (Client::Node(Waiting::Sleeping), Over::Tls),
            (Client::Node(Waiting::Polling), Over::Tcp),
            (Client::Blocking(Waiting::Adaptive), Over::Tls),
            (Client::Awaited, Over::Tcp),
        ];
        let watches = [Over::Tcp, Over::Tls].map(|over| {
            let ledger: LedgerHandle = stand.handle(over).connect(stand.to(over)).unwrap();
            ledger
        });
        let open = || watches.iter().map(|ledger| ledger.blocking().open().unwrap()).sum::<u64>();
        thread::scope(|scope| {
            for (client, over) in clients {
                let (stand, times) = (&stand, &times);
                scope.spawn(move || play(stand, times, client, over));
            }
            times.wait(|| times.ready.load(SeqCst) == clients.len() && open() == 3 * CALLS + 2);
            network.part(true);
            let parted = *times.parted.get_or_init(Instant::now);
            times.wait(|| times.ended.load(SeqCst) == clients.len());
            // The far host gives the sessions up by its own clock, and the handlers with them.
            times.wait(|| open() == 0);
            times.check(&CallError::deadline(true));
            thread::sleep(lasts.saturating_sub(parted.elapsed()));
            network.part(false);
            times.healed.store(true, SeqCst);
        });
    });
}
