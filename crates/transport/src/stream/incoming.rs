//! The incoming half of a stream: records of the peer, written into the replica of its lane.
//!
//! Frames are copied from a receive buffer once they are whole, because almost all are short. The bytes of buffers
//! and of long frames are received directly into their final place. Memory is allocated when the frame that names it
//! has come, takes pages only for bytes that came, and is bounded by the longest payload that the owner reads.
//! Invariant: a record that breaks a rule changes nothing, and no data behind it is looked at.

mod again;

mod held;

mod read;

mod slabs;

use super::clock::PeerClock;
use super::pipe::Pipe;
use crate::events::{Replica, Segment, SocketError};
use again::Ending;
use held::HeldMemory;
use read::Read;
pub(super) use slabs::PeerSlabs;
use std::collections::VecDeque;
use std::sync::Arc;
use upbeat_core::fault::Rule;
use upbeat_core::frame::{self, Kind};
use upbeat_core::hello::{self, Parsed, Record};
use upbeat_core::limits::{PENDING_SEGMENTS_MAX, TAKEN_BYTES_MAX};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::stream::{self, Granting, Head, Progress, SegmentRequest};
use upbeat_memory::lane::{GROWN_BYTES, Mirror, PublishedState};
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::ring::Refused;
use upbeat_memory::ticks::ticks;

/// The bytes that one read asks for, when a session begins and, as the maximum, when many frames come. Over plain TCP
/// the maximum also applies to long payloads: a payload of up to 64 KiB goes through the receive buffer, which stays
/// in the caches. One read brings all of it, and the system copies it faster than it would into the replica.
pub(super) const READ_BYTES: usize = 8 << 10;
const READ_BYTES_MAX: usize = 64 << 10;
/// The bytes that are read behind a payload that is received directly into the replica.
const READ_BEHIND_BYTES: usize = 2 << 10;
/// The most reads before other sessions have their turn.
const READS_MAX: usize = 16;
/// The fewest bytes of a buffer, or of a frame's payload, that are received directly into their final place.
const STRAIGHT_BYTES: usize = 4 << 10;

/// The data that one look has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pulled {
    /// None had come.
    Nothing,
    /// All that had come, or its end.
    All,
    /// As much as one look takes: more may wait.
    Part,
}

/// The state of the incoming half.
pub(super) struct Incoming {
    /// The receive buffer. The bytes from `start` to `end` have come and were not taken.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The bytes that the next read asks for.
    at_once: usize,
    /// The destination of the next bytes, if they belong to a buffer or a long frame.
    filling: Option<Filling>,
    /// The segments that no frame has named yet: their generations and sizes.
    segments: VecDeque<hello::Segment>,
    /// The segments that a frame has named, for the session to take.
    named: Vec<Segment>,
    slabs: PeerSlabs,
    /// The number of slabs announced so far.
    announced: u32,
    /// The number of segments in which the peer's lane has continued.
    grown: usize,
    /// The bytes of the longest payload that the owner reads.
    longest: usize,
    /// The memory that this side holds for the peer's slabs and for received bytes.
    taken: HeldMemory,
    /// Answers the peer's wishes for segments, and charges the granted ones.
    granting: Granting,
    heard: PeerReport,
    ending: Ending,
}

/// The peer's messages about progress.
#[derive(Clone, Copy, Default)]
pub(super) struct PeerReport {
    /// The peer has reported its progress.
    pub(super) shown: bool,
    /// The peer has asked for a report of ours.
    pub(super) asked: bool,
    /// The peer waits for room, by its last report.
    pub(super) waits: bool,
    /// The peer's answer to our wish for a segment.
    pub(super) permits: Option<bool>,
    /// This side's answer to the peer's wish for a segment, if the peer waits for it.
    pub(super) answer: Option<bool>,
}

/// A buffer, or a frame in the replica, whose bytes have not all arrived.
struct Filling {
    /// The frame that is written once the bytes have come: the words of its head, and the length of its payload.
    frame: Option<([u64; 3], usize)>,
    /// The destination, or None if nobody will read the bytes.
    region: Option<Region>,
    at: usize,
    left: usize,
}

impl Default for Incoming {
    fn default() -> Incoming {
        Incoming {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            at_once: READ_BYTES,
            filling: None,
            segments: VecDeque::new(),
            named: Vec::new(),
            slabs: PeerSlabs::default(),
            announced: 0,
            grown: 0,
            longest: TAKEN_BYTES_MAX,
            taken: HeldMemory::default(),
            granting: Granting::default(),
            heard: PeerReport::default(),
            ending: Ending::default(),
        }
    }
}

impl Incoming {
    pub(super) fn slabs(&self) -> &PeerSlabs {
        &self.slabs
    }

    /// Returns the peer's messages about progress since the last call.
    pub(super) fn heard(&mut self) -> PeerReport {
        let heard = PeerReport { answer: self.granting.answer(), ..self.heard };
        self.heard = PeerReport { waits: heard.waits, ..PeerReport::default() };
        heard
    }

    pub(super) fn read_at_most(&mut self, longest: usize) {
        self.longest = longest;
    }

    /// Frees a receive buffer longer than `keep`, after a quiet while.
    pub(super) fn shrink(&mut self, keep: usize) {
        if self.start == self.end && self.buffer.len() > keep {
            (self.buffer, self.taken.buffer) = (Vec::new(), None);
            self.at_once = READ_BYTES;
        }
    }

    /// Receives the data that has come, as much as a peer may have taken in one turn.
    pub(super) fn pull(
        &mut self,
        pipe: &Pipe,
        mirror: &Mirror,
        clock: &mut Option<PeerClock>,
    ) -> Pulled {
        let mut pulled = Pulled::Nothing;
        for _ in 0..READS_MAX {
            if self.has_ended() {
                return pulled;
            }
            let began = clock.is_some().then(ticks);
            match self.read(pipe) {
                Ok(Read::Nothing) => return pulled,
                Ok(Read::End) => self.ending.cut(None),
                Ok(Read::Came { all }) => {
                    let from = mirror.received();
                    if let Err(rule) = self.take(mirror, clock) {
                        self.ending.fail(SocketError::Rule(rule));
                    }
                    if let (Some(began), Some(clock)) = (began, &mut *clock)
                        && let Some(stamped) = &mut clock.stamped
                    {
                        let goes_on = self.filling.is_some();
                        stamped.readings.end(began, from..mirror.received(), goes_on);
                    }
                    if self.filling.is_some() {
                        // Under TLS the bytes lie in rustls's buffer, and another copy into this one costs more.
                        let plain = pipe.is_plain();
                        self.at_once = if plain { READ_BYTES_MAX } else { READ_BEHIND_BYTES };
                    } else if all {
                        self.at_once = READ_BYTES_MAX.min(2 * self.at_once);
                    }
                    if !all {
                        return Pulled::All;
                    }
                }
                Err(error) => self.ending.cut(Some(error)),
            }
            pulled = Pulled::All;
        }
        if self.has_ended() { Pulled::All } else { Pulled::Part }
    }

    /// Takes every record that is whole.
    fn take(&mut self, mirror: &Mirror, clock: &mut Option<PeerClock>) -> Result<(), Rule> {
        loop {
            self.fill(mirror)?;
            if self.filling.is_some() {
                return Ok(());
            }
            let bytes = &self.buffer[self.start..self.end];
            let (head, len) = match stream::parse(bytes)? {
                Parsed::NeedMore(_) => return Ok(()),
                Parsed::Complete(head, len) => (head, len),
            };
            match head {
                Head::Frame { words, payload } => {
                    if frame::Head::manner_in(&words).is_some()
                        && let Some(clock) = clock
                    {
                        clock.stamped().readings.sample_came();
                    }
                    let whole = len + payload as usize;
                    if bytes.len() < whole {
                        span_fits(words, mirror)?;
                        if !comes_in_parts(words, payload as usize)? {
                            return Ok(());
                        }
                        self.begin(words, payload as usize, mirror)?;
                        self.start += len;
                        continue;
                    }
                    self.frame(words, len, whole, mirror)?;
                    self.start += whole;
                    continue;
                }
                Head::Padding { span } => {
                    mirror.pad(span.into()).map_err(|refused| broken(refused, span.into()))?;
                }
                Head::Progress(progress) => {
                    progressed(&progress, mirror)?;
                    self.heard.shown = true;
                    self.heard.asked &= !mutated(Mutant::AskedForgotten);
                    self.heard.asked |= progress.asks;
                    self.heard.waits = progress.wants_room;
                    self.heard.permits = progress.answer.or(self.heard.permits);
                    if let Some(wish) = progress.wish {
                        self.wished(wish);
                    }
                }
                Head::Segment(segment) => self.announce(segment)?,
                Head::Buffer(chunk) => self.chunk(chunk)?,
                Head::Refusal { bytes: body } => {
                    let Some(record) = bytes.get(len..len + body as usize) else { return Ok(()) };
                    match Record::decode(record)? {
                        Record::Refusal(refusal) => self.ending.refuse(refusal),
                        other => {
                            let kind = other.kind().name();
                            return Err(Rule::RecordOutOfPlace { kind });
                        }
                    }
                    return Ok(());
                }
                Head::End => {
                    self.ending.close();
                    return Ok(());
                }
                Head::Clock { asks, stamps } => {
                    clock.iter_mut().for_each(|clock| clock.heard(asks, stamps));
                }
            }
            self.start += len;
        }
    }

    /// Begins a frame whose payload is received directly into the replica.
    fn begin(&mut self, words: [u64; 3], payload: usize, mirror: &Mirror) -> Result<(), Rule> {
        let span = span_in(words);
        let (region, at) = mirror.place(span).map_err(|refused| broken(refused, span))?;
        let frame = Some((words, payload));
        self.filling = Some(Filling { frame, region: Some(region), at, left: payload });
        Ok(())
    }

    /// Moves received bytes of a buffer, or of a long frame, to their final place.
    fn fill(&mut self, mirror: &Mirror) -> Result<(), Rule> {
        let Some(filling) = &mut self.filling else { return Ok(()) };
        let bytes = filling.left.min(self.end - self.start);
        if let Some(region) = &filling.region {
            region.write(filling.at, &self.buffer[self.start..self.start + bytes]);
        }
        self.start += bytes;
        filling.at += bytes;
        filling.left -= bytes;
        if filling.left != 0 {
            return Ok(());
        }
        if let Some(Filling { frame: Some((words, payload)), .. }) = self.filling.take() {
            let span = span_in(words);
            let claim = mirror.claim(span).map_err(|refused| broken(refused, span))?;
            claim.commit(words, payload);
        }
        Ok(())
    }

    /// Writes a frame into the replica, if the peer had credit for it.
    fn frame(
        &mut self,
        words: [u64; 3],
        head: usize,
        whole: usize,
        mirror: &Mirror,
    ) -> Result<(), Rule> {
        let payload = &self.buffer[self.start + head..self.start + whole];
        let span = span_in(words);
        let mut claim = mirror.claim(span).map_err(|refused| broken(refused, span))?;
        let shape = payload.first_chunk().map(|word| u64::from_le_bytes(*word));
        let bytes = payload.len();
        claim.write(0, payload);
        match Kind::from_byte((words[0] >> 8) as u8) {
            Some(Kind::Switch) => {
                let region = self.goes_on((words[1] >> 32) as u32)?;
                claim.commit(words, bytes);
                mirror.grow(region);
                return Ok(());
            }
            Some(Kind::Slab) => self.slab(words[1] as u32, shape.unwrap_or(0))?,
            Some(Kind::Retire) => self.retire(words[1] as u32),
            _ => {}
        }
        claim.commit(words, bytes);
        Ok(())
    }

    /// Stores a segment that a frame will name.
    fn announce(&mut self, segment: hello::Segment) -> Result<(), Rule> {
        let generation = segment.generation;
        if self.segments.len() >= PENDING_SEGMENTS_MAX {
            return Err(Rule::StraySegment { generation });
        }
        self.segments.push_back(segment);
        Ok(())
    }

    fn find(&mut self, generation: u32) -> Result<hello::Segment, Rule> {
        let at = self.segments.iter().position(|segment| segment.generation == generation);
        let segment = at.and_then(|at| self.segments.remove(at));
        segment.ok_or(Rule::SwitchWithoutSegment { generation })
    }

    /// Returns the segment of this generation, in which the peer's lane continues.
    fn goes_on(&mut self, generation: u32) -> Result<Region, Rule> {
        let hello::Segment { bytes, .. } = self.find(generation)?;
        let next = GROWN_BYTES.get(self.grown).copied();
        if generation as usize != self.grown + 1 || next != Some(bytes as usize) {
            return Err(Rule::StraySegment { generation });
        }
        let Ok(charge) = self.granting.announced(SegmentRequest::ring(bytes), bytes.into()) else {
            return Err(Rule::UngrantedRing { bytes });
        };
        self.grown += 1;
        let region = Region::heap(bytes as usize / WORD).keeping(charge);
        let replica = Arc::new(Replica::default());
        replica.supply(region.clone());
        self.named.push(Segment::heap(generation, bytes, &replica));
        Ok(region)
    }
}

fn span_in(words: [u64; 3]) -> u32 {
    (words[0] >> 16) as u32 & 0xffff
}

/// Returns whether an incomplete frame is received directly into the replica: a long frame that says nothing about
/// its lane. Other frames are short.
fn comes_in_parts(words: [u64; 3], payload: usize) -> Result<bool, Rule> {
    if payload < STRAIGHT_BYTES {
        return Ok(false);
    }
    match Kind::from_byte((words[0] >> 8) as u8) {
        Some(Kind::Switch | Kind::Slab | Kind::Retire) => {
            Err(Rule::LengthBeyondMax { len: payload as u32, max: WORD as u32 })
        }
        _ => Ok(true),
    }
}

/// Checks that an incomplete frame fits the ring at all.
fn span_fits(words: [u64; 3], mirror: &Mirror) -> Result<(), Rule> {
    let (span, slots) = (span_in(words), mirror.slots());
    if span > slots { Err(Rule::SpanBeyondRing { span, slots }) } else { Ok(()) }
}

#[cold]
fn broken(refused: Refused, span: u32) -> Rule {
    match refused {
        Refused::TooLong { span, most } => Rule::SpanBeyondRing { span, slots: most },
        Refused::Full | Refused::Claimed | Refused::Progress { .. } => Rule::BeyondCredit { span },
    }
}

/// Applies a report of the peer's progress.
fn progressed(progress: &Progress, mirror: &Mirror) -> Result<(), Rule> {
    let before = mirror.peer_shown();
    let taken = progress.taken.unwrap_or(before.taken);
    if taken < before.taken {
        return Err(Rule::CreditBackwards { seen: taken, before: before.taken });
    }
    if taken > mirror.shipped() {
        return Err(Rule::CreditAhead { seen: taken, out: mirror.shipped() });
    }
    for (slab, returned) in progress.returned() {
        mirror.give_back(slab, returned);
    }
    let accepted = progress.accepted.unwrap_or(before.accepted);
    // A peer that asks for a report counts as one that waits for room, until it was answered.
    let wants_room = progress.wants_room || progress.asks;
    mirror.show(PublishedState { taken, accepted, wants_room });
    Ok(())
}
