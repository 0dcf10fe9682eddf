//! Questions of readers to the node of an export, as the hidden service of exports has them.

use upbeat_core::channel::export::{NotOpened, NotRead, Overflow, Part};

/// A part that a reader asks for, and whether the part is a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) part: Part,
    pub(super) is_unit: bool,
}

/// A question to a node.
#[derive(Clone, Debug)]
pub(super) enum Question {
    Open {
        name: String,
        text: String,
    },
    Read(u32, Part),
    /// The words of a part of the value to which a route leads.
    Follow(u32, Vec<u64>, Part),
    ReadAll(u32, Vec<Part>),
    /// The words of a part once they have changed since a version.
    Changed(u32, Asked, Option<u64>),
    /// Whether parts still have these versions.
    Stand(u32, Vec<(Asked, u64)>),
    Evaluate(u32, [u64; 5]),
}

/// The answer of a node.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Opened(u32),
    NotOpened(NotOpened),
    NotRead(NotRead),
    /// The words of each part.
    Words(Vec<Vec<u64>>),
    /// The words of a part behind a route, and the first bit of the value there.
    Followed(Vec<u64>, u8),
    Changed(Vec<u64>, u64),
    Stands(bool),
    Number(Result<Option<u64>, Overflow>),
}

/// The answer of a node, and its state then.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) said: Said,
    /// The export from which the node has answered.
    pub(super) from: usize,
    /// The last store to its memory.
    pub(super) store: u64,
}

/// A question on its way.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) reader: usize,
    pub(super) to: usize,
    pub(super) question: Question,
    /// The moment at which it was asked.
    pub(super) asked: u64,
    pub(super) answer: Option<Answer>,
}
