//! A round of an operation beside its floor, and the threads that read while the owner updates.

use super::layout::{
    RATIO_AT, READ_AT, READ_EXPORT, ROW_WORDS, Readers, Row, UPDATABLE, UPDATED, updated_at,
};
use crate::bench::error::BenchError;
use crate::bench::ground::COUNT_LINE;
use crate::bench::stats::median;
use crate::bench::timing::{Round, Work};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use upbeat::Import;
use upbeat::export::ReadError;
use upbeat_memory::region::Region;

/// The slices of a round, each of which has a slice of the floor before it.
const SLICES: u32 = 8;

/// Does a round in slices, each behind a slice of the bare loads or stores. The ratio is the median over the slices.
#[inline(always)]
pub(super) fn beside<E>(
    work: Work,
    mut load: impl FnMut(Work) -> Result<Round, E>,
    mut read: impl FnMut(Work) -> Result<Round, E>,
) -> Result<Round, E> {
    let slice =
        Work { batches: work.batches.div_ceil(SLICES), singles: work.singles / SLICES, ..work };
    let (mut all, mut ratios) = (Round::of_batches(work.size, Vec::new()), Vec::new());
    for _ in 0..SLICES {
        let load = load(slice)?.median_ns();
        let round = read(slice)?;
        ratios.push(round.median_ns() / load);
        all.append(round);
    }
    ratios.retain(|ratio| ratio.is_finite());
    Ok(Round { ratio_to_load: median(&ratios), ..all })
}

/// The rows that threads read while the owner updates some of them.
pub(super) struct Rows<'r> {
    pub(super) export: &'r Import<[Row; UPDATABLE]>,
    /// The same rows in the bare segment.
    pub(super) bare: &'r Region,
    /// The lines in which the owner says which of the two are to be read.
    pub(super) owner: &'r Region,
}

impl Rows<'_> {
    /// Runs threads that read rows while `update` waits for the owner. Returns the time of an update, and its ratio to
    /// bare stores, both of which the owner publishes.
    pub(super) fn read_beside(
        &self,
        readers: Readers,
        work: Work,
        update: impl FnOnce() -> Result<(), BenchError>,
    ) -> Result<Round, BenchError> {
        let (started, over, torn) =
            (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let read = |thread: usize| {
            let mut at = 10 * thread % UPDATED;
            started.fetch_add(1, Ordering::Relaxed);
            while !over.load(Ordering::Relaxed) {
                match self.read(readers.first_row() + at) {
                    Ok(row) if row.number == row.again => at = row.next as usize,
                    Err(ReadError::Busy) => {}
                    _ => torn.store(true, Ordering::Relaxed),
                }
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..readers.threads {
                let read = &read;
                scope.spawn(move || read(thread));
            }
            while started.load(Ordering::Relaxed) < readers.threads {
                std::thread::yield_now();
            }
            let updated = update();
            over.store(true, Ordering::Relaxed);
            updated
        })?;
        if torn.into_inner() {
            return Err(other_value());
        }
        let told = |at| f64::from_bits(self.owner.load(at));
        Ok(Round {
            operations: u64::from(work.batches) * u64::from(work.size),
            ratio_to_load: Some(told(RATIO_AT)).filter(|ratio| ratio.is_finite()),
            ..Round::told(work.size, told(COUNT_LINE))
        })
    }

    /// Reads a row of the memory that the owner writes in this slice. The words of the bare segment may be of two updates,
    /// and are not compared.
    #[inline(always)]
    fn read(&self, at: usize) -> Result<Row, ReadError> {
        if self.owner.load(READ_AT) == READ_EXPORT {
            return self.export.index(at).try_read();
        }
        let first = updated_at() + at * ROW_WORDS + 1;
        let next = self.bare.load(first);
        black_box((self.bare.load(first + 1), self.bare.load(first + 2)));
        Ok(Row { next, ..Row::default() })
    }
}

#[cold]
pub(super) fn other_value() -> BenchError {
    BenchError::protocol("a read has found another value than the owner wrote")
}
