//! The network between the hosts of a world.
//!
//! A process that calls a port is connected with a socket of the world. The world calls the port, and passes on what
//! comes from either side: late, and not at all while the way there is cut. All sockets are of the system's Unix domain,
//! because the system passes on the bytes of its TCP when it finds the time. Invariant: what arrives has come in its order,
//! and nothing arrives behind bytes that are lost.

mod under_way;

use crate::random::Random;
use rustix::io::{Errno, Result};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with, socketpair,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use under_way::{Part, UnderWay};

/// The processes that may call a port before it accepts them.
const CALLERS: i32 = 4096;
/// The ports that hosts give to processes which ask for any, and to callers.
const GIVEN_PORTS: Range<u16> = 20_000..60_000;

/// The name of the host on which a program begins, and of its first process and thread.
pub(crate) const FIRST: &str = "main";
/// The number of that host.
pub(crate) const FIRST_NUMBER: u32 = 0;

/// The time that bytes take, unless a program says otherwise: to the same host, and to another one.
const NEAR_NS: Range<u64> = 5_000..50_000;
const FAR_NS: Range<u64> = 50_000..500_000;
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// The hosts of a world, and the connections between them.
pub(crate) struct Network {
    /// The number of the world.
    world: u64,
    /// The names of the hosts, by their numbers.
    hosts: Vec<String>,
    /// The ways from one host to another that are not as all others.
    ways: BTreeMap<(u32, u32), Way>,
    /// The ports at which processes listen, of each host.
    ports: BTreeMap<(u32, u16), Port>,
    /// The number of ports that were given to processes and callers.
    given: u64,
    /// The number of sockets that have listened.
    listened: u64,
    connections: Vec<Connection>,
}

/// A port at which a process listens.
struct Port {
    process: u32,
    /// The name of the socket.
    name: String,
    /// The addresses of the callers that wait.
    callers: VecDeque<SocketAddr>,
}

/// The way from one host to another.
#[derive(Clone)]
struct Way {
    delay_ns: Range<u64>,
    /// The time at which it was cut.
    cut_ns: Option<u64>,
}

/// A connection between two hosts: that of the caller, and that which was called.
struct Connection {
    hosts: [u32; 2],
    /// The port that is called.
    port: u16,
    began_ns: u64,
    /// The time after which an end gives up whose packets are not acknowledged.
    patience_ns: u64,
    /// The world's sockets at either end, if that stands.
    ends: [Option<OwnedFd>; 2],
    /// Whether the port was reached.
    is_reached: bool,
    /// The bytes under way, from the end of this index.
    under_way: [UnderWay; 2],
    is_over: bool,
}

impl Network {
    pub(crate) fn new() -> Network {
        static WORLDS: AtomicU64 = AtomicU64::new(0);
        Network {
            world: WORLDS.fetch_add(1, Ordering::Relaxed),
            hosts: vec![FIRST.to_owned()],
            ways: BTreeMap::new(),
            ports: BTreeMap::new(),
            given: 0,
            listened: 0,
            connections: Vec::new(),
        }
    }

    /// Returns the number of the host of this name, which is in the world from now on.
    pub(crate) fn host(&mut self, name: &str) -> u32 {
        self.number(name).unwrap_or_else(|| {
            self.hosts.push(name.to_owned());
            self.hosts.len() as u32 - 1
        })
    }

    /// Returns the name of a host.
    pub(crate) fn name(&self, host: u32) -> &str {
        &self.hosts[host as usize]
    }

    /// Returns the names of the hosts at the ends of each way from one host to another.
    pub(crate) fn ways(&self) -> Vec<Vec<String>> {
        let to_others = |from: &String| {
            let others = self.hosts.iter().filter(|to| *to != from);
            others.map(|to| vec![from.clone(), to.clone()]).collect::<Vec<_>>()
        };
        self.hosts.iter().flat_map(to_others).collect()
    }

    /// Returns the number of the host of this name, if there is one.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        let known = self.hosts.iter().position(|host| host == name);
        known.map(|number| number as u32)
    }

    /// Returns the number of the host that a process of a host reaches at an address.
    fn number_at(&self, at: IpAddr, from: u32) -> Option<u32> {
        if at.is_loopback() || at.is_unspecified() {
            return Some(from);
        }
        (0..self.hosts.len() as u32).find(|host| address(*host) == at)
    }

    /// Returns a port of a host at which no process listens.
    fn unused_port(&mut self, host: u32) -> u16 {
        loop {
            let all = u64::from(GIVEN_PORTS.end - GIVEN_PORTS.start);
            let port = GIVEN_PORTS.start + (self.given % all) as u16;
            self.given += 1;
            if !self.ports.contains_key(&(host, port)) {
                return port;
            }
        }
    }

    /// Returns a way, to be changed.
    fn way(&mut self, from: u32, to: u32) -> &mut Way {
        let usual = self.usual(from, to);
        self.ways.entry((from, to)).or_insert(usual)
    }

    fn usual(&self, from: u32, to: u32) -> Way {
        self.ways.get(&(from, to)).cloned().unwrap_or_else(|| {
            let delay_ns = if from == to { NEAR_NS } else { FAR_NS };
            Way { delay_ns, cut_ns: None }
        })
    }

    /// Sets the time that bytes take on a way.
    pub(crate) fn delay(&mut self, from: u32, to: u32, time: &Range<Duration>) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX >> 1);
        self.way(from, to).delay_ns = ns(time.start)..ns(time.end);
    }

    /// Cuts a way, or heals it: nothing passes while it is cut.
    pub(crate) fn cut(&mut self, from: u32, to: u32, cut_ns: Option<u64>) {
        let way = self.way(from, to);
        way.cut_ns = cut_ns.map(|now_ns| way.cut_ns.unwrap_or(now_ns));
    }

    /// Breaks the connections between two hosts. Some of the bytes under way arrive before, and each end learns of it at
    /// another time.
    pub(crate) fn breaks(&mut self, one: u32, other: u32, now_ns: u64, random: &mut Random) {
        let of = [[one, other], [other, one]];
        let ways = of.map(|[from, to]| self.usual(from, to));
        for connection in &mut self.connections {
            let Some(first) = of.iter().position(|hosts| *hosts == connection.hosts) else {
                continue;
            };
            if !connection.is_reached {
                connection.reset();
                continue;
            }
            for (under_way, way) in
                connection.under_way.iter_mut().zip([&ways[first], &ways[1 - first]])
            {
                // An end that is closed loses nothing: its process waits for no acknowledgement in a world.
                if !under_way.is_last_sent {
                    under_way.lose(random);
                    under_way.send(Part::Reset, now_ns + way.delay(random));
                }
            }
        }
    }

    /// Damages the next bytes of the connections between two hosts, in both directions.
    pub(crate) fn damage(&mut self, one: u32, other: u32) {
        let is_between = |hosts: [u32; 2]| hosts == [one, other] || hosts == [other, one];
        let connections = self.connections.iter_mut().filter(|each| is_between(each.hosts));
        connections
            .flat_map(|connection| &mut connection.under_way)
            .for_each(|under_way| under_way.is_damaged = true);
    }

    /// Returns a socket of a process of a host that listens, and its address.
    pub(crate) fn listen(
        &mut self,
        (process, host): (u32, u32),
        at: SocketAddr,
    ) -> Result<(OwnedFd, SocketAddr)> {
        if self.number_at(at.ip(), host) != Some(host) {
            return Err(Errno::ADDRNOTAVAIL);
        }
        let number = if at.port() == 0 { self.unused_port(host) } else { at.port() };
        let name = match self.ports.get(&(host, number)) {
            // Its name is free once the port is closed.
            Some(port) => port.name.clone(),
            None => {
                self.listened += 1;
                let (process, world) = (std::process::id(), self.world);
                format!("upbeat-sim-{process}-{world}-{}", self.listened)
            }
        };
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        rustix::net::listen(&socket, CALLERS)?;
        self.ports.insert((host, number), Port { process, name, callers: VecDeque::new() });
        Ok((socket, SocketAddr::new(at.ip(), number)))
    }

    /// Closes the ports of a process that has ended.
    pub(crate) fn ends(&mut self, process: u32) {
        self.ports.retain(|_, port| port.process != process);
    }

    /// Accepts a caller at a socket that listens. Returns its address.
    pub(crate) fn accept(&mut self, listening: BorrowedFd<'_>) -> Result<(OwnedFd, SocketAddr)> {
        let socket = rustix::net::accept_with(listening, FLAGS)?;
        let bound = SocketAddrUnix::try_from(rustix::net::getsockname(listening)?)?;
        let name = bound.abstract_name().unwrap_or_default();
        let port = self.ports.values_mut().find(|port| port.name.as_bytes() == name);
        let from = port.and_then(|port| port.callers.pop_front()).ok_or(Errno::NOTCONN)?;
        Ok((socket, from))
    }

    /// Returns a socket of a process of a host that is connected with a port. An end gives up to which nothing was
    /// acknowledged for a time.
    pub(crate) fn connect(
        &mut self,
        host: u32,
        to: SocketAddr,
        patience_ms: u32,
        now_ns: u64,
    ) -> Result<OwnedFd> {
        let called = self.number_at(to.ip(), host).ok_or(Errno::HOSTUNREACH)?;
        let is_cut = |one, other| self.usual(one, other).cut_ns.is_some();
        let there = match is_cut(host, called) || is_cut(called, host) {
            true => None,
            false => self.call([host, called], to.port())?,
        };
        let (here, of_process) = socketpair(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
        self.connections.push(Connection {
            hosts: [host, called],
            port: to.port(),
            began_ns: now_ns,
            patience_ns: u64::from(patience_ms) * 1_000_000,
            is_reached: there.is_some(),
            ends: [Some(here), there],
            under_way: Default::default(),
            is_over: false,
        });
        Ok(of_process)
    }

    /// Calls a port from one host to another. Returns the connection, if the port has room for one.
    fn call(&mut self, [from, to]: [u32; 2], number: u16) -> Result<Option<OwnedFd>> {
        let caller = SocketAddr::new(address(from), self.unused_port(from));
        let port = self.ports.get_mut(&(to, number)).ok_or(Errno::CONNREFUSED)?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
        let name = SocketAddrUnix::new_abstract_name(port.name.as_bytes())?;
        match rustix::net::connect(&socket, &name) {
            Ok(()) => {
                port.callers.push_back(caller);
                Ok(Some(socket))
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Passes on what has come and is due. Returns when more will be due.
    pub(crate) fn pass(&mut self, now_ns: u64, random: &mut Random) -> Option<u64> {
        let mut connections = std::mem::take(&mut self.connections);
        for connection in &mut connections {
            self.pass_of(connection, now_ns, random);
        }
        connections.retain(|connection| !connection.is_over);
        let due = connections.iter().filter_map(|connection| self.due(connection, now_ns)).min();
        self.connections = connections;
        due
    }

    /// The ways of a connection, from each of its ends.
    fn ways_of(&self, connection: &Connection) -> [Way; 2] {
        let [caller, called] = connection.hosts;
        [self.usual(caller, called), self.usual(called, caller)]
    }

    fn pass_of(&mut self, connection: &mut Connection, now_ns: u64, random: &mut Random) {
        if connection.is_over {
            return;
        }
        let ways = self.ways_of(connection);
        if connection.gives_up_at(&ways).is_some_and(|at_ns| at_ns <= now_ns) {
            return connection.reset();
        }
        let is_cut = ways.each_ref().map(|way| way.cut_ns.is_some());
        if !connection.is_reached && is_cut == [false; 2] {
            match self.call(connection.hosts, connection.port) {
                Ok(end) => {
                    connection.is_reached = end.is_some();
                    connection.ends[1] = end;
                }
                Err(_) => return connection.reset(),
            }
        }
        for (from, way) in ways.iter().enumerate() {
            if let Some(end) = &connection.ends[from] {
                connection.under_way[from].take_from(end, way, now_ns, random);
            }
        }
        for from in [0, 1] {
            let Some(end) = &connection.ends[1 - from] else { continue };
            if is_cut[from] {
                continue;
            }
            match connection.under_way[from].arrive_at(end, now_ns) {
                Ok(false) => {}
                // The end learns that the connection is broken.
                Ok(true) => connection.ends[1 - from] = None,
                // The process has closed this end: the other one learns it behind all that was sent from here.
                Err(_) => {
                    connection.under_way[from].end();
                    let due_ns = now_ns + ways[1 - from].delay(random);
                    connection.under_way[1 - from].send(Part::Reset, due_ns);
                }
            }
        }
        connection.is_over = connection.under_way.iter().all(|under_way| under_way.has_ended);
    }

    /// Returns when something happens to a connection by itself.
    fn due(&self, connection: &Connection, now_ns: u64) -> Option<u64> {
        let ways = self.ways_of(connection);
        let arrivals = ways.iter().zip(&connection.under_way).filter_map(|(way, under_way)| {
            let (due_ns, _) = under_way.parts.front().filter(|_| way.cut_ns.is_none())?;
            // Bytes that were due wait until their reader has room.
            (*due_ns > now_ns).then_some(*due_ns)
        });
        arrivals.chain(connection.gives_up_at(&ways)).min()
    }
}

impl Way {
    fn delay(&self, random: &mut Random) -> u64 {
        let Range { start, end } = self.delay_ns;
        start + random.next() % end.saturating_sub(start).max(1)
    }
}

impl Connection {
    /// Returns when an end gives up, to which no acknowledgement comes.
    fn gives_up_at(&self, ways: &[Way; 2]) -> Option<u64> {
        let cut_ns = ways.iter().filter_map(|way| way.cut_ns).min()?;
        (self.patience_ns > 0).then(|| cut_ns.max(self.began_ns) + self.patience_ns)
    }

    /// Ends the connection for both sides.
    fn reset(&mut self) {
        self.ends = [None, None];
        self.is_over = true;
    }
}

/// Returns the address of a host.
pub(crate) fn address(host: u32) -> IpAddr {
    let [.., two, three, four] = (host + 1).to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, two, three, four))
}
