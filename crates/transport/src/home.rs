//! What a node brings to every session: who it is, its node page and its board.
//!
//! Sessions hold the read-only part of it by a shared pointer, for a handshake may outlive a turn;
//! the page and the board are the node's alone to write and to sweep. Invariant: an incarnation is
//! random and never used again, so whoever meets the next node of a name knows it for another.

use crate::error::HomeError;
use rustix::rand::GetRandomFlags;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use upbeat_core::hello::Listening;
use upbeat_core::limits::{BOARD_BYTES, SESSIONS_PER_NODE_MAX};
use upbeat_core::name::{NodeName, ProgramId};
use upbeat_memory::board::{Board, sessions_in};
use upbeat_memory::fork::Process;
use upbeat_memory::page::NodePage;
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::segment::{PAGE, Segment, SegmentError, Writers};

/// Bytes of a node page.
pub(crate) const PAGE_BYTES: usize = PAGE;

// Every session has its byte on the board.
const _: () = assert!(SESSIONS_PER_NODE_MAX <= sessions_in(BOARD_BYTES));

/// A node's part in each of its sessions.
///
/// Where memory cannot be shared, because the system refuses it, sessions with other processes go over byte
/// streams; [`Home::unshared`] says why.
pub struct Home {
    card: Arc<Card>,
    page: NodePage,
    board: Board,
}

impl Home {
    /// The home of a node that can be reached from other processes and from this one. A handle
    /// that only connects has no name.
    pub fn new(program: ProgramId, name: Option<NodeName>) -> Result<Home, HomeError> {
        let shared = page().and_then(|page| Ok((page, Arc::new(board()?))));
        Home::build(program, name, Memory::of(shared)?)
    }

    /// The home of a node that can be reached from other processes and shares no memory with them: its
    /// sessions with them go over byte streams.
    pub fn without_memory(program: ProgramId, name: Option<NodeName>) -> Result<Home, HomeError> {
        Home::build(program, name, Memory::heap(Reach::Streams(None)))
    }

    /// The same home, whose sessions within this process go over byte streams too. To test with.
    pub fn over_streams_alone(self) -> Home {
        let Home { card, page, board } = self;
        let mut card = Arc::into_inner(card).expect("a home that nobody has used");
        card.streams_alone = true;
        Home { card: Arc::new(card), page, board }
    }

    /// The home of a handle that has one session and looks at its lane by itself. It has no name,
    /// and no board of its own: nobody reads the one that all handles of the process show.
    pub fn of_handle(program: ProgramId) -> Result<Home, HomeError> {
        // A forked child has no mapping of its parent's.
        static UNREAD: Mutex<Option<(Process, Weak<Segment>)>> = Mutex::new(None);
        let mut unread = UNREAD.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = unread.take().filter(|(made, _)| made.is_this());
        let shared = match ours.and_then(|(_, board)| board.upgrade()) {
            Some(board) => Ok(board),
            None => board().map(Arc::new),
        };
        if let Ok(board) = &shared {
            *unread = Some((Process::this(), Arc::downgrade(board)));
        }
        drop(unread);
        let shared = shared.and_then(|board| Ok((page()?, board)));
        Home::build(program, None, Memory::of(shared)?)
    }

    /// The home of a node that meets only nodes of its own process: no segments, no descriptors.
    pub fn local(program: ProgramId, name: Option<NodeName>) -> Result<Home, HomeError> {
        Home::build(program, name, Memory::heap(Reach::Nobody))
    }

    fn build(
        program: ProgramId,
        name: Option<NodeName>,
        memory: Memory,
    ) -> Result<Home, HomeError> {
        let incarnation = u64::from_ne_bytes(random()?);
        let (streams_alone, listening) = (false, OnceLock::new());
        let card = Card { program, name, incarnation, memory, streams_alone, listening };
        let page = NodePage::new(card.page().clone(), incarnation);
        let board = Board::new(card.board().clone());
        Ok(Home { card: Arc::new(card), page, board })
    }

    /// The program that the node belongs to.
    pub fn program(&self) -> &ProgramId {
        &self.card.program
    }

    /// The node's name; a handle has none.
    pub fn name(&self) -> Option<&NodeName> {
        self.card.name.as_ref()
    }

    /// The node's incarnation.
    pub fn incarnation(&self) -> u64 {
        self.card.incarnation
    }

    /// The page on which the node speaks to all peers.
    #[inline(always)]
    pub fn page(&self) -> &NodePage {
        &self.page
    }

    /// The board on which peers note what wants a look.
    #[inline(always)]
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Whether other processes can reach it.
    pub fn is_reachable(&self) -> bool {
        !matches!(self.card.memory, Memory::Heap { reach: Reach::Nobody, .. })
    }

    /// Whether it shares memory with other processes.
    pub fn shares(&self) -> bool {
        self.card.shares()
    }

    /// Why the node cannot share memory, where it would have.
    pub fn unshared(&self) -> Option<&str> {
        self.card.unshared().map(AsRef::as_ref)
    }

    pub(crate) fn card(&self) -> &Arc<Card> {
        &self.card
    }
}

/// The part of a home that handshakes hold on to.
pub(crate) struct Card {
    pub(crate) program: ProgramId,
    pub(crate) name: Option<NodeName>,
    pub(crate) incarnation: u64,
    /// Whether sessions within this process go over byte streams too.
    pub(crate) streams_alone: bool,
    memory: Memory,
    /// Where the node listens for other hosts, once it does.
    listening: OnceLock<Listening>,
}

enum Memory {
    Heap { page: Region, board: Region, reach: Reach },
    Shared { page: Segment, board: Arc<Segment> },
}

/// Who can be met by a node whose memory is on the heap.
enum Reach {
    /// Nobody outside of its process.
    Nobody,
    /// Others, over byte streams; and why, where that was not chosen.
    Streams(Option<Arc<str>>),
}

impl Memory {
    fn heap(reach: Reach) -> Memory {
        let page = Region::heap(PAGE_BYTES / WORD);
        let board = Region::heap(BOARD_BYTES / WORD);
        Memory::Heap { page, board, reach }
    }

    /// What was made to be shared, or the heap, where the system makes no such memory.
    fn of(shared: Result<(Segment, Arc<Segment>), SegmentError>) -> Result<Memory, HomeError> {
        match shared {
            Ok((page, board)) => Ok(Memory::Shared { page, board }),
            Err(error) if error.is_refused() => {
                Ok(Memory::heap(Reach::Streams(Some(error.to_string().into()))))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Card {
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

    /// Why the node cannot share memory, where it would have.
    pub(crate) fn unshared(&self) -> Option<&Arc<str>> {
        match &self.memory {
            Memory::Heap { reach: Reach::Streams(why), .. } => why.as_ref(),
            _ => None,
        }
    }

    /// Whether it shares memory with other processes.
    pub(crate) fn shares(&self) -> bool {
        matches!(self.memory, Memory::Shared { .. })
    }

    /// Notes where the node listens for other hosts. A node listens at one address.
    pub(crate) fn listens(&self, listening: Listening) {
        let _ = self.listening.set(listening);
    }

    /// Where the node listens for other hosts, as it tells those with which it shares memory.
    pub(crate) fn listening(&self) -> Option<Listening> {
        self.listening.get().copied().filter(|_| self.shares())
    }

    /// The descriptors of page and board, of a home that was made for sharing.
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

/// Random bytes of the system's.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], HomeError> {
    let mut bytes = [0; N];
    // So few bytes come at once or not at all, once the pool is ready.
    let failed = HomeError::Random;
    let filled =
        rustix::rand::getrandom(&mut bytes[..], GetRandomFlags::empty()).map_err(failed)?;
    match filled {
        filled if filled == N => Ok(bytes),
        _ => Err(HomeError::Random(rustix::io::Errno::AGAIN)),
    }
}
