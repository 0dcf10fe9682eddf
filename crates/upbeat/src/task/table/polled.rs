//! A task that is being polled, which is in nobody's place meanwhile.

use super::{Live, POLLED, Place, Tasks, Vacant};
use crate::contain::contain;
use crate::task::{Cancelled, Done};
use crate::wake::{self, TaskId};
use std::cell::Cell;
use std::mem::forget;
use std::task::Waker;

/// A task that is being polled. Dropped, as by a panic, it is in its place again.
pub(crate) struct Polled<'t> {
    pub(super) place: &'t Cell<Place>,
    pub(super) live: Option<Live>,
}

impl Polled<'_> {
    /// What is to be polled, and what wakes it.
    #[inline(always)]
    pub(crate) fn live(&mut self) -> Option<&mut Live> {
        self.live.as_mut()
    }

    /// It waits on.
    #[inline(always)]
    pub(crate) fn waits(mut self, tasks: &Tasks, id: TaskId) {
        if tasks.asked.get() {
            return self.waits_or_ends(tasks, id);
        }
        if let Some(live) = self.live.take() {
            // What was there is a note that says nothing.
            forget(self.place.replace(Place::Waits(live)));
            forget(self);
        }
    }

    /// Something may have been asked of it while it was polled.
    #[cold]
    #[inline(never)]
    fn waits_or_ends(mut self, tasks: &Tasks, id: TaskId) {
        tasks.asked.set(false);
        if let Some(why) = self.put_back() {
            tasks.end(id, why);
        }
    }

    /// Puts it back. Gives why it is to be ended, if it is.
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

    /// It is done.
    #[inline(never)]
    pub(crate) fn done(mut self, what: Done, tasks: &Tasks, id: TaskId) {
        let Some(live) = self.live.take() else { return };
        let place = self.place;
        forget(self);
        tasks.live.set(tasks.live.get() - 1);
        match what {
            Done::Handler => {
                let (Live { task, wakeup }, next) = (live, wake::next(id));
                // What was there is a note that says nothing. The place stays the slot's.
                forget(place.replace(Place::Vacant(wake::place(next).generation, POLLED)));
                task.done(wakeup, next);
            }
            Done::Spawned => Polled::spawned_done(place, live, tasks, id),
        }
    }

    /// A task that the application has spawned is done.
    #[inline(never)]
    fn spawned_done(place: &Cell<Place>, live: Live, tasks: &Tasks, id: TaskId) {
        let was = place.replace(Place::Vacant(0, POLLED));
        let alone = matches!(was, Place::Vacant(_, Vacant::Polled { alone: true, .. }));
        place.set(was);
        if !alone && !live.wakeup.is_alone() {
            // Its outcome lies there until it is joined.
            place.set(Place::Waits(live));
            let joiner = tasks.block(id).and_then(|block| block.joiner(id));
            return joiner.into_iter().for_each(Waker::wake);
        }
        tasks.free(place, id);
        tasks.keep(live);
    }

    /// It is forgotten, and dropped.
    pub(super) fn abandon(mut self, tasks: &Tasks, id: TaskId) {
        let Some(live) = self.live.take() else { return };
        tasks.live.set(tasks.live.get() - 1);
        tasks.free(self.place, id);
        contain(|| drop(live));
    }

    /// It is ended before it is done.
    pub(super) fn cancel(mut self, tasks: &Tasks, id: TaskId, why: Cancelled) {
        let Some(live) = &mut self.live else { return };
        contain(|| live.task.as_mut().cancel(why));
        let is_spawned = live.task.as_mut().spawned().is_some();
        self.done(if is_spawned { Done::Spawned } else { Done::Handler }, tasks, id);
    }
}

impl Drop for Polled<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.live.is_some() {
            // What was asked of it meanwhile is no matter: it is ended, for it has panicked.
            self.put_back();
        }
    }
}
