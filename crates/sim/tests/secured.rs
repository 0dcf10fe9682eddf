//! Nodes under TLS, between hosts whose network damages bytes, breaks and is parted.
#![forbid(unsafe_code)]

mod common;

#[path = "../../transport/tests/secure/mod.rs"]
mod secure;

use common::{PATIENCE, ms};
use secure::{HOUR, MONTH, Scratch};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use upbeat::bill::Counter;
use upbeat::{Builder, CallError, Identity};
use upbeat_sim::{Fault, Faults, Sim, check};

const SOON: Duration = Duration::from_secs(30);

/// A ledger.
#[upbeat::service]
trait Ledger {
    /// Enters a number with a page, and returns the sum of the page.
    async fn enter(&self, number: u64, page: Vec<u8>) -> u64;
    /// Notes a number.
    #[oneway]
    async fn note(&self, number: u64);
}

/// The numbers that were entered and noted, in their order.
type Pages = Arc<Mutex<[Vec<u64>; 2]>>;

struct Book(Pages);

fn sum(page: &[u8]) -> u64 {
    page.iter().map(|byte| u64::from(*byte)).sum()
}

impl Ledger for Book {
    async fn enter(&self, number: u64, page: Vec<u8>) -> u64 {
        self.0.lock().unwrap()[0].push(number);
        sum(&page)
    }

    async fn note(&self, number: u64) {
        self.0.lock().unwrap()[1].push(number);
    }
}

/// Starts the process of a ledger, and returns its pages.
fn serve(sim: &Sim, identity: &Identity) -> Pages {
    let pages = Pages::default();
    let (of, identity) = (Arc::clone(&pages), identity.clone());
    sim.host("vienna").start("ledger", move |sim| {
        let node = secured(sim, "ledger", &identity).listen("vienna:7000").build().unwrap();
        node.serve(LedgerServer::new(Book(Arc::clone(&of)))).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
    pages
}

fn secured(sim: &Sim, name: &str, identity: &Identity) -> Builder {
    let builder = sim.node(name).identity(identity.clone());
    builder.peer_timeout(PATIENCE).resume_within(SOON)
}

/// A connection with damaged bytes is one that breaks: the session resumes over another, each call is answered with what was
/// computed of the bytes that were sent, and each message comes once, in its order. A damaged length of a record is noticed once
/// so many bytes have come, which may be never: calls have deadlines, and the connection is broken by hand.
#[test]
fn damaged_bytes_reach_nobody() {
    const CALLS: u64 = 60;
    check(8, |sim| {
        let scratch = Scratch::new();
        let identity = secure::of_one_length(&scratch, "sim", MONTH);
        let pages = serve(sim, &identity);
        let node = secured(sim, "client", &identity).build().unwrap();
        let mut answered = Vec::new();
        node.block_on(async {
            let ledger: LedgerClient =
                node.connect("ledger@vienna:7000").wait_for(SOON).await.unwrap();
            let kinds = [Fault::Damage, Fault::Damage, Fault::Break, Fault::Part, Fault::Delay];
            let siege = sim.faults(Faults::of(kinds).every(ms(1)..ms(50)).lasts(ms(0)..ms(500)));
            for number in 0..CALLS {
                ledger.note(number).await.unwrap();
                let page: Vec<u8> = (0..sim.below(20_000)).map(|_| sim.below(256) as u8).collect();
                let wanted = sum(&page);
                match ledger.enter(number, page).deadline(ms(2_000)).await {
                    Ok(sum) => assert_eq!(sum, wanted),
                    Err(CallError::Deadline(_)) => continue,
                    Err(error) => panic!("{error}"),
                }
                answered.push(number);
            }
            siege.end();
            let mut tries = CALLS..;
            let mut again = || ledger.enter(tries.next().unwrap(), vec![1; 20_000]);
            while again().deadline(ms(100)).await.is_err() {
                sim.break_connections("main", "vienna");
            }
        });
        let [entered, noted] = pages.lock().unwrap().clone();
        assert!(noted.into_iter().eq(0..CALLS));
        assert!(entered.is_sorted_by(|one, other| one < other), "a call ran twice");
        assert!(answered.iter().all(|number| entered.contains(number)));
        sim.sometimes("a session was resumed", node.counted(Counter::SessionsResumed) > 0);
        assert_eq!(node.counted(Counter::SessionsLost), 0);
    });
}

/// Callers whose handshakes are damaged are told, and reach their node by a later attempt.
#[test]
fn damaged_handshakes_are_told() {
    check(8, |sim| {
        let scratch = Scratch::new();
        let identity = secure::of_one_length(&scratch, "sim", MONTH);
        serve(sim, &identity);
        sim.pause(ms(1));
        let siege = sim.faults(Faults::of([Fault::Damage]).every(ms(1)..ms(20)));
        for number in 0..6 {
            let node = secured(sim, &format!("client-{number}"), &identity).build().unwrap();
            node.block_on(async {
                let ledger: LedgerClient = loop {
                    match node.connect("ledger@vienna:7000").wait_for(SOON).await {
                        Ok(ledger) => break ledger,
                        Err(error) => assert!(error.to_string().contains("TLS"), "{error}"),
                    }
                    sim.sometimes("a caller was told", true);
                };
                while ledger.enter(number, vec![1; 20_000]).deadline(ms(100)).await.is_err() {
                    sim.break_connections("main", "vienna");
                }
            });
        }
        siege.end();
    });
}

/// A certificate that expires while a session is open ends it not, and opens no other one.
#[test]
fn a_certificate_expires_in_the_time_of_the_world() {
    check(2, |sim| {
        let scratch = Scratch::new();
        let identity = secure::of_one_length(&scratch, "sim", HOUR);
        serve(sim, &identity);
        let early = secured(sim, "early", &identity).build().unwrap();
        early.block_on(async {
            let ledger: LedgerClient =
                early.connect("ledger@vienna:7000").wait_for(SOON).await.unwrap();
            upbeat::sleep(Duration::from_secs(2 * HOUR as u64)).await;
            assert_eq!(ledger.enter(0, vec![1; 5]).await, Ok(5));
        });
        let late = secured(sim, "late", &identity).build().unwrap();
        late.block_on(async {
            let told = late.connect::<LedgerClient>("ledger@vienna:7000").await.err().unwrap();
            assert!(told.to_string().contains("expired"), "{told}");
        });
    });
}
