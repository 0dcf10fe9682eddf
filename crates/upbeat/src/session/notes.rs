//! The notes of a node about each of its sessions.

use std::cell::{Cell, OnceCell};
use upbeat_core::address::NodeAddress;
use upbeat_core::looks::Looks;
use upbeat_memory::pool::Key;

/// A node's notes about a session.
#[derive(Default)]
pub(crate) struct NodeNotes {
    /// The key under which the node keeps the session.
    pub(crate) key: Cell<Option<Key>>,
    /// The peer's socket, inbox or address, if the node has opened the session.
    pub(crate) opened_as: OnceCell<NodeAddress>,
    /// Whether the peer has proved its name.
    pub(crate) proved: Cell<bool>,
    /// Whether the peer's process is watched for this session.
    pub(crate) watched: Cell<bool>,
    /// Whether the node polls the lane in each turn.
    pub(crate) hot: Cell<bool>,
    /// Whether the session stands on the node's list of hot sessions, where it may stay for a while after it was.
    pub(crate) listed: Cell<bool>,
    /// The position in the lane when the node last looked for idle sessions.
    pub(crate) taken: Cell<u64>,
    /// Whether the position was the same the time before.
    pub(crate) rests: Cell<bool>,
    /// The slots that had come and gone when the node last looked at streams.
    pub(crate) moved: Cell<u64>,
    /// The looks at the session's socket.
    pub(crate) looks: Cell<Looks>,
    /// Whether the session waits for room in the node for its requests.
    pub(crate) awaits_turn: Cell<bool>,
    /// Whether the node waits until the session's socket takes more.
    pub(crate) awaits_output: Cell<bool>,
}
