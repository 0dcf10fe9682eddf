//! The admission of callers by a listening node: which callers, how fast, and which unfinished handshake gives
//! way.
//!
//! A [`HandshakeLimit`] bounds the handshakes under way, and decides about the next caller: the node accepts it, accepts
//! it in place of a handshake that gives way, or pauses. An [`AdmissionPolicy`] bounds the handshakes that a node answers
//! per second, the part of the node's time that they take, and the sessions of the callers of one address. The runtime accepts connections, refuses callers and has
//! the clock. Invariant: in any span of time a gate accepts no more than its rate allows, plus one second's worth.
//! Callers of an address that hold up others lose their handshakes before the others do. A pause has an end.

mod pause;

mod share;

use crate::limits::{
    ACCEPTS_PER_SECOND, CROWD_AGE_MS_MAX, HANDSHAKE_SILENCE_MS_MAX, HELLO_MS_MAX, PAUSE_MS_MAX,
    PENDING_HANDSHAKES_MAX, REMOTE_HELLO_MS_MAX, REMOTE_PENDING_MAX, REMOTE_PENDING_SHARE,
    REMOTE_SILENCE_MS_MAX, SESSIONS_PER_ADDRESS,
};
use alloc::collections::BTreeMap;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use pause::{Cause, Pause, Paused, Pauses};

pub use share::Work;

use share::Share;

const SECOND_NS: u64 = 1_000_000_000;

/// The part of an address that counts as one caller: an IPv4 address, or the network of an IPv6 address, since a
/// host chooses the last 64 bits by itself.
///
/// ```
/// use upbeat_core::admission::Prefix;
///
/// let of = |text: &str| Prefix::of(text.parse().unwrap());
/// assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
/// assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
/// assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prefix {
    /// An IPv4 address, also in the form of an IPv6 address.
    V4(Ipv4Addr),
    /// The first 64 bits of an IPv6 address.
    V6(u64),
}

impl Prefix {
    /// Returns the prefix of an address.
    pub fn of(address: IpAddr) -> Prefix {
        match address.to_canonical() {
            IpAddr::V4(address) => Prefix::V4(address),
            IpAddr::V6(address) => Prefix::V6((address.to_bits() >> 64) as u64),
        }
    }
}

impl core::fmt::Display for Prefix {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Prefix::V4(address) => write!(f, "{address}"),
            Prefix::V6(bits) => write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(*bits) << 64)),
        }
    }
}

/// The bounds of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The number of handshakes that are answered per second.
    pub accepts_per_second: u32,
    /// The number of sessions that the callers of one [`Prefix`] may have at a time.
    pub sessions_per_address: usize,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { accepts_per_second: ACCEPTS_PER_SECOND, sessions_per_address: SESSIONS_PER_ADDRESS }
    }
}

/// The bounds of one listening node, and how much of them its callers use.
///
/// ```
/// use std::net::IpAddr;
/// use upbeat_core::admission::{AdmissionPolicy, Prefix, Terms};
///
/// let mut gate = AdmissionPolicy::new(Terms { accepts_per_second: 2, sessions_per_address: 1 }, 0);
/// assert!(gate.answer(0).is_ok() && gate.answer(0).is_ok());
/// assert_eq!(gate.answer(0).unwrap_err().until_ns(), 500_000_000, "the time of the next");
///
/// let caller = Prefix::of(IpAddr::from([10, 0, 0, 1]));
/// assert!(gate.admits(caller, 0));
/// assert!(!gate.admits(caller, 1), "another caller of the address is about to have its session");
/// gate.opened(caller);
/// assert!(!gate.admits(caller, 0));
/// gate.closed(caller);
/// assert!(gate.admits(caller, 0));
/// ```
#[derive(Debug)]
pub struct AdmissionPolicy {
    terms: Terms,
    /// The saved time in nanoseconds: each answered handshake takes the interval between two.
    saved_ns: u64,
    /// When the saved time was last updated.
    at_ns: u64,
    share: Share,
    sessions: BTreeMap<Prefix, usize>,
}

impl AdmissionPolicy {
    /// Creates the gate of a node that begins to listen now.
    pub fn new(terms: Terms, now_ns: u64) -> AdmissionPolicy {
        let (share, sessions) = (Share::default(), BTreeMap::new());
        AdmissionPolicy { terms, saved_ns: SECOND_NS, at_ns: now_ns, share, sessions }
    }

    /// Returns the bounds of the gate.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// Permits the answer to one handshake now, or returns the pause after which one may be answered.
    pub fn answer(&mut self, now_ns: u64) -> Result<(), Pause> {
        self.share.answer(now_ns)?;
        let passed_ns = now_ns.saturating_sub(self.at_ns);
        self.saved_ns = self.saved_ns.saturating_add(passed_ns).min(SECOND_NS);
        self.at_ns = self.at_ns.max(now_ns);
        match self.saved_ns.checked_sub(self.each_ns()) {
            Some(left_ns) => {
                self.saved_ns = left_ns;
                Ok(())
            }
            None => {
                let lacking_ns = self.each_ns() - self.saved_ns;
                Err(Pause::new(Cause::Rate, self.at_ns.saturating_add(lacking_ns)))
            }
        }
    }

    /// Permits the acceptance of one connection now, or returns the pause after which one may be accepted.
    pub fn accept(&self, now_ns: u64) -> Result<(), Pause> {
        self.share.accept(now_ns)
    }

    /// Begins work of the node for a caller, when its thread has had this processor time.
    pub fn work(&self, thread_ns: u64) -> Work {
        self.share.work(thread_ns)
    }

    /// Charges the callers with work for one of them that has ended now, when the thread has had this processor time.
    pub fn charge(&mut self, work: Work, thread_ns: u64, now_ns: u64) {
        self.share.charge(work, thread_ns, now_ns);
    }

    /// Takes note of the number of messages that the node's sessions have had so far. If it is the number of the last
    /// look, the sessions need no time, and the callers owe none.
    pub fn look(&mut self, messages: u64) {
        self.share.look(messages);
    }

    /// Returns the nanoseconds between two answers.
    fn each_ns(&self) -> u64 {
        SECOND_NS.div_ceil(u64::from(self.terms.accepts_per_second.max(1)))
    }

    /// Returns whether callers of this address may have one more session, besides those that are open and those that
    /// are about to be.
    pub fn admits(&self, from: Prefix, coming: usize) -> bool {
        self.sessions_of(from) + coming < self.terms.sessions_per_address
    }

    /// Returns the number of open sessions that callers of this address have.
    pub fn sessions_of(&self, from: Prefix) -> usize {
        self.sessions.get(&from).copied().unwrap_or(0)
    }

    /// Counts a session of an accepted caller.
    pub fn opened(&mut self, from: Prefix) {
        *self.sessions.entry(from).or_default() += 1;
    }

    /// Counts the end of a session.
    pub fn closed(&mut self, from: Prefix) {
        if let Some(open) = self.sessions.get_mut(&from) {
            *open -= 1;
            if *open == 0 {
                self.sessions.remove(&from);
            }
        }
    }
}

/// A handshake under way, as a [`HandshakeLimit`] sees it. Times are of one clock, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake<K> {
    /// The key by which the runtime finds the handshake.
    pub key: K,
    /// The address of the caller, or none for a caller of this host.
    pub from: Option<Prefix>,
    /// When the connection was accepted.
    pub began_ms: u64,
    /// When the last message of the caller was whole, if any was. A part of one does not count.
    pub heard_ms: Option<u64>,
}

/// The bounds of the handshakes that are under way at a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeLimit {
    /// The handshakes of callers of this host.
    Processes,
    /// The handshakes of callers of other hosts.
    Hosts,
}

impl HandshakeLimit {
    /// Returns the number of handshakes that may be under way. A further caller takes the place of one, or waits.
    pub const fn handshakes_max(self) -> usize {
        match self {
            HandshakeLimit::Processes => PENDING_HANDSHAKES_MAX,
            HandshakeLimit::Hosts => REMOTE_PENDING_MAX,
        }
    }

    /// Decides about the next caller while so many handshakes are pending. `under_way` has those of them that can give
    /// way; the others are with other nodes of the name.
    pub fn next<K: Copy>(
        self,
        pending: usize,
        under_way: impl Iterator<Item = Handshake<K>> + Clone,
        now_ns: u64,
    ) -> Next<K> {
        if pending < self.handshakes_max() {
            return Next::Accept;
        }
        match self.gives_way(under_way) {
            Some((at_ms, key)) if at_ms <= now_ns / 1_000_000 => Next::Instead(key),
            gives_way => {
                let at_ns = gives_way.map(|(at_ms, _)| at_ms.saturating_mul(1_000_000));
                let at_most_ns = now_ns.saturating_add(PAUSE_MS_MAX * 1_000_000);
                Next::Wait(Pause::new(
                    Cause::Handshakes,
                    at_ns.unwrap_or(at_most_ns).min(at_most_ns),
                ))
            }
        }
    }

    /// Returns the handshake that gives way to the next caller, and the time from which on it does: the oldest without
    /// a whole first message, before any that has one.
    ///
    /// If one address has more than its share under way, a handshake of that address gives way, and sooner: a
    /// caller that sends a message now and then gets no more time than a slow one.
    pub fn gives_way<K: Copy>(
        self,
        under_way: impl Iterator<Item = Handshake<K>> + Clone,
    ) -> Option<(u64, K)> {
        let most = most_under_way(under_way.clone());
        let of_most = |handshake: &Handshake<K>| most.is_none() || handshake.from == most;
        let leaves = |handshake: Handshake<K>| {
            let at_ms = match (handshake.heard_ms, most) {
                (None, _) => handshake.began_ms.saturating_add(self.hello_ms()),
                (Some(_), Some(_)) => handshake.began_ms.saturating_add(CROWD_AGE_MS_MAX),
                (Some(heard_ms), None) => {
                    heard_ms.max(handshake.began_ms).saturating_add(self.silence_ms())
                }
            };
            (handshake.heard_ms.is_some(), at_ms, handshake.key)
        };
        under_way
            .filter(of_most)
            .map(leaves)
            .min_by_key(|(spoke, at_ms, _)| (*spoke, *at_ms))
            .map(|(_, at_ms, key)| (at_ms, key))
    }

    /// Returns for how many milliseconds a caller may lack a whole first message while others wait.
    const fn hello_ms(self) -> u64 {
        match self {
            HandshakeLimit::Processes => HELLO_MS_MAX,
            HandshakeLimit::Hosts => REMOTE_HELLO_MS_MAX,
        }
    }

    /// Returns for how many milliseconds a caller may be silent after a message while others wait.
    const fn silence_ms(self) -> u64 {
        match self {
            HandshakeLimit::Processes => HANDSHAKE_SILENCE_MS_MAX,
            HandshakeLimit::Hosts => REMOTE_SILENCE_MS_MAX,
        }
    }
}

/// The decision about the next caller at a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<K> {
    /// The caller is accepted.
    Accept,
    /// The caller is accepted, and the handshake of this key gives way to it. If nobody calls, none gives way.
    Instead(K),
    /// Callers wait.
    Wait(Pause),
}

/// Returns the address with the most handshakes under way, if it has more than its share.
fn most_under_way<K>(under_way: impl Iterator<Item = Handshake<K>>) -> Option<Prefix> {
    let mut counts = BTreeMap::<Prefix, usize>::new();
    for from in under_way.filter_map(|handshake| handshake.from) {
        *counts.entry(from).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.filter(|(_, count)| *count > REMOTE_PENDING_SHARE).map(|(from, _)| from)
}

#[cfg(test)]
mod tests;
