//! How sessions over byte streams end in order.
//!
//! Messages in shared memory outlive their sender. Over a byte stream they lie in this process until the system takes
//! them, and a socket that is closed while its peer still sends loses what the peer's host does not have. Invariant:
//! what was sent before the end arrives, or a line on standard error says that it may not.

use super::Session;
use crate::warning::warn;
use rustix::event::PollFlags;
use std::borrow::Borrow;
use std::os::fd::AsFd;
use std::time::Duration;
use upbeat_environment::waiting::poll_any;
use upbeat_transport::carrier::Leaving;

/// The longest time between two looks whether the hosts of all peers have everything, in nanoseconds. The system has
/// no event for that.
const LOOK_NS: u64 = 1_000_000;

impl Session {
    /// Returns whether bytes of this side may be lost if the session ends now: the system has not taken them, or the
    /// peer's host does not have them.
    pub(crate) fn has_bytes_under_way(&self) -> bool {
        let carrier = &self.carrier;
        carrier.has_unsent() || !carrier.is_acknowledged()
    }

    /// Returns whether the end of the session has to wait for bytes of this side, or for replies to calls that were
    /// given up, which would reset the connection.
    pub(crate) fn is_at_stake(&self) -> bool {
        self.has_bytes_under_way() || !self.carrier.caps().shares_memory && self.calls_open() != 0
    }

    /// Warns that a session ends while messages of this side are on their way, for which the end has waited so long.
    #[cold]
    pub(crate) fn warn_of_unsent(&self, leaving: Leaving, waited: Duration) {
        let why = match leaving {
            Leaving::Lost => "its connection has broken".to_owned(),
            _ => format!(
                "its host had not confirmed them within the {waited:?} that this end could wait"
            ),
        };
        warn(format_args!(
            "a session with {} has ended while messages to it were on their way: {why}. One-way messages may be lost; \
             call the peer before the end to know that it has them",
            self.peer_text()
        ));
    }
}

/// Ends sessions in order, within `most`. Blocks until the peers' hosts have everything of the sessions that have messages at
/// stake, and the system has taken the ends of the `others`: a peer takes a connection that closes without an end for a
/// death, or for a break of the network. Returns the sessions at stake whose peers' hosts do not have everything, and how far they have come.
pub(crate) fn leave_all<S: Borrow<Session>>(
    at_stake: impl IntoIterator<Item = S>,
    others: impl IntoIterator<Item = S>,
    most: Duration,
    now_ns: impl Fn() -> u64,
) -> Vec<(S, Leaving)> {
    let until = now_ns().saturating_add(most.as_nanos() as u64);
    let begin = |session| (session, Leaving::Sending);
    let mut at_stake: Vec<_> = at_stake.into_iter().map(begin).collect();
    let mut others: Vec<_> = others.into_iter().map(begin).collect();
    loop {
        for (session, leaving) in others.iter_mut().chain(&mut at_stake) {
            // A connection that is gone does not come back.
            if *leaving != Leaving::Lost {
                *leaving = S::borrow(session).carrier.leave();
            }
        }
        others.retain(|(_, leaving)| matches!(leaving, Leaving::Sending | Leaving::Ending));
        at_stake.retain(|(_, leaving)| *leaving != Leaving::Done);
        let left = until.saturating_sub(now_ns());
        let is_over = at_stake.iter().all(|(_, leaving)| *leaving == Leaving::Lost);
        if left == 0 || is_over && others.is_empty() {
            return at_stake;
        }
        wait(others.iter().chain(&at_stake), left.min(LOOK_NS));
    }
}

/// Waits for so long at most, until the socket of a session that still sends has an event. Input matters only while
/// messages wait: a peer that has closed its direction leaves the socket readable.
fn wait<'s, S: Borrow<Session> + 's>(
    sessions: impl Iterator<Item = &'s (S, Leaving)>,
    at_most_ns: u64,
) {
    let sockets: Vec<_> = sessions
        .filter_map(|(session, leaving)| {
            let carrier = &session.borrow().carrier;
            let output = if carrier.has_output() { PollFlags::OUT } else { PollFlags::empty() };
            let events = match leaving {
                Leaving::Sending => PollFlags::IN | output,
                Leaving::Ending => output,
                _ => return None,
            };
            Some((carrier.socket()?, events))
        })
        .collect();
    let polled: Vec<_> = sockets.iter().map(|(socket, events)| (socket.as_fd(), *events)).collect();
    poll_any(&polled, Some(at_most_ns));
}
