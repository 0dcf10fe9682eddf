//! The variables that one process owns and the other reads, which are the same for Upbeat and for every peer.
//!
//! The owner sets all of them anew before each round of reads, and does nothing during the round. Each number names the
//! next one to read, so that a read begins when the last one has ended, and its time is a latency. All values contain the
//! number of the round: a read that finds an old value is an error.

use crate::case::{Fault, Op};
use crate::payload::KIB;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};
use upbeat_cli::bench::timing::{Round, Work};

/// The number of numbers: a power of two, so that the chain leads through all of them.
pub(crate) const NUMBERS: usize = 64;

/// The bytes of a large value that contain the number of the round.
const HEAD: usize = 8;

/// The step between the bytes that are compared, which has no divisor in common with their number.
const STEP: usize = 61;

/// The time within which the owner has set the values of a round.
const PATIENCE: Duration = Duration::from_secs(5);

/// The values of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    round: u64,
}

impl Values {
    /// Moves on to the next round, and returns its values.
    pub(crate) fn next(&mut self) -> Values {
        self.round += 1;
        *self
    }

    /// Returns the number at an index. The owner sets the number at 0 last, for which the reader waits.
    pub(crate) fn number(self, at: usize) -> u64 {
        self.round << 16 | ((at * 21 + 13) % NUMBERS) as u64
    }

    /// Returns the large value.
    pub(crate) fn bytes(self) -> [u8; KIB] {
        let mut bytes = std::array::from_fn(|at| self.byte(at));
        bytes[..HEAD].copy_from_slice(&self.round.to_le_bytes());
        bytes
    }

    /// Returns the byte at an index behind [`HEAD`].
    fn byte(self, at: usize) -> u8 {
        (at * 7 + at / 256 + self.round as usize) as u8
    }

    /// Returns the index of the next number, or [`None`] if this one is of another round.
    #[inline(always)]
    fn follow(self, number: u64) -> Option<usize> {
        (number >> 16 == self.round).then_some((number & 0xffff) as usize)
    }

    /// Measures reads of numbers, after the owner has set those of the round.
    #[inline(always)]
    pub(crate) fn read_numbers(
        self,
        work: Work,
        mut read: impl FnMut(usize) -> Result<u64, Fault>,
    ) -> Result<Round, Fault> {
        await_owner(|| Ok(self.follow(read(0)?).is_some()))?;
        let mut at = 0;
        work.try_run(|| {
            at = self.follow(read(at)?).ok_or_else(|| self.stale())?;
            Ok(())
        })
    }

    /// Measures reads of the large value, after the owner has set that of the round. `read` shows each value that it finds.
    #[inline(always)]
    pub(crate) fn read_bytes(
        self,
        work: Work,
        mut read: impl FnMut(&mut Check) -> Result<(), Fault>,
    ) -> Result<Round, Fault> {
        let mut check = Check { values: self, at: HEAD, is_current: false };
        await_owner(|| read(&mut check).map(|()| check.is_current))?;
        work.try_run(|| {
            check.is_current = false;
            read(&mut check)?;
            if check.is_current { Ok(()) } else { Err(self.stale()) }
        })
    }

    #[cold]
    fn stale(self) -> Fault {
        Fault::new(format!("a read in round {} has found another value", self.round))
    }
}

/// Looks at large values.
pub(crate) struct Check {
    values: Values,
    /// The byte that is compared. All are compared in turn, one in each read.
    at: usize,
    is_current: bool,
}

impl Check {
    /// Looks at the value that a read has found.
    #[inline(always)]
    pub(crate) fn look(&mut self, found: &[u8; KIB]) {
        let found = black_box(found);
        self.at = HEAD + (self.at - HEAD + STEP) % (KIB - HEAD);
        self.is_current = found[..HEAD] == self.values.round.to_le_bytes()
            && found[self.at] == self.values.byte(self.at);
    }
}

/// Waits until the owner has set the values of a round. Until then, a read may fail.
fn await_owner(mut is_set: impl FnMut() -> Result<bool, Fault>) -> Result<(), Fault> {
    let start = Instant::now();
    loop {
        let found = is_set();
        if matches!(found, Ok(true)) {
            // The values of the round were set before the one that was found.
            fence(Ordering::Acquire);
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            found?;
            return Err(Fault::new("the owner has not set the values of the round within 5 s"));
        }
        spin_loop();
    }
}

/// The reads that libraries of calls and messages do not have.
pub(crate) const NO_READS: &[(Op, &str)] = &[(Op::Read, NO_READ), (Op::ReadKiB1, NO_READ)];
/// The reason for which libraries of calls and messages have no reads.
pub(crate) const NO_READ: &str =
    "it has calls or messages alone, and no reads of another process's variables";

#[cfg(test)]
mod tests {
    use super::{HEAD, KIB, NUMBERS, STEP, Values};
    use std::cell::Cell;
    use upbeat_cli::bench::timing::Work;

    #[test]
    fn the_chain_leads_through_all_numbers() {
        let values = Values::default().next();
        let (mut at, mut seen) = (0, [false; NUMBERS]);
        for _ in 0..NUMBERS {
            assert!(!std::mem::replace(&mut seen[at], true));
            at = values.follow(values.number(at)).unwrap();
        }
        assert_eq!(at, 0);
    }

    #[test]
    fn all_bytes_are_compared_in_turn() {
        let mut at = HEAD;
        let mut seen = [false; KIB];
        for _ in HEAD..KIB {
            assert!(!std::mem::replace(&mut seen[at], true));
            at = HEAD + (at - HEAD + STEP) % (KIB - HEAD);
        }
    }

    #[test]
    fn a_number_of_another_round_is_refused() {
        let mut values = Values::default();
        let (old, new) = (values.next(), values.next());
        let work = Work::of(2, 4);
        new.read_numbers(work, |at| Ok(new.number(at))).unwrap();
        let count = Cell::new(0);
        let read = |at| {
            count.set(count.get() + 1);
            Ok(if count.get() == 7 { old.number(at) } else { new.number(at) })
        };
        assert!(new.read_numbers(work, read).is_err());
    }

    #[test]
    fn bytes_of_another_round_are_refused() {
        let mut values = Values::default();
        let (old, new) = (values.next(), values.next());
        let work = Work::of(2, 4);
        let round = new.read_bytes(work, |check| {
            check.look(&new.bytes());
            Ok(())
        });
        round.unwrap();
        let whole = new.bytes();
        let mut torn = whole;
        torn[HEAD..].copy_from_slice(&old.bytes()[HEAD..]);
        let count = Cell::new(0);
        let read = |check: &mut super::Check| {
            count.set(count.get() + 1);
            check.look(if count.get() == 7 { &torn } else { &whole });
            Ok(())
        };
        assert!(new.read_bytes(work, read).is_err());
    }
}
