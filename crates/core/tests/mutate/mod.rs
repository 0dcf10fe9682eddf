//! Mutations of valid bytes, by a seed.

/// A generator of numbers that depend on a seed (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `most`, which is not 0.
    pub(crate) fn below(&mut self, most: usize) -> usize {
        (((self.next() >> 32) * most as u64) >> 32) as usize
    }
}

/// Changes an input by one to four mutations.
pub(crate) fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    const BOUNDS: [u64; 8] = [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, u64::MAX];
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1).min(bytes.len().saturating_sub(1));
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => bytes.push(random.next() as u8),
            _ if bytes.is_empty() => {}
            2 | 3 => bytes[at] ^= 1 << random.below(8),
            4 => bytes[at] = random.next() as u8,
            5 => {
                let word = BOUNDS[random.below(8)].wrapping_add(random.below(3) as u64);
                let len = [1, 2, 4, 8][random.below(4)].min(bytes.len() - at);
                bytes[at..at + len].copy_from_slice(&word.to_le_bytes()[..len]);
            }
            6 => {
                let from = random.below(other.len());
                let len = random.below(16).min(other.len() - from).min(bytes.len() - at);
                bytes[at..at + len].copy_from_slice(&other[from..from + len]);
            }
            _ => drop(bytes.remove(at)),
        }
    }
}

/// Returns a number from the environment.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}
