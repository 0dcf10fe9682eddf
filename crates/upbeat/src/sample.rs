//! Stamps on the way of a message: taken if it is sampled, compiled away if it is not.
//!
//! The path of a message is written once, generic over who takes stamps: [`Unsampled`] does nothing
//! and leaves nothing in the code; a [`Sample`] takes those that the message's manner wants. So a
//! message that is not sampled pays nothing for the bill but the question whether it is.

use std::sync::Arc;
use upbeat_core::bill::taken::Taken;
use upbeat_core::bill::way::{Happened, Manner, Place, Point};
use upbeat_core::frame::CallNumber;
use upbeat_memory::ticks::ticks;

/// Who takes the stamps.
pub(crate) trait Stamps {
    /// The message passes a point.
    fn at(&mut self, point: Point);

    /// In which manner its head says that it is stamped.
    fn manner(&self) -> Option<Manner>;

    /// The sample itself, to go on with as a task.
    fn sample(&mut self) -> Option<&mut Sample>;
}

/// Nobody.
pub(crate) struct Unsampled;

impl Stamps for Unsampled {
    #[inline(always)]
    fn at(&mut self, _: Point) {}

    #[inline(always)]
    fn manner(&self) -> Option<Manner> {
        None
    }

    #[inline(always)]
    fn sample(&mut self) -> Option<&mut Sample> {
        None
    }
}

/// What one side knows of a sampled message.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) manner: Manner,
    /// The points where stamps are taken, a bit each.
    wanted: u32,
    pub(crate) taken: Taken,
    /// The lock that was waited for.
    pub(crate) lock: Option<Arc<str>>,
    /// The number of a one-way message that has come.
    pub(crate) oneway: Option<CallNumber>,
}

impl Sample {
    /// Of a message that has come.
    #[inline]
    pub(crate) fn of(manner: Manner) -> Sample {
        let (wanted, taken) = (manner.points(), Taken::new());
        Sample { manner, wanted, taken, lock: None, oneway: None }
    }

    /// Of a message that begins now.
    #[inline]
    pub(crate) fn begin(manner: Manner) -> Sample {
        let mut sample = Sample::of(manner);
        sample.at(Point::Begun);
        if manner == Manner::Pair(0) {
            // What a stamp takes: this one is right behind the first.
            sample.taken.set(Point::Roomed, ticks());
        }
        sample
    }

    /// Notes when a point was passed, if that is wanted.
    #[inline]
    pub(crate) fn known(&mut self, point: Point, ticks: u64) {
        if self.wanted & 1 << point as u32 != 0 {
            self.taken.set(point, ticks);
        }
    }

    /// Something happened besides.
    #[inline]
    pub(crate) fn note(&mut self, happened: Happened) {
        self.taken.happened = self.taken.happened.with(happened);
    }
}

impl Stamps for Sample {
    #[inline(always)]
    fn at(&mut self, point: Point) {
        if self.wanted & 1 << point as u32 != 0 {
            self.taken.set(point, ticks());
        }
    }

    #[inline]
    fn manner(&self) -> Option<Manner> {
        // Whoever it is for has nothing to do with stamps that are taken before it is sent.
        let later = self.wanted >> Point::WokeThere as u32 != 0;
        later.then_some(self.manner)
    }

    fn sample(&mut self) -> Option<&mut Sample> {
        Some(self)
    }
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A lock.
    Lock,
    /// A call.
    Call,
    /// A timer.
    Timer,
    /// Something that is not ours.
    #[default]
    Other,
}

/// The time of a handler that has become a task, told apart by what it did.
#[derive(Debug)]
pub(crate) struct Timed {
    pub(crate) sample: Sample,
    /// When it became a task.
    promoted: u64,
    /// When it was last polled to no end.
    paused: u64,
    /// What it has waited for since.
    reason: Reason,
    lock: u64,
    wait: u64,
    queue: u64,
}

impl Timed {
    /// A handler has become a task, and waits for this.
    pub(crate) fn new(mut sample: Sample, (reason, lock): (Reason, Option<Arc<str>>)) -> Timed {
        sample.note(Happened::PROMOTED);
        sample.lock = lock;
        let (promoted, paused) = (ticks(), sample.taken.at(Point::Ran));
        let paused = paused.unwrap_or(promoted).max(promoted);
        Timed { sample, promoted, paused, reason, lock: 0, wait: 0, queue: 0 }
    }

    /// It is polled again, having been woken then.
    pub(crate) fn resumed(&mut self, woken: u64) {
        let now = ticks();
        let woken = woken.clamp(self.paused, now.max(self.paused));
        self.queue += now.saturating_sub(woken);
        let waited = woken - self.paused;
        match self.reason {
            Reason::Lock => self.lock += waited,
            Reason::Call | Reason::Timer | Reason::Other => self.wait += waited,
        }
    }

    /// It waits again, for this; for a lock of this name, if it has one.
    pub(crate) fn paused(&mut self, (reason, lock): (Reason, Option<Arc<str>>)) {
        self.paused = ticks();
        self.reason = reason;
        self.sample.lock = lock.or(self.sample.lock.take());
    }

    /// It is done: the sums become stamps, one behind the other.
    pub(crate) fn finished(mut self) -> Sample {
        let locked = self.promoted + self.lock;
        let waited = locked + self.wait;
        let points = [
            (Point::Promoted, self.promoted),
            (Point::Locked, locked),
            (Point::Waited, waited),
            (Point::Queued, waited + self.queue),
        ];
        points.into_iter().for_each(|(point, ticks)| self.sample.known(point, ticks));
        self.sample.at(Point::Finished);
        self.sample
    }
}

/// A sampled call whose two halves are not together yet.
pub(crate) struct Halves {
    pub(crate) call: CallNumber,
    pub(crate) service: &'static str,
    pub(crate) method: &'static str,
    pub(crate) sample: Sample,
    /// Whether the stamps from there have come, or none will.
    pub(crate) joined: bool,
    /// Whether the call has its result.
    pub(crate) done: bool,
}

impl Halves {
    pub(crate) fn new(
        call: CallNumber,
        (service, method): (&'static str, &'static str),
        sample: Sample,
    ) -> Halves {
        let joined = !sample.manner.concerns(Place::There);
        Halves { call, service, method, sample, joined, done: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wanted_is_stamped() {
        let mut sample = Sample::begin(Manner::Pair(4));
        sample.at(Point::Claimed);
        sample.at(Point::Marshalled);
        assert!(sample.taken.at(Point::Begun).is_some());
        assert_eq!(sample.taken.at(Point::Claimed), None);
        assert!(sample.taken.at(Point::Marshalled).is_some());
        assert_eq!(sample.manner(), None, "its receiver takes no stamp");
        assert_eq!(Sample::of(Manner::Pair(12)).manner(), Some(Manner::Pair(12)));
        assert!(Sample::begin(Manner::Pair(0)).taken.at(Point::Roomed).is_some());
    }

    #[test]
    fn a_tasks_time_is_told_apart() {
        let mut sample = Sample::of(Manner::Whole);
        sample.at(Point::Ran);
        let mut timed = Timed::new(sample, (Reason::Lock, Some("accounts".into())));
        let promoted = timed.promoted;
        while ticks() < promoted + 10_000 {}
        timed.resumed(promoted + 4_000);
        timed.paused((Reason::Timer, None));
        let paused = timed.paused;
        while ticks() < paused + 2_000 {}
        timed.resumed(paused + 1_000);
        let sample = timed.finished();
        let at = |point| sample.taken.at(point).unwrap();
        assert_eq!(at(Point::Locked) - at(Point::Promoted), 4_000);
        assert_eq!(at(Point::Waited) - at(Point::Locked), 1_000);
        assert!(at(Point::Queued) - at(Point::Waited) >= 6_000);
        assert!(at(Point::Finished) >= at(Point::Queued));
        assert_eq!(sample.lock.as_deref(), Some("accounts"));
        assert!(sample.taken.happened.has(Happened::PROMOTED));
    }

    #[test]
    fn a_wake_that_came_before_the_wait_is_no_wait() {
        let mut timed = Timed::new(Sample::of(Manner::Whole), (Reason::Other, None));
        timed.resumed(0);
        assert_eq!((timed.wait, timed.lock), (0, 0));
        timed.paused((Reason::Call, None));
        timed.resumed(u64::MAX);
        assert_eq!(timed.lock, 0);
    }
}
