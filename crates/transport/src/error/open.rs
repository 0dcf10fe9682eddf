//! The errors of a session that was not opened.

use super::{PlaceError, Unreached, descriptor_limit, descriptors_text, out_of_descriptors};
use crate::tls::TlsError;
use rustix::io::Errno;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use upbeat_core::fault::Rule;
use upbeat_core::hello::RefusalCode;
use upbeat_core::name::{NodeName, ProgramId};
use upbeat_memory::segment::SegmentError;

/// The peer of a handshake, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PeerIdentity {
    /// The node's name; a handle has none.
    pub name: Option<NodeName>,
    /// The process ID, if it is known. A process of another PID namespace has no ID here.
    pub pid: Option<u32>,
    /// The address, if the peer was reached over the network.
    pub at: Option<SocketAddr>,
}

impl fmt::Display for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, self.pid, self.at) {
            (Some(name), Some(pid), _) => write!(f, "node `{name}` (process {pid})"),
            (Some(name), None, Some(at)) => write!(f, "node `{name}` at {at}"),
            (Some(name), None, None) => write!(f, "node `{name}`"),
            (None, Some(pid), _) => write!(f, "process {pid}"),
            (None, None, Some(at)) => write!(f, "the peer at {at}"),
            (None, None, None) => write!(f, "the peer"),
        }
    }
}

/// The error of a session that was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no node with this name.
    NoSuchNode {
        /// The name.
        name: NodeName,
        /// The path of the missing socket; None if the node was looked up in this process.
        path: Option<PathBuf>,
        /// Whether a node that has died had the name.
        died: bool,
    },
    /// This node was made for its own process only, and cannot open a session to another process.
    LocalOnly,
    /// The session's number is beyond the node's board.
    Session {
        /// The number.
        session: usize,
        /// The limit, below which a number must be.
        limit: usize,
    },
    /// The peer runs as another user.
    WrongUser {
        /// The peer.
        peer: PeerIdentity,
        /// The peer's user.
        uid: u32,
    },
    /// The peer belongs to another program.
    WrongProgram {
        /// The peer.
        peer: PeerIdentity,
        /// Our program.
        ours: Box<ProgramId>,
        /// The peer's program.
        theirs: Box<ProgramId>,
    },
    /// The peer speaks another version of the protocol.
    WrongVersion {
        /// The peer.
        peer: PeerIdentity,
        /// Our version.
        ours: u16,
        /// The newest version that the peer speaks.
        theirs: u16,
    },
    /// The peer wanted another node than the one it reached.
    WrongNode {
        /// The peer.
        peer: PeerIdentity,
        /// The node that was wanted.
        wanted: NodeName,
        /// The node that was reached.
        reached: NodeName,
    },
    /// TLS with the peer failed: one side does not trust the other, or speaks something else.
    Tls {
        /// The peer.
        peer: PeerIdentity,
        /// The reason.
        why: Box<TlsError>,
    },
    /// The peer refused the session.
    Refused {
        /// The peer.
        peer: PeerIdentity,
        /// The kind of refusal.
        code: RefusalCode,
        /// The peer's text.
        text: String,
    },
    /// The peer did not answer in time.
    TooSlow {
        /// The peer.
        peer: PeerIdentity,
        /// The time that this side waited.
        waited_ms: u64,
    },
    /// The peer closed the connection, or died, before the session was open.
    Closed {
        /// The peer.
        peer: PeerIdentity,
    },
    /// The process has no descriptor left.
    Descriptors {
        /// The process's limit of descriptors.
        limit: u64,
    },
    /// A segment of this side cannot be made, or a segment of the peer cannot be used.
    Segment {
        /// The peer, or None if the segment belongs to this side.
        peer: Option<PeerIdentity>,
        /// The kind of segment: `lane`, `node page`, `board`.
        which: &'static str,
        /// The error of the segment.
        error: SegmentError,
    },
    /// The peer broke a rule of the handshake.
    Protocol {
        /// The peer.
        peer: PeerIdentity,
        /// The rule.
        rule: Rule,
    },
    /// The peer's node page belongs to another incarnation than the peer named.
    Incarnation {
        /// The peer.
        peer: PeerIdentity,
        /// The incarnation that the peer named.
        said: u64,
        /// The incarnation in the peer's node page.
        page: u64,
    },
    /// A system call failed.
    System {
        /// The step that failed.
        act: &'static str,
        /// The error of the system.
        error: Errno,
    },
    /// There is no connection to an address on the network.
    Unreached {
        /// The address.
        at: String,
        /// The reason.
        why: Unreached,
    },
    /// No address of a host led to the node.
    NoAddress {
        /// The host and its port.
        at: String,
        /// The error of each address.
        tried: Vec<OpenError>,
    },
    /// The directory of the sockets cannot be used.
    Place(PlaceError),
    /// The queue of connections at the node is full: the node accepts none of them, or too few.
    Backlog {
        /// The node.
        name: NodeName,
    },
    /// This node has as many sessions as a node may have.
    Sessions {
        /// The limit.
        limit: usize,
    },
}

impl OpenError {
    /// Returns whether the node was too busy, so that a retry may succeed.
    pub fn is_busy(&self) -> bool {
        match self {
            OpenError::Backlog { .. } => true,
            // This side was silent for too long, for example because it got no processor.
            OpenError::Refused { code, .. } => *code == RefusalCode::TooSlow,
            OpenError::Tls { why, .. } => **why == TlsError::GaveWay,
            _ => false,
        }
    }

    /// Returns whether a later attempt may succeed without a change on this side: the node is not there at present, or
    /// lacks a resource that others give back.
    pub fn may_pass(&self) -> bool {
        match self {
            OpenError::NoSuchNode { .. } | OpenError::Closed { .. } | OpenError::TooSlow { .. } => {
                true
            }
            OpenError::Refused { code, .. } => matches!(
                code,
                RefusalCode::NoSuchNode
                    | RefusalCode::Closing
                    | RefusalCode::TooManySessions
                    | RefusalCode::TooManyDescriptors
                    | RefusalCode::TooManyOfAddress
                    | RefusalCode::NoResources
                    | RefusalCode::TooSlow
            ),
            OpenError::Unreached { why, .. } => *why != Unreached::NotUpbeat,
            OpenError::NoAddress { tried, .. } => tried.iter().any(OpenError::may_pass),
            _ => self.is_busy(),
        }
    }

    pub(crate) fn system(act: &'static str) -> impl Fn(Errno) -> OpenError {
        move |error| match error {
            // The kernel has an error of its own for too many descriptors in flight.
            Errno::MFILE | Errno::TOOMANYREFS => {
                OpenError::Descriptors { limit: descriptor_limit() }
            }
            error => OpenError::System { act, error },
        }
    }

    pub(crate) fn segment(
        peer: Option<PeerIdentity>,
        which: &'static str,
    ) -> impl FnOnce(SegmentError) -> OpenError {
        move |error| match out_of_descriptors(&error) {
            Some(limit) => OpenError::Descriptors { limit },
            None => OpenError::Segment { peer, which, error },
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NoSuchNode { .. }
            | OpenError::LocalOnly
            | OpenError::Session { .. }
            | OpenError::Descriptors { .. }
            | OpenError::Segment { peer: None, .. }
            | OpenError::System { .. }
            | OpenError::Unreached { .. }
            | OpenError::NoAddress { .. }
            | OpenError::Place(_)
            | OpenError::Backlog { .. }
            | OpenError::Sessions { .. } => self.fmt_ours(f),
            _ => self.fmt_peer(f),
        }
    }
}

impl OpenError {
    fn fmt_ours(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NoSuchNode { name, path, died } => {
                match died {
                    true => write!(f, "node `{name}` was there but is dead")?,
                    false => write!(f, "there is no node `{name}`")?,
                }
                match path {
                    Some(path) => write!(f, ": nobody listens at {}", path.display())?,
                    None => write!(f, " in this process")?,
                }
                write!(f, "; start it first, and check that it has the same program and user")
            }
            OpenError::LocalOnly => {
                write!(f, "the node's memory is on the heap, where no other process can reach it")
            }
            OpenError::Session { session, limit } => {
                write!(f, "session number {session}: a node has at most {limit} sessions")
            }
            OpenError::Descriptors { limit } => descriptors_text(f, *limit),
            OpenError::Segment { which, error, .. } => write!(f, "our {which}: {error}"),
            OpenError::System { act, error } => write!(f, "{act} failed: {error}"),
            OpenError::Unreached { at, why } => write!(f, "{at}: {why}"),
            OpenError::NoAddress { at, tried } => {
                write!(f, "none of the {} addresses of {at} leads to the node", tried.len())?;
                tried.iter().try_for_each(|error| write!(f, "; {error}"))
            }
            OpenError::Place(error) => write!(f, "{error}"),
            OpenError::Backlog { name } => write!(
                f,
                "the queue of connections of node `{name}` is full: the node does not accept them, \
                 or too few; see whether it hangs or is stopped, and try again"
            ),
            OpenError::Sessions { limit } => write!(
                f,
                "this node has {limit} sessions, the most that a node may have: drop clients that \
                 are not needed, or use another node"
            ),
            _ => unreachable!("the peer's faults have their own text"),
        }
    }

    fn fmt_peer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::WrongUser { peer, uid } => write!(
                f,
                "{peer} runs as user {uid}, this process as user {}: a program's nodes run as one \
                 user",
                rustix::process::geteuid().as_raw()
            ),
            OpenError::WrongProgram { peer, ours, theirs } => write!(
                f,
                "{peer} belongs to program {theirs}, this node to program {ours}: start both as \
                 one program"
            ),
            OpenError::WrongVersion { peer, ours, theirs } => write!(
                f,
                "{peer} speaks version {theirs} of the protocol, this node version {ours}: build \
                 both with the same Upbeat"
            ),
            OpenError::WrongNode { peer, wanted, reached } => write!(
                f,
                "{peer} wants node `{wanted}` and has reached node `{reached}`, which listens there: connect to \
                 `{reached}`, or give the address at which `{wanted}` listens"
            ),
            OpenError::Tls { peer, why } => write!(f, "{peer}: {why}"),
            OpenError::Refused { peer, code, text } => write!(f, "{peer} refused ({code}): {text}"),
            OpenError::TooSlow { peer, waited_ms } => write!(
                f,
                "{peer} has not answered for {waited_ms} ms: it is stopped, hangs, or is too busy"
            ),
            OpenError::Closed { peer } => {
                write!(f, "{peer} closed the connection before the session stood: it may have died")
            }
            OpenError::Segment { peer: Some(peer), which, error } => {
                write!(f, "the {which} of {peer}: {error}")
            }
            OpenError::Protocol { peer, rule } => write!(f, "{peer} broke a rule: {rule}"),
            OpenError::Incarnation { peer, said, page } => write!(
                f,
                "{peer} called itself incarnation {said:#x}, its node page says {page:#x}"
            ),
            _ => unreachable!("our own failures have their own text"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<PlaceError> for OpenError {
    fn from(error: PlaceError) -> OpenError {
        match error {
            PlaceError::Descriptors { limit } => OpenError::Descriptors { limit },
            error => OpenError::Place(error),
        }
    }
}
