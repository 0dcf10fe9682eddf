//! The stamps that were taken of one message, and how those of two sides become its sample.
//!
//! Each side takes the stamps of its own points. One side then sends what it has to the other,
//! where the message is billed: the caller of a call, the receiver of a one-way message.
//! The stamps of the peer are its word; those of another host are translated into our ticks as they come, which is
//! certain to a number of ticks, the doubt. Invariant: a finished sample never goes backwards, and
//! no stamp of the peer's lies behind a later one of ours.

use super::clock::Offset;
use super::way::{Happened, Manner, POINTS_MAX, Point, Way};
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

    /// Takes over the peer's stamps of the points that were not ours to take.
    pub fn join(&mut self, peer: &Taken) {
        self.happened = self.happened.with(peer.happened);
        self.doubt = self.doubt.max(peer.doubt);
        for point in 0..POINTS_MAX {
            let bit = 1 << point;
            if peer.points & bit != 0 && self.points & bit == 0 {
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
        let (peers, before, after) = match billed {
            Billed::Here => {
                let peers = Point::WokeThere.index()..Point::WokeHere.index();
                (peers, self.at(Point::Published), self.at(Point::NoticedHere))
            }
            Billed::There => (0..Point::WokeThere.index(), None, self.at(Point::NoticedThere)),
        };
        // A node may have woken long before it saw the message.
        let seen = peers.clone().filter(|point| *point != Point::WokeThere.index());
        let seen = seen.filter_map(|point| self.at_index(point)).map(i128::from);
        let (Some(first), Some(last)) = (seen.clone().min(), seen.max()) else { return };
        let doubt = i128::from(self.doubt);
        let least = before.map_or(-doubt, |before| (i128::from(before) - first).max(-doubt));
        let most = after.map_or(doubt, |after| (i128::from(after) - last).min(doubt));
        if least > most {
            // What its peer says cannot be: each stamp is held for itself.
            return;
        }
        let by = (least + most) / 2;
        self.doubt = ((most - least) / 2 + 1) as u64;
        for point in peers.filter(|point| self.points & 1 << point != 0) {
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
        if taken.points >> POINTS_MAX != 0 {
            return Err(wrong(taken.points));
        }
        for point in (0..POINTS_MAX).filter(|point| taken.points & 1 << point != 0) {
            let (stamp, behind) = rest.split_first_chunk::<8>().ok_or(wrong(taken.points))?;
            taken.stamps[point] = u64::from_le_bytes(*stamp);
            rest = behind;
        }
        let lock = core::str::from_utf8(rest).map_err(|_| wrong(taken.points))?;
        if lock.len() > LOCK_NAME_BYTES_MAX { Err(wrong(taken.points)) } else { Ok((taken, lock)) }
    }

    /// The sample: a stamp for each point of the way if the manner is [`Manner::Whole`], else the
    /// first and that of the pair. None where a stamp is missing that the manner needs.
    pub fn finish(&self, way: &Way, manner: Manner, billed: Billed) -> Option<[u64; POINTS_MAX]> {
        let mut stamps = self.stamps;
        for (point, stamp) in stamps.iter_mut().enumerate() {
            // What was not taken is of another message.
            *stamp = if self.points & 1 << point == 0 { 0 } else { *stamp };
        }
        if manner.points() == 1 {
            // The second one is right behind the first.
            stamps[1] = self.at(Point::Roomed)?.max(self.at(Point::Begun)?);
        }
        match manner {
            Manner::Pair(_) | Manner::Marked | Manner::Waiting | Manner::Thrice => {
                let wanted = manner.points();
                let rung = wanted.ilog2() as usize;
                if wanted & !self.points != 0 || rung >= way.points() {
                    return None;
                }
                // A node that did not sleep has woken long before.
                let before = (wanted & !1 & ((1 << rung) - 1)).checked_ilog2();
                let from = before.map_or(stamps[0], |before| stamps[before as usize]);
                stamps[rung] = stamps[rung].max(from).max(stamps[0]);
            }
            Manner::Whole => {
                let (peers, bound) = match billed {
                    Billed::Here => {
                        (Point::WokeThere.index()..Point::WokeHere.index(), Point::NoticedHere)
                    }
                    Billed::There => (0..Point::WokeThere.index(), Point::NoticedThere),
                };
                let (begun, bound) = (self.at(Point::Begun)?, self.at(bound)?);
                stamps[peers].iter_mut().for_each(|stamp| *stamp = (*stamp).min(bound));
                let mut last = begun.min(bound);
                let mut points = self.points;
                // When it could have been seen is not known yet: not before it was.
                for seen in [Point::SeenThere.index(), Point::SeenHere.index()] {
                    if points >> (seen + 1) & 1 != 0 {
                        points |= 1 << seen;
                        stamps[seen] = stamps[seen + 1];
                    }
                }
                for (point, stamp) in stamps.iter_mut().enumerate().take(way.points()) {
                    // What was not stamped took no time.
                    let taken = points & 1 << point != 0;
                    last = if taken { last.max(*stamp) } else { last };
                    *stamp = last;
                }
            }
        }
        Some(stamps)
    }
}

#[cfg(test)]
mod tests;
