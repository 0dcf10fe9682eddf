//! Two bare lanes: the path of a session's messages, with no runtime around them.
//!
//! A step does the work of a node with a lane in a turn, in the same order: it takes the frame that
//! has come, writes the next, passes the first, publishes its progress, fences, and reads the peer's
//! flags. The time between two publishings of a side is therefore a round trip of the lanes.

use crate::bill::parts::Size;
use rustix::fd::{AsFd, OwnedFd};
use std::cell::Cell;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use upbeat_cli::bench::control::{Control, Offer};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::{open, receive};
use upbeat_cli::bench::pin;
use upbeat_cli::bench::timing::{Round, Work};
use upbeat_core::frame::{CallNumber, Head};
use upbeat_core::limits::CONTROL_SLOTS;
use upbeat_memory::board::Board;
use upbeat_memory::lane::{LANE_BYTES, Lanes};
use upbeat_memory::page::{NodePage, PeerPage};
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::ring::span_of;
use upbeat_memory::segment::{PAGE, Segment, Writers};
use upbeat_memory::sync::fence_full;

/// Words of a board for a few sessions.
const BOARD_WORDS: usize = 16;
const LANE: &str = "upbeat-bench-lane";
const NODE_PAGE: &str = "upbeat-bench-page";

/// The number of the session on either side, which decides the slot at which a lane begins: the first
/// session of a node, as in the measured call.
const FIRST: u64 = 0;

/// One side of two lanes.
pub(super) struct Side {
    lanes: Lanes,
    /// Kept, because it holds the polling flag that the peer reads.
    _page: NodePage,
    peer: PeerPage,
    board: Board,
    woken: AtomicBool,
    looks: Cell<u64>,
}

/// The sides for each size of frames, so that none finds the frames of another.
pub(super) struct Sides {
    nothing: Side,
    kib: Side,
}

impl Sides {
    /// Returns this side of lanes between two processes.
    pub(super) fn between(control: &Control) -> Result<Sides, BenchError> {
        let lane = || segment(LANE, LANE_BYTES);
        let page = || segment(NODE_PAGE, PAGE);
        let ours = [(lane()?, page()?), (lane()?, page()?)];
        let segments = vec![LANE_BYTES, PAGE, LANE_BYTES, PAGE];
        let descriptors: Vec<_> =
            ours.iter().flat_map(|(lane, page)| [lane.descriptor(), page.descriptor()]).collect();
        control.send_with(&Offer { segments }, &descriptors)?;
        let [lane, page, kib_lane, kib_page] = receive(control)?;
        let side = |(ours, own_page): (Segment, Segment), lane: OwnedFd, page: OwnedFd| {
            let own = Memory { lane: ours.into_region(), page: own_page.into_region() };
            let lane = open(LANE, lane.as_fd(), LANE_BYTES)?;
            let page = open(NODE_PAGE, page.as_fd(), PAGE)?;
            Ok::<_, BenchError>(Side::new(own, Memory { lane, page }))
        };
        let [nothing, kib] = ours;
        Ok(Sides { nothing: side(nothing, lane, page)?, kib: side(kib, kib_lane, kib_page)? })
    }

    /// Runs this side of a round.
    pub(super) fn ask(&self, size: Size, work: Work) -> Result<Round, BenchError> {
        match size {
            Size::Nothing => self.nothing.ask::<0>(work),
            Size::Kib => self.kib.ask::<1024>(work),
        }
    }

    /// Runs the other side of a round.
    pub(super) fn answer(&self, size: Size, work: Work) -> Result<(), BenchError> {
        match size {
            Size::Nothing => self.nothing.answer::<0>(work),
            Size::Kib => self.kib.answer::<1024>(work),
        }
    }
}

fn segment(label: &'static str, bytes: usize) -> Result<Segment, BenchError> {
    Segment::create(label, bytes, Writers::Owner)
        .and_then(Segment::reserve)
        .map_err(BenchError::segment(label))
}

/// The memory that one side writes, each part apart, as nodes have it.
struct Memory {
    lane: Region,
    page: Region,
}

impl Memory {
    fn heap() -> Memory {
        Memory { lane: Region::heap(LANE_BYTES / WORD), page: Region::heap(PAGE / WORD) }
    }

    /// Returns the same memory as the other side maps it.
    fn seen(&self) -> Memory {
        Memory { lane: self.lane.read_only(), page: self.page.read_only() }
    }
}

/// Both sides in one thread.
pub(super) struct Together {
    client: Side,
    server: Side,
}

impl Together {
    /// Returns lanes on the heap.
    pub(super) fn new() -> Together {
        let (ours, theirs) = (Memory::heap(), Memory::heap());
        let (seen, told) = (ours.seen(), theirs.seen());
        let (client, server) = (Side::new(ours, told), Side::new(theirs, seen));
        Together { client, server }
    }

    /// Runs a round of both sides by turns: the same work with every line in the cache.
    pub(super) fn round(&self, size: Size, work: Work) -> Result<Round, BenchError> {
        match size {
            Size::Nothing => self.round_of::<0>(work),
            Size::Kib => self.round_of::<1024>(work),
        }
    }

    fn round_of<const BYTES: usize>(&self, work: Work) -> Result<Round, BenchError> {
        let bytes = black_box([7; BYTES]);
        self.client.send(&bytes)?;
        let round = work.try_run(|| {
            self.server.step::<BYTES>(None)?;
            self.client.step(Some(&bytes))
        })?;
        self.server.step::<BYTES>(None)?;
        self.client.take::<BYTES>()?;
        self.client.tell();
        Ok(round)
    }
}

/// The other side in a thread on another CPU, as a node of this process would be: it writes
/// memory of its own.
pub(super) struct Apart {
    client: Side,
    orders: Sender<Work>,
    done: Receiver<Result<(), BenchError>>,
}

impl Apart {
    /// Starts the thread.
    pub(super) fn start(size: Size, cpu: usize) -> Result<Apart, BenchError> {
        let ours = Memory::heap();
        let seen = ours.seen();
        let (orders, ordered) = channel();
        let (say, done) = channel();
        let (give, given) = channel();
        std::thread::spawn(move || {
            let theirs = Memory::heap();
            // A receiver that is gone has ended the benchmark.
            let _ = give.send(theirs.seen());
            let server = Side::new(theirs, seen);
            let pinned = pin::pin(cpu).map_err(BenchError::from);
            let mut go_on = say.send(pinned).is_ok();
            while go_on && let Ok(work) = ordered.recv() {
                let answered = match size {
                    Size::Nothing => server.answer::<0>(work),
                    Size::Kib => server.answer::<1024>(work),
                };
                go_on = say.send(answered).is_ok();
            }
        });
        let theirs = given.recv().map_err(gone)?;
        let client = Side::new(ours, theirs);
        done.recv().map_err(gone)??;
        Ok(Apart { client, orders, done })
    }

    /// Runs a round.
    pub(super) fn round(&self, size: Size, work: Work) -> Result<Round, BenchError> {
        self.orders.send(work).map_err(gone)?;
        let round = match size {
            Size::Nothing => self.client.ask::<0>(work),
            Size::Kib => self.client.ask::<1024>(work),
        };
        self.done.recv().map_err(gone)??;
        round
    }
}

fn gone<E>(_: E) -> BenchError {
    BenchError::protocol("the thread with the lanes' other side is gone")
}

impl Side {
    fn new(ours: Memory, theirs: Memory) -> Side {
        let own_page = NodePage::new(ours.page, FIRST);
        let peer = PeerPage::new(theirs.page);
        let lanes = Lanes::new(ours.lane, FIRST, theirs.lane, FIRST);
        let board = Board::new(Region::heap(BOARD_WORDS));
        let (woken, looks) = (AtomicBool::new(false), Cell::new(0));
        Side { lanes, _page: own_page, peer, board, woken, looks }
    }

    fn ask<const BYTES: usize>(&self, work: Work) -> Result<Round, BenchError> {
        let bytes = black_box([7; BYTES]);
        self.send(&bytes)?;
        let round = work.try_run(|| self.step(Some(&bytes)))?;
        self.take::<BYTES>()?;
        self.tell();
        Ok(round)
    }

    fn answer<const BYTES: usize>(&self, work: Work) -> Result<(), BenchError> {
        (0..=work.total()).try_for_each(|_| self.step::<BYTES>(None))
    }

    /// Runs a turn: answers the frame that comes with these bytes, or with its own.
    #[inline(always)]
    fn step<const BYTES: usize>(&self, with: Option<&[u8; BYTES]>) -> Result<(), BenchError> {
        let came = self.take::<BYTES>()?;
        self.send(with.unwrap_or(&came))?;
        self.tell();
        Ok(())
    }

    /// Waits for a frame, and copies its payload.
    #[inline(always)]
    fn take<const BYTES: usize>(&self) -> Result<[u8; BYTES], BenchError> {
        loop {
            // If padding has come and its frame has not, there is no frame to take.
            if self.lanes.has_frame()
                && let Some(words) = self.lanes.look().map_err(fault)?
            {
                black_box(words);
                break;
            }
            // A node checks this flag as well each time.
            self.looks.set(self.looks.get() + 1);
            if self.woken.load(Ordering::Relaxed) || self.board.is_marked() {
                return Err(fault("somebody wrote on a board of nobody's"));
            }
            spin_loop();
        }
        Ok(black_box(self.lanes.reader().read_value::<[u8; BYTES]>(0)))
    }

    /// Claims, writes and commits a frame.
    #[inline(always)]
    fn send<const BYTES: usize>(&self, bytes: &[u8; BYTES]) -> Result<(), BenchError> {
        let claim = self.lanes.claim(span_of(BYTES), CONTROL_SLOTS as u32);
        let mut claim = claim.map_err(|refused| fault(format!("{refused:?}")))?;
        claim.write(0, bytes);
        claim.commit(Head::call(1, CallNumber::NONE, BYTES as u32).words(), BYTES);
        Ok(())
    }

    /// Does the work of a node after publishing: passes the frame, polls for another, publishes its
    /// progress, fences, and reads the peer's flags.
    #[inline(always)]
    fn tell(&self) {
        self.lanes.reader().advance();
        black_box(self.lanes.has_frame());
        self.lanes.publish_progress();
        black_box(self.lanes.peer_wants_room());
        let fenced = fence_full();
        black_box(self.lanes.peer_is_attentive(fenced));
        black_box(self.peer.asleep(fenced));
    }
}

#[cold]
fn fault(what: impl ToString) -> BenchError {
    BenchError::protocol(format!("a bare lane: {}", what.to_string()))
}

#[cfg(test)]
mod tests {
    use super::{Apart, Control, Sides, Size, Together};
    use upbeat_cli::bench::timing::Work;

    const WORK: Work = Work { warm: 3, batches: 5, size: 100, singles: 0 };

    #[test]
    fn two_sides_of_one_process_meet_in_one_thread() {
        for size in [Size::Nothing, Size::Kib] {
            let both = Together::new();
            for _ in 0..2 {
                assert_eq!(both.round(size, WORK).unwrap().batches.len(), 5);
            }
        }
    }

    #[test]
    fn two_threads_meet_round_after_round() {
        for size in [Size::Nothing, Size::Kib] {
            let apart = Apart::start(size, upbeat_cli::bench::pin::allowed().unwrap()[0]).unwrap();
            for _ in 0..2 {
                let work = Work { warm: 1, batches: 2, size: 2, singles: 0 };
                assert_eq!(apart.round(size, work).unwrap().batches.len(), 2);
            }
        }
    }

    #[test]
    fn two_processes_meet_round_after_round() {
        let (control, socket) = Control::pair().unwrap();
        let other = std::thread::spawn(move || {
            let sides = Sides::between(&Control::from(socket)).unwrap();
            for size in [Size::Nothing, Size::Kib, Size::Nothing] {
                sides.answer(size, WORK).unwrap();
            }
        });
        let sides = Sides::between(&control).unwrap();
        for size in [Size::Nothing, Size::Kib, Size::Nothing] {
            assert_eq!(sides.ask(size, WORK).unwrap().batches.len(), 5);
        }
        other.join().unwrap();
    }
}
