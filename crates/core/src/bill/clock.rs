//! The offset of a peer's clock, estimated from time stamps that both sides send each other.
//!
//! The counters of two hosts begin at different times, and run at rates that each side measures by itself. A
//! message says when it was sent, and when the last message of the receiver arrived. The resulting four stamps
//! bound the offset from both sides, however different the delays of the two directions are. Each exchange narrows
//! the bounds; with time they widen by [`DRIFT_PPM`], since no rate is exact. The stamps of a peer may be lies.
//! Invariant: for a correct peer the true offset is within the bounds. Whatever a peer sends, a translated stamp
//! is a number of ticks and nothing panics.

use core::cmp::{max, min};

/// The largest difference between two counters at their announced rates, in parts per million.
pub const DRIFT_PPM: u64 = 200;

/// The range of plausible rates of a counter, in ticks per second.
const PACES: core::ops::RangeInclusive<u64> = 1_000_000..=100_000_000_000;

/// The time stamps that one side sends the other in a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// When this message was sent, by the sender's counter.
    pub sent: u64,
    /// When the receiver had sent its last message that arrived, by the receiver's counter; 0 if none has arrived.
    pub echo: u64,
    /// When that message arrived, by the sender's counter.
    pub heard: u64,
}

/// The known relation to the counter of a peer on another host.
///
/// ```
/// use upbeat_core::bill::clock::{Clock, Timestamps};
///
/// // Our counter is 1,000 ticks ahead of the peer's, and each direction takes 10.
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
    /// When the peer sent its last stamps, by its counter, and when they arrived, by ours.
    last: Option<(u64, u64)>,
    bounds: Option<Bounds>,
}

/// The rates of both counters in ticks per second.
#[derive(Clone, Copy, Debug)]
struct Paces {
    ours: u64,
    theirs: u64,
}

/// The least and the greatest number of ticks by which the peer's counter is ahead of ours, in ticks of our rate.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: i128,
    high: i128,
    /// The time of the bounds, by our counter.
    at: u64,
}

impl Clock {
    /// Creates the clock of a new peer, from the rates of both counters in ticks per second. Returns none if a
    /// rate is not plausible.
    pub fn new(ours: u64, theirs: u64) -> Option<Clock> {
        let known = PACES.contains(&ours) && PACES.contains(&theirs);
        known.then_some(Clock { paces: Paces { ours, theirs }, last: None, bounds: None })
    }

    /// Returns the stamps of a message to the peer that is sent now.
    pub fn stamps(&self, now: u64) -> Timestamps {
        let (echo, heard) = self.last.unwrap_or((0, 0));
        Timestamps { sent: now, echo, heard }
    }

    /// Handles the stamps in a message of the peer that arrived now.
    pub fn heard(&mut self, said: Timestamps, now: u64) {
        self.last = Some((said.sent, now));
        if said.echo == 0 || said.echo > now || said.heard > said.sent {
            return;
        }
        // The peer's counter was at `heard` after this side sent, and at `sent` before this side received. Stamps
        // are rounded down.
        let low = self.paces.in_ours(said.sent) - i128::from(now) - 1;
        let high = self.paces.in_ours(said.heard) - i128::from(said.echo) + self.paces.grain();
        let seen = Bounds { low, high: high + drift(now - said.echo), at: now };
        if seen.low > seen.high {
            return;
        }
        let both = self.bounds.map(|before| before.at(now).and(seen));
        // Bounds that do not overlap mean that a counter has jumped, so the newer ones are kept.
        self.bounds = Some(both.filter(|both| both.low <= both.high).unwrap_or(seen));
    }

    /// Returns the offset, if the peer has answered a message of this side.
    pub fn offset(&self) -> Option<Offset> {
        Some(Offset { paces: self.paces, bounds: self.bounds? })
    }
}

impl Paces {
    fn in_ours(self, theirs: u64) -> i128 {
        (u128::from(theirs) * u128::from(self.ours) / u128::from(self.theirs)).cast_signed()
    }

    /// Returns by how many of our ticks `in_ours` may be too low, since the peer's stamps and their translations
    /// are rounded down.
    fn grain(self) -> i128 {
        i128::from(self.ours.div_ceil(self.theirs)) + 1
    }
}

impl Bounds {
    /// Returns the bounds at another time.
    fn at(self, now: u64) -> Bounds {
        let wider = drift(now.abs_diff(self.at));
        Bounds { low: self.low - wider, high: self.high + wider, at: now }
    }

    fn and(self, other: Bounds) -> Bounds {
        Bounds { low: max(self.low, other.low), high: min(self.high, other.high), at: other.at }
    }
}

/// Returns by how many ticks two counters may drift apart within `ticks` ticks.
fn drift(ticks: u64) -> i128 {
    i128::from(ticks) * i128::from(DRIFT_PPM) / 1_000_000 + 1
}

/// A translation of a peer's stamps into our ticks. Stamps that are translated by one offset keep their distances.
#[derive(Clone, Copy, Debug)]
pub struct Offset {
    paces: Paces,
    bounds: Bounds,
}

impl Offset {
    /// Returns the time of our counter when the peer's was at `theirs`, and the uncertainty in ticks.
    pub fn ours(&self, theirs: u64) -> (u64, u64) {
        let Bounds { low, high, at } = self.bounds;
        let ours = self.paces.in_ours(theirs) - (low + high) / 2;
        let ours = ours.clamp(0, i128::from(u64::MAX)) as u64;
        let half = ((high - low) / 2 + self.paces.grain()).clamp(0, i128::from(u64::MAX)) as u64;
        // The true time may be further away from the time of the bounds than the estimate, by half the width of
        // the bounds.
        let doubt = i128::from(half) + drift(ours.abs_diff(at).saturating_add(half));
        (ours, doubt.clamp(0, i128::from(u64::MAX)) as u64)
    }
}

#[cfg(test)]
pub(super) mod tests;
