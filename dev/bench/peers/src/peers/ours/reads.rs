//! Exports of one node, which the other imports and reads in memory that both processes map.

use crate::case::{Fault, Op, fault};
use crate::payload::KIB;
use crate::values::{NUMBERS, Values};
use upbeat::export::ReadError;
use upbeat::{Export, Import, Node};
use upbeat_cli::bench::timing::{Round, Work};

/// The owner's side.
pub(super) struct Exports {
    numbers: Export<[u64; NUMBERS]>,
    bytes: Export<[u8; KIB]>,
    values: Values,
}

impl Exports {
    /// Exports the values.
    pub(super) fn new(node: &Node) -> Result<Exports, Fault> {
        Ok(Exports {
            numbers: node.export("numbers", [0; NUMBERS]).map_err(fault("exporting"))?,
            bytes: node.export("bytes", [0; KIB]).map_err(fault("exporting"))?,
            values: Values::default(),
        })
    }

    /// Sets the values of the next round. Returns whether it is the first one, in which the other node imports.
    pub(super) fn set(&mut self) -> bool {
        let is_first = self.values == Values::default();
        let values = self.values.next();
        self.bytes.whole().set(values.bytes());
        for at in (0..NUMBERS).rev() {
            self.numbers.index(at).set(values.number(at));
        }
        is_first
    }
}

/// The reader's side.
pub(super) struct Imports {
    numbers: Import<[u64; NUMBERS]>,
    bytes: Import<[u8; KIB]>,
    values: Values,
}

impl Imports {
    /// Imports the values from a node, which is driven meanwhile.
    pub(super) async fn new(node: &Node, owner: &str) -> Result<Imports, Fault> {
        let (numbers, bytes) = (format!("{owner}/numbers"), format!("{owner}/bytes"));
        Ok(Imports {
            numbers: node.import(&numbers).await.map_err(fault("importing"))?,
            bytes: node.import(&bytes).await.map_err(fault("importing"))?,
            values: Values::default(),
        })
    }

    /// Runs a round of reads, for which no node is driven.
    pub(super) fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault> {
        let Imports { numbers, bytes, values } = self;
        let values = values.next();
        if op == Op::Read {
            return values.read_numbers(work, |at| numbers.index(at).try_read().map_err(failed));
        }
        let mut found = [0; KIB];
        values.read_bytes(work, |check| {
            bytes.whole().try_read_into(&mut found).map_err(failed)?;
            check.look(&found);
            Ok(())
        })
    }
}

#[cold]
fn failed(error: ReadError) -> Fault {
    fault("a read")(error)
}
