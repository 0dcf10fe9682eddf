//! The reader's side: reads of the exports, each beside the bare load or copy of the same bytes.

use super::beside::{self, beside, other_value};
use super::layout::{
    BYTES_AT, Chain, DIRTY, DIRTY_AT, DIRTY_WORDS, HOPS, LARGE, NUMBER, OWNER, QUIET, QUIET_AT,
    ROW_WORDS, Row, SMALL, UPDATABLE, byte_at, rows_at,
};
use crate::bench::echo::EchoClient;
use crate::bench::error::BenchError;
use crate::bench::ground::{Ground, LINE_WORDS, SECOND_LINE};
use crate::bench::hosts::{Caller, Policy, each, refused};
use crate::bench::line::await_word;
use crate::bench::stats::median;
use crate::bench::timing::{Round, Work};
use std::cell::Cell;
use std::hint::black_box;
use std::path::Path;
use upbeat::export::ReadError;
use upbeat::{Import, Node, Shared};
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::ticks::ticks;

/// The imports of a node, and the bare segment beside them.
pub(super) struct Reader {
    caller: Caller,
    bare: Region,
    imports: Imports,
}

struct Imports {
    hops: Import<[u64; HOPS]>,
    dirty: Import<[u64; DIRTY_WORDS]>,
    small: Import<[u8; SMALL]>,
    large: Import<[u8; LARGE]>,
    rows: Rows,
    updated: Import<[Row; UPDATABLE]>,
}

struct Rows {
    rows10: Import<[Row; 10]>,
    rows100: Import<[Row; 100]>,
    rows1000: Import<[Row; 1000]>,
    rows10000: Import<[Row; 10_000]>,
}

impl Reader {
    /// Imports the exports. The owner serves until the end of this call.
    pub(super) fn new(scratch: &Path, bare: &Region) -> Result<Reader, BenchError> {
        let caller = Caller::new("bench-read/reader", OWNER, Some(scratch), Policy::Polling)?;
        let node = caller.node();
        let imports = caller.round(async |_| Ok(Imports::of(node).await))??;
        Ok(Reader { imports, caller, bare: bare.clone() })
    }

    /// Reads a number: its value is the index of the next.
    pub(super) fn quiet(&self, work: Work) -> Result<Round, BenchError> {
        let (bare, hops) = (&self.bare, &self.imports.hops);
        beside(
            work,
            |work| chain(QUIET, work, |at| Ok(bare.load(QUIET_AT + at))),
            |work| chain(QUIET, work, |at| hops.index(at).try_read()),
        )
    }

    /// Reads the first field of a row of an array with so many.
    pub(super) fn field(&self, rows: usize, work: Work) -> Result<Round, BenchError> {
        let all = &self.imports.rows;
        match rows {
            10 => self.field_of(&all.rows10, work),
            100 => self.field_of(&all.rows100, work),
            1000 => self.field_of(&all.rows1000, work),
            _ => self.field_of(&all.rows10000, work),
        }
    }

    fn field_of<const N: usize>(
        &self,
        rows: &Import<[Row; N]>,
        work: Work,
    ) -> Result<Round, BenchError> {
        let (bare, first) = (&self.bare, rows_at(N) + 1);
        beside(
            work,
            |work| chain(Chain::of_rows(N), work, |at| Ok(bare.load(first + at * ROW_WORDS))),
            |work| chain(Chain::of_rows(N), work, |at| rows.index(at).next().try_read()),
        )
    }

    /// Reads an array with so many rows as a whole, by a call where the array is large.
    pub(super) fn structure(&self, rows: usize, work: Work) -> Result<Round, BenchError> {
        let all = &self.imports.rows;
        match rows {
            10 => self.structure_of(&all.rows10, work),
            100 => self.structure_of(&all.rows100, work),
            1000 => self.structure_of(&all.rows1000, work),
            _ => self.structure_of(&all.rows10000, work),
        }
    }

    fn structure_of<const N: usize>(
        &self,
        rows: &Import<[Row; N]>,
        work: Work,
    ) -> Result<Round, BenchError> {
        let (chain, mut at) = (Chain::of_rows(N), 0);
        let read = async || {
            match rows.whole().read().await {
                Ok(all) => at = all[at].next as usize,
                Err(error) => return Err(error),
            }
            Ok(())
        };
        let round = self.caller.reads(work, read)?;
        arrived(chain, work, at)?;
        Ok(round)
    }

    /// Reads a kibibyte as a whole.
    pub(super) fn small(&self, work: Work) -> Result<Round, BenchError> {
        self.bytes(&self.imports.small, work)
    }

    /// Reads 64 KiB as a whole.
    pub(super) fn large(&self, work: Work) -> Result<Round, BenchError> {
        self.bytes(&self.imports.large, work)
    }

    fn bytes<const N: usize>(
        &self,
        value: &Import<[u8; N]>,
        work: Work,
    ) -> Result<Round, BenchError> {
        let (mut copy, mut found) = (vec![0; N], Box::new([0; N]));
        let index = Cell::new(0);
        let check = |found: &[u8]| {
            index.set((index.get() + 61) % N);
            let found = black_box(found)[index.get()];
            (found == byte_at(index.get())).then_some(()).ok_or_else(other_value)
        };
        let round = beside(
            work,
            |work| {
                work.try_run(|| {
                    self.bare.read(BYTES_AT * WORD, &mut copy);
                    check(&copy)
                })
            },
            |work| {
                work.try_run(|| match value.whole().try_read_into(&mut found) {
                    Ok(()) => check(&*found),
                    Err(error) => Err(refused("a read")(error)),
                })
            },
        )?;
        match found.iter().enumerate().all(|(index, byte)| *byte == byte_at(index)) {
            true => Ok(round),
            false => Err(other_value()),
        }
    }

    /// Returns the rows that are read while the owner updates some of them. `owner` has the owner's lines.
    pub(super) fn updated<'r>(&'r self, owner: &'r Region) -> beside::Rows<'r> {
        beside::Rows { export: &self.imports.updated, bare: &self.bare, owner }
    }

    /// Reads numbers that the owner has just written, in bursts of one in each of some lines. The time between two bursts is
    /// not measured.
    pub(super) fn dirty(&self, work: Work, ground: &mut Ground) -> Result<Round, BenchError> {
        let (bare, dirty) = (&self.bare, &self.imports.dirty);
        let (mut batches, mut ratios) = (Vec::new(), Vec::new());
        for lap in 0..=work.batches {
            let load = burst(ground, |line| Ok(bare.load(DIRTY_AT + line * LINE_WORDS)))?;
            let read = burst(ground, |line| dirty.index(line * LINE_WORDS).try_read())?;
            if lap > 0 {
                batches.push(read);
                ratios.push(read as f64 / load.max(1) as f64);
            }
        }
        let round = Round::of_batches(DIRTY.len as u32, batches);
        Ok(Round { ratio_to_load: median(&ratios), ..round })
    }
}

impl Imports {
    async fn of(node: &Node) -> Result<Imports, BenchError> {
        Ok(Imports {
            hops: import(node, "hops").await?,
            dirty: import(node, "dirty").await?,
            small: import(node, "small").await?,
            large: import(node, "large").await?,
            rows: Rows {
                rows10: import(node, "rows10").await?,
                rows100: import(node, "rows100").await?,
                rows1000: import(node, "rows1000").await?,
                rows10000: import(node, "rows10000").await?,
            },
            updated: import(node, "updated").await?,
        })
    }
}

async fn import<T: Shared>(node: &Node, name: &str) -> Result<Import<T>, BenchError> {
    node.import(&format!("{OWNER}/{name}")).await.map_err(refused("an import"))
}

/// The question of a call to the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A null call.
    Nothing,
    /// A read of a number, which is all of its export.
    Number,
    /// A read of an element of an array, whose place the reader knows.
    Element,
    /// A read of an element whose index is another element, which the owner looks up.
    Routed,
    /// A read of an element of an array that a lock guards at its owner.
    GuardedElement,
}

/// The imports of a node that shares no memory with the owner.
pub(super) struct StreamReader {
    caller: Caller,
    number: Import<u64>,
    hops: Import<[u64; HOPS]>,
    guarded: Import<[u64; HOPS]>,
}

impl StreamReader {
    /// Imports the exports over a byte stream. The owner serves until the end of this call.
    pub(super) fn new(scratch: &Path) -> Result<StreamReader, BenchError> {
        let caller = Caller::apart("bench-read/apart", OWNER, scratch, Policy::Polling)?;
        let node = caller.node();
        let imported = caller.round(async |_| {
            let number = import(node, "number").await;
            Ok((number, import(node, "hops").await, import(node, "guarded").await))
        })?;
        Ok(StreamReader { number: imported.0?, hops: imported.1?, guarded: imported.2?, caller })
    }

    /// Makes calls to the owner, one after another.
    pub(super) fn round(&self, asked: Asked, work: Work) -> Result<Round, BenchError> {
        match asked {
            Asked::Nothing => {
                self.caller.round(async |client: &EchoClient| each(work, || client.null()).await)
            }
            Asked::Number => self.numbers(work),
            Asked::Element => self.elements(&self.hops, work),
            Asked::Routed => self.routed(work),
            Asked::GuardedElement => self.elements(&self.guarded, work),
        }
    }

    fn numbers(&self, work: Work) -> Result<Round, BenchError> {
        let mut is_other = false;
        let read = async || {
            is_other |= self.number.whole().read().await? != NUMBER;
            Ok(())
        };
        let round = self.caller.reads(work, read)?;
        if is_other { Err(other_value()) } else { Ok(round) }
    }

    fn routed(&self, work: Work) -> Result<Round, BenchError> {
        let (hops, mut at) = (&self.hops, 0);
        let read = async || {
            at = hops.index_at(&hops.index(at)).read().await? as usize;
            Ok(())
        };
        let round = self.caller.reads(work, read)?;
        // Each read leads over two elements.
        if at == QUIET.after(2 * work.total()) { Ok(round) } else { Err(other_value()) }
    }

    fn elements(&self, hops: &Import<[u64; HOPS]>, work: Work) -> Result<Round, BenchError> {
        let mut at = 0;
        let read = async || {
            at = hops.index(at).read().await? as usize;
            Ok(())
        };
        let round = self.caller.reads(work, read)?;
        arrived(QUIET, work, at)?;
        Ok(round)
    }
}

/// Follows a chain, and checks where it has led.
#[inline(always)]
fn chain(
    chain: Chain,
    work: Work,
    mut read: impl FnMut(usize) -> Result<u64, ReadError>,
) -> Result<Round, BenchError> {
    let mut at = 0;
    let round = work.try_run(|| {
        at = read(at)? as usize;
        Ok(())
    });
    let round = round.map_err(refused::<ReadError>("a read"))?;
    arrived(chain, work, at)?;
    Ok(round)
}

fn arrived(chain: Chain, work: Work, at: usize) -> Result<(), BenchError> {
    (at == chain.after(work.total())).then_some(()).ok_or_else(other_value)
}

/// Asks the owner to write the lines, and returns the ticks in which they are then read, one after another.
#[inline(always)]
fn burst(
    ground: &mut Ground,
    read: impl Fn(usize) -> Result<u64, ReadError>,
) -> Result<u64, BenchError> {
    ground.turn += 1;
    ground.ours.publish(SECOND_LINE, ground.turn);
    await_word::<0>(&ground.theirs, SECOND_LINE, ground.turn);
    let start = ticks();
    let (mut line, mut stale) = (0, false);
    for _ in 0..DIRTY.len {
        let value = read(line).map_err(refused("a read"))?;
        stale |= value >> 16 != ground.turn;
        line = (value & 0xffff) as usize;
    }
    black_box(line);
    let took = ticks().saturating_sub(start);
    if stale || line != 0 { Err(other_value()) } else { Ok(took) }
}
