//! The parts of a node that all its sessions share: its identity, its node page and its board.
//!
//! Handshakes hold the read-only part by a shared pointer, because a handshake may outlive a turn. Only the node
//! itself writes its page and sweeps its board. Invariant: an incarnation is random and never used again, so a peer
//! can tell the next node of the same name apart.

use crate::error::{BindError, HomeError, descriptor_limit};
use crate::member::Member;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use upbeat_core::hello::Listening;
use upbeat_core::limits::{BOARD_BYTES, SESSIONS_PER_NODE_MAX};
use upbeat_core::name::{NodeName, ProgramId};
use upbeat_environment::chance::random;
use upbeat_environment::turns::Mutex;
use upbeat_memory::board::{Board, sessions_in};
use upbeat_memory::fork::PerProcess;
use upbeat_memory::page::NodePage;
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::segment::{PAGE, Segment, SegmentError, Writers};

/// The size of a node page in bytes.
pub(crate) const PAGE_BYTES: usize = PAGE;

// Every session has a byte on the board.
const _: () = assert!(SESSIONS_PER_NODE_MAX <= sessions_in(BOARD_BYTES));

/// A node's own part of its sessions.
///
/// If the system refuses shared memory, sessions with other processes use byte streams; [`LocalNode::unshared`] tells
/// the reason.
pub struct LocalNode {
    info: Arc<NodeInfo>,
    page: NodePage,
    board: Board,
    /// The node's membership in the groups in which it accepts callers, once it accepts any.
    member: OnceLock<Arc<Member>>,
}

impl LocalNode {
    /// Makes the home of a node that other processes and this process can reach. A handle, which only connects, has
    /// no name.
    pub fn new(program: ProgramId, name: Option<NodeName>) -> Result<LocalNode, HomeError> {
        let shared = page().and_then(|page| Ok((page, Arc::new(board()?))));
        LocalNode::build(program, name, Memory::of(shared)?)
    }

    /// Makes the home of a node that other processes can reach and that shares no memory with them: its sessions with
    /// them use byte streams.
    pub fn without_memory(
        program: ProgramId,
        name: Option<NodeName>,
    ) -> Result<LocalNode, HomeError> {
        LocalNode::build(program, name, Memory::heap(Reachable::Streams(None)))
    }

    /// Makes sessions within this process use byte streams too, for tests.
    pub fn over_streams_alone(self) -> LocalNode {
        let LocalNode { info, page, board, member } = self;
        let mut info = Arc::into_inner(info).expect("a home that nobody has used");
        info.streams_alone = true;
        LocalNode { info: Arc::new(info), page, board, member }
    }

    /// Makes the home of a handle that has one session and polls its lane itself. It has no name. All such handles of
    /// a process show their peers one board, which nobody reads.
    pub fn of_handle(program: ProgramId) -> Result<LocalNode, HomeError> {
        // A forked child does not have its parent's mapping.
        static UNREAD: PerProcess<Mutex<Weak<Segment>>> = PerProcess::new();
        let mut unread = UNREAD.get(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let shared = unread.upgrade().map_or_else(|| board().map(Arc::new), Ok);
        if let Ok(board) = &shared {
            *unread = Arc::downgrade(board);
        }
        drop(unread);
        let shared = shared.and_then(|board| Ok((page()?, board)));
        LocalNode::build(program, None, Memory::of(shared)?)
    }

    /// Makes the home of a node that meets only nodes of its own process, without segments and descriptors.
    pub fn local(program: ProgramId, name: Option<NodeName>) -> Result<LocalNode, HomeError> {
        LocalNode::build(program, name, Memory::heap(Reachable::Nobody))
    }

    fn build(
        program: ProgramId,
        name: Option<NodeName>,
        memory: Memory,
    ) -> Result<LocalNode, HomeError> {
        let incarnation = u64::from_le_bytes(random().map_err(HomeError::Random)?);
        let (streams_alone, listening, lock) = (false, OnceLock::new(), OnceLock::new());
        let info = NodeInfo { program, name, incarnation, memory, streams_alone, listening, lock };
        let page = NodePage::new(info.page().clone(), incarnation);
        let board = Board::new(info.board().clone());
        Ok(LocalNode { info: Arc::new(info), page, board, member: OnceLock::new() })
    }

    /// Returns the program that the node belongs to.
    pub fn program(&self) -> &ProgramId {
        &self.info.program
    }

    /// Returns the node's name; a handle has none.
    pub fn name(&self) -> Option<&NodeName> {
        self.info.name.as_ref()
    }

    /// Returns the node's incarnation.
    pub fn incarnation(&self) -> u64 {
        self.info.incarnation
    }

    /// Returns the page with which the node tells all its peers whether it polls.
    #[inline(always)]
    pub fn page(&self) -> &NodePage {
        &self.page
    }

    /// Returns the board on which peers mark the sessions that need a look.
    #[inline(always)]
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Returns whether other processes can reach the node.
    pub fn is_reachable(&self) -> bool {
        !matches!(self.info.memory, Memory::Heap { reach: Reachable::Nobody, .. })
    }

    /// Returns whether the node shares memory with other processes.
    pub fn shares(&self) -> bool {
        self.info.shares()
    }

    /// Returns why the node cannot share memory, if it would have shared it.
    pub fn unshared(&self) -> Option<&str> {
        self.info.unshared().map(AsRef::as_ref)
    }

    pub(crate) fn info(&self) -> &Arc<NodeInfo> {
        &self.info
    }

    /// Returns the node's membership in the groups in which it accepts callers.
    pub(crate) fn member(&self) -> Result<Arc<Member>, BindError> {
        if let Some(member) = self.member.get() {
            return Ok(Arc::clone(member));
        }
        let member = Member::new().map_err(|error| match error {
            Errno::MFILE => BindError::Descriptors { limit: descriptor_limit() },
            error => BindError::System { act: "making an eventfd", error },
        })?;
        Ok(Arc::clone(self.member.get_or_init(|| Arc::new(member))))
    }

    /// Notes how many sessions the node has: of the nodes that share its name, the next caller goes to the one with the
    /// fewest.
    pub fn has_sessions(&self, sessions: usize) {
        if let Some(member) = self.member.get() {
            member.has_sessions(sessions);
        }
    }
}

/// The read-only part of a home, which handshakes hold.
pub(crate) struct NodeInfo {
    pub(crate) program: ProgramId,
    pub(crate) name: Option<NodeName>,
    pub(crate) incarnation: u64,
    /// Whether sessions within this process use byte streams too.
    pub(crate) streams_alone: bool,
    memory: Memory,
    /// The address at which the node listens for other hosts, once it does.
    listening: OnceLock<Listening>,
    /// The file whose lock is the node's name, once the node has the lock.
    lock: OnceLock<PathBuf>,
}

enum Memory {
    Heap { page: Region, board: Region, reach: Reachable },
    Shared { page: Segment, board: Arc<Segment> },
}

/// The peers that a node whose memory is on the heap can meet.
enum Reachable {
    /// Only nodes of its own process.
    Nobody,
    /// Nodes of other processes, over byte streams; with the reason, if the user did not choose this.
    Streams(Option<Arc<str>>),
}

impl Memory {
    fn heap(reach: Reachable) -> Memory {
        let page = Region::heap(PAGE_BYTES / WORD);
        let board = Region::heap(BOARD_BYTES / WORD);
        Memory::Heap { page, board, reach }
    }

    /// Returns the shared segments, or memory of the heap if the system refuses to share any.
    fn of(shared: Result<(Segment, Arc<Segment>), SegmentError>) -> Result<Memory, HomeError> {
        match shared {
            Ok((page, board)) => Ok(Memory::Shared { page, board }),
            Err(error) if error.is_refused() => {
                Ok(Memory::heap(Reachable::Streams(Some(error.to_string().into()))))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl NodeInfo {
    pub(crate) fn page(&self) -> &Region {
        match &self.memory {
            Memory::Heap { page, .. } => page,
            Memory::Shared { page, .. } => page.region(),
        }
    }

    pub(crate) fn board(&self) -> &Region {
        match &self.memory {
            Memory::Heap { board, .. } => board,
            Memory::Shared { board, .. } => board.region(),
        }
    }

    /// Returns why the node cannot share memory, if it would have shared it.
    pub(crate) fn unshared(&self) -> Option<&Arc<str>> {
        match &self.memory {
            Memory::Heap { reach: Reachable::Streams(why), .. } => why.as_ref(),
            _ => None,
        }
    }

    /// Returns whether the node shares memory with other processes.
    pub(crate) fn shares(&self) -> bool {
        matches!(self.memory, Memory::Shared { .. })
    }

    /// Notes the file whose lock is the node's name.
    pub(crate) fn is_locked_by(&self, lock: &Path) {
        let _ = self.lock.set(lock.to_owned());
    }

    /// The file whose lock is the node's name, if other processes find it by that.
    pub(crate) fn lock(&self) -> Option<&Path> {
        self.lock.get().map(PathBuf::as_path)
    }

    /// Whether two nodes of this process can have one name: they are of the same program, and found in the same
    /// directory, or both by nobody outside of the process.
    pub(crate) fn may_share_name_with(&self, other: &NodeInfo) -> bool {
        let different = self.incarnation != other.incarnation;
        different && self.program == other.program && self.lock() == other.lock()
    }

    /// Stores the address at which the node listens for other hosts. A node listens at one address.
    pub(crate) fn listens(&self, listening: Listening) {
        let _ = self.listening.set(listening);
    }

    /// Returns the address at which the node listens for other hosts, if it shares memory.
    pub(crate) fn listening(&self) -> Option<Listening> {
        self.listening.get().copied().filter(|_| self.shares())
    }

    /// Returns the descriptors of the page and the board of a home that shares memory.
    pub(crate) fn descriptors(&self) -> Option<[BorrowedFd<'_>; 2]> {
        match &self.memory {
            Memory::Heap { .. } => None,
            Memory::Shared { page, board } => Some([page.descriptor(), board.descriptor()]),
        }
    }
}

fn page() -> Result<Segment, SegmentError> {
    Segment::create("upbeat-page", PAGE_BYTES, Writers::Owner)?.reserve()
}

fn board() -> Result<Segment, SegmentError> {
    Segment::create("upbeat-board", BOARD_BYTES, Writers::Everybody)?.reserve()
}

/// Returns a name for a node that only calls others: nobody else has it.
pub fn client_name() -> Result<NodeName, HomeError> {
    let number = u64::from_le_bytes(random().map_err(HomeError::Random)?);
    Ok(NodeName::new(&format!("client/{number:016x}")).expect("digits are allowed in a name"))
}

/// Returns whether a name is one that [`client_name`] makes.
pub fn is_client_name(name: &NodeName) -> bool {
    let number = name.as_str().strip_prefix("client/");
    number.is_some_and(|number| {
        number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}
