//! A session that is being opened, in either role and over any carrier.
//!
//! The runtime polls the descriptor and calls [`Opening::step`] when the descriptor is readable or the deadline has
//! come. Invariant: `step` never blocks, and once the opening has ended, with a session or an error, every descriptor
//! but the session's own socket is closed.

use crate::carrier::{Carrier, Connection};
use crate::error::{OpenError, PeerIdentity};
use crate::handshake::{Handshake, Progress, Side};
use crate::local_request::{LocalCall, LocalRequest};
use crate::remote_handshake::{RemoteHandshake, RemoteProgress, Resuming};
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use upbeat_core::hello::RefusalCode;
use upbeat_core::limits::HANDSHAKE_MS_MAX;

/// One handshake in progress.
///
/// Its descriptor is the socket that becomes the session's doorbell, and it carries the session number that the
/// runtime gave: the runtime keeps one registration for polling.
pub struct Opening {
    stage: Stage,
}

/// The times at which an opening began and heard from its peer, on the clock of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpeningTimes {
    /// The time at which the opening began.
    pub began_ms: u64,
    /// The time at which a message of the peer was last whole, if any was.
    pub heard_ms: Option<u64>,
}

enum Stage {
    Shared(Box<Handshake>),
    Remote(Box<RemoteHandshake>),
    LocalCall(LocalCall),
    LocalRequest(LocalRequest, Side),
    /// A caller of another host, whose handshake another node of the name has made.
    Again(Resuming),
    Over,
}

/// The progress of an opening.
#[expect(clippy::large_enum_variant, reason = "made once a session, and taken apart at once")]
pub enum Step {
    /// The opening waits for the peer's next record.
    Waiting,
    /// The session is open.
    Done(Carrier),
    /// The caller asks to resume a session of this node.
    Resuming(Resuming),
    /// The connection stands over which this side is to resume a session. It [asks](Opening::ask) for that over one
    /// connection at a time.
    Ready,
    /// The peer has agreed to resume the session that this side asked for. The session's carrier
    /// [takes](Carrier::resume) the connection and the position.
    Resumed {
        /// The connection, with the opening's descriptor.
        connection: Connection,
        /// The number of slots of our lane that the peer has received.
        position: u64,
    },
}

impl Opening {
    pub(crate) fn shared(handshake: Handshake) -> Opening {
        Opening { stage: Stage::Shared(Box::new(handshake)) }
    }

    pub(crate) fn remote(handshake: RemoteHandshake) -> Opening {
        Opening { stage: Stage::Remote(Box::new(handshake)) }
    }

    pub(crate) fn call(call: LocalCall) -> Opening {
        Opening { stage: Stage::LocalCall(call) }
    }

    pub(crate) fn request(request: LocalRequest, us: Side) -> Opening {
        Opening { stage: Stage::LocalRequest(request, us) }
    }

    pub(crate) fn again(resuming: Resuming) -> Opening {
        Opening { stage: Stage::Again(resuming) }
    }

    /// Lets a caller of another host only resume an open session; a new session is refused with this code and text.
    pub fn only_resume(&mut self, code: RefusalCode, text: String) {
        if let Stage::Remote(handshake) = &mut self.stage {
            handshake.only_resume(code, text);
        }
    }

    /// Stops the handshake of a caller of another host once its first message is whole, because the answer is what
    /// costs: it waits for [`Opening::go_on`].
    #[must_use]
    pub fn held(mut self) -> Opening {
        if let Stage::Remote(handshake) = &mut self.stage {
            handshake.hold();
        }
        self
    }

    /// Returns whether the handshake waits for [`Opening::go_on`], and for no event of its descriptor.
    pub fn is_held(&self) -> bool {
        matches!(&self.stage, Stage::Remote(handshake) if handshake.is_held())
    }

    /// Lets the next step answer the caller's first message.
    pub fn go_on(&mut self) {
        if let Stage::Remote(handshake) = &mut self.stage {
            handshake.go_on();
        }
    }

    /// Advances the opening as far as the received data allows. After [`Step::Done`] or an error the caller drops the
    /// opening; the peer has been told of the error where that was possible.
    ///
    /// # Panics
    /// If the opening has ended before.
    pub fn step(&mut self, now_ms: u64) -> Result<Step, OpenError> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Shared(handshake) => match handshake.step(now_ms)? {
                Progress::Done(carrier) => Ok(Step::Done(carrier)),
                Progress::Waiting(handshake) => {
                    self.stage = Stage::Shared(Box::new(handshake));
                    Ok(Step::Waiting)
                }
            },
            Stage::Remote(handshake) => Ok(match handshake.step(now_ms)? {
                RemoteProgress::Begun(carrier) => Step::Done(carrier),
                RemoteProgress::Asked(resuming) => Step::Resuming(resuming),
                RemoteProgress::Resumed(connection, position) => {
                    Step::Resumed { connection, position }
                }
                RemoteProgress::Waiting(handshake) => {
                    self.stage = Stage::Remote(handshake);
                    Step::Waiting
                }
                RemoteProgress::Ready(handshake) => {
                    self.stage = Stage::Remote(handshake);
                    Step::Ready
                }
            }),
            Stage::LocalCall(call) => match call.step(now_ms)? {
                Progress::Done(carrier) => Ok(Step::Done(carrier)),
                Progress::Waiting(call) => {
                    self.stage = Stage::LocalCall(call);
                    Ok(Step::Waiting)
                }
            },
            Stage::LocalRequest(request, us) => Ok(Step::Done(request.accept(us))),
            Stage::Again(resuming) => Ok(Step::Resuming(resuming)),
            Stage::Over => panic!("`step` was called on an opening that has ended"),
        }
    }

    /// Returns whether a step has ended the opening, or has panicked.
    pub fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Has the peer asked to resume the session, in the next step, after [`Step::Ready`].
    pub fn ask(&mut self) {
        if let Stage::Remote(handshake) = &mut self.stage {
            handshake.ask();
        }
    }

    /// Returns the time at which [`Opening::step`] must be called at the latest, to give up. The result is 0 if the
    /// first step needs nothing from the peer.
    pub fn deadline_ms(&self) -> u64 {
        match &self.stage {
            Stage::Shared(handshake) => handshake.deadline_ms(),
            Stage::Remote(handshake) => handshake.deadline_ms(),
            Stage::LocalCall(call) => call.started_ms().saturating_add(HANDSHAKE_MS_MAX),
            Stage::LocalRequest(..) | Stage::Again(_) | Stage::Over => 0,
        }
    }

    /// Returns whether [`Opening::step`] must also be called when the descriptor is writable.
    pub fn wants_output(&self) -> bool {
        matches!(&self.stage, Stage::Remote(handshake) if handshake.wants_output())
    }

    /// Returns whether the peer is known to be on another host.
    pub fn is_remote(&self) -> bool {
        matches!(self.stage, Stage::Remote(_) | Stage::Again(_))
    }

    /// Returns since when the opening has been under way. A peer of this process sends everything at once.
    pub fn under_way(&self) -> OpeningTimes {
        let (began_ms, heard_ms) = match &self.stage {
            Stage::Shared(handshake) => (handshake.started_ms(), handshake.heard_ms()),
            Stage::Remote(handshake) => (handshake.started_ms(), handshake.heard_ms()),
            Stage::LocalCall(call) => (call.started_ms(), Some(call.started_ms())),
            Stage::LocalRequest(..) | Stage::Again(_) | Stage::Over => (u64::MAX, Some(u64::MAX)),
        };
        OpeningTimes { began_ms, heard_ms }
    }

    /// Returns the address of a peer on another host.
    pub fn peer_at(&self) -> Option<SocketAddr> {
        match &self.stage {
            Stage::Remote(handshake) => handshake.peer().at,
            Stage::Again(resuming) => resuming.peer().at,
            _ => None,
        }
    }

    /// Returns the peer's identity, as far as it is known.
    pub fn peer(&self) -> PeerIdentity {
        match &self.stage {
            Stage::Shared(handshake) => handshake.peer().clone(),
            Stage::Remote(handshake) => handshake.peer().clone(),
            Stage::LocalCall(call) => call.peer().clone(),
            Stage::LocalRequest(request, _) => request.peer(),
            Stage::Again(resuming) => resuming.peer().clone(),
            Stage::Over => PeerIdentity::default(),
        }
    }

    /// Gives up the opening, and tells the peer why where that is possible.
    pub fn refuse(self, code: RefusalCode, text: &str) {
        match self.stage {
            Stage::Shared(handshake) => handshake.refuse(code, text),
            Stage::Remote(handshake) => handshake.refuse(code, text),
            Stage::LocalRequest(request, _) => request.refuse(code, text),
            Stage::Again(resuming) => resuming.refuse(),
            Stage::LocalCall(_) | Stage::Over => {}
        }
    }
}

impl AsFd for Opening {
    /// # Panics
    /// If the opening has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stage {
            Stage::Shared(handshake) => handshake.as_fd(),
            Stage::Remote(handshake) => handshake.as_fd(),
            Stage::LocalCall(call) => call.as_fd(),
            Stage::LocalRequest(request, _) => request.as_fd(),
            Stage::Again(resuming) => resuming.as_fd(),
            Stage::Over => panic!("`as_fd` was called on an opening that has ended"),
        }
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening").field("peer", &self.peer()).finish_non_exhaustive()
    }
}
