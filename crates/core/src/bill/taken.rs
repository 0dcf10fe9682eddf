//! The stamps of one message, and their combination into a sample.
//!
//! Each side stamps its own points. One side then sends its stamps to the side that bills the message: the caller
//! of a call, or the receiver of a one-way message. The stamps of a peer may be lies. The stamps of another host
//! are translated into our ticks when they arrive, with an uncertainty in ticks, the doubt. Invariant: a finished
//! sample never goes backwards, and no stamp of the peer is later than a later stamp of ours.

use super::Item;
use super::clock::{DRIFT_PPM, Offset};
use super::way::{MessageEvents, POINTS_MAX, Phase, Point, StampMode, Way};
use crate::fault::Rule;
use crate::limits::{LOCK_NAME_BYTES_MAX, STAMPS_BYTES_MAX};

/// The stamps of some points of one message, in ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageStamps {
    /// Further events of the message.
    pub happened: MessageEvents,
    /// The largest number of ticks by which all of the peer's stamps may be too early, or too late.
    pub doubt: u64,
    points: u32,
    stamps: [u64; POINTS_MAX],
}

/// The side that bills a message, and trusts its own stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BillingSide {
    /// The side where the message begins: the stamps of the receiver's points are the peer's.
    Here,
    /// The receiving side: the stamps of the points before the arrival are the peer's.
    There,
}

impl BillingSide {
    /// Returns the points whose stamps are the peer's, one bit each.
    const fn peers(self) -> u32 {
        match self {
            BillingSide::Here => {
                let written = Point::EncryptedThere.bit() | Point::WrittenThere.bit();
                StampMode::POINTS_THERE | Point::ReadThere.bit() | written
            }
            BillingSide::There => {
                let written = Point::EncryptedHere.bit() | Point::WrittenHere.bit();
                (Point::WokeThere.bit() - 1) | written
            }
        }
    }

    /// Returns the point of this side that is later than all of the peer's stamps.
    const fn bound(self) -> Point {
        match self {
            BillingSide::Here => Point::NoticedHere,
            BillingSide::There => Point::NoticedThere,
        }
    }
}

/// The times at which a message between hosts was written to its socket, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writing {
    /// When the first write of the message, or of data before it, began.
    pub began: u64,
    /// The ticks that encryption took, or 0 without encryption.
    pub encrypting: u64,
    /// When the write that took the end of the message returned.
    pub ended: u64,
}

/// How far the carrier has written a message to its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The socket has taken the whole message.
    All(Writing),
    /// The socket has not taken the whole message yet.
    NotYet,
    /// The carrier did not watch this message, or has forgotten it for later ones.
    Unknown,
}

/// The times at which a message between hosts was read from its socket, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// When the read that brought the end of the message began.
    pub began: u64,
    /// When the data of that read was handled.
    pub ended: u64,
}

impl Default for MessageStamps {
    fn default() -> MessageStamps {
        MessageStamps::new()
    }
}

impl MessageStamps {
    /// Creates an empty set of stamps.
    #[inline]
    pub const fn new() -> MessageStamps {
        MessageStamps { happened: MessageEvents(0), doubt: 0, points: 0, stamps: [0; POINTS_MAX] }
    }

    /// Records when the message passed a point. A second stamp replaces the first.
    #[inline(always)]
    pub const fn set(&mut self, point: Point, ticks: u64) {
        self.points |= 1 << point as u32;
        self.stamps[point as usize] = ticks;
    }

    /// Records when the message passed the point with this number.
    #[inline]
    pub const fn set_index(&mut self, point: usize, ticks: u64) {
        if point < POINTS_MAX {
            self.points |= 1 << point;
            self.stamps[point] = ticks;
        }
    }

    /// Removes all stamps.
    #[inline]
    pub const fn clear(&mut self) {
        self.points = 0;
        self.happened = MessageEvents(0);
        self.doubt = 0;
    }

    /// Returns when the message passed the point with this number, if it was stamped.
    #[inline]
    pub const fn at_index(&self, point: usize) -> Option<u64> {
        if point >= POINTS_MAX || self.points & 1 << point == 0 {
            return None;
        }
        Some(self.stamps[point])
    }

    /// Returns when the message passed a point, if it was stamped.
    #[inline]
    pub const fn at(&self, point: Point) -> Option<u64> {
        self.at_index(point as usize)
    }

    /// Records when a request was written to its socket.
    pub const fn request_written(&mut self, writing: Writing) {
        let points = [Point::Published, Point::EncryptedHere, Point::WrittenHere];
        self.written(points, writing);
    }

    /// Records when a reply was written to its socket.
    pub const fn reply_written(&mut self, writing: Writing) {
        self.written([Point::Replied, Point::EncryptedThere, Point::WrittenThere], writing);
    }

    const fn written(&mut self, [begin, encrypted, written]: [Point; 3], writing: Writing) {
        let Writing { began, encrypting, ended } = writing;
        self.set(begin, began);
        if encrypting != 0 {
            // The encryption counts as one piece, although it may have been done in parts.
            self.set(encrypted, began.saturating_add(encrypting));
        }
        self.set(written, ended);
    }

    /// Records when a request was read from its socket.
    pub const fn request_read(&mut self, reading: Reading) {
        self.set(Point::SeenThere, reading.began);
        self.set(Point::ReadThere, reading.ended);
    }

    /// Records when a reply was read from its socket.
    pub const fn reply_read(&mut self, reading: Reading) {
        self.set(Point::SeenHere, reading.began);
        self.set(Point::ReadHere, reading.ended);
    }

    /// Adds the peer's stamps of the points that are the peer's.
    pub fn join(&mut self, peer: &MessageStamps, billed: BillingSide) {
        self.happened = self.happened.with(peer.happened);
        self.doubt = self.doubt.max(peer.doubt);
        for point in 0..POINTS_MAX {
            let bit = 1 << point;
            if peer.points & billed.peers() & bit != 0 && self.points & bit == 0 {
                self.points |= bit;
                self.stamps[point] = peer.stamps[point];
            }
        }
    }

    /// Translates the stamps of a peer on another host into our ticks.
    pub fn translate(&mut self, offset: &Offset) {
        for point in (0..POINTS_MAX).filter(|point| self.points & 1 << point != 0) {
            let (stamp, doubt) = offset.ours(self.stamps[point]);
            self.stamps[point] = stamp;
            self.doubt = self.doubt.max(doubt);
        }
    }

    /// Moves all of the peer's stamps of a full sample by the same distance, between those of our stamps that must
    /// enclose them: to the middle of their possible range. The doubt becomes the distance to either end.
    pub fn fit(&mut self, billed: BillingSide) {
        if self.doubt == 0 {
            return;
        }
        let either = |one, other| self.at(one).or(self.at(other));
        let (before, after) = match billed {
            BillingSide::Here => (
                either(Point::EncryptedHere, Point::Published),
                either(Point::ReadHere, Point::NoticedHere),
            ),
            BillingSide::There => (None, either(Point::ReadThere, Point::NoticedThere)),
        };
        // A node may have woken and begun to read long before it saw the message, and its peer may have read a
        // message before the write of it returned.
        const LOOSE: u32 = Point::WokeThere.bit()
            | Point::SeenThere.bit()
            | Point::WrittenHere.bit()
            | Point::WrittenThere.bit();
        let peers = billed.peers();
        let bound = (0..POINTS_MAX).filter(|point| peers & !LOOSE & 1 << point != 0);
        let bound = bound.filter_map(|point| self.at_index(point)).map(i128::from);
        let (Some(first), Some(last)) = (bound.clone().min(), bound.max()) else { return };
        let doubt = i128::from(self.doubt);
        // The two counters may have drifted apart between the first and the last stamp.
        let drift = (last - first) * i128::from(DRIFT_PPM) / 1_000_000;
        let least =
            before.map_or(-doubt, |before| (i128::from(before) - first - drift).max(-doubt));
        let most = after.map_or(doubt, |after| (i128::from(after) - last + drift).min(doubt));
        if least > most {
            // The peer's stamps are impossible, so each one is bounded by itself.
            return;
        }
        let by = (least + most) / 2;
        self.doubt = ((most - least) / 2 + 1) as u64;
        for point in (0..POINTS_MAX).filter(|point| self.points & peers & 1 << point != 0) {
            let moved = i128::from(self.stamps[point]) + by;
            self.stamps[point] = moved.clamp(0, i128::from(u64::MAX)) as u64;
        }
    }

    /// Writes the payload of a frame of stamps, with the name of the awaited lock, if there is one. Returns the
    /// length.
    pub fn encode(&self, lock: &str, into: &mut [u8; STAMPS_BYTES_MAX]) -> usize {
        let mut len = 0;
        let mut put = |bytes: &[u8]| {
            into[len..len + bytes.len()].copy_from_slice(bytes);
            len += bytes.len();
        };
        put(&self.happened.0.to_le_bytes());
        put(&self.points.to_le_bytes());
        let taken = (0..POINTS_MAX).filter(|point| self.points & 1 << point != 0);
        taken.for_each(|point| put(&self.stamps[point].to_le_bytes()));
        put(&lock.as_bytes()[..lock.floor_char_boundary(LOCK_NAME_BYTES_MAX)]);
        len
    }

    /// Reads the payload of a frame of stamps. Returns the rule that the payload breaks, if it breaks one.
    pub fn decode(payload: &[u8]) -> Result<(MessageStamps, &str), Rule> {
        let len = payload.len() as u32;
        let wrong = |points| Rule::StampsLength { points, len };
        let (happened, rest) = payload.split_first_chunk::<4>().ok_or(wrong(0))?;
        let (points, mut rest) = rest.split_first_chunk::<4>().ok_or(wrong(0))?;
        let mut taken = MessageStamps::new();
        taken.happened = MessageEvents(u32::from_le_bytes(*happened));
        taken.points = u32::from_le_bytes(*points);
        for point in (0..POINTS_MAX).filter(|point| taken.points & 1 << point != 0) {
            let (stamp, behind) = rest.split_first_chunk::<8>().ok_or(wrong(taken.points))?;
            taken.stamps[point] = u64::from_le_bytes(*stamp);
            rest = behind;
        }
        let lock = core::str::from_utf8(rest).map_err(|_| wrong(taken.points))?;
        if lock.len() > LOCK_NAME_BYTES_MAX { Err(wrong(taken.points)) } else { Ok((taken, lock)) }
    }

    /// Returns the sample: with [`StampMode::Whole`] a stamp for each point of the way, in order, otherwise the first
    /// stamp and that of the pair. Returns none if a required stamp is missing: for a full sample the first one,
    /// that of the arrival at the billing side, and those of sockets.
    pub fn finish(
        &self,
        way: &Way,
        manner: StampMode,
        billed: BillingSide,
    ) -> Option<[u64; POINTS_MAX]> {
        match manner {
            StampMode::Whole => self.whole(way, billed),
            _ => self.pair(way, manner),
        }
    }

    /// Returns whether all sockets of this way are stamped. The time of an unstamped socket would be charged to
    /// the wire.
    fn has_sockets(&self, way: &Way) -> bool {
        let of_sockets = |phase: &&Phase| matches!(phase.item, Item::Write | Item::Read);
        way.phases.iter().filter(of_sockets).all(|phase| self.at(phase.ends).is_some())
    }

    fn pair(&self, way: &Way, manner: StampMode) -> Option<[u64; POINTS_MAX]> {
        let mut stamps = [0; POINTS_MAX];
        for (stamp, point) in stamps.iter_mut().zip(way.order()) {
            *stamp = self.at(point).unwrap_or(0);
        }
        let wanted = manner.points();
        if wanted == Point::Begun.bit() {
            // The second stamp is directly after the first.
            stamps[1] = self.at(Point::Roomed)?.max(self.at(Point::Begun)?);
        }
        let rung = wanted.ilog2() as usize;
        let place = way.place(rung)?;
        if wanted & !self.points != 0 {
            return None;
        }
        // A node that did not sleep has woken long before.
        let before = (wanted & !1 & ((1 << rung) - 1)).checked_ilog2();
        let from = before.and_then(|before| self.at_index(before as usize));
        stamps[place] = stamps[place].max(from.unwrap_or(0)).max(stamps[0]);
        Some(stamps)
    }

    fn whole(&self, way: &Way, billed: BillingSide) -> Option<[u64; POINTS_MAX]> {
        if !self.has_sockets(way) {
            return None;
        }
        let (begun, bound) = (self.at(Point::Begun)?, self.at(billed.bound())?);
        let stamp = |point: Point| {
            let stamp = self.at(point)?;
            Some(if billed.peers() & point.bit() != 0 { stamp.min(bound) } else { stamp })
        };
        let mut stamps = [0; POINTS_MAX];
        let mut last = begun.min(bound);
        for (place, point) in stamps.iter_mut().zip(way.order()) {
            let taken = match point {
                // In memory it is not known when the message could have been seen, so the time at which it was
                // seen counts.
                Point::SeenThere => stamp(point).or(stamp(Point::NoticedThere)),
                Point::SeenHere => stamp(point).or(stamp(Point::NoticedHere)),
                // The reader may have the message before the write returns; the message then continues there.
                Point::WrittenHere | Point::WrittenThere => {
                    let met = ARRIVING[usize::from(point == Point::WrittenThere)].map(stamp);
                    let met = met.into_iter().flatten().filter(|met| *met >= last).min();
                    stamp(point).map(|written| written.min(met.unwrap_or(u64::MAX)))
                }
                _ => stamp(point),
            };
            // A point without a stamp gets the stamp before it, so its phase has no time.
            last = taken.map_or(last, |taken| last.max(taken));
            *place = last;
        }
        Some(stamps)
    }
}

/// The points at which a request, and its reply, arrive from a socket.
const ARRIVING: [[Point; 4]; 2] = [
    [Point::WokeThere, Point::SeenThere, Point::ReadThere, Point::NoticedThere],
    [Point::WokeHere, Point::SeenHere, Point::ReadHere, Point::NoticedHere],
];

#[cfg(test)]
mod tests;
