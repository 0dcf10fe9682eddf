//! The owner's side: how an export is made and changed.

mod answers;
mod steps;

use super::change::Changes;
use super::error::ExportError;
use super::home::{Here, Home};
use super::location::{ENDED, Location, STANDS};
use super::memory::{Memory, Writer};
use super::path::Path;
use super::segments::{Lodger, Segments};
use super::shared::{NOTHING, NOWHERE, Place, Shared, access};
use super::watchers::Watchers;
pub(super) use answers::Version;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use steps::Steps;
use upbeat_core::channel::export::{Consistency, Readers, Room, gather};
use upbeat_core::limits::EXPORT_WORDS_MAX;
use upbeat_memory::copies;
use upbeat_transport::carrier::OwnSegment;

/// The most ranges of words that an owner notes as changed, before it takes them as one.
const RANGES_MAX: usize = 64;

/// The words for further elements of vectors that a growing export has at first.
const HEAP_WORDS: usize = 128;

/// An export, for the paths of its owner.
#[doc(hidden)]
pub struct Owner {
    name: Box<str>,
    number: u32,
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
    /// The last field, so that the room is given back before the segments are settled.
    kept: Kept,
}

impl Owner {
    /// Makes an export whose words are zero, with room for so many words of vectors. Nobody reads it until it
    /// [stands](Self::stand).
    pub(super) fn vacant<T: Shared>(
        (number, name): (u32, &str),
        consistency: Consistency,
        readers: Readers,
        segments: &Rc<Segments>,
        heap: usize,
    ) -> Result<Owner, ExportError> {
        let heap = if T::GROWS { heap.saturating_add(HEAP_WORDS.max(T::WORDS)) } else { 0 };
        let words = T::WORDS.saturating_add(heap).min(EXPORT_WORDS_MAX);
        let taken = segments.take(Location::nowhere(words, consistency), &readers)?;
        let kept = Kept { readers, segments: Rc::clone(segments) };
        Ok(Owner {
            name: name.into(),
            number,
            home: Home::new(Here::new(taken, number)),
            offset: Cell::default(),
            heap: Cell::new(T::WORDS),
            heap_published: Cell::new(T::WORDS),
            changed: RefCell::default(),
            changes: Changes::default(),
            kept,
        })
    }

    /// Makes an export of a value.
    pub(super) fn of<T: Shared>(
        (number, name): (u32, &str),
        (value, consistency): (&T, Consistency),
        readers: Readers,
        segments: &Rc<Segments>,
    ) -> Result<Owner, ExportError> {
        if !value.is_within(number) {
            return Err(ExportError::OtherExport);
        }
        // The value has no vectors yet, so it needs room for all elements.
        let heap = if T::GROWS { value.room(None) } else { 0 };
        let owner = Owner::vacant::<T>((number, name), consistency, readers, segments, heap)?;
        owner.reserve(heap)?;
        let at = owner.written(owner.home.first().value());
        owner.with_writer(|writer| value.put(writer, at));
        owner.publish_first();
        Ok(owner)
    }

    /// Makes the copy that was written the last one, before anybody reads.
    pub(super) fn publish_first(&self) {
        let now = self.home.now();
        let Location { words, consistency, .. } = now.location;
        let value = now.location.value();
        for copy in 1..consistency.copies() {
            for at in value..value + self.heap.get() {
                now.memory.store(at + copy * words, now.memory.load(at));
            }
        }
        self.heap_published.set(self.heap.get());
        self.changed.borrow_mut().clear();
    }

    /// Lets the export stand.
    pub(super) fn stand(self: &Rc<Self>) {
        let now = self.home.now();
        now.memory.0.publish(now.location.head, STANDS);
        let lodger: Weak<dyn Lodger> = Rc::<Owner>::downgrade(self);
        self.kept.segments.enter(self.number, lodger);
    }

    /// Returns whether this process has made the export, and is not a forked child.
    pub(super) fn is_here(&self) -> bool {
        self.home.is_here()
    }

    /// Refuses the use of the export in a forked child, which does not have its memory.
    ///
    /// # Panics
    /// In a forked child.
    #[inline(always)]
    pub(super) fn check_process(&self) {
        if !self.is_here() {
            forked(&self.name);
        }
    }

    /// Gives up segments that the exports do not need.
    pub(super) fn settle(&self) {
        self.kept.settle();
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
        *self.home.first()
    }

    /// Returns where the export is now, and its memory, for a reader that maps it if `is_mapped`.
    pub(super) fn lend(&self, is_mapped: bool) -> (Location, Arc<OwnSegment>) {
        let now = self.home.now();
        (now.location, now.lodging.lend(is_mapped))
    }

    pub(super) fn watchers(&self) -> &Watchers {
        self.changes.watchers()
    }

    /// Returns whether readers would find some of the changes of an update, and not the others.
    pub(super) fn is_updating(&self) -> bool {
        self.changes.is_open()
    }

    #[inline(always)]
    fn consistency(&self) -> Consistency {
        self.home.first().consistency
    }

    /// Returns where the owner finds the word that a path has.
    #[inline(always)]
    fn written(&self, at: usize) -> usize {
        at.wrapping_add(self.offset.get())
    }

    /// Gives `write` the words of the copy that the owner uses.
    #[inline(always)]
    pub(super) fn with_writer<R>(&self, write: impl FnOnce(&Writer<'_>) -> R) -> R {
        let value = self.written(self.home.first().value());
        let now = self.home.now();
        write(&Writer::new(&now.memory, value, &self.heap))
    }

    /// Checks that the pointers of a value lead into this export.
    #[inline(always)]
    fn check<V: Shared>(&self, value: &V) -> Result<(), ExportError> {
        if value.is_within(self.number) { Ok(()) } else { Err(ExportError::OtherExport) }
    }

    /// Makes room for so many more words of vectors. The export moves to a larger place if it has none.
    pub(super) fn reserve(&self, words: usize) -> Result<(), ExportError> {
        let needed = self.heap.get().saturating_add(words);
        let has = self.home.now().location.words;
        if needed <= has {
            return Ok(());
        }
        if needed > EXPORT_WORDS_MAX {
            return Err(ExportError::Full);
        }
        // Chunks double, so half as much again is enough for moves to be rare.
        self.move_to(needed.saturating_add(needed / 2).min(EXPORT_WORDS_MAX))?;
        self.kept.settle();
        Ok(())
    }

    /// Moves the export to a room for so many words of a copy.
    fn move_to(&self, words: usize) -> Result<(), ExportError> {
        let now = self.home.now();
        let wanted = Location::nowhere(words, now.location.consistency);
        let next = Here::new(self.kept.segments.take(wanted, &self.kept.readers)?, self.number);
        let (from, to) = (now.location, next.location);
        let used = self.heap.get().max(self.heap_published.get());
        for copy in 0..to.consistency.copies() {
            for at in 0..used {
                let word = now.memory.load(from.value() + copy * from.words + at);
                next.memory.store(to.value() + copy * to.words + at, word);
            }
        }
        next.memory.store(to.version(), now.memory.load(from.version()));
        next.memory.0.publish(to.head, now.memory.load(from.head));
        // The copy that is in use stays in use.
        let copy = self.offset.get().wrapping_sub(self.home.distance(&now)) / from.words.max(1);
        let distance = self.home.distance(&next);
        drop(now);
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
            let is_cell = self.consistency() == Consistency::Cell;
            let (version, now) = (self.written(version), self.home.now());
            let _inner = is_cell.then(|| self.changes.begin_inner::<T>(&now, at, version));
            put(writer, at);
        });
        if T::GROWS && self.consistency() == Consistency::Guarded {
            // The elements of vectors lie anywhere among the words that vectors have.
            self.note((self.home.first().value(), self.heap.get()));
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
        match self.consistency() {
            Consistency::Cell => {
                let _change = self.changes.begin(&self.home, version);
                self.with_writer(|writer| put(writer, self.written(at)));
            }
            Consistency::Raw => {
                self.with_writer(|writer| put(writer, self.written(at)));
                self.watchers().tell();
            }
            // The watchers are told when the lock is given back.
            Consistency::Guarded => {
                self.note((at, words));
                let heap = self.heap.get();
                self.with_writer(|writer| put(writer, self.written(at)));
                let taken = self.heap.get() - heap;
                if taken > 0 {
                    self.note((self.home.first().value() + heap, taken));
                }
            }
        }
    }

    /// Makes changes of which readers of the unit find all or none.
    #[inline]
    fn update<R>(&self, version: usize, change: impl FnOnce() -> R) -> R {
        let is_unit = self.consistency() == Consistency::Cell;
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
    ///
    /// # Panics
    /// In a forked child.
    pub(super) fn begin(&self) {
        self.check_process();
        let now = self.home.now();
        let copy = copies::begin(&now.memory.0, now.location.version());
        let (to, from) = (copy * now.location.words, (1 - copy) * now.location.words);
        let distance = self.home.distance(&now);
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
}

impl Lodger for Owner {
    fn readers(&self) -> &Readers {
        &self.kept.readers
    }

    fn room(&self) -> Room {
        self.home.now().lodging.room()
    }

    fn move_elsewhere(&self) -> Result<(), ExportError> {
        let words = self.home.now().location.words;
        self.move_to(words)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.kept.segments.leave(self.number);
    }
}

/// The segments in which an export may lie.
struct Kept {
    readers: Readers,
    segments: Rc<Segments>,
}

impl Kept {
    fn settle(&self) {
        self.segments.settle(&self.readers);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.settle();
    }
}

access! { Rc<Owner>, Owner, Steps; }

impl<T: Shared> Path<&Owner, T> {
    /// Returns the value.
    ///
    /// # Panics
    /// If the path leads to nothing.
    pub fn get(&self) -> T {
        let Place { access, at, shift, .. } = self.checked();
        let (now, at) = (access.home.now(), access.written(at));
        let memory = &now.memory;
        let value = match shift {
            None if T::GROWS => {
                let first = access.written(access.location().value());
                let (load, words) = (&mut |at| memory.load(first + at), now.location.words);
                let words = gather(&T::shape(), at - first, words, load);
                let words = words.unwrap_or_else(|_| panic!("the value has too many words"));
                T::take(&Memory::of(&words, access.number), 0)
            }
            None => T::take(memory, at),
            Some(shift) => T::of_word(memory.load(at) >> shift),
        };
        value.unwrap_or_else(|| unreachable!("the owner has written a value of this type"))
    }

    /// Replaces the value. A reader finds the old one or the new one.
    ///
    /// # Panics
    /// If the path leads to nothing, if the value has a pointer into another export, or if there is no memory for the
    /// elements of a vector that grows.
    #[inline]
    pub fn set(&self, value: T) {
        let Place { access, at, version, shift, .. } = self.checked();
        self.make_room(&value, |writer, at| value.room(Some((writer, at))));
        access.change::<T>(at, version, |writer, at| match shift {
            None => value.put(writer, at),
            Some(shift) => {
                let mask = u64::MAX >> (64 - 8 * T::PACKED) << shift;
                let others = writer.load(at) & !mask;
                writer.store(at, others | value.to_word() << shift & mask);
            }
        });
    }

    /// Checks the pointers of a value that is to be stored, and makes the room that it needs, before anything of the change
    /// is done.
    #[inline(always)]
    pub(super) fn make_room<V: Shared>(
        &self,
        value: &V,
        words: impl FnOnce(&Writer<'_>, usize) -> usize,
    ) {
        let made = match V::GROWS {
            true => self.reserve(value, words),
            false => self.place().access.check(value),
        };
        made.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Checks the pointers of a value that is to be stored, and makes room for the words of vectors that `words` counts.
    pub(super) fn reserve<V: Shared>(
        &self,
        value: &V,
        words: impl FnOnce(&Writer<'_>, usize) -> usize,
    ) -> Result<(), ExportError> {
        let Place { access, at, .. } = self.checked();
        access.check(value)?;
        let words = access.with_writer(|writer| words(writer, access.written(at)));
        access.reserve(words)
    }

    /// Changes words of the value, and of no unit inside of it.
    pub(super) fn change_in_place(&self, put: impl FnOnce(&Writer<'_>, usize)) {
        let Place { access, at, version, .. } = self.checked();
        access.change_unit((at, T::WORDS), version, put);
    }

    /// Changes parts of the value. A reader of the whole value finds all changes or none. While the closure drives the
    /// node, reads by calls wait, unless the export is guarded or raw: do not await one there.
    ///
    /// # Panics
    /// If the path leads to nothing. If `change` panics, what it has changed stays, and readers find that: only the lock of a
    /// [`GuardedExport`](super::GuardedExport) undoes it.
    #[inline]
    pub fn update<R>(&self, change: impl FnOnce(&T::Fields<&Owner>) -> R) -> R {
        let place = self.checked();
        place.access.update(place.version, || change(&self.fields))
    }
}

impl<'o, T: Shared> Path<&'o Owner, T> {
    /// Returns the place to which the path leads now.
    #[inline(always)]
    pub(super) fn checked(&self) -> Place<&'o Owner> {
        self.place().access.check_process();
        let place = self.place().now();
        if place.at == NOWHERE {
            leads_nowhere(place.version);
        }
        place
    }
}

#[cold]
pub(super) fn forked(name: &str) -> ! {
    panic!(
        "the export `{name}` was used in a forked child of its owner's process, which does not have the memory of its \
         parent's exports: export by a node of the child"
    )
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
