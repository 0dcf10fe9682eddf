//! A page of samples: where the time of a node's messages went, for observers of the process.
//!
//! Observers read the page as they read the counters: the node writes the page and does nothing more for them. The
//! page holds the last [`RECORDS`] records, and a table of texts, the subjects, to which records refer by number.
//! Other modules define the meaning of subjects, kinds, flags and stamps.
//!
//! ```text
//! header 32 words | subjects entered, 8 | subjects of 32 each | records of 40 each, see `recent`
//! ```
//!
//! Invariant: a view exists only of a segment that is sealed, complete and of this version. Whatever its owner
//! writes later, a view returns none or other values, and from a correct owner only records that were written.

use crate::observe::{HEADER, Header, Kind, ObserveError};
use crate::recent::{self, RecentReader, Recorder};
use crate::region::{Region, WORD};
use crate::segment::{Segment, SegmentError, Writers};
use crate::sync::{Ordering, fence};
use crate::text;
use crate::ticks::ticks_per_second;
use std::cell::Cell;

/// The label by which an observer finds the segment among the descriptors of a process.
pub const LABEL: &str = "upbeat-samples";

/// The number of stamps of a record.
pub const STAMPS_MAX: usize = 36;

/// The largest doubt that a record can hold.
pub const DOUBT_MAX: u64 = u64::MAX >> 16;

/// The number of records that a page keeps.
pub const RECORDS: usize = 2048;

/// The number of subjects for which a page has room.
pub const SUBJECTS_MAX: usize = 256;

/// The largest number of bytes of a subject's text; longer texts are cut.
pub const SUBJECT_BYTES_MAX: usize = text::bytes_max(SUBJECT_WORDS);

/// The words of a record without its sequence word.
const WORDS: usize = STAMPS_AT + STAMPS_MAX;
const WHAT_AT: usize = 0;
const NOTE_AT: usize = 1;
const PEER_AT: usize = 2;
const STAMPS_AT: usize = 3;

/// The words of a subject: its length and its text.
const SUBJECT_WORDS: usize = 32;

/// The number of subjects entered, in a line of its own.
const ENTERED_AT: usize = HEADER;
const SUBJECTS_AT: usize = ENTERED_AT + 8;

const KIND: Kind = Kind {
    label: LABEL,
    magic: u64::from_le_bytes(*b"upbeat#s"),
    version: 3,
    words_max: words_of(FULL),
};

const _: () = assert!(WORDS + 1 == 40 && SUBJECTS_MAX <= u16::MAX as usize);

/// The numbers of records and subjects of a page.
#[derive(Clone, Copy)]
struct Shape {
    records: usize,
    subjects: usize,
}

const FULL: Shape = Shape { records: RECORDS, subjects: SUBJECTS_MAX };

const fn records_at(shape: Shape) -> usize {
    SUBJECTS_AT + shape.subjects * SUBJECT_WORDS
}

const fn words_of(shape: Shape) -> usize {
    records_at(shape) + recent::words_of(shape.records, WORDS)
}

/// One sample: where the time of one message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The subject of the message.
    pub subject: u16,
    /// The kind of the message.
    pub kind: u8,
    /// How the message was executed.
    pub rung: u8,
    /// Further flags of the message.
    pub flags: u32,
    /// Another subject, or 0.
    pub note: u16,
    /// The uncertainty, in ticks, of one side's stamps against those of the other; at most [`DOUBT_MAX`].
    pub doubt: u64,
    /// The incarnation of the node at the other end.
    pub peer: u64,
    /// The stamps, in the order that the kind defines.
    pub stamps: [u64; STAMPS_MAX],
}

impl Record {
    fn to_words(self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[WHAT_AT] = u64::from(self.subject)
            | u64::from(self.kind) << 16
            | u64::from(self.rung) << 24
            | u64::from(self.flags) << 32;
        words[NOTE_AT] = u64::from(self.note) | self.doubt.min(DOUBT_MAX) << 16;
        words[PEER_AT] = self.peer;
        words[STAMPS_AT..].copy_from_slice(&self.stamps);
        words
    }

    /// Converts words to a record; any words are a record.
    fn of_words(words: &[u64; WORDS]) -> Record {
        let what = words[WHAT_AT];
        Record {
            subject: what as u16,
            kind: (what >> 16) as u8,
            rung: (what >> 24) as u8,
            flags: (what >> 32) as u32,
            note: words[NOTE_AT] as u16,
            doubt: words[NOTE_AT] >> 16,
            peer: words[PEER_AT],
            stamps: std::array::from_fn(|i| words[STAMPS_AT + i]),
        }
    }
}

/// The writing side of one node's samples, which one thread owns.
///
/// ```
/// use upbeat_memory::samples::{Record, STAMPS_MAX, Samples};
///
/// let samples = Samples::heap("shop/1", 7);
/// let view = samples.view();
/// let subject = samples.subject("Shop::buy").unwrap();
/// let stamps = [0; STAMPS_MAX];
/// let (kind, rung, flags, note, doubt, peer) = (1, 0, 0, 0, 0, 8);
/// let record = Record { subject, kind, rung, flags, note, doubt, peer, stamps };
/// samples.write(&record);
/// assert_eq!(view.read(0), Some(record));
/// assert_eq!(view.subject(subject).as_deref(), Some("Shop::buy"));
/// ```
pub struct Samples {
    header: Header,
    page: Region,
    shape: Shape,
    /// The writer of the records, whose cell binds it to one thread.
    recorder: Recorder<WORDS>,
    entered: Cell<u16>,
    /// The segment with the descriptor that observers open, or none on the heap.
    segment: Option<Segment>,
}

impl Samples {
    /// Creates a page without records, in a segment that observers can find.
    pub fn create(node: &str, incarnation: u64) -> Result<Samples, SegmentError> {
        let segment = Segment::create(LABEL, words_of(FULL) * WORD, Writers::Owner)?.reserve()?;
        let page = segment.region().clone();
        Ok(Samples { segment: Some(segment), ..Samples::over(page, FULL, node, incarnation) })
    }

    /// Creates a page without records, on the heap, where only this process sees it.
    #[must_use]
    pub fn heap(node: &str, incarnation: u64) -> Samples {
        Samples::over(Region::heap(words_of(FULL)), FULL, node, incarnation)
    }

    fn over(page: Region, shape: Shape, node: &str, incarnation: u64) -> Samples {
        let own = [shape.records as u64, shape.subjects as u64, ticks_per_second()];
        let header = KIND.announce(&page, node, incarnation, own);
        let recorder = Recorder::new(records_of(&page, shape), shape.records);
        Samples { header, page, shape, recorder, entered: Cell::new(0), segment: None }
    }

    /// Enters a text and returns the number by which records refer to it, from 1. Entering a text twice gives two
    /// numbers. A text of more than [`SUBJECT_BYTES_MAX`] bytes is cut. Returns none when the table is full.
    pub fn subject(&self, text: &str) -> Option<u16> {
        let entered = self.entered.get();
        if usize::from(entered) >= self.shape.subjects {
            return None;
        }
        text::put(&self.page, subject_at(entered), SUBJECT_WORDS, text);
        self.entered.set(entered + 1);
        self.page.publish(ENTERED_AT, u64::from(entered + 1));
        Some(entered + 1)
    }

    /// Writes a record, over the oldest one once there are [`RECORDS`]. The method neither waits nor allocates.
    #[inline]
    pub fn write(&self, record: &Record) {
        self.recorder.write(&record.to_words());
    }

    /// Returns the number of records written so far.
    pub fn written(&self) -> u64 {
        self.recorder.written()
    }

    /// Returns the view of an observer, for other threads of this process.
    #[must_use]
    pub fn view(&self) -> SamplesView {
        SamplesView::over(self.header.clone(), &self.page.read_only(), self.shape)
    }

    /// Returns whether other processes can find these samples.
    pub fn is_shared(&self) -> bool {
        self.segment.is_some()
    }
}

fn subject_at(index: u16) -> usize {
    SUBJECTS_AT + usize::from(index) * SUBJECT_WORDS
}

fn records_of(page: &Region, shape: Shape) -> Region {
    page.part(records_at(shape), recent::words_of(shape.records, WORDS))
}

/// The reading side of a node's samples, whose content the owner controls.
#[derive(Clone)]
pub struct SamplesView {
    header: Header,
    page: Region,
    shape: Shape,
    recent: RecentReader<WORDS>,
}

impl SamplesView {
    /// Creates a view of the samples in a region that another process writes.
    pub fn new(page: &Region) -> Result<SamplesView, ObserveError> {
        let header = KIND.header(page)?;
        let [records, subjects, pace] = header.own;
        // The code that shows stamps divides by the rate.
        if pace == 0 {
            return Err(ObserveError::Pace);
        }
        let subjects = bounded(subjects, SUBJECTS_MAX)?;
        let shape = Shape { records: bounded(records, RECORDS)?, subjects };
        let before = words_of(Shape { records: 0, subjects });
        let room = page.words().saturating_sub(before) / (WORDS + 1);
        if !shape.records.is_power_of_two() || shape.records > room {
            return Err(ObserveError::Count { count: records, room: room.min(RECORDS) });
        }
        Ok(SamplesView::over(header, page, shape))
    }

    fn over(header: Header, page: &Region, shape: Shape) -> SamplesView {
        let recent = RecentReader::new(records_of(page, shape), shape.records);
        SamplesView { header, page: page.clone(), shape, recent }
    }

    /// Returns the name of the node.
    pub fn node(&self) -> String {
        self.header.node.to_string()
    }

    /// Returns the name of the node's program; empty if the page names none.
    pub fn program(&self) -> String {
        self.header.program.to_string()
    }

    /// Returns the process number as the process sees it, which in a container differs from the number outside.
    pub fn pid(&self) -> u64 {
        self.header.pid
    }

    /// Returns the incarnation of the node.
    pub fn incarnation(&self) -> u64 {
        self.header.incarnation
    }

    /// Returns the rate of the counter that the stamps use, which is never 0.
    pub fn ticks_per_second(&self) -> u64 {
        self.header.own[2]
    }

    /// Returns the number of records written so far, at most `u64::MAX / 2`. All records below it are complete or
    /// overwritten.
    pub fn written(&self) -> u64 {
        self.recent.written()
    }

    /// Returns the number of the oldest record that may still be there.
    pub fn oldest(&self) -> u64 {
        self.recent.oldest()
    }

    /// Returns the record of this number, from 0, or none when it is not yet written, is being written, or is
    /// overwritten. The method never waits for the writer.
    #[must_use]
    pub fn read(&self, number: u64) -> Option<Record> {
        self.recent.read(number).map(|words| Record::of_words(&words))
    }

    /// Returns the text of a subject, of at most [`SUBJECT_BYTES_MAX`] bytes before bytes that are no UTF-8 are
    /// replaced. Returns none when no such subject was entered, or its length is impossible.
    #[must_use]
    pub fn subject(&self, number: u16) -> Option<String> {
        let entered = self.page.load(ENTERED_AT).min(self.shape.subjects as u64);
        fence(Ordering::Acquire);
        let index = number.checked_sub(1).filter(|&index| u64::from(index) < entered)?;
        text::get(&self.page, subject_at(index), SUBJECT_WORDS).ok()
    }
}

fn bounded(count: u64, most: usize) -> Result<usize, ObserveError> {
    match usize::try_from(count) {
        Ok(count) if count <= most => Ok(count),
        _ => Err(ObserveError::Count { count, room: most }),
    }
}

/// Returns the samples of all nodes in a process, in the order of their descriptors. A process without a node that
/// takes samples has none, which is no error. A page that cannot be read is an error only if no other page can be
/// read.
pub fn observe(pid: u32) -> Result<Vec<SamplesView>, ObserveError> {
    KIND.find(pid, SamplesView::new)
}

#[cfg(test)]
mod tests;
