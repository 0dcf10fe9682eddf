//! Exports: variables of a node that other nodes read.
//!
//! The owner declares a struct with `#[derive(upbeat::Shared)]` and [exports](crate::Node::export) a value of it under a
//! name. Only the owner writes it. A reader [imports](crate::Node::import) it by the names of the node and the export, and
//! names the part that it reads by a path of fields and indexes. On the owner's host a read is a few loads: the owner may
//! be asleep, and no message is sent. From another host, or where the owner writes the part again and again, the read
//! becomes a call.
//!
//! Each value that is read is whole: as the owner left it after one [`set`](Path::set) or [`update`](Path::update).
//! [`core::channel::export`](upbeat_core::channel::export) decides the layout, and `upbeat_memory::unit` how a whole
//! value is told from a torn one. Invariant: a reader's mapping is read-only, and nothing that a reader does reaches the
//! owner but a call.

mod bets;
mod memory;
mod watchers;
mod owner_state;
mod error;
mod location;
mod mapped;
mod segments;
mod home;
mod shared;
mod change;
mod path;
mod types;
mod owner;
mod exports;
mod owned;
mod guarded;
mod limited;
mod served;
mod opened;
mod direct;
mod imported;
mod snapshot;
mod routed;
mod watch;
mod range;
mod import;
mod ownership;
mod untyped;

pub use bets::LostBets;
pub use error::{ExportError, ImportError, ReadError};
pub use exports::Export;
pub(crate) use exports::Exports;
pub use guarded::{ExportGuard, GuardedExport};
pub use import::Import;
pub use imported::{Imported, Read};
pub use limited::LimitedExports;
pub use mapped::{MappedMemory, mapped_memory};
pub use memory::{Memory, Writer};
pub use owner::Owner;
pub use owner_state::{ExportOwner, OwnerState};
pub use path::{ArrayFields, Path, ScalarFields, TextFields};
pub use range::{Comparable, Condition, Element, Numeric, Range};
pub use routed::Routed;
pub use segments::ExportMemory;
pub(crate) use served::{NodeExportsClient, NodeExportsServer};
pub use shared::{Access, Fields, Named, Navigate, Place, Readable, Shared};
pub use snapshot::Snapshot;
pub use types::{
    FixedMap, FixedMapFields, FixedVec, FixedVecFields, Index, Key, MapFull, OptionFields, Ref,
    RefFields, Text, VecFields,
};
pub use untyped::UntypedImport;
pub use upbeat_core::channel::export::{
    Denial, PathError, Refusal, Selection, Shape, ShapeError, Value,
};
pub use watch::Watch;

use upbeat_core::channel::export::Field;

/// Returns the shape of a struct, for generated code.
#[doc(hidden)]
pub fn struct_shape<const N: usize>(name: &str, fields: [(&str, Shape); N]) -> Shape {
    let fields = fields.into_iter().map(|(name, shape)| Field { name: name.into(), shape });
    Shape::Struct { name: name.into(), fields: fields.collect() }
}
