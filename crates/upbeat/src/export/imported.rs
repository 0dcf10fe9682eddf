//! Reads of exports of other nodes, in memory and by calls.

use super::bets::Bets;
use super::direct::NodeClient;
use super::error::ReadError;
use super::location::{Location, State};
use super::mapped::Mapped;
use super::memory::Memory;
use super::opened::{Names, Opened};
use super::path::Path;
use super::served::{Asked, NodeExportsHandle, NotRead};
use super::shared::{Access, Place, Readable, Shared, access};
use crate::dispatch::LostReads;
use crate::error::CallError;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use upbeat_core::channel::export::{Consistency, Part};
use upbeat_environment::time::Instant;
use upbeat_environment::turns::Mutex;

/// An export of another node, for the paths of its reader.
#[doc(hidden)]
pub struct Imported {
    /// The owner's memory in which paths have the export, if this process shares memory with the owner.
    first: Option<Mapping>,
    /// The memory to which the export has moved, once it is mapped. That before is given back when nobody reads there.
    moved: RwLock<Option<Mapping>>,
    /// Where paths have the export. It has moved from there if its owner has let it grow.
    location: Location,
    bets: Bets,
    number: u32,
    names: Names,
    /// Whether the owner has said that the export has ended, which the memory from which it had moved does not say.
    has_ended: AtomicBool,
    /// When the owner was last known to be alive.
    alive: Mutex<Instant>,
    owner: NodeExportsHandle,
    /// The client of the node that has imported, if a node has.
    client: Option<NodeClient>,
}

/// The memory of an export.
#[derive(Clone)]
pub(super) struct Mapping {
    pub(super) memory: Memory,
    pub(super) location: Location,
    segment: Arc<Mapped>,
}

impl Mapping {
    fn new(segment: Arc<Mapped>, location: Location, export: u32) -> Mapping {
        Mapping { memory: Memory::new(segment.memory.0.clone(), export), location, segment }
    }

    /// Returns whether this is the same memory of the export: an owner uses no room again that it has told a reader.
    pub(super) fn is(&self, other: &Mapping) -> bool {
        Arc::ptr_eq(&self.segment, &other.segment) && self.location == other.location
    }
}

/// The memory in which an export is.
pub(super) enum Here<'i> {
    First(&'i Mapping),
    Moved(Mapping),
}

impl Deref for Here<'_> {
    type Target = Mapping;

    #[inline(always)]
    fn deref(&self) -> &Mapping {
        match self {
            Here::First(mapping) => mapping,
            Here::Moved(mapping) => mapping,
        }
    }
}

impl Imported {
    pub(super) fn new(
        opened: Opened,
        names: Names,
        owner: NodeExportsHandle,
        node: Option<(NodeClient, LostReads)>,
    ) -> Imported {
        let (client, lost) = node.unzip();
        let Opened { number, location, segment, .. } = opened;
        Imported {
            first: segment.map(|segment| Mapping::new(segment, location, number)),
            moved: RwLock::default(),
            location,
            bets: Bets::new(lost),
            number,
            names,
            has_ended: AtomicBool::new(false),
            alive: Mutex::new(Instant::now()),
            owner,
            client,
        }
    }

    /// Returns the memory in which paths have the export, if the export is there.
    #[inline(always)]
    fn memory_of_paths(&self) -> Option<&Memory> {
        match &self.first {
            Some(first) if first.location.stands(&first.memory) => Some(&first.memory),
            _ => None,
        }
    }

    /// Returns the owner's memory in which the export is.
    #[inline]
    pub(super) fn mapped(&self) -> Result<Here<'_>, ReadError> {
        let first = self.first.as_ref().ok_or(ReadError::Busy)?;
        match first.location.state(&first.memory) {
            State::Stands => Ok(Here::First(first)),
            State::Moved => self.moved(),
            State::Ended => Err(ReadError::Ended),
        }
    }

    #[cold]
    fn moved(&self) -> Result<Here<'_>, ReadError> {
        if self.has_ended.load(Relaxed) {
            return Err(ReadError::Ended);
        }
        let moved = self.moved.read().unwrap_or_else(PoisonError::into_inner).clone();
        let moved = moved.ok_or(ReadError::Busy)?;
        match moved.location.state(&moved.memory) {
            State::Stands => Ok(Here::Moved(moved)),
            State::Moved => Err(ReadError::Busy),
            State::Ended => Err(ReadError::Ended),
        }
    }

    /// Maps the memory to which the export has moved, if it has. The owner tells where that is.
    pub(super) async fn follow_move(&self) {
        if self.first.is_none() || !matches!(self.mapped(), Err(ReadError::Busy)) {
            return;
        }
        let (name, shape) = (self.names.export(), &*self.names.shape);
        let by_node = self.client.as_ref().and_then(|client| {
            let (name, shape) = (name.to_owned(), shape.to_owned());
            client.call(|client| async move { client.open(&name, &shape).await })
        });
        let answer = match by_node {
            Some(call) => call.await,
            None => None,
        };
        let answer = match answer {
            Some(answer) => answer,
            None => self.owner.open(name, shape).await,
        };
        // An export that is not found again, or not mapped, is read by calls.
        if let Ok(answer) = answer
            && let Ok(Opened { number, location, segment: Some(segment), .. }) = Opened::of(answer)
            && number == self.number
            && location.words >= self.location.words
            && location.consistency == self.location.consistency
        {
            let mapping = Some(Mapping::new(segment, location, number));
            *self.moved.write().unwrap_or_else(PoisonError::into_inner) = mapping;
        }
    }

    /// Returns the segment in which this process has last found the export, if it shares memory with the owner.
    pub(super) fn segment(&self) -> Option<Arc<Mapped>> {
        let moved = self.moved.read().unwrap_or_else(PoisonError::into_inner);
        moved.as_ref().or(self.first.as_ref()).map(|mapping| Arc::clone(&mapping.segment))
    }

    /// Returns the name of the owner.
    pub(super) fn node(&self) -> &str {
        self.names.node()
    }

    /// Notes that the owner was alive at this time, if it was, and returns the last such time.
    pub(super) fn note_alive(&self, at: Option<Instant>) -> Instant {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        *alive = at.map_or(*alive, |at| at.max(*alive));
        *alive
    }

    /// Returns the number of the export.
    pub(super) fn number(&self) -> u32 {
        self.number
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
                let answer = match by_node {
                    Some(call) => call.await,
                    None => None,
                };
                let answer = match answer {
                    Some(answer) => answer,
                    None => self.owner.$question(number, $($argument),*).await,
                };
                self.note_alive(answer.is_ok().then(Instant::now));
                if let Err(CallError::Method(NotRead::Ended)) = answer {
                    self.has_ended.store(true, Relaxed);
                }
                answer
            }
        )*}
    };
}

questions! {
    read(part: u64) -> Vec<u64>;
    read_routed(part: Asked) -> Vec<u64>;
    read_all(parts: Vec<Asked>) -> Vec<Vec<u64>>;
    changed(part: Asked, version: Option<u64>) -> (Vec<u64>, u64);
    evaluate(expression: [u64; 5]) -> Option<u64>;
    stand(parts: Vec<(Asked, u64)>) -> bool;
}

access! { Arc<Imported>, Imported, (); }

impl<A: Access, T: Shared> Path<A, T> {
    /// Returns what a reader asks the owner for, and the first bit of a scalar of an array in its word. The value begins
    /// at word `value`.
    pub(super) fn asked(&self, value: usize) -> (Asked, Option<u8>) {
        let place = self.place();
        let part = Part { at: place.at.wrapping_sub(value) as u32, words: T::WORDS as u32 };
        (Asked { part: part.encode(), is_unit: T::IS_UNIT, route: Vec::new() }, place.shift)
    }
}

impl<'i, T: Readable> Path<&'i Imported, T> {
    /// Reads the value. On the owner's host this takes a few loads, and no message. The read becomes a call to the owner
    /// if the owner is on another host, if it changes the value at every attempt, or if the value is large.
    ///
    /// The value is whole: the owner has left it so after one `set` or `update`.
    #[inline(always)]
    pub fn read(&self) -> Read<'i, T> {
        self.read_whole()
    }

    /// Reads the value where this takes no message, or returns [`ReadError::Busy`].
    #[inline(always)]
    pub fn try_read(&self) -> Result<T, ReadError> {
        self.found()
    }

    /// Reads the value into `to`, as [`Path::try_read`] does. A large array is copied once: out of the owner's memory. After
    /// an error, `to` has parts of several updates.
    #[inline(always)]
    pub fn try_read_into(&self, to: &mut T) -> Result<(), ReadError> {
        let at = self.at()?;
        let imported = self.place().access();
        let found = match imported.memory_of_paths() {
            Some(memory) => {
                let location = imported.location();
                self.load(memory, location, at, |at| self.take_into(to, memory, at))
            }
            None => return Self::found_elsewhere(*self.place()).map(|value| *to = value),
        };
        match found {
            Some(true) => Ok(()),
            Some(false) => Err(ReadError::Invalid),
            None => Err(ReadError::Busy),
        }
    }
}

impl<'i, T: Shared> Path<&'i Imported, T> {
    #[inline(always)]
    pub(super) fn read_whole(&self) -> Read<'i, T> {
        let imported = self.place().access();
        Read::new(imported, self.found(), || self.asked(imported.location().value()))
    }

    // A program without optimisation has a copy of the value on the stack for each function here. They are gone when the read
    // is polled.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn found(&self) -> Result<T, ReadError> {
        let at = self.at()?;
        let imported = self.place().access();
        let Some(memory) = imported.memory_of_paths() else {
            return Self::found_elsewhere(*self.place());
        };
        self.found_in::<false>(memory, imported.location(), at)
    }

    /// Reads the value at word `at` of this memory. The common path has this code for itself (`MOVED` is false), so that the
    /// compiler puts all of it in one place.
    #[inline(always)]
    fn found_in<const MOVED: bool>(
        &self,
        memory: &Memory,
        location: &Location,
        at: usize,
    ) -> Result<T, ReadError> {
        // A copy of the path lies in memory for a guarded export alone, whose copies another function reads.
        let path = Path::<_, T>::new(*self.place());
        match self.load(memory, location, at, move |at| path.take(memory, at)) {
            Some(Some(value)) => Ok(value),
            Some(None) => Err(ReadError::Invalid),
            None => Err(ReadError::Busy),
        }
    }

    /// Reads the value of an export that has moved.
    #[cold]
    #[inline(never)]
    fn found_elsewhere(place: Place<&'i Imported>) -> Result<T, ReadError> {
        let from = place.access.location();
        let here = place.access.mapped()?;
        let (memory, to) = (&here.memory, &here.location);
        let moved = Path::<_, T>::new(place.moved(from, to));
        moved.found_in::<true>(memory, to, moved.at()?)
    }

    /// Takes the value, which begins at word `at`, as the owner left it after one update. `None` where that was not found in
    /// some attempts.
    #[inline(always)]
    fn load<R>(
        &self,
        memory: &Memory,
        location: &Location,
        at: usize,
        mut take: impl FnMut(usize) -> R,
    ) -> Option<R> {
        if T::GROWS {
            return None;
        }
        let bets = self.place().access().bets();
        match location.consistency {
            Consistency::Cell if T::WORDS != 1 || T::UNITS != 0 => {
                let units = usize::from(!T::IS_UNIT) + T::UNITS;
                memory.read_whole(units, |show| self.versions(show), move || take(at), bets)
            }
            Consistency::Guarded => {
                let take = move |offset| take(at + offset);
                memory.read_copy(location.version(), location.words, take, bets)
            }
            Consistency::Cell | Consistency::Raw => Some(memory.read_parts(|| take(at))),
        }
    }
}

type Answer<'i> = Pin<Box<dyn Future<Output = Result<Vec<u64>, CallError<NotRead>>> + Send + 'i>>;

/// A read of a part of an export: see [`Path::read`].
#[must_use = "a value is read when the future is awaited"]
pub struct Read<'i, T> {
    state: Reading<'i, T>,
}

enum Reading<'i, T> {
    Found(T),
    /// Nothing to drop is here, so that a value that is found costs nothing more.
    Other(Box<Other<'i>>),
    Over,
}

enum Other<'i> {
    Failed(ReadError),
    Calling { imported: &'i Imported, answer: Answer<'i>, shift: Option<u8> },
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
            Ok(value) => Reading::Found(value),
            Err(error) => Reading::Other(other(imported, error, asked)),
        };
        Read { state }
    }
}

#[cold]
#[inline(never)]
fn other<'i>(
    imported: &'i Imported,
    error: ReadError,
    asked: impl FnOnce() -> (Asked, Option<u8>),
) -> Box<Other<'i>> {
    if error != ReadError::Busy {
        return Box::new(Other::Failed(error));
    }
    imported.bets.call();
    let (asked, shift) = asked();
    let answer = Box::pin(async move {
        imported.follow_move().await;
        match asked.route.is_empty() {
            true => imported.read(asked.part).await,
            false => imported.read_routed(asked).await,
        }
    });
    Box::new(Other::Calling { imported, answer, shift })
}

impl<T: Shared> Future for Read<'_, T> {
    type Output = Result<T, ReadError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match std::mem::replace(&mut self.state, Reading::Over) {
            Reading::Found(value) => Poll::Ready(Ok(value)),
            Reading::Other(other) => self.poll_other(other, context),
            Reading::Over => panic!("a read that was done is polled again"),
        }
    }
}

impl<'i, T: Shared> Read<'i, T> {
    #[cold]
    #[inline(never)]
    fn poll_other(
        &mut self,
        mut other: Box<Other<'i>>,
        context: &mut Context<'_>,
    ) -> Poll<Result<T, ReadError>> {
        let (imported, answer, shift) = match &mut *other {
            Other::Failed(error) => return Poll::Ready(Err(error.clone())),
            Other::Calling { imported, answer, shift } => (*imported, answer, *shift),
        };
        match answer.as_mut().poll(context) {
            Poll::Ready(answer) => {
                let words = answer.map_err(not_read);
                Poll::Ready(words.and_then(|words| imported.value_of(&words, shift)))
            }
            Poll::Pending => {
                self.state = Reading::Other(other);
                Poll::Pending
            }
        }
    }
}

// A value that was found is not borrowed by the future.
impl<T> Unpin for Read<'_, T> {}

/// Returns the error of a call that did not bring a value.
pub(super) fn not_read(error: CallError<NotRead>) -> ReadError {
    match error {
        CallError::Method(NotRead::Ended) => ReadError::Ended,
        CallError::Method(NotRead::OtherOwner) => ReadError::OwnerReplaced,
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

impl Imported {
    /// Returns the value of the words that the owner has sent.
    pub(super) fn value_of<T: Shared>(
        &self,
        words: &[u64],
        shift: Option<u8>,
    ) -> Result<T, ReadError> {
        if words.len() != T::WORDS && !(T::GROWS && words.len() > T::WORDS) {
            return Err(ReadError::Invalid);
        }
        if T::PACKED != 0 {
            return T::of_word(words[0] >> shift.unwrap_or(0)).ok_or(ReadError::Invalid);
        }
        T::take(&Memory::of(words, self.number), 0).ok_or(ReadError::Invalid)
    }
}
