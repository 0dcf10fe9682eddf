//! The blackboard: a service of values, which one writer sets and readers copy. Readers and writer keep a handle for each
//! value.

use crate::case::{Fault, Op, fault};
use crate::payload::KIB;
use crate::values::{NUMBERS, Values};
use iceoryx2::node::Node;
use iceoryx2::port::reader::EntryHandle;
use iceoryx2::port::writer::EntryHandleMut;
use iceoryx2::prelude::{ServiceName, ipc};
use upbeat_cli::bench::timing::{Round, Work};

type Key = u64;

/// The key of the large value, behind those of the numbers.
const BYTES: Key = NUMBERS as Key;

/// The writer's side.
pub(super) struct Written {
    numbers: Vec<EntryHandleMut<ipc::Service, Key, u64>>,
    bytes: EntryHandleMut<ipc::Service, Key, [u8; KIB]>,
    values: Values,
}

impl Written {
    /// Creates the service.
    pub(super) fn new(node: &Node<ipc::Service>, name: &ServiceName) -> Result<Written, Fault> {
        let mut creator = node.service_builder(name).blackboard_creator::<Key>().max_readers(1);
        for key in 0..BYTES {
            creator = creator.add::<u64>(key, 0);
        }
        let creator = creator.add::<[u8; KIB]>(BYTES, [0; KIB]);
        let service = creator.create().map_err(fault("creating a blackboard"))?;
        let writer = service.writer_builder().create().map_err(fault("making a writer"))?;
        let numbers = (0..BYTES).map(|key| writer.entry::<u64>(&key)).collect::<Result<_, _>>();
        Ok(Written {
            numbers: numbers.map_err(fault("finding an entry"))?,
            bytes: writer.entry(&BYTES).map_err(fault("finding an entry"))?,
            values: Values::default(),
        })
    }

    /// Sets the values of the next round.
    pub(super) fn set(&mut self) {
        let values = self.values.next();
        self.bytes.update_with_copy(values.bytes());
        for (at, number) in self.numbers.iter().enumerate().rev() {
            number.update_with_copy(values.number(at));
        }
    }
}

/// The reader's side.
pub(super) struct Entries {
    numbers: Vec<EntryHandle<ipc::Service, Key, u64>>,
    bytes: EntryHandle<ipc::Service, Key, [u8; KIB]>,
    values: Values,
}

impl Entries {
    /// Opens the service.
    pub(super) fn new(node: &Node<ipc::Service>, name: &ServiceName) -> Result<Entries, Fault> {
        let opener = node.service_builder(name).blackboard_opener::<Key>();
        let service = opener.open().map_err(fault("opening a blackboard"))?;
        let reader = service.reader_builder().create().map_err(fault("making a reader"))?;
        let numbers = (0..BYTES).map(|key| reader.entry::<u64>(&key)).collect::<Result<_, _>>();
        Ok(Entries {
            numbers: numbers.map_err(fault("finding an entry"))?,
            bytes: reader.entry(&BYTES).map_err(fault("finding an entry"))?,
            values: Values::default(),
        })
    }

    /// Runs a round of reads.
    pub(super) fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault> {
        let Entries { numbers, bytes, values } = self;
        let values = values.next();
        if op == Op::Read {
            return values.read_numbers(work, |at| Ok(*numbers[at].get()));
        }
        values.read_bytes(work, |check| {
            check.look(&bytes.get());
            Ok(())
        })
    }
}
