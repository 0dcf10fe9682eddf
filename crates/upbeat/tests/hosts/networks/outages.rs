//! Outages of every length: as long as one ends before the promised limit, it costs time and nothing else.

use crate::common::{Watchdog, block_on, setting, soon};
use crate::networks::ledger::{LedgerClient, LedgerHandle};
use crate::networks::namespaces::{Network, has_nft, with_networks};
use crate::networks::{Client, Over, Stand};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use upbeat::{Counter, Waiting};

/// The time before the limit in which no outage of a test ends: the system asks once a second for the address of a
/// neighbour whose link is back, may send what waits for it a second later, and connecting takes a while too.
const MARGIN_MS: u64 = 3_500;
/// A call that is made after the outage is answered within this time. A busy machine takes its time.
const LATE: Duration = Duration::from_secs(8);
/// Outages that are played at a time, each on a network of its own.
const AT_A_TIME: usize = 6;

const CLIENTS: [(Client, Over); 6] = [
    (Client::Node(Waiting::Adaptive), Over::Tcp),
    (Client::Node(Waiting::Sleeping), Over::Tls),
    (Client::Blocking(Waiting::Adaptive), Over::Tcp),
    (Client::Blocking(Waiting::Sleeping), Over::Tls),
    (Client::Awaited, Over::Tcp),
    (Client::Awaited, Over::Tls),
];

/// How far the clients of an outage are.
#[derive(Default)]
struct Run {
    /// The calls of each client that were answered.
    done: [AtomicU64; CLIENTS.len()],
    healed: AtomicBool,
    /// The calls that each client had made when the network was whole again.
    before: [AtomicU64; CLIENTS.len()],
}

impl Run {
    fn is_over(&self, client: usize) -> bool {
        self.healed.load(SeqCst)
            && self.done[client].load(SeqCst) > self.before[client].load(SeqCst) + 2
    }

    fn did(&self, client: usize, number: u64) {
        self.done[client].store(number, SeqCst);
        // The calls of an idle machine would only take its processors from the other outages.
        thread::sleep(Duration::from_millis(2));
    }
}

fn play(stand: &Stand<'_>, outage: &Outage, run: &Run, client: usize) {
    stand.near().enter();
    let (kind, over) = CLIENTS[client];
    let [timeout, within] = [outage.timeout_ms, outage.within_ms].map(Duration::from_millis);
    let handle = |waiting| -> LedgerHandle {
        let builder = stand.handle(over).waiting(waiting).resume_within(within);
        builder.peer_timeout(timeout).connect(stand.to(over)).unwrap()
    };
    let (writer, mut number) = (client as u64, 0);
    match kind {
        Client::Node(waiting) => {
            let builder = stand.node(over, waiting).resume_within(within);
            let node = builder.peer_timeout(timeout).build().unwrap();
            node.block_on(async {
                let ledger: LedgerClient = node.connect(stand.to(over)).await.unwrap();
                while !run.is_over(client) {
                    number += 1;
                    let entered = soon(ledger.enter(writer, number)).await;
                    assert_eq!(entered, Ok(number), "{kind:?} {over:?}");
                    run.did(client, number);
                }
            });
            let lost = node.counted(Counter::SessionsLost);
            assert_eq!((node.counted(Counter::SessionsOpened), lost), (1, 0), "{kind:?} {over:?}");
        }
        Client::Blocking(waiting) => {
            let ledger = handle(waiting);
            let ledger = ledger.blocking();
            while !run.is_over(client) {
                number += 1;
                assert_eq!(ledger.enter(writer, number), Ok(number), "{kind:?} {over:?}");
                run.did(client, number);
            }
        }
        Client::Awaited => {
            let ledger = handle(Waiting::Adaptive);
            while !run.is_over(client) {
                number += 1;
                let entered = block_on(ledger.enter(writer, number));
                assert_eq!(entered, Ok(number), "{kind:?} {over:?}");
                run.did(client, number);
            }
        }
    }
}

/// An outage, and the terms of the clients that meet it.
struct Outage {
    kind: String,
    /// After this time a peer counts as silent.
    timeout_ms: u64,
    /// And after this its session ends.
    within_ms: u64,
    lasts_ms: u64,
}

impl Outage {
    /// Reads an outage as [`outages`] writes it.
    fn new(text: &str) -> Outage {
        let mut parts = text.split(' ');
        let kind = parts.next().unwrap().to_owned();
        let mut ms = || parts.next().unwrap().parse().unwrap();
        Outage { kind, timeout_ms: ms(), within_ms: ms(), lasts_ms: ms() }
    }

    fn is_on(&self, network: &Network, is_on: bool) {
        match &*self.kind {
            "drop" => network.part(is_on),
            "far-link" => network.link(!is_on),
            "own-link" => network.near.link(!is_on),
            "own-drop" => network.near.mute(is_on),
            kind => panic!("`{kind}` is no kind of outage"),
        }
    }
}

/// The outages: a kind, the clients' terms, and a length, in milliseconds. `UPBEAT_OUTAGE_STEP_MS` asks for all lengths
/// up to the limit that are so far apart.
fn outages() -> Vec<String> {
    let has_nft = has_nft();
    all_outages().into_iter().filter(|outage| has_nft || !outage.starts_with("own-drop")).collect()
}

fn all_outages() -> Vec<String> {
    let most = |[timeout, within]: [u64; 2]| timeout + within - MARGIN_MS;
    let (quick, usual) = ([1_000, 5_000], [10_000, 5_000]);
    let outage = |kind: &str, [timeout, within]: [u64; 2], ms: u64| {
        format!("{kind} {timeout} {within} {ms}")
    };
    let step = setting("UPBEAT_OUTAGE_STEP_MS", 0);
    if step > 0 {
        let lengths = |terms| (1..=most(terms) / step).map(move |nth| (terms, nth * step)).rev();
        let lengths = lengths(usual).chain(lengths(quick));
        let kinds = ["drop", "far-link", "own-link", "own-drop"];
        return lengths.flat_map(|(terms, ms)| kinds.map(|kind| outage(kind, terms, ms))).collect();
    }
    let long = [outage("drop", usual, most(usual)), outage("far-link", usual, most(usual))];
    let lengths = [most(quick), 3_000, 1_700, 1_000, 500, 100];
    let kinds = [["drop", "far-link"], ["own-link", "own-drop"]];
    let short = lengths.iter().zip(kinds.iter().cycle());
    let short = short.flat_map(|(ms, kinds)| kinds.map(|kind| outage(kind, quick, *ms)));
    long.into_iter().chain(short).collect()
}

#[test]
fn an_outage_of_any_length_costs_time_and_nothing_else() {
    let test = "outages::an_outage_of_any_length_costs_time_and_nothing_else";
    let at_a_time = setting("UPBEAT_OUTAGES_AT_A_TIME", AT_A_TIME as u64) as usize;
    with_networks(test, &outages(), at_a_time, |network, text| {
        let _watchdog = Watchdog::new("an outage");
        let outage = Outage::new(text);
        let stand = Stand::new(network, Duration::from_millis(outage.timeout_ms));
        let run = Run::default();
        let done = || run.done.each_ref().map(|done| done.load(SeqCst));
        thread::scope(|scope| {
            for client in 0..CLIENTS.len() {
                let (stand, outage, run) = (&stand, &outage, &run);
                scope.spawn(move || play(stand, outage, run, client));
            }
            while done().iter().any(|done| *done < 20) {
                thread::sleep(Duration::from_millis(1));
            }
            outage.is_on(network, true);
            let began = Instant::now();
            thread::sleep(Duration::from_millis(outage.lasts_ms));
            outage.is_on(network, false);
            let (lasted, healed) = (began.elapsed(), Instant::now());
            for (before, done) in run.before.iter().zip(done()) {
                before.store(done, SeqCst);
            }
            run.healed.store(true, SeqCst);
            let mut late = [None; CLIENTS.len()];
            while late.contains(&None) {
                for (client, late) in late.iter_mut().enumerate() {
                    if late.is_none() && run.is_over(client) {
                        *late = Some(healed.elapsed().as_millis());
                    }
                }
                assert!(healed.elapsed() < LATE, "{text}: {late:?} ms");
                thread::sleep(Duration::from_millis(1));
            }
            println!("{text}: away for {lasted:?}, answers after {late:?} ms");
        });
    });
}
