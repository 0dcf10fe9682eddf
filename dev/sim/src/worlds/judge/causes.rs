//! The causes that the disturbances of a world are, and the times of what they cause.

use crate::worlds::history::{Disturbance, History, Process, Span};
use crate::worlds::plan::{Fault, Kind, PATIENCE_MS, Plan};

pub(super) const MS: u64 = 1_000_000;
/// The time in which a process of the same host learns that another one has died, or acts if it is not stopped.
pub(super) const SOON: u64 = 20 * MS;
/// The shortest time after which a handshake is given up.
const HANDSHAKE: u64 = 2_000 * MS;
/// The time until the next attempt to connect again begins.
const ATTEMPT: u64 = 300 * MS;
/// An idle connection may have brought its last packet so long before it was cut.
const IDLE: u64 = 1_000 * MS;
/// The time for which a handle whose calls block does not look at its connections, at most.
const BLOCKED: u64 = 20_000 * MS;
/// The ways from host to host until a message has come that waits for room, and a cause is known.
const WAYS: u64 = 30;

/// A time.
pub(super) type Within = (u64, u64);

#[derive(Clone, Copy)]
pub(super) struct Causes<'w> {
    pub(super) plan: &'w Plan,
    pub(super) history: &'w History,
}

/// A time in which two processes of different hosts do not reach each other.
struct Outage {
    from: u64,
    to: u64,
    is_broken: bool,
    is_cut: bool,
}

impl<'w> Causes<'w> {
    pub(super) fn spans(
        &self,
        is_meant: impl Fn(Disturbance) -> bool,
    ) -> impl Iterator<Item = &'w Span> {
        self.history.spans.iter().filter(move |span| is_meant(span.what))
    }

    /// Returns whether something disturbed a process in a time.
    pub(super) fn overlaps(&self, what: Disturbance, (from, to): Within) -> bool {
        self.spans(|other| other == what).any(|span| span.from <= to && from <= span.to)
    }

    /// Returns the first time from another one on at which a process is down.
    pub(super) fn down(&self, process: Process, from: u64) -> Option<u64> {
        let down = self.spans(|what| what == Disturbance::Down(process));
        down.filter(|span| span.to > from).map(|span| span.from).min()
    }

    /// Returns whether a process that is down from a time on shuts down then.
    pub(super) fn closes(&self, process: Process, down: u64) -> bool {
        let closes = self.spans(|what| what == Disturbance::Closes(process));
        closes.into_iter().any(|span| span.from.abs_diff(down) < MS)
    }

    /// Returns the last time in another one at which something delayed two processes, or one of them was gone.
    pub(super) fn last(&self, one: Process, other: Process, (from, to): Within) -> u64 {
        // A process that shuts down is gone once its handlers have had their time.
        let gone_at = |of| {
            let goes = move |what| [Disturbance::Down(of), Disturbance::Left(of)].contains(&what);
            let time = move |span: &Span| {
                let grace = if self.closes(of, span.from) { self.grace(of) } else { 0 };
                (span.from + grace).min(to.max(span.from))
            };
            self.spans(goes).map(time)
        };
        let delayed =
            self.spans(|what| self.delays(what, one, other)).filter(|span| from <= span.to);
        let delayed = delayed.filter(|span| span.from <= to).map(|span| span.to.min(to));
        let times = delayed.chain(gone_at(one)).chain(gone_at(other));
        times.filter(|time| (from..=to).contains(time)).max().unwrap_or(from)
    }

    /// The time for which the handlers of a process go on while it shuts down.
    pub(super) fn grace(&self, process: Process) -> u64 {
        let leaves = self.plan.servers.get(process).and_then(|server| server.leaves);
        leaves.map_or(0, |(_, grace)| grace * MS)
    }

    /// Returns how long a process was stopped in a time.
    pub(super) fn stopped(&self, process: Process, (from, to): Within) -> u64 {
        let stops = self.spans(|what| what == Disturbance::Stopped(process));
        stops.map(|span| span.to.min(to).saturating_sub(span.from.max(from))).sum()
    }

    pub(super) fn is_remote(&self, one: Process, other: Process) -> bool {
        self.host(one) != self.host(other)
    }

    /// The auditor is on the first host.
    fn host(&self, process: Process) -> usize {
        if process < self.plan.processes() { self.plan.host(process) } else { 0 }
    }

    fn is_server(&self, process: Process) -> bool {
        process < self.plan.servers.len()
    }

    /// Returns the time in which a message comes from one process to another, if nothing disturbs it.
    fn way(&self, one: Process, other: Process) -> u64 {
        if !self.is_remote(one, other) {
            return SOON;
        }
        let slowed = self.plan.faults.iter().filter_map(|(_, fault)| match fault {
            Fault::Delay(of, most) if self.is_between(*of, one, other) => Some(*most),
            _ => None,
        });
        SOON + WAYS * slowed.max().unwrap_or(1) * MS
    }

    fn is_between(&self, of: [usize; 2], one: Process, other: Process) -> bool {
        let [one, other] = [one, other].map(|process| self.host(process));
        of == [one, other] || of == [other, one]
    }

    /// Returns whether a disturbance delays what two processes send to each other.
    fn delays(&self, what: Disturbance, one: Process, other: Process) -> bool {
        match what {
            Disturbance::Stopped(process) | Disturbance::Starved(process) => {
                process == one || process == other
            }
            Disturbance::Cut(of) | Disturbance::Broken(of) => {
                self.is_remote(one, other) && self.is_between(of, one, other)
            }
            Disturbance::Unborn(_)
            | Disturbance::Down(_)
            | Disturbance::Closes(_)
            | Disturbance::Left(_) => false,
        }
    }

    /// The time in which two processes that nothing disturbs any more have what they have sent to each other.
    fn settles(&self, one: Process, other: Process) -> u64 {
        let attempt = if self.is_remote(one, other) { ATTEMPT } else { 0 };
        self.way(one, other) + attempt
    }

    /// Returns the time at which a message has come that a process sends to another one, unless their session is lost.
    pub(super) fn comes(&self, one: Process, other: Process, at: u64) -> u64 {
        let settles = self.settles(one, other);
        let mut latest = at.saturating_add(self.way(one, other));
        loop {
            let delays = self.spans(|what| self.delays(what, one, other));
            let met = delays.filter(|span| span.from <= latest && at <= span.to);
            let next = met.map(|span| span.to.saturating_add(settles)).max().unwrap_or(0);
            if next <= latest {
                return latest;
            }
            latest = next;
        }
    }

    /// Returns the start of a time, or of what disturbed two processes before and reaches into it: they learn late of what
    /// happens meanwhile.
    fn since(&self, one: Process, other: Process, from: u64) -> u64 {
        let settles = self.settles(one, other);
        let mut since = from;
        loop {
            let delays = self.spans(|what| self.delays(what, one, other));
            let met =
                delays.filter(|span| span.from < since && since <= span.to.saturating_add(settles));
            let Some(next) = met.map(|span| span.from).min() else { return since };
            since = next;
        }
    }

    /// The longest time from an outage, or from the death of a process of another host, to the end of the sessions that
    /// it ends.
    pub(super) fn lag(&self, one: Process, other: Process) -> u64 {
        let lag = (PATIENCE_MS + 1_000 + self.plan.resume_ms) * MS + self.blocked(one, other);
        if self.is_remote(one, other) { lag + self.settles(one, other) } else { SOON }
    }

    /// The time for which two processes do not look at their connections.
    fn blocked(&self, one: Process, other: Process) -> u64 {
        let blocks = |process: Process| {
            let client = process.checked_sub(self.plan.servers.len());
            let client = client.and_then(|number| self.plan.clients.get(number));
            client.is_some_and(|client| client.kind == Kind::Blocking)
        };
        if blocks(one) || blocks(other) { BLOCKED } else { 0 }
    }

    /// Returns whether something has ended a session of two processes in a time.
    pub(super) fn is_lossy(&self, one: Process, other: Process, within: Within) -> bool {
        self.has_died(other, one, within) || self.is_cut_off(one, other, within)
    }

    /// Returns whether something but the death of a process has ended its session with another one in a time.
    pub(super) fn is_cut_off(&self, other: Process, process: Process, within: Within) -> bool {
        self.has_died(other, process, within)
            || self.is_starved(other, process, within)
            || self
                .outages(other, process)
                .any(|outage| self.ends_sessions(&outage, other, process, within))
    }

    /// Returns whether one of two processes lacks something in a time: it gives sessions up, or opens none.
    pub(super) fn is_starved(&self, one: Process, other: Process, (from, to): Within) -> bool {
        let since = self.since(one, other, from).saturating_sub(self.lag(one, other));
        [one, other].iter().any(|of| self.overlaps(Disturbance::Starved(*of), (since, to)))
    }

    /// Returns whether the death of a process has ended its sessions with another one in a time.
    fn has_died(&self, dead: Process, peer: Process, (from, to): Within) -> bool {
        // A client connects again, and learns that the server is another one.
        let is_told = !self.is_server(peer) && self.is_server(dead);
        let lag = if is_told { self.settles(dead, peer) } else { self.lag(dead, peer) };
        let since = |at| self.since(dead, peer, at);
        let from = since(since(from).saturating_sub(lag));
        self.overlaps(Disturbance::Down(dead), (from, to))
    }

    /// Returns the outages between two processes, in the order of their times. Those that follow each other at once are one.
    fn outages(&self, one: Process, other: Process) -> impl Iterator<Item = Outage> {
        let is_remote = self.is_remote(one, other);
        let mut spans: Vec<_> =
            self.spans(|what| is_remote && self.delays(what, one, other)).collect();
        spans.sort_by_key(|span| span.from);
        let mut outages: Vec<Outage> = Vec::new();
        for Span { what, from, to } in spans {
            let is_broken = matches!(what, Disturbance::Broken(_));
            let is_cut = matches!(what, Disturbance::Cut(_));
            match outages.last_mut() {
                Some(last) if *from <= last.to.saturating_add(self.settles(one, other)) => {
                    last.to = last.to.max(*to);
                    last.is_broken |= is_broken;
                    last.is_cut |= is_cut;
                }
                _ => outages.push(Outage { from: *from, to: *to, is_broken, is_cut }),
            }
        }
        outages.into_iter()
    }

    /// Returns whether an outage has ended the sessions of two processes in a time: it was too long for them.
    fn ends_sessions(
        &self,
        outage: &Outage,
        one: Process,
        other: Process,
        (from, to): Within,
    ) -> bool {
        let resume = self.plan.resume_ms * MS;
        // A connection that is cut is not broken before the host's patience is over.
        let outlived = match (outage.is_broken, outage.is_cut) {
            (true, _) => resume,
            (false, true) => resume + PATIENCE_MS * MS - IDLE,
            (false, false) => return false,
        };
        let blocked = self.blocked(one, other);
        let settles = self.settles(one, other);
        let length = (outage.to.min(to) - outage.from.min(to)) + settles + blocked;
        let latest = outage.to.saturating_add(self.lag(one, other));
        outage.from <= to && from <= latest && length >= outlived
    }

    /// Returns whether the connection of two processes was cut just before one of them began to wait for another connection.
    /// The wait ends without one at `until`.
    pub(super) fn was_cut_before_waiting(&self, one: Process, other: Process, until: u64) -> bool {
        let resume = self.plan.resume_ms * MS;
        let Some(from) = until.checked_sub(resume).filter(|_| resume != 0) else { return false };
        let patience = PATIENCE_MS * MS + self.settles(one, other);
        self.is_cut(one, other, (from.saturating_sub(patience), from))
    }

    /// Returns whether a handshake of two processes may take too long in a time.
    pub(super) fn is_slow(&self, one: Process, other: Process, within: Within) -> bool {
        let is_stopped = |process| self.stopped(process, within) >= HANDSHAKE;
        is_stopped(one) || is_stopped(other) || self.is_cut(one, other, within)
    }

    /// Returns whether the network between two processes was cut in a time.
    fn is_cut(&self, one: Process, other: Process, (from, to): Within) -> bool {
        let cuts = |what| {
            !matches!(what, Disturbance::Stopped(_) | Disturbance::Starved(_))
                && self.delays(what, one, other)
        };
        self.spans(cuts).any(|span| span.from <= to && from <= span.to)
    }

    /// Returns whether something kept a process from connecting with a server in a time.
    pub(super) fn is_unreachable(&self, one: Process, server: Process, (from, to): Within) -> bool {
        let since = |at| self.since(one, server, at);
        let since = since(since(from).saturating_sub(self.settles(one, server)));
        let is_away = |process| {
            self.overlaps(Disturbance::Down(process), (since, to))
                || self.overlaps(Disturbance::Unborn(process), (since, to))
                || self.stopped(process, (since, to)) >= HANDSHAKE
        };
        let disturbs =
            |what| !matches!(what, Disturbance::Stopped(_)) && self.delays(what, one, server);
        is_away(server)
            || is_away(one)
            || self.spans(disturbs).any(|span| span.from <= to && since <= span.to)
    }
}
