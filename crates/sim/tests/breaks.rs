//! Sessions over TCP in a world, whose connections break.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use upbeat::Counter;
use upbeat_sim::{Sim, check, spawn};

/// A ledger.
#[upbeat::service]
trait Ledger {
    /// Enters a number.
    async fn enter(&self, number: u64) -> u64;
    /// Notes a number.
    #[oneway]
    async fn note(&self, number: u64);
    /// Returns the numbers that were entered and noted, in their order.
    async fn all(&self) -> (Vec<u64>, Vec<u64>);
}

#[derive(Default)]
struct Book {
    entered: RefCell<Vec<u64>>,
    noted: RefCell<Vec<u64>>,
}

impl Ledger for Book {
    async fn enter(&self, number: u64) -> u64 {
        self.entered.borrow_mut().push(number);
        if number.is_multiple_of(5) {
            upbeat::sleep(Duration::from_millis(number)).await;
        }
        number
    }
    async fn note(&self, number: u64) {
        self.noted.borrow_mut().push(number);
    }
    async fn all(&self) -> (Vec<u64>, Vec<u64>) {
        (self.entered.borrow().clone(), self.noted.borrow().clone())
    }
}

/// Starts the process of a ledger, and returns where it listens.
fn ledger(sim: &Sim) -> String {
    let at = Arc::new(Mutex::new(None));
    let tell = Arc::clone(&at);
    sim.start("ledger", move |sim| {
        let node = sim.node("ledger").shared_memory(false).insecure_plaintext();
        let node = node.listen("127.0.0.1:0").build().unwrap();
        node.serve(LedgerServer::new(Book::default())).unwrap();
        *tell.lock().unwrap() = node.listens_at().map(|address| format!("ledger@{address}"));
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
    loop {
        sim.pause(Duration::from_millis(1));
        if let Some(at) = at.lock().unwrap().take() {
            return at;
        }
    }
}

/// The connection of a session breaks again and again, on either side: each call and each message arrives once, in order.
#[test]
fn a_session_whose_connection_breaks_loses_and_doubles_nothing() {
    const COUNT: u64 = 300;
    check(20, |sim| {
        let at = ledger(sim);
        let breaks = sim.clone();
        let breaker = spawn("breaks", move || {
            for _ in 0..10 {
                breaks.pause(Duration::from_micros(breaks.below(200_000)));
                breaks.break_connections("ledger");
            }
        });
        let client = sim.node("client").shared_memory(false).insecure_plaintext().build().unwrap();
        client.block_on(async {
            let ledger: LedgerClient = client.connect(&at).await.unwrap();
            for number in 0..COUNT {
                ledger.note(number).await.unwrap();
                assert_eq!(ledger.enter(number).await, Ok(number));
            }
            let all = ledger.all().await.unwrap();
            let expected: Vec<_> = (0..COUNT).collect();
            assert_eq!(all, (expected.clone(), expected));
        });
        let resumed = client.counted(Counter::SessionsSuspended);
        sim.sometimes("a session resumed several times", resumed > 3);
        assert_eq!(client.counted(Counter::SessionsOpened), 1);
        breaker.unwrap().join().unwrap();
    });
}
