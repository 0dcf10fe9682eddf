//! The outgoing half of a stream: frames of our lane in their order, the bytes of the buffers that they name,
//! progress.
//!
//! A frame stays in our ring until the peer's count of slots has passed it; the encoded form is a copy. [`Backlog`]
//! decides which frames let others pass. The bytes of a buffer are sent from the buffer itself, because nobody writes
//! there before the peer gives it back. Invariant: at most twice [`STREAM_OUT_BYTES`] and one frame or chunk are
//! encoded and not sent.

mod unsent;

mod again;
mod bulk;

mod short;

use super::PushReason;
use super::clock::PeerClock;
use super::incoming::{PeerReport, PeerSlabs};
use super::pipe::Pipe;
use crate::transfers;
use bulk::{Frame, LentBuffer, OwnSlab};
use rustix::io::Errno;
use std::collections::VecDeque;
use unsent::Unsent;
use upbeat_core::frame::{Flags, Head, Kind, Placed};
use upbeat_core::hello::{Refusal, Segment};
use upbeat_core::limits::{HEAD_BYTES, OPTIMISM, SLABS_MAX, SLOT_BYTES, STREAM_OUT_BYTES};
use upbeat_core::stream::{
    self, Asking, Backlog, Ledger, Progress, SentHeader, ShipTime, StreamLoad, Words,
};
use upbeat_memory::lane::{Lanes, Mirror, NextItem, PublishedState};
use upbeat_memory::region::{Region, WORD};

/// The most rounds of sending before other sessions have their turn.
const ROUNDS_MAX: usize = 8;
/// A payload of this many bytes is sent from our ring: the copy of a shorter one costs less than another send.
const STRAIGHT_BYTES: usize = 16 << 10;
/// Progress is due when this part of the peer's ring was read; half of that goes along with frames.
const RING_PART: u64 = 4;
/// Progress is also due when this many requests were accepted.
const ACCEPTED_UNSHOWN_MAX: u64 = OPTIMISM as u64 / 4;
/// Progress is also due when this part of a slab's buffers was given back.
const SLAB_PART: u32 = 4;

/// The state of the outgoing half.
#[derive(Default)]
pub(super) struct Outgoing {
    /// The encoded records and the payloads that were not sent yet.
    unsent: Unsent,
    /// The buffer that the next frame names, with the number of its bytes that were encoded.
    lent: Option<LentBuffer>,
    /// The frames that let others pass.
    backlog: Backlog<Frame>,
    /// The result of the last push.
    pushed: Pushed,
    /// Whether the end of the session is encoded, behind which nothing follows.
    ended: bool,
    /// The progress that the peer was told.
    told: SentHeader,
    /// Our segments that no frame has named yet; without their memory if it is no longer needed.
    segments: VecDeque<(Segment, Option<Region>)>,
    /// The segments that frames have named and the peer may not have received.
    ledger: Ledger<Option<Region>>,
    /// Our slabs, by their numbers.
    slabs: Vec<Option<OwnSlab>>,
    /// The segments that we ask the peer to permit.
    asking: Asking,
    /// Whether our side found no room, and has not asked since the peer last reported its room.
    asks: bool,
    asked: bool,
    /// The answers that the peer waits for, and whether it waits for room.
    owes: PendingAnswers,
    peer_waits: bool,
}

/// The result of a push.
#[derive(Clone, Copy, Default)]
struct Pushed {
    /// The pipe has not taken all bytes.
    busy: bool,
    /// The push ended before everything was encoded, though the pipe would have taken more.
    goes_on: bool,
    /// The peer is gone.
    broken: bool,
}

/// The answers that the peer waits for.
#[derive(Default)]
struct PendingAnswers {
    /// A report of our progress.
    progress: bool,
    /// Whether its wish for a segment is granted.
    answer: Option<bool>,
}

impl Outgoing {
    /// Asks the peer to report its room, because our side found none.
    pub(super) fn ask(&mut self) {
        self.asks = true;
    }

    /// Takes the progress that the peer has reported or asked for.
    pub(super) fn heard(&mut self, heard: PeerReport) {
        self.asked &= !heard.shown;
        self.owes.progress |= heard.asked;
        self.peer_waits = heard.waits;
        self.owes.answer = heard.answer.or(self.owes.answer);
        heard.permits.into_iter().for_each(|granted| self.asking.answered(granted));
    }

    /// Returns the segments that our side asks the peer to permit.
    pub(super) fn asking(&mut self) -> &mut Asking {
        &mut self.asking
    }

    /// Returns whether bytes wait until the pipe takes them, or frames wait to be encoded, which the pipe may take at
    /// once.
    pub(super) fn has_output(&self) -> bool {
        !self.pushed.broken && (!self.unsent.is_empty() || self.pushed.goes_on)
    }

    /// Returns whether frames wait outside of our lane, until the bytes before them have gone and there is room.
    pub(super) fn defers(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Frees the memory of sent records after a quiet while.
    pub(super) fn shrink(&mut self) {
        if self.unsent.is_empty() {
            self.unsent = Unsent::default();
        }
    }

    /// Encodes the reason why the session ends. Nothing is encoded if a chunk is under way, which can not be
    /// completed.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        if self.unsent.bulks() == 0 {
            stream::write_refusal(refusal, &mut self.unsent.encoded);
        }
    }

    /// Announces the end of the session after the encoded records, if the pipe takes that.
    pub(super) fn end(&mut self, pipe: &Pipe) {
        if !self.pushed.broken && self.write_end() {
            // A peer that cannot be told sees the end of the connection.
            let _ = pipe.send_parts(self.unsent.parts().as_slice(), None);
        }
    }

    /// Encodes the end of the session behind everything that is encoded, once. Returns false if a chunk is under way,
    /// or the end was encoded before.
    pub(super) fn write_end(&mut self) -> bool {
        let writes = !self.ended && self.unsent.bulks() == 0;
        if writes {
            stream::write_end(&mut self.unsent.encoded);
            self.ended = true;
        }
        writes
    }

    /// Returns whether the end of the session is encoded.
    pub(super) fn has_written_end(&self) -> bool {
        self.ended
    }

    /// Returns whether sending has found the connection broken.
    pub(super) fn is_broken(&self) -> bool {
        self.pushed.broken
    }

    /// Encodes and sends, as far as the pipe takes it. Returns false if the peer is gone.
    pub(super) fn push(
        &mut self,
        pipe: &Pipe,
        (mirror, lanes): (&Mirror, &Lanes),
        slabs: &PeerSlabs,
        clock: &mut Option<PeerClock>,
        why: PushReason,
    ) -> bool {
        self.pushed.goes_on = false;
        pipe.flush();
        for _ in 0..ROUNDS_MAX {
            if self.pushed.broken {
                return false;
            }
            if self.unsent.takes_more() {
                self.unsent.make_room();
                self.encode((mirror, lanes), slabs, clock, why);
                if self.unsent.is_empty() {
                    self.pushed.busy = false;
                    return true;
                }
            }
            let whole = self.unsent.bytes();
            let parts = self.unsent.parts();
            let stamped = clock.as_ref().and_then(|clock| clock.stamped.as_ref());
            let mut write = stamped.and_then(|stamped| stamped.writings.begin());
            let encrypting = write.as_mut().map(|write| &mut write.encrypting);
            let sent = pipe.send_parts(parts.as_slice(), encrypting);
            if let (Some(write), Some(clock)) = (&write, &mut *clock) {
                let (has_all_gone, shipped) = (sent == Ok(whole), mirror.shipped());
                let is_deferred = |until| self.backlog.is_deferred(until);
                clock
                    .stamped()
                    .writings
                    .end(write, |until| has_all_gone && until <= shipped && !is_deferred(until));
            }
            match sent {
                Ok(bytes) => {
                    transfers::moved(bytes);
                    self.unsent.went(bytes);
                    if bytes < whole {
                        self.pushed.busy = true;
                        return true;
                    }
                }
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {
                    self.pushed.busy = true;
                    return true;
                }
                // Data that the peer has sent before is read first, and then the end.
                Err(_) => self.pushed.broken = true,
            }
        }
        self.pushed.goes_on = true;
        true
    }

    /// Encodes the next records, as many as are sent at once.
    fn encode(
        &mut self,
        (mirror, lanes): (&Mirror, &Lanes),
        slabs: &PeerSlabs,
        clock: &mut Option<PeerClock>,
        why: PushReason,
    ) {
        if self.ended {
            return;
        }
        let frames = mirror.has_more();
        if let Some(progress) = self.progress(mirror, slabs, why, frames) {
            progress.write(&mut self.unsent.encoded);
        }
        if let Some(clock) = clock.as_mut().filter(|clock| clock.is_due())
            && (frames || !self.unsent.encoded.is_empty())
        {
            clock.write(&mut self.unsent.encoded);
        }
        loop {
            let bulks = self.unsent.bulks();
            self.frames(mirror, lanes);
            if self.unsent.bulks() == bulks {
                self.deferred_chunk();
            }
            // Frames behind a payload are sent in the same system call.
            if self.unsent.bulks() == bulks || self.unsent.is_full() {
                return;
            }
        }
    }

    /// Encodes frames, up to the bytes of a buffer.
    fn frames(&mut self, mirror: &Mirror, lanes: &Lanes) {
        let bulks = self.unsent.bulks();
        while self.unsent.encoded.len() < STREAM_OUT_BYTES {
            if self.chunk() {
                return;
            }
            self.short_frames(mirror);
            match mirror.look() {
                Ok(NextItem::Nothing) if self.write_again(lanes) => {}
                Ok(NextItem::Nothing) => return,
                Ok(NextItem::Padding(span)) => {
                    stream::write_padding(span as u16, &mut self.unsent.encoded)
                }
                Ok(NextItem::Frame(words)) => {
                    if self.lent.is_none() {
                        let placed = placed(&words, mirror);
                        match self.turn(words, placed, mirror) {
                            ShipTime::Now => {
                                if let Some(placed) = placed {
                                    self.lent = Some(LentBuffer { placed, done: 0 });
                                    continue;
                                }
                            }
                            ShipTime::Bare => {}
                            ShipTime::Later => {
                                self.defer(words, placed, mirror);
                                continue;
                            }
                            ShipTime::Blocked if self.write_again(lanes) => continue,
                            ShipTime::Blocked => return,
                        }
                    }
                    self.lent = None;
                    self.frame(words, mirror);
                    if self.unsent.bulks() != bulks {
                        return;
                    }
                }
                // The ring is our own, and its writer keeps the rules.
                Err(fault) => {
                    debug_assert!(false, "our own lane: {fault}");
                    self.pushed.broken = true;
                    return;
                }
            }
        }
    }

    /// Returns when the next frame is sent.
    #[inline]
    fn turn(&mut self, words: [u64; 3], placed: Option<Placed>, mirror: &Mirror) -> ShipTime {
        let (position, busy) = (mirror.shipped(), self.pushed.busy);
        let load = || StreamLoad { busy, all_read: mirror.peer_shown().taken == position };
        self.backlog.turn(position, words, placed, load)
    }

    /// Encodes a frame, and passes it.
    fn frame(&mut self, words: [u64; 3], mirror: &Mirror) {
        let mut goes_on = None;
        match Head::kind_in(&words) {
            Some(Kind::Switch) => {
                goes_on = self.named((words[1] >> 32) as u32, mirror);
            }
            Some(Kind::Slab) => {
                let number = words[1] as u32 as usize;
                let each = mirror.read_word(0) as u32 as usize;
                let generation = self.ledger.next_slab();
                let region = self.named(generation, mirror);
                if number < SLABS_MAX {
                    let most = self.slabs.len().max(number + 1);
                    self.slabs.resize_with(most, || None);
                    self.slabs[number] = region.map(|region| OwnSlab { region, each, generation });
                }
            }
            Some(Kind::Retire) => self.retired(words[1] as u32 as usize),
            _ => {}
        }
        self.whole(words, mirror);
        mirror.pass();
        if let Some(region) = goes_on {
            mirror.ship_from(region);
        }
    }

    /// Encodes the head and the payload of a frame. A long payload is sent from the ring, behind the head.
    #[inline]
    fn whole(&mut self, words: [u64; 3], mirror: &Mirror) {
        let payload = (stream::payload_of(&words) as usize).min(mirror.room());
        let head = stream::frame_head(words);
        if HEAD_BYTES + payload <= SLOT_BYTES {
            let mut frame = [0; SLOT_BYTES];
            frame[..HEAD_BYTES].copy_from_slice(&head);
            mirror.read(0, &mut frame[HEAD_BYTES..HEAD_BYTES + payload]);
            self.unsent.encoded.extend_from_slice(&frame[..HEAD_BYTES + payload]);
            return;
        }
        self.unsent.encoded.extend_from_slice(&head);
        if payload >= STRAIGHT_BYTES {
            let (region, at) = mirror.payload();
            self.unsent.bulk(region, at, payload);
            return;
        }
        let from = self.unsent.encoded.len();
        self.unsent.encoded.resize(from + payload, 0);
        mirror.read(0, &mut self.unsent.encoded[from..]);
    }

    /// Returns the progress that the peer is told now, if it is due.
    fn progress(
        &mut self,
        mirror: &Mirror,
        slabs: &PeerSlabs,
        why: PushReason,
        frames: bool,
    ) -> Option<Progress> {
        let PublishedState { taken, accepted, wants_room } = mirror.shown();
        let (now, peer) = (Words { taken, accepted, wants_room }, mirror.peer_shown());
        self.ledger.acknowledged(peer.taken);
        let (before, peer_waits) = (self.told.words(), peer.wants_room);
        let read = now.taken.wrapping_sub(before.taken);
        let accepted = now.accepted.wrapping_sub(before.accepted);
        let part = u64::from(mirror.slots()) / RING_PART;
        let asks = self.asks && !self.asked;
        // A segment that was granted before is announced first.
        let wishes = self.asking.is_due() && self.segments.is_empty();
        // A peer that waits for room would send little at a time if it were told of little at a time.
        let has_read_all = why != PushReason::Turn || now.taken == mirror.received();
        let waits = self.owes.progress || peer_waits && (read != 0 || accepted != 0);
        let mut due = now.wants_room != before.wants_room
            || self.told.is_stale()
            || asks
            || wishes
            || self.owes.answer.is_some()
            || waits && has_read_all
            || read >= if frames { part / 2 } else { part }
            || accepted >= ACCEPTED_UNSHOWN_MAX;
        let mut back = 0u32;
        for (number, buffers) in slabs.buffers() {
            let returned = mirror.returned(number) ^ self.told.returned(number);
            if returned != 0 {
                back |= 1 << number;
                due |= peer_waits
                    || why == PushReason::Rest
                    || returned.count_ones() * SLAB_PART >= buffers;
            }
        }
        if !due {
            return None;
        }
        let mut progress = self.told.show(now, back, |slab| mirror.returned(slab));
        progress.asks = asks;
        progress.wish = if wishes { self.asking.show() } else { None };
        progress.answer = self.owes.answer.take();
        self.asked |= asks;
        self.asks = false;
        if std::mem::take(&mut self.owes.progress) {
            mirror.show(PublishedState { wants_room: self.peer_waits, ..peer });
        }
        Some(progress)
    }
}

/// Returns the location of a frame's payload if that lies in a buffer.
fn placed(words: &[u64; 3], mirror: &Mirror) -> Option<Placed> {
    // Almost all frames have neither flags nor a buffer.
    if words[2] >> 16 == 0 {
        return None;
    }
    let at = Head::parse(*words).ok()?.flags.offset_of(Flags::PLACED)?;
    let has_word = at as usize + WORD <= mirror.room();
    has_word.then(|| Placed::from_u64(mirror.read_word(at as usize)))
}
