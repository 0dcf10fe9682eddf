//! What a message does that has to wait for room: it stands in the session's queue, or asks.
//!
//! Either is a place, which is left when the message has gone or nobody wants it any more.

use super::Bound;
use crate::dispatch::Dispatcher;
use crate::error::CallError;
use crate::sample::Sample;
use crate::session::{Grant, Line, Put, Session, Standing};
use std::rc::Rc;
use std::task::Context;
use upbeat_core::bill::Counter;

/// What a message has that waits for room.
#[derive(Default)]
pub(super) struct Waits {
    pub(super) sample: Option<Box<Sample>>,
    /// Its place in the queue.
    pub(super) standing: Option<Standing>,
    /// Where room was asked for, which is a place as well.
    pub(super) asked: Option<Asked>,
}

impl Waits {
    pub(super) fn number(&self) -> Option<u64> {
        self.asked.as_ref().map(|asked| asked.number)
    }
}

/// Room that was asked for. Dropped before the request has gone, it is wanted no more.
pub(super) struct Asked {
    node: Rc<Dispatcher>,
    session: Rc<Session>,
    number: u64,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.session.withdraw(self.number) {
            self.node.sent(&self.session);
        }
    }
}

/// Whether a message has asked for room that there is not yet.
pub(super) fn still_asks(
    bound: &Bound,
    waits: &mut Waits,
    context: &mut Context<'_>,
) -> Result<bool, CallError> {
    let Some(number) = waits.number() else { return Ok(false) };
    let Bound { node, session, .. } = bound;
    if let Some(lost) = session.ended() {
        return Err(CallError::at_loss(false, lost.clone()));
    }
    let grant = session.grant_of(number, context.waker());
    if grant == Grant::Lost {
        waits.asked = None;
    }
    if grant == Grant::Awaited {
        node.life.drives.is_awaited(context.waker());
        return Ok(true);
    }
    Ok(false)
}

/// What is to be done with a message that was not sent: it stands in the queue, or asks for room, or
/// there is an error.
#[cold]
pub(super) fn not_sent(
    bound: &Bound,
    put: Put,
    waits: &mut Waits,
    context: &mut Context<'_>,
) -> Result<(), CallError> {
    let Bound { node, session, .. } = bound;
    let put = match put {
        Put::Ask(bytes) => match session.ask(bytes, context.waker()) {
            Ok(number) => {
                node.count(Counter::RoomAsked);
                let (node, session) = (Rc::clone(node), Rc::clone(session));
                waits.asked = Some(Asked { node, session, number });
                waits.standing = None;
                bound.node.sent(&bound.session);
                bound.node.life.drives.is_awaited(context.waker());
                return Ok(());
            }
            Err(put) => put,
        },
        put => put,
    };
    match put {
        Put::Full => {
            node.count(Counter::LaneFull);
            match waits.asked {
                // It has its place by its number, before those who stand in the queue.
                Some(_) => session.wait_for_room(context.waker()),
                None => session.stand(Line::Room, &mut waits.standing, context.waker()),
            }
            node.sent(session);
            node.life.drives.is_awaited(context.waker());
            Ok(())
        }
        Put::Numbers => {
            // Room that was granted must not wait for a number: others wait behind it.
            waits.asked = None;
            session.stand(Line::Number, &mut waits.standing, context.waker());
            node.sent(session);
            node.life.drives.is_awaited(context.waker());
            Ok(())
        }
        put => Err(not_waiting(node, session, put)),
    }
}

/// The error of a message that was not sent and does not wait.
#[cold]
pub(super) fn not_waiting(node: &Rc<Dispatcher>, session: &Rc<Session>, put: Put) -> CallError {
    put.into_error(|why| {
        node.lose(session, *why);
        session.lost()
    })
}
