//! Sessions between hosts that have lost their connection and continue over another.
//!
//! The side that has opened a session connects again, in a task, at the address that it was given; the other side
//! waits for that. Messages stay in the lanes of both sides until they have arrived, and the carrier sends them again
//! from there. [`upbeat_core::resume`] decides when and for how long. Invariant: only the node's own turns suspend,
//! resume and end a session, and while it is suspended its socket is not polled.

use super::sessions::Connecting;
use super::{Dispatcher, Session};
use crate::error::Why;
use crate::reactor::Source;
use crate::wake::Start;
use std::rc::Rc;
use upbeat_core::bill::Counter;
use upbeat_core::resume::Due;
use upbeat_transport::carrier::Connection;
use upbeat_transport::error::OpenError;
use upbeat_transport::remote::{ResumeError, Resuming};

impl Dispatcher {
    /// Suspends a session whose connection has gone, until there is another.
    #[cold]
    pub(super) fn has_broken(self: &Rc<Self>, session: &Rc<Session>) {
        let now = self.now_ns();
        if session.noted.key.get().is_none() || session.link(|link| link.broke(now)) != Some(true) {
            return;
        }
        self.count(Counter::SessionsSuspended);
        session.noted.awaits_output.set(false);
        self.peers.suspended.borrow_mut().push(Rc::clone(session));
        self.find_streams();
        self.mend(now);
    }

    /// Connects again, or gives up, for the suspended sessions whose time has come. Returns whether any was given up.
    pub(super) fn mend(self: &Rc<Self>, now: u64) -> bool {
        if self.peers.suspended.borrow().is_empty() {
            return false;
        }
        let suspended = self.peers.suspended.borrow().clone();
        let mut any = false;
        for session in &suspended {
            match session.link(|link| link.due(now)).flatten() {
                Some(Due::Connect) => self.connect_again(session),
                Some(Due::GiveUp) => {
                    self.lose_after_last_words(session, session.not_resumed());
                    any = true;
                }
                None => {}
            }
        }
        any
    }

    /// Returns when the next suspended session needs attention.
    pub(super) fn next_mending(&self) -> Option<u64> {
        let suspended = self.peers.suspended.borrow();
        suspended.iter().filter_map(|session| session.link(|link| link.next_ns()).flatten()).min()
    }

    /// Takes a session off the list of suspended ones.
    pub(super) fn forget_suspended(&self, session: &Rc<Session>) {
        self.peers.suspended.borrow_mut().retain(|other| !Rc::ptr_eq(other, session));
    }

    /// Connects again for a session that this node has opened.
    fn connect_again(self: &Rc<Self>, session: &Rc<Session>) {
        let (node, session) = (Rc::clone(self), Rc::clone(session));
        let attempt = async move {
            if let Err(error) = node.open_again(&session).await {
                node.attempt_failed(&session, &error);
            }
        };
        // With too many tasks there is no attempt, and the session ends when its time is over.
        drop(self.spawn(attempt, Start::default()));
    }

    /// Tries each of the addresses of the session's peer.
    async fn open_again(self: &Rc<Self>, session: &Rc<Session>) -> Result<(), OpenError> {
        let until_ns = session.link(|link| link.until_ns()).flatten();
        if let (Some(to), Some(until_ns)) = (session.noted.opened_as.get(), until_ns)
            && let Some(address) = to.address()
        {
            self.open_at(to, address, until_ns.div_ceil(1_000_000), Some(session)).await?;
        }
        Ok(())
    }

    /// Records that an attempt to connect again has failed. Another follows, unless the peer has no such session.
    fn attempt_failed(self: &Rc<Self>, session: &Rc<Session>, error: &OpenError) {
        if session.ended().is_some() {
            return;
        }
        let why = session.attempt_failed(Some(error), self.now_ns(), || self.random());
        if let Some(why) = why {
            self.lose_after_last_words(session, why);
        }
    }

    /// Continues a session for which this node has connected again.
    pub(super) fn take_connection(
        self: &Rc<Self>,
        connecting: Option<&Connecting>,
        connection: Connection,
        position: u64,
    ) {
        let Some(connecting) = connecting else { return };
        let Some(session) = &connecting.again else { return };
        if session.noted.key.get().is_some() && session.link(|link| link.resumed()) == Some(true) {
            match session.carrier.resume(connection, position) {
                Ok(()) => self.goes_on(session),
                Err(rule) => self.lose_after_last_words(session, Why::Misbehaved(rule)),
            }
        }
        connecting.end(Ok(Rc::clone(session)));
    }

    /// Resumes a session of this node whose caller has connected again. The old connection may still seem to stand: the
    /// caller knows better.
    pub(super) fn resume_session(self: &Rc<Self>, resuming: Resuming) {
        if resuming.listener() != Some(self.home.incarnation()) {
            return self.hand_over(resuming);
        }
        let takes = |session: &Rc<Session>| {
            let ticket = resuming.ticket_of(&session.carrier);
            ticket.is_some_and(|ticket| session.link(|link| link.takes(&ticket)) == Some(true))
        };
        let session = resuming.number().and_then(|number| self.remote_session(number));
        let Some(session) = session.filter(takes) else {
            return resuming.refuse();
        };
        if !session.carrier.is_suspended() {
            // Messages of the old connection are taken over first, and may end the session.
            session.carrier.suspend();
            self.hear(&session);
            if session.ended().is_some() {
                return resuming.refuse();
            }
        }
        match resuming.with(&session.carrier) {
            Ok(()) => {
                session.link(|link| link.resumed());
                self.goes_on(&session);
            }
            // The caller connects again.
            Err(ResumeError::Open(_)) => {}
            Err(ResumeError::Rule(rule)) => {
                self.lose_after_last_words(&session, Why::Misbehaved(rule));
            }
        }
    }

    /// Passes a caller on that wants to resume a session of another node of this name, or refuses it if that is gone.
    fn hand_over(&self, resuming: Resuming) {
        self.events.reactor.remove(&resuming);
        let door = self.peers.door.borrow();
        let back = match &door.listeners.remote {
            Some(listener) => listener.hand_over(resuming),
            None => Some(resuming),
        };
        back.into_iter().for_each(Resuming::refuse);
    }

    /// Continues a session with its new connection, whose socket was polled for the handshake.
    fn goes_on(self: &Rc<Self>, session: &Rc<Session>) {
        let Some(key) = session.noted.key.get() else { return };
        self.forget_suspended(session);
        self.count(Counter::SessionsResumed);
        let waits = session.carrier.has_output();
        session.noted.awaits_output.set(waits);
        if let Some(socket) = session.carrier.socket() {
            self.events.reactor.change(socket, Source::Place(key), waits);
        }
        self.heat(session);
        self.find_streams();
    }
}
