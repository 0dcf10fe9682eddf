//! Events of sockets: doorbells, ends of peers, handshakes; and descriptors of the application.

use super::Dispatcher;
use super::door::Outside;
use super::sessions::Place;
use crate::contain::wake;
use crate::driver::{Driver, Main, answer, take_frames};
use crate::error::Why;
use crate::reactor::{Reactor, Source, has_hung_up};
use crate::session::{Fault, Session, misbehaved};
use crate::timer::Timers;
use crate::wake::{MAIN, TaskId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::task::Waker;
use upbeat_core::bill::way::StampMode;
use upbeat_core::frame::{CallNumber, Head, Kind};
use upbeat_core::limits::RING_SLOTS_MAX;
use upbeat_memory::pool::Key;

/// The events that wake a node: descriptors and timers.
pub(crate) struct Events {
    pub(super) reactor: Reactor,
    pub(crate) timers: RefCell<Timers>,
    pub(super) sources: Cell<Vec<Source>>,
    /// Descriptors of the application, by number, and the wakers of their waiters: none where the event may have come.
    applications: RefCell<BTreeMap<u32, Option<Waker>>>,
    next_descriptor: Cell<u32>,
}

impl Events {
    /// Makes the events of a node with this reactor and no timer.
    pub(super) fn new(reactor: Reactor) -> Events {
        let (timers, sources, applications) =
            (RefCell::default(), Cell::default(), RefCell::default());
        Events { reactor, timers, sources, applications, next_descriptor: Cell::new(0) }
    }

    /// Returns whether a panic has left an event unattended that the epoll does not tell again.
    pub(super) fn is_any_left(&self) -> bool {
        let sources = self.sources.take();
        let is_told_once = |of: &Source| matches!(of, Source::Application(_) | Source::Place(_));
        let any = sources.iter().any(is_told_once);
        self.sources.set(sources);
        any
    }
}

/// The sources of events that are not attended yet. They are kept where one of them panics: the epoll tells an event of
/// a handshake, or of a descriptor of the application, once.
struct Unattended<'n> {
    events: &'n Events,
    sources: Vec<Source>,
    next: usize,
}

impl Unattended<'_> {
    fn next(&mut self) -> Option<Source> {
        let source = self.sources.get(self.next).copied();
        self.next += usize::from(source.is_some());
        source
    }
}

impl Drop for Unattended<'_> {
    fn drop(&mut self) {
        self.sources.drain(..self.next);
        self.events.sources.set(std::mem::take(&mut self.sources));
    }
}

impl Dispatcher {
    /// Handles the sockets that have an event. Returns whether there was any besides the wake queue's, which a
    /// turn checks by itself.
    pub(super) fn attend(self: &Rc<Self>, sources: Vec<Source>) -> bool {
        let any = sources.iter().any(|source| *source != Source::Roster);
        let mut unattended = Unattended { events: &self.events, sources, next: 0 };
        while let Some(source) = unattended.next() {
            match source {
                Source::Roster => {}
                Source::Alarm => self.events.reactor.hush(),
                Source::Place(key) => match self.session(key) {
                    Some(session) if session.carrier.was_pumped() => self.heat(&session),
                    Some(session) => self.hear(&session),
                    None => self.step_by_event(key),
                },
                Source::Process(pid) => self.process_ended(pid),
                Source::SharedArrivals => self.arrivals_outside(Outside::Processes),
                Source::RemoteArrivals => self.arrivals_outside(Outside::Hosts),
                Source::LocalArrivals => self.arrivals_here(),
                Source::Application(id) => {
                    let mut applications = self.events.applications.borrow_mut();
                    let waker = applications.get_mut(&id).and_then(Option::take);
                    drop(applications);
                    waker.into_iter().for_each(wake);
                }
            }
        }
        drop(unattended);
        self.check_openings();
        self.make_way();
        any
    }

    /// Continues an opening whose socket has an event. The socket of a held one is polled for nothing, and reports
    /// only that its caller has gone.
    fn step_by_event(self: &Rc<Self>, key: Key) {
        let is_gone = match self.peers.places.borrow().get(key) {
            Some(Place::Opening(pending)) if pending.opening.is_held() => {
                if !has_hung_up(&pending.opening) {
                    return;
                }
                true
            }
            _ => false,
        };
        match is_gone {
            true => drop(self.leave_opening(key)),
            false => self.step(key),
        }
    }

    pub(super) fn hear(self: &Rc<Self>, session: &Rc<Session>) {
        match session.hear() {
            Ok(_) if session.carrier.is_suspended() => self.has_broken(session),
            Ok(_) => self.heat(session),
            Err(why) => self.lose_after_last_words(session, *why),
        }
    }

    /// Ends a session after the messages that the peer wrote before its end were taken over: replies and one-way
    /// messages. Its calls have no caller any more.
    pub(super) fn lose_after_last_words(self: &Rc<Self>, session: &Rc<Session>, why: Why) {
        // A peer that breaks rules could send on for ever.
        if !matches!(why, Why::Misbehaved(_) | Why::Broken(_)) {
            session.carrier.take_rest();
        }
        for kept in session.forget_kept(self.flow.budgets.requests()) {
            if !kept.head.kind.is_answered() {
                self.contained(|| self.run_kept(session, &kept));
            }
        }
        // A peer that is not gone could go on writing after the end of its socket.
        let mut left = RING_SLOTS_MAX;
        while left > 0 {
            let roster = self.roster();
            let taken = take_frames(LastWords(self, session), &mut |_| roster.push(MAIN));
            match taken {
                Ok(frames) if frames > 0 => left = left.saturating_sub(frames as usize),
                _ => break,
            }
        }
        self.lose(session, why);
    }

    fn process_ended(self: &Rc<Self>, pid: u32) {
        for session in self.sessions() {
            if session.carrier.peer.pid == Some(pid) {
                // The segments that its last messages need lie in the socket.
                self.hear(&session);
                self.lose_after_last_words(&session, Why::Died);
            }
        }
    }

    /// Ends handshakes whose time is over.
    fn check_openings(self: &Rc<Self>) {
        let now = self.now_ns();
        let late: Vec<Key> = self.peers.opening_ends.borrow().due(now).collect();
        for key in late {
            self.step(key);
        }
    }

    pub(super) fn next_opening_deadline(&self) -> Option<u64> {
        let makes_way = self.makes_way_at_ns();
        let ends = self.peers.opening_ends.borrow().next();
        ends.into_iter().chain(makes_way).min()
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ns() / 1_000_000
    }

    /// Has a descriptor of the application wake the node.
    pub(crate) fn watch_descriptor(
        self: &Rc<Self>,
        descriptor: impl AsFd,
    ) -> std::io::Result<Descriptor> {
        let id = self.events.next_descriptor.get();
        self.events.next_descriptor.set(id + 1);
        let descriptor = descriptor.as_fd().try_clone_to_owned()?;
        // A descriptor that nobody reads any more must not keep the node awake.
        self.events.reactor.add_once(&descriptor, Source::Application(id))?;
        self.events.applications.borrow_mut().insert(id, None);
        Ok(Descriptor { node: Rc::clone(self), descriptor, id })
    }
}

/// A descriptor of the application that wakes the node as long as this value lives.
pub(crate) struct Descriptor {
    node: Rc<Dispatcher>,
    descriptor: OwnedFd,
    id: u32,
}

impl Descriptor {
    /// Sets the waker for the time when the descriptor is readable.
    pub(crate) fn wake_by(&self, waker: &Waker) {
        let (events, waker) = (&self.node.events, Some(waker.clone()));
        let was = events.applications.borrow_mut().insert(self.id, waker);
        if matches!(was, Some(None)) {
            events.reactor.rearm(&self.descriptor, Source::Application(self.id), false);
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // A forked child has the epoll of its parent.
        if self.node.is_here() {
            self.node.events.reactor.remove(&self.descriptor);
        }
        let waker = self.node.events.applications.borrow_mut().remove(&self.id);
        drop(waker);
    }
}

/// A node that takes over the last messages of a lost session: replies, and one-way messages.
#[derive(Clone, Copy)]
struct LastWords<'s>(&'s Rc<Dispatcher>, &'s Rc<Session>);

impl<'s> Driver<'s> for LastWords<'s> {
    fn session(self) -> &'s Session {
        self.1
    }

    fn run(self, words: &[u64; 3]) {
        if words[1] == CallNumber::NONE.as_u64() {
            self.0.call(self.1, words);
        }
    }

    fn request(self, head: &Head) -> Result<(), Fault> {
        match head.kind {
            Kind::Oneway => self.0.request(self.1, head),
            _ => Ok(()),
        }
    }

    /// The task will find its reply in the session.
    fn poll_task(self, task: TaskId) {
        self.0.roster().push(task);
    }

    fn sampled(self, words: &[u64; 3], _: StampMode, main: Main<'_>) -> Result<(), Fault> {
        let head = Head::parse(Head::unstamped(words).0).map_err(misbehaved)?;
        match head.kind {
            Kind::Reply | Kind::Failed => answer(self, &head, main, || ())?,
            _ => self.request(&head)?,
        }
        self.1.advance();
        Ok(())
    }

    fn stamps(self, _: &Head) -> Result<(), Fault> {
        Ok(())
    }

    fn now_ns(self) -> u64 {
        self.0.now_ns()
    }
}
