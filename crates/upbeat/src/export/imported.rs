//! Reads of exports of other nodes, in memory and by calls.

use super::bets::Bets;
use super::direct::NodeClient;
use super::error::ReadError;
use super::memory::Memory;
use super::owner::Location;
use super::path::Path;
use super::served::{Asked, NodeExportsHandle, NotRead};
use super::shared::{Access, Shared, access};
use crate::error::CallError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use upbeat_core::channel::export::{Consistency, Part};
use upbeat_memory::region::Region;

/// An export of another node, for the paths of its reader.
#[doc(hidden)]
pub struct Imported {
    /// The owner's memory, if this process shares memory with the owner.
    memory: Option<Memory>,
    location: Location,
    bets: Bets,
    number: u32,
    owner: NodeExportsHandle,
    /// The client of the node that has imported, if a node has.
    client: Option<NodeClient>,
}

impl Imported {
    pub(super) fn new(
        memory: Option<Memory>,
        location: Location,
        number: u32,
        owner: NodeExportsHandle,
        client: Option<NodeClient>,
    ) -> Imported {
        Imported { memory, location, bets: Bets::default(), number, owner, client }
    }

    /// Returns the owner's memory, if the export is there.
    #[inline(always)]
    pub(super) fn memory(&self) -> Result<&Memory, ReadError> {
        match &self.memory {
            Some(memory) if self.location.stands(memory) => Ok(memory),
            Some(_) => Err(ReadError::Ended),
            None => Err(ReadError::Busy),
        }
    }

    #[inline(always)]
    pub(super) fn location(&self) -> &Location {
        &self.location
    }

    #[inline(always)]
    pub(super) fn bets(&self) -> &Bets {
        &self.bets
    }
}

/// The questions to the owner. The node that has imported asks on its own thread, and a handle in others.
macro_rules! questions {
    ($($question:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl Imported {$(
            pub(super) async fn $question(
                &self,
                $($argument: $type),*
            ) -> Result<$answer, CallError<NotRead>> {
                let number = self.number;
                let by_node = self.client.as_ref().and_then(|client| {
                    $(let $argument = Clone::clone(&$argument);)*
                    client.call(|client| async move { client.$question(number, $($argument),*).await })
                });
                if let Some(call) = by_node
                    && let Some(answer) = call.await
                {
                    return answer;
                }
                self.owner.$question(number, $($argument),*).await
            }
        )*}
    };
}

questions! {
    read(part: u64) -> Vec<u64>;
    read_all(parts: Vec<u64>) -> Vec<Vec<u64>>;
    changed(part: Asked, version: Option<u64>) -> (Vec<u64>, u64);
    evaluate(expression: [u64; 5]) -> Option<u64>;
    stand(parts: Vec<(Asked, u64)>) -> bool;
}

access! { Arc<Imported>, Imported; }

impl<A: Access, T: Shared> Path<A, T> {
    /// Returns what a reader asks the owner for, and the first bit of a scalar of an array in its word. The value begins
    /// at word `value`.
    pub(super) fn asked(&self, value: usize) -> (Asked, Option<u8>) {
        let place = self.place();
        let part = Part { at: place.at.wrapping_sub(value) as u32, words: T::WORDS as u32 };
        (Asked { part: part.encode(), is_unit: T::IS_UNIT }, place.shift)
    }
}

impl<'i, T: Shared> Path<&'i Imported, T> {
    /// Reads the value. On the owner's host this takes a few loads, and no message. The read becomes a call to the owner
    /// if the owner is on another host, if it changes the value at every attempt, or if the value is large.
    ///
    /// The value is whole: the owner has left it so after one `set` or `update`.
    pub fn read(&self) -> Read<'i, T> {
        let imported = self.place().access();
        Read::new(imported, self.try_read(), || self.asked(imported.location().value()))
    }

    /// Reads the value where this takes no message, or returns [`ReadError::Busy`].
    #[inline(always)]
    pub fn try_read(&self) -> Result<T, ReadError> {
        let at = self.at()?;
        let imported = self.place().access();
        let memory = imported.memory()?;
        // A copy of the path lies in memory for a guarded export alone, whose copies another function reads.
        let path = Path::<_, T>::new(*self.place());
        match self.load(imported, memory, at, move |at| path.take(memory, at)) {
            Some(Some(value)) => Ok(value),
            Some(None) => Err(ReadError::Invalid),
            None => Err(ReadError::Busy),
        }
    }

    /// Reads the value into `to`, as [`Path::try_read`] does. A large array is copied once: out of the owner's memory. After
    /// an error, `to` has parts of several updates.
    #[inline(always)]
    pub fn try_read_into(&self, to: &mut T) -> Result<(), ReadError> {
        let at = self.at()?;
        let imported = self.place().access();
        let memory = imported.memory()?;
        match self.load(imported, memory, at, |at| self.take_into(to, memory, at)) {
            Some(true) => Ok(()),
            Some(false) => Err(ReadError::Invalid),
            None => Err(ReadError::Busy),
        }
    }

    /// Takes the value, which begins at word `at`, as the owner left it after one update. `None` where that was not found in
    /// some attempts.
    #[inline(always)]
    fn load<R>(
        &self,
        imported: &Imported,
        memory: &Memory,
        at: usize,
        mut take: impl FnMut(usize) -> R,
    ) -> Option<R> {
        let (location, bets) = (imported.location(), imported.bets());
        match location.consistency {
            Consistency::Cell if T::WORDS == 1 && T::UNITS == 0 => Some(take(at)),
            Consistency::Cell => {
                let units = usize::from(!T::IS_UNIT) + T::UNITS;
                memory.read_whole(units, |show| self.versions(show), move || take(at), bets)
            }
            Consistency::Guarded => {
                let take = move |offset| take(at + offset);
                memory.read_copy(location.version(), location.words, take, bets)
            }
            Consistency::Raw => Some(take(at)),
        }
    }
}

type Answer<'i> = Pin<Box<dyn Future<Output = Result<Vec<u64>, CallError<NotRead>>> + Send + 'i>>;

/// A read of a part of an export: see [`Path::read`].
#[must_use = "a value is read when the future is awaited"]
pub struct Read<'i, T> {
    state: State<'i, T>,
}

enum State<'i, T> {
    Done(Result<T, ReadError>),
    Calling { answer: Answer<'i>, shift: Option<u8> },
    Over,
}

impl<'i, T: Shared> Read<'i, T> {
    /// Returns a read that has found a value, or asks the owner.
    #[inline(always)]
    pub(super) fn new(
        imported: &'i Imported,
        found: Result<T, ReadError>,
        asked: impl FnOnce() -> (Asked, Option<u8>),
    ) -> Read<'i, T> {
        let state = match found {
            Err(ReadError::Busy) => calling(imported, asked()),
            found => State::Done(found),
        };
        Read { state }
    }
}

#[cold]
fn calling<T>(imported: &Imported, (asked, shift): (Asked, Option<u8>)) -> State<'_, T> {
    imported.bets.call();
    let answer = async move { imported.read(asked.part).await };
    State::Calling { answer: Box::pin(answer), shift }
}

impl<T: Shared> Future for Read<'_, T> {
    type Output = Result<T, ReadError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Calling { answer, shift } = &mut self.state {
            let Poll::Ready(answer) = answer.as_mut().poll(context) else { return Poll::Pending };
            let value = answer.map_err(not_read).and_then(|words| value_of(&words, *shift));
            self.state = State::Over;
            return Poll::Ready(value);
        }
        match std::mem::replace(&mut self.state, State::Over) {
            State::Done(found) => Poll::Ready(found),
            _ => panic!("a read that was done is polled again"),
        }
    }
}

// A value that was found is not borrowed by the future.
impl<T> Unpin for Read<'_, T> {}

/// Returns the error of a call that did not bring a value.
pub(super) fn not_read(error: CallError<NotRead>) -> ReadError {
    match error {
        CallError::Method(NotRead::Ended) => ReadError::Ended,
        CallError::Method(NotRead::NoPart) => ReadError::Invalid,
        CallError::Method(NotRead::Large) => ReadError::Large,
        CallError::Method(NotRead::Overflow) => ReadError::Overflow,
        CallError::Method(NotRead::Index { index }) => ReadError::Index { index: index as usize },
        CallError::Method(NotRead::Nothing) => ReadError::Nothing,
        CallError::Method(NotRead::Broken) => ReadError::Invalid,
        CallError::Method(NotRead::NotPermitted) => ReadError::NotPermitted,
        error => ReadError::Call(error.map(|_| unreachable!("it was matched above"))),
    }
}

/// Returns the value of the words that the owner has sent.
pub(super) fn value_of<T: Shared>(words: &[u64], shift: Option<u8>) -> Result<T, ReadError> {
    if words.len() != T::WORDS {
        return Err(ReadError::Invalid);
    }
    if let Some(shift) = shift {
        return T::of_word(words[0] >> shift).ok_or(ReadError::Invalid);
    }
    let memory = Memory(Region::heap(words.len()));
    words.iter().enumerate().for_each(|(at, word)| memory.store(at, *word));
    T::take(&memory, 0).ok_or(ReadError::Invalid)
}
