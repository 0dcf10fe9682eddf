//! The stamps that were taken of one message, and how those of two sides become its sample.
//!
//! Each side takes the stamps of its own points. One side then sends what it has to the other,
//! where the message is billed: the caller of a call, the receiver of a one-way message.
//! The stamps of the peer are its word; those of another host are translated into our ticks as they come, which is
//! certain to a number of ticks, the doubt. Invariant: a finished sample never goes backwards, and
//! no stamp of the peer's lies behind a later one of ours.

use super::Item;
use super::clock::{DRIFT_PPM, Offset};
use super::way::{Happened, Manner, POINTS_MAX, Phase, Point, Way};
use crate::fault::Rule;
use crate::limits::{LOCK_NAME_BYTES_MAX, STAMPS_BYTES_MAX};

/// Stamps of some points of one message, in ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The events that happened to the message besides.
    pub happened: Happened,
    /// By how many ticks the peer's stamps may all be too early, or all too late.
    pub doubt: u64,
    points: u32,
    stamps: [u64; POINTS_MAX],
}

/// Which side bills a message, and whose stamps it need not believe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Billed {
    /// Where it begins: the others are of the points there.
    Here,
    /// Where it is for: the others are of the points before it was seen.
    There,
}

impl Billed {
    /// The points of which the stamps are the peer's, a bit each.
    const fn peers(self) -> u32 {
        match self {
            Billed::Here => {
                let written = Point::EncryptedThere.bit() | Point::WrittenThere.bit();
                Manner::POINTS_THERE | Point::ReadThere.bit() | written
            }
            Billed::There => {
                let written = Point::EncryptedHere.bit() | Point::WrittenHere.bit();
                (Point::WokeThere.bit() - 1) | written
            }
        }
    }

    /// The point at which this side has the peer's stamps behind it.
    const fn bound(self) -> Point {
        match self {
            Billed::Here => Point::NoticedHere,
            Billed::There => Point::NoticedThere,
        }
    }
}

/// When a message between hosts was given to its socket, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writing {
    /// The first write of it, or of what went with it, began.
    pub began: u64,
    /// So long all that was encrypted took; 0 where nothing is.
    pub encrypting: u64,
    /// The write that took the last of it has returned.
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

/// When a message between hosts was taken from its socket, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The read that brought the last of it began.
    pub began: u64,
    /// What that read has brought was taken in.
    pub ended: u64,
}

impl Default for Taken {
    fn default() -> Taken {
        Taken::new()
    }
}

impl Taken {
    /// None yet.
    #[inline]
    pub const fn new() -> Taken {
        Taken { happened: Happened(0), doubt: 0, points: 0, stamps: [0; POINTS_MAX] }
    }

    /// Notes when the message passed a point. A second time takes the first one's place.
    #[inline(always)]
    pub const fn set(&mut self, point: Point, ticks: u64) {
        self.points |= 1 << point as u32;
        self.stamps[point as usize] = ticks;
    }

    /// The same by the point's place in its way.
    #[inline]
    pub const fn set_index(&mut self, point: usize, ticks: u64) {
        if point < POINTS_MAX {
            self.points |= 1 << point;
            self.stamps[point] = ticks;
        }
    }

    /// Forgets all of them.
    #[inline]
    pub const fn clear(&mut self) {
        self.points = 0;
        self.happened = Happened(0);
        self.doubt = 0;
    }

    /// When it passed the point at this place of its way, if that was noted.
    #[inline]
    pub const fn at_index(&self, point: usize) -> Option<u64> {
        if point >= POINTS_MAX || self.points & 1 << point == 0 {
            return None;
        }
        Some(self.stamps[point])
    }

    /// When it passed a point, if that was noted.
    #[inline]
    pub const fn at(&self, point: Point) -> Option<u64> {
        self.at_index(point as usize)
    }

    /// Notes when a request was written to its socket.
    pub const fn request_written(&mut self, writing: Writing) {
        let points = [Point::Published, Point::EncryptedHere, Point::WrittenHere];
        self.written(points, writing);
    }

    /// Notes when an answer was written to its socket.
    pub const fn reply_written(&mut self, writing: Writing) {
        self.written([Point::Replied, Point::EncryptedThere, Point::WrittenThere], writing);
    }

    const fn written(&mut self, [begin, encrypted, written]: [Point; 3], writing: Writing) {
        let Writing { began, encrypting, ended } = writing;
        self.set(begin, began);
        if encrypting != 0 {
            // All of it at once, though it was encrypted in parts.
            self.set(encrypted, began.saturating_add(encrypting));
        }
        self.set(written, ended);
    }

    /// Notes when a request was read from its socket.
    pub const fn request_read(&mut self, reading: Reading) {
        self.set(Point::SeenThere, reading.began);
        self.set(Point::ReadThere, reading.ended);
    }

    /// Notes when an answer was read from its socket.
    pub const fn reply_read(&mut self, reading: Reading) {
        self.set(Point::SeenHere, reading.began);
        self.set(Point::ReadHere, reading.ended);
    }

    /// Takes over the peer's stamps, of the points that are the peer's to stamp.
    pub fn join(&mut self, peer: &Taken, billed: Billed) {
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

    /// Translates the stamps of a peer of another host into our ticks.
    pub fn translate(&mut self, offset: &Offset) {
        for point in (0..POINTS_MAX).filter(|point| self.points & 1 << point != 0) {
            let (stamp, doubt) = offset.ours(self.stamps[point]);
            self.stamps[point] = stamp;
            self.doubt = self.doubt.max(doubt);
        }
    }

    /// Moves the peer's stamps of a whole story, all alike, between those of ours that they must lie between: to the
    /// middle of where they can be. What is left of the doubt is the distance to either end.
    pub fn fit(&mut self, billed: Billed) {
        if self.doubt == 0 {
            return;
        }
        let either = |one, other| self.at(one).or(self.at(other));
        let (before, after) = match billed {
            Billed::Here => (
                either(Point::EncryptedHere, Point::Published),
                either(Point::ReadHere, Point::NoticedHere),
            ),
            Billed::There => (None, either(Point::ReadThere, Point::NoticedThere)),
        };
        // A node may have woken, and begun to read, long before it saw the message; and its peer may have read a
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
        // Between the first and the last the two counters may have drifted apart.
        let drift = (last - first) * i128::from(DRIFT_PPM) / 1_000_000;
        let least =
            before.map_or(-doubt, |before| (i128::from(before) - first - drift).max(-doubt));
        let most = after.map_or(doubt, |after| (i128::from(after) - last + drift).min(doubt));
        if least > most {
            // What its peer says cannot be: each stamp is held for itself.
            return;
        }
        let by = (least + most) / 2;
        self.doubt = ((most - least) / 2 + 1) as u64;
        for point in (0..POINTS_MAX).filter(|point| self.points & peers & 1 << point != 0) {
            let moved = i128::from(self.stamps[point]) + by;
            self.stamps[point] = moved.clamp(0, i128::from(u64::MAX)) as u64;
        }
    }

    /// Writes the payload of a frame of stamps, with the name of the lock that was waited for, if
    /// any. Gives its length.
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

    /// Reads the payload of a frame of stamps. Fails with the rule that the payload breaks.
    pub fn decode(payload: &[u8]) -> Result<(Taken, &str), Rule> {
        let len = payload.len() as u32;
        let wrong = |points| Rule::StampsLength { points, len };
        let (happened, rest) = payload.split_first_chunk::<4>().ok_or(wrong(0))?;
        let (points, mut rest) = rest.split_first_chunk::<4>().ok_or(wrong(0))?;
        let mut taken = Taken::new();
        taken.happened = Happened(u32::from_le_bytes(*happened));
        taken.points = u32::from_le_bytes(*points);
        for point in (0..POINTS_MAX).filter(|point| taken.points & 1 << point != 0) {
            let (stamp, behind) = rest.split_first_chunk::<8>().ok_or(wrong(taken.points))?;
            taken.stamps[point] = u64::from_le_bytes(*stamp);
            rest = behind;
        }
        let lock = core::str::from_utf8(rest).map_err(|_| wrong(taken.points))?;
        if lock.len() > LOCK_NAME_BYTES_MAX { Err(wrong(taken.points)) } else { Ok((taken, lock)) }
    }

    /// The sample: a stamp for each point of the way, in its order, if the manner is [`Manner::Whole`], else the
    /// first and that of the pair. None where a stamp is missing that the manner needs: of a whole story the first, that
    /// of its arrival where it is billed, and those of sockets.
    pub fn finish(&self, way: &Way, manner: Manner, billed: Billed) -> Option<[u64; POINTS_MAX]> {
        match manner {
            Manner::Whole => self.whole(way, billed),
            _ => self.pair(way, manner),
        }
    }

    /// Whether all is known of the sockets that a message of this way went through. What was not stamped there would be
    /// charged to the wire.
    fn has_sockets(&self, way: &Way) -> bool {
        let of_sockets = |phase: &&Phase| matches!(phase.item, Item::Write | Item::Read);
        way.phases.iter().filter(of_sockets).all(|phase| self.at(phase.ends).is_some())
    }

    fn pair(&self, way: &Way, manner: Manner) -> Option<[u64; POINTS_MAX]> {
        let mut stamps = [0; POINTS_MAX];
        for (stamp, point) in stamps.iter_mut().zip(way.order()) {
            *stamp = self.at(point).unwrap_or(0);
        }
        let wanted = manner.points();
        if wanted == Point::Begun.bit() {
            // The second one is right behind the first.
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

    fn whole(&self, way: &Way, billed: Billed) -> Option<[u64; POINTS_MAX]> {
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
                // In memory it is not known when it could have been seen: not before it was.
                Point::SeenThere => stamp(point).or(stamp(Point::NoticedThere)),
                Point::SeenHere => stamp(point).or(stamp(Point::NoticedHere)),
                // Its reader may have it before the write returns: the message goes on there.
                Point::WrittenHere | Point::WrittenThere => {
                    let met = ARRIVING[usize::from(point == Point::WrittenThere)].map(stamp);
                    let met = met.into_iter().flatten().filter(|met| *met >= last).min();
                    stamp(point).map(|written| written.min(met.unwrap_or(u64::MAX)))
                }
                _ => stamp(point),
            };
            // A point without a stamp gets the stamp before it: its phase took no time.
            last = taken.map_or(last, |taken| last.max(taken));
            *place = last;
        }
        Some(stamps)
    }
}

/// The points at which a message arrives from a socket, and its answer.
const ARRIVING: [[Point; 4]; 2] = [
    [Point::WokeThere, Point::SeenThere, Point::ReadThere, Point::NoticedThere],
    [Point::WokeHere, Point::SeenHere, Point::ReadHere, Point::NoticedHere],
];

#[cfg(test)]
mod tests;
