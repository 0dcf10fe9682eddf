//! Slabs: segments of a side's own, cut into buffers for payloads that are too long for a slot.
//!
//! Requests and replies have slabs of their own: requests that the peer has no room for keep theirs, and
//! replies must not wait behind them. Requests for which room was granted have others again. A payload
//! beyond the biggest of the usual buffers has a slab made for its length, which the next of about that
//! length uses again; one that nobody used for a while is given up. The first of a length has one buffer;
//! where one is not enough, the next has as many as fit [`LONG_SLAB_BYTES`], so that a stream's writer need
//! not keep step with its reader. The memory of slabs, and which buffers are free, are left to others; they
//! are asked by the number of the slab. Invariant: there are no more slabs than [`SLABS_MAX`], and no more
//! bytes of long ones than [`LONG_BYTES_MAX`] for each use.

use super::owed::class_of;
use crate::limits::{
    BUFFER_BYTES, BUFFERS, BUFFERS_FIRST, LONG_BYTES_MAX, LONG_SLAB_BYTES, LONG_STEP_BYTES,
    MEDIUM_BYTES_MAX, SLABS_LONG_MAX, SLABS_MAX, SLABS_PER_SIZE_MAX,
};
use alloc::vec::Vec;
use core::cell::Cell;

/// Nanoseconds for which a slab that lies idle is kept. Making one of 64 MiB costs several times what
/// sending so many bytes does, so one that is used every second stays.
pub const SLAB_KEPT_NS: u64 = 1_000_000_000;

/// The use of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Requests.
    Requests,
    /// Requests for which room was granted: others that wait behind them must not take their buffers.
    Granted,
    /// Replies.
    Replies,
}

/// The shape of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a buffer.
    pub each: usize,
    /// The number of buffers.
    pub count: u32,
}

/// The slabs that a payload may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// Slabs of this of the usual sizes.
    Usual(usize),
    /// Slabs whose buffers have so many bytes, or a few times as many.
    Long(usize),
}

impl Wanted {
    fn of(len: usize) -> Wanted {
        match class_of(len) {
            size if size < BUFFER_BYTES.len() => Wanted::Usual(size),
            _ => Wanted::Long(len.next_multiple_of(LONG_STEP_BYTES)),
        }
    }

    fn takes(self, shape: Shape) -> bool {
        match self {
            Wanted::Usual(size) => shape.each == BUFFER_BYTES[size],
            // A buffer much longer than its payload is kept for one that needs it.
            Wanted::Long(each) => shape.is_long() && (each..=4 * each).contains(&shape.each),
        }
    }
}

impl Shape {
    /// Whether its buffers are longer than the usual ones.
    const fn is_long(self) -> bool {
        self.each > MEDIUM_BYTES_MAX
    }

    /// Bytes of the whole slab.
    pub const fn bytes(self) -> usize {
        self.each * self.count as usize
    }

    /// Bytes that the slab counts of [`LONG_BYTES_MAX`].
    fn counted(self) -> usize {
        self.bytes().min(LONG_BYTES_MAX / 2)
    }
}

#[derive(Debug)]
struct Own {
    shape: Shape,
    usage: Use,
    /// Since when the slab was seen to lie idle, if it was not used since.
    idle_since: Cell<Option<u64>>,
    /// The peer's returns when there was no buffer for this use, if one is lacking.
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
    slabs: Vec<Option<Own>>,
}

impl Slabs {
    /// No slabs.
    pub const fn new() -> Slabs {
        Slabs { slabs: Vec::new() }
    }

    /// Returns a slab that has a free buffer for so many bytes.
    pub fn find(&self, usage: Use, len: usize, has_free: impl Fn(usize) -> bool) -> Option<usize> {
        let wanted = Wanted::of(len);
        // The last made first, for it has more buffers.
        self.slabs.iter().enumerate().rposition(|(number, own)| {
            let own = own.as_ref().filter(|own| own.usage == usage && wanted.takes(own.shape));
            own.is_some() && has_free(number)
        })
    }

    /// Returns the number and the shape of one more slab for payloads of so many bytes, if there may be
    /// one.
    pub fn next(&self, usage: Use, len: usize) -> Option<(usize, Shape)> {
        let free = self.slabs.iter().position(Option::is_none).unwrap_or(self.slabs.len());
        let wanted = Wanted::of(len);
        let ours = || self.slabs.iter().flatten().filter(|own| own.usage == usage);
        let alike = ours().filter(|own| wanted.takes(own.shape)).count();
        let (may, shape) = match wanted {
            Wanted::Usual(size) => {
                let (most, buffers) = match (usage, alike) {
                    (Use::Granted, _) => (1, BUFFERS),
                    (_, 0) => (SLABS_PER_SIZE_MAX, BUFFERS_FIRST),
                    _ => (SLABS_PER_SIZE_MAX, BUFFERS),
                };
                (alike < most, Shape { each: BUFFER_BYTES[size], count: buffers[size] })
            }
            Wanted::Long(each) => {
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

    /// Whether there is a slab for payloads of so many bytes, whose buffers come back.
    pub fn serves(&self, usage: Use, len: usize) -> bool {
        let wanted = Wanted::of(len);
        self.slabs.iter().flatten().any(|own| own.usage == usage && wanted.takes(own.shape))
    }

    /// Whether slabs of the same use that lie idle are given up for one for payloads of so many bytes.
    pub fn makes_way(len: usize) -> bool {
        matches!(Wanted::of(len), Wanted::Long(_))
    }

    /// The slab of this number was made.
    pub fn made(&mut self, number: usize, usage: Use, shape: Shape) {
        if number >= self.slabs.len() {
            self.slabs.resize_with(number + 1, || None);
        }
        let own = Own { shape, usage, idle_since: Cell::new(None), seen: None };
        self.slabs[number] = Some(own);
    }

    /// The slab of this number was given up.
    pub fn retired(&mut self, number: usize) {
        self.slabs[number] = None;
    }

    /// A buffer of this slab is used.
    pub fn used(&self, number: usize) {
        if let Some(Some(own)) = self.slabs.get(number) {
            own.idle_since.set(None);
        }
    }

    /// Notes that there was no buffer for this use, and what the peer has returned of each slab so far.
    pub fn lacks(&mut self, usage: Use, returned: impl Fn(usize) -> u64) {
        for (number, own) in self.slabs.iter_mut().enumerate() {
            if let Some(own) = own.as_mut().filter(|own| own.usage == usage) {
                own.seen = Some(returned(number));
            }
        }
    }

    /// Nobody waits for a buffer any more.
    pub fn lacks_none(&mut self) {
        self.slabs.iter_mut().flatten().for_each(|own| own.seen = None);
    }

    /// Whether buffers have come back since there was none: a good part of a slab, or any.
    pub fn has_more(&self, part: bool, returned: impl Fn(usize) -> u64) -> bool {
        self.slabs.iter().enumerate().any(|(number, own)| {
            let Some(Own { shape, seen: Some(seen), .. }) = own else { return false };
            let came = (seen ^ returned(number)).count_ones();
            came >= if part { shape.count.div_ceil(4) } else { 1 }
        })
    }

    /// The slabs for long payloads that lie idle, by their numbers; those of one use, or of all.
    pub fn idle(&self, usage: Option<Use>, lies_idle: impl Fn(usize) -> bool) -> Vec<usize> {
        self.long_idle(&lies_idle)
            .filter(|(_, own)| usage.is_none_or(|usage| own.usage == usage))
            .map(|(number, _)| number)
            .collect()
    }

    /// Those of them that have lain idle for [`SLAB_KEPT_NS`].
    pub fn unused(&self, now: u64, lies_idle: impl Fn(usize) -> bool) -> Vec<usize> {
        let idle = self.long_idle(&lies_idle).filter(|(_, own)| own.kept(now) == 0);
        idle.map(|(number, _)| number).collect()
    }

    /// For how many nanoseconds a slab that lies idle is still kept, if one does.
    pub fn kept(&self, now: u64, lies_idle: impl Fn(usize) -> bool) -> Option<u64> {
        self.long_idle(&lies_idle).map(|(_, own)| own.kept(now)).min()
    }

    fn long_idle(&self, lies_idle: &impl Fn(usize) -> bool) -> impl Iterator<Item = (usize, &Own)> {
        let slabs = self.slabs.iter().enumerate();
        let slabs = slabs.filter_map(|(number, own)| Some((number, own.as_ref()?)));
        slabs.filter(|(number, own)| own.shape.is_long() && lies_idle(*number))
    }
}

impl Own {
    /// The slab lies idle. Returns for how many nanoseconds it is still kept.
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
        assert_eq!(make(&mut slabs, Use::Granted, 300), None, "those that wait need no more");
        assert_eq!(slabs.find(Use::Requests, 512, |_| true), Some(1), "it has more buffers");
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
        assert_eq!(slabs.find(Use::Replies, 200 << 10, |_| true), None, "it is much longer");
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
        assert!(slabs.next(Use::Requests, 2 << 20).is_none(), "there are four");
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
    fn a_part_of_a_slab_or_any_buffer_ends_a_lack_of_its_use() {
        let mut slabs = Slabs::new();
        make(&mut slabs, Use::Requests, 300);
        assert!(!slabs.has_more(false, |_| 1), "nothing is lacking");
        slabs.lacks(Use::Replies, |_| 0);
        assert!(!slabs.has_more(false, |_| 1), "it is of another use");
        slabs.lacks(Use::Requests, |_| 0b100);
        assert!(!slabs.has_more(false, |_| 0b100) && slabs.has_more(false, |_| 0b101));
        assert!(!slabs.has_more(true, |_| 0b101) && slabs.has_more(true, |_| 0b1000));
        slabs.lacks_none();
        assert!(!slabs.has_more(false, |_| 0));
    }

    #[test]
    fn a_long_slab_that_nobody_uses_is_given_up_in_time() {
        let mut slabs = Slabs::new();
        make(&mut slabs, Use::Requests, 300);
        let (long, _) = make(&mut slabs, Use::Requests, 1 << 20).unwrap();
        assert_eq!(slabs.kept(5, |_| false), None, "its buffer is lent");
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
