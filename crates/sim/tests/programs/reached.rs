//! Nodes that many callers reach, nodes that start anew, and nodes that share a name.

use crate::common::{ms, remote};
use std::convert::Infallible;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use upbeat::{CallError, Node, within};
use upbeat_environment::time::Instant;
use upbeat_sim::{Sim, Thread, check, spawn};

/// Adds.
#[upbeat::service]
trait Adder {
    /// Returns the number behind the next one.
    async fn add(&self, number: u64) -> u64;
    /// Returns the number two behind.
    async fn add_two(&self, number: u64) -> u64;
}

/// Doubles.
#[upbeat::service]
trait Doubler {
    /// Returns twice the number.
    async fn double(&self, number: u64) -> u64;
}

/// Counts the calls of one node.
#[derive(Clone, Default)]
struct Sums(Arc<AtomicU64>);

impl Adder for Sums {
    async fn add(&self, number: u64) -> u64 {
        self.0.fetch_add(1, Relaxed);
        number + 1
    }
    async fn add_two(&self, number: u64) -> u64 {
        upbeat::sleep(ms(number % 5)).await;
        number + 2
    }
}

impl Doubler for Sums {
    async fn double(&self, number: u64) -> u64 {
        2 * number
    }
}

const LONG: Duration = Duration::from_secs(60);

/// Many clients call a node now and then, each from a thread of its own: each call is answered soon, although the node
/// sleeps in between and looks at few sessions each turn.
fn crowd(sim: &Sim, is_remote: bool) {
    let node_of = move |sim: &Sim, name: &str| match is_remote {
        true => remote(sim, name, LONG),
        false => sim.node(name),
    };
    let serve = move |sim: &Sim| {
        let builder = node_of(sim, "sums");
        let builder = if is_remote { builder.listen("vienna:7000") } else { builder };
        let node = builder.build().unwrap();
        node.serve(AdderServer::new(Sums::default())).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    };
    match is_remote {
        true => sim.host("vienna").start("sums", serve),
        false => sim.start("sums", serve),
    }
    let clients: Vec<_> = (0..9)
        .map(|client| {
            let sim = sim.clone();
            let calls = move || {
                let node = node_of(&sim, &format!("client-{client}")).build().unwrap();
                node.block_on(async {
                    let name = if is_remote { "sums@vienna:7000" } else { "sums" };
                    let sums = node.connect::<AdderClient>(name).wait_for(LONG).await.unwrap();
                    for number in 1..25 {
                        let most = [100, 5_000, 300_000][sim.below(3) as usize];
                        upbeat::sleep(Duration::from_micros(sim.below(most))).await;
                        let told = match sim.below(2) {
                            0 => within(ms(500), sums.add(number)).await,
                            _ => within(ms(500), sums.add_two(number - 1)).await,
                        };
                        assert!(matches!(told, Ok(Ok(sum)) if sum == number + 1), "no answer");
                    }
                });
            };
            spawn(&format!("client {client}"), calls).unwrap()
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
}

pub(crate) fn crowd_of_a_host(sim: &Sim) {
    crowd(sim, false);
}

pub(crate) fn crowd_of_another_host(sim: &Sim) {
    crowd(sim, true);
}

/// Ends the restarts of a process.
struct Restarts {
    is_over: Arc<AtomicBool>,
    thread: Thread,
}

impl Restarts {
    /// Has the process `sums` be killed again and again, behind a call of `before`, and start anew.
    fn begin(sim: &Sim, every: Duration, before: impl Fn() + Send + 'static) -> Restarts {
        let (sim, is_over) = (sim.clone(), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&is_over);
        let restarts = move || {
            // A process that has ended keeps its descriptors until the end of the world.
            for _ in 0..100 {
                sim.pause(sim.between(&(Duration::ZERO..every)));
                if ended.load(Relaxed) {
                    return;
                }
                before();
                sim.kill("sums");
                sim.pause(sim.between(&(ms(0)..[ms(12), ms(200)][sim.below(2) as usize])));
                sim.restart("sums");
            }
        };
        Restarts { is_over, thread: spawn("restarts", restarts).unwrap() }
    }

    fn end(self) {
        self.is_over.store(true, Relaxed);
        self.thread.join().unwrap();
    }
}

/// A node is killed and starts anew, with its services in another order: calls that wait for it reach it again.
pub(crate) fn anew(sim: &Sim) {
    sim.start("sums", |sim| {
        let node = sim.node("sums").build().unwrap();
        if sim.below(2) == 0 {
            node.serve(AdderServer::new(Sums::default())).unwrap();
            node.serve(DoublerServer::new(Sums::default())).unwrap();
        } else {
            node.serve(DoublerServer::new(Sums::default())).unwrap();
            node.serve(AdderServer::new(Sums::default())).unwrap();
        }
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
    let restarts = Restarts::begin(sim, ms(300), || {});
    let node = sim.node("client").build().unwrap();
    node.block_on(async {
        let adder = node.connect::<AdderClient>("sums").wait_for(LONG).await.unwrap();
        let doubler = node.connect::<DoublerClient>("sums").wait_for(LONG).await.unwrap();
        for number in 1..60 {
            let (expected, told) = match sim.below(3) {
                0 => (number + 1, adder.add(number).await),
                1 => (number + 2, adder.add_two(number).await),
                _ => (2 * number, doubler.double(number).await),
            };
            match told {
                Ok(found) => assert_eq!(found, expected),
                Err(error) => assert!(error.may_have_run(), "the node was waited for: {error}"),
            }
            upbeat::sleep(ms(sim.below(20))).await;
        }
    });
    restarts.end();
}

/// A call that begins when its node is there does not fail by an attempt to reach the node that began before.
pub(crate) fn since_then(sim: &Sim) {
    let since = Arc::new(Mutex::new(None));
    let of = Arc::clone(&since);
    sim.host("vienna").start("sums", move |sim| {
        let node = remote(sim, "sums", ms(0)).listen("vienna:7000").build().unwrap();
        node.serve(AdderServer::new(Sums::default())).unwrap();
        *of.lock().unwrap() = Some(Instant::now());
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
    sim.delay("main", "vienna", ms(1)..ms(8));
    let node = remote(sim, "client", ms(0)).build().unwrap();
    let sums = node.block_on(async {
        node.connect::<AdderClient>("sums@vienna:7000").wait_for(LONG).await.unwrap()
    });
    let down = Arc::clone(&since);
    let restarts = Restarts::begin(sim, ms(60), move || *down.lock().unwrap() = None);
    node.block_on(async {
        let tasks: Vec<_> = (0..6)
            .map(|_| {
                let (sim, sums, since) = (sim.clone(), sums.clone(), Arc::clone(&since));
                node.spawn(async move {
                    for number in 0..40 {
                        upbeat::sleep(Duration::from_micros(sim.below(9_000))).await;
                        let before = *since.lock().unwrap();
                        let told = sums.add(number).await;
                        let stood = before.is_some() && before == *since.lock().unwrap();
                        if let Err(error @ CallError::NotConnected { .. }) = told {
                            assert!(!stood, "the node was there all the time: {error}");
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    restarts.end();
}

/// Two nodes share a name. One does not look at its callers for a while: the other takes them, and both have as many in
/// the end.
pub(crate) fn shared_name(sim: &Sim) {
    let counts = [Sums::default(), Sums::default()];
    let of = counts.clone();
    sim.start("pair", move |sim| {
        let part = |sim: &Sim, sums: Sums, is_away: bool| {
            let node = sim.node("pair").build().unwrap();
            node.serve(AdderServer::new(sums)).unwrap();
            if is_away {
                sim.pause(Duration::from_secs(4));
            }
            node.block_on(std::future::pending::<()>());
        };
        let (sums, other) = (of.clone(), sim.clone());
        let away = spawn("away", move || part(&other, sums[1].clone(), true)).unwrap();
        part(sim, of[0].clone(), false);
        away.join().unwrap();
        Ok::<_, Infallible>(())
    });
    sim.pause(ms(10));
    let nodes: Vec<_> =
        (0..8).map(|client| sim.node(&format!("client-{client}")).build().unwrap()).collect();
    let connects = |node: &Node| {
        node.block_on(async {
            let sums = node.connect::<AdderClient>("pair").wait_for(LONG).await.unwrap();
            sums.add(1).await.unwrap();
        });
    };
    nodes[..4].iter().for_each(connects);
    sim.pause(Duration::from_secs(10));
    nodes[4..].iter().for_each(connects);
    let each = counts.map(|sums| sums.0.load(Relaxed));
    assert_eq!(each.iter().sum::<u64>(), 8);
    sim.sometimes("a node was away", each[0] >= 4);
    assert!(each[0].abs_diff(each[1]) <= 1, "{each:?}");
}

/// A handle that was idle while its node started anew opens another session for its next call.
pub(crate) fn idle_handle(sim: &Sim) {
    sim.start("sums", |sim| {
        let node = sim.node("sums").build().unwrap();
        node.serve(AdderServer::new(Sums::default())).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
    let sums: AdderHandle = sim.handles().wait_for(LONG).connect("sums").unwrap();
    for number in 0..6 {
        match sim.below(2) {
            0 => assert_eq!(sums.blocking().add(number), Ok(number + 1)),
            _ => assert_eq!(sim.block_on(sums.add(number)), Ok(number + 1)),
        }
        sim.kill("sums");
        sim.pause(ms(sim.below(2_000)));
        sim.restart("sums");
        sim.pause(ms(1_500));
    }
}

#[test]
fn an_idle_handle_reaches_a_node_that_started_anew() {
    check(10, idle_handle);
}

#[test]
fn a_node_answers_a_crowd_in_time() {
    check(5, crowd_of_a_host);
    check(5, crowd_of_another_host);
}

#[test]
fn calls_reach_a_node_that_starts_anew() {
    check(10, anew);
    check(10, since_then);
}

#[test]
fn nodes_that_share_a_name_take_as_many_callers() {
    check(10, shared_name);
}
