//! Exports that are read over a network to which something happens again and again.

use crate::common::{besiege, remote};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use upbeat::export::{FixedVec, ReadError};
use upbeat::{Counter, Import, Shared};
use upbeat_sim::{Sim, check};

/// A session outlives what happens to the network.
const LONG: Duration = Duration::from_secs(60);
const LAST: u64 = 80;

#[derive(Clone, Debug, PartialEq, Shared)]
struct Prices {
    bid: u64,
    ask: u64,
    /// Grows, so that the export moves.
    past: Vec<u64>,
}

/// Starts an owner, which changes its export until it has set the last prices.
fn owner(sim: &Sim) {
    sim.host("vienna").start("prices", |sim| {
        let node = remote(sim, "prices", LONG).listen("vienna:7000").build().unwrap();
        let prices = Prices { bid: 0, ask: 0, past: Vec::new() };
        let prices = node.export_guarded("quotes", prices).unwrap();
        node.block_on(async {
            for number in 1..=LAST {
                upbeat::sleep(sim.between(&(Duration::ZERO..Duration::from_millis(40)))).await;
                let guard = prices.lock().await;
                guard.bid().set(number);
                guard.past().push(number).unwrap();
                guard.ask().set(number);
            }
            std::future::pending::<()>().await;
        });
        Ok::<_, Infallible>(())
    });
}

/// Readers see whole prices, never older ones behind newer ones, and the last ones in the end; a watch misses none of
/// the last.
pub(crate) fn reads(sim: &Sim) {
    owner(sim);
    let node = remote(sim, "reader", LONG).build().unwrap();
    node.block_on(async {
        let prices = loop {
            match node.import::<Prices>("prices@vienna:7000/quotes").await {
                Ok(prices) => break prices,
                Err(_) => upbeat::sleep(Duration::from_millis(5)).await,
            }
        };
        let siege = besiege(sim);
        let (watched, again) = (prices.clone(), prices.clone());
        let watches = node.spawn(async move {
            let (mut asks, mut last) = (watched.ask().watch(), 0);
            while last < LAST {
                let ask = asks.changed().await.unwrap();
                assert!(ask >= last, "{ask} after {last}");
                last = ask;
            }
        });
        let snapshots = node.spawn(async move {
            let mut last = 0;
            while last < LAST {
                let found =
                    again.snapshot(async |of| Ok((of.ask().read().await?, of.bid().read().await?)));
                let (ask, bid) = found.await.unwrap();
                assert!(ask == bid && ask >= last, "{ask} and {bid} after {last}");
                last = ask;
                upbeat::sleep(Duration::from_millis(3)).await;
            }
        });
        let mut last = 0;
        while last < LAST {
            let found = prices.whole().read().await.unwrap();
            assert!(found.ask == found.bid && found.ask >= last, "{found:?} after {last}");
            assert!((1..=found.ask).eq(found.past.iter().copied()), "{found:?}");
            last = found.ask;
            upbeat::sleep(Duration::from_millis(5)).await;
        }
        watches.await.unwrap();
        snapshots.await.unwrap();
        siege.end();
    });
}

/// Exports for one reader come and go, and the reader watches them for a while: nothing of that stays at their owner.
pub(crate) fn lists(sim: &Sim) {
    let place = sim.host("vienna");
    place.start("prices", |sim| {
        let node = sim.node("prices").build().unwrap();
        node.block_on(async {
            for round in 1..=6 {
                let readers = [format!("desk-{round}"), "reader".to_owned()];
                let list = node.export_for(&readers).unwrap();
                let prices = list.export("quotes", [0_u64; 40]).unwrap();
                for number in 1..=20 {
                    upbeat::sleep(sim.between(&(Duration::ZERO..Duration::from_millis(6)))).await;
                    prices.index(number).set(round);
                }
                upbeat::sleep(Duration::from_millis(30)).await;
            }
        });
        assert_eq!(node.counted(Counter::Panics), 0);
        let memory = node.export_memory();
        assert_eq!((memory.live, memory.held, memory.segments), (0, 0, 0));
        Ok::<_, Infallible>(())
    });
    place.start("reader", |sim| {
        let node = sim.node("reader").build().unwrap();
        node.block_on(async {
            for _ in 0..40 {
                let pause = sim.between(&(Duration::ZERO..Duration::from_millis(20)));
                let Ok(prices) = node.import::<[u64; 40]>("prices/quotes").await else {
                    upbeat::sleep(pause).await;
                    continue;
                };
                let at = sim.below(20) as usize;
                let mut watch = prices.index(at).watch();
                drop(upbeat::within(pause, watch.changed()).await);
                sim.sometimes("a reader has watched", true);
            }
        });
        Ok::<_, Infallible>(())
    });
    sim.pause(Duration::from_secs(5));
    assert!(!sim.is_running("prices") && !sim.is_running("reader"));
}

#[derive(Clone, Debug, Shared)]
struct Table {
    rows: [Row; 20],
    /// As many numbers as the round says.
    list: FixedVec<u64, 8>,
    large: [u64; 2],
}

#[derive(Clone, Copy, Debug, Shared)]
struct Row {
    size: u64,
    number: u32,
}

impl Table {
    fn new(round: u64) -> Table {
        let rows = std::array::from_fn(|at| Row { size: 1_000 * round, number: at as u32 });
        Table { rows, list: FixedVec::new(), large: [u64::MAX; 2] }
    }
}

/// Exports stand under one name after another, and their owner dies: readers see one of them or none, and what they ask of
/// it is answered rightly.
pub(crate) fn asked(sim: &Sim) {
    let rounds = Arc::new(AtomicU64::new(1));
    sim.start("tables", move |sim| {
        let node = sim.node("tables").build().unwrap();
        node.block_on(async {
            loop {
                let round = rounds.fetch_add(1, Relaxed);
                let table = node.export("table", Table::new(round)).unwrap();
                for number in 0..round % 9 {
                    table.list().push(number).unwrap();
                }
                assert!(node.export("table", 0_u64).is_err(), "the name is taken");
                upbeat::sleep(Duration::from_millis(5 + sim.below(60))).await;
            }
        });
        Ok::<_, Infallible>(())
    });
    let is_shared = sim.below(2) == 0;
    sim.start("reader", move |sim| {
        let node = sim.node("reader").shared_memory(is_shared).build().unwrap();
        node.block_on(async {
            for _ in 0..40 {
                upbeat::sleep(Duration::from_millis(sim.below(30))).await;
                assert!(node.import::<u64>("tables/table").await.is_err(), "it has another type");
                if let Ok(table) = node.import::<Table>("tables/table").await {
                    let _ = ask(&table, Duration::from_millis(sim.below(100))).await;
                }
            }
        });
        Ok::<_, Infallible>(())
    });
    while sim.is_running("reader") {
        sim.pause(Duration::from_millis(40 + sim.below(100)));
        sim.kill("tables");
        sim.restart("tables");
    }
}

/// Asks for parts of a table until it ends.
async fn ask(table: &Import<Table>, pause: Duration) -> Result<(), ReadError> {
    let size = table.rows().index(0).size().read().await?;
    let listed = size / 1_000 % 9;
    let rows = || table.rows().range(2..);
    assert_eq!(rows().sum(|row| row.size()).await?, 18 * size);
    assert_eq!(rows().filter(|row| row.number().less_than(5)).count().await?, 3);
    assert_eq!(rows().max(|row| row.number()).await?, Some(19));
    let overflow = table.large().range(..).sum(|number| number.itself()).await;
    assert!(overflow.is_err(), "{overflow:?}");
    upbeat::sleep(pause).await;
    assert_eq!(table.rows().index(19).size().read().await?, size, "it is still the same export");
    for at in 0..8 {
        match table.list().index(at).read().await {
            Ok(number) => assert!(number == at as u64 && number < listed, "{at} of {listed}"),
            Err(ReadError::Index { .. }) => assert!(at as u64 >= listed, "{at} of {listed}"),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[test]
fn tables_are_read_rightly_or_not_at_all() {
    check(10, asked);
}

#[test]
fn exports_that_come_and_go_leave_nothing() {
    check(10, lists);
}

#[test]
fn readers_beyond_a_network_see_whole_values_in_order() {
    check(12, reads);
}
