//! Clients that write without end: calls, one-way messages and streams, each checked for order and number.

use crate::common::{block_on, soon};
use crate::networks::ledger::{LedgerClient, LedgerHandle};
use crate::networks::{Client, Over, Stand};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use upbeat::{Counter, Stream, Waiting};

/// Tasks of a node that write at once.
const WRITERS: u64 = 16;
/// Items of a stream.
const ITEMS: u64 = 500;

/// Longer than anything here lasts: a silent peer is waited for.
pub(crate) const PATIENT: Duration = Duration::from_secs(60);
/// The shortest time after which a peer counts as silent.
pub(crate) const QUICK: Duration = Duration::from_secs(1);

/// A client, and how far it is.
pub(crate) struct Writer {
    client: Client,
    over: Over,
    peer_timeout: Duration,
    number: u64,
    /// Calls and one-way messages that were sent, the calls answered.
    pub(crate) done: AtomicU64,
}

/// The settings of a test's clients.
pub(crate) struct Run {
    /// Messages that each client sends at least.
    pub(crate) share: u64,
    /// The network is whole again, for good.
    pub(crate) healed: AtomicBool,
}

impl Run {
    fn is_over(&self, writer: &Writer) -> bool {
        self.healed.load(SeqCst) && writer.done.load(SeqCst) >= self.share
    }
}

impl Writer {
    pub(crate) fn new(number: u64, client: Client, over: Over, peer_timeout: Duration) -> Writer {
        Writer { client, over, peer_timeout, number: 100 * number, done: AtomicU64::new(0) }
    }

    /// Writes until the run is over, in a thread that is made one of the near host's.
    pub(crate) fn write(&self, stand: &Stand<'_>, run: &Run) {
        stand.near().enter();
        match self.client {
            Client::Node(waiting) => self.write_in_node(stand, run, waiting),
            Client::Blocking(waiting) => self.write_blocking(stand, run, waiting),
            Client::Awaited => self.write_awaited(stand, run),
        }
    }

    fn write_in_node(&self, stand: &Stand<'_>, run: &Run, waiting: Waiting) {
        let builder = stand.node(self.over, waiting).resume_within(PATIENT);
        let node = builder.peer_timeout(self.peer_timeout).build().unwrap();
        node.block_on(async {
            let ledger: LedgerClient = node.connect(stand.to(self.over)).await.unwrap();
            upbeat::scope(async |scope| {
                for task in 0..WRITERS {
                    scope.spawn(self.entries(&ledger, run, self.number + task));
                }
                scope.spawn(self.streams(&ledger, run));
            })
            .await;
        });
        let [suspended, resumed, lost] =
            [Counter::SessionsSuspended, Counter::SessionsResumed, Counter::SessionsLost]
                .map(|counter| node.counted(counter));
        println!("{:?} {:?}: {suspended} suspended, {resumed} resumed", self.client, self.over);
        assert_eq!((resumed, lost), (suspended, 0));
        assert_eq!(suspended > 0, self.peer_timeout == QUICK, "{suspended}");
    }

    async fn entries(&self, ledger: &LedgerClient, run: &Run, writer: u64) {
        let mut number = 0;
        while !run.is_over(self) {
            ledger.note(writer, number + 1).await.unwrap();
            number += 2;
            assert_eq!(ledger.enter(writer, number).await, Ok(number));
            self.done.fetch_add(2, SeqCst);
        }
        assert_eq!(soon(ledger.entered(writer)).await, Ok(number));
    }

    async fn streams(&self, ledger: &LedgerClient, run: &Run) {
        while !run.is_over(self) {
            let mut numbers = ledger.count(ITEMS).await.unwrap();
            for expected in 0..ITEMS {
                assert_eq!(numbers.next().await, Some(Ok(expected)));
            }
            assert_eq!(ledger.in_order(Stream::of(0..ITEMS)).await, Ok(ITEMS));
            let sent: Vec<u8> = (0..300_000_u32).map(|at| at as u8).collect();
            assert_eq!(ledger.bytes(sent.clone()).await, Ok(sent));
        }
    }

    fn connect(&self, stand: &Stand<'_>, waiting: Waiting) -> LedgerHandle {
        let builder = stand.handle(self.over).waiting(waiting).resume_within(PATIENT);
        builder.peer_timeout(self.peer_timeout).connect(stand.to(self.over)).unwrap()
    }

    fn write_blocking(&self, stand: &Stand<'_>, run: &Run, waiting: Waiting) {
        let ledger = self.connect(stand, waiting);
        let (ledger, mut number) = (ledger.blocking(), 0);
        while !run.is_over(self) {
            ledger.note(self.number, number + 1).unwrap();
            number += 2;
            assert_eq!(ledger.enter(self.number, number), Ok(number));
            self.done.fetch_add(2, SeqCst);
        }
        assert_eq!(ledger.entered(self.number), Ok(number));
    }

    fn write_awaited(&self, stand: &Stand<'_>, run: &Run) {
        let (ledger, mut number) = (self.connect(stand, Waiting::Adaptive), 0);
        while !run.is_over(self) {
            block_on(async {
                ledger.note(self.number, number + 1).await.unwrap();
                number += 2;
                assert_eq!(ledger.enter(self.number, number).await, Ok(number));
            });
            self.done.fetch_add(2, SeqCst);
        }
        assert_eq!(block_on(ledger.entered(self.number)), Ok(number));
    }
}
