//! How a node that ends leaves its sessions over byte streams: in order, so that what was sent before the end arrives.

use super::Dispatcher;
use crate::session::leave_all;
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;
use upbeat_core::bill::Counter;

impl Dispatcher {
    /// Tells all peers over byte streams that this node ends, and sends them what waits. Blocks until their hosts have
    /// it, for `most` at most, and not in a node's task.
    pub(super) fn leave_in_order(&self, most: Duration) {
        let mut sessions = self.sessions();
        // A session without a connection is lost with its messages, as `on_lost` says.
        sessions.retain(|session| {
            !session.carrier.caps().shares_memory && !session.carrier.is_suspended()
        });
        // A caller learns that its call is lost; nobody misses a one-way message.
        let sends = self.counted(Counter::OnewaysSent) != 0;
        let (at_stake, others): (Vec<_>, Vec<_>) =
            sessions.into_iter().partition(|session| session.is_at_stake());
        let loses = at_stake.iter().filter(|session| sends && session.has_bytes_under_way());
        let loses: HashSet<_> = loses.map(Rc::as_ptr).collect();
        at_stake.iter().chain(&others).for_each(|session| session.say_goodbye());
        let most = if Dispatcher::is_driving() { Duration::ZERO } else { most };
        for (session, leaving) in leave_all(at_stake, others, most, || self.now_ns()) {
            if loses.contains(&Rc::as_ptr(&session)) {
                session.warn_of_unsent(leaving, most);
            }
        }
    }
}
