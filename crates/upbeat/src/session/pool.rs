//! Our slabs: buffers in which payloads lie that are too long for a slot.
//!
//! A slab is made when a message needs it, handed over on the socket and announced in the lane.
//! Requests and answers have slabs of their own: requests that the peer has no room for keep
//! theirs, and answers must not wait behind them. A payload beyond the biggest of the usual buffers has a
//! slab made for its length, which the next of about that length uses again; one that nobody used for a
//! while is given up. The first of a length has one buffer; where one is not enough the next has as many
//! as fit [`LONG_SLAB_BYTES`], so that a stream's writer need not keep step with its reader. What has come back is looked at when a buffer is wanted and none is known to be free.

use super::Session;
use super::write::{NoMemory, Put, Use};
use std::cell::{Cell, RefCell};
use std::time::Duration;
use upbeat_core::frame::Head;
use upbeat_core::limits::{
    BUFFER_BYTES, BUFFERS, BUFFERS_FIRST, LONG_BYTES_MAX, LONG_SLAB_BYTES, LONG_STEP_BYTES,
    MEDIUM_BYTES_MAX, SLAB_GENERATION, SLABS_LONG_MAX, SLABS_MAX, SLABS_PER_SIZE_MAX,
};
use upbeat_core::session::{Lack, class_of};
use upbeat_memory::lane::Lanes;
use upbeat_memory::slab::Slab;
use upbeat_memory::ticks::{Ticks, nanoseconds, ticks};

/// For how long a slab that lies idle is kept. Making one of 64 MiB costs several times what sending so
/// many bytes does, so one that is used every second stays.
const IDLE: Duration = Duration::from_secs(1);

/// The slabs, by their numbers.
#[derive(Default)]
pub(super) struct Pool {
    slabs: RefCell<Vec<Option<Own>>>,
    /// Slabs that were ever made.
    made: Cell<u32>,
    /// What the peer had returned of each when there was no buffer for what uses it; nothing of others.
    seen: RefCell<Vec<Option<u64>>>,
}

pub(super) struct Own {
    pub(super) slab: Slab,
    usage: Use,
    /// When it was first seen to lie idle, in ticks; 0 since it was used.
    idle_since: Cell<u64>,
}

/// Which slab a payload needs.
#[derive(Clone, Copy)]
enum Shape {
    /// Buffers of this of the usual sizes.
    Usual(usize),
    /// Buffers of so many bytes.
    Long(usize),
}

impl Shape {
    fn of(len: usize) -> Shape {
        match class_of(len) {
            size if size < BUFFER_BYTES.len() => Shape::Usual(size),
            _ => Shape::Long(len.next_multiple_of(LONG_STEP_BYTES)),
        }
    }

    /// Whether a slab is of this shape.
    fn is_of(self, slab: &Slab) -> bool {
        match self {
            Shape::Usual(size) => slab.each() == BUFFER_BYTES[size],
            // A buffer much longer than its payload is kept for one that needs it.
            Shape::Long(each) => is_long(slab) && (each..=4 * each).contains(&slab.each()),
        }
    }
}

fn is_long(slab: &Slab) -> bool {
    slab.each() > MEDIUM_BYTES_MAX
}

/// What a slab of so many bytes counts of [`LONG_BYTES_MAX`].
fn counted(bytes: usize) -> usize {
    bytes.min(LONG_BYTES_MAX / 2)
}

impl Pool {
    /// The slabs, to claim a buffer of one.
    pub(super) fn slabs(&self) -> std::cell::Ref<'_, Vec<Option<Own>>> {
        self.slabs.borrow()
    }

    /// A slab that has a free buffer for so many bytes.
    fn find(&self, usage: Use, shape: Shape, lanes: &Lanes) -> Option<usize> {
        // The last made first, for it has more buffers.
        self.slabs.borrow().iter().enumerate().rposition(|(number, own)| {
            let own = own.as_ref().filter(|own| own.usage == usage && shape.is_of(&own.slab));
            own.is_some_and(|own| own.slab.has_free(|| lanes.peer_returned(number)))
        })
    }

    /// One more slab of this shape, if there may be one: its number, the bytes of a buffer, and how
    /// many.
    fn next(&self, usage: Use, shape: Shape) -> Option<(usize, usize, u32)> {
        let slabs = self.slabs.borrow();
        let free = slabs.iter().position(Option::is_none).unwrap_or(slabs.len());
        let ours = || slabs.iter().flatten().filter(|own| own.usage == usage);
        let alike = ours().filter(|own| shape.is_of(&own.slab)).count();
        let (may, each, count) = match shape {
            Shape::Usual(size) => {
                let (most, buffers) = match (usage, alike) {
                    (Use::Granted, _) => (1, BUFFERS),
                    (_, 0) => (SLABS_PER_SIZE_MAX, BUFFERS_FIRST),
                    _ => (SLABS_PER_SIZE_MAX, BUFFERS),
                };
                (alike < most, BUFFER_BYTES[size], buffers[size])
            }
            Shape::Long(each) => {
                let count = if alike == 0 { 1 } else { (LONG_SLAB_BYTES / each).clamp(1, 32) };
                let long = ours().filter(|own| is_long(&own.slab));
                let long = long.map(|own| own.slab.each() * own.slab.count() as usize);
                let (number, bytes) =
                    long.fold((0, 0), |(number, bytes), slab| (number + 1, bytes + counted(slab)));
                let all = bytes + counted(each * count);
                (number < SLABS_LONG_MAX && all <= LONG_BYTES_MAX, each, count as u32)
            }
        };
        (may && free < SLABS_MAX).then_some((free, each, count))
    }

    /// Notes that there was no buffer for this, and what has come back so far.
    fn lacks(&self, usage: Use, lanes: &Lanes) {
        let (slabs, mut seen) = (self.slabs.borrow(), self.seen.borrow_mut());
        seen.resize(slabs.len(), None);
        for (number, own) in slabs.iter().enumerate() {
            if own.as_ref().is_some_and(|own| own.usage == usage) {
                seen[number] = Some(lanes.peer_returned(number));
            }
        }
    }

    /// Nobody waits for a buffer any more.
    pub(super) fn lacks_none(&self) {
        self.seen.borrow_mut().clear();
    }

    /// Whether buffers have come back since there was none: a good part of a slab, or any.
    pub(super) fn has_more(&self, part: bool, lanes: &Lanes) -> bool {
        let (slabs, seen) = (self.slabs.borrow(), self.seen.borrow());
        let mut slabs = slabs.iter().zip(seen.iter()).enumerate();
        slabs.any(|(number, (own, seen))| {
            let Some(seen) = seen else { return false };
            let came = (seen ^ lanes.peer_returned(number)).count_ones();
            let count = own.as_ref().map_or(1, |own| own.slab.count());
            came >= if part { count.div_ceil(4) } else { 1 }
        })
    }
}

impl Session {
    /// The number of one of our slabs that has a free buffer for so many bytes; a new one, if there
    /// may be one more.
    pub(super) fn slab_for(&self, usage: Use, len: usize) -> Result<usize, Put> {
        let lanes = &self.carrier.lanes;
        let shape = Shape::of(len);
        match self.pool.find(usage, shape, lanes) {
            Some(number) => Ok(number),
            None => self.make_slab(usage, shape),
        }
    }

    #[cold]
    fn make_slab(&self, usage: Use, shape: Shape) -> Result<usize, Put> {
        let (pool, lanes) = (&self.pool, &self.carrier.lanes);
        let mut next = pool.next(usage, shape);
        if next.is_none() && matches!(shape, Shape::Long(_)) {
            // Those of other lengths, if they lie idle, make room.
            self.retire_slabs(|own| own.usage == usage);
            next = pool.next(usage, shape);
        }
        let Some((number, each, count)) = next else {
            pool.lacks(usage, lanes);
            // What came back before it was noted what had is told by nothing else.
            let free = pool.find(usage, shape, lanes);
            return free.ok_or_else(|| self.lacks(Lack::Buffer));
        };
        let bytes = each * count as usize;
        let segment = self.carrier.make_segment("upbeat-slab", bytes).map_err(|error| {
            let text = error.to_string().into();
            Put::Memory(Box::new(NoMemory { bytes, text }))
        })?;
        // A value that is being written is none that a slab is made for.
        let Ok(mut slabs) = pool.slabs.try_borrow_mut() else { return Err(self.lacks(Lack::Slot)) };
        // Claimed first: once the segment has been sent it must be announced.
        let Ok(mut claim) = lanes.claim(1, 0) else { return Err(self.lacks(Lack::Slot)) };
        let made = pool.made.get();
        let sent = self.carrier.send_segment(SLAB_GENERATION + made, &segment);
        sent.map_err(|fault| self.growth_error(fault))?;
        pool.made.set(made + 1);
        claim.write_word(0, each as u64 | u64::from(count) << 32);
        claim.commit(Head::slab(number as u32).words(), 8);
        let slab = Slab::new(segment.into_region(), each, count, lanes.peer_returned(number));
        if number == slabs.len() {
            slabs.push(None);
        }
        slabs[number] = Some(Own { slab, usage, idle_since: Cell::new(0) });
        Ok(number)
    }

    /// Gives up slabs for long payloads that have lain idle for as long as [such ones are kept](IDLE).
    pub(super) fn retire_unused_slabs(&self) {
        self.retire_slabs(|own| own.kept_ns() == 0);
    }

    /// Gives up all slabs for long payloads that lie idle.
    pub(crate) fn retire_all_slabs(&self) {
        self.retire_slabs(|_| true);
    }

    /// Whether a slab for long payloads lies idle, and for how many nanoseconds it is still kept.
    pub(super) fn slabs_kept_ns(&self) -> Option<u64> {
        let slabs = self.pool.slabs.borrow();
        let kept = |(number, own): (usize, &Option<Own>)| {
            let own = own.as_ref()?;
            self.lies_idle(number, own).then(|| own.kept_ns())
        };
        slabs.iter().enumerate().filter_map(kept).min()
    }

    /// Whether it is for long payloads, and nobody uses it.
    fn lies_idle(&self, number: usize, own: &Own) -> bool {
        is_long(&own.slab) && own.slab.is_idle(self.carrier.lanes.peer_returned(number))
    }

    /// Gives up those that lie idle and are not wanted.
    fn retire_slabs(&self, unwanted: impl Fn(&Own) -> bool) {
        let Ok(mut slabs) = self.pool.slabs.try_borrow_mut() else { return };
        for (number, place) in slabs.iter_mut().enumerate() {
            let Some(own) = place.as_ref() else { continue };
            if self.lies_idle(number, own) && unwanted(own) {
                let Ok(claim) = self.carrier.lanes.claim(1, 0) else { return };
                claim.commit(Head::retire(number as u32).words(), 0);
                *place = None;
            }
        }
    }
}

impl Own {
    /// It is being used.
    pub(super) fn touch(&self) {
        self.idle_since.set(0);
    }

    /// It lies idle: for how many nanoseconds it is still kept.
    fn kept_ns(&self) -> u64 {
        if self.idle_since.get() == 0 {
            self.idle_since.set(ticks());
        }
        nanoseconds(IDLE).saturating_sub(Ticks::since(self.idle_since.get()).nanoseconds())
    }
}
