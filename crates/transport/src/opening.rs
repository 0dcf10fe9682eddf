//! A session that is being opened, in either role and over any carrier.
//!
//! The runtime polls its descriptor and calls [`Opening::step`] when that is readable or the
//! deadline has come. Invariant: `step` never waits, and once it has ended, in a session or in an
//! error, everything but the session's own socket is closed.

use crate::carrier::{Carrier, Connection};
use crate::error::{OpenError, Whom};
use crate::greeting::{Greeted, Greeting, Resuming};
use crate::handshake::{Handshake, Progress, Side};
use crate::knock::{Call, Knock};
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use upbeat_core::hello::RefusalCode;
use upbeat_core::limits::HANDSHAKE_MS_MAX;

/// One handshake in progress.
///
/// It is in the session's number that the caller gave, on the very socket that becomes the
/// session's bell: a registration for polling may stay where it is.
pub struct Opening {
    stage: Stage,
}

/// Since when an opening has been under way, on the clock of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnderWay {
    /// When it began.
    pub began_ms: u64,
    /// When the peer last said something, if it has said anything.
    pub heard_ms: Option<u64>,
}

enum Stage {
    Shared(Box<Handshake>),
    Remote(Box<Greeting>),
    Call(Call),
    Knock(Knock, Side),
    Over,
}

/// How far an opening is.
#[expect(clippy::large_enum_variant, reason = "made once a session, and taken apart at once")]
pub enum Step {
    /// The peer's next record has not come.
    Waiting,
    /// The session stands.
    Done(Carrier),
    /// The caller asks to go on with a session of this node.
    Resuming(Resuming),
    /// The session goes on that this side has asked for: it is the carrier's to
    /// [take](Carrier::resume) the connection and how much of its lane has come.
    Resumed {
        /// The connection, which has the opening's descriptor.
        connection: Connection,
        /// Slots of our lane that have come to the peer.
        position: u64,
    },
}

impl Opening {
    pub(crate) fn shared(handshake: Handshake) -> Opening {
        Opening { stage: Stage::Shared(Box::new(handshake)) }
    }

    pub(crate) fn remote(greeting: Greeting) -> Opening {
        Opening { stage: Stage::Remote(Box::new(greeting)) }
    }

    pub(crate) fn call(call: Call) -> Opening {
        Opening { stage: Stage::Call(call) }
    }

    pub(crate) fn knock(knock: Knock, us: Side) -> Opening {
        Opening { stage: Stage::Knock(knock, us) }
    }

    /// Has a caller of another host only go on with a session that stands: a new one is refused for this reason.
    #[must_use]
    pub fn only_resume(mut self, code: RefusalCode, text: String) -> Opening {
        if let Stage::Remote(greeting) = &mut self.stage {
            greeting.only_resume(code, text);
        }
        self
    }

    /// Goes on as far as what has come allows. After an end, in [`Step::Done`] or an error, the
    /// opening is to be dropped; the peer has been told of the error where that was possible.
    ///
    /// # Panics
    /// When it has ended before.
    pub fn step(&mut self, now_ms: u64) -> Result<Step, OpenError> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Shared(handshake) => match handshake.step(now_ms)? {
                Progress::Done(carrier) => Ok(Step::Done(carrier)),
                Progress::Waiting(handshake) => {
                    self.stage = Stage::Shared(Box::new(handshake));
                    Ok(Step::Waiting)
                }
            },
            Stage::Remote(greeting) => Ok(match greeting.step(now_ms)? {
                Greeted::Begun(carrier) => Step::Done(carrier),
                Greeted::Asked(resuming) => Step::Resuming(resuming),
                Greeted::Resumed(connection, position) => Step::Resumed { connection, position },
                Greeted::Waiting(greeting) => {
                    self.stage = Stage::Remote(greeting);
                    Step::Waiting
                }
            }),
            Stage::Call(call) => match call.step(now_ms)? {
                Progress::Done(carrier) => Ok(Step::Done(carrier)),
                Progress::Waiting(call) => {
                    self.stage = Stage::Call(call);
                    Ok(Step::Waiting)
                }
            },
            Stage::Knock(knock, us) => Ok(Step::Done(knock.accept(us))),
            Stage::Over => panic!("a step of an opening that has ended"),
        }
    }

    /// When [`Opening::step`] is to be called at the latest, to give up; 0 where a first step needs
    /// nothing of the peer.
    pub fn deadline_ms(&self) -> u64 {
        match &self.stage {
            Stage::Shared(handshake) => handshake.deadline_ms(),
            Stage::Remote(greeting) => greeting.deadline_ms(),
            Stage::Call(call) => call.started_ms().saturating_add(HANDSHAKE_MS_MAX),
            Stage::Knock(..) | Stage::Over => 0,
        }
    }

    /// Whether it goes on when its descriptor takes bytes, too.
    pub fn wants_output(&self) -> bool {
        matches!(&self.stage, Stage::Remote(greeting) if greeting.wants_output())
    }

    /// Whether the peer is on another host, as far as this is known.
    pub fn is_remote(&self) -> bool {
        matches!(self.stage, Stage::Remote(_))
    }

    /// Returns since when it has been under way. A peer of this process says everything at once.
    pub fn under_way(&self) -> UnderWay {
        let (began_ms, heard_ms) = match &self.stage {
            Stage::Shared(handshake) => (handshake.started_ms(), handshake.heard_ms()),
            Stage::Remote(greeting) => (greeting.started_ms(), greeting.heard_ms()),
            Stage::Call(call) => (call.started_ms(), Some(call.started_ms())),
            Stage::Knock(..) | Stage::Over => (u64::MAX, Some(u64::MAX)),
        };
        UnderWay { began_ms, heard_ms }
    }

    /// Returns the address of a peer on another host.
    pub fn peer_at(&self) -> Option<SocketAddr> {
        match &self.stage {
            Stage::Remote(greeting) => greeting.peer().at,
            _ => None,
        }
    }

    /// Whom it is with, as far as that is known.
    pub fn peer(&self) -> Whom {
        match &self.stage {
            Stage::Shared(handshake) => handshake.peer().clone(),
            Stage::Remote(greeting) => greeting.peer().clone(),
            Stage::Call(call) => call.peer().clone(),
            Stage::Knock(knock, _) => knock.peer(),
            Stage::Over => Whom::default(),
        }
    }

    /// Gives up, and tells the peer why where that is possible.
    pub fn refuse(self, code: RefusalCode, text: &str) {
        match self.stage {
            Stage::Shared(handshake) => handshake.refuse(code, text),
            Stage::Remote(greeting) => greeting.refuse(code, text),
            Stage::Knock(knock, _) => knock.refuse(code, text),
            Stage::Call(_) | Stage::Over => {}
        }
    }
}

impl AsFd for Opening {
    /// # Panics
    /// When it has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stage {
            Stage::Shared(handshake) => handshake.as_fd(),
            Stage::Remote(greeting) => greeting.as_fd(),
            Stage::Call(call) => call.as_fd(),
            Stage::Knock(knock, _) => knock.as_fd(),
            Stage::Over => panic!("the descriptor of an opening that has ended"),
        }
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening").field("peer", &self.peer()).finish_non_exhaustive()
    }
}
