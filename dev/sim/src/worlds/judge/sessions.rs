//! Judges the ends of sessions: each has its cause, and a death is told.

use super::Judge;
use super::causes::{MS, SOON};
use crate::worlds::history::{Disturbance, Loss, Process, Told};
use crate::worlds::plan::{Kind, process_name};
use upbeat::Why;

impl Judge<'_> {
    /// A session is lost for the cause that its process is told.
    pub(super) fn lost(&self, loss: &Loss) {
        let Loss { process, peer, why, at } = loss;
        let (process, at) = (*process, *at);
        let peers: Vec<_> =
            (0..=self.plan.processes()).filter(|other| self.is_meant(*other, peer)).collect();
        let has_left = |peer: Process| {
            let within = (0, at.saturating_add(SOON));
            peer == self.plan.processes()
                || self.causes.overlaps(Disturbance::Left(peer), within)
                || self.causes.overlaps(Disturbance::Closes(peer), within)
        };
        let has_died = |peer: Process| self.causes.is_lossy(process, peer, (at, at));
        let since = |peer| at.saturating_sub(self.causes.lag(process, peer));
        let is_starved =
            || peers.iter().any(|peer| self.causes.is_starved(process, *peer, (0, at)));
        let is_explained = match why {
            Why::ShutDown => has_left(process),
            Why::HandleClosed => is_handle(peer),
            Why::Closed => peers.iter().any(|peer| has_left(*peer)),
            Why::Died => peers.iter().any(|peer| {
                // A handle that is dropped in a task does not wait until its peer knows.
                has_died(*peer) || self.is_awaited(*peer) && has_left(*peer)
            }),
            Why::Unreachable { .. } => peers.iter().any(|peer| {
                let is_left = has_left(*peer)
                    && (self.is_awaited(*peer)
                        // A process that leaves while nothing comes from it tells its peers nothing.
                        || self.causes.is_unreachable(process, *peer, (since(*peer), at)));
                // A caller whose connection broke before it knew of its session has lost none, and opens another.
                let is_unknown = || {
                    self.causes.was_cut_before_waiting(process, *peer, at)
                        && !self.has_lost(*peer, process)
                };
                self.causes.is_remote(process, *peer)
                    && (has_died(*peer) || is_left || is_unknown())
            }),
            Why::Descriptors { .. } | Why::Unmapped { .. } => is_starved(),
            // A caller gives up a handshake that takes too long, and the process learns of that once it goes on.
            Why::GivenUp { .. } => {
                let is_slow = |peer| self.causes.is_slow(peer, process, (since(peer), at));
                is_starved() || peers.iter().any(|peer| is_slow(*peer))
            }
            // Every process keeps the rules.
            _ => false,
        };
        if !is_explained {
            self.violated(format!("{process} has lost a session without a cause: {loss:?}"));
        }
    }

    /// Returns whether a process was told that it has lost a session with another one.
    fn has_lost(&self, process: Process, peer: Process) -> bool {
        let mut losses = self.history.losses.iter();
        losses.any(|loss| loss.process == process && self.is_meant(peer, &loss.peer))
    }

    /// Returns whether a process is the one of which a loss tells. A handle has no name.
    fn is_meant(&self, other: Process, peer: &str) -> bool {
        match process_name(self.plan, other) {
            None => is_handle(peer),
            Some(name) => peer.split(' ').next() == Some(&name),
        }
    }

    fn is_awaited(&self, process: Process) -> bool {
        let client = process.checked_sub(self.plan.servers.len());
        let client = client.and_then(|number| self.plan.clients.get(number));
        client.is_some_and(|client| client.kind == Kind::Awaited)
    }

    /// A node is told that a server has died to which it has a session.
    pub(super) fn tells_of_deaths(&self) {
        for span in &self.history.spans {
            let Disturbance::Down(dead) = span.what else { continue };
            if dead >= self.plan.servers.len() || self.causes.closes(dead, span.from) {
                continue;
            }
            for process in (0..self.plan.processes()).filter(|it| *it != dead) {
                if process_name(self.plan, process).is_some() {
                    self.tells_of_death(dead, span.from, process);
                }
            }
        }
    }

    fn tells_of_death(&self, dead: Process, at: u64, process: Process) {
        // A reply of this life has come, and nothing has ended the session before the death.
        let mut operations = self.plan.operations.iter().zip(&self.history.operations);
        let is_known = operations.any(|(operation, did)| {
            let is_theirs = (operation.from, operation.to) == (process, dead);
            let done = did.told.as_ref().filter(|(_, told)| *told == Told::Done);
            let done = done.filter(|_| !did.runs.is_empty()).map(|(done, _)| *done);
            is_theirs
                && done.is_some_and(|done| {
                    done < at && !self.causes.is_lossy(process, dead, (done, at.saturating_sub(1)))
                })
        });
        let latest = self.causes.comes(dead, process, at + self.causes.lag(dead, process));
        let is_gone = |what| self.causes.overlaps(what, (0, latest));
        if !is_known
            || [Disturbance::Down(process), Disturbance::Left(process)].map(is_gone) != [false; 2]
        {
            return;
        }
        let is_told = |loss: &Loss| {
            loss.process == process
                && self.is_meant(dead, &loss.peer)
                && (at..=latest).contains(&loss.at)
        };
        if !self.history.losses.iter().any(is_told) {
            let at = at / MS;
            self.violated(format!("{process} is not told that {dead} has died at {at} ms"));
        }
    }
}

/// Returns whether a peer is a handle: it has no name.
fn is_handle(peer: &str) -> bool {
    !["client", "server", "auditor"].iter().any(|name| peer.starts_with(name))
}
