//! Messages of a node that wait until they can be sent.
//!
//! `session::Admission` is the place of such a message. The message gives the place up when it was sent or is no longer
//! wanted.

use super::Bound;
use crate::dispatch::Dispatcher;
use crate::error::CallError;
use crate::sample::Sample;
use crate::session::{Admission, SendError, Session};
use std::rc::Rc;
use std::task::Context;
use upbeat_memory::local::Local;

/// The parts that only a waiting message has.
#[derive(Default)]
pub(super) struct Waits {
    pub(super) sample: Option<Box<Sample>>,
    place: Option<Place>,
}

impl Waits {
    /// Returns the number of the reservation for the message.
    pub(super) fn number(&self) -> Option<u64> {
        self.admission()?.room()
    }

    /// Returns whether the message waits in its session.
    pub(super) fn is_any(&self) -> bool {
        self.place.is_some()
    }

    /// Returns the place of the message.
    pub(super) fn admission(&self) -> Option<&Admission> {
        self.place.as_ref().map(|place| &place.admission)
    }
}

/// The place of a message, which is withdrawn when it is dropped.
struct Place {
    node: Local<Rc<Dispatcher>>,
    session: Local<Rc<Session>>,
    admission: Admission,
}

impl Place {
    fn new(bound: &Bound) -> Place {
        let (node, session) = (bound.node.clone(), bound.session.clone());
        Place { node, session, admission: Admission::default() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.session.withdraw_admission(&mut self.admission) {
            self.node.sent(&self.session);
        }
    }
}

/// Returns whether a message waits for a grant that has not come yet.
pub(super) fn still_asks(
    bound: &Bound,
    waits: &mut Waits,
    context: &mut Context<'_>,
) -> Result<bool, CallError> {
    let Bound { node, session, .. } = bound;
    let Some(place) = &mut waits.place else { return Ok(false) };
    if place.admission.room().is_none() {
        return Ok(false);
    }
    if let Some(lost) = session.ended() {
        return Err(CallError::at_loss(false, lost.clone()));
    }
    let awaits = session.awaits_grant(&mut place.admission, context.waker());
    if awaits {
        node.life.drives.is_awaited(context.waker());
    }
    Ok(awaits)
}

/// Has a message wait that could not be sent, or returns why it does not wait.
#[cold]
pub(super) fn not_sent(
    bound: &Bound,
    put: SendError,
    waits: &mut Waits,
    context: &mut Context<'_>,
) -> Result<(), CallError> {
    let Bound { node, session, .. } = bound;
    let place = waits.place.get_or_insert_with(|| Place::new(bound));
    match session.wait(put, &mut place.admission, context.waker()) {
        Ok(counter) => {
            counter.into_iter().for_each(|counter| node.count(counter));
            node.sent(session);
            node.life.drives.is_awaited(context.waker());
            Ok(())
        }
        Err(put) => Err(not_waiting(node, session, put)),
    }
}

/// Returns the error of a message that could not be sent and does not wait.
#[cold]
pub(super) fn not_waiting(
    node: &Rc<Dispatcher>,
    session: &Rc<Session>,
    put: SendError,
) -> CallError {
    if session.is_unflushed() {
        // The peer was told of a buffer that the message would have lain in.
        node.sent(session);
    }
    put.into_error(|why| {
        node.lose(session, *why);
        session.lost()
    })
}
