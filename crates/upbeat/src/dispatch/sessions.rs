//! Sessions: how they begin, and how they end.

use super::Dispatcher;
use super::deadlines::Deadlines;
use super::door::{Door, caller_of};
use super::hot::Hot;
use super::pending::{Connecting, Pending, Purpose, Suspended};
use super::reconnect::{Attempts, Destination};
use super::table::{Table, Whose};
use crate::carriers::Carriers;
use crate::contain::contain;
use crate::error::{Lost, Why};
use crate::execution::Execution;
use crate::reactor::Source;
use crate::remote::Remote;
use crate::session::{Session, Terms, Waiter};
use crate::stuck;
use crate::task::Cancelled;
use crate::wait::Waiting;
use crate::warning::memory_is_refused;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use upbeat_core::address::NodeAddress;
use upbeat_core::admission::AdmissionPolicy;
use upbeat_core::backoff::connect_delay_ns;
use upbeat_core::bill::Counter;
use upbeat_core::frame::Head;
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::quota::Quota;
use upbeat_memory::page::State;
use upbeat_memory::pool::Key;
use upbeat_transport::error::OpenError;
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::opening::{Opening, Step};
use upbeat_transport::socket_directory::SocketDirectory as SocketPlace;

/// A function that is called for every session that ends, with how it ended.
pub(crate) type OnLost = Box<dyn Fn(&Lost)>;

/// The settings that the application has chosen.
pub(crate) struct Settings {
    pub(crate) waiting: Waiting,
    pub(crate) place: Option<SocketPlace>,
    /// The carriers that sessions may use.
    pub(crate) carriers: Carriers,
    /// The node samples one of so many messages for the bill; 0 means none.
    pub(crate) sampling: u32,
    /// How handlers are run whose methods do not say so.
    pub(crate) execution: Execution,
    /// The bytes of accepted requests that the node holds at most.
    pub(crate) budget: u64,
    /// The terms on which sessions send and accept.
    pub(crate) terms: Terms,
    pub(crate) on_lost: Option<OnLost>,
    /// The terms on which long waits are reported.
    pub(crate) stuck: stuck::Terms,
    /// The terms for nodes of other hosts.
    pub(crate) remote: Remote,
    /// How long the node may stay undriven before its futures are polled again.
    pub(crate) undriven_period: Duration,
}

/// A place among the sessions: open, or being opened.
pub(super) enum Place {
    Opening(Box<Pending>),
    Open(Rc<Session>),
}

impl Place {
    /// Returns the purpose of an opening.
    fn purpose(self) -> Option<Purpose> {
        match self {
            Place::Opening(pending) => Some(pending.purpose),
            Place::Open(_) => None,
        }
    }
}

/// The sessions of a node, and its listeners.
pub(super) struct Peers {
    pub(super) places: RefCell<Table<Place>>,
    /// The sessions that a turn looks at.
    pub(super) hot: Hot,
    /// The sessions that have lost their connection and wait for another.
    pub(super) suspended: RefCell<BTreeMap<Key, Suspended>>,
    /// When each of these needs attention next, at the latest.
    pub(super) mending: RefCell<Deadlines>,
    /// The attempts to reach services of lost peers.
    pub(super) attempts: RefCell<BTreeMap<Rc<Destination>, Rc<Attempts>>>,
    /// Handshakes under way, except those that resume a session which this node has opened.
    pub(super) openings: RefCell<BTreeSet<Key>>,
    /// The ends of all handshakes under way, in nanoseconds of the node's clock.
    pub(super) opening_ends: RefCell<Deadlines>,
    pub(super) door: RefCell<Door>,
    /// The limits for callers of other hosts.
    pub(super) gate: RefCell<AdmissionPolicy>,
    /// The limits for memory that peers on other hosts make the node hold.
    pub(super) quota: Quota,
    /// Whether the owner was warned of callers that were turned away.
    pub(super) warned: Cell<bool>,
}

impl Peers {
    /// Returns the peers of a node that begins now.
    pub(super) fn new(settings: &Settings) -> Peers {
        Peers {
            places: RefCell::new(Table::new(settings.remote.sessions())),
            hot: Hot::default(),
            suspended: RefCell::default(),
            mending: RefCell::default(),
            attempts: RefCell::default(),
            openings: RefCell::default(),
            opening_ends: RefCell::default(),
            door: RefCell::default(),
            gate: RefCell::new(AdmissionPolicy::new(settings.remote.gate, 0)),
            quota: settings.remote.quota(settings.terms.longest),
            warned: Cell::new(false),
        }
    }
}

impl Dispatcher {
    pub(super) fn session(&self, key: Key) -> Option<Rc<Session>> {
        match self.peers.places.borrow().get(key)? {
            Place::Open(session) => Some(Rc::clone(session)),
            Place::Opening(_) => None,
        }
    }

    /// Returns the open session of this number with a node of another host.
    pub(super) fn remote_session(&self, number: u64) -> Option<Rc<Session>> {
        match self.peers.places.borrow().remote(number)? {
            Place::Open(session) => Some(Rc::clone(session)),
            Place::Opening(_) => None,
        }
    }

    /// Returns the bytes that peers on other hosts make the node hold.
    pub(crate) fn remote_bytes(&self) -> u64 {
        self.peers.quota.held()
    }

    /// Returns every open session.
    pub(crate) fn sessions(&self) -> Vec<Rc<Session>> {
        let places = self.peers.places.borrow();
        places
            .iter()
            .filter_map(|place| match place {
                Place::Open(session) => Some(Rc::clone(session)),
                Place::Opening(_) => None,
            })
            .collect()
    }

    /// Returns how long to wait before the next attempt to connect to a busy node, after so many.
    pub(crate) fn connect_delay(&self, attempts: u32) -> Duration {
        Duration::from_nanos(connect_delay_ns(attempts, self.random()))
    }

    /// Begins to open a session for this node, or joins an attempt that has begun.
    pub(crate) fn connect(
        self: &Rc<Self>,
        to: &NodeAddress,
        whose: Whose,
        call: impl FnOnce(&LocalNode, usize, u64) -> Result<Opening, OpenError>,
    ) -> Result<Rc<Connecting>, OpenError> {
        if let Some(connecting) = self.connecting(to) {
            return Ok(connecting);
        }
        let place = self.next_place(whose)?;
        let opening = call(&self.home, place, self.now_ms())?;
        let connecting = Rc::new(Connecting::new(to.clone()));
        self.begin(opening, whose, Purpose::Session(Rc::clone(&connecting)))?;
        Ok(connecting)
    }

    /// Returns the connection to a node that is being opened.
    fn connecting(&self, to: &NodeAddress) -> Option<Rc<Connecting>> {
        let (places, openings) = (self.peers.places.borrow(), self.peers.openings.borrow());
        let connecting = openings.iter().find_map(|key| match places.get(*key)? {
            Place::Opening(pending) => match &pending.purpose {
                Purpose::Session(connecting) if connecting.to == *to => Some(connecting),
                _ => None,
            },
            Place::Open(_) => None,
        });
        connecting.cloned()
    }

    /// Returns the number of the next session.
    pub(super) fn next_place(&self, whose: Whose) -> Result<usize, OpenError> {
        let key = self.peers.places.borrow().next_key(whose);
        key.map(|key| key.index as usize).ok_or_else(|| self.full(whose))
    }

    /// Returns the error for a session that finds no place of this kind.
    fn full(&self, whose: Whose) -> OpenError {
        OpenError::Sessions { limit: self.peers.places.borrow().most(whose) }
    }

    /// Begins an opening that was made for the next number.
    pub(super) fn begin(
        self: &Rc<Self>,
        opening: Opening,
        whose: Whose,
        purpose: Purpose,
    ) -> Result<(), OpenError> {
        let key = self.insert(opening, whose, purpose)?;
        self.step(key);
        Ok(())
    }

    /// Inserts an opening that was made for the next number, and whose first step follows.
    pub(super) fn insert(
        &self,
        opening: Opening,
        whose: Whose,
        purpose: Purpose,
    ) -> Result<Key, OpenError> {
        let key = self.peers.places.borrow().next_key(whose);
        let key = key.ok_or_else(|| self.full(whose))?;
        let failed = |error| OpenError::System { act: "epoll_ctl", error };
        self.events.reactor.add_once(&opening, Source::Place(key)).map_err(failed)?;
        let pending = Box::new(Pending { opening, purpose });
        if !matches!(pending.purpose, Purpose::Again(_)) {
            self.peers.openings.borrow_mut().insert(key);
        }
        self.peers.opening_ends.borrow_mut().set(key, Some(pending.ends_ns()));
        // The opening has the key that was next.
        let _ = self.peers.places.borrow_mut().insert(whose, Place::Opening(pending));
        self.tell_sessions();
        Ok(key)
    }

    /// Continues an opening.
    pub(super) fn step(self: &Rc<Self>, key: Key) {
        let now = self.now_ms();
        let stepped = match self.peers.places.borrow_mut().get_mut(key) {
            Some(Place::Opening(pending)) => {
                let is_remote = pending.is_from_other_host();
                let stepped = self.charged(is_remote, || pending.opening.step(now));
                match stepped {
                    Ok(Step::Waiting) if !pending.opening.is_held() => {
                        return self.await_opening(key, pending);
                    }
                    stepped => stepped,
                }
            }
            _ => return,
        };
        let opened = match stepped {
            Ok(Step::Waiting) => return self.answer_or_hold(key),
            Ok(Step::Ready) => return self.ask_again(key),
            Ok(Step::Resuming(resuming)) => {
                self.leave_opening(key);
                return self.resume_session(resuming);
            }
            Ok(Step::Resumed { connection, position }) => {
                if let Some(Purpose::Again(again)) = self.leave_opening(key) {
                    self.take_connection(&again.session, connection, position);
                }
                return;
            }
            Ok(Step::Done(carrier)) => {
                if let Some(socket) = carrier.socket() {
                    self.events.reactor.change(socket, Source::Place(key), false);
                }
                self.poll_new_socket(Source::Place(key), &carrier).map(|()| {
                    let replies = self.flow.budgets.replies().clone();
                    let roster = Arc::clone(&self.work.roster);
                    let wake = Arc::new(move || roster.ring());
                    let quota = carrier.peer.at.map(|_| &self.peers.quota);
                    Rc::new(Session::new(carrier, self.settings.terms, replies, quota, wake))
                })
            }
            Err(error) => Err(error),
        };
        // The socket of a session stays in the epoll; that of an opening is polled for one event at a time.
        let purpose = match &opened {
            Ok(session) => {
                self.opening_ended(key);
                let mut places = self.peers.places.borrow_mut();
                let open = Place::Open(Rc::clone(session));
                let place = places.get_mut(key).map(|place| std::mem::replace(place, open));
                place.and_then(Place::purpose)
            }
            Err(_) => self.leave_opening(key),
        };
        if let Ok(session) = &opened {
            if let Some(Purpose::Session(connecting)) = &purpose {
                let _ = session.noted.opened_as.set(connecting.to.clone());
            }
            self.enter(key, session);
        }
        match (purpose, opened) {
            (Some(Purpose::Session(connecting)), opened) => connecting.end(opened),
            (Some(Purpose::Again(again)), Err(error)) => self.attempt_failed(&again, key, &error),
            (_, Err(error)) => self.note_refused(&error),
            (_, Ok(_)) => {}
        }
    }

    /// Removes an opening that has ended. Returns its purpose.
    pub(super) fn leave_opening(&self, key: Key) -> Option<Purpose> {
        self.opening_ended(key);
        let place = self.peers.places.borrow_mut().remove(key);
        self.tell_sessions();
        place?.purpose()
    }

    /// Takes a handshake off the lists of those under way.
    pub(super) fn opening_ended(&self, key: Key) {
        self.peers.openings.borrow_mut().remove(&key);
        self.peers.opening_ends.borrow_mut().set(key, None);
    }

    /// Publishes how many sessions the node has, so that the next caller goes to the node with the fewest of those that
    /// share its name.
    pub(super) fn tell_sessions(&self) {
        self.home.has_sessions(self.peers.places.borrow().len());
    }

    /// Has the epoll wait for the event that continues an opening.
    fn await_opening(&self, key: Key, pending: &Pending) {
        let wants_output = pending.opening.wants_output();
        if !mutated(Mutant::OpeningUnarmed) {
            self.events.reactor.rearm(&pending.opening, Source::Place(key), wants_output);
        }
        self.peers.opening_ends.borrow_mut().set(key, Some(pending.ends_ns()));
        pending.note_answer();
    }

    /// Records that a session is open, and looks at it from now on.
    fn enter(self: &Rc<Self>, key: Key, session: &Rc<Session>) {
        session.noted.key.set(Some(key));
        session.carrier.unshared().into_iter().for_each(memory_is_refused);
        let pid = session.carrier.peer.pid.filter(|pid| *pid != std::process::id());
        if let Some(pid) = pid {
            let mut door = self.peers.door.borrow_mut();
            // Without a pidfd, as for a process of another PID namespace, only the end of the socket reports a death.
            if let Ok(process) = door.watch.watch(pid) {
                session.noted.watched.set(true);
                if let Some(process) = process {
                    let _ = self.events.reactor.add(process, Source::Process(pid));
                }
            }
        }
        if let Some(from) = caller_of(session) {
            self.peers.gate.borrow_mut().opened(from);
        }
        self.count(Counter::SessionsOpened);
        if session.is_remote() {
            self.count(Counter::SessionsRemote);
        }
        if self.is_closing() {
            // The caller was accepted before the node began to close, and must go elsewhere.
            session.send_surely(Head::goodbye(), Vec::new());
            self.sent(session);
        }
        self.heat(session);
    }

    /// Ends a session, and tells all futures that wait in it.
    #[cold]
    pub(crate) fn lose(self: &Rc<Self>, session: &Rc<Session>, why: Why) {
        let Some(key) = session.noted.key.get() else { return };
        let why = session.why_gone(why);
        // The tasks of one-way messages are found by the session's key, which is cleared below.
        let left = match session.serving().oneways() {
            0 => Vec::new(),
            _ => self.work.tasks.oneways_of(key),
        };
        session.noted.key.set(None);
        self.count(Counter::SessionsLost);
        if matches!(why, Why::Misbehaved(_) | Why::Broken(_)) {
            self.count(Counter::PeerFaults);
        }
        self.peers.places.borrow_mut().remove(key);
        self.tell_sessions();
        let from = caller_of(session).filter(|_| !mutated(Mutant::LostStaysCounted));
        if let Some(from) = from {
            self.peers.gate.borrow_mut().closed(from);
        }
        session.leave_lane();
        if session.noted.hot.take() {
            self.peers.hot.left();
            self.note_stale();
        }
        let carrier = &session.carrier;
        self.forget_suspended(key);
        if let Some(connection) = carrier.take_broken() {
            self.events.reactor.remove(&connection);
        }
        if let Some(socket) = carrier.socket() {
            self.events.reactor.remove(socket);
        }
        if why == Why::ShutDown {
            session.say_goodbye();
        }
        session.close(&why);
        if session.noted.watched.take()
            && let Some(pid) = carrier.peer.pid
        {
            self.unwatch(pid);
        }
        session.end(why, |waiter| match waiter {
            Waiter::Task(task) => self.roster().push(task),
            Waiter::Waker(waker) => waker.wake(),
        });
        for task in session.take_served() {
            if mutated(Mutant::LostLeavesHandlers) {
                break;
            }
            self.cancel(task, Cancelled::Lost);
        }
        for task in left {
            self.cancel(task, Cancelled::Lost);
        }
        drop(session.forget_kept(self.flow.budgets.requests()));
        self.count_more(Counter::OrphansEnded, self.end_streams(key, session));
        self.pressed.set(true);
        if let (Some(on_lost), Some(lost)) = (&self.settings.on_lost, session.ended()) {
            contain(|| on_lost(lost));
        }
    }

    fn unwatch(&self, pid: u32) {
        let mut door = self.peers.door.borrow_mut();
        if door.watch.is_last(pid)
            && let Some(process) = door.watch.as_fd(pid)
        {
            self.events.reactor.remove(process);
        }
        door.watch.unwatch(pid);
    }

    /// Ends everything: tasks, sessions and listeners. Blocks for `most` at most, until what sessions over byte streams
    /// still have to send has come to their peers' hosts.
    pub(crate) fn end(self: &Rc<Self>, most: Duration) {
        self.life.closing.set(true);
        self.forget_methods();
        self.home.page().set_state(State::Closed);
        self.shut_door();
        // A caller that has done its part of a handshake has a session, which must not seem to die.
        let openings: Vec<Key> = self.peers.opening_ends.borrow().keys().collect();
        openings.into_iter().filter(|key| self.is_opening(*key)).for_each(|key| self.step(key));
        self.leave_in_order(most);
        for session in self.sessions() {
            self.lose(&session, Why::ShutDown);
        }
        self.update_hot();
        self.work.tasks.end_all(Cancelled::Lost);
        self.work.roster.forget();
        self.show_counters();
        self.has_ended();
    }

    /// Returns whether a handshake goes on. A node that ends because a step has panicked leaves that one.
    fn is_opening(&self, key: Key) -> bool {
        match self.peers.places.borrow().get(key) {
            Some(Place::Opening(pending)) => !pending.opening.has_ended(),
            _ => false,
        }
    }

    /// Stops accepting requests. Accepted requests are finished.
    pub(crate) fn begin_closing(self: &Rc<Self>) {
        self.life.closing.set(true);
        self.forget_methods();
        self.home.page().set_state(State::Closing);
        self.shut_door();
        for session in self.sessions() {
            session.send_surely(Head::goodbye(), Vec::new());
            self.sent(&session);
        }
    }

    /// Returns whether the node accepts no more requests.
    pub(crate) fn is_closing(&self) -> bool {
        self.life.closing.get()
    }

    /// Drops every service, whose own end may use the node.
    fn forget_methods(&self) {
        let methods = self.replace_entries(Vec::new()).unwrap_or_default();
        methods.into_iter().for_each(|entry| contain(|| drop(entry)));
    }

    /// Returns whether every accepted request is done, and its reply has left the node.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.work.tasks.has_handler() && self.sessions().iter().all(|session| session.is_quiet())
    }
}
