//! The shared memory and eventfds of both processes of a benchmark.
//!
//! The lines are in memory of exactly the kind that a session's lanes have: two sealed segments,
//! each mapped writable by its creator and read-only by the other side. One more segment is
//! writable by both, for the one floor that needs this.

use crate::bench::control::{Control, Offer};
use crate::bench::error::BenchError;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::segment::{self, PAGE, Segment, Writers};

/// The number of words in a cache line.
pub(crate) const LINE_WORDS: usize = 8;
/// The index of the line that the measuring process writes. The two lines have different offsets in a page,
/// because a processor may otherwise confuse loads of the two lines at first.
pub(crate) const CLIENT_LINE: usize = LINE_WORDS;
/// The index of the line that the second process writes.
pub(crate) const SERVER_LINE: usize = 3 * LINE_WORDS;
/// The index of a second line, for values besides a round trip.
pub(crate) const SECOND_LINE: usize = 5 * LINE_WORDS;
/// The index of the line with the reader's position in a ring.
pub(crate) const PROGRESS_LINE: usize = 7 * LINE_WORDS;
/// The index of the line for the marks of handlers.
pub(crate) const MARK_LINE: usize = 9 * LINE_WORDS;
/// The index of the second process's results of its nodes in a ring of nodes, with a word for each node.
pub(crate) const RING_LINE: usize = 11 * LINE_WORDS;
/// The index of the second process's counts, with a word for each count.
pub const COUNT_LINE: usize = 13 * LINE_WORDS;
/// The index of the words that say how the second process's node has waited.
pub(crate) const WAITS_LINE: usize = 15 * LINE_WORDS;
/// The index of the first of the lines that one side writes and the other loads.
pub(crate) const DIRTY: usize = PAGE / WORD;
/// The step between two such loads: odd, so that all lines are loaded, and large, so that none is prefetched.
pub(crate) const DIRTY_STEP: usize = 97;
/// The number of those lines, which fit into the first cache.
pub(crate) const DIRTY_LINES: usize = 256;

/// The size of each side's segment, in bytes.
const BYTES: usize = PAGE + DIRTY_LINES * LINE_WORDS * WORD;

const LINES: &str = "upbeat-bench-lines";
const BOTH: &str = "upbeat-bench-both";

/// One side's view of the shared memory.
pub struct Ground {
    /// The lines that this side writes.
    pub ours: Region,
    /// The lines that the other side writes.
    pub theirs: Region,
    /// The lines that both sides write.
    pub(crate) both: Region,
    /// The number of round trips so far, equal on both sides, so that a written value is always new.
    pub(crate) turn: u64,
    /// The eventfd that wakes this side.
    pub(crate) own_bell: OwnedFd,
    /// The eventfd that wakes the other side.
    pub(crate) peer_bell: OwnedFd,
}

impl Ground {
    /// Creates the segments and eventfds, and sends them to the second process.
    pub(crate) fn lay(control: &Control) -> Result<Ground, BenchError> {
        let ours = lines()?;
        let both = Segment::create(BOTH, PAGE, Writers::Everybody)
            .and_then(Segment::reserve)
            .map_err(BenchError::segment(BOTH))?;
        let (own_bell, peer_bell) = (bell()?, bell()?);
        let descriptors =
            [ours.descriptor(), both.descriptor(), peer_bell.as_fd(), own_bell.as_fd()];
        control.send_with(&Offer { segments: vec![BYTES, PAGE] }, &descriptors)?;
        let [theirs] = receive(control)?;
        let theirs = open(LINES, theirs.as_fd(), BYTES)?;
        let both = both.into_region();
        Ok(Ground { ours: ours.into_region(), theirs, both, turn: 0, own_bell, peer_bell })
    }

    /// Receives the segments and eventfds of the first process.
    pub(crate) fn join(control: &Control) -> Result<Ground, BenchError> {
        let [theirs, both, own_bell, peer_bell] = receive(control)?;
        let theirs = open(LINES, theirs.as_fd(), BYTES)?;
        let both = segment::open(both.as_fd(), PAGE, Writers::Everybody)
            .map_err(BenchError::segment(BOTH))?;
        let ours = lines()?;
        control.send_with(&Offer { segments: vec![BYTES] }, &[ours.descriptor()])?;
        Ok(Ground { ours: ours.into_region(), theirs, both, turn: 0, own_bell, peer_bell })
    }
}

/// Receives exactly `N` descriptors.
pub fn receive<const N: usize>(control: &Control) -> Result<[OwnedFd; N], BenchError> {
    let (offer, descriptors) = control.receive_with::<Offer>()?;
    let count = descriptors.len();
    descriptors.try_into().map_err(|_| {
        BenchError::protocol(format!("{count} descriptors came where {N} belong, with {offer:?}"))
    })
}

/// Opens a segment that the other process writes.
pub fn open(
    label: &'static str,
    descriptor: BorrowedFd<'_>,
    bytes: usize,
) -> Result<Region, BenchError> {
    segment::open(descriptor, bytes, Writers::Owner).map_err(BenchError::segment(label))
}

fn lines() -> Result<Segment, BenchError> {
    Segment::create(LINES, BYTES, Writers::Owner)
        .and_then(Segment::reserve)
        .map_err(BenchError::segment(LINES))
}

fn bell() -> Result<OwnedFd, BenchError> {
    eventfd(0, EventfdFlags::CLOEXEC).map_err(BenchError::system("eventfd"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{BYTES, BenchError, Control, Ground, Offer, receive};

    /// Creates both sides in one process.
    pub(crate) fn both_sides() -> (Ground, Ground) {
        let (client, socket) = Control::pair().unwrap();
        let server = std::thread::spawn(move || {
            let control = Control::from(socket);
            Ground::join(&control).unwrap()
        });
        (Ground::lay(&client).unwrap(), server.join().unwrap())
    }

    #[test]
    fn each_side_writes_its_own_lines_and_reads_the_others() {
        let (client, server) = both_sides();
        client.ours.store(1, 5);
        server.ours.store(2, 6);
        assert_eq!((server.theirs.load(1), client.theirs.load(2)), (5, 6));
        assert!(!server.theirs.is_writable() && !client.theirs.is_writable());
        server.both.store(0, 1);
        client.both.store(1, 2);
        assert_eq!((client.both.load(0), server.both.load(1)), (1, 2));
        rustix::io::write(&client.peer_bell, &3u64.to_ne_bytes()).unwrap();
        let mut told = [0; 8];
        rustix::io::read(&server.own_bell, &mut told).unwrap();
        assert_eq!(u64::from_ne_bytes(told), 3);
    }

    #[test]
    fn a_wrong_number_of_descriptors_is_refused() {
        let (client, socket) = Control::pair().unwrap();
        client.send(&Offer { segments: vec![BYTES] }).unwrap();
        let refused = receive::<2>(&Control::from(socket)).unwrap_err();
        assert!(matches!(refused, BenchError::Protocol { .. }));
    }
}
