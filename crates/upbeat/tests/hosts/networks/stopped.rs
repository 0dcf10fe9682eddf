//! A peer whose process is stopped, and reads nothing: its host answers, and so the session goes on. Then its host
//! vanishes, which is noticed.

use crate::common::left_out::leave_out;
use crate::common::{Watchdog, block_on, setting, soon, until};
use crate::networks::ledger::LedgerClient;
use crate::networks::namespaces::with_network;
use crate::networks::{Client, Over, Stand};
use rustix::process::Signal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter, Waiting};

/// After this time a peer counts as silent. A client must look at its connection within a third of that, which a
/// loaded machine does not let it do in time if this is one second.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The peers are stopped for so long.
const STOPPED: Duration = Duration::from_secs(8);
/// The system counts an idle connection in seconds; a busy machine takes its time.
const LATE: Duration = Duration::from_secs(8);
const LONG: Duration = Duration::from_secs(60);

/// How far all clients are.
#[derive(Default)]
struct Run {
    /// Clients that have done what comes next.
    done: AtomicUsize,
    stopped: [AtomicBool; 2],
    parted: OnceLock<Instant>,
    healed: AtomicBool,
}

impl Run {
    fn wait(&self, is_so: impl Fn(&Run) -> bool) {
        while !is_so(self) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_stopped(&self, time: usize) -> bool {
        self.stopped[time].load(SeqCst)
    }

    /// A client has noticed that the host has vanished.
    fn notice(&self, who: &dyn std::fmt::Debug) {
        let took = self.parted.get().expect("it has not vanished yet").elapsed();
        println!("{who:?}: noticed after {took:?}");
        assert!(took < TIMEOUT + LATE, "{who:?}: {took:?}");
        self.done.fetch_add(1, SeqCst);
    }
}

#[derive(Debug)]
struct Case {
    number: u64,
    client: Client,
    over: Over,
    /// Of the message that its peer does not read: what the system holds, or more.
    bytes: usize,
}

impl Case {
    fn play(&self, stand: &Stand<'_>, run: &Run) {
        stand.near().enter();
        match self.client {
            Client::Node(waiting) => self.play_node(stand, run, waiting),
            Client::Blocking(waiting) => {
                let ledger = stand.connect_once(self.over, waiting, TIMEOUT);
                let blocking = ledger.blocking();
                let call = |bytes| blocking.bytes(bytes);
                self.play_handle(run, |number| blocking.enter(self.number, number), call);
            }
            Client::Awaited => {
                let ledger = stand.connect_once(self.over, Waiting::Adaptive, TIMEOUT);
                let call = |bytes| block_on(ledger.bytes(bytes));
                self.play_handle(run, |number| block_on(ledger.enter(self.number, number)), call);
            }
        }
    }

    /// A handle whose session ends with its connection.
    fn play_handle(
        &self,
        run: &Run,
        enter: impl Fn(u64) -> Result<u64, CallError<String>>,
        call: impl Fn(Vec<u8>) -> Result<Vec<u8>, CallError>,
    ) {
        assert_eq!(enter(1), Ok(1));
        run.done.fetch_add(1, SeqCst);
        run.wait(|run| run.is_stopped(0));
        assert!(call(vec![7; self.bytes]) == Ok(vec![7; self.bytes]), "{self:?}");
        assert_eq!(enter(2), Ok(2));
        run.done.fetch_add(1, SeqCst);
        run.wait(|run| run.is_stopped(1));
        let ended = call(vec![8; self.bytes]);
        assert!(matches!(ended, Err(CallError::Unknown(_) | CallError::NotSent(_))), "{self:?}");
        run.notice(self);
    }

    fn play_node(&self, stand: &Stand<'_>, run: &Run, waiting: Waiting) {
        let builder = stand.node(self.over, waiting).resume_within(LONG);
        let node = builder.peer_timeout(TIMEOUT).build().unwrap();
        let counted = |counter| node.counted(counter);
        node.block_on(async {
            let ledger: LedgerClient = node.connect(stand.to(self.over)).await.unwrap();
            assert_eq!(soon(ledger.enter(self.number, 1)).await, Ok(1));
            let call = |byte| {
                let (ledger, bytes) = (ledger.clone(), vec![byte; self.bytes]);
                node.spawn(async move { ledger.bytes(bytes.clone()).await == Ok(bytes) })
            };
            run.done.fetch_add(1, SeqCst);
            until(|| run.is_stopped(0)).await;
            let next = {
                let (ledger, number) = (ledger.clone(), self.number);
                node.spawn(async move { ledger.enter(number, 2).await })
            };
            assert!(soon(call(7)).await.unwrap(), "{self:?}");
            assert_eq!(soon(next).await.unwrap(), Ok(2));
            assert_eq!(counted(Counter::SessionsSuspended), 0, "{self:?}");
            run.done.fetch_add(1, SeqCst);
            until(|| run.is_stopped(1)).await;
            let late = call(8);
            until(|| counted(Counter::SessionsSuspended) == 1).await;
            run.notice(self);
            until(|| run.healed.load(SeqCst)).await;
            assert!(soon(late).await.unwrap(), "{self:?}");
            assert_eq!(soon(ledger.entered(self.number)).await, Ok(2));
        });
        assert_eq!(counted(Counter::SessionsResumed), 1);
    }
}

/// Takes half a minute, if `UPBEAT_STOPPED` says that the peers are stopped.
#[test]
fn a_stopped_peer_keeps_its_sessions_until_its_host_vanishes() {
    if setting("UPBEAT_STOPPED", 0) == 0 {
        leave_out("UPBEAT_STOPPED is not set");
        return;
    }
    with_network("stopped::a_stopped_peer_keeps_its_sessions_until_its_host_vanishes", |network| {
        let _watchdog = Watchdog::new("a stopped peer");
        let stand = Stand::new(network, TIMEOUT);
        let node = |waiting, over, bytes| (Client::Node(waiting), over, bytes);
        let blocking = Client::Blocking(Waiting::Adaptive);
        let (held, more) = (2 << 20, 16 << 20);
        let cases = [
            node(Waiting::Adaptive, Over::Tcp, held),
            node(Waiting::Sleeping, Over::Tls, more),
            node(Waiting::Sleeping, Over::Tcp, more),
            node(Waiting::Polling, Over::Tls, held),
            (blocking, Over::Tcp, more),
            (Client::Blocking(Waiting::Sleeping), Over::Tls, held),
            (Client::Awaited, Over::Tcp, held),
            (Client::Awaited, Over::Tls, more),
        ];
        let cases = (1..).zip(cases);
        let cases: Vec<_> = cases
            .map(|(number, (client, over, bytes))| Case { number, client, over, bytes })
            .collect();
        let run = Run::default();
        let signal = |signal| stand.servers.iter().for_each(|server| server.process.signal(signal));
        thread::scope(|scope| {
            for case in &cases {
                scope.spawn(|| case.play(&stand, &run));
            }
            let all_done = |times| run.wait(|run| run.done.load(SeqCst) == times * cases.len());
            all_done(1);
            signal(Signal::STOP);
            run.stopped[0].store(true, SeqCst);
            thread::sleep(STOPPED);
            signal(Signal::CONT);
            all_done(2);
            signal(Signal::STOP);
            run.stopped[1].store(true, SeqCst);
            thread::sleep(STOPPED);
            assert_eq!(run.done.load(SeqCst), 2 * cases.len());
            run.parted.set(Instant::now()).unwrap();
            network.part(true);
            all_done(3);
            network.part(false);
            signal(Signal::CONT);
            run.healed.store(true, SeqCst);
        });
    });
}
