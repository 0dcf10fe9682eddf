//! Processes that have no descriptors, no memory or no room left.
#![forbid(unsafe_code)]

mod common;

use common::{ms, remote};
use std::convert::Infallible;
use std::time::Duration;
use upbeat::Node;
use upbeat_sim::{Resource, Sim, check};

/// An echo.
#[upbeat::service]
trait Echo {
    /// Returns the bytes.
    async fn echo(&self, bytes: Vec<u8>) -> Vec<u8>;
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
            } else {
                part(sim).unwrap();
            }
        });
    }
}
