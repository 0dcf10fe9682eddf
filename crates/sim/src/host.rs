//! The hosts of a program, and the network between them.

use crate::real::{BROKEN, DAMAGED, DELAYED, PARTED};
use crate::schedule::Schedule;
use crate::sim::{Sim, schedule};
use std::fmt::Display;
use std::ops::Range;
use std::time::Duration;

/// A host of the world. Its processes share memory with each other, and reach those of other hosts over the network. A
/// port of the host has the address `name:port`, at which nodes listen and are called.
///
/// ```
/// use std::convert::Infallible;
/// use std::time::Duration;
///
/// /// A counter.
/// #[upbeat::service]
/// trait Counter {
///     /// Returns the sum.
///     async fn add(&self, a: u64, b: u64) -> u64;
/// }
///
/// struct Adds;
///
/// impl Counter for Adds {
///     async fn add(&self, a: u64, b: u64) -> u64 {
///         a + b
///     }
/// }
///
/// upbeat_sim::check(5, |sim| {
///     sim.host("vienna").start("counter", |sim| {
///         let node = sim.node("counter").insecure_plaintext().listen("vienna:7000").build().unwrap();
///         node.serve(CounterServer::new(Adds)).unwrap();
///         node.block_on(std::future::pending::<()>());
///         Ok::<_, Infallible>(())
///     });
///     sim.delay("main", "vienna", Duration::from_millis(5)..Duration::from_millis(9));
///     sim.pause(Duration::from_millis(1));
///     let client = sim.node("client").insecure_plaintext().build().unwrap();
///     client.block_on(async {
///         let counter: CounterClient = client.connect("counter@vienna:7000").await.unwrap();
///         // A call that nothing reaches ends at its deadline.
///         sim.part("main", "vienna");
///         assert!(counter.add(1, 2).deadline(Duration::from_secs(1)).await.is_err());
///         sim.heal("main", "vienna");
///         assert_eq!(counter.add(1, 2).await, Ok(3));
///     });
/// });
/// ```
#[derive(Clone)]
pub struct Host {
    sim: Sim,
    number: u32,
}

impl Host {
    /// Starts a process of this host, as [`Sim::start`] does.
    ///
    /// # Panics
    /// If a process of this name runs.
    pub fn start<E: Display>(
        &self,
        name: &str,
        body: impl Fn(&Sim) -> Result<(), E> + Send + Sync + 'static,
    ) {
        self.sim.start_on(self.number, name, body);
    }
}

impl Sim {
    /// Returns the host of this name, which is in the world from now on. The program begins on the host `main`.
    ///
    /// # Panics
    /// Outside of the world.
    #[must_use]
    pub fn host(&self, name: &str) -> Host {
        let number = match self.real() {
            Some(real) => real.host(name),
            None => schedule(|world| world.network.host(name)),
        };
        Host { sim: self.clone(), number }
    }

    /// Breaks the connections between two hosts, which may be one. Bytes that were under way are lost, from any byte on.
    ///
    /// # Panics
    /// If one of the hosts is not in the world.
    pub fn break_connections(&self, one: &str, other: &str) {
        if self.leaves_out(BROKEN) {
            return;
        }
        between([one, other], |world, [one, other]| {
            world.network.breaks(one, other, world.now_ns, &mut world.random);
        });
    }

    /// Damages one bit of the next bytes that pass from a host to another one, in each connection and direction, as a device
    /// between them may do that changes the checksum of TCP as well. Nodes under TLS notice it; others take it for the peer's.
    ///
    /// # Panics
    /// If one of the hosts is not in the world.
    pub fn damage(&self, one: &str, other: &str) {
        if self.leaves_out(DAMAGED) {
            return;
        }
        between([one, other], |world, [one, other]| world.network.damage(one, other));
    }

    /// Parts two hosts: nothing passes from one to the other, in either direction, until the network [heals](Sim::heal).
    ///
    /// # Panics
    /// If one of the hosts is not in the world.
    pub fn part(&self, one: &str, other: &str) {
        self.silence(one, other);
        self.silence(other, one);
    }

    /// Cuts the way from a host to another one. What goes the other way arrives, and is not acknowledged.
    ///
    /// # Panics
    /// If one of the hosts is not in the world.
    pub fn silence(&self, from: &str, to: &str) {
        if self.leaves_out(PARTED) {
            return;
        }
        between([from, to], |world, [from, to]| world.network.cut(from, to, Some(world.now_ns)));
    }

    /// Heals the network between two hosts. What was under way arrives, unless its connection has ended: an end gives up
    /// to which nothing is acknowledged for the time that [`Builder::peer_timeout`](upbeat::Builder::peer_timeout) says.
    ///
    /// # Panics
    /// If one of the hosts is not in the world.
    pub fn heal(&self, one: &str, other: &str) {
        if self.real().is_some() {
            return;
        }
        between([one, other], |world, [one, other]| {
            world.network.cut(one, other, None);
            world.network.cut(other, one, None);
        });
    }

    /// Sets the time that bytes take from one host to another, in either direction; it follows from the seed.
    ///
    /// # Panics
    /// If one of the hosts is not in the world.
    pub fn delay(&self, one: &str, other: &str, time: Range<Duration>) {
        if self.leaves_out(DELAYED) {
            return;
        }
        between([one, other], |world, [one, other]| {
            world.network.delay(one, other, &time);
            world.network.delay(other, one, &time);
        });
    }

    /// Returns the names of the hosts at the ends of each way from one host to another.
    pub(crate) fn ways(&self) -> Vec<Vec<String>> {
        if self.real().is_some() { Vec::new() } else { schedule(|world| world.network.ways()) }
    }
}

/// Does the same with two hosts, by their numbers.
fn between(hosts: [&str; 2], act: impl FnOnce(&mut Schedule, [u32; 2])) {
    schedule(|world| {
        let number = |name| {
            world.network.number(name).unwrap_or_else(|| panic!("no host `{name}` is in the world"))
        };
        let hosts = hosts.map(number);
        act(world, hosts);
    });
}
