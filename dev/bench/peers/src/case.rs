//! The cases of a peer, and how a peer offers them.

use std::fmt;
use std::path::Path;
use upbeat_cli::bench::pin::Cpus;
use upbeat_cli::bench::timing::{Round, Work};

/// An operation that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A call without arguments and result.
    Null,
    /// A call with 1 KiB each way.
    KiB1,
    /// Messages of 8 bytes, one way; the receiver counts them and adds them up.
    Stream,
    /// A read of 8 bytes that the other process owns.
    Read,
    /// A read of 1 KiB that the other process owns.
    ReadKiB1,
}

impl Op {
    /// All operations.
    pub(crate) const ALL: [Op; 5] = [Op::Null, Op::KiB1, Op::Stream, Op::Read, Op::ReadKiB1];

    /// Returns the word for the operation in a case's path.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Op::Null => "null",
            Op::KiB1 => "1KiB",
            Op::Stream => "oneway",
            Op::Read => "read",
            Op::ReadKiB1 => "read1KiB",
        }
    }

    /// Returns whether the operation is a read of a variable.
    pub(crate) fn is_read(self) -> bool {
        matches!(self, Op::Read | Op::ReadKiB1)
    }

    /// Describes the operation.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Op::Null => "a call of nothing",
            Op::KiB1 => "a call with 1 KiB each way",
            Op::Stream => "one-way messages of 8 bytes",
            Op::Read => "a read of 8 bytes of the other process",
            Op::ReadKiB1 => "a read of 1 KiB of the other process",
        }
    }
}

/// How both sides wait. Reads wait for nothing, and are cases of a way that polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Both sides poll without a limit.
    Polling,
    /// Both sides sleep whenever there is nothing to do.
    Sleeping,
    /// Both sides poll for a while, then sleep.
    Adaptive,
}

impl Mode {
    /// Returns the word for the wait in a case's path.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Mode::Polling => "polling",
            Mode::Sleeping => "sleeping",
            Mode::Adaptive => "adaptive",
        }
    }
}

/// A way to use a peer: over one carrier, with one kind of waiting.
pub(crate) struct Way {
    /// The peer's name in paths.
    pub(crate) peer: &'static str,
    /// The carrier.
    pub(crate) carrier: &'static str,
    pub(crate) mode: Mode,
    /// Describes the parts of the peer that are used.
    pub(crate) about: &'static str,
    /// The operations that the peer does not have, and why.
    pub(crate) absent: &'static [(Op, &'static str)],
    /// Messages in a burst of the stream: some ten milliseconds of them.
    pub(crate) burst: u32,
    pub(crate) open: Open,
}

/// How the two sides of a way are started.
#[derive(Clone, Copy)]
pub(crate) enum Open {
    /// One side in each of the two processes. The serving side is opened first.
    Pair {
        serve: fn(&Place<'_>) -> Result<Box<dyn Serve>, Fault>,
        call: fn(&Place<'_>) -> Result<Box<dyn Call>, Fault>,
    },
    /// In two processes of the peer, pinned like the others.
    #[cfg_attr(not(feature = "lamellar"), allow(dead_code, reason = "only Lamellar needs them"))]
    Own(fn(&Place<'_>) -> Result<Box<dyn Call>, Fault>),
    /// In a program that comes with the peer and measures by itself: its figure is a round.
    Told(fn(&Place<'_>) -> Result<Box<dyn Call>, Fault>),
}

impl Way {
    /// Returns the name that distinguishes the way from others.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}/{}", self.peer, self.carrier, self.mode.word())
    }

    /// Returns the path of a case of the way.
    pub(crate) fn path(&self, op: Op) -> String {
        format!("{}/{}/{}/{}", self.peer, self.carrier, op.word(), self.mode.word())
    }

    /// Returns the operations that the way has.
    pub(crate) fn ops(&self) -> impl Iterator<Item = Op> {
        Op::ALL.into_iter().filter(|op| !self.absent.iter().any(|(absent, _)| absent == op))
    }
}

/// Where a way is opened.
pub(crate) struct Place<'a> {
    /// A directory that only the two processes use.
    pub(crate) scratch: &'a Path,
    /// The CPUs of the calling side and the serving side. Both are pinned when they are opened, and
    /// their threads with them.
    pub(crate) cpus: Cpus,
    pub(crate) carrier: &'static str,
    pub(crate) mode: Mode,
}

impl Place<'_> {
    /// Passes a word to the calling side: a port, or the name of a channel.
    pub(crate) fn tell(&self, what: &str, word: &str) -> Result<(), Fault> {
        std::fs::write(self.scratch.join(what), word).map_err(fault("leaving a note"))
    }

    /// Returns the word that the serving side has passed.
    pub(crate) fn told(&self, what: &str) -> Result<String, Fault> {
        std::fs::read_to_string(self.scratch.join(what)).map_err(fault("reading a note"))
    }

    /// Returns the path of a socket with this name.
    pub(crate) fn socket(&self, name: &str) -> std::path::PathBuf {
        self.scratch.join(format!("{name}.sock"))
    }
}

/// The calling side of a way.
pub(crate) trait Call {
    /// Runs a round, and measures it.
    fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault>;
}

/// The serving side of a way.
pub(crate) trait Serve {
    /// Does the other side's part of a round with so many calls or messages. A peer whose server runs on a
    /// thread of its own sleeps there between rounds.
    fn round(&mut self, op: Op, work: Work) -> Result<(), Fault>;
}

/// A fault in words. The caller adds the name of the peer.
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

/// Returns a function for `map_err` that says that `act` failed.
pub(crate) fn fault<E: fmt::Display>(act: &'static str) -> impl FnOnce(E) -> Fault {
    move |error| Fault(format!("{act} failed: {error}"))
}

/// Reports an operation that this side does not have.
pub(crate) fn unknown(op: Op) -> Fault {
    Fault(format!("it has no {}", op.word()))
}
