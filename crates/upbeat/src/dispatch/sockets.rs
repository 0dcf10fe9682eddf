//! What comes over sockets: rings, ends, handshakes; and descriptors of the application.

use super::{
    Dispatcher,
    sessions::{Door, Place},
};
use crate::driver::{Driver, Main, answer, take_frames};
use crate::error::Why;
use crate::reactor::{Reactor, Source};
use crate::session::{Fault, Session, misbehaved};
use crate::timer::Timers;
use crate::wake::{MAIN, TaskId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::task::Waker;
use upbeat_core::bill::way::Manner;
use upbeat_core::frame::{CallNumber, Head, Kind};
use upbeat_core::hello::RefusalCode;
use upbeat_core::limits::{
    HANDSHAKE_SILENCE_MS_MAX, HELLO_MS_MAX, PENDING_HANDSHAKES_MAX, RING_SLOTS_MAX,
    SESSIONS_PER_NODE_MAX,
};
use upbeat_memory::pool::Key;
use upbeat_transport::error::OpenError;
use upbeat_transport::home::Home;
use upbeat_transport::opening::{Opening, Silence};

/// The events that wake a node: descriptors and times.
pub(crate) struct Events {
    pub(super) reactor: Reactor,
    pub(crate) timers: RefCell<Timers>,
    pub(super) sources: Cell<Vec<Source>>,
    /// Descriptors of the application, by number, and who waits for them.
    applications: RefCell<BTreeMap<u32, Waker>>,
    next_descriptor: Cell<u32>,
}

impl Events {
    /// Makes the events of a node that waits for what the reactor does, and for no time.
    pub(super) fn new(reactor: Reactor) -> Events {
        let (timers, sources, applications) =
            (RefCell::default(), Cell::default(), RefCell::default());
        Events { reactor, timers, sources, applications, next_descriptor: Cell::new(0) }
    }
}

impl Dispatcher {
    /// Attends to the sockets that have something. Gives whether any has but the roster, which a
    /// turn looks at by itself.
    pub(super) fn attend(self: &Rc<Self>, mut sources: Vec<Source>) -> bool {
        let any = sources.iter().any(|source| *source != Source::Roster);
        for source in sources.drain(..) {
            match source {
                Source::Roster => {}
                Source::Alarm => self.events.reactor.hush(),
                Source::Place(key) => match self.session(key) {
                    Some(session) if session.carrier.was_pumped() => self.heat(&session),
                    Some(session) => self.hear(&session),
                    None => self.step(key),
                },
                Source::Process(pid) => self.process_ended(pid),
                Source::SharedArrivals => self.shared_arrivals(),
                Source::LocalArrivals => self.arrivals(|door, home, place, now| {
                    door.local.as_ref()?.accept(home, place, now).transpose()
                }),
                Source::Application(id) => {
                    let waker = self.events.applications.borrow_mut().remove(&id);
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }
            }
        }
        self.events.sources.set(sources);
        if self.peers.openings.get() != 0 {
            self.check_openings();
        }
        if self.peers.door.borrow().crowded {
            self.make_way();
        }
        any
    }

    pub(super) fn hear(self: &Rc<Self>, session: &Rc<Session>) {
        match session.hear() {
            Ok(()) => self.heat(session),
            Err(why) => self.lose_after_last_words(session, *why),
        }
    }

    /// What the peer wrote before it ended is taken over first: answers, and one-way messages. Its
    /// calls have nobody left to answer.
    fn lose_after_last_words(self: &Rc<Self>, session: &Rc<Session>, why: Why) {
        let mut why = why;
        session.carrier.take_rest();
        for kept in session.forget_kept(self.flow.purse.requests()) {
            if !kept.head.kind.is_answered() {
                self.run_kept(session, &kept);
            }
        }
        // A peer that is not gone may go on writing behind the end of its socket.
        let mut left = RING_SLOTS_MAX;
        while left > 0 {
            let roster = self.roster();
            let taken = take_frames(LastWords(self, session), &mut |_| roster.push(MAIN));
            match taken {
                Ok(frames) if frames > 0 => left = left.saturating_sub(frames as usize),
                _ => break,
            }
        }
        if session.ending.goodbye.get() && why == Why::Died {
            why = Why::Closed;
        }
        self.lose(session, why);
    }

    fn process_ended(self: &Rc<Self>, pid: u32) {
        for session in self.sessions() {
            if session.carrier.peer.pid == Some(pid) {
                self.lose_after_last_words(&session, Why::Died);
            }
        }
    }

    /// Takes in who has come from other processes, as long as handshakes end or give way.
    fn shared_arrivals(self: &Rc<Self>) {
        self.arrivals(|door, home, place, now| {
            door.shared.as_ref()?.accept(home, place, now).transpose()
        });
        if self.is_full() {
            self.crowd(true);
            self.make_way();
        }
    }

    /// Whether as many handshakes of others are under way as may be.
    fn is_full(&self) -> bool {
        let door = self.peers.door.borrow();
        door.shared.as_ref().is_some_and(|listener| listener.pending() >= PENDING_HANDSHAKES_MAX)
    }

    /// Others wait outside: has the handshakes give way whose peers are silent for too long, the longest
    /// first that have never said anything, and lets the next in.
    fn make_way(self: &Rc<Self>) {
        let now = self.now_ms();
        if self.is_full()
            && let Some((at, key)) = self.next_to_give_way()
            && at <= now
        {
            let place = self.peers.places.borrow_mut().remove(key);
            if let Some(Place::Opening(pending)) = place {
                self.peers.openings.set(self.peers.openings.get() - 1);
                let text = format!(
                    "{PENDING_HANDSHAKES_MAX} connections are being opened here, and this one has \
                     said nothing for {} ms",
                    now.saturating_sub(pending.opening.silence().since_ms)
                );
                pending.opening.refuse(RefusalCode::TooSlow, &text);
            }
        }
        if !self.is_full() {
            self.crowd(false);
        }
    }

    /// The handshake of a caller that gives way next, and when: one that has said nothing before any
    /// that has.
    fn next_to_give_way(&self) -> Option<(u64, Key)> {
        let places = self.peers.places.borrow();
        let silent = places.iter().filter_map(|(key, place)| match place {
            Place::Opening(pending) if pending.connecting.is_none() => {
                let Silence { since_ms, spoke } = pending.opening.silence();
                let most = if spoke { HANDSHAKE_SILENCE_MS_MAX } else { HELLO_MS_MAX };
                Some((spoke, since_ms.saturating_add(most), key))
            }
            _ => None,
        });
        silent.min_by_key(|(spoke, at, _)| (*spoke, *at)).map(|(_, at, key)| (at, key))
    }

    /// Takes in who has come to the door.
    fn arrivals(
        self: &Rc<Self>,
        accept: impl Fn(&Door, &Home, usize, u64) -> Option<Result<Opening, OpenError>>,
    ) {
        for _ in 0..PENDING_HANDSHAKES_MAX {
            let place = self.next_place();
            // Without a place here a caller is let in only to be told so.
            let number = *place.as_ref().unwrap_or(&0);
            let accepted = accept(&self.peers.door.borrow(), &self.home, number, self.now_ms());
            match accepted {
                Some(Ok(opening)) if place.is_err() => {
                    let text = format!("{SESSIONS_PER_NODE_MAX} sessions are the most of a node");
                    opening.refuse(RefusalCode::TooManySessions, &text);
                }
                // An opening that fails tells its peer, and concerns nobody else.
                Some(Ok(opening)) => drop(self.begin(opening, None)),
                Some(Err(OpenError::Descriptors { .. })) | None => return,
                Some(Err(_)) => {}
            }
        }
    }

    /// Ends handshakes whose time is over.
    fn check_openings(self: &Rc<Self>) {
        let now = self.now_ms();
        let late: Vec<Key> = {
            let places = self.peers.places.borrow();
            let late = places.iter().filter_map(|(key, place)| match place {
                Place::Opening(pending) if pending.opening.deadline_ms() <= now => Some(key),
                _ => None,
            });
            late.collect()
        };
        for key in late {
            self.step(key);
        }
    }

    pub(super) fn next_opening_deadline(&self) -> Option<u64> {
        if self.peers.openings.get() == 0 {
            return None;
        }
        let give_way = || self.next_to_give_way().map(|(at, _)| at.saturating_mul(1_000_000));
        let give_way = self.peers.door.borrow().crowded.then(give_way).flatten();
        let places = self.peers.places.borrow();
        let deadlines = places.iter().filter_map(|(_, place)| match place {
            Place::Opening(pending) => Some(pending.opening.deadline_ms() * 1_000_000),
            Place::Open(_) => None,
        });
        deadlines.chain(give_way).min()
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ns() / 1_000_000
    }

    /// Has a descriptor of the application's wake the node.
    pub(crate) fn watch_descriptor(
        self: &Rc<Self>,
        descriptor: impl AsFd,
    ) -> std::io::Result<Descriptor> {
        let id = self.events.next_descriptor.get();
        self.events.next_descriptor.set(id + 1);
        let descriptor = descriptor.as_fd().try_clone_to_owned()?;
        self.events.reactor.add(&descriptor, Source::Application(id))?;
        Ok(Descriptor { node: Rc::clone(self), descriptor, id })
    }
}

/// A descriptor of the application's that wakes the node while this stands.
pub(crate) struct Descriptor {
    node: Rc<Dispatcher>,
    descriptor: OwnedFd,
    id: u32,
}

impl Descriptor {
    /// Wakes this one when there is something to read.
    pub(crate) fn wake_by(&self, waker: &Waker) {
        self.node.events.applications.borrow_mut().insert(self.id, waker.clone());
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.node.events.reactor.remove(&self.descriptor);
        self.node.events.applications.borrow_mut().remove(&self.id);
    }
}

/// A node that takes over what a lost session still brings: replies, and one-way messages.
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

    /// The task finds its reply kept.
    fn poll_task(self, task: TaskId) {
        self.0.roster().push(task);
    }

    fn sampled(self, words: &[u64; 3], _: Manner, main: Main<'_>) -> Result<(), Fault> {
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
