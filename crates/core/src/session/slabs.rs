//! Slabs: segments of one side that are divided into buffers, for payloads that are too long for a slot.
//!
//! Requests and replies have separate slabs, because requests for which the peer has no room keep their buffers,
//! and replies must not wait behind them. Requests with granted room have separate slabs again. A payload that is
//! longer than the largest usual buffer gets a slab of its length, which later payloads of about that length use
//! again; a slab that is unused for a while is given up. The first slab of a length has one buffer. If one is not
//! enough, the next slab has as many as fit [`LONG_SLAB_BYTES`], so that the writer of a stream need not wait for
//! its reader at each item. Other modules have the memory of slabs and know which buffers are free; they are asked
//! with the number of the slab. Invariant: there are at most [`SLABS_MAX`] slabs, and at most [`LONG_BYTES_MAX`]
//! bytes of long ones for each use.

use super::send_queue::class_of;
use crate::limits::{
    BUFFER_BYTES, BUFFERS, BUFFERS_FIRST, LONG_BYTES_MAX, LONG_SLAB_BYTES, LONG_STEP_BYTES,
    MEDIUM_BYTES_MAX, SLABS_LONG_MAX, SLABS_MAX, SLABS_PER_SIZE_MAX,
};
use alloc::vec::Vec;
use core::cell::Cell;

/// The nanoseconds for which an idle slab is kept. Creating a slab of 64 MiB costs several times as much as
/// sending that many bytes, so a slab that is used every second must stay.
pub const SLAB_KEPT_NS: u64 = 1_000_000_000;

/// The use of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Requests.
    Requests,
    /// Requests for which room was granted. Other requests that wait behind them must not take their buffers.
    Granted,
    /// Replies.
    Replies,
}

/// The shape of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The bytes of a buffer.
    pub each: usize,
    /// The number of buffers.
    pub count: u32,
}

/// The slabs that a payload may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantedSlab {
    /// Slabs of the usual size with this index.
    Usual(usize),
    /// Slabs whose buffers have this many bytes, or a few times as many.
    Long(usize),
}

impl WantedSlab {
    fn of(len: usize) -> WantedSlab {
        match class_of(len) {
            size if size < BUFFER_BYTES.len() => WantedSlab::Usual(size),
            _ => WantedSlab::Long(len.next_multiple_of(LONG_STEP_BYTES)),
        }
    }

    fn takes(self, shape: Shape) -> bool {
        match self {
            WantedSlab::Usual(size) => shape.each == BUFFER_BYTES[size],
            // A buffer that is much longer than the payload is kept for payloads that need it.
            WantedSlab::Long(each) => shape.is_long() && (each..=4 * each).contains(&shape.each),
        }
    }
}

impl Shape {
    /// Returns whether the buffers are longer than the usual ones.
    const fn is_long(self) -> bool {
        self.each > MEDIUM_BYTES_MAX
    }

    /// Returns the bytes of the whole slab.
    pub const fn bytes(self) -> usize {
        self.each * self.count as usize
    }

    /// Returns the bytes that the slab counts against [`LONG_BYTES_MAX`].
    fn counted(self) -> usize {
        self.bytes().min(LONG_BYTES_MAX / 2)
    }
}

#[derive(Debug)]
struct OwnSlab {
    shape: Shape,
    usage: Use,
    /// When the slab was first seen idle, unless it was used since.
    idle_since: Cell<Option<u64>>,
    /// The peer's word of returns when there was no buffer for this use, if one is lacking.
    seen: Option<u64>,
}

/// The slabs of one side of a session, by their numbers.
///
/// ```
/// use upbeat_core::session::{Slabs, Use};
///
/// let mut slabs = Slabs::new();
/// let (number, shape) = slabs.next(Use::Requests, 600).unwrap();
/// slabs.made(number, Use::Requests, shape);
/// assert_eq!((number, shape.each), (0, 2048));
/// assert_eq!(slabs.find(Use::Requests, 1000, |_| true), Some(0));
/// assert_eq!(slabs.find(Use::Replies, 1000, |_| true), None);
/// ```
#[derive(Debug, Default)]
pub struct Slabs {
    slabs: Vec<Option<OwnSlab>>,
}

impl Slabs {
    /// Creates a table without slabs.
    pub const fn new() -> Slabs {
        Slabs { slabs: Vec::new() }
    }

    /// Returns a slab that has a free buffer for `len` bytes.
    pub fn find(&self, usage: Use, len: usize, has_free: impl Fn(usize) -> bool) -> Option<usize> {
        let wanted = WantedSlab::of(len);
        // The slab that was created last comes first, since it has more buffers.
        self.slabs.iter().enumerate().rposition(|(number, own)| {
            let own = own.as_ref().filter(|own| own.usage == usage && wanted.takes(own.shape));
            own.is_some() && has_free(number)
        })
    }

    /// Returns the number and the shape of one more slab for payloads of `len` bytes, if another one is allowed.
    pub fn next(&self, usage: Use, len: usize) -> Option<(usize, Shape)> {
        let free = self.slabs.iter().position(Option::is_none).unwrap_or(self.slabs.len());
        let wanted = WantedSlab::of(len);
        let ours = || self.slabs.iter().flatten().filter(|own| own.usage == usage);
        let alike = ours().filter(|own| wanted.takes(own.shape)).count();
        let (may, shape) = match wanted {
            WantedSlab::Usual(size) => {
                let (most, buffers) = match (usage, alike) {
                    (Use::Granted, _) => (1, BUFFERS),
                    (_, 0) => (SLABS_PER_SIZE_MAX, BUFFERS_FIRST),
                    _ => (SLABS_PER_SIZE_MAX, BUFFERS),
                };
                (alike < most, Shape { each: BUFFER_BYTES[size], count: buffers[size] })
            }
            WantedSlab::Long(each) => {
                let count = if alike == 0 { 1 } else { (LONG_SLAB_BYTES / each).clamp(1, 32) };
                let shape = Shape { each, count: count as u32 };
                let long = ours().map(|own| own.shape).filter(|shape| shape.is_long());
                let (number, bytes) = long.fold((0, 0), |(number, bytes), shape: Shape| {
                    (number + 1, bytes + shape.counted())
                });
                let fits = bytes + shape.counted() <= LONG_BYTES_MAX;
                (number < SLABS_LONG_MAX && fits, shape)
            }
        };
        (may && free < SLABS_MAX).then_some((free, shape))
    }

    /// Returns whether there is a slab for payloads of `len` bytes, whose buffers will be returned.
    pub fn serves(&self, usage: Use, len: usize) -> bool {
        let wanted = WantedSlab::of(len);
        self.slabs.iter().flatten().any(|own| own.usage == usage && wanted.takes(own.shape))
    }

    /// Returns whether idle slabs of the same use are given up for a slab for payloads of `len` bytes.
    pub fn makes_way(len: usize) -> bool {
        matches!(WantedSlab::of(len), WantedSlab::Long(_))
    }

    /// Records that the slab of this number was created.
    pub fn made(&mut self, number: usize, usage: Use, shape: Shape) {
        if number >= self.slabs.len() {
            self.slabs.resize_with(number + 1, || None);
        }
        let own = OwnSlab { shape, usage, idle_since: Cell::new(None), seen: None };
        self.slabs[number] = Some(own);
    }

    /// Records that the slab of this number was given up.
    pub fn retired(&mut self, number: usize) {
        self.slabs[number] = None;
    }

    /// Records that a buffer of this slab is used.
    pub fn used(&self, number: usize) {
        if let Some(Some(own)) = self.slabs.get(number) {
            own.idle_since.set(None);
        }
    }

    /// Records that there was no buffer for this use, and the peer's returns of each slab so far.
    pub fn record_missing(&mut self, usage: Use, returned: impl Fn(usize) -> u64) {
        for (number, own) in self.slabs.iter_mut().enumerate() {
            if let Some(own) = own.as_mut().filter(|own| own.usage == usage) {
                own.seen = Some(returned(number));
            }
        }
    }

    /// Records that no sender waits for a buffer any more.
    pub fn clear_missing(&mut self) {
        self.slabs.iter_mut().flatten().for_each(|own| own.seen = None);
    }

    /// Returns whether buffers were returned since none was free: a good part of a slab, or any.
    pub fn has_more(&self, part: bool, returned: impl Fn(usize) -> u64) -> bool {
        self.slabs.iter().enumerate().any(|(number, own)| {
            let Some(OwnSlab { shape, seen: Some(seen), .. }) = own else { return false };
            let came = (seen ^ returned(number)).count_ones();
            came >= if part { shape.count.div_ceil(4) } else { 1 }
        })
    }

    /// Returns the numbers of the idle slabs for long payloads, of one use or of all.
    pub fn idle(&self, usage: Option<Use>, lies_idle: impl Fn(usize) -> bool) -> Vec<usize> {
        self.long_idle(&lies_idle)
            .filter(|(_, own)| usage.is_none_or(|usage| own.usage == usage))
            .map(|(number, _)| number)
            .collect()
    }

    /// Returns the numbers of the slabs for long payloads that have been idle for [`SLAB_KEPT_NS`].
    pub fn unused(&self, now: u64, lies_idle: impl Fn(usize) -> bool) -> Vec<usize> {
        let idle = self.long_idle(&lies_idle).filter(|(_, own)| own.kept(now) == 0);
        idle.map(|(number, _)| number).collect()
    }

    /// Returns for how many nanoseconds an idle slab is still kept, if there is one.
    pub fn kept(&self, now: u64, lies_idle: impl Fn(usize) -> bool) -> Option<u64> {
        self.long_idle(&lies_idle).map(|(_, own)| own.kept(now)).min()
    }

    fn long_idle(
        &self,
        lies_idle: &impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = (usize, &OwnSlab)> {
        let slabs = self.slabs.iter().enumerate();
        let slabs = slabs.filter_map(|(number, own)| Some((number, own.as_ref()?)));
        slabs.filter(|(number, own)| own.shape.is_long() && lies_idle(*number))
    }
}

impl OwnSlab {
    /// Records that the slab is idle. Returns for how many nanoseconds it is still kept.
    fn kept(&self, now: u64) -> u64 {
        let since = self.idle_since.get().unwrap_or(now);
        self.idle_since.set(Some(since));
        (since + SLAB_KEPT_NS).saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(slabs: &mut Slabs, usage: Use, len: usize) -> Option<(usize, Shape)> {
        let (number, shape) = slabs.next(usage, len)?;
        slabs.made(number, usage, shape);
        Some((number, shape))
    }

    #[test]
    fn the_first_slab_of_a_size_is_small_and_there_are_two() {
        let mut slabs = Slabs::new();
        let shapes = [(); 3].map(|()| make(&mut slabs, Use::Requests, 300));
        let [small, more] = [BUFFERS_FIRST[0], BUFFERS[0]].map(|count| Shape { each: 512, count });
        assert_eq!(shapes, [Some((0, small)), Some((1, more)), None]);
        assert_eq!(make(&mut slabs, Use::Granted, 300), Some((2, more)));
        assert_eq!(
            make(&mut slabs, Use::Granted, 300),
            None,
            "granted requests need only one slab"
        );
        assert_eq!(
            slabs.find(Use::Requests, 512, |_| true),
            Some(1),
            "the second slab has more buffers"
        );
        assert_eq!(slabs.find(Use::Requests, 512, |number| number == 0), Some(0));
        assert_eq!(slabs.find(Use::Replies, 512, |_| true), None);
        assert_eq!(slabs.find(Use::Requests, 513, |_| true), None);
        assert!(slabs.serves(Use::Requests, 512) && slabs.serves(Use::Granted, 512));
        assert!(!slabs.serves(Use::Requests, 513) && !slabs.serves(Use::Replies, 512));
    }

    #[test]
    fn a_long_slab_serves_payloads_of_about_its_length() {
        let mut slabs = Slabs::new();
        let (first, shape) = make(&mut slabs, Use::Replies, 2 << 20).unwrap();
        assert_eq!(shape, Shape { each: 2 << 20, count: 1 });
        assert_eq!(slabs.find(Use::Replies, 300 << 10, |_| true), Some(first));
        assert_eq!(
            slabs.find(Use::Replies, 200 << 10, |_| true),
            None,
            "the buffers are much longer than the payload"
        );
        let (_, shape) = make(&mut slabs, Use::Replies, 2 << 20).unwrap();
        assert_eq!(shape.bytes(), LONG_SLAB_BYTES, "one buffer was not enough");
    }

    #[test]
    fn long_slabs_are_bounded_in_number_and_bytes_for_each_use() {
        let mut slabs = Slabs::new();
        for len in [1 << 20, 100 << 20, 100 << 20] {
            assert!(make(&mut slabs, Use::Requests, len).is_some());
        }
        assert!(slabs.next(Use::Requests, 200 << 20).is_none() && Slabs::makes_way(200 << 20));
        assert!(slabs.next(Use::Replies, 200 << 20).is_some() && !Slabs::makes_way(64 << 10));
        assert!(make(&mut slabs, Use::Requests, 300 << 10).is_some());
        assert!(slabs.next(Use::Requests, 2 << 20).is_none(), "there are four long slabs");
        slabs.retired(1);
        assert_eq!(slabs.next(Use::Requests, 2 << 20).map(|(number, _)| number), Some(1));
    }

    #[test]
    fn slabs_never_exceed_their_number() {
        let mut slabs = Slabs::new();
        for _ in 0..3 {
            for usage in [Use::Requests, Use::Granted, Use::Replies] {
                for len in BUFFER_BYTES.into_iter().chain([1 << 20, 8 << 20, 64 << 20]) {
                    make(&mut slabs, usage, len);
                }
            }
        }
        assert!(slabs.slabs.len() <= SLABS_MAX);
    }

    #[test]
    fn a_returned_buffer_of_the_same_use_ends_the_lack() {
        let mut slabs = Slabs::new();
        make(&mut slabs, Use::Requests, 300);
        assert!(!slabs.has_more(false, |_| 1), "no buffer is lacking");
        slabs.record_missing(Use::Replies, |_| 0);
        assert!(!slabs.has_more(false, |_| 1), "the slab has another use");
        slabs.record_missing(Use::Requests, |_| 0b100);
        assert!(!slabs.has_more(false, |_| 0b100) && slabs.has_more(false, |_| 0b101));
        assert!(!slabs.has_more(true, |_| 0b101) && slabs.has_more(true, |_| 0b1000));
        slabs.clear_missing();
        assert!(!slabs.has_more(false, |_| 0));
    }

    #[test]
    fn an_unused_long_slab_is_given_up_in_time() {
        let mut slabs = Slabs::new();
        make(&mut slabs, Use::Requests, 300);
        let (long, _) = make(&mut slabs, Use::Requests, 1 << 20).unwrap();
        assert_eq!(slabs.kept(5, |_| false), None, "the buffer is lent");
        assert_eq!(slabs.kept(5, |_| true), Some(SLAB_KEPT_NS));
        assert_eq!(slabs.kept(9, |_| true), Some(SLAB_KEPT_NS - 4));
        assert!(slabs.unused(4 + SLAB_KEPT_NS, |_| true).is_empty());
        assert_eq!(slabs.unused(5 + SLAB_KEPT_NS, |_| true), [long]);
        slabs.used(long);
        assert!(slabs.unused(5 + SLAB_KEPT_NS, |_| true).is_empty());
        assert_eq!(slabs.idle(Some(Use::Requests), |_| true), [long]);
        assert!(slabs.idle(Some(Use::Replies), |_| true).is_empty());
        assert_eq!(slabs.idle(None, |_| true), [long]);
    }
}
