//! The owner's side: how an export is changed, and what readers are answered.

use super::change::Changes;
use super::error::ExportError;
use super::home::Home;
use super::location::{ENDED, Location, STANDS};
use super::memory::{Memory, Writer};
use super::path::Path;
use super::segments::Segments;
use super::shared::{NOTHING, NOWHERE, Place, Shared, access};
use super::watchers::Watchers;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use upbeat_core::channel::export::{
    Consistency, Expression, Found, Load, Missing, NotRead, Number, Overflow, Part, Readers, Route,
    Shape, gather,
};
use upbeat_core::limits::EXPORT_WORDS_MAX;
use upbeat_memory::copies::{self, Look};
use upbeat_transport::carrier::OwnSegment;

/// The most ranges of words that an owner notes as changed, before it takes them as one.
const RANGES_MAX: usize = 64;

/// The words for the elements of vectors that a growing export has at first.
const HEAP_WORDS: usize = 512;

/// An export, for the paths of its owner.
#[doc(hidden)]
pub struct Owner {
    name: Box<str>,
    number: u32,
    readers: Readers,
    segments: Rc<Segments>,
    home: Home,
    /// The words from a place of a path to the place in the copy that the owner uses: the one that it writes, or the last.
    offset: Cell<usize>,
    /// The first word of a copy that no vector has, from its beginning.
    heap: Cell<usize>,
    /// The same, when the owner last made a copy the last one.
    heap_published: Cell<usize>,
    /// The words, by first word and number, that the copy to be written next lacks.
    changed: RefCell<Vec<(usize, usize)>>,
    changes: Changes,
}

impl Owner {
    /// Exports a value under a number.
    pub(super) fn new<T: Shared>(
        name: &str,
        number: u32,
        (value, consistency): (&T, Consistency),
        readers: Readers,
        segments: &Rc<Segments>,
    ) -> Result<Owner, ExportError> {
        // The value has no vectors yet, so it needs room for all elements.
        let heap = match T::GROWS {
            true => value.room(None).saturating_add(HEAP_WORDS.max(T::WORDS)),
            false => 0,
        };
        let words = T::WORDS.saturating_add(heap).min(EXPORT_WORDS_MAX);
        let (segment, location) = segments.take(Location::nowhere(words, consistency), &readers)?;
        let owner = Owner {
            name: name.into(),
            number,
            readers,
            segments: Rc::clone(segments),
            home: Home::new(segment, location),
            offset: Cell::default(),
            heap: Cell::new(T::WORDS),
            heap_published: Cell::new(T::WORDS),
            changed: RefCell::default(),
            changes: Changes::default(),
        };
        if T::GROWS {
            owner.reserve(value.room(None))?;
        }
        for copy in 0..consistency.copies() {
            owner.heap.set(T::WORDS);
            owner.offset.set(copy * owner.home.now().location.words);
            value.put(&owner.writer(), owner.written(location.value()));
        }
        owner.offset.set(owner.home.distance(owner.home.now()));
        owner.heap_published.set(owner.heap.get());
        let Home { memory, location, .. } = owner.home.now();
        memory.0.publish(location.head, STANDS);
        Ok(owner)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Ends the export for readers of its memory.
    pub(super) fn end(&self) {
        let now = self.home.now();
        now.memory.store(now.location.head, ENDED);
    }

    /// Returns where paths have the export.
    pub(super) fn location(&self) -> Location {
        self.home.location
    }

    /// Returns where the export is now, and its memory.
    pub(super) fn segment(&self) -> (Location, &Arc<OwnSegment>) {
        let now = self.home.now();
        (now.location, &now.segment)
    }

    pub(super) fn watchers(&self) -> &Watchers {
        self.changes.watchers()
    }

    /// Returns where the owner finds the word that a path has.
    #[inline(always)]
    fn written(&self, at: usize) -> usize {
        at.wrapping_add(self.offset.get())
    }

    /// Returns the words of the copy that the owner uses.
    #[inline(always)]
    pub(super) fn writer(&self) -> Writer<'_> {
        let value = self.written(self.home.location.value());
        Writer::new(&self.home.now().memory, value, &self.heap)
    }

    /// Makes room for so many more words of vectors. The export moves to a larger place if it has none.
    pub(super) fn reserve(&self, words: usize) -> Result<(), ExportError> {
        let now = self.home.now();
        let used = self.heap.get();
        let needed = used.saturating_add(words);
        if needed <= now.location.words {
            return Ok(());
        }
        if needed > EXPORT_WORDS_MAX {
            return Err(ExportError::Full);
        }
        let larger = needed.max(2 * now.location.words).min(EXPORT_WORDS_MAX);
        let consistency = now.location.consistency;
        let (segment, location) =
            self.segments.take(Location::nowhere(larger, consistency), &self.readers)?;
        let next = Home::new(segment, location);
        let (from, to) = (now.location, next.location);
        for copy in 0..consistency.copies() {
            for at in 0..used.max(self.heap_published.get()) {
                let word = now.memory.load(from.value() + copy * from.words + at);
                next.memory.store(to.value() + copy * to.words + at, word);
            }
        }
        next.memory.store(to.version(), now.memory.load(from.version()));
        next.memory.0.publish(to.head, STANDS);
        // The copy that is in use stays in use.
        let copy = self.offset.get().wrapping_sub(self.home.distance(now)) / from.words.max(1);
        let distance = self.home.distance(&next);
        self.home.move_to(next);
        self.offset.set(distance.wrapping_add(copy * to.words));
        Ok(())
    }

    /// Changes the value at word `at`, which `put` stores. The unit around it has its version at word `version`.
    #[inline]
    pub(super) fn change<T: Shared>(
        &self,
        at: usize,
        version: usize,
        put: impl FnOnce(&Writer<'_>, usize),
    ) {
        self.change_unit((at, T::WORDS), version, |writer, at| {
            let is_cell = self.home.location.consistency == Consistency::Cell;
            let version = self.written(version);
            let _inner =
                is_cell.then(|| self.changes.begin_inner::<T>(self.home.now(), at, version));
            put(writer, at);
        });
        if T::GROWS && self.home.location.consistency == Consistency::Guarded {
            // The elements of vectors lie anywhere among the words that vectors have.
            self.note((self.home.location.value(), self.heap.get()));
        }
    }

    /// Changes words of the unit with its version at word `version`, and of no unit inside of it.
    #[inline]
    pub(super) fn change_unit(
        &self,
        (at, words): (usize, usize),
        version: usize,
        put: impl FnOnce(&Writer<'_>, usize),
    ) {
        match self.home.location.consistency {
            Consistency::Cell => {
                let _change = self.changes.begin(&self.home, version);
                put(&self.writer(), self.written(at));
            }
            Consistency::Raw => {
                put(&self.writer(), self.written(at));
                self.watchers().tell();
            }
            // The watchers are told when the lock is given back.
            Consistency::Guarded => {
                self.note((at, words));
                let heap = self.heap.get();
                put(&self.writer(), self.written(at));
                let taken = self.heap.get() - heap;
                if taken > 0 {
                    self.note((self.home.location.value() + heap, taken));
                }
            }
        }
    }

    /// Makes changes of which readers of the unit find all or none.
    #[inline]
    fn update<R>(&self, version: usize, change: impl FnOnce() -> R) -> R {
        let is_unit = self.home.location.consistency == Consistency::Cell;
        let _change = is_unit.then(|| self.changes.begin(&self.home, version));
        change()
    }

    /// Notes that words have changed in the copy that is being written.
    fn note(&self, range: (usize, usize)) {
        let mut changed = self.changed.borrow_mut();
        if changed.last() == Some(&range) {
            return;
        }
        if changed.len() == RANGES_MAX {
            let ends = changed.iter().map(|(at, words)| at + words);
            let first = changed.iter().map(|(at, _)| *at).min().unwrap_or(range.0);
            let end = ends.max().unwrap_or(first);
            changed.clear();
            changed.push((first, end - first));
        }
        changed.push(range);
    }

    /// Begins to write the copy that is not the last one.
    pub(super) fn begin(&self) {
        let now = self.home.now();
        let copy = copies::begin(&now.memory.0, now.location.version());
        let (to, from) = (copy * now.location.words, (1 - copy) * now.location.words);
        let distance = self.home.distance(now);
        for (at, words) in self.changed.take() {
            let at = at.wrapping_add(distance);
            (at..at + words).for_each(|at| now.memory.store(at + to, now.memory.load(at + from)));
        }
        self.offset.set(distance.wrapping_add(to));
        self.heap.set(self.heap_published.get());
    }

    /// Makes the copy that was written the last one.
    pub(super) fn publish(&self) {
        let now = self.home.now();
        copies::end(&now.memory.0, now.location.version());
        self.heap_published.set(self.heap.get());
        self.watchers().tell();
    }

    /// Returns the last copy.
    fn last_copy(&self) -> LastCopy<'_> {
        let home = self.home.now();
        let copy = match home.location.consistency {
            Consistency::Guarded => self.look().copy() * home.location.words,
            Consistency::Cell | Consistency::Raw => 0,
        };
        LastCopy { home, first: home.location.value() + copy, versions: 0 }
    }

    fn look(&self) -> Look {
        let now = self.home.now();
        Look::at(&now.memory.0, now.location.version())
    }

    /// Follows a route in the copy that the owner uses.
    pub(super) fn follow(&self, route: &Route) -> Result<Found, Missing> {
        let (home, first) = (self.home.now(), self.written(self.home.location.value()));
        route.follow(home.location.words, &mut LastCopy { home, first, versions: 0 })
    }

    /// Returns the words of a part of the value of this shape to which a route leads. A number of a vector is in the low
    /// bits of its word.
    pub(super) fn words(
        &self,
        (route, shape): (&Route, &Shape),
        part: Part,
    ) -> Result<Vec<u64>, NotRead> {
        // The owner's thread, which this is, updates nothing at the moment, but for the other copy.
        let mut copy = self.last_copy();
        let found = route.follow(copy.home.location.words, &mut copy).map_err(NotRead::Missing)?;
        let at = found.at + part.at as usize;
        if let Some(growing) = part.shape(shape).filter(|shape| shape.grows()) {
            return gather(growing, at, &mut |at| copy.load(at)).map_err(|_| NotRead::Large);
        }
        Ok((at..at + part.words as usize).map(|at| copy.load(at) >> found.shift).collect())
    }

    /// Evaluates an expression, which the value has the elements of.
    pub(super) fn evaluate(&self, expression: &Expression) -> Result<Option<Number>, Overflow> {
        let mut copy = self.last_copy();
        expression.evaluate(|at| copy.load(at))
    }

    /// Returns a number that changes whenever a part does of the value of this shape to which a route leads, or something on
    /// the way there.
    pub(super) fn version(
        &self,
        (route, shape): (&Route, &Shape),
        part: Part,
        is_unit: bool,
    ) -> Result<u64, NotRead> {
        match self.home.location.consistency {
            Consistency::Guarded => Ok(self.look().version()),
            Consistency::Raw => Ok(self.watchers().changes()),
            // Any change may be one of an element.
            Consistency::Cell if shape.grows() => Ok(self.watchers().changes()),
            Consistency::Cell => {
                let mut copy = self.last_copy();
                let words = copy.home.location.words;
                let found = route.follow(words, &mut copy).map_err(NotRead::Missing)?;
                part.versions(shape, is_unit, &mut |at| {
                    copy.look(at.map_or(found.around, |at| Some(found.at + at as usize)));
                });
                Ok(copy.versions)
            }
        }
    }
}

/// A copy of a value, and the sum of the versions that were looked at.
struct LastCopy<'o> {
    home: &'o Home,
    /// The first word.
    first: usize,
    versions: u64,
}

impl Load for LastCopy<'_> {
    fn look(&mut self, version: Option<usize>) {
        let at = version.map_or(self.home.location.version(), |at| self.first + at);
        self.versions = self.versions.wrapping_add(self.home.memory.load(at));
    }

    fn load(&mut self, at: usize) -> u64 {
        self.home.memory.load(self.first + at)
    }
}

access! { Rc<Owner>, Owner; }

impl<T: Shared> Path<&Owner, T> {
    /// Returns the value.
    ///
    /// # Panics
    /// If the path leads to nothing.
    pub fn get(&self) -> T {
        let Place { access, at, shift, .. } = self.checked();
        let (memory, at) = (&access.home.now().memory, access.written(*at));
        let value = match shift {
            None if T::GROWS => {
                let first = access.written(access.location().value());
                let words = gather(&T::shape(), at - first, &mut |at| memory.load(first + at));
                let words = words.unwrap_or_else(|_| panic!("the value has too many words"));
                T::take(&Memory::of(&words), 0)
            }
            None => T::take(memory, at),
            Some(shift) => T::of_word(memory.load(at) >> shift),
        };
        value.unwrap_or_else(|| unreachable!("the owner has written a value of this type"))
    }

    /// Replaces the value. A reader finds the old one or the new one.
    ///
    /// # Panics
    /// If the path leads to nothing, or if there is no memory for the elements of a vector that grows.
    #[inline]
    pub fn set(&self, value: T) {
        let Place { access, at, version, shift } = self.checked();
        if T::GROWS {
            self.reserve(|writer, at| value.room(Some((writer, at))))
                .unwrap_or_else(|error| panic!("{error}"));
        }
        access.change::<T>(*at, *version, |writer, at| match shift {
            None => value.put(writer, at),
            Some(shift) => {
                let mask = u64::MAX >> (64 - 8 * T::PACKED) << shift;
                let others = writer.load(at) & !mask;
                writer.store(at, others | value.to_word() << shift & mask);
            }
        });
    }

    /// Makes room for the words of vectors that `words` counts, before a change of the value.
    pub(super) fn reserve(
        &self,
        words: impl FnOnce(&Writer<'_>, usize) -> usize,
    ) -> Result<(), ExportError> {
        let Place { access, at, .. } = self.checked();
        access.reserve(words(&access.writer(), access.written(*at)))
    }

    /// Changes words of the value, and of no unit inside of it.
    pub(super) fn change_in_place(&self, put: impl FnOnce(&Writer<'_>, usize)) {
        let Place { access, at, version, .. } = self.checked();
        access.change_unit((*at, T::WORDS), *version, put);
    }

    /// Changes parts of the value. A reader of the whole value finds all changes or none.
    ///
    /// # Panics
    /// If the path leads to nothing.
    #[inline]
    pub fn update<R>(&self, change: impl FnOnce(&T::Fields<&Owner>) -> R) -> R {
        let place = self.checked();
        place.access.update(place.version, || change(&self.fields))
    }

    #[inline(always)]
    pub(super) fn checked(&self) -> &Place<&Owner> {
        let place = self.place();
        if place.at == NOWHERE {
            leads_nowhere(place.version);
        }
        place
    }
}

#[cold]
fn leads_nowhere(index: usize) -> ! {
    match index {
        NOTHING => panic!(
            "the path leads to nothing: an option has no value, a map has no such entry, or a pointer leads nowhere"
        ),
        index => panic!("the index {index} is out of range"),
    }
}
