//! Processes that have no descriptors, no memory or no room left.
#![forbid(unsafe_code)]

mod common;

use common::{ms, remote};
use std::cell::Cell;
use std::convert::Infallible;
use std::time::Duration;
use upbeat::bill::Counter;
use upbeat::{BuildError, Node};
use upbeat_sim::{Fault, Faults, Resource, Siege, Sim, check};

/// An echo.
#[upbeat::service]
trait Echo {
    /// Returns the bytes.
    async fn echo(&self, bytes: Vec<u8>) -> Vec<u8>;
}

/// Counts messages.
#[upbeat::service]
trait Count {
    /// Counts one.
    #[oneway]
    async fn note(&self);
    /// Returns the count.
    async fn noted(&self) -> u64;
}

#[derive(Default)]
struct Counted(Cell<u64>);

impl Count for Counted {
    async fn note(&self) {
        self.0.set(self.0.get() + 1);
    }

    async fn noted(&self) -> u64 {
        self.0.get()
    }
}

struct Echoes;

impl Echo for Echoes {
    async fn echo(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }
}

/// The most steps of a world in this file: a node that waits without a pause makes a million in a second.
const STEPS_MAX: u64 = 5_000;
const ALL: [Resource; 3] = [Resource::Descriptors, Resource::Memory, Resource::Room];

fn serve(sim: &Sim) {
    sim.host("vienna").start("echo", |sim| {
        let node = remote(sim, "echo", ms(5_000)).listen("vienna:7000").build().unwrap();
        node.serve(EchoServer::new(Echoes)).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
}

async fn echoes(node: &Node, to: &str, wait: Duration) -> bool {
    let echo = node.connect::<EchoClient>(to).wait_for(wait).await;
    let Ok(echo) = echo else { return false };
    let bytes = vec![7; 100_000];
    echo.echo(bytes.clone()).deadline(ms(2_000)).await == Ok(bytes)
}

/// New callers come while the server is starved. They are told, or wait, and none stays behind; the server does not look for
/// them without a pause.
#[test]
fn a_starved_server_accepts_its_callers_once_it_is_supplied() {
    for of_one_host in [true, false] {
        check(30, |sim| {
            let steps = sim.clone();
            sim.always(move || assert!(steps.steps() < STEPS_MAX, "nodes wait without a pause"));
            serve(sim);
            let part = move |sim: &Sim| {
                let to = if of_one_host { "echo" } else { "echo@vienna:7000" };
                sim.pause(ms(1));
                let resource = ALL[sim.below(3) as usize];
                sim.starve("echo", resource);
                let node = remote(sim, "client", ms(5_000)).build().unwrap();
                node.block_on(async {
                    let answers = echoes(&node, to, ms(1_000)).await;
                    // A caller of another host tries again meanwhile.
                    sim.sometimes("a starved server does not answer", !answers || !of_one_host);
                    sim.supply("echo");
                    assert!(echoes(&node, to, ms(5_000)).await);
                });
                Ok::<_, Infallible>(())
            };
            if of_one_host {
                sim.host("vienna").start("client", part);
                sim.pause(Duration::from_secs(30));
                assert!(!sim.is_running("client"));
            } else {
                part(sim).unwrap();
            }
        });
    }
}

/// Both sides lack something again and again while calls of all sizes are under way: each is answered, or its error is told,
/// and once nothing is lacking all calls of the same sessions are answered.
#[test]
fn calls_between_starved_processes_are_answered_or_told() {
    check(40, |sim| {
        let steps = sim.clone();
        let most = move || assert!(steps.steps() < 20 * STEPS_MAX, "nodes wait without a pause");
        sim.always(most);
        serve(sim);
        let to = ["echo", "echo@vienna:7000"][sim.below(2) as usize];
        let host = if to == "echo" { "vienna" } else { "main" };
        sim.host(host).start("client", move |sim| {
            sim.pause(ms(1));
            let node = remote(sim, "client", ms(5_000)).build()?;
            node.block_on(async {
                let faults =
                    Faults::of([Fault::Starve]).every(ms(0)..ms(100)).lasts(ms(0)..ms(900));
                let sieges =
                    [sim.faults(faults.clone().on("echo")), sim.faults(faults.on("client"))];
                let mut answered = 0;
                for number in 0..60 {
                    let Ok(echo) = node.connect::<EchoClient>(to).wait_for(ms(200)).await else {
                        continue;
                    };
                    let bytes = vec![number; 1 << (number % 20)];
                    if let Ok(echoed) = echo.echo(bytes.clone()).deadline(ms(500)).await {
                        assert!(echoed == bytes);
                        answered += 1;
                    }
                    upbeat::sleep(ms(30)).await;
                }
                sieges.into_iter().for_each(Siege::end);
                assert!(echoes(&node, to, ms(5_000)).await);
                sim.sometimes("a call was answered", answered > 0);
                sim.sometimes("a call was not answered", answered < 60);
            });
            Ok::<_, BuildError>(())
        });
        sim.pause(Duration::from_secs(120));
        assert!(!sim.is_running("client"));
    });
}

/// A receiver of another host has no memory for a moment, in which slabs and payloads come. Calls whose payload is lost are told,
/// no result has other bytes than were sent, and once there is memory the same session answers all calls.
#[test]
fn a_slab_without_memory_has_some_later() {
    check(60, |sim| {
        serve(sim);
        sim.pause(ms(1));
        let node = remote(sim, "client", ms(5_000)).build().unwrap();
        node.block_on(async {
            let echo: EchoClient =
                node.connect("echo@vienna:7000").wait_for(ms(5_000)).await.unwrap();
            sim.starve("echo", Resource::Memory);
            let later = sim.time() + Duration::from_micros(200 + sim.below(3_000));
            sim.at(later, |sim| sim.supply("echo"));
            let calls: Vec<_> = (0..8)
                .map(|number| {
                    let (echo, bytes) = (echo.clone(), vec![number; 1 << (7 + sim.below(12))]);
                    let sim = sim.clone();
                    node.spawn(async move {
                        let echoed = echo.echo(bytes.clone()).await;
                        let told = echoed.map(|echoed| assert!(echoed == bytes));
                        sim.sometimes("a payload was lost", told.is_err());
                        told.map_err(|error| error.to_string())
                    })
                })
                .collect();
            for call in calls {
                let told = call.await.unwrap();
                assert!(told.as_ref().err().is_none_or(|told| told.contains("memory")), "{told:?}");
            }
            upbeat::sleep(ms(5)).await;
            for power in 0..20 {
                let bytes = vec![power; 1 << power];
                assert_eq!(echo.echo(bytes.clone()).await, Ok(bytes));
            }
        });
        assert_eq!(node.counted(Counter::SessionsOpened), 1);
    });
}

/// A sender whose lane is full again and again, and that has no memory or descriptor for a longer one, keeps its session: its
/// messages wait for room in the lane.
#[test]
fn a_lane_that_cannot_grow_serves_as_it_is() {
    const MESSAGES: u64 = 3_000;
    check(20, |sim| {
        sim.start("count", |sim| {
            let node = sim.node("count").build().unwrap();
            node.serve(CountServer::new(Counted::default())).unwrap();
            node.block_on(std::future::pending::<()>());
            Ok::<_, Infallible>(())
        });
        sim.start("client", |sim| {
            let on_lost = |lost: &upbeat::Lost| panic!("{lost}");
            let node = sim.node("client").on_lost(on_lost).build().unwrap();
            let count: CountClient = node.block_on(async {
                let connects = node.connect("count").wait_for(ms(5_000));
                connects.await.unwrap()
            });
            sim.starve("client", ALL[sim.below(2) as usize]);
            node.block_on(async {
                for _ in 0..MESSAGES {
                    count.note().await.unwrap();
                }
                assert_eq!(count.noted().await, Ok(MESSAGES));
            });
            sim.supply("client");
            Ok::<_, Infallible>(())
        });
        sim.pause(Duration::from_secs(60));
        assert!(!sim.is_running("client"));
    });
}
