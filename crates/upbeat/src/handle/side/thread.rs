//! The thread of a session of asynchronous calls: it connects, and then sleeps on the socket.

use super::super::caller::{Caller, Mending};
use super::super::lasting::Watch;
use super::super::{ConnectTerms, Target};
use super::{Sides, State, lock};
use crate::error::{BuildError, CallError, ConnectError, Why};
use crate::reactor::timespec;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use upbeat_core::method::Signature;

/// The thread's first part: connects.
pub(super) fn open(
    target: &Target,
    service: &'static str,
    signatures: &[Signature],
    watch: &Arc<Watch>,
    terms: ConnectTerms,
) -> Result<(Box<Caller>, OwnedFd), ConnectError> {
    let watch = Some(Arc::clone(watch));
    let mut caller = Caller::connect(target, service, signatures, watch, terms)?;
    caller.looks_as(target.waiting);
    let bell = bell_of(&caller).map_err(ConnectError::Call)?;
    Ok((Box::new(caller), bell))
}

/// Tells those who wait what came of it. The session's bell, if it stands and is still wanted.
pub(super) fn tell(
    sides: &Mutex<Sides>,
    number: u64,
    opened: Result<(Box<Caller>, OwnedFd), ConnectError>,
) -> Option<OwnedFd> {
    let (next, bell) = match opened {
        Ok((caller, bell)) => (State::Open(caller), Some(bell)),
        Err(error) => (State::Failed(error), None),
    };
    let mut sides = lock(sides);
    let state = std::mem::replace(sides.states.get_mut(&number)?, next);
    drop(sides);
    // Wakers are the users' code, and may ask for the session at once.
    if let State::Opening(queue) = state {
        queue.wakers.into_values().for_each(Waker::wake);
    }
    bell
}

/// The session's socket, for its thread to sleep on.
fn bell_of(caller: &Caller) -> Result<OwnedFd, CallError> {
    let bell = match caller.session.carrier.socket() {
        Some(socket) => socket.as_fd().try_clone_to_owned(),
        None => Err(std::io::ErrorKind::NotConnected.into()),
    };
    bell.map_err(|error| CallError::NotConnected {
        text: BuildError::from(error).to_string().into(),
    })
}

/// What the thread of a session does next.
enum Next {
    /// It sleeps: for so many nanoseconds at most, and until the socket takes more if that is so.
    Sleep(Option<u64>, bool),
    /// The connection has gone.
    Mend(Mending),
    /// It looks again.
    Look,
    /// It ends.
    End,
}

/// The thread: hears the bell until the session has ended or nobody holds the handle. A session whose connection
/// has gone gets another, without the lock.
pub(super) fn hear(sides: &Mutex<Sides>, number: u64, bell: OwnedFd, watch: &Watch) {
    let mut bell = Some(bell);
    loop {
        let with =
            |act: &mut dyn FnMut(&mut Caller) -> Next| match lock(sides).states.get_mut(&number) {
                Some(State::Open(caller)) => act(caller),
                _ => Next::End,
            };
        let is_over = match with(&mut listen) {
            Next::End => return,
            Next::Look => false,
            Next::Sleep(kept, writable) => {
                let Some(bell) = &bell else { return };
                // Memory that lies idle, and a grant that nobody uses, are not slept over.
                watch.wait(bell.as_fd(), writable, kept.map(timespec).as_ref())
            }
            Next::Mend(Mending::Over) => return,
            Next::Mend(Mending::Wait(ns)) => watch.pause(&timespec(ns)),
            Next::Mend(Mending::Connect(attempt)) => {
                // The peer is to see the end of the old one.
                drop(bell.take());
                let mut connected = Some(attempt.connect(Some(watch), None));
                let mut take = |caller: &mut Caller| {
                    connected.take().into_iter().for_each(|of| caller.reconnected(of));
                    if !caller.session.carrier.is_suspended() && caller.ended().is_none() {
                        match bell_of(caller) {
                            Ok(of) => bell = Some(of),
                            Err(error) => caller.end(Why::Unreachable { text: error.to_string() }),
                        }
                    }
                    Next::Look
                };
                matches!(with(&mut take), Next::End)
            }
        };
        if is_over {
            return;
        }
    }
}

/// Takes what has come for the session, and says what its thread does next.
fn listen(caller: &mut Caller) -> Next {
    caller.woke();
    // Who waits for what has come is woken first.
    caller.drain();
    caller.hear();
    if caller.ended().is_some() {
        return Next::End;
    }
    caller.session.tidy();
    if caller.session.is_unflushed() {
        caller.flush();
    }
    if caller.session.carrier.is_suspended() {
        return Next::Mend(caller.mending());
    }
    if !caller.may_sleep() {
        return Next::Look;
    }
    Next::Sleep(caller.tidies_in_ns(), caller.session.carrier.has_output())
}
