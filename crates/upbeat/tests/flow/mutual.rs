//! Full nodes that call each other.

use crate::common::server::KINDS;
use crate::common::{Directory, Signal, Watchdog, soon};
use crate::depot::{Make, Stand, bytes_of, serve};
use std::rc::Rc;
use upbeat::sync::{Monitor, Mutex};
use upbeat::{Node, Waiting, yield_now};

/// Handlers that wait for each other's node hold no room there: all calls come to an end.
#[test]
fn two_full_nodes_that_call_each_other_finish() {
    let _watchdog = Watchdog::new("mutual");
    for kind in KINDS {
        for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
            for conservative in [false, true] {
                let make = Make::new(waiting).budget(300).share(300);
                let make = if conservative { make.conservative() } else { make };
                let stand = Stand::new(kind, make, make);
                serve(&stand.node);
                stand.node.block_on(async {
                    let tasks: Vec<_> = (0..16_u64)
                        .map(|task| {
                            let (here, there) = (stand.node.name(), stand.name());
                            let node = stand.node.clone();
                            stand.node.spawn(async move {
                                let depot: crate::depot::DepotClient =
                                    node.connect(&there).await.unwrap();
                                for round in 0..8 {
                                    let len = [8, 300, 3000, 70_000][(task + round) as usize % 4];
                                    let bytes = bytes_of(task, len);
                                    let (from, to) = (here.clone(), there.clone());
                                    let depth = 1 + round % 4;
                                    let bounced = depot.bounce(from, to, depth, bytes).await;
                                    assert_eq!(bounced, Ok(len as u64 + depth));
                                }
                            })
                        })
                        .collect();
                    for task in tasks {
                        task.await.unwrap();
                    }
                });
            }
        }
    }
}

/// Handlers that hold something back from each other while they call.
#[upbeat::service]
trait Booth {
    /// Has the named node call back, under a lock.
    async fn locked(&self, through: String) -> u64;
    /// Waits until the value has been set.
    async fn value(&self) -> u64;
    async fn set(&self, value: u64);
    /// Asks the named node for its number.
    async fn back(&self, name: String) -> u64;
    async fn number(&self) -> u64;
}

/// A service of which one handler runs at a time.
#[upbeat::service]
trait Cell {
    /// Has the named node call back.
    async fn visit(&self, through: String) -> u64;
}

struct Keeper {
    node: Node,
    lock: Mutex<()>,
    value: Monitor<Option<u64>, 1>,
}

impl Keeper {
    fn serve(node: &Node) {
        let (lock, value) = (Mutex::new(()), Monitor::named("value", None, ["set"]));
        let keeper = Rc::new(Keeper { node: node.clone(), lock, value });
        node.serve(BoothServer::shared(Rc::clone(&keeper))).unwrap();
        node.serve(CellServer::shared(keeper).max_concurrent(1)).unwrap();
    }

    async fn call_back(&self, through: &str) -> u64 {
        let there: BoothClient = self.node.connect(through).await.unwrap();
        there.back(self.node.name()).await.unwrap()
    }
}

impl Booth for Keeper {
    async fn locked(&self, through: String) -> u64 {
        let _lock = self.lock.lock().await;
        self.call_back(&through).await
    }

    async fn value(&self) -> u64 {
        let value = self.value.enter().await;
        value.wait_while(0, |value| value.is_none()).await.unwrap()
    }

    async fn set(&self, value: u64) {
        let mut inside = self.value.enter().await;
        *inside = Some(value);
        inside.signal_all(0);
    }

    async fn back(&self, name: String) -> u64 {
        let there: BoothClient = self.node.connect(&name).await.unwrap();
        there.number().await.unwrap()
    }

    async fn number(&self) -> u64 {
        7
    }
}

impl Cell for Keeper {
    async fn visit(&self, through: String) -> u64 {
        self.call_back(&through).await
    }
}

/// A node is full of handlers that wait for each other, all of one session, and the first of them can go on only when
/// this session is heard: its request is accepted.
#[test]
fn a_node_full_of_waiters_hears_the_call_that_lets_them_go_on() {
    let _watchdog = Watchdog::within("full of waiters", 30);
    let directory = Directory::new();
    let place = directory.path();
    let (quit, ready) = (Signal::default(), Signal::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let full = Make::new(Waiting::Adaptive).budget(1).share(64 << 10).node("full", &place);
            Keeper::serve(&full);
            ready.give();
            full.block_on(quit.clone());
        });
        let node = Make::new(Waiting::Adaptive).node("caller", &place);
        Keeper::serve(&node);
        node.block_on(async {
            ready.clone().await;
            let full: BoothClient = node.connect("full").await.unwrap();
            let cell: CellClient = node.connect("full").await.unwrap();
            let calls = (0..20).map(|_| full.locked("caller".into()));
            assert_eq!(soon(upbeat::all(calls)).await, vec![Ok(7); 20]);
            let calls = (0..20).map(|_| cell.visit("caller".into()));
            assert_eq!(soon(upbeat::all(calls)).await, vec![Ok(7); 20]);
            let waiting = full.clone();
            let calls = async move { upbeat::all((0..20).map(|_| waiting.value())).await };
            let calls = node.spawn(calls);
            yield_now().await;
            soon(full.set(9)).await.unwrap();
            assert_eq!(soon(calls).await.unwrap(), vec![Ok(9); 20]);
        });
        quit.give();
    });
}
