//! How a node that ends leaves its sessions over byte streams.
//!
//! Messages in shared memory outlive their sender. Over a byte stream they lie in this process until the system takes
//! them, and a socket that is closed while its peer still sends loses what the peer's host does not have. Invariant:
//! what was sent before the end arrives, or a line on standard error says that it did not.

use super::{Dispatcher, Session};
use crate::reactor::timespec;
use rustix::event::{PollFd, PollFlags, poll};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

/// The longest time between two looks whether the hosts of all peers have everything, in nanoseconds. The system has
/// no event for that.
const LOOK_NS: u64 = 1_000_000;

impl Dispatcher {
    /// Tells all peers over byte streams that this node ends, and sends them what waits. Blocks until their hosts have
    /// it, for `most` at most, and not in a node's task.
    pub(super) fn leave_in_order(&self, most: Duration) {
        let mut sessions = self.sessions();
        // A session without a connection is lost with its messages, as `on_lost` says.
        sessions.retain(|session| session.carrier.is_stream() && !session.carrier.is_suspended());
        let mut waiting = Vec::new();
        for session in sessions {
            let is_at_stake = session.has_messages_under_way();
            session.say_goodbye();
            if !session.carrier.leave() && is_at_stake {
                waiting.push(session);
            }
        }
        let most = if Dispatcher::is_driving() { Duration::ZERO } else { most };
        let until = self.now_ns().saturating_add(most.as_nanos() as u64);
        while self.now_ns() < until && await_any(&waiting) {
            waiting.retain(|session| !session.carrier.leave());
        }
        waiting.iter().for_each(|session| session.warn_of_unsent(most));
    }
}

/// Waits until a socket of these sessions has an event, for a moment at most. Returns false if none of them has one:
/// all were left.
fn await_any(sessions: &[Rc<Session>]) -> bool {
    let sockets: Vec<_> = sessions
        .iter()
        .filter_map(|session| Some((session.carrier.socket()?, session.carrier.has_output())))
        .collect();
    let mut descriptors: Vec<PollFd<'_>> = sockets
        .iter()
        .map(|(socket, writable)| {
            let out = if *writable { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN | out)
        })
        .collect();
    if descriptors.is_empty() {
        return false;
    }
    // After any result, looking again is right.
    let _ = poll(&mut descriptors, Some(&timespec(LOOK_NS)));
    true
}
