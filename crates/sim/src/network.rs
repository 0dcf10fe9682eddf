//! The network between the hosts of a world.
//!
//! A process that calls a port is connected with a socket of the world. The world calls the port, and passes on what
//! comes from either side: late, and not at all while the way there is cut. Invariant: what arrives has come in its
//! order, and nothing arrives behind bytes that are lost.

use crate::random::{Random, mix};
use rustix::io::{Errno, Result, read, write};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, sockopt};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The name of the host on which a program begins.
pub(crate) const FIRST: &str = "main";
/// The number of that host.
pub(crate) const FIRST_NUMBER: u32 = 0;

/// The most bytes that are under way in one direction.
const UNDER_WAY_MAX: usize = 1 << 20;
/// The time that bytes take, unless a program says otherwise: to the same host, and to another one.
const NEAR_NS: Range<u64> = 5_000..50_000;
const FAR_NS: Range<u64> = 50_000..500_000;
/// One of so many arrivals comes in two parts.
const WHOLE: usize = 4;
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// The hosts of a world, and the connections between them.
#[derive(Default)]
pub(crate) struct Network {
    /// By their numbers.
    hosts: Vec<Host>,
    /// The ways from one host to another that are not as all others.
    ways: BTreeMap<(u32, u32), Way>,
    connections: Vec<Connection>,
    /// The socket at which the world takes the calls of processes, once one has called.
    door: Option<(OwnedFd, SocketAddr)>,
}

struct Host {
    name: String,
    address: Ipv4Addr,
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
    to: SocketAddr,
    began_ns: u64,
    /// The time after which an end gives up whose packets are not acknowledged.
    patience_ns: u64,
    /// The world's sockets at either end. There is none at the end that cannot be reached yet.
    ends: [Option<OwnedFd>; 2],
    /// The bytes under way, from the end of this index.
    under_way: [UnderWay; 2],
    is_over: bool,
}

#[derive(Default)]
struct UnderWay {
    parts: VecDeque<(u64, Part)>,
    bytes: usize,
    /// The sender has sent the last part.
    is_last_sent: bool,
    /// The last part has arrived.
    has_ended: bool,
}

enum Part {
    Bytes(Vec<u8>),
    End,
    /// The sender has given the connection up.
    Reset,
}

impl Network {
    /// Returns the number of the host of this name, which is in the world from now on.
    pub(crate) fn host(&mut self, name: &str) -> u32 {
        self.number(name).unwrap_or_else(|| {
            self.hosts.push(Host { name: name.to_owned(), address: unused() });
            self.hosts.len() as u32 - 1
        })
    }

    /// Returns the number of the host of this name, if there is one.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        let known = self.hosts.iter().position(|host| host.name == name);
        known.map(|number| number as u32)
    }

    pub(crate) fn address(&self, name: &str) -> Option<IpAddr> {
        let host = self.hosts.iter().find(|host| host.name == name)?;
        Some(IpAddr::V4(host.address))
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
            for (under_way, way) in
                connection.under_way.iter_mut().zip([&ways[first], &ways[1 - first]])
            {
                // An end that is closed knows that all it has sent was acknowledged.
                if !under_way.is_last_sent {
                    under_way.lose(random);
                    under_way.send(Part::Reset, now_ns + way.delay(random));
                }
            }
        }
    }

    /// Connects a socket of a process with a port.
    pub(crate) fn connect(
        &mut self,
        (from, socket): (u32, BorrowedFd<'_>),
        to: SocketAddr,
        now_ns: u64,
    ) -> Result<()> {
        let called = self.hosts.iter().position(|host| IpAddr::V4(host.address) == to.ip());
        let hosts = [from, called.map_or(from, |number| number as u32)];
        let is_cut = |one, other| self.usual(one, other).cut_ns.is_some();
        let is_reached = !is_cut(hosts[0], hosts[1]) && !is_cut(hosts[1], hosts[0]);
        // A port that nobody listens at refuses the call.
        let there = if is_reached { Some(self.call(from, to)?) } else { None };
        let here = self.take(socket)?;
        let patience_ns = u64::from(sockopt::tcp_user_timeout(socket)?) * 1_000_000;
        self.connections.push(Connection {
            hosts,
            to,
            began_ns: now_ns,
            patience_ns,
            ends: [Some(here), there],
            under_way: Default::default(),
            is_over: false,
        });
        Ok(())
    }

    /// Connects a socket of a process with one of the world, which is returned.
    fn take(&mut self, socket: BorrowedFd<'_>) -> Result<OwnedFd> {
        let (door, at) = match self.door.take() {
            Some(door) => door,
            None => open_door()?,
        };
        let connected = established(rustix::net::connect(socket, &at));
        let taken = connected.and_then(|()| {
            loop {
                // The system establishes a connection within the host at once.
                match rustix::net::accept_with(&door, FLAGS) {
                    Err(Errno::AGAIN | Errno::INTR) => std::thread::yield_now(),
                    taken => return taken,
                }
            }
        });
        self.door = Some((door, at));
        let taken = taken?;
        sockopt::set_tcp_nodelay(&taken, true)?;
        Ok(taken)
    }

    /// Calls a port for a host.
    fn call(&self, from: u32, to: SocketAddr) -> Result<OwnedFd> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, FLAGS, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        if let Some(host) = self.hosts.get(from as usize).filter(|_| to.is_ipv4()) {
            rustix::net::bind(&socket, &SocketAddr::from((host.address, 0)))?;
        }
        established(rustix::net::connect(&socket, &to))?;
        Ok(socket)
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

    fn pass_of(&self, connection: &mut Connection, now_ns: u64, random: &mut Random) {
        let ways = self.ways_of(connection);
        if connection.gives_up_at(&ways).is_some_and(|at_ns| at_ns <= now_ns) {
            return connection.reset();
        }
        let is_cut = ways.each_ref().map(|way| way.cut_ns.is_some());
        if connection.ends[1].is_none() && is_cut == [false; 2] {
            match self.call(connection.hosts[0], connection.to) {
                Ok(end) => connection.ends[1] = Some(end),
                Err(_) => return connection.reset(),
            }
        }
        for (from, way) in ways.iter().enumerate() {
            if let Some(end) = &connection.ends[from] {
                connection.under_way[from].take_from(end, way, now_ns, random);
            }
            if let Some(end) = &connection.ends[1 - from]
                && !is_cut[from]
                && connection.under_way[from].arrive_at(end, now_ns).is_err()
            {
                return connection.reset();
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
        for end in self.ends.iter_mut().filter_map(Option::take) {
            // The bytes that have come and were not read are lost.
            let _ = sockopt::set_socket_linger(&end, Some(Duration::ZERO));
        }
        self.is_over = true;
    }
}

impl UnderWay {
    fn send(&mut self, part: Part, due_ns: u64) {
        let last_ns = self.parts.back().map_or(0, |(due_ns, _)| *due_ns);
        match &part {
            Part::Bytes(bytes) => self.bytes += bytes.len(),
            Part::End | Part::Reset => self.is_last_sent = true,
        }
        self.parts.push_back((due_ns.max(last_ns), part));
    }

    /// Takes what an end has sent.
    fn take_from(&mut self, end: &OwnedFd, way: &Way, now_ns: u64, random: &mut Random) {
        let mut came = Vec::new();
        let mut last = None;
        let mut buffer = [0; 1 << 14];
        while !self.is_last_sent && last.is_none() && self.bytes + came.len() < UNDER_WAY_MAX {
            match read(end, &mut buffer) {
                Ok(0) => last = Some(Part::End),
                Ok(read) => came.extend_from_slice(&buffer[..read]),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => last = Some(Part::Reset),
            }
        }
        if !came.is_empty() {
            let is_whole = random.below(WHOLE) != 0;
            let rest = came.split_off(if is_whole { came.len() } else { random.below(came.len()) });
            for part in [came, rest].into_iter().filter(|part| !part.is_empty()) {
                self.send(Part::Bytes(part), now_ns + way.delay(random));
            }
        }
        if let Some(last) = last {
            self.send(last, now_ns + way.delay(random));
        }
    }

    /// Loses all that is under way but its first bytes.
    fn lose(&mut self, random: &mut Random) {
        let mut left = random.below(self.bytes + 1);
        self.bytes = left;
        self.parts.retain_mut(|(_, part)| {
            let Part::Bytes(bytes) = part else { return false };
            bytes.truncate(left);
            left -= bytes.len();
            !bytes.is_empty()
        });
    }

    /// Has what is due arrive at an end, as far as that has room. The error is that of a connection that is broken.
    fn arrive_at(&mut self, end: &OwnedFd, now_ns: u64) -> Result<()> {
        while let Some((due_ns, part)) = self.parts.front_mut()
            && *due_ns <= now_ns
        {
            match part {
                Part::Bytes(bytes) => match write(end, bytes) {
                    Ok(written) => {
                        self.bytes -= written;
                        bytes.drain(..written);
                        if !bytes.is_empty() {
                            continue;
                        }
                    }
                    Err(Errno::AGAIN) => return Ok(()),
                    Err(Errno::INTR) => continue,
                    Err(error) => return Err(error),
                },
                Part::End => {
                    self.has_ended = true;
                    // The other side may have closed its end.
                    let _ = shutdown(end, Shutdown::Write);
                }
                Part::Reset => return Err(Errno::CONNRESET),
            }
            self.parts.pop_front();
        }
        Ok(())
    }
}

/// Returns a socket at which the world takes calls, and its address.
fn open_door() -> Result<(OwnedFd, SocketAddr)> {
    let door = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, FLAGS, None)?;
    rustix::net::bind(&door, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    rustix::net::listen(&door, 16)?;
    let at = SocketAddr::try_from(rustix::net::getsockname(&door)?)?;
    Ok((door, at))
}

/// A connection within the host is established at once.
fn established(connected: Result<()>) -> Result<()> {
    match connected {
        Err(Errno::INPROGRESS) => Ok(()),
        connected => connected,
    }
}

/// Returns an address of this host that probably no other host of any world has. All of them are texts of equal lengths,
/// so that nothing depends on the number.
fn unused() -> Ipv4Addr {
    static ADDRESSES: AtomicU64 = AtomicU64::new(0);
    let number = ADDRESSES.fetch_add(1, Ordering::Relaxed) << 32 | u64::from(std::process::id());
    let [one, two, three, ..] = mix(number).to_le_bytes().map(|byte| 100 + byte % 150);
    Ipv4Addr::new(127, one, two, three)
}
