//! What both processes of a benchmark stand on: lines that they share, and eventfds.
//!
//! The lines lie in memory of exactly the kind that a session's lanes have: two sealed segments,
//! each mapped writable by its maker and read-only by the other side. One more segment may be
//! written by both, for the one floor that needs it.

use crate::bench::control::{Control, Offer};
use crate::bench::error::BenchError;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::segment::{self, PAGE, Segment, Writers};

/// Words in a cache line.
pub(crate) const LINE_WORDS: usize = 8;
/// Where the process that measures writes its line. The two lie at different offsets of a page,
/// or a processor would take a load of one for a load of the other at first.
pub(crate) const CLIENT_LINE: usize = LINE_WORDS;
/// Where the second process writes its line.
pub(crate) const SERVER_LINE: usize = 3 * LINE_WORDS;
/// A second line, for what has to be told beside a round trip.
pub(crate) const SECOND_LINE: usize = 5 * LINE_WORDS;
/// A line for how far a ring was read.
pub(crate) const PROGRESS_LINE: usize = 7 * LINE_WORDS;
/// A line for marks that handlers leave.
pub(crate) const MARK_LINE: usize = 9 * LINE_WORDS;
/// Where the second process says what its nodes of a ring have done: a word for each.
pub(crate) const RING_LINE: usize = 11 * LINE_WORDS;
/// Where the second process says what it has counted: a word for each count.
pub const COUNT_LINE: usize = 13 * LINE_WORDS;
/// Where the lines begin that are written to be loaded by the other side.
pub(crate) const DIRTY: usize = PAGE / WORD;
/// From one of those to the next that is loaded: odd, so all are, and far, so none is foreseen.
pub(crate) const DIRTY_STEP: usize = 97;
/// How many those are: few enough for the first cache.
pub(crate) const DIRTY_LINES: usize = 256;

/// Bytes of each side's segment.
const BYTES: usize = PAGE + DIRTY_LINES * LINE_WORDS * WORD;

const LINES: &str = "upbeat-bench-lines";
const BOTH: &str = "upbeat-bench-both";

/// One side's view.
pub struct Ground {
    /// Lines that this side writes.
    pub ours: Region,
    /// Lines that the other side writes.
    pub theirs: Region,
    /// Lines that both sides write.
    pub(crate) both: Region,
    /// Round trips so far, the same on both sides: what is written is never what was there.
    pub(crate) turn: u64,
    /// What wakes us.
    pub(crate) own_bell: OwnedFd,
    /// What wakes the other side.
    pub(crate) peer_bell: OwnedFd,
}

impl Ground {
    /// Makes it, and tells the second process.
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

    /// Joins what the first process has made.
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

/// Receives exactly so many descriptors.
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

    /// Both sides, in one process.
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
