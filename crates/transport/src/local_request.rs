//! Opening a session inside one process: a request in the listener's inbox, and its reply.
//!
//! The caller brings its lane and one end of a pair of sockets. The listener adds its own lane, replies, and wakes
//! the caller. The module `local` holds the names. Invariant: neither side waits for the other: a side that gives up
//! drops its end, and the other side sees the end of the socket.

use crate::carrier::{Carrier, Kind, Peer};
use crate::doorbell::WAKE_UP;
use crate::error::{OpenError, PeerIdentity};
use crate::group::Caller;
use crate::handshake::{Progress, Side};
use crate::packet::{self, Received};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, PoisonError};
use upbeat_core::hello::RefusalCode;
use upbeat_core::limits::HANDSHAKE_MS_MAX;
use upbeat_core::name::NodeName;
use upbeat_environment::process::{Resource, obtain};
use upbeat_environment::turns::Mutex;
use upbeat_memory::board::Note;
use upbeat_memory::lane::{LANE_BYTES, Lanes};
use upbeat_memory::page::PeerPage;
use upbeat_memory::region::{Region, WORD};

/// The request that the caller leaves with the listener. Dropping it without a reply ends the call.
pub(crate) struct LocalRequest {
    half: Half,
    socket: OwnedFd,
    stream: Option<OwnedFd>,
    answer: Arc<Answer>,
}

impl Caller for LocalRequest {}

/// The caller's side of a request, until the reply comes.
pub(crate) struct LocalCall {
    us: Side,
    lane: Region,
    socket: OwnedFd,
    /// Our end of a byte stream, if the session uses one.
    stream: Option<OwnedFd>,
    answer: Arc<Answer>,
    peer: PeerIdentity,
    started_ms: u64,
}

/// One side's part of a session.
struct Half {
    side: Side,
    lane: Region,
}

type Answer = Mutex<Option<Result<Half, (RefusalCode, String)>>>;

/// Returns a call and its request. With `streams` the session uses a byte stream.
pub(crate) fn request(
    us: Side,
    wanted: &NodeName,
    streams: bool,
    now_ms: u64,
) -> Result<(LocalCall, LocalRequest), OpenError> {
    let pair = |kind| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        obtain(Resource::Descriptors)
            .and_then(|()| rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None))
            .map_err(OpenError::system("making a pair of sockets"))
    };
    let (socket, theirs) = pair(SocketType::SEQPACKET)?;
    let (stream, their_stream) = match streams {
        true => pair(SocketType::STREAM).map(|(ours, theirs)| (Some(ours), Some(theirs)))?,
        false => (None, None),
    };
    let lane = Region::heap(LANE_BYTES / WORD);
    let answer = Arc::<Answer>::default();
    let half = Half { side: us.clone(), lane: lane.clone() };
    let pid = Some(std::process::id());
    let peer = PeerIdentity { name: Some(wanted.clone()), pid, at: None };
    let request =
        LocalRequest { half, socket: theirs, stream: their_stream, answer: Arc::clone(&answer) };
    Ok((LocalCall { us, lane, socket, stream, answer, peer, started_ms: now_ms }, request))
}

impl LocalRequest {
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the node that requests the session.
    pub(crate) fn peer(&self) -> PeerIdentity {
        let (name, pid) = (self.half.side.info.name.clone(), Some(std::process::id()));
        PeerIdentity { name, pid, at: None }
    }

    /// Accepts the request, and returns this side of the session.
    pub(crate) fn accept(self, us: Side) -> Carrier {
        let lane = Region::heap(LANE_BYTES / WORD);
        let ours = Half { side: us.clone(), lane: lane.clone() };
        self.say(Ok(ours));
        join(Half { side: us, lane }, self.half, self.socket, self.stream)
    }

    /// Refuses the request.
    pub(crate) fn refuse(self, code: RefusalCode, text: &str) {
        self.say(Err((code, text.to_owned())));
    }

    fn say(&self, said: Result<Half, (RefusalCode, String)>) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
        // A caller that is gone cannot be told; an empty socket has room for a byte.
        let _ = packet::send(self.socket.as_fd(), &WAKE_UP, &[]);
    }
}

impl LocalCall {
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn peer(&self) -> &PeerIdentity {
        &self.peer
    }

    pub(crate) fn started_ms(&self) -> u64 {
        self.started_ms
    }

    pub(crate) fn step(self, now_ms: u64) -> Result<Progress<LocalCall>, OpenError> {
        let received = packet::receive(self.socket.as_fd(), &mut [0; _])
            .map_err(OpenError::system("reading from the peer"))?;
        // The reply is stored before the caller is woken.
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let waited_ms = now_ms.saturating_sub(self.started_ms);
        let peer = self.peer;
        match answer {
            Some(Ok(theirs)) => {
                let ours = Half { side: self.us, lane: self.lane };
                Ok(Progress::Done(join(ours, theirs, self.socket, self.stream)))
            }
            Some(Err((code, text))) => Err(OpenError::Refused { peer, code, text }),
            None if matches!(received, Received::Closed) => Err(OpenError::Closed { peer }),
            None if waited_ms >= HANDSHAKE_MS_MAX => Err(OpenError::TooSlow { peer, waited_ms }),
            None => Ok(Progress::Waiting(LocalCall { peer, ..self })),
        }
    }
}

fn join(ours: Half, theirs: Half, socket: OwnedFd, stream: Option<OwnedFd>) -> Carrier {
    let (session, info) = (theirs.side.session, &theirs.side.info);
    let peer = Peer {
        name: info.name.clone(),
        program: info.program.name().clone(),
        pid: Some(std::process::id()),
        at: None,
        listening: info.listening(),
        incarnation: info.incarnation,
        session: session as u64,
    };
    match stream {
        Some(stream) => Carrier::over_stream(stream, peer, Some(socket), None),
        None => {
            let (us, them) = (ours.side.session as u64, session as u64);
            let lanes = Lanes::new(ours.lane, us, theirs.lane, them);
            let page = PeerPage::new(info.page().clone());
            let note = Note::new(info.board().clone(), session);
            Carrier::new(lanes, page, note, socket, peer, Kind::Local)
        }
    }
}
