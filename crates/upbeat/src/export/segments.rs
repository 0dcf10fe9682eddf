//! The memory of a node's exports: segments, which lie apart for different readers, and the rooms in them.
//!
//! [`Rooms`] decides which words an export gets. This module makes and drops the segments, and has exports move together
//! where few are left in large segments. Invariant: after each change the segments have no more words than the rooms that
//! are taken allow, unless there is no memory to move to.

use super::error::ExportError;
use super::location::{GIVEN_UP, IN_USE, Location, SHUT_DOWN};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use upbeat_core::channel::export::{Readers, Room, Rooms, Thrift};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::segment::{PAGE, Segment, Writers};
use upbeat_transport::carrier::OwnSegment;

const FOR_EVERYBODY: Thrift = Thrift { least: (64 << 10) / WORD, slack: (512 << 10) / WORD };

/// A node may have many lists of named readers.
const FOR_NAMED: Thrift = Thrift { least: PAGE / WORD, slack: 4 * PAGE / WORD };

/// The memory that a node's exports have: see [`Node::export_memory`](crate::Node::export_memory).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportMemory {
    /// The bytes of the exports that stand, with what their vectors have taken to grow.
    pub live: usize,
    /// The bytes of the segments in which they lie.
    pub held: usize,
    /// The number of segments.
    pub segments: usize,
}

/// An export that may be moved to another room.
pub(super) trait Lodger {
    /// Returns the readers of the export.
    fn readers(&self) -> &Readers;
    /// Returns the room of the export.
    fn room(&self) -> Room;
    /// Moves the export to another room of the same readers.
    fn move_elsewhere(&self) -> Result<(), ExportError>;
}

/// An export's room, which is given back when this is dropped.
pub(super) struct Lodging {
    segments: Rc<Segments>,
    readers: Readers,
    room: Room,
    own: Arc<OwnSegment>,
    /// Whether a reader was told where the room is.
    is_lent: Cell<bool>,
}

impl Lodging {
    pub(super) fn room(&self) -> Room {
        self.room
    }

    pub(super) fn region(&self) -> &Region {
        self.own.region()
    }

    /// Returns the segment, for a reader that maps it if `is_mapped`. From then on no other export gets this room.
    pub(super) fn lend(&self, is_mapped: bool) -> Arc<OwnSegment> {
        self.is_lent.set(self.is_lent.get() || is_mapped);
        Arc::clone(&self.own)
    }
}

impl Drop for Lodging {
    fn drop(&mut self) {
        let mut lists = self.segments.lists.borrow_mut();
        let Some(rooms) = lists.get_mut(&self.readers) else { return };
        if let Some(segment) = rooms.give_back(self.room, self.is_lent.get()) {
            give_up(&segment);
        }
        // A list whose exports have ended leaves no memory behind.
        let is_over = rooms.taken() == 0 && !self.readers.are_all();
        if is_over && !mutated(Mutant::EndedListStays) {
            rooms.segments().for_each(give_up);
            lists.remove(&self.readers);
        }
    }
}

/// Tells the readers that have mapped a segment that its owner needs it no more.
fn give_up(segment: &Arc<OwnSegment>) {
    if segment.region().load(0) != SHUT_DOWN {
        segment.region().publish(0, GIVEN_UP);
    }
}

/// Creates a segment of at least so many words. It is on the heap, and reached by calls alone, where this process may
/// not share memory.
fn create(words: usize) -> Result<Arc<OwnSegment>, ExportError> {
    let made = Segment::create("upbeat-exports", words.saturating_mul(WORD), Writers::Owner)
        .and_then(Segment::reserve);
    let own = match made {
        Ok(segment) => OwnSegment::Shared(segment),
        Err(error) if error.is_refused() => match Region::try_heap(words) {
            Some(region) => OwnSegment::Heap(region),
            None => return Err(ExportError::Memory { text: error.to_string().into() }),
        },
        Err(error) => return Err(ExportError::Memory { text: error.to_string().into() }),
    };
    own.region().publish(0, IN_USE);
    Ok(Arc::new(own))
}

/// The segments of a node's exports.
#[derive(Default)]
pub(super) struct Segments {
    /// The rooms for each list of readers, who map whole segments.
    lists: RefCell<BTreeMap<Readers, Rooms<Arc<OwnSegment>>>>,
    /// The exports, by their numbers.
    lodgers: RefCell<BTreeMap<u32, Weak<dyn Lodger>>>,
}

impl Segments {
    /// Takes room for a value of so many words, in a segment of its readers or in a new one. The words are zero.
    pub(super) fn take(
        self: &Rc<Self>,
        wanted: Location,
        readers: &Readers,
    ) -> Result<(Lodging, Location), ExportError> {
        let words = wanted.room().unwrap_or_else(|| unreachable!("the directory bounds a value"));
        let mut lists = self.lists.borrow_mut();
        let thrift = if readers.are_all() { FOR_EVERYBODY } else { FOR_NAMED };
        let rooms = lists.entry(readers.clone()).or_insert_with(|| Rooms::new(thrift));
        let found = rooms.take(words).map(|(room, own)| (room, Arc::clone(own)));
        let (room, own) = match found {
            Some(found) => found,
            None => {
                // Where there is not so much memory, the room alone may still have its place.
                let segment = create(rooms.wanted(words));
                let segment = match segment.or_else(|_| create(Rooms::<()>::needed(words))) {
                    Ok(segment) => segment,
                    Err(error) => {
                        lists.retain(|_, rooms| rooms.held() > 0);
                        return Err(error);
                    }
                };
                rooms.add(segment.region().words(), segment);
                let found = rooms.take(words).map(|(room, own)| (room, Arc::clone(own)));
                found.unwrap_or_else(|| unreachable!("the segment was made for it"))
            }
        };
        drop(lists);
        (room.first..room.first + room.used).for_each(|at| own.region().store(at, 0));
        let segments = Rc::clone(self);
        let location = Location { head: room.first, ..wanted };
        let readers = readers.clone();
        Ok((Lodging { segments, readers, room, own, is_lent: Cell::new(false) }, location))
    }

    /// Lets an export be moved from now on, until [`leave`](Self::leave).
    pub(super) fn enter(&self, number: u32, lodger: Weak<dyn Lodger>) {
        self.lodgers.borrow_mut().insert(number, lodger);
    }

    /// An export of this number is no more.
    pub(super) fn leave(&self, number: u32) {
        self.lodgers.borrow_mut().remove(&number);
    }

    /// Gives up segments if there are too many for the exports of these readers, and moves the few that lie there.
    pub(super) fn settle(&self, readers: &Readers) {
        if !self.lists.borrow().get(readers).is_some_and(Rooms::is_sparse) {
            return;
        }
        self.change(readers, |rooms| {
            while let Some(segment) = rooms.give_up_empty() {
                give_up(&segment);
            }
        });
        let Some(words) = self.change(readers, Rooms::begin_moves).flatten() else { return };
        let Ok(segment) = create(words) else {
            self.change(readers, Rooms::cancel_moves);
            return;
        };
        self.change(readers, |rooms| rooms.add(segment.region().words(), segment));
        let lodgers: Vec<_> = self.lodgers.borrow().values().filter_map(Weak::upgrade).collect();
        for lodger in lodgers.into_iter().filter(|lodger| lodger.readers() == readers) {
            let moves = self.change(readers, |rooms| rooms.moves(lodger.room()));
            // Room was made for it.
            if moves == Some(true) && lodger.move_elsewhere().is_err() {
                break;
            }
        }
    }

    fn change<R>(
        &self,
        readers: &Readers,
        change: impl FnOnce(&mut Rooms<Arc<OwnSegment>>) -> R,
    ) -> Option<R> {
        self.lists.borrow_mut().get_mut(readers).map(change)
    }

    /// Returns the memory that all exports have.
    pub(super) fn memory(&self) -> ExportMemory {
        let lists = self.lists.borrow();
        let sum = |of: fn(&Rooms<Arc<OwnSegment>>) -> usize| lists.values().map(of).sum::<usize>();
        ExportMemory {
            live: sum(Rooms::taken) * WORD,
            held: sum(Rooms::held) * WORD,
            segments: sum(|rooms| rooms.segments().len()),
        }
    }

    /// Tells the readers that have mapped the segments that the node answers nothing any more.
    pub(super) fn shut_down(&self) {
        let lists = self.lists.borrow();
        let segments = lists.values().flat_map(Rooms::segments);
        segments.for_each(|segment| segment.region().publish(0, SHUT_DOWN));
    }
}
