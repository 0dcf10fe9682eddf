//! The thread of a session of asynchronous calls: it connects, and then sleeps on the socket.

use super::super::caller::{Caller, Outcome, Reconnect};
use super::super::lasting::Watch;
use super::super::{ConnectTerms, Target};
use super::{Sides, State, lock};
use crate::error::{BuildError, CallError, ConnectError, Why};
use crate::wake::ForeignWaker;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use upbeat_core::method::Signature;
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_environment::turns::Mutex;

/// The shortest sleep before the thread gives up idle memory.
const TIDY_NS: u64 = 10_000_000;

/// Connects: the first part of the thread.
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

/// Wakes the futures that wait for the session. Returns its doorbell, if the session stands and is still wanted.
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
    if let State::Opening(queue) = state
        && !mutated(Mutant::OpenedUntold)
    {
        queue.wakers.into_values().for_each(ForeignWaker::wake);
    }
    bell
}

/// Returns the session's socket, for its thread to sleep on.
fn bell_of(caller: &Caller) -> Result<OwnedFd, CallError> {
    let bell = match caller.session.carrier.socket() {
        Some(socket) => socket.as_fd().try_clone_to_owned(),
        None => Err(std::io::ErrorKind::NotConnected.into()),
    };
    bell.map_err(|error| CallError::not_connected(BuildError::from(error).to_string()))
}

/// The next step of a session's thread.
enum Next {
    /// The thread sleeps: for so many nanoseconds at most, and until the socket is writable if the flag says so.
    Sleep(Option<u64>, bool),
    /// The thread connects again.
    Mend(Option<Box<Reconnect>>),
    /// The thread looks again.
    Look,
    /// The thread ends.
    End,
}

/// Runs the thread: it sleeps on the doorbell until the session has ended or the handle is dropped. A session that has
/// lost its connection gets another, without the lock.
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
                // The thread wakes in time to free idle memory and unused grants.
                watch.wait(bell.as_fd(), writable, kept)
            }
            Next::Mend(None) => return,
            Next::Mend(Some(mut reconnect)) => {
                // The peer must see the end of the old connection.
                drop(bell.take());
                let outcome = reconnect.run(Some(watch), None);
                if let Outcome::Dropped = outcome {
                    return;
                }
                let mut reconnected = Some((reconnect, outcome));
                let mut take = |caller: &mut Caller| {
                    let reconnected = reconnected.take().into_iter();
                    reconnected.for_each(|(reconnect, of)| caller.reconnected(reconnect, of));
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

/// Handles everything that has arrived for the session, and returns the next step of its thread.
fn listen(caller: &mut Caller) -> Next {
    caller.woke();
    // Waiters of arrived frames are woken first.
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
    // Idle memory is not given up while the lane has no room to say so.
    let tidies_in_ns = caller.tidies_in_ns().map(|in_ns| in_ns.max(TIDY_NS));
    Next::Sleep(tidies_in_ns, caller.session.carrier.has_output())
}
