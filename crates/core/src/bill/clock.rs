//! The offset of a peer's clock, estimated from the time stamps that both sides send each other.
//!
//! Counters of two hosts begin at different times and run at paces that each side measures by itself. A message
//! says when it was sent, and when the last message of the receiver's came that it answers: these four stamps
//! bound the offset from both sides, however unequal the delays of the two ways are. Each exchange narrows the
//! bounds; with time they widen by [`DRIFT_PPM`], for no pace is exact. The stamps of a peer are its word.
//! Invariant: of an honest peer the true offset lies within the bounds, and whatever a peer says, a translated
//! stamp is a number of ticks and nothing panics.

use core::cmp::{max, min};

/// Two counters, by the paces that their owners say, differ by at most so many parts in a million.
pub const DRIFT_PPM: u64 = 200;

/// Paces outside of this range, in ticks per second, are no counter's.
const PACES: core::ops::RangeInclusive<u64> = 1_000_000..=100_000_000_000;

/// The time stamps that one side sends the other in a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// When this was sent, by the sender's counter.
    pub sent: u64,
    /// When the receiver had sent the last of its own that came, by the receiver's counter; 0 if none has come.
    pub echo: u64,
    /// When that one came, by the sender's counter.
    pub heard: u64,
}

/// The counter of a peer of another host, as far as it is known.
///
/// ```
/// use upbeat_core::bill::clock::{Clock, Timestamps};
///
/// // Ours is 1,000 ticks ahead of the peer's, and each way takes 10.
/// let mut clock = Clock::new(1_000_000_000, 1_000_000_000).unwrap();
/// let asked = clock.stamps(5_000);
/// assert_eq!(asked, Timestamps { sent: 5_000, echo: 0, heard: 0 });
/// clock.heard(Timestamps { sent: 4_015, echo: 5_000, heard: 4_010 }, 5_025);
/// let (ours, doubt) = clock.offset().unwrap().ours(4_012);
/// assert!(ours.abs_diff(5_012) <= doubt && doubt < 16);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    paces: Paces,
    /// When the peer sent its last stamps, by its counter, and when they came, by ours.
    last: Option<(u64, u64)>,
    bounds: Option<Bounds>,
}

/// Ticks per second of both counters.
#[derive(Clone, Copy, Debug)]
struct Paces {
    ours: u64,
    theirs: u64,
}

/// The least and the most ticks by which the peer's counter is ahead of ours, once its stamps are in ticks of our pace.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: i128,
    high: i128,
    /// When, by our counter.
    at: u64,
}

impl Clock {
    /// Makes the clock of a peer of which nothing is known yet, by the ticks per second of both counters. None if
    /// the peer's pace cannot be.
    pub fn new(ours: u64, theirs: u64) -> Option<Clock> {
        let known = PACES.contains(&ours) && PACES.contains(&theirs);
        known.then_some(Clock { paces: Paces { ours, theirs }, last: None, bounds: None })
    }

    /// Returns what is to be said to the peer in a message that is sent now.
    pub fn stamps(&self, now: u64) -> Timestamps {
        let (echo, heard) = self.last.unwrap_or((0, 0));
        Timestamps { sent: now, echo, heard }
    }

    /// Takes in what the peer has said in a message that came now.
    pub fn heard(&mut self, said: Timestamps, now: u64) {
        self.last = Some((said.sent, now));
        if said.echo == 0 || said.echo > now || said.heard > said.sent {
            return;
        }
        // The peer's counter was at `heard` after we sent, and at `sent` before we heard. Stamps are rounded down.
        let low = self.paces.in_ours(said.sent) - i128::from(now) - 1;
        let high = self.paces.in_ours(said.heard) - i128::from(said.echo) + self.paces.grain();
        let seen = Bounds { low, high: high + drift(now - said.echo), at: now };
        if seen.low > seen.high {
            return;
        }
        let both = self.bounds.map(|before| before.at(now).and(seen));
        // Bounds that do not meet are of a counter that has jumped: the newer ones hold.
        self.bounds = Some(both.filter(|both| both.low <= both.high).unwrap_or(seen));
    }

    /// Returns the offset, if the peer has answered a message of ours.
    pub fn offset(&self) -> Option<Offset> {
        Some(Offset { paces: self.paces, bounds: self.bounds? })
    }
}

impl Paces {
    fn in_ours(self, theirs: u64) -> i128 {
        (u128::from(theirs) * u128::from(self.ours) / u128::from(self.theirs)).cast_signed()
    }

    /// By how many ticks of ours `in_ours` may be too low: stamps of the peer and their translations are rounded down.
    fn grain(self) -> i128 {
        i128::from(self.ours.div_ceil(self.theirs)) + 1
    }
}

impl Bounds {
    /// The same at another time.
    fn at(self, now: u64) -> Bounds {
        let wider = drift(now.abs_diff(self.at));
        Bounds { low: self.low - wider, high: self.high + wider, at: now }
    }

    fn and(self, other: Bounds) -> Bounds {
        Bounds { low: max(self.low, other.low), high: min(self.high, other.high), at: other.at }
    }
}

/// By how many ticks of ours two counters may drift apart within so many.
fn drift(ticks: u64) -> i128 {
    i128::from(ticks) * i128::from(DRIFT_PPM) / 1_000_000 + 1
}

/// How to translate stamps of a peer into our ticks. All that are translated by one offset keep their distances.
#[derive(Clone, Copy, Debug)]
pub struct Offset {
    paces: Paces,
    bounds: Bounds,
}

impl Offset {
    /// Returns when it was, by our counter, when the peer's was at `theirs`, and by how many ticks this may be wrong.
    pub fn ours(&self, theirs: u64) -> (u64, u64) {
        let Bounds { low, high, at } = self.bounds;
        let ours = self.paces.in_ours(theirs) - (low + high) / 2;
        let ours = ours.clamp(0, i128::from(u64::MAX)) as u64;
        let half = ((high - low) / 2 + self.paces.grain()).clamp(0, i128::from(u64::MAX)) as u64;
        // The true time may be further away from that of the bounds than the told one, by half of their distance.
        let doubt = i128::from(half) + drift(ours.abs_diff(at).saturating_add(half));
        (ours, doubt.clamp(0, i128::from(u64::MAX)) as u64)
    }
}

#[cfg(test)]
pub(super) mod tests;
