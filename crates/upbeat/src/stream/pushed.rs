//! A stream of an argument, on the callee's side, which reads it: the caller brings the items.

use super::batch::{Batch, End};
use crate::contain::{drop_each, wake};
use crate::dispatch::{Dispatcher, Inlet};
use crate::error::CallError;
use crate::session::Session;
use crate::wire::{Input, Wire, WireError};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use upbeat_core::channel::stream::{ArgumentReader, Wanted};
use upbeat_core::frame::CallNumber;

const NO_ROOM: WireError =
    WireError::Stream { why: "the writer sent items before there was room for them" };

/// Opens a stream that stands in the arguments of this call.
pub(super) fn open<T: Wire>(
    node: &Rc<Dispatcher>,
    session: &Rc<Session>,
    number: u32,
    call: CallNumber,
) -> Result<Pushed<T>, WireError> {
    let incoming = Rc::new(Incoming { state: RefCell::default() });
    node.open_inlet(session, number, call, Rc::<Incoming<T>>::clone(&incoming))?;
    Ok(Pushed { incoming, node: Rc::clone(node), session: Rc::clone(session), number })
}

/// The reader's end of the stream.
pub(super) struct Pushed<T> {
    incoming: Rc<Incoming<T>>,
    node: Rc<Dispatcher>,
    session: Rc<Session>,
    number: u32,
}

struct Incoming<T> {
    state: RefCell<State<T>>,
}

struct State<T> {
    batches: VecDeque<std::vec::IntoIter<T>>,
    /// The end behind the items, if it has come.
    end: Option<Result<(), CallError>>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Decides which items may come, and when the writer gets its reply.
    intake: ArgumentReader,
}

impl<T> Default for State<T> {
    fn default() -> State<T> {
        State {
            batches: VecDeque::new(),
            end: None,
            reader: None,
            writer: None,
            intake: ArgumentReader::default(),
        }
    }
}

impl<T> Pushed<T> {
    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<T, CallError>>> {
        let mut state = self.incoming.state.borrow_mut();
        while let Some(batch) = state.batches.front_mut() {
            if let Some(item) = batch.next() {
                return Poll::Ready(Some(Ok(item)));
            }
            state.batches.pop_front();
            state.intake.read_batch();
            if let Some(writer) = state.writer.take() {
                drop(state);
                wake(writer);
                state = self.incoming.state.borrow_mut();
            }
        }
        if let Some(end) = state.end.take() {
            return Poll::Ready(end.err().map(Err));
        }
        drop(state);
        let waker = context.waker().clone();
        let before = self.incoming.state.borrow_mut().reader.replace(waker);
        drop(before);
        // The handler releases its bytes of the budget, because the items that it waits for may need them.
        self.node.awaits_answer();
        self.node.life.drives.is_awaited(context.waker());
        Poll::Pending
    }
}

impl<T> Drop for Pushed<T> {
    fn drop(&mut self) {
        self.node.close_inlet(&self.session, self.number);
        let mut state = self.incoming.state.borrow_mut();
        state.intake.leave();
        let (batches, writer) = (std::mem::take(&mut state.batches), state.writer.take());
        drop(state);
        writer.into_iter().for_each(wake);
        drop_each(batches.into_iter().flatten());
    }
}

impl<T: Wire> Inlet for Incoming<T> {
    fn take(&self, input: &mut Input<'_>) -> Result<bool, WireError> {
        if !self.state.borrow().intake.has_room() {
            return Err(NO_ROOM);
        }
        let Batch { items, end, .. } = Batch::<T>::take(input)?;
        let is_over = end.is_some();
        let mut state = self.state.borrow_mut();
        let is_kept = state.intake.handle_push(items.len(), is_over).map_err(|_| NO_ROOM)?;
        if is_kept {
            state.batches.push_back(items.into_iter());
        }
        state.end = end.map(|end| match end {
            End::Done => Ok(()),
            End::Broken(text) => Err(CallError::stream(&text)),
        });
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(wake);
        Ok(is_over)
    }

    fn poll_room(&self, context: &mut Context<'_>) -> Poll<bool> {
        let wanted = self.state.borrow_mut().intake.answer();
        if let Some(wanted) = wanted {
            return Poll::Ready(wanted == Wanted::More);
        }
        let waker = context.waker().clone();
        let before = self.state.borrow_mut().writer.replace(waker);
        drop(before);
        Poll::Pending
    }

    fn break_off(&self, why: CallError) {
        let mut state = self.state.borrow_mut();
        if state.intake.break_off() {
            state.end = Some(Err(why));
        }
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(wake);
    }
}
