//! The pages that samples are written into, which observers map: a node's own, or one of a handle's sessions.

use crate::sample::Half;
use crate::session::Session;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use upbeat_core::bill::way::{POINTS_MAX, Way};
use upbeat_memory::samples::{Record, STAMPS_MAX, SUBJECTS_MAX, Samples};
use upbeat_transport::carrier::{Carrier, Kind, Peer};

/// A page under a name, which the first sample makes.
pub(crate) struct Pages {
    name: String,
    /// Whether other processes may map it.
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

    /// Writes a sample down, into the page that this incarnation makes if there is none. False if there is none
    /// then.
    fn write(&self, ours: u64, from: Origin<'_>, half: &Half, written: Written<'_>) -> bool {
        let Some(page) = self.page.get_or_init(|| self.make(ours)) else { return false };
        let (way, of_way) = written;
        let mut stamps = [0; STAMPS_MAX];
        stamps[..POINTS_MAX].copy_from_slice(&of_way);
        let (sample, (service, method)) = (&half.sample, half.names);
        let lock = sample.lock.as_ref();
        page.samples.write(&Record {
            subject: page.subject(from, service, method),
            kind: way.number(),
            rung: sample.manner.byte(),
            flags: sample.taken.happened.0,
            note: lock.map_or(0, |lock| page.text(lock)),
            doubt: sample.taken.doubt,
            peer: from.peer.incarnation,
            stamps,
        });
        true
    }
}

/// The way of a message, and its stamps.
pub(super) type Written<'w> = (&'w Way, [u64; POINTS_MAX]);

/// Where samples are written down.
pub(crate) enum Book {
    /// In a page of a node's own.
    Own(Box<Pages>),
    /// In a page that all sessions of a handle share.
    Shared(Arc<Mutex<Pages>>),
}

impl Book {
    /// Writes a sample down. False if there is no page for it.
    pub(super) fn write(
        &self,
        ours: u64,
        session: &Session,
        half: &Half,
        written: Written<'_>,
    ) -> bool {
        let Carrier { peer, kind, .. } = &session.carrier;
        match self {
            Book::Own(pages) => {
                let opened = session.noted.opened_as.get().is_some();
                pages.write(ours, Origin { peer, kind: *kind, opened }, half, written)
            }
            Book::Shared(pages) => {
                let pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
                pages.write(ours, Origin { peer, kind: *kind, opened: true }, half, written)
            }
        }
    }
}

/// Where samples are written.
struct Page {
    samples: Samples,
    /// The numbers of texts.
    subjects: RefCell<HashMap<String, u16>>,
    /// The same by what texts are made of.
    known: RefCell<HashMap<Parts, u16>>,
}

/// A peer's incarnation, a service, a method, the carrier, the address.
type Parts = (u64, &'static str, &'static str, Kind, Option<SocketAddr>);

/// The session of a message.
#[derive(Clone, Copy)]
struct Origin<'p> {
    peer: &'p Peer,
    kind: Kind,
    /// Whether this side has opened it: then the port is one at which the peer listens.
    opened: bool,
}

impl Origin<'_> {
    /// The peer's address, with its port where others can use that; empty on this host.
    fn address(&self) -> String {
        match self.peer.at {
            Some(at) if self.opened => at.to_string(),
            Some(at) => at.ip().to_string(),
            None => String::new(),
        }
    }
}

impl Page {
    /// The number of the text that a message is written down under.
    fn subject(&self, from: Origin<'_>, service: &'static str, method: &'static str) -> u16 {
        let mut known = self.known.borrow_mut();
        let Origin { peer, kind, .. } = from;
        let parts = (peer.incarnation, service, method, kind, peer.at);
        if let Some(number) = known.get(&parts) {
            return *number;
        }
        if known.len() >= 16 * SUBJECTS_MAX {
            // Peers that come and go.
            known.clear();
        }
        let name = peer.name.as_ref().map_or_else(|| "a handle".into(), ToString::to_string);
        let text = format!("{name}\n{service}\n{method}\n{kind}\n{}", from.address());
        let number = self.text(&text);
        known.insert(parts, number);
        number
    }

    /// The number of a text; 0 where there is no room for more.
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
