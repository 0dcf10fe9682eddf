//! Random numbers that follow from a seed and are the same on every machine.

/// The generator of a plan, or of a payload.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number: the steps of a Weyl sequence, mixed (splitmix64).
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which is not 0.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        ((self.next() as u128 * end as u128) >> 64) as u64
    }

    /// Returns a number from `from` to `to`, both included.
    pub(crate) const fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// Returns an index below `len`, which is not 0.
    pub(crate) const fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns true this many times in a thousand.
    pub(crate) const fn permille(&mut self, times: u64) -> bool {
        self.below(1000) < times
    }

    /// Returns one of these, of which there is at least one.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }
}
