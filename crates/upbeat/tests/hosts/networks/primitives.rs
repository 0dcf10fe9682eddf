//! Every primitive at a host that vanishes: each goes on where the host comes back in time, and otherwise ends with an
//! error that says so.

use crate::common::{Watchdog, soon, until};
use crate::networks::ledger::LedgerClient;
use crate::networks::namespaces::with_network;
use crate::networks::{Over, Stand};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use upbeat::export::ReadError;
use upbeat::{CallError, Counter, Import, Lost, Node, Waiting, Why};

/// After this time a peer counts as silent, and the system may count a second more.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Sessions that end outlive their connections for so long.
const WITHIN: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);
/// A busy machine takes its time.
const LATE: Duration = Duration::from_secs(8);

const OVER: [Over; 2] = [Over::Tcp, Over::Tls];
/// The items of each stream, of which a few are under way when the host vanishes.
const ITEMS: u64 = 20_000;
/// The bytes of a message that is built in a loan.
const BYTES: usize = 5_000;
/// The primitives of a client, each in a task.
const PRIMITIVES: usize = 5;

/// How far all clients are.
#[derive(Default)]
struct Run {
    ready: AtomicUsize,
    parted: AtomicBool,
    ended: AtomicUsize,
}

impl Run {
    fn wait(&self, count: &AtomicUsize, clients: usize) {
        while count.load(SeqCst) < clients {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until every primitive is under way and the host has vanished.
    async fn parted(&self) {
        self.ready.fetch_add(1, SeqCst);
        until(|| self.parted.load(SeqCst)).await;
    }
}

/// Sends a message that was built before the host vanished.
async fn loan(ledger: LedgerClient, run: Arc<Run>) -> Result<u64, CallError> {
    let mut loan = ledger.loan_length(BYTES).await.unwrap();
    run.parted().await;
    loan.write_at(0, &[1; BYTES]);
    loan.send().await
}

/// Reads a stream of a result. Returns how many items came, and the error behind them.
async fn result(ledger: LedgerClient, run: Arc<Run>) -> (u64, Option<CallError>) {
    let mut items = ledger.count(ITEMS).await.unwrap();
    assert_eq!(items.next().await, Some(Ok(0)));
    run.parted().await;
    let mut came = 1;
    loop {
        match items.next().await {
            Some(Ok(item)) => assert_eq!(item, std::mem::replace(&mut came, item + 1)),
            end => break (came, end.map(|end| end.unwrap_err())),
        }
    }
}

/// Writes a stream of an argument. Returns how many items its reader got.
async fn argument(ledger: LedgerClient, run: Arc<Run>) -> Result<u64, CallError<String>> {
    let numbers = upbeat::stream(async move |sink| {
        for number in 0..ITEMS {
            if number == ITEMS / 2 {
                run.parted().await;
            }
            sink.send(number).await;
        }
    });
    ledger.in_order(numbers).await
}

/// Reads an export, by a call.
async fn read(tally: Import<u64>, run: Arc<Run>) -> Result<u64, ReadError> {
    assert_eq!(tally.whole().read().await, Ok(7));
    run.parted().await;
    tally.whole().read().await
}

/// Sends a message one way, which is all that its sender learns.
async fn oneway(ledger: LedgerClient, writer: u64, run: Arc<Run>) -> Result<(), CallError> {
    ledger.note(writer, 1).await.unwrap();
    assert_eq!(ledger.entered(writer).await, Ok(1));
    run.parted().await;
    ledger.note(writer, 2).await
}

/// The results of each primitive of a client.
struct Got {
    loan: Result<u64, CallError>,
    result: (u64, Option<CallError>),
    argument: Result<u64, CallError<String>>,
    read: Result<u64, ReadError>,
    oneway: Result<(), CallError>,
}

/// Begins every primitive, has the host vanish while each is under way, and returns what becomes of them.
async fn all_at_once(
    node: &Node,
    ledger: &LedgerClient,
    to: &str,
    writer: u64,
    run: &Arc<Run>,
) -> Got {
    let tally = soon(node.import(&format!("{to}/tally"))).await.unwrap();
    let oneway = node.spawn(oneway(ledger.clone(), writer, Arc::clone(run)));
    let loan = node.spawn(loan(ledger.clone(), Arc::clone(run)));
    let result = node.spawn(result(ledger.clone(), Arc::clone(run)));
    let argument = node.spawn(argument(ledger.clone(), Arc::clone(run)));
    let read = node.spawn(read(tally, Arc::clone(run)));
    Got {
        loan: soon(loan).await.unwrap(),
        result: soon(result).await.unwrap(),
        argument: soon(argument).await.unwrap(),
        read: soon(read).await.unwrap(),
        oneway: soon(oneway).await.unwrap(),
    }
}

/// A client in a thread of its own: its node, and the ends of its sessions.
fn client(
    stand: &Stand<'_>,
    over: Over,
    resume_within: Duration,
) -> (Node, Rc<RefCell<Vec<Lost>>>) {
    stand.near().enter();
    let lost = Rc::<RefCell<Vec<Lost>>>::default();
    let builder = stand.node(over, Waiting::Adaptive).peer_timeout(TIMEOUT);
    let builder = builder.resume_within(resume_within).on_lost({
        let lost = Rc::clone(&lost);
        move |one| lost.borrow_mut().push(one.clone())
    });
    (builder.build().unwrap(), lost)
}

#[test]
fn each_primitive_goes_on_where_a_host_comes_back_in_time() {
    with_network("primitives::each_primitive_goes_on_where_a_host_comes_back_in_time", |network| {
        let _watchdog = Watchdog::new("primitives that go on");
        let stand = Stand::new(network, TIMEOUT);
        let run = Arc::<Run>::default();
        thread::scope(|scope| {
            for (writer, over) in (1..).zip(OVER) {
                let (stand, run) = (&stand, Arc::clone(&run));
                scope.spawn(move || {
                    let (node, lost) = client(stand, over, LONG);
                    node.block_on(async {
                        let ledger: LedgerClient = node.connect(stand.to(over)).await.unwrap();
                        let suspended = node.spawn({
                            let (node, run) = (node.clone(), Arc::clone(&run));
                            async move {
                                until(|| node.counted(Counter::SessionsSuspended) == 1).await;
                                run.ended.fetch_add(1, SeqCst);
                            }
                        });
                        let got = all_at_once(&node, &ledger, stand.to(over), writer, &run).await;
                        assert_eq!(got.loan, Ok(BYTES as u64), "{over:?}");
                        assert_eq!(got.result, (ITEMS, None), "{over:?}");
                        assert_eq!(got.argument, Ok(ITEMS), "{over:?}");
                        assert_eq!((got.read, got.oneway), (Ok(7), Ok(())), "{over:?}");
                        assert_eq!(soon(ledger.entered(writer)).await, Ok(2), "{over:?}");
                        suspended.await.unwrap();
                    });
                    assert!(lost.borrow().is_empty(), "{over:?}: {:?}", lost.borrow());
                });
            }
            run.wait(&run.ready, OVER.len() * PRIMITIVES);
            network.part(true);
            run.parted.store(true, SeqCst);
            run.wait(&run.ended, OVER.len());
            network.part(false);
        });
    });
}

#[test]
fn each_primitive_ends_where_a_host_does_not_come_back() {
    with_network("primitives::each_primitive_ends_where_a_host_does_not_come_back", |network| {
        let _watchdog = Watchdog::new("primitives that end");
        let stand = Stand::new(network, TIMEOUT);
        let run = Arc::<Run>::default();
        thread::scope(|scope| {
            for (writer, over) in (1..).zip(OVER) {
                let (stand, run) = (&stand, Arc::clone(&run));
                scope.spawn(move || {
                    let (node, lost) = client(stand, over, WITHIN);
                    node.block_on(async {
                        let ledger: LedgerClient = node.connect(stand.to(over)).await.unwrap();
                        let parted = node.spawn({
                            let run = Arc::clone(&run);
                            async move {
                                until(|| run.parted.load(SeqCst)).await;
                                Instant::now()
                            }
                        });
                        let got = all_at_once(&node, &ledger, stand.to(over), writer, &run).await;
                        let took = parted.await.unwrap().elapsed();
                        let most = TIMEOUT + Duration::from_secs(1) + WITHIN + LATE;
                        assert!(took < most, "{over:?}: {took:?}");
                        // The session took the messages over, and nobody knows whether they have arrived.
                        assert!(matches!(got.loan, Err(CallError::Unknown(_))), "{:?}", got.loan);
                        assert_eq!(got.oneway, Ok(()), "{over:?}");
                        let (came, Some(CallError::Unknown(_) | CallError::NotSent(_))) =
                            got.result
                        else {
                            panic!("{over:?}: {:?}", got.result)
                        };
                        assert!(came < ITEMS, "{over:?}");
                        let argument = got.argument;
                        assert!(matches!(argument, Err(CallError::Unknown(_))), "{argument:?}");
                        assert!(matches!(got.read, Err(ReadError::Call(_))), "{:?}", got.read);
                    });
                    let lost = lost.borrow();
                    assert!(
                        matches!(lost[..], [Lost { why: Why::Unreachable { .. }, .. }]),
                        "{lost:?}"
                    );
                    run.ended.fetch_add(1, SeqCst);
                });
            }
            run.wait(&run.ready, OVER.len() * PRIMITIVES);
            network.part(true);
            run.parted.store(true, SeqCst);
            run.wait(&run.ended, OVER.len());
            network.part(false);
        });
    });
}
