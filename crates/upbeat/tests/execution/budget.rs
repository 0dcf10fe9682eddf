//! For how long a handler runs: it makes way at its checkpoints, and is named if it has none.

use crate::bank::BankClient;
use crate::common::process::one_test;
use crate::common::server::KINDS;
use crate::common::{Directory, Signal, Watchdog, node};
use crate::shop::{SHOWS, ShopClient, Stand, TIME, counted, serve};
use crate::warning;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use upbeat::{Counter, Node, Waiting};

/// The budget of the method that makes way.
const BUDGET: Duration = Duration::from_millis(1);

#[test]
fn a_handler_makes_way_when_its_time_is_used_up() {
    let _watchdog = Watchdog::new("making way");
    for kind in KINDS {
        let stand = Stand::new(kind, None);
        stand.node.block_on(async {
            let shop = stand.client().await;
            shop.spin(5_000, true, false).await.unwrap();
            assert_eq!(counted(&shop, Counter::PromotedByBudget).await, 1);
            // A handler that is done before its time is used up need not make way.
            let mut promoted = 1;
            for _ in 0..20 {
                shop.spin(1, true, false).await.unwrap();
            }
            promoted = counted(&shop, Counter::PromotedByBudget).await - promoted;
            // On a busy machine the clock may run while the handler does not.
            assert!(promoted < 10, "{promoted}");
        });
    }
}

#[test]
fn a_budget_of_one_method_is_not_that_of_others() {
    let _watchdog = Watchdog::new("budgets");
    for kind in KINDS {
        let stand = Stand::new(kind, None);
        stand.node.block_on(async {
            let shop = stand.client().await;
            let bank: BankClient = stand.node.connect(&stand.name()).await.unwrap();
            for _ in 0..5 {
                // The method `audit` may run for a millisecond, and is done long before.
                bank.audit(1).await.unwrap();
                let before = counted(&shop, Counter::PromotedByBudget).await;
                shop.spin(400, true, false).await.unwrap();
                assert_eq!(counted(&shop, Counter::PromotedByBudget).await, before + 1);
            }
        });
    }
}

/// The time that all but one in a hundred of these took.
fn p99(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

#[test]
fn who_makes_way_holds_up_others_for_no_longer_than_its_budget() {
    let _watchdog = Watchdog::new("others");
    let directory = Directory::new();
    let place = directory.path();
    let id = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let [shop, long] =
        ["shop", "long"].map(|name| node(&format!("way/{id}/{name}"), &place, Waiting::Polling));
    let keeper = serve(&shop);
    SHOWS.set(true);
    // One session's calls compute for long and make way, several at a time.
    let calls = Rc::new(Cell::new(0));
    for _ in 0..3 {
        let (node, name, calls) = (long.clone(), shop.name(), Rc::clone(&calls));
        drop(long.spawn(async move {
            let bank: BankClient = node.connect(&name).await.unwrap();
            loop {
                bank.audit(100_000).await.unwrap();
                calls.set(calls.get() + 1);
            }
        }));
    }
    // Another one's calls are short.
    let (name, stop) = (shop.name(), Signal::default());
    let stopped = stop.clone();
    let short = std::thread::spawn(move || {
        let node = node(&format!("way/{id}/short"), &place, Waiting::Polling);
        node.block_on(async {
            let shop: ShopClient = node.connect(&name).await.unwrap();
            while !stopped.given() {
                shop.mark(TIME.load(Ordering::SeqCst)).await.unwrap();
            }
        });
    });
    while calls.get() < 6 || keeper.waited.borrow().len() < 400 {
        long.turn();
        shop.turn();
    }
    stop.give();
    while !short.is_finished() {
        shop.turn();
    }
    short.join().unwrap();
    let mut waited: Vec<_> =
        keeper.waited.borrow().iter().copied().map(Duration::from_nanos).collect();
    let p99 = p99(&mut waited);
    // Beside the budget there are the turns of two nodes, in a build without optimisation, and perhaps under TLS.
    assert!(p99 < 2 * BUDGET, "{p99:?}");
    let longest = waited[waited.len() - 1];
    assert!(longest >= BUDGET / 2, "nobody was in the way: {longest:?}");
}

#[test]
fn who_runs_on_is_counted_and_named() {
    let _watchdog = Watchdog::new("over-runs");
    for kind in KINDS {
        let stand = Stand::new(kind, None);
        stand.node.block_on(async {
            let shop = stand.client().await;
            // A poll in which the thread waited for a processor is excused, however often that is on a busy machine.
            let mut calls = 0;
            while counted(&shop, Counter::OverRuns).await == 0 {
                shop.spin(2_000, false, true).await.unwrap();
                calls += 1;
            }
            let over_runs = shop.over_runs().await.unwrap();
            let [(name, count)] = &over_runs[..] else { panic!("{over_runs:?}") };
            assert!(name == "Shop.spin" && (1..=calls).contains(count), "{over_runs:?}");
            stand.node.set_sampling(1);
            while counted(&shop, Counter::OverRuns).await <= 10 {
                shop.spin(200, false, false).await.unwrap();
            }
        });
    }
}

#[upbeat::service]
trait Long {
    async fn one(&self);
    async fn other(&self);
}

struct Runner;

impl Runner {
    /// Runs on as a task, far beyond what it may.
    async fn run(&self) {
        upbeat::yield_now().await;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1) {
            std::hint::spin_loop();
        }
    }
}

impl Long for Runner {
    async fn one(&self) {
        self.run().await;
    }

    async fn other(&self) {
        self.run().await;
    }
}

/// Says that it was asked to: in other processes this is a test of nothing.
const RUNS: &str = "UPBEAT_TEST_RUNS_ON";

/// Two nodes serve two methods that run on, several times each.
#[test]
fn runs_on() {
    if std::env::var_os(RUNS).is_none() {
        return;
    }
    let [one, other, client] = ["long/one", "long/other", "long/client"]
        .map(|name| Node::builder(name).program("test").local_only().build().unwrap());
    let servers = [&one, &other];
    servers.iter().for_each(|node| node.serve(LongServer::new(Runner)).unwrap());
    let way = client.clone();
    drop(client.spawn(async move {
        let [one, other]: [LongClient; 2] =
            [way.connect("long/one").await.unwrap(), way.connect("long/other").await.unwrap()];
        loop {
            for server in [&one, &other] {
                server.one().await.unwrap();
                server.other().await.unwrap();
            }
        }
    }));
    // A poll in which the thread waited for a processor is excused.
    while servers.iter().any(|node| node.over_runs().len() < 2) {
        one.turn();
        other.turn();
        client.turn();
    }
    for node in servers {
        let mut over_runs = node.over_runs();
        over_runs.sort_by_key(|one| one.method);
        let names = over_runs.iter().map(|one| (one.service, one.method));
        assert!(names.eq([("Long", "one"), ("Long", "other")]), "{over_runs:?}");
        assert!(over_runs.iter().all(|one| one.longest >= Duration::from_micros(990)));
        let budget = Duration::from_micros(99)..Duration::from_micros(101);
        assert!(over_runs.iter().all(|one| budget.contains(&one.budget)), "{over_runs:?}");
    }
}

#[test]
fn a_process_is_warned_once_of_each_method_that_runs_on() {
    let _watchdog = Watchdog::new("warnings");
    let mut command = one_test(concat!(module_path!(), "::runs_on"));
    let output = command.env(RUNS, "1").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    for method in ["`Long.one`", "`Long.other`"] {
        let warned = warning(&text, method);
        assert!(warned.starts_with("upbeat: a handler of "), "{warned}");
        assert!(warned.contains("beyond its budget of 100µs"), "{warned}");
        for advice in [
            "`upbeat::compute(move || …).await`",
            "`upbeat::sleep(…).await` for `std::thread::sleep`",
        ] {
            assert!(warned.contains(advice), "{warned}");
        }
    }
}
