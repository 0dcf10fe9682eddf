//! Tasks: how they start, in what order they are polled, and how they are ended.
//!
//! A turn polls a few of those that are ready and then looks at the lanes again, however many there
//! are. Invariant: as long as a task is ready the roster says so, and the node does not sleep.

use super::bounds::Within;
use super::who::Handlers;
use super::{Cause, Dispatcher, Main};
use crate::task::{Began, Cancelled, JoinHandle, Tasks};
use crate::wake::{Current, MAIN, Priority, Ready, Start, TaskId, WakeQueue};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use upbeat_core::bill::Counter;

/// The most tasks that are polled between two looks at the lanes.
const POLLS_PER_TURN: usize = 32;

/// The work of a node: tasks, handlers, and their wake-ups.
pub(super) struct Work {
    pub(super) tasks: Rc<Tasks>,
    pub(super) handlers: Handlers,
    pub(super) roster: Arc<WakeQueue>,
    pub(super) ready: RefCell<Ready>,
    /// Requests that were made tasks at once and come before those that were woken.
    pub(super) front: RefCell<VecDeque<TaskId>>,
}

impl Work {
    /// Makes the work of a node that has none yet. Wakes go to `roster`.
    pub(super) fn new(tasks: Rc<Tasks>, roster: Arc<WakeQueue>) -> Work {
        let (ready, front) = (RefCell::default(), RefCell::default());
        Work { tasks, handlers: Handlers::default(), roster, ready, front }
    }
}

impl Dispatcher {
    /// Runs a future of the application's as a task. It has the context of the handler or task that spawns it.
    pub(crate) fn spawn<F: Future + 'static>(
        &self,
        future: F,
        start: Start,
    ) -> JoinHandle<F::Output> {
        match self.inherited_context() {
            None => self.spawn_plain(future, start),
            Some(context) => self.spawn_plain(Within { future: Box::pin(future), context }, start),
        }
    }

    /// Runs a future as a task that has no context.
    pub(super) fn spawn_plain<F: Future + 'static>(
        &self,
        future: F,
        start: Start,
    ) -> JoinHandle<F::Output> {
        let Start { priority, first } = start;
        let Some((id, began)) = self.work.tasks.spawn(future, priority, &self.work.roster) else {
            self.count(Counter::TasksRefused);
            return JoinHandle::new(&self.work.tasks, None);
        };
        self.count(match began {
            Began::InKeptSlot => Counter::TasksInKeptSlots,
            Began::InNewSlot => Counter::TasksInNewSlots,
        });
        let mut ready = self.work.ready.borrow_mut();
        if first {
            ready.push_first(id)
        } else {
            ready.push(id)
        }
        self.work.roster.keep(priority);
        drop(ready);
        self.has_work_from_outside();
        JoinHandle::new(&self.work.tasks, Some(id))
    }

    /// Polls a task once.
    #[inline(always)]
    pub(super) fn run(self: &Rc<Self>, id: TaskId, cause: Cause) {
        let Some(mut polled) = self.work.tasks.begin(id) else { return };
        let Some(live) = polled.live() else { return };
        if cause == Cause::Ready {
            live.wakeup.begin_poll();
        }
        self.polls();
        let task = live.task.as_mut();
        let done = live.wakeup.lend(|waker| {
            self.run.current.begin(Current { task: id, waker: waker.data() });
            task.poll(&mut Context::from_waker(waker))
        });
        self.run.current.end();
        self.unflushed.sent();
        let Poll::Ready(what) = done else {
            return polled.waits(&self.work.tasks, id);
        };
        polled.done(what, &self.work.tasks, id);
        self.press_if_freed();
    }

    /// Polls tasks that are ready: what has come as a task at once, and a few of the others.
    #[inline(never)]
    pub(super) fn run_woken(self: &Rc<Self>, main: Main<'_>) {
        self.unflushed.sent();
        if self.run.polled.was_late() {
            self.look_between(main);
        }
        self.gather();
        let mut left = self.work.ready.borrow().len().min(POLLS_PER_TURN);
        while let Some(id) = self.next_ready(&mut left) {
            self.watch.polls_woken();
            if self.watch.is_on() {
                self.run_timed(id, main)
            } else if id == MAIN {
                main(Cause::Ready)
            } else {
                self.run(id, Cause::Ready)
            }
            if self.run.polled.was_late() {
                self.look_between(main);
            }
            let _came = self.check_if_due();
            if self.work.roster.any_above(Priority::of(id)) {
                self.gather();
            }
        }
        self.keep_ready();
        self.contract.others_wait(false);
        self.account.sampling.drained();
        // A task may have given back what a peer waits for.
        self.relieve_all();
    }

    /// The task that is to be polled next, of those of this turn.
    fn next_ready(&self, left: &mut usize) -> Option<TaskId> {
        let (mut front, mut ready) = (self.work.front.borrow_mut(), self.work.ready.borrow_mut());
        let next = front.pop_front().or_else(|| {
            *left = left.checked_sub(1)?;
            ready.next()
        });
        self.contract.others_wait(front.len() + ready.len() != 0);
        next
    }

    /// Takes over what has come, over streams too, before the next task is polled: the task before it has used up
    /// its budget.
    #[cold]
    #[inline(never)]
    fn look_between(self: &Rc<Self>, main: Main<'_>) {
        self.pump_all();
        let hot = self.peers.hot.hold();
        for session in hot.iter() {
            self.drain(session, main);
            // Without this the next look would only send, and leave what has come until the look after it.
            session.carrier.was_read();
        }
        drop(hot);
        self.flush_all();
    }

    /// Puts those that were woken behind those that are ready.
    fn gather(&self) {
        let mut ready = self.work.ready.borrow_mut();
        self.work.roster.take(|id| ready.push(id));
    }

    /// Says whether tasks are ready that this turn has not polled, also where it panicked.
    pub(super) fn keep_ready(&self) {
        let in_front = (!self.work.front.borrow().is_empty()).then_some(Priority::Normal);
        if let Some(priority) = self.work.ready.borrow().top().max(in_front) {
            self.work.roster.keep(priority);
        }
    }

    /// Ends a task. False if it has ended.
    pub(super) fn cancel(&self, task: TaskId, why: Cancelled) -> bool {
        let any = self.work.tasks.end(task, why);
        if any {
            self.pressed.set(true);
            self.unflushed.sent();
        }
        any
    }
}
