//! The owner's side: the exports of a node, and their memory.

use super::change::Changes;
use super::error::ExportError;
use super::memory::Memory;
use super::path::Path;
use super::shared::{Access, NOWHERE, Place, Shared, access};
use super::watchers::Watchers;
use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use upbeat_core::channel::export::{
    Asker, Consistency, Directory, Expression, NotRead, Number, Overflow, Part, Readers, Shape,
};
use upbeat_core::limits::LINE_BYTES;
use upbeat_memory::copies::{self, Look};
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::segment::{Segment, Writers};
use upbeat_transport::carrier::OwnSegment;

/// The words before a value: its state, and in a line of its own the version of the whole.
const HEAD: usize = 2 * LINE;
const LINE: usize = LINE_BYTES / WORD;

/// The state of an export that stands.
const STANDS: u64 = 1;
const ENDED: u64 = 2;

/// The bytes of a node's first segment of exports. Later ones are twice as large each.
const SEGMENT_BYTES: usize = 64 << 10;

/// The most ranges of words that an owner notes as changed, before it takes them as one.
const RANGES_MAX: usize = 64;

/// Where an export lies in its segment, and how it is read there.
#[derive(Clone, Copy)]
pub(super) struct Location {
    /// The first word of the head.
    head: usize,
    /// The words of a copy of the value.
    pub(super) words: usize,
    pub(super) consistency: Consistency,
}

impl Location {
    /// Returns a location without memory, for a reader that calls.
    pub(super) const fn nowhere(words: usize, consistency: Consistency) -> Location {
        Location { head: 0, words, consistency }
    }

    /// Returns the location at this word, if the value fits behind it.
    pub(super) fn checked(self, head: u64, region: &Region) -> Option<Location> {
        let head = usize::try_from(head).ok()?;
        (head.checked_add(self.room()?)? <= region.words()).then_some(Location { head, ..self })
    }

    /// Returns the words of the head and the value.
    fn room(self) -> Option<usize> {
        self.words.checked_mul(self.consistency.copies())?.checked_add(HEAD)
    }

    pub(super) const fn head(self) -> u64 {
        self.head as u64
    }

    pub(super) const fn value(self) -> usize {
        self.head + HEAD
    }

    pub(super) const fn version(self) -> usize {
        self.head + LINE
    }

    /// Returns the place of the whole value.
    pub(super) fn place<A: Access>(self, access: A) -> Place<A> {
        Place::whole(access, self.value(), self.version())
    }

    /// Returns whether the export stands.
    #[inline(always)]
    pub(super) fn stands(self, memory: &Memory) -> bool {
        memory.load(self.head) == STANDS
    }
}

/// A segment with exports.
struct ExportSegment {
    own: Arc<OwnSegment>,
    /// The first word that no export has.
    next: Cell<usize>,
}

impl ExportSegment {
    /// Creates a segment of at least so many bytes. It is on the heap, and reached by calls alone, where this process may
    /// not share memory.
    fn create(bytes: usize) -> Result<ExportSegment, ExportError> {
        let own = match Segment::create("upbeat-exports", bytes, Writers::Owner)
            .and_then(Segment::reserve)
        {
            Ok(segment) => OwnSegment::Shared(segment),
            Err(error) if error.is_refused() => match Region::try_heap(bytes.div_ceil(WORD)) {
                Some(region) => OwnSegment::Heap(region),
                None => return Err(ExportError::Memory { text: error.to_string().into() }),
            },
            Err(error) => return Err(ExportError::Memory { text: error.to_string().into() }),
        };
        Ok(ExportSegment { own: Arc::new(own), next: Cell::new(0) })
    }

    /// Takes room for an export.
    fn take(&self, of: Location) -> Option<Location> {
        let location = of.checked(self.next.get() as u64, self.own.region())?;
        self.next.set((location.head + location.room()?).next_multiple_of(LINE));
        Some(location)
    }
}

/// The exports of a node.
pub(crate) struct Exports {
    /// The last segment of each list of readers, who map whole segments.
    last: RefCell<BTreeMap<Readers, ExportSegment>>,
    directory: RefCell<Directory<Rc<Owner>>>,
}

impl Exports {
    /// Returns the exports of a node that has none yet, which are numbered from a random number on.
    pub(crate) fn new(random: u32) -> Exports {
        Exports { last: RefCell::default(), directory: RefCell::new(Directory::new(random)) }
    }

    /// Exports a value under a name for these readers.
    pub(crate) fn export<T: Shared>(
        self: &Rc<Self>,
        name: &str,
        value: &T,
        consistency: Consistency,
        readers: Readers,
    ) -> Result<Export<T>, ExportError> {
        let mut made = None;
        let of = readers.clone();
        self.directory.borrow_mut().export(name, T::shape(), readers, |number| {
            let (segment, location) = self.take(T::WORDS, consistency, of)?;
            let memory = Memory(segment.region().clone());
            for copy in 0..consistency.copies() {
                value.put(&memory, location.value() + copy * T::WORDS);
            }
            memory.0.publish(location.head, STANDS);
            let owner = Owner {
                name: name.into(),
                number,
                memory,
                location,
                segment,
                offset: Cell::default(),
                changed: RefCell::default(),
                changes: Changes::default(),
            };
            Ok::<_, ExportError>(Rc::clone(made.insert(Rc::new(owner))))
        })?;
        let owner = made.unwrap_or_else(|| unreachable!("the directory has kept it"));
        let fields = Path::new(owner.location.place(Rc::clone(&owner)));
        Ok(Export { fields, owner, exports: Rc::clone(self) })
    }

    /// Returns the exports' names and types, and what is kept of each.
    pub(super) fn directory(&self) -> Ref<'_, Directory<Rc<Owner>>> {
        self.directory.borrow()
    }

    /// Returns the words of a part of an export.
    pub(super) fn words(
        &self,
        number: u32,
        part: Part,
        asker: &impl Asker,
    ) -> Result<Vec<u64>, NotRead> {
        let directory = self.directory();
        let (_, owner) = directory.part(number, part, asker)?;
        Ok(owner.words(part))
    }

    /// Returns a number that changes whenever a part does.
    pub(super) fn version(
        &self,
        number: u32,
        (part, is_unit): (Part, bool),
        asker: &impl Asker,
    ) -> Result<u64, NotRead> {
        let directory = self.directory();
        let (shape, owner) = directory.part(number, part, asker)?;
        Ok(owner.version_of(shape, part, is_unit))
    }

    /// Takes room for a value of so many words, in the last segment of its readers or in a new one.
    fn take(
        &self,
        words: usize,
        consistency: Consistency,
        readers: Readers,
    ) -> Result<(Arc<OwnSegment>, Location), ExportError> {
        let wanted = Location::nowhere(words, consistency);
        let mut segments = self.last.borrow_mut();
        let last = segments.get(&readers);
        if let Some(last) = last
            && let Some(location) = last.take(wanted)
        {
            return Ok((Arc::clone(&last.own), location));
        }
        let before = last.map_or(0, |last| 2 * last.own.region().words() * WORD);
        let room = wanted.room().unwrap_or_else(|| unreachable!("the directory bounds a value"));
        let bytes = before.max(SEGMENT_BYTES).max((room + LINE) * WORD);
        let segment = ExportSegment::create(bytes)?;
        let location = segment.take(wanted);
        let location = location.unwrap_or_else(|| unreachable!("the segment was made for it"));
        let own = Arc::clone(&segment.own);
        segments.insert(readers, segment);
        // A list whose exports have ended leaves no memory behind.
        segments.retain(|of, last| of.are_all() || Arc::strong_count(&last.own) > 1);
        Ok((own, location))
    }
}

/// An export, for the paths of its owner.
#[doc(hidden)]
pub struct Owner {
    name: Box<str>,
    number: u32,
    memory: Memory,
    location: Location,
    segment: Arc<OwnSegment>,
    /// The words from the beginning of the value to the copy that the owner uses: the one that it writes, or the last.
    offset: Cell<usize>,
    /// The words, by first word and number, that the copy to be written next lacks.
    changed: RefCell<Vec<(usize, usize)>>,
    changes: Changes,
}

impl Owner {
    pub(super) fn location(&self) -> Location {
        self.location
    }

    pub(super) fn segment(&self) -> &Arc<OwnSegment> {
        &self.segment
    }

    pub(super) fn watchers(&self) -> &Watchers {
        self.changes.watchers()
    }

    /// Returns the memory, and where in it the owner finds the word that a path has.
    #[inline(always)]
    pub(super) fn memory_at(&self, at: usize) -> (&Memory, usize) {
        (&self.memory, at + self.offset.get())
    }

    /// Changes the value at word `at`, which `put` stores. The unit around it has its version at word `version`.
    #[inline]
    fn change<T: Shared>(&self, at: usize, version: usize, put: impl FnOnce(&Memory, usize)) {
        match self.location.consistency {
            Consistency::Cell => {
                let _change = self.changes.begin(&self.memory, version);
                let _inner = self.changes.begin_inner::<T>(&self.memory, at, version);
                put(&self.memory, at);
            }
            Consistency::Raw => {
                put(&self.memory, at);
                self.watchers().tell();
            }
            // The watchers are told when the lock is given back.
            Consistency::Guarded => {
                self.note((at, T::WORDS));
                put(&self.memory, at + self.offset.get());
            }
        }
    }

    /// Makes changes of which readers of the unit find all or none.
    #[inline]
    fn update<R>(&self, version: usize, change: impl FnOnce() -> R) -> R {
        let is_unit = self.location.consistency == Consistency::Cell;
        let _change = is_unit.then(|| self.changes.begin(&self.memory, version));
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
    fn begin(&self) {
        let copy = copies::begin(&self.memory.0, self.location.version());
        let (to, from) = (copy * self.location.words, (1 - copy) * self.location.words);
        for (at, words) in self.changed.take() {
            (at..at + words).for_each(|at| self.memory.store(at + to, self.memory.load(at + from)));
        }
        self.offset.set(to);
    }

    /// Makes the copy that was written the last one.
    fn publish(&self) {
        copies::end(&self.memory.0, self.location.version());
        self.watchers().tell();
    }

    /// Returns the words from the beginning of the value to the last copy.
    fn last_copy(&self) -> usize {
        match self.location.consistency {
            Consistency::Guarded => self.look().copy() * self.location.words,
            Consistency::Cell | Consistency::Raw => 0,
        }
    }

    fn look(&self) -> Look {
        Look::at(&self.memory.0, self.location.version())
    }

    /// Returns the words of a part, which the value has.
    fn words(&self, part: Part) -> Vec<u64> {
        let first = self.location.value() + self.last_copy() + part.at as usize;
        // The owner's thread, which this is, updates nothing at the moment, but for the other copy.
        (first..first + part.words as usize).map(|at| self.memory.load(at)).collect()
    }

    /// Evaluates an expression, which the value has the elements of.
    pub(super) fn evaluate(&self, expression: &Expression) -> Result<Option<Number>, Overflow> {
        let first = self.location.value() + self.last_copy();
        expression.evaluate(|at| self.memory.load(first + at))
    }

    fn version_of(&self, shape: &Shape, part: Part, is_unit: bool) -> u64 {
        match self.location.consistency {
            Consistency::Guarded => self.look().version(),
            Consistency::Raw => self.watchers().changes(),
            Consistency::Cell => {
                let mut sum = 0_u64;
                part.versions(shape, is_unit, &mut |at| {
                    let at = match at {
                        Some(at) => self.location.value() + at as usize,
                        None => self.location.version(),
                    };
                    sum = sum.wrapping_add(self.memory.load(at));
                });
                sum
            }
        }
    }
}

access! { Rc<Owner>, Owner; }

impl<T: Shared> Path<&Owner, T> {
    /// Returns the value.
    ///
    /// # Panics
    /// If an index is out of range.
    pub fn get(&self) -> T {
        let place = self.checked();
        let (memory, at) = place.access.memory_at(place.at);
        let value = self.take(memory, at);
        value.unwrap_or_else(|| unreachable!("the owner has written a value of this type"))
    }

    /// Replaces the value. A reader finds the old one or the new one.
    ///
    /// # Panics
    /// If an index is out of range.
    #[inline]
    pub fn set(&self, value: T) {
        let Place { access, at, version, shift } = self.checked();
        access.change::<T>(*at, *version, |memory, at| match shift {
            None => value.put(memory, at),
            Some(shift) => {
                let mask = u64::MAX >> (64 - 8 * T::PACKED) << shift;
                let others = memory.load(at) & !mask;
                memory.store(at, others | value.to_word() << shift & mask);
            }
        });
    }

    /// Changes parts of the value. A reader of the whole value finds all changes or none.
    ///
    /// # Panics
    /// If an index is out of range.
    #[inline]
    pub fn update<R>(&self, change: impl FnOnce(&T::Fields<&Owner>) -> R) -> R {
        let place = self.checked();
        place.access.update(place.version, || change(&self.fields))
    }

    #[inline(always)]
    fn checked(&self) -> &Place<&Owner> {
        let place = self.place();
        assert!(place.at != NOWHERE, "the index {} is out of range", place.version);
        place
    }
}

/// A value that this node exports, and that only this side writes: see [`Node::export`](crate::Node::export).
///
/// Dropping it ends the export: readers get [`ReadError::Ended`](super::ReadError::Ended).
pub struct Export<T: Shared> {
    fields: Path<Rc<Owner>, T>,
    owner: Rc<Owner>,
    exports: Rc<Exports>,
}

impl<T: Shared> Export<T> {
    /// Returns the path to the whole value.
    pub fn whole(&self) -> Path<&Owner, T> {
        Path::new(self.owner.location.place(&*self.owner))
    }

    /// Returns the name of an export. It is no method, since a field may have the name `name`.
    pub fn name(export: &Export<T>) -> &str {
        &export.owner.name
    }

    /// Returns the paths of an update of the whole value, which [`Update::publish`] makes visible. The
    /// next update begins with the last copy that is.
    pub(super) fn begin(&self) -> Update<T> {
        self.owner.begin();
        Update {
            fields: Path::new(self.owner.location.place(Rc::clone(&self.owner))),
            owner: Rc::clone(&self.owner),
        }
    }
}

impl<T: Shared> Deref for Export<T> {
    type Target = T::Fields<Rc<Owner>>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.fields
    }
}

impl<T: Shared> Drop for Export<T> {
    fn drop(&mut self) {
        self.owner.memory.store(self.owner.location.head, ENDED);
        self.exports.directory.borrow_mut().withdraw(self.owner.number);
        self.owner.watchers().tell();
    }
}

/// An update of one of the two copies of a value.
pub(super) struct Update<T: Shared> {
    pub(super) fields: Path<Rc<Owner>, T>,
    owner: Rc<Owner>,
}

impl<T: Shared> Update<T> {
    pub(super) fn publish(&self) {
        self.owner.publish();
    }
}
