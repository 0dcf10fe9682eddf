//! The table of a node's tasks.
//!
//! Entries come in blocks that never move, so that a node that grows to a million tasks copies none, and uses little
//! more memory than its tasks fill. Invariant: the holder of a task that is being polled puts the task back or ends
//! it; requests to the task meanwhile are noted in its entry.

mod polled;

use super::slots::{Spares, TaskSlot};
use super::{Caller, Cancelled};
use crate::contain::contain;
use crate::drives::Drives;
use crate::wake::{self, NO_TASK, Priority, TaskId};
use std::cell::{Cell, OnceCell, RefCell};
use std::mem::forget;
use std::rc::Rc;
use std::task::Waker;
use upbeat_memory::pool::Key;

pub(crate) use polled::Polled;

/// The most tasks that a node may have.
pub(crate) const TASKS_MAX: u32 = 1 << 20;

/// The entries in a block, the blocks in a shelf, and the shelves.
const BLOCK: usize = 128;
const SHELF: usize = 256;
const SHELVES: usize = 128;
const PLACES_MAX: usize = BLOCK * SHELF * SHELVES;
/// The end of the list of free entries.
const NONE: u32 = u32::MAX;

/// The entry of a task while it waits, or has ended and was not joined yet.
enum Place {
    Waits(TaskSlot),
    /// An entry without a task. The generation is that of the task that is being polled, or of the next one.
    Vacant(u32, Vacant),
}

#[derive(Clone, Copy)]
enum Vacant {
    Free {
        next: u32,
    },
    /// The task of the entry is being polled.
    Polled {
        ends: Option<Cancelled>,
        alone: bool,
    },
}

const POLLED: Vacant = Vacant::Polled { ends: None, alone: false };

const _: () = assert!(size_of::<Place>() == 24);
const _: () = assert!(TASKS_MAX as usize <= PLACES_MAX && PLACES_MAX <= wake::PLACES_MAX as usize);

impl Place {
    /// Returns whether the entry belongs to this task.
    #[inline]
    fn is_of(&self, id: TaskId) -> bool {
        match self {
            Place::Waits(live) => live.wakeup.is_of(id),
            Place::Vacant(generation, Vacant::Polled { .. }) => {
                *generation == wake::place(id).generation
            }
            Place::Vacant(_, Vacant::Free { .. }) => false,
        }
    }
}

struct Block {
    places: [Cell<Place>; BLOCK],
    /// The wakers of tasks that join these, if there are any.
    joiners: RefCell<Option<Box<[Option<Waker>; BLOCK]>>>,
}

impl Block {
    /// Returns a block of free entries, whose numbers begin here.
    fn new(begin: usize) -> Block {
        let free = |at: usize| {
            let next = if at + 1 == BLOCK { NONE } else { (begin + at + 1) as u32 };
            Cell::new(Place::Vacant(1, Vacant::Free { next }))
        };
        Block { places: std::array::from_fn(free), joiners: RefCell::new(None) }
    }

    #[inline]
    fn place(&self, id: TaskId) -> &Cell<Place> {
        &self.places[wake::place(id).index as usize % BLOCK]
    }

    /// Runs `with` on the entry of a task, if there is one. No code of the application runs meanwhile.
    fn with<R>(&self, id: TaskId, with: impl FnOnce(&mut Place) -> R) -> Option<R> {
        let cell = self.place(id);
        let mut place = cell.replace(Place::Vacant(0, POLLED));
        let result = place.is_of(id).then(|| with(&mut place));
        cell.set(place);
        result
    }

    /// Takes the waker of a task's joiner.
    fn joiner(&self, id: TaskId) -> Option<Waker> {
        let index = wake::place(id).index as usize;
        self.joiners.borrow_mut().as_mut()?[index % BLOCK].take()
    }

    /// Stores the waker for the end of a task.
    fn join(&self, id: TaskId, waker: &Waker) {
        // A waker of another executor may run code of the application when it is cloned or dropped.
        let waker = waker.clone();
        let mut joiners = self.joiners.borrow_mut();
        let joiner = &mut joiners.get_or_insert_with(|| Box::new([const { None }; BLOCK]))
            [wake::place(id).index as usize % BLOCK];
        let before = joiner.replace(waker);
        drop(joiners);
        drop(before);
    }
}

type Shelf = Box<[OnceCell<Box<Block>>; SHELF]>;

/// The tasks of a node.
pub(crate) struct Tasks {
    /// The first block, which is enough for most nodes, and the blocks behind it.
    first: Block,
    shelves: [OnceCell<Shelf>; SHELVES],
    /// The number of blocks.
    blocks: Cell<usize>,
    free: Cell<u32>,
    /// The number of tasks that have not ended.
    live: Cell<u32>,
    /// Whether a request to the task that is being polled is noted in its entry.
    asked: Cell<bool>,
    pub(super) spares: Spares,
    /// Whether the node is driven.
    drives: Rc<Drives>,
}

impl Tasks {
    pub(crate) fn new(drives: Rc<Drives>) -> Rc<Tasks> {
        Rc::new(Tasks {
            first: Block::new(0),
            shelves: [const { OnceCell::new() }; SHELVES],
            blocks: Cell::new(1),
            free: Cell::new(0),
            live: Cell::new(0),
            asked: Cell::new(false),
            spares: Spares::default(),
            drives,
        })
    }

    #[inline(always)]
    fn block(&self, id: TaskId) -> Option<&Block> {
        match wake::is_below(id, BLOCK as u32) {
            true => Some(&self.first),
            false => self.block_beyond(id),
        }
    }

    #[inline(never)]
    fn block_beyond(&self, id: TaskId) -> Option<&Block> {
        let number = wake::place(id).index as usize / BLOCK;
        self.shelves.get(number / SHELF)?.get()?[number % SHELF].get().map(|block| &**block)
    }

    /// Adds a block of free entries. Returns None if there are too many.
    fn grow(&self) -> Option<()> {
        let number = self.blocks.get();
        let shelf = self.shelves.get(number / SHELF)?;
        let shelf = shelf.get_or_init(|| Box::new([const { OnceCell::new() }; SHELF]));
        shelf[number % SHELF].get_or_init(|| Box::new(Block::new(number * BLOCK)));
        self.blocks.set(number + 1);
        self.free.set((number * BLOCK) as u32);
        Some(())
    }

    fn with<R>(&self, id: TaskId, with: impl FnOnce(&mut Place) -> R) -> Option<R> {
        self.block(id)?.with(id, with)
    }

    /// Returns all entries.
    fn places(&self) -> impl Iterator<Item = &Cell<Place>> {
        let shelves = self.shelves.iter().filter_map(OnceCell::get);
        let blocks = shelves.flat_map(|shelf| shelf.iter()).filter_map(OnceCell::get);
        let blocks = std::iter::once(&self.first).chain(blocks.map(|block| &**block));
        blocks.flat_map(|block| &block.places)
    }

    /// Adds a task that is ready. Returns the task if there are too many.
    pub(crate) fn insert_ready(
        &self,
        live: TaskSlot,
        priority: Priority,
    ) -> Result<TaskId, TaskSlot> {
        let place = if self.is_full() { None } else { self.take_place(priority) };
        let Some((block, id)) = place else { return Err(live) };
        live.wakeup.name_ready(id);
        self.enter(block, id, live);
        Ok(id)
    }

    /// Reserves an entry for the handlers of a slot. The first handler that becomes a task has the returned identity.
    /// Returns None if all entries are taken.
    pub(super) fn reserve(&self) -> Option<TaskId> {
        self.take_place(Priority::Normal).map(|(_, id)| id)
    }

    /// Adds a handler that has become the task of its entry, and wakes it if it was woken before.
    #[inline(always)]
    pub(crate) fn fill(&self, id: TaskId, live: TaskSlot) {
        live.wakeup.name(id);
        if let Some(block) = self.block(id) {
            self.enter(block, id, live);
        }
    }

    /// Frees the entry of this task or the next one, which was reserved.
    pub(super) fn release(&self, id: TaskId) {
        if let Some(block) = self.block(id) {
            self.free(block.place(id), id);
        }
    }

    #[inline(always)]
    fn enter(&self, block: &Block, id: TaskId, live: TaskSlot) {
        self.live.set(self.live.get() + 1);
        // The replaced entry was vacant, and needs no drop.
        forget(block.place(id).replace(Place::Waits(live)));
    }

    /// Takes a free entry, for a task with the returned identity. Returns None if all are taken.
    fn take_place(&self, priority: Priority) -> Option<(&Block, TaskId)> {
        if self.free.get() == NONE {
            self.grow()?;
        }
        let index = self.free.get();
        let block = self.block(u64::from(index))?;
        let place = block.place(u64::from(index));
        let Place::Vacant(generation, Vacant::Free { next }) =
            place.replace(Place::Vacant(0, POLLED))
        else {
            unreachable!("an entry on the free list is free")
        };
        forget(place.replace(Place::Vacant(generation, POLLED)));
        self.free.set(next);
        Some((block, wake::name(Key { index, generation }, priority)))
    }

    /// Frees a task's entry, and returns its task.
    fn free(&self, place: &Cell<Place>, id: TaskId) -> Option<TaskSlot> {
        let key = wake::place(id);
        let generation = key.generation.checked_add(1).unwrap_or(1);
        let was = place.replace(Place::Vacant(generation, Vacant::Free { next: self.free.get() }));
        if !was.is_of(id) {
            place.set(was);
            return None;
        }
        self.free.set(key.index);
        match was {
            Place::Waits(live) => Some(live),
            Place::Vacant(..) => None,
        }
    }

    /// Returns whether the node has as many tasks as it may have.
    pub(crate) fn is_full(&self) -> bool {
        self.live.get() == TASKS_MAX
    }

    /// Returns the number of tasks that have not ended.
    pub(crate) fn len(&self) -> usize {
        self.live.get() as usize
    }

    /// Returns whether a task is in the table: it has not ended, or was not joined yet.
    pub(crate) fn has(&self, id: TaskId) -> bool {
        self.with(id, |_| ()).is_some()
    }

    /// Returns whether a task is a handler that waits.
    pub(crate) fn is_handler(&self, id: TaskId) -> bool {
        let is_handler = |place: &mut Place| match place {
            Place::Waits(live) => live.task.as_mut().spawned().is_none(),
            Place::Vacant(..) => false,
        };
        self.with(id, is_handler).unwrap_or(false)
    }

    /// Takes a task out to be polled. Returns None if it is gone, or is being polled.
    #[inline(always)]
    pub(crate) fn begin(&self, id: TaskId) -> Option<Polled<'_>> {
        let place = self.block(id)?.place(id);
        match place.replace(Place::Vacant(wake::place(id).generation, POLLED)) {
            Place::Waits(live) if live.wakeup.is_of(id) => Some(Polled { place, live: Some(live) }),
            other => {
                place.set(other);
                None
            }
        }
    }

    /// Ends a task now or, if it is being polled, at its next wait. Returns false if it has ended.
    pub(crate) fn end(&self, id: TaskId, why: Cancelled) -> bool {
        let noted = self.with(id, |place| match place {
            Place::Vacant(_, Vacant::Polled { ends, .. }) => {
                *ends = Some(why);
                true
            }
            _ => false,
        });
        if noted == Some(true) {
            self.asked.set(true);
            return true;
        }
        let Some(mut polled) = self.begin(id) else { return false };
        if polled.live().is_none_or(|live| live.is_ended()) {
            return false;
        }
        // A task that goes on is put back when `polled` is dropped.
        if !polled.live().is_some_and(|live| live.task.as_mut().outlives(why)) {
            polled.cancel(self, id, why);
        }
        true
    }

    /// Returns the handlers of this session's one-way messages, without one that is being polled.
    pub(crate) fn oneways_of(&self, session: Key) -> Vec<TaskId> {
        let mut found = Vec::new();
        for place in self.places() {
            let was = place.replace(Place::Vacant(0, POLLED));
            if let Place::Waits(live) = &was
                && let Some(caller) = live.task.caller()
                && caller.session == Some(session)
                && caller.call.is_none()
            {
                found.push(live.wakeup.task());
            }
            place.set(was);
        }
        found
    }

    /// Returns whether a handler waits.
    pub(crate) fn has_handler(&self) -> bool {
        self.places().any(|place| {
            let was = place.replace(Place::Vacant(0, POLLED));
            let is_handler = matches!(&was, Place::Waits(live) if live.task.is_handler());
            place.set(was);
            is_handler
        })
    }

    /// Ends all tasks.
    pub(crate) fn end_all(&self, why: Cancelled) {
        for place in self.places() {
            let mut was = place.replace(Place::Vacant(0, POLLED));
            let id = match &mut was {
                Place::Waits(live) => live.wakeup.task(),
                Place::Vacant(_, Vacant::Polled { ends, .. }) => {
                    *ends = Some(why);
                    self.asked.set(true);
                    NO_TASK
                }
                Place::Vacant(_, Vacant::Free { .. }) => NO_TASK,
            };
            place.set(was);
            self.end(id, why);
        }
    }

    /// Removes a task, and drops it.
    pub(crate) fn abandon(&self, id: TaskId) {
        if let Some(polled) = self.begin(id) {
            polled.abandon(self, id);
        }
    }

    /// Ends a task that has panicked with this message. Returns its caller.
    pub(crate) fn end_panicked(&self, id: TaskId, text: &str) -> Option<Caller> {
        let mut polled = self.begin(id)?;
        let live = polled.live()?;
        let caller = live.task.caller();
        if live.task.as_mut().spawned().is_some() {
            polled.panicked(self, id, text);
        } else {
            polled.abandon(self, id);
        }
        caller
    }

    /// Takes the outcome of a task that has ended out of it by `take`, or stores the waker that is woken when the
    /// task ends.
    pub(super) fn join(&self, id: TaskId, waker: &Waker, take: impl FnOnce(&mut TaskSlot)) -> bool {
        let Some(block) = self.block(id) else { return true };
        let ended = block.with(id, |place| match place {
            Place::Waits(live) if live.is_ended() => {
                take(live);
                true
            }
            _ => false,
        });
        if ended == Some(false) {
            block.join(id, waker);
            self.drives.is_awaited(waker);
            return false;
        }
        self.free(block.place(id), id).into_iter().for_each(|live| self.keep(live));
        true
    }

    /// Notes that nobody waits for the end of a task any more.
    pub(super) fn leave_alone(&self, id: TaskId) {
        let Some(block) = self.block(id) else { return };
        let ended = block.with(id, |place| match place {
            Place::Waits(live) => {
                live.wakeup.leave_alone();
                live.is_ended()
            }
            Place::Vacant(_, Vacant::Polled { alone, .. }) => {
                *alone = true;
                self.asked.set(true);
                false
            }
            Place::Vacant(_, Vacant::Free { .. }) => false,
        });
        drop(block.joiner(id));
        if ended == Some(true) {
            self.free(block.place(id), id).into_iter().for_each(|live| self.keep(live));
        }
    }

    /// Keeps the slot of a task that has ended. An outcome that was not taken is dropped.
    fn keep(&self, live: TaskSlot) {
        contain(|| self.spares.keep(live));
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for place in self.places() {
            let was = place.replace(Place::Vacant(0, POLLED));
            contain(|| drop(was));
        }
    }
}

impl TaskSlot {
    /// Returns whether this is a task that has ended and was not joined.
    fn is_ended(&self) -> bool {
        self.task.has_ended()
    }
}
