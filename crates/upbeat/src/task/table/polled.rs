//! A task that is being polled, and that is not in its entry meanwhile.

use super::{POLLED, Place, TaskSlot, Tasks, Vacant};
use crate::contain;
use crate::task::{Cancelled, Done};
use crate::wake::{self, TaskId};
use std::cell::Cell;
use std::mem::forget;

/// A task that is being polled. Dropping this, for example in a panic, puts the task back into its entry.
pub(crate) struct Polled<'t> {
    pub(super) place: &'t Cell<Place>,
    pub(super) live: Option<TaskSlot>,
}

impl Polled<'_> {
    /// Returns the future to be polled, and the data of its wakers.
    #[inline(always)]
    pub(crate) fn live(&mut self) -> Option<&mut TaskSlot> {
        self.live.as_mut()
    }

    /// Puts the task back, because it waits.
    #[inline(always)]
    pub(crate) fn waits(mut self, tasks: &Tasks, id: TaskId) {
        if tasks.asked.get() {
            return self.waits_or_ends(tasks, id);
        }
        if let Some(live) = self.live.take() {
            // The replaced entry was vacant, and needs no drop.
            forget(self.place.replace(Place::Waits(live)));
            forget(self);
        }
    }

    /// Puts the task back or ends it, because its end may have been asked for while it was polled.
    #[cold]
    #[inline(never)]
    fn waits_or_ends(mut self, tasks: &Tasks, id: TaskId) {
        tasks.asked.set(false);
        if let Some(why) = self.put_back() {
            tasks.end(id, why);
        }
    }

    /// Puts the task back. Returns the reason why it is to be ended, if there is one.
    pub(super) fn put_back(&mut self) -> Option<Cancelled> {
        let live = self.live.take()?;
        let was = self.place.replace(Place::Vacant(0, POLLED));
        let mut why = None;
        if let Place::Vacant(_, Vacant::Polled { ends, alone }) = was {
            why = ends;
            if alone {
                live.wakeup.leave_alone();
            }
        }
        self.place.set(Place::Waits(live));
        why
    }

    /// Handles the end of a task that is done.
    #[inline(never)]
    pub(crate) fn done(mut self, what: Done, tasks: &Tasks, id: TaskId) {
        let Some(live) = self.live.take() else { return };
        let place = self.place;
        forget(self);
        tasks.live.set(tasks.live.get() - 1);
        match what {
            Done::Handler => {
                let (TaskSlot { task, wakeup }, next) = (live, wake::next(id));
                // The replaced entry was vacant, and needs no drop. It stays reserved for the slot.
                forget(place.replace(Place::Vacant(wake::place(next).generation, POLLED)));
                task.done(wakeup, next);
            }
            Done::Spawned => Polled::spawned_done(place, live, tasks, id),
        }
    }

    /// Handles the end of a task that the application has spawned.
    #[inline(never)]
    fn spawned_done(place: &Cell<Place>, live: TaskSlot, tasks: &Tasks, id: TaskId) {
        let was = place.replace(Place::Vacant(0, POLLED));
        let alone = matches!(was, Place::Vacant(_, Vacant::Polled { alone: true, .. }));
        place.set(was);
        if !alone && !live.wakeup.is_alone() {
            // The outcome stays in the entry until the task is joined.
            place.set(Place::Waits(live));
            let joiner = tasks.block(id).and_then(|block| block.joiner(id));
            return joiner.into_iter().for_each(contain::wake);
        }
        tasks.free(place, id);
        tasks.keep(live);
    }

    /// Removes the task, and drops it.
    pub(super) fn abandon(mut self, tasks: &Tasks, id: TaskId) {
        let Some(live) = self.live.take() else { return };
        tasks.live.set(tasks.live.get() - 1);
        tasks.free(self.place, id);
        contain::contain(|| drop(live));
    }

    /// Ends a task that the application has spawned and that has panicked.
    pub(super) fn panicked(mut self, tasks: &Tasks, id: TaskId, text: &str) {
        let spawned = self.live.as_mut().and_then(|live| live.task.as_mut().spawned());
        let Some(spawned) = spawned else { return };
        contain::contain(|| spawned.panicked(text));
        self.done(Done::Spawned, tasks, id);
    }

    /// Ends the task before it is done.
    pub(super) fn cancel(mut self, tasks: &Tasks, id: TaskId, why: Cancelled) {
        let Some(live) = &mut self.live else { return };
        contain::contain(|| live.task.as_mut().cancel(why));
        let is_spawned = live.task.as_mut().spawned().is_some();
        self.done(if is_spawned { Done::Spawned } else { Done::Handler }, tasks, id);
    }
}

impl Drop for Polled<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.live.is_some() {
            // A noted request does not matter, because the task has panicked and is ended.
            self.put_back();
        }
    }
}
