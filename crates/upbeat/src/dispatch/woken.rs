//! Tasks: how they start, in what order they are polled, and how they are ended.
//!
//! A turn polls a few of those that are ready and then looks at the lanes again, however many there
//! are. Invariant: as long as a task is ready the roster says so, and the node does not sleep.

use super::{Cause, Current, Dispatcher, Main, NOBODY};
use crate::task::{Began, Cancelled, JoinHandle};
use crate::wake::{MAIN, Priority, Start, TaskId};
use std::future::Future;
use std::rc::Rc;
use std::task::Context;
use upbeat_core::bill::Counter;

/// The most tasks that are polled between two looks at the lanes.
const POLLS_PER_TURN: usize = 32;

impl Dispatcher {
    /// Runs a future of the application's as a task.
    pub(crate) fn spawn<F: Future + 'static>(
        &self,
        future: F,
        start: Start,
    ) -> JoinHandle<F::Output> {
        let Start { priority, first } = start;
        let Some((id, began)) = self.tasks.spawn(future, priority, &self.roster) else {
            self.count(Counter::TasksRefused);
            return JoinHandle::new(&self.tasks, None);
        };
        self.count(match began {
            Began::InKeptSlot => Counter::TasksInKeptSlots,
            Began::InNewSlot => Counter::TasksInNewSlots,
        });
        let mut ready = self.ready.borrow_mut();
        if first {
            ready.push_first(id)
        } else {
            ready.push(id)
        }
        self.roster.keep(priority);
        JoinHandle::new(&self.tasks, Some(id))
    }

    /// Polls a task once.
    #[inline(always)]
    pub(super) fn run(self: &Rc<Self>, id: TaskId, cause: Cause) {
        let Some(mut polled) = self.tasks.begin(id) else { return };
        let Some(live) = polled.live() else { return };
        if cause == Cause::Ready {
            live.wakeup.begin_poll();
        }
        self.polls();
        let task = live.task.as_mut();
        let done = live.wakeup.lend(|waker| {
            self.current.set(Current { task: id, waker: waker.data() });
            task.poll(&mut Context::from_waker(waker)).is_ready()
        });
        self.current.set(NOBODY);
        self.unflushed.set(true);
        if !done {
            return polled.waits(&self.tasks, id);
        }
        polled.done(&self.tasks, id);
        self.press_if_freed();
    }

    /// Polls tasks that are ready: what has come as a task at once, and a few of the others.
    #[inline(never)]
    pub(super) fn run_woken(self: &Rc<Self>, main: Main<'_>) {
        self.unflushed.set(true);
        if self.polled.was_late() {
            self.look_between(main);
        }
        self.gather();
        let mut left = self.ready.borrow().len().min(POLLS_PER_TURN);
        while let Some(id) = self.next_ready(&mut left) {
            if id == MAIN {
                main(Cause::Ready)
            } else {
                self.run(id, Cause::Ready)
            }
            if self.polled.was_late() {
                self.look_between(main);
            }
            if self.roster.any_above(Priority::of(id)) {
                self.gather();
            }
        }
        self.keep_ready();
        self.contract.others_wait(false);
        self.sampling.drained();
        // A task may have given back what a peer waits for.
        self.relieve_all();
    }

    /// The task that is to be polled next, of those of this turn.
    fn next_ready(&self, left: &mut usize) -> Option<TaskId> {
        let (mut front, mut ready) = (self.front.borrow_mut(), self.ready.borrow_mut());
        let next = front.pop_front().or_else(|| {
            *left = left.checked_sub(1)?;
            ready.next()
        });
        self.contract.others_wait(front.len() + ready.len() != 0);
        next
    }

    /// Looks at the lanes before a task is run, behind whoever has used up his time.
    #[cold]
    #[inline(never)]
    fn look_between(self: &Rc<Self>, main: Main<'_>) {
        let hot = self.hot.hold();
        for session in hot.iter() {
            self.drain(session, main);
        }
        let hot = self.hot.hold_again(hot);
        if self.unflushed.get() {
            self.flush(&hot);
        }
    }

    /// Puts those that were woken behind those that are ready.
    fn gather(&self) {
        let mut ready = self.ready.borrow_mut();
        self.roster.take(|id| ready.push(id));
    }

    /// Says whether tasks are ready that this turn has not polled, also where it panicked.
    pub(super) fn keep_ready(&self) {
        let in_front = (!self.front.borrow().is_empty()).then_some(Priority::Normal);
        if let Some(priority) = self.ready.borrow().top().max(in_front) {
            self.roster.keep(priority);
        }
    }

    /// Ends a task. False if it has ended.
    pub(super) fn cancel(&self, task: TaskId, why: Cancelled) -> bool {
        let any = self.tasks.end(task, why);
        if any {
            self.pressed.set(true);
            self.unflushed.set(true);
        }
        any
    }
}
