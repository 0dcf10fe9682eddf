//! The owner's side: it exports the values, writes them, and measures what its own updates cost.

use super::beside::beside;
use super::layout::{
    BYTES_AT, Chain, DIRTY, DIRTY_AT, DIRTY_WORDS, HOPS, LARGE, NUMBER, OWNER, QUIET, QUIET_AT,
    RATIO_AT, READ_AT, READ_BARE, READ_EXPORT, ROW_WORDS, Row, SMALL, UPDATABLE, UPDATED,
    bare_bytes, byte_at, rows_at, updated_at,
};
use crate::bench::control::{Control, Offer};
use crate::bench::error::BenchError;
use crate::bench::ground::{COUNT_LINE, Ground, LINE_WORDS, SECOND_LINE};
use crate::bench::hosts::{Host, Policy, refused};
use crate::bench::line::await_word;
use crate::bench::timing::{Round, Work};
use std::convert::Infallible;
use std::path::Path;
use upbeat::export::GuardedExport;
use upbeat::{Export, Shared};
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::segment::{Segment, Writers};

/// The label of the bare segment.
pub(super) const BARE: &str = "upbeat-bench-read";

/// The exports, and the bare segment beside them.
pub(super) struct Owner {
    host: Host,
    bare: Region,
    dirty: Export<[u64; DIRTY_WORDS]>,
    /// The rows of which the owner updates one half.
    updated: Export<[Row; UPDATABLE]>,
    /// The rows of that half, in the order of the updates.
    order: Vec<usize>,
    _others: Others,
}

/// The exports that stay as they are.
struct Others {
    _number: Export<u64>,
    _hops: Export<[u64; HOPS]>,
    _guarded: GuardedExport<[u64; HOPS]>,
    _small: Export<[u8; SMALL]>,
    _large: Export<[u8; LARGE]>,
    _rows10: Export<[Row; 10]>,
    _rows100: Export<[Row; 100]>,
    _rows1000: Export<[Row; 1000]>,
    _rows10000: Export<[Row; 10_000]>,
}

impl Owner {
    /// Exports the values, and sends the bare segment to the first process.
    pub(super) fn new(control: &Control, scratch: &Path) -> Result<Owner, BenchError> {
        let host = Host::new(OWNER, Some(scratch), Policy::Polling, None)?;
        let segment = Segment::create(BARE, bare_bytes(), Writers::Owner)
            .and_then(Segment::reserve)
            .map_err(BenchError::segment(BARE))?;
        control.send_with(&Offer { segments: vec![bare_bytes()] }, &[segment.descriptor()])?;
        let bare = segment.into_region();
        let others = Others {
            _number: export(&host, "number", NUMBER)?,
            _hops: export(&host, "hops", std::array::from_fn(|at| QUIET.next(at) as u64))?,
            _guarded: (host.node)
                .export_guarded("guarded", std::array::from_fn(|at| QUIET.next(at) as u64))
                .map_err(refused("an export"))?,
            _small: export(&host, "small", std::array::from_fn(byte_at))?,
            _large: export(&host, "large", std::array::from_fn(byte_at))?,
            _rows10: rows(&host, &bare)?,
            _rows100: rows(&host, &bare)?,
            _rows1000: rows(&host, &bare)?,
            _rows10000: rows(&host, &bare)?,
        };
        for at in 0..HOPS {
            bare.store(QUIET_AT + at, QUIET.next(at) as u64);
        }
        let bytes: Vec<u8> = (0..LARGE).map(byte_at).collect();
        bare.write(BYTES_AT * WORD, &bytes);
        let dirty = export(&host, "dirty", [0; DIRTY_WORDS])?;
        let updated = export(&host, "updated", std::array::from_fn(row::<UPDATED>))?;
        for at in 0..UPDATABLE {
            bare.store(updated_at() + at * ROW_WORDS + 1, row::<UPDATED>(at).next);
        }
        let order = Chain::of_rows(UPDATED).order();
        Ok(Owner { host, bare, dirty, updated, order, _others: others })
    }

    /// Answers the first process's calls until it ends the round.
    pub(super) fn serve(&self) {
        self.host.round();
    }

    /// Writes the lines for `Reader::dirty`: in turns, those of the bare segment and those of the export.
    pub(super) fn write_dirty(&self, work: Work, ground: &mut Ground) {
        let (ours, theirs) = (&ground.ours, &ground.theirs);
        let last = ground.turn + 2 * (u64::from(work.batches) + 1);
        for turn in ground.turn + 1..=last {
            await_word::<0>(theirs, SECOND_LINE, turn);
            for line in 0..DIRTY.len {
                let (at, value) = (line * LINE_WORDS, turn << 16 | DIRTY.next(line) as u64);
                if (turn - ground.turn) % 2 == 1 {
                    self.bare.store(DIRTY_AT + at, value);
                } else {
                    self.dirty.index(at).set(value);
                }
            }
            ours.publish(SECOND_LINE, turn);
        }
        ground.turn = last;
    }

    /// Measures updates of rows, one after another, and bare stores of the same words in slices between them. Publishes
    /// the medians of the round for the first process, and before each slice which memory is to be read.
    pub(super) fn update(&self, work: Work, ground: &Ground) {
        let mut number = self.updated.index(0).get().number;
        let mut stored = number;
        let ours = &ground.ours;
        let told = beside(
            work,
            |work| {
                ours.publish(READ_AT, READ_BARE);
                Ok::<_, Infallible>(self.each_row(work, |at| {
                    stored += 1;
                    let row = updated_at() + at * ROW_WORDS;
                    self.bare.store(row + 2, stored);
                    self.bare.publish(row + 3, stored);
                }))
            },
            |work| {
                ours.publish(READ_AT, READ_EXPORT);
                Ok(self.each_row(work, |at| {
                    number += 1;
                    self.updated.index(at).update(|row| {
                        row.number().set(number);
                        row.again().set(number);
                    });
                }))
            },
        );
        let Ok(round) = told;
        ours.publish(COUNT_LINE, round.median_ns().to_bits());
        ours.publish(RATIO_AT, round.ratio_to_load.unwrap_or(f64::NAN).to_bits());
    }

    /// Does a round of operations, each with the next row.
    #[inline(always)]
    fn each_row(&self, work: Work, mut operation: impl FnMut(usize)) -> Round {
        let mut rows = self.order.iter();
        work.run(|| {
            let row = rows.next().or_else(|| {
                rows = self.order.iter();
                rows.next()
            });
            operation(row.copied().unwrap_or(0));
        })
    }
}

fn export<T: Shared>(host: &Host, name: &str, value: T) -> Result<Export<T>, BenchError> {
    host.node.export(name, value).map_err(refused("an export"))
}

fn row<const N: usize>(at: usize) -> Row {
    Row { next: Chain::of_rows(N).next(at) as u64, ..Row::default() }
}

/// Exports `N` rows, and stores them in the bare segment too.
fn rows<const N: usize>(host: &Host, bare: &Region) -> Result<Export<[Row; N]>, BenchError> {
    for at in 0..N {
        bare.store(rows_at(N) + at * ROW_WORDS + 1, row::<N>(at).next);
    }
    export(host, &format!("rows{N}"), std::array::from_fn(row::<N>))
}
