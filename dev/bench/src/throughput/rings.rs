//! The baselines: bare rings of a few sizes, of which the fastest is used.

use std::os::fd::AsFd;
use std::rc::Rc;
use upbeat_cli::bench::control::{Control, Job, Offer};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::{self, Ground};
use upbeat_cli::bench::pair::Pair;
use upbeat_cli::bench::pipe::{self, Cut};
use upbeat_cli::bench::timing::{Round, Work};
use upbeat_memory::region::Region;
use upbeat_memory::segment::{Segment, Writers};

/// The sizes of the ring that are tried: within a first cache, a second, a third, and none.
const RINGS: [usize; 4] = [32 << 10, 256 << 10, 1 << 20, 8 << 20];
/// The readers' patience: both values are tried.
const PATIENCE: [u32; 2] = [1, 100];
/// The fewest pieces that fit a ring, so that both sides work at once.
const FIT: usize = 8;
/// The fewest messages that fit a ring in which each message is one piece.
const FIT_WHOLE: usize = 2;
/// How often each ring is tried; the fastest try counts. A burst longer than this is tried once.
const TRIES: u32 = 3;
const TRIED_BYTES: usize = 16 << 20;

const LABEL: &str = "upbeat-bench-pipe";

/// The number of copies of each byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copies {
    /// Into the ring and out of it.
    Two,
    /// Into the ring; the reader adds up words where they lie.
    One,
    /// Into the ring; each message is one piece, as a reader in place needs it.
    Whole,
}

impl Copies {
    pub(super) fn word(self) -> &'static str {
        match self {
            Copies::Two => "two-copies",
            Copies::One => "one-copy",
            Copies::Whole => "whole",
        }
    }

    /// Returns whether there is a ring to try. Short messages are one piece in any ring.
    pub(super) fn goes_with(self, message: usize) -> bool {
        self != Copies::Whole || message * FIT > RINGS[RINGS.len() - 1]
    }

    /// Returns the bytes of the largest ring that is tried.
    pub(super) fn most(self, message: usize) -> usize {
        self.rings(message).iter().map(|ring| ring.bytes).max().unwrap_or(0)
    }

    /// Returns the rings that are tried.
    fn rings(self, message: usize) -> Vec<Ring> {
        let (sizes, fit) = match self {
            Copies::Two | Copies::One => (RINGS.to_vec(), FIT),
            Copies::Whole => (vec![FIT_WHOLE * message], FIT_WHOLE),
        };
        let of = |bytes| PATIENCE.map(|patience| Ring { bytes, fit, patience });
        sizes.into_iter().flat_map(of).collect()
    }
}

/// A ring as it is tried: its bytes, how many pieces it holds at the least, and how patient its reader
/// is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ring {
    bytes: usize,
    fit: usize,
    patience: u32,
}

impl Ring {
    /// Returns the ring's name behind a case's path, for the second process.
    fn word(self) -> String {
        format!("{}+{}", self.bytes, self.patience)
    }

    fn cut(self, message: usize) -> Cut {
        Cut::of(self.bytes, message, self.fit).with_patience(self.patience)
    }
}

/// The segment with all rings, as the first process has it.
pub(super) struct Rings {
    ring: Region,
}

impl Rings {
    /// Makes a segment for rings of so many bytes, and hands it to the second process.
    pub(super) fn make(control: &Control, bytes: usize) -> Result<Rings, BenchError> {
        let ring = Segment::create(LABEL, bytes, Writers::Owner)
            .and_then(Segment::reserve)
            .map_err(BenchError::segment(LABEL))?;
        control.send_with(&Offer { segments: vec![bytes] }, &[ring.descriptor()])?;
        Ok(Rings { ring: ring.into_region() })
    }
}

/// A baseline of a case.
pub(super) struct RingFloor {
    rings: Rc<Rings>,
    copies: Copies,
    bytes: usize,
    best: Option<Ring>,
}

impl RingFloor {
    /// Returns a baseline. The rings are tried in the first round.
    pub(super) fn new(rings: Rc<Rings>, copies: Copies, bytes: usize) -> RingFloor {
        RingFloor { rings, copies, bytes, best: None }
    }

    /// Returns the bytes of the ring that is used.
    pub(super) fn best(&self) -> Option<u64> {
        self.best.map(|ring| ring.bytes as u64)
    }

    /// Does a round through the best ring.
    pub(super) fn round(
        &mut self,
        pair: &mut Pair,
        path: &str,
        from: &[u8],
        work: Work,
    ) -> Result<Round, BenchError> {
        let ring = match self.best {
            Some(ring) => ring,
            None => self.find(pair, path, from, work.size)?,
        };
        self.best = Some(ring);
        self.through(ring, pair, path, from, work)
    }

    fn find(
        &self,
        pair: &mut Pair,
        path: &str,
        from: &[u8],
        burst: u32,
    ) -> Result<Ring, BenchError> {
        let mut best: Option<(f64, Ring)> = None;
        for ring in self.copies.rings(self.bytes) {
            let tries = if burst as usize * self.bytes > TRIED_BYTES { 1 } else { TRIES };
            let work = Work { warm: 1, ..Work::of(tries, burst) };
            let took = self.through(ring, pair, path, from, work)?.ns_at(0.0);
            if best.is_none_or(|(least, _)| took < least) {
                best = Some((took, ring));
            }
        }
        best.map(|(_, ring)| ring).ok_or_else(|| BenchError::protocol("there is no ring to try"))
    }

    fn through(
        &self,
        ring: Ring,
        pair: &mut Pair,
        path: &str,
        from: &[u8],
        work: Work,
    ) -> Result<Round, BenchError> {
        let cut = ring.cut(self.bytes);
        let job = Job::Case(format!("{path}@{}", ring.word()));
        let ring = &self.rings.ring;
        pair.round(job, work, |ground| pipe::send(ring, cut, from, ground, work))
    }
}

/// The second process's end.
pub(super) struct RingServer {
    ring: Region,
    /// A private buffer for the copies.
    to: Vec<u8>,
}

impl RingServer {
    /// Takes over the segment of the first process.
    pub(super) fn join(control: &Control) -> Result<RingServer, BenchError> {
        let (offer, rings) = control.receive_with::<Offer>()?;
        let ([bytes], [ring]) = (&offer.segments[..], &rings[..]) else {
            return Err(BenchError::protocol(format!("one ring was to come, not {offer:?}")));
        };
        Ok(RingServer { ring: ground::open(LABEL, ring.as_fd(), *bytes)?, to: Vec::new() })
    }

    /// Does the other side's part of a round.
    pub(super) fn round(
        &mut self,
        copies: Copies,
        ring: &str,
        bytes: usize,
        ground: &mut Ground,
        work: Work,
    ) -> Result<(), BenchError> {
        let found = copies.rings(bytes).into_iter().find(|one| one.word() == ring);
        let found = found.ok_or_else(|| BenchError::protocol(format!("no ring is `{ring}`")))?;
        let cut = found.cut(bytes);
        match copies {
            Copies::Two => {
                self.to.resize(self.to.len().max(bytes), 0);
                pipe::copy_out(&self.ring, cut, &mut self.to[..bytes], ground, work);
            }
            Copies::One | Copies::Whole => pipe::sum_up(&self.ring, cut, ground, work),
        }
        Ok(())
    }
}
