//! The pages into which samples are written, and which observers map: a page of a node, or of a handle's sessions.

use crate::sample::{Half, Names};
use crate::session::Session;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use upbeat_core::bill::collected::{CollectedSamples, Story};
use upbeat_core::bill::event::Event;
use upbeat_core::bill::timeline::{Timeline, steps};
use upbeat_core::bill::way::{MessageEvents, POINTS_MAX, SERVED, WAYS, Way};
use upbeat_environment::turns::Mutex;
use upbeat_environment::{is_observed, note_message};
use upbeat_memory::samples::{Record, STAMPS_MAX, SUBJECTS_MAX, Samples};
use upbeat_memory::ticks::{Ticks, ticks, ticks_per_second};
use upbeat_transport::carrier::{Carrier, Kind, Peer};
use upbeat_transport::local_node::is_client_name;

/// A page with a name, which the first sample makes.
pub(crate) struct Pages {
    name: String,
    /// Whether other processes may map the page.
    is_shared: bool,
    page: OnceCell<Option<Page>>,
}

impl Pages {
    pub(crate) fn new(name: String, is_shared: bool) -> Pages {
        Pages { name, is_shared, page: OnceCell::new() }
    }

    fn make(&self, incarnation: u64) -> Option<Page> {
        let samples = if self.is_shared {
            Samples::create(&self.name, incarnation).ok()?
        } else {
            Samples::heap(&self.name, incarnation)
        };
        Some(Page { samples, subjects: RefCell::default(), known: RefCell::default() })
    }

    /// Writes a sample into the page, which is made for this incarnation if it is missing. Returns false if it cannot
    /// be made.
    fn write(&self, ours: u64, from: Origin<'_>, half: &Half, written: Written<'_>) -> bool {
        if is_observed() {
            self.show(from, half, written);
            return true;
        }
        let Some(page) = self.page.get_or_init(|| self.make(ours)) else { return false };
        let (way, rung, of_way) = written;
        let mut stamps = [0; STAMPS_MAX];
        stamps[..POINTS_MAX].copy_from_slice(&of_way);
        let (sample, (service, method)) = (&half.sample, half.names);
        let lock = sample.lock.as_ref();
        page.samples.write(&Record {
            subject: page.subject(from, service, method),
            kind: way.number(),
            rung,
            flags: sample.taken.happened.0,
            note: lock.map_or(0, |lock| page.text(lock)),
            doubt: sample.taken.doubt,
            peer: from.peer.incarnation,
            stamps,
        });
        true
    }

    /// Shows a message to the world of the calling thread, as its caller or the receiver of a one-way message sees it.
    #[cold]
    #[inline(never)]
    fn show(&self, from: Origin<'_>, half: &Half, (way, rung, stamps): Written<'_>) {
        if way == SERVED {
            return;
        }
        let happened = half.sample.taken.happened;
        let (took, happened, steps) = match Event::from_byte(rung) {
            Some(Event::Ended(how)) => {
                (Ticks(stamps[1] - stamps[0]).nanoseconds() as f64, vec![how.name().into()], vec![])
            }
            _ => {
                let Some(story) = story_of(way, &stamps, happened) else { return };
                let happened = happened.words(half.sample.lock.as_deref());
                (story.total(), happened, steps(way, &story.phases))
            }
        };
        let (us, peer) = (self.name.lines().next().unwrap_or_default(), from.name());
        let (from, to) = if way.is_answered() { (us, peer) } else { (peer, us) };
        let (service, method) = half.names;
        let (title, from, to) = (format!("{service}.{method}"), from.into(), to.into());
        note_message(stamps[0], Timeline { title, from, to, took, happened, steps });
    }
}

/// Returns the story of one full sample, without the time of its stamps.
fn story_of(way: &Way, stamps: &[u64], happened: MessageEvents) -> Option<Story> {
    let mut collected = CollectedSamples::new(WAYS[usize::from(way.number())], ticks_per_second());
    let first = ticks();
    collected.pair(0, ticks() - first).ok()?;
    collected.story(stamps, happened, 0).ok()?;
    collected.stories().pop()
}

impl Pages {
    /// Writes an event of the owner itself into the page, if samples have made one: an event takes no memory and no
    /// descriptor that the node has not got. Counters count it anyway.
    fn write_own(&self, ours: u64, (service, method): Names, written: Written<'_>) {
        let Some(page) = self.page.get().and_then(Option::as_ref) else { return };
        let (way, rung, of_way) = written;
        let mut stamps = [0; STAMPS_MAX];
        stamps[..POINTS_MAX].copy_from_slice(&of_way);
        let subject = page.own_subject(service, method);
        let (kind, flags, note, doubt) = (way.number(), 0, 0, 0);
        page.samples.write(&Record { subject, kind, rung, flags, note, doubt, peer: ours, stamps });
    }
}

/// The stages of a message, the byte of its manner or of the event, and its stamps.
pub(super) type Written<'w> = (&'w Way, u8, [u64; POINTS_MAX]);

/// The destination of samples.
pub(crate) enum SampleSink {
    /// A page of a node's own.
    Own(Box<Pages>),
    /// A page that all sessions of a handle share.
    Shared(Arc<Mutex<Pages>>),
}

impl SampleSink {
    /// Writes a sample down. Returns false if there is no page for it.
    pub(super) fn write(
        &self,
        ours: u64,
        session: &Session,
        half: &Half,
        written: Written<'_>,
    ) -> bool {
        let Carrier { peer, kind, .. } = &session.carrier;
        match self {
            SampleSink::Own(pages) => {
                let opened = session.noted.opened_as.get().is_some();
                pages.write(ours, Origin { peer, kind: *kind, opened }, half, written)
            }
            SampleSink::Shared(pages) => {
                let pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
                pages.write(ours, Origin { peer, kind: *kind, opened: true }, half, written)
            }
        }
    }
}

impl SampleSink {
    /// Writes down an event of the owner itself.
    pub(super) fn write_own(&self, ours: u64, names: Names, written: Written<'_>) {
        match self {
            SampleSink::Own(pages) => pages.write_own(ours, names, written),
            SampleSink::Shared(pages) => {
                let pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
                pages.write_own(ours, names, written);
            }
        }
    }
}

/// A page of samples.
struct Page {
    samples: Samples,
    /// The numbers of texts.
    subjects: RefCell<HashMap<String, u16>>,
    /// The numbers of texts, by the parts of the texts.
    known: RefCell<HashMap<Parts, u16>>,
}

/// The parts of a text: a peer's incarnation, a service, a method, the carrier, the address.
type Parts = (u64, &'static str, &'static str, Kind, Option<SocketAddr>);

/// The session of a message.
#[derive(Clone, Copy)]
struct Origin<'p> {
    peer: &'p Peer,
    kind: Kind,
    /// Whether this side has opened the session: then the port is one at which the peer listens.
    opened: bool,
}

impl Origin<'_> {
    /// Returns the name under which the peer's messages are recorded.
    fn name(&self) -> &str {
        match &self.peer.name {
            None => "a handle",
            // Such clients come and go, and would fill the table.
            Some(name) if is_client_name(name) => "client/*",
            Some(name) => name.as_str(),
        }
    }

    /// Returns the peer's address, with its port if others can use it; empty on this host.
    fn address(&self) -> String {
        match self.peer.at {
            Some(at) if self.opened => at.to_string(),
            Some(at) => at.ip().to_string(),
            None => String::new(),
        }
    }
}

impl Page {
    /// Returns the number of the text under which a message is recorded.
    fn subject(&self, from: Origin<'_>, service: &'static str, method: &'static str) -> u16 {
        let mut known = self.known.borrow_mut();
        let Origin { peer, kind, .. } = from;
        let parts = (peer.incarnation, service, method, kind, peer.at);
        if let Some(number) = known.get(&parts) {
            return *number;
        }
        if known.len() >= 16 * SUBJECTS_MAX {
            // This bounds the memory when peers come and go.
            known.clear();
        }
        let name = from.name();
        let text = format!("{name}\n{service}\n{method}\n{kind}\n{}", from.address());
        let number = self.text(&text);
        known.insert(parts, number);
        number
    }

    /// Returns the number of the text under which an event of the owner itself is recorded. Only the first one of a
    /// method allocates memory.
    fn own_subject(&self, service: &'static str, method: &'static str) -> u16 {
        // No node has this incarnation; a node may call itself.
        let parts = (0, service, method, Kind::Local, None);
        let mut known = self.known.borrow_mut();
        *known.entry(parts).or_insert_with(|| self.text(&format!("\n{service}\n{method}")))
    }

    /// Returns the number of a text; 0 if there is no room for more.
    fn text(&self, text: &str) -> u16 {
        let mut subjects = self.subjects.borrow_mut();
        if let Some(number) = subjects.get(text) {
            return *number;
        }
        if subjects.len() >= SUBJECTS_MAX {
            return 0;
        }
        let number = self.samples.subject(text).unwrap_or(0);
        subjects.insert(text.to_owned(), number);
        number
    }
}
