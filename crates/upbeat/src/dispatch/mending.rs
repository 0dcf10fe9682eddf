//! Sessions between hosts that have lost their connection and continue over another.
//!
//! The side that has opened a session connects again, at the address that it was given; the other side waits for
//! that. Messages stay in the lanes of both sides until they have arrived, and the carrier sends them again from there.
//! [`upbeat_core::resume`] decides when and for how long. Invariant: only the node's own turns suspend, resume and end
//! a session, and while it is suspended its socket is not polled.

use super::pending::{Again, Purpose, Suspended};
use super::sessions::Place;
use super::table::Whose;
use super::{Dispatcher, Session};
use crate::error::Why;
use crate::reactor::Source;
use crate::remote::Addresses;
use std::rc::Rc;
use upbeat_core::bill::Counter;
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::resume::{Attempt, Due};
use upbeat_memory::pool::Key;
use upbeat_transport::carrier::Connection;
use upbeat_transport::error::OpenError;
use upbeat_transport::remote::{ResumeError, Resuming, connect_again};

impl Dispatcher {
    /// Suspends a session whose connection has gone, until there is another.
    #[cold]
    pub(super) fn has_broken(self: &Rc<Self>, session: &Rc<Session>) {
        if let Some(connection) = session.carrier.take_broken() {
            self.events.reactor.remove(&connection);
        }
        let now = self.now_ns();
        let Some(key) = session.noted.key.get() else { return };
        if session.link(|link| link.broke(now)) != Some(true) {
            return;
        }
        self.count(Counter::SessionsSuspended);
        session.noted.awaits_output.set(false);
        let opened = session.noted.opened_as.get().is_some();
        let addresses = session.carrier.peer.at.filter(|_| opened).map(Addresses::new);
        let suspended = Suspended { session: Rc::clone(session), attempts: Vec::new(), addresses };
        self.peers.suspended.borrow_mut().insert(key, suspended);
        if session.has_frame() {
            // Frames have come with the end of the connection, into a session at which no turn looks.
            self.heat(session);
        }
        if session.noted.hot.get() {
            // A suspended session is not pumped.
            self.peers.hot.left();
            self.note_stale();
        }
        self.mend_session(session, now);
    }

    /// Connects again, or gives up, for the suspended sessions whose time has come. Returns whether any was given up.
    pub(super) fn mend(self: &Rc<Self>, now: u64) -> bool {
        let due: Vec<Key> = self.peers.mending.borrow().due(now).collect();
        let session = |key| Some(Rc::clone(&self.peers.suspended.borrow().get(&key)?.session));
        let due = due.into_iter().filter_map(session);
        due.fold(false, |any, session| self.mend_session(&session, now) | any)
    }

    /// Does the next step for a suspended session, if it is due. Returns whether the session was given up.
    fn mend_session(self: &Rc<Self>, session: &Rc<Session>, now: u64) -> bool {
        match session.link(|link| link.due(now)).flatten() {
            Some(Due::Connect(attempt)) => self.connect_again(session, attempt),
            Some(Due::GiveUp) => {
                self.lose_after_last_words(session, session.not_resumed());
                return true;
            }
            None => {}
        }
        self.expect_mending(session);
        false
    }

    /// Notes when a session needs attention next, after its link has changed. A link that waits longer than it did
    /// needs no note: it is looked at once too early.
    fn expect_mending(&self, session: &Session) {
        if let Some(key) = session.noted.key.get() {
            let next = session.link(|link| link.next_ns()).flatten();
            let next = next.filter(|_| !mutated(Mutant::MendingUnnoted));
            self.peers.mending.borrow_mut().set(key, next);
        }
    }

    /// Returns when the next suspended session needs attention.
    pub(super) fn next_mending(&self) -> Option<u64> {
        self.peers.mending.borrow().next()
    }

    /// Takes a session off the list of suspended ones, and closes its attempts to connect.
    pub(super) fn forget_suspended(&self, key: Key) {
        self.close_attempts(key, None);
        self.peers.mending.borrow_mut().set(key, None);
        self.peers.suspended.borrow_mut().remove(&key);
    }

    /// Closes the attempts to connect again for a session, but for one.
    fn close_attempts(&self, session: Key, but: Option<Key>) {
        let mut suspended = self.peers.suspended.borrow_mut();
        let Some(Suspended { attempts, .. }) = suspended.get_mut(&session) else { return };
        let attempts = std::mem::replace(attempts, but.into_iter().collect());
        drop(suspended);
        for key in attempts.into_iter().filter(|key| Some(*key) != but) {
            self.opening_ended(key);
            let place = self.peers.places.borrow_mut().remove(key);
            if let Some(Place::Opening(pending)) = place {
                self.events.reactor.remove(&pending.opening);
            }
        }
    }

    /// Begins an attempt to connect again for a session that this node has opened.
    fn connect_again(self: &Rc<Self>, session: &Rc<Session>, attempt: Attempt) {
        let now = self.now_ns();
        let Some(key) = session.noted.key.get() else { return };
        let Some(to) = session.noted.opened_as.get() else { return };
        let place = {
            let mut suspended = self.peers.suspended.borrow_mut();
            let addresses = suspended.get_mut(&key).and_then(|it| it.addresses.as_mut());
            let (Some(addresses), Some(address)) = (addresses, to.address()) else { return };
            addresses.next(address, attempt.nth, now)
        };
        let again = Again { session: Rc::clone(session), attempt, place };
        let Some(request) = session.again(&self.home) else { return };
        let (request, number) = (request.attempt(attempt.number), key.index as usize);
        let times = [now / 1_000_000, attempt.until_ns.div_ceil(1_000_000)];
        let terms = self.settings.remote.terms();
        let opening = match connect_again(to.node(), &request, place.at, number, times, &terms) {
            Ok(opening) => opening,
            Err(error) => return self.attempt_failed(&again, key, &error),
        };
        let session = Rc::clone(session);
        match self.insert(opening, Whose::Resuming, Purpose::Again(again)) {
            Ok(opening) => {
                if let Some(suspended) = self.peers.suspended.borrow_mut().get_mut(&key) {
                    suspended.attempts.push(opening);
                }
                self.step(opening);
            }
            Err(error) => self.attempt_failed(&Again { session, attempt, place }, key, &error),
        }
    }

    /// Asks to resume a session over a connection that stands. The other attempts for the session are closed before: a
    /// listener that met two would drop the connection of the first, which may be the one that goes on.
    pub(super) fn ask_again(self: &Rc<Self>, key: Key) {
        let session = match self.peers.places.borrow_mut().get_mut(key) {
            Some(Place::Opening(pending)) => match &pending.purpose {
                Purpose::Again(again) => {
                    let session = Rc::clone(&again.session);
                    pending.opening.ask();
                    session
                }
                _ => return,
            },
            _ => return,
        };
        if let Some(of) = session.noted.key.get() {
            self.close_attempts(of, Some(key));
        }
        session.link(|link| link.ready(self.now_ns()));
        self.expect_mending(&session);
        self.step(key);
    }

    /// Records that an attempt to connect again has failed. Another follows, unless the peer has no such session.
    pub(super) fn attempt_failed(self: &Rc<Self>, again: &Again, key: Key, error: &OpenError) {
        let Again { session, attempt, place } = again;
        if session.ended().is_some() {
            return;
        }
        if let Some(of) = session.noted.key.get()
            && let Some(suspended) = self.peers.suspended.borrow_mut().get_mut(&of)
        {
            suspended.attempts.retain(|other| *other != key);
        }
        session.attempt_failed(error.to_string());
        let at = (self.now_ns(), self.random());
        let why = session.link(|link| place.failed(link, attempt, error, at)).flatten();
        match why {
            Some(why) => self.lose_after_last_words(session, why),
            None => self.expect_mending(session),
        }
    }

    /// Continues a session for which this node has connected again.
    pub(super) fn take_connection(
        self: &Rc<Self>,
        session: &Rc<Session>,
        connection: Connection,
        position: u64,
    ) {
        if session.noted.key.get().is_some() && session.link(|link| link.resumed()) == Some(true) {
            match session.carrier.resume(connection, position) {
                Ok(()) => self.goes_on(session),
                Err(rule) => self.lose_after_last_words(session, Why::Misbehaved(rule)),
            }
        }
    }

    /// Resumes a session of this node whose caller has connected again. The old connection may still seem to stand: the
    /// caller knows better.
    pub(super) fn resume_session(self: &Rc<Self>, resuming: Resuming) {
        if resuming.listener() != Some(self.home.incarnation()) {
            return self.hand_over(resuming);
        }
        let takes = |session: &Rc<Session>| {
            let ticket = resuming.ticket_of(&session.carrier);
            let attempt = resuming.attempt();
            ticket.is_some_and(|it| session.link(|link| link.takes(&it, attempt)) == Some(true))
        };
        let session = resuming.number().and_then(|number| self.remote_session(number));
        let Some(session) = session.filter(takes) else {
            return resuming.refuse();
        };
        if !session.carrier.is_suspended() {
            // Messages of the old connection are taken over first, and may end the session.
            session.carrier.suspend();
            if !mutated(Mutant::OldUnheard) {
                self.hear(&session);
            }
            if session.ended().is_some() {
                return resuming.refuse();
            }
        }
        let attempt = resuming.attempt();
        match resuming.with(&session.carrier) {
            Ok(()) => {
                session.link(|link| link.took(attempt));
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
        match &door.listeners.remote {
            Some(listener) => listener.hand_over(resuming),
            None => resuming.refuse(),
        }
    }

    /// Continues a session with its new connection, whose socket was polled for the handshake.
    fn goes_on(self: &Rc<Self>, session: &Rc<Session>) {
        let Some(key) = session.noted.key.get() else { return };
        self.forget_suspended(key);
        self.count(Counter::SessionsResumed);
        let waits = session.carrier.has_output();
        session.noted.awaits_output.set(waits);
        if let Some(socket) = session.carrier.socket() {
            self.events.reactor.change(socket, Source::Place(key), waits);
        }
        self.heat(session);
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use crate::remote::tests::relay;
    use crate::{Node, Waiting};
    use rustix::event::PollFlags;
    use std::future::Future;
    use std::net::{Shutdown, TcpListener};
    use std::os::fd::AsFd;
    use std::pin::pin;
    use std::sync::mpsc::channel;
    use std::task::{Context, Poll, Waker};
    use std::thread;
    use upbeat_core::bill::Counter;
    use upbeat_environment::waiting::poll;

    #[crate::service]
    trait Echo {
        async fn echo(&self, number: u64) -> u64;
    }

    struct Echoes;

    impl Echo for Echoes {
        async fn echo(&self, number: u64) -> u64 {
            number
        }
    }

    /// Turns both nodes until a task of the first one is done.
    fn both<T: 'static>(nodes: [&Node; 2], future: impl Future<Output = T> + 'static) -> T {
        let mut task = pin!(nodes[0].spawn(future));
        loop {
            nodes.iter().for_each(|node| _ = node.turn());
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(done) = task.as_mut().poll(&mut context) {
                return done.unwrap();
            }
        }
    }

    /// The caller alone sees that the connection has gone. The end of the old one would wake the listener again and again.
    #[test]
    fn a_listener_keeps_nothing_of_a_connection_whose_end_it_has_not_seen() {
        let node = |name| Node::builder(name).waiting(Waiting::Sleeping).insecure_plaintext();
        let server = node("unseen").listen("127.0.0.1:0").build().unwrap();
        server.serve(EchoServer::new(Echoes)).unwrap();
        let client = node("seen").build().unwrap();
        let (listener, to) = (TcpListener::bind("127.0.0.1:0").unwrap(), server.listens_at());
        let name = format!("unseen@{}", listener.local_addr().unwrap());
        let (say, said) = channel();
        thread::spawn(move || (0..2).for_each(|_| drop(say.send(relay(&listener, to.unwrap())))));
        let nodes = [&client, &server];
        let caller = client.clone();
        let echo = both(nodes, async move { caller.connect::<EchoClient>(&name).await.unwrap() });
        let [near, _far] = said.recv().unwrap();
        near.shutdown(Shutdown::Both).unwrap();
        assert_eq!(both(nodes, async move { echo.echo(7).await }), Ok(7));
        let counted = |event| nodes.map(|node| node.counted(event));
        assert_eq!(counted(Counter::SessionsResumed), [1, 1]);
        assert_eq!(counted(Counter::SessionsSuspended), [1, 1]);
        let rests = || {
            while server.turn() {}
            server.may_wait() && poll([(server.as_fd(), PollFlags::IN)], Some(0)) == [false]
        };
        assert!((0..100).any(|_| rests()), "something wakes it again and again");
    }
}
