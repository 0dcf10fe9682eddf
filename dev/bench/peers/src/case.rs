//! What is measured of a peer, and how a peer offers it.

use std::fmt;
use std::path::Path;
use upbeat_cli::bench::pin::Cpus;
use upbeat_cli::bench::timing::{Round, Work};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A call of nothing.
    Null,
    /// A call with 1 KiB each way.
    KiB1,
    /// Messages of 8 bytes, one way; the receiver counts them and adds them up.
    Stream,
}

impl Op {
    /// All of them.
    pub(crate) const ALL: [Op; 3] = [Op::Null, Op::KiB1, Op::Stream];

    /// The word for it in a case's path.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Op::Null => "null",
            Op::KiB1 => "1KiB",
            Op::Stream => "oneway",
        }
    }

    /// What it is, in words.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Op::Null => "a call of nothing",
            Op::KiB1 => "a call with 1 KiB each way",
            Op::Stream => "one-way messages of 8 bytes",
        }
    }
}

/// How both sides wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They look for ever.
    Polling,
    /// They sleep whenever there is nothing.
    Sleeping,
    /// They look for a while, then sleep.
    Adaptive,
}

impl Mode {
    /// The word for it in a case's path.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Mode::Polling => "polling",
            Mode::Sleeping => "sleeping",
            Mode::Adaptive => "adaptive",
        }
    }
}

/// One way to use a peer: over one carrier, waiting in one way.
pub(crate) struct Way {
    /// The peer's name in paths.
    pub(crate) peer: &'static str,
    /// What carries it.
    pub(crate) carrier: &'static str,
    pub(crate) mode: Mode,
    /// What of the peer's is used, in words.
    pub(crate) about: &'static str,
    /// What the peer does not have, and why.
    pub(crate) absent: &'static [(Op, &'static str)],
    /// Messages in a burst of the stream: some ten milliseconds of them.
    pub(crate) burst: u32,
    pub(crate) open: Open,
}

/// How the two sides of a way come to be.
#[derive(Clone, Copy)]
pub(crate) enum Open {
    /// One in each of the two processes. The serving side is there before the other is opened.
    Pair {
        serve: fn(&Place<'_>) -> Result<Box<dyn Serve>, Fault>,
        call: fn(&Place<'_>) -> Result<Box<dyn Call>, Fault>,
    },
    /// In two processes that are the peer's own, pinned like the others.
    #[cfg_attr(not(feature = "lamellar"), allow(dead_code, reason = "only Lamellar needs them"))]
    Own(fn(&Place<'_>) -> Result<Box<dyn Call>, Fault>),
    /// In a program that comes with the peer and measures by itself: what it says is a round.
    Told(fn(&Place<'_>) -> Result<Box<dyn Call>, Fault>),
}

impl Way {
    /// What distinguishes it from others.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}/{}", self.peer, self.carrier, self.mode.word())
    }

    /// The path of a case of it.
    pub(crate) fn path(&self, op: Op) -> String {
        format!("{}/{}/{}/{}", self.peer, self.carrier, op.word(), self.mode.word())
    }

    /// What it has.
    pub(crate) fn ops(&self) -> impl Iterator<Item = Op> {
        Op::ALL.into_iter().filter(|op| !self.absent.iter().any(|(absent, _)| absent == op))
    }
}

/// Where a way is opened.
pub(crate) struct Place<'a> {
    /// A directory of both processes alone.
    pub(crate) scratch: &'a Path,
    /// Where the calling side and the serving side run. Both are pinned when they are opened, and
    /// their threads with them.
    pub(crate) cpus: Cpus,
    pub(crate) carrier: &'static str,
    pub(crate) mode: Mode,
}

impl Place<'_> {
    /// Tells the calling side a word: a port, the name of a channel.
    pub(crate) fn tell(&self, what: &str, word: &str) -> Result<(), Fault> {
        std::fs::write(self.scratch.join(what), word).map_err(fault("leaving a note"))
    }

    /// What the serving side has told.
    pub(crate) fn told(&self, what: &str) -> Result<String, Fault> {
        std::fs::read_to_string(self.scratch.join(what)).map_err(fault("reading a note"))
    }

    /// The path of a socket of this name.
    pub(crate) fn socket(&self, name: &str) -> std::path::PathBuf {
        self.scratch.join(format!("{name}.sock"))
    }
}

/// The calling side of a way.
pub(crate) trait Call {
    /// Does a round, and measures it.
    fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault>;
}

/// The serving side of a way.
pub(crate) trait Serve {
    /// Does the other side of a round: so many calls or messages, but for peers whose server runs
    /// on a thread of its own and sleeps there between rounds.
    fn round(&mut self, op: Op, work: Work) -> Result<(), Fault>;
}

/// What went wrong, in words. Whoever called adds the name of the peer.
#[derive(Debug)]
pub(crate) struct Fault(String);

impl Fault {
    pub(crate) fn new(what: impl Into<String>) -> Fault {
        Fault(what.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// For `map_err`: `act` failed.
pub(crate) fn fault<E: fmt::Display>(act: &'static str) -> impl FnOnce(E) -> Fault {
    move |error| Fault(format!("{act} failed: {error}"))
}

/// A side that has no such operation was asked for it.
pub(crate) fn unknown(op: Op) -> Fault {
    Fault(format!("it has no {}", op.word()))
}
