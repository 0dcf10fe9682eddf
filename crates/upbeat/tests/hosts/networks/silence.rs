//! A host that vanishes: its silence is noticed in time, for any kind of wait.

use crate::common::{Watchdog, block_on, soon, until};
use crate::networks::ledger::{LedgerClient, LedgerHandle};
use crate::networks::namespaces::with_network;
use crate::networks::{Client, Over, Stand};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter, Waiting};

/// After this time a peer counts as silent.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The system counts in seconds, from the last packet that has come; a busy machine takes its time.
const AT_LEAST: Duration = Duration::from_secs(1);
const AT_MOST: Duration = Duration::from_secs(12);
/// A handler that begins before the other host vanishes takes so long, and is done before it is back.
const NAP: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(60);

/// The work that a client has under way when the other host vanishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// A call is open, and nothing is to be sent.
    Reply,
    /// A call is sent that never arrives.
    Output,
}

/// How far all clients are.
#[derive(Default)]
struct Run {
    clients: usize,
    ready: AtomicUsize,
    parted: OnceLock<Instant>,
    noticed: AtomicUsize,
    healed: AtomicBool,
}

impl Run {
    /// Waits, in a thread, until something is so.
    fn wait<T>(&self, is_so: impl Fn(&Run) -> Option<T>) -> T {
        loop {
            if let Some(value) = is_so(self) {
                return value;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// A client has noticed.
    fn notice(&self, who: &dyn std::fmt::Debug) {
        let took = self.parted.get().unwrap().elapsed();
        println!("{who:?}: noticed after {took:?}");
        assert!(took > AT_LEAST && took < AT_MOST, "{who:?}: {took:?}");
        self.noticed.fetch_add(1, SeqCst);
    }
}

struct Case {
    number: u64,
    client: Client,
    over: Over,
    needs: Needs,
}

impl Case {
    fn play(&self, stand: &Stand<'_>, run: &Run) {
        stand.near().enter();
        match self.client {
            Client::Node(waiting) => self.play_node(stand, run, waiting),
            Client::Blocking(waiting) => {
                let ledger = stand.connect_once(self.over, waiting, TIMEOUT);
                let blocking = ledger.blocking();
                assert_eq!(blocking.enter(self.number, 1), Ok(1));
                run.ready.fetch_add(1, SeqCst);
                let ended = match self.needs {
                    Needs::Reply => blocking.nap(LONG.as_millis() as u64),
                    _ => {
                        run.wait(|run| run.parted.get().copied());
                        blocking.bytes(vec![1]).map(|_| 0)
                    }
                };
                self.lost(run, ended);
            }
            Client::Awaited => {
                let ledger = stand.connect_once(self.over, Waiting::Adaptive, TIMEOUT);
                assert_eq!(block_on(ledger.enter(self.number, 1)), Ok(1));
                run.ready.fetch_add(1, SeqCst);
                let ended = match self.needs {
                    Needs::Reply => block_on(ledger.nap(LONG.as_millis() as u64)),
                    _ => {
                        run.wait(|run| run.parted.get().copied());
                        block_on(ledger.bytes(vec![1])).map(|_| 0)
                    }
                };
                self.lost(run, ended);
            }
        }
    }

    fn lost(&self, run: &Run, ended: Result<u64, CallError>) {
        let Err(CallError::Unknown(lost)) = ended else { panic!("{ended:?}") };
        assert!(lost.to_string().contains("has not answered"), "{lost}");
        run.notice(&(self.client, self.over, self.needs));
    }

    fn play_node(&self, stand: &Stand<'_>, run: &Run, waiting: Waiting) {
        let builder = stand.node(self.over, waiting).resume_within(LONG);
        let node = builder.peer_timeout(TIMEOUT).build().unwrap();
        let counted = |counter| node.counted(counter);
        node.block_on(async {
            let ledger: LedgerClient = node.connect(stand.to(self.over)).await.unwrap();
            assert_eq!(soon(ledger.enter(self.number, 1)).await, Ok(1));
            run.ready.fetch_add(1, SeqCst);
            until(|| run.ready.load(SeqCst) == run.clients).await;
            // The handler is done while nothing goes through.
            let nap = (self.needs == Needs::Reply).then(|| {
                let ledger = ledger.clone();
                node.spawn(async move { ledger.nap(NAP.as_millis() as u64).await })
            });
            until(|| run.parted.get().is_some()).await;
            let output = (self.needs == Needs::Output).then(|| {
                let (ledger, number) = (ledger.clone(), self.number);
                node.spawn(async move { ledger.enter(number, 2).await })
            });
            until(|| counted(Counter::SessionsSuspended) == 1).await;
            run.notice(&(self.client, self.over, self.needs));
            until(|| run.healed.load(SeqCst)).await;
            if let Some(nap) = nap {
                assert_eq!(soon(nap).await.unwrap(), Ok(NAP.as_millis() as u64));
            }
            let mut last = 1;
            if let Some(output) = output {
                last = 2;
                assert_eq!(soon(output).await.unwrap(), Ok(2));
            }
            assert_eq!(soon(ledger.entered(self.number)).await, Ok(last));
        });
        assert_eq!(counted(Counter::SessionsResumed), 1);
        assert_eq!(counted(Counter::SessionsLost), 0);
    }
}

#[test]
fn a_host_that_vanishes_is_noticed_in_time() {
    with_network("silence::a_host_that_vanishes_is_noticed_in_time", |network| {
        let _watchdog = Watchdog::new("silence");
        let stand = Stand::new(network, TIMEOUT);
        let node = |waiting, over, needs| (Client::Node(waiting), over, needs);
        let (blocking, awaited) = (Client::Blocking(Waiting::Adaptive), Client::Awaited);
        let cases = [
            node(Waiting::Adaptive, Over::Tcp, Needs::Nothing),
            node(Waiting::Adaptive, Over::Tls, Needs::Output),
            node(Waiting::Adaptive, Over::Tcp, Needs::Reply),
            node(Waiting::Sleeping, Over::Tls, Needs::Nothing),
            node(Waiting::Sleeping, Over::Tcp, Needs::Output),
            node(Waiting::Sleeping, Over::Tls, Needs::Reply),
            node(Waiting::Polling, Over::Tls, Needs::Nothing),
            node(Waiting::Polling, Over::Tcp, Needs::Output),
            (blocking, Over::Tcp, Needs::Reply),
            (blocking, Over::Tls, Needs::Output),
            (Client::Blocking(Waiting::Sleeping), Over::Tls, Needs::Reply),
            (awaited, Over::Tls, Needs::Reply),
            (awaited, Over::Tcp, Needs::Output),
        ];
        let numbered = (1..).zip(cases);
        let cases: Vec<_> = numbered
            .map(|(number, (client, over, needs))| Case { number, client, over, needs })
            .collect();
        let waiting = cases.iter().filter(|case| case.needs == Needs::Reply).count() as u64;
        let run = Run { clients: cases.len(), ..Run::default() };
        // The router's own connections to the far host stand all the time.
        let watches = [Over::Tcp, Over::Tls].map(|over| {
            let ledger: LedgerHandle = stand.handle(over).connect(stand.to(over)).unwrap();
            ledger
        });
        let sum = |of: fn(&LedgerHandle) -> u64| watches.iter().map(of).sum::<u64>();
        thread::scope(|scope| {
            for case in &cases {
                scope.spawn(|| case.play(&stand, &run));
            }
            run.wait(|run| (run.ready.load(SeqCst) == run.clients).then_some(()));
            run.wait(|_| {
                (sum(|ledger| ledger.blocking().open().unwrap()) == waiting).then_some(())
            });
            let began = Instant::now();
            network.part(true);
            run.parted.set(began).unwrap();
            // The far host notices the same, as far as its sessions were to go on.
            let nodes = cases.iter().filter(|case| matches!(case.client, Client::Node(_)));
            let nodes = nodes.count() as u64;
            run.wait(|_| {
                let suspended = sum(|ledger| ledger.blocking().sessions().unwrap().0);
                assert!(run.parted.get().unwrap().elapsed() < AT_MOST, "{suspended} of {nodes}");
                (suspended == nodes).then_some(())
            });
            run.wait(|run| (run.noticed.load(SeqCst) == run.clients).then_some(()));
            let open = || sum(|ledger| ledger.blocking().open().unwrap());
            run.wait(|_| (open() == 0).then_some(()));
            network.part(false);
            run.healed.store(true, SeqCst);
        });
        assert_eq!(sum(|ledger| ledger.blocking().open().unwrap()), 0);
    });
}
