//! The service by which readers of other processes open exports, and read where loads do not do.

use super::exports::Exports;
use super::mapped::{self, Mapped, NotMapped};
use crate::call::Bound;
use crate::dispatch::{Dispatcher, NodeSession};
use crate::handle::Side;
use crate::service::Caller;
use crate::wire::{CallSide, Describe, Input, Output, Wire, WireError};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use upbeat_core::channel::export::{
    self, Asker, Denial, Directory, Expression, Missing, Number, Part,
};
use upbeat_core::limits::EXPORT_WORDS_MAX;
use upbeat_core::name::NodeName;
use upbeat_transport::carrier::{OwnSegment, Segment};

/// The exports of a node, for readers.
#[upbeat_macros::service(crate = crate)]
pub(crate) trait NodeExports {
    /// Opens the export of this name and type: its number, the word of its head, the words of a copy, its consistency, and
    /// its memory.
    async fn open(
        &self,
        name: &str,
        shape: &str,
    ) -> Result<(u32, u64, u64, u8, SentSegment), NotOpened>;
    /// Returns the words of a part of an export.
    async fn read(&self, export: u32, part: u64) -> Result<Vec<u64>, NotRead>;
    /// Returns the words of a part of the value to which a route leads.
    async fn read_routed(&self, export: u32, part: Asked) -> Result<Vec<u64>, NotRead>;
    /// Returns the words of parts as of one moment.
    async fn read_all(&self, export: u32, parts: Vec<Asked>) -> Result<Vec<Vec<u64>>, NotRead>;
    /// Waits until a part has another version than this one, if one is given. Returns its words and its version.
    async fn changed(
        &self,
        export: u32,
        part: Asked,
        version: Option<u64>,
    ) -> Result<(Vec<u64>, u64), NotRead>;
    /// Evaluates an expression over an array. Returns no number for the least or largest of none.
    async fn evaluate(&self, export: u32, expression: [u64; 5]) -> Result<Option<u64>, NotRead>;
    /// Returns whether all these parts still have these versions.
    async fn stand(&self, export: u32, parts: Vec<(Asked, u64)>) -> Result<bool, NotRead>;
    /// Returns the number, the name and the type of each export that the reader may read.
    async fn list(&self) -> Vec<(u32, String, String)>;
}

impl NodeExportsClient {
    /// Returns whether this is a client of the node.
    pub(super) fn is_of(&self, node: &Rc<Dispatcher>) -> bool {
        Rc::ptr_eq(&self.bound.node, node)
    }
}

/// A part that a reader asks for, of the value to which a route leads, and whether it is a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, upbeat_macros::Wire)]
#[wire(crate = crate)]
pub(crate) struct Asked {
    pub(super) part: u64,
    pub(super) is_unit: bool,
    pub(super) route: Vec<u64>,
}

impl Asked {
    fn part(&self) -> Part {
        Part::decode(self.part)
    }
}

/// The reason why an export is not opened.
#[derive(Debug, Serialize, Deserialize, upbeat_macros::Wire)]
#[wire(crate = crate)]
pub(crate) enum NotOpened {
    NoExport {
        others: Vec<String>,
    },
    OtherType {
        exported: String,
    },
    /// The export is for named nodes. The reader has this name, if any, and it is one of them if it is `listed`.
    NotPermitted {
        name: Option<String>,
        listed: bool,
    },
}

/// The reason why the words of a part are not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, upbeat_macros::Wire)]
#[wire(crate = crate)]
pub(crate) enum NotRead {
    /// The export has ended.
    Ended,
    /// The node has never had the export.
    OtherOwner,
    /// The value has no such part.
    NoPart,
    /// There are too many parts, or they have too many words.
    Large,
    /// A sum has more than 64 bits.
    Overflow,
    /// An index is not below the length of its vector.
    Index { index: u64 },
    /// An option has no value, a map no entry, or a pointer leads nowhere.
    Nothing,
    /// The owner's memory has no value of the type.
    Broken,
    /// The export is for named nodes, and the reader is none of them or has not proved it.
    NotPermitted,
}

impl From<export::NotOpened> for NotOpened {
    fn from(error: export::NotOpened) -> NotOpened {
        match error {
            export::NotOpened::NoExport { others } => NotOpened::NoExport { others },
            export::NotOpened::OtherType { exported } => NotOpened::OtherType { exported },
            export::NotOpened::NotPermitted(denial) => {
                let (name, listed) = match denial {
                    Denial::Nameless => (None, false),
                    Denial::OtherNode { name } => (Some(name), false),
                    Denial::Unproved { name } => (Some(name), true),
                };
                NotOpened::NotPermitted { name, listed }
            }
        }
    }
}

impl From<export::NotRead> for NotRead {
    fn from(error: export::NotRead) -> NotRead {
        match error {
            export::NotRead::Ended => NotRead::Ended,
            export::NotRead::OtherOwner => NotRead::OtherOwner,
            export::NotRead::NoPart => NotRead::NoPart,
            export::NotRead::Large => NotRead::Large,
            export::NotRead::Overflow => NotRead::Overflow,
            export::NotRead::Missing(Missing::Index { index }) => NotRead::Index { index },
            export::NotRead::Missing(Missing::Nothing) => NotRead::Nothing,
            export::NotRead::Missing(Missing::Broken) => NotRead::Broken,
            export::NotRead::NotPermitted => NotRead::NotPermitted,
        }
    }
}

impl Asker for Caller {
    fn name(&self) -> Option<&NodeName> {
        Caller::name(self)
    }

    fn is_proved(&self) -> bool {
        Caller::is_proved(self)
    }
}

/// Returns the reader whose question is answered.
fn reader() -> Caller {
    Caller::current()
        .unwrap_or_else(|| unreachable!("a node serves its exports with their callers"))
}

impl Exports {
    /// Returns the reader whose question about an export is answered, once no update of the export is under way.
    async fn reader(&self, export: u32) -> Result<Caller, NotRead> {
        let reader = reader();
        self.between_updates(export, &reader).await?;
        Ok(reader)
    }
}

impl NodeExports for Exports {
    async fn open(
        &self,
        name: &str,
        shape: &str,
    ) -> Result<(u32, u64, u64, u8, SentSegment), NotOpened> {
        let (directory, reader) = (self.directory(), reader());
        let (number, owner) = directory.open(name, shape, &reader)?;
        let (location, segment) = owner.lend(reader.shares_memory());
        let segment = SentSegment::Own(segment, OnceLock::new());
        let consistency = location.consistency.encode();
        Ok((number, location.head(), location.words as u64, consistency, segment))
    }

    async fn read(&self, export: u32, part: u64) -> Result<Vec<u64>, NotRead> {
        let reader = self.reader(export).await?;
        Ok(self.words(export, (&[], Part::decode(part)), &reader)?)
    }

    async fn read_routed(&self, export: u32, part: Asked) -> Result<Vec<u64>, NotRead> {
        let reader = self.reader(export).await?;
        Ok(self.words(export, (&part.route, part.part()), &reader)?)
    }

    async fn read_all(&self, export: u32, parts: Vec<Asked>) -> Result<Vec<Vec<u64>>, NotRead> {
        Directory::<()>::check_all(parts.iter().map(Asked::part))?;
        let reader = self.reader(export).await?;
        let mut left = EXPORT_WORDS_MAX;
        let words = parts.iter().map(|asked| {
            let words = self.words(export, (&asked.route, asked.part()), &reader)?;
            // The elements of vectors that grow count as well.
            left = left.checked_sub(words.len()).ok_or(NotRead::Large)?;
            Ok(words)
        });
        words.collect()
    }

    async fn changed(
        &self,
        export: u32,
        asked: Asked,
        version: Option<u64>,
    ) -> Result<(Vec<u64>, u64), NotRead> {
        let part = asked.part();
        loop {
            let reader = self.reader(export).await?;
            let path = (&*asked.route, part, asked.is_unit);
            let (now, owner) = self.version(export, path, &reader)?;
            if version != Some(now.number) {
                return Ok((self.words(export, (&asked.route, part), &reader)?, now.number));
            }
            owner.watchers().change(now.units).await;
        }
    }

    async fn evaluate(&self, export: u32, expression: [u64; 5]) -> Result<Option<u64>, NotRead> {
        let expression = Expression::decode(expression).map_err(|_| NotRead::NoPart)?;
        let reader = self.reader(export).await?;
        let directory = self.directory();
        let owner = directory.expression(export, &expression, &reader)?;
        let found = owner.evaluate(&expression).map_err(|_| NotRead::Overflow)?;
        Ok(found.map(Number::bits))
    }

    async fn stand(&self, export: u32, parts: Vec<(Asked, u64)>) -> Result<bool, NotRead> {
        Directory::<()>::check_all(parts.iter().map(|(asked, _)| asked.part()))?;
        let reader = self.reader(export).await?;
        for (asked, version) in parts {
            let path = (&*asked.route, asked.part(), asked.is_unit);
            if self.version(export, path, &reader)?.0.number != version {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn list(&self) -> Vec<(u32, String, String)> {
        self.directory().list(&reader())
    }
}

/// A segment with exports, in the reply to the reader that is to map it.
pub(crate) enum SentSegment {
    /// A segment of this node, and the generation under which it went.
    Own(Arc<OwnSegment>, OnceLock<u32>),
    /// Owner and reader share no memory.
    Unshared,
    /// A segment that a node maps, or the reason why it is not mapped. None if it gave way to others.
    Came(Result<Option<Arc<Mapped>>, NotMapped>),
    /// A segment of this generation that a handle maps after the reply, which it reads under its lock.
    CameTo(Arc<Side>, u32),
}

impl SentSegment {
    /// Returns whether the owner has sent its memory.
    pub(super) fn was_sent(&self) -> bool {
        !matches!(self, SentSegment::Unshared)
    }

    /// Returns the memory of a segment that has come.
    pub(super) fn memory(self) -> Result<Option<Arc<Mapped>>, NotMapped> {
        match self {
            SentSegment::Came(memory) => memory,
            SentSegment::CameTo(side, generation) => came(side.segment(generation)),
            SentSegment::Own(..) | SentSegment::Unshared => Ok(None),
        }
    }
}

/// Maps a segment that has come. None if it gave way to others.
fn came(
    segment: Result<Option<(Segment, Option<u32>)>, String>,
) -> Result<Option<Arc<Mapped>>, NotMapped> {
    segment.map_err(NotMapped::Broken)?.map(mapped::map).transpose()
}

const NOWHERE: WireError =
    WireError::Stream { why: "the memory of an export is sent in a reply alone" };

impl Wire for SentSegment {
    // The value needs the session of its message, as a stream does.
    const STREAMS: bool = true;
    const BYTES_LIKELY: usize = 4;

    fn describe(out: &mut Describe) {
        out.text("segment");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        let SentSegment::Own(segment, sent) = self else { return Err(NOWHERE) };
        let context = out.context().ok_or(NOWHERE)?;
        let at = context.session.downcast_ref::<NodeSession>().ok_or(NOWHERE)?;
        // A value may be written twice, first to learn its length.
        sent.get_or_init(|| at.session.send_export(segment)).put(out)
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let generation = u32::take(input)?;
        let context = input.context().filter(|context| context.side == CallSide::Caller);
        let session = context.ok_or(NOWHERE)?.session;
        if generation == 0 {
            return Ok(SentSegment::Unshared);
        }
        match (session.downcast_ref::<Bound>(), session.downcast_ref::<Arc<Side>>()) {
            (Some(bound), _) => Ok(SentSegment::Came(came(bound.session.export(generation)))),
            (None, Some(side)) => Ok(SentSegment::CameTo(Arc::clone(side), generation)),
            (None, None) => Err(NOWHERE),
        }
    }
}
