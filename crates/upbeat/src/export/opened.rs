//! Exports that a reader has opened.

use super::location::Location;
use super::mapped::{Mapped, NotMapped};
use super::served::SentSegment;
use std::sync::Arc;
use upbeat_core::channel::export::Consistency;

/// The most times that an import opens its export, where many others open theirs over the same session.
const OPENS_MAX: usize = 16;

/// An export that its owner has opened for a reader.
pub(super) struct Opened {
    pub(super) number: u32,
    pub(super) location: Location,
    /// The owner's memory, if this process shares memory with the owner.
    pub(super) segment: Option<Arc<Mapped>>,
    /// Whether the owner's memory came, and gave way to that of other imports before it was mapped.
    gave_way: bool,
}

/// The names of an export at its owner.
pub(super) struct Names {
    /// The node and the export.
    whole: Box<str>,
    /// The bytes of the node's name.
    node: usize,
    /// The type.
    pub(super) shape: Box<str>,
}

impl Names {
    /// Returns the names of an export whose whole name, with a node, is this one.
    pub(super) fn new(whole: &str, shape: String) -> Names {
        let node = whole.rfind('/').unwrap_or(0);
        Names { whole: whole.into(), node, shape: shape.into() }
    }

    pub(super) fn export(&self) -> &str {
        self.whole[self.node..].trim_start_matches('/')
    }

    pub(super) fn node(&self) -> &str {
        &self.whole[..self.node]
    }
}

/// The answer of an owner: the number of the export, the word of its head, the words of a copy, its consistency, and its
/// memory.
pub(super) type Answer = (u32, u64, u64, u8, SentSegment);

impl Opened {
    /// Opens an export, and again if its memory gave way to that of other imports. A reader whose memory always does reads
    /// by calls.
    pub(super) async fn by<F: Future<Output = Result<Answer, E>>, E>(
        open: impl Fn() -> F,
    ) -> Result<Result<Opened, NotMapped>, E> {
        for _ in 1..OPENS_MAX {
            let opened = Opened::of(open().await?);
            if !opened.as_ref().is_ok_and(|opened| opened.gave_way) {
                return Ok(opened);
            }
        }
        Ok(Opened::of(open().await?))
    }

    /// Checks an owner's answer. The error says what is wrong with it.
    pub(super) fn of(
        (number, head, words, consistency, segment): Answer,
    ) -> Result<Opened, NotMapped> {
        let was_sent = segment.was_sent();
        let segment = segment.memory()?;
        let gave_way = was_sent && segment.is_none();
        let consistency = Consistency::decode(consistency).ok_or_else(|| {
            broken(format!("the export has the unknown consistency {consistency}"))
        })?;
        let words =
            usize::try_from(words).map_err(|_| broken(format!("the export has {words} words")))?;
        let location = Location::nowhere(words, consistency);
        let location = match &segment {
            Some(segment) => location.checked(head, &segment.memory.0),
            None => Some(location),
        };
        let location =
            location.ok_or_else(|| broken("the export lies outside of it".to_owned()))?;
        Ok(Opened { number, location, segment, gave_way })
    }
}

fn broken(text: String) -> NotMapped {
    NotMapped::Broken(text)
}
