//! Arrays that are distributed over the processes, of which the first one reads the part of the second. An `AtomicArray`
//! has atomic elements, which the memory of both processes lets it load in place. A `LocalLockArray` is read as a whole,
//! under the lock of the part's owner: that takes an active message.

use crate::case::{Fault, Op, unknown};
use crate::payload::KIB;
use crate::values::{NUMBERS, Values};
use lamellar::LamellarWorld;
use lamellar::array::prelude::*;
use upbeat_cli::bench::timing::{Round, Work};

/// The arrays and the number of the round, in both processes.
pub(super) struct Arrays {
    numbers: AtomicArray<u64>,
    bytes: LocalLockArray<u8>,
    values: Values,
}

impl Arrays {
    /// Makes the arrays, together with the other process.
    pub(super) fn new(world: &LamellarWorld) -> Arrays {
        Arrays {
            numbers: AtomicArray::new(world, 2 * NUMBERS, Distribution::Block).block(),
            bytes: LocalLockArray::new(world, 2 * KIB, Distribution::Block).block(),
            values: Values::default(),
        }
    }

    /// Sets the values of the next round, in the part of this process.
    pub(super) fn set(&mut self) {
        let values = self.values.next();
        self.bytes.write_local_data().block().copy_from_slice(&values.bytes());
        let numbers = self.numbers.local_data();
        for at in (0..NUMBERS).rev() {
            numbers.at(at).store(values.number(at));
        }
    }

    /// Reads the part of the second process.
    pub(super) fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault> {
        let Arrays { numbers, bytes, values } = self;
        match op {
            Op::Read => {
                values.next().read_numbers(work, |at| Ok(numbers.blocking_get(NUMBERS + at)))
            }
            Op::ReadKiB1 => values.next().read_bytes(work, |check| {
                let found = bytes.blocking_get_buffer(KIB, KIB);
                let found = found.as_slice().try_into();
                check.look(found.map_err(|_| Fault::new("a read has brought another length"))?);
                Ok(())
            }),
            Op::Null | Op::KiB1 | Op::Stream => Err(unknown(op)),
        }
    }
}
