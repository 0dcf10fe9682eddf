//! Children: tasks within a task, of which scopes are made.
//!
//! The children of a scope are polled within their parent's own poll, and only those that were woken: each has a
//! waker of its own, which adds it to the scope's board and wakes the parent. Activation records thus form a tree
//! with a thread of control in each leaf, a cactus stack. Others decide when the parent is polled. Invariant: a
//! child's future is dropped before, or with, the scope's own; a child that was woken is polled, or the parent was
//! woken.

use crate::contain::{self, contain};
use crate::wake::{self, MAIN, Priority, TaskId, WakeList, Wakeup};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use upbeat_environment::turns::{Mutex, MutexGuard};
use upbeat_memory::pool::Pool;
use upbeat_memory::stage::Stage;
use upbeat_memory::waker::WakeTarget;

/// The most children that are polled before other tasks have their turn.
const POLLS: usize = 32;

/// The list of children that were woken from any thread.
#[derive(Default)]
struct ChildWakeList {
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    woken: Vec<TaskId>,
    /// The parent's waker, while it waits.
    parent: Option<Waker>,
}

impl ChildWakeList {
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the parent, if it waits.
    fn wake_parent(&self) {
        let parent = self.list().parent.take();
        parent.into_iter().for_each(Waker::wake);
    }
}

impl WakeList for ChildWakeList {
    fn push(&self, task: TaskId) {
        self.list().woken.push(task);
        self.wake_parent();
    }

    fn push_timed(&self, task: TaskId) {
        self.push(task);
    }
}

/// A child, as its scope sees it.
trait Polled {
    fn wakeup(&self) -> &WakeTarget<Wakeup<ChildWakeList>>;

    fn poll(&self, context: &mut Context<'_>) -> Poll<()>;

    /// Drops the child's future.
    fn clear(&self);
}

/// A child, as the task that joins it sees it.
pub(super) trait Joined<T> {
    /// Returns its value, or None if there will be none. While it runs, stores the waker that is woken when it has ended.
    fn join(&self, context: &Context<'_>) -> Poll<Option<T>>;
}

struct Running<F, T, M> {
    stage: RefCell<Pin<Box<Stage<F, T>>>>,
    /// The function that handles the future's output: it keeps the value for the joiner, or does something else.
    becomes: Cell<Option<M>>,
    joiner: Cell<Option<Waker>>,
    wakeup: WakeTarget<Wakeup<ChildWakeList>>,
}

impl<F: Future, T, M: FnOnce(F::Output) -> Option<T>> Polled for Running<F, T, M> {
    fn wakeup(&self) -> &WakeTarget<Wakeup<ChildWakeList>> {
        &self.wakeup
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut stage = self.stage.borrow_mut();
        let Some(future) = stage.as_mut().future() else { return Poll::Ready(()) };
        let Poll::Ready(output) = future.poll(context) else { return Poll::Pending };
        match self.becomes.take().and_then(|becomes| becomes(output)) {
            Some(value) => stage.as_mut().end(value),
            None => stage.as_mut().clear(),
        }
        drop(stage);
        self.joiner.take().into_iter().for_each(Waker::wake);
        Poll::Ready(())
    }

    fn clear(&self) {
        let mut stage = self.stage.borrow_mut();
        if !stage.is_ended() {
            contain(|| stage.as_mut().clear());
        }
        drop(stage);
        self.joiner.take().into_iter().for_each(contain::wake);
    }
}

impl<F, T, M> Joined<T> for Running<F, T, M> {
    fn join(&self, context: &Context<'_>) -> Poll<Option<T>> {
        // A child that joins itself waits forever.
        if let Ok(mut stage) = self.stage.try_borrow_mut() {
            let value = stage.as_mut().take();
            if value.is_some() || stage.as_mut().future().is_none() {
                return Poll::Ready(value);
            }
        }
        self.joiner.set(Some(context.waker().clone()));
        Poll::Pending
    }
}

/// The handle of a child; None if the child was dropped with its scope.
pub(super) type Handle<'env, T> = Option<Rc<dyn Joined<T> + 'env>>;

/// The state that a scope and its handles share.
pub(super) struct Inner<'env> {
    board: Arc<ChildWakeList>,
    children: RefCell<Pool<Rc<dyn Polled + 'env>>>,
    /// The children to be polled; the body is [`MAIN`].
    ready: RefCell<VecDeque<TaskId>>,
    /// Whether the parent is being polled, so that it need not be woken.
    polled: Cell<bool>,
    /// Whether the scope has its result, or has ended, so that no child runs on.
    over: Cell<bool>,
}

impl<'env> Inner<'env> {
    pub(super) fn new() -> Rc<Inner<'env>> {
        Rc::new(Inner {
            board: Arc::default(),
            children: RefCell::new(Pool::new(wake::PLACES_MAX)),
            ready: RefCell::new(VecDeque::from([MAIN])),
            polled: Cell::new(false),
            over: Cell::new(false),
        })
    }

    /// Adds a child, unless the scope is over. `becomes` handles its output.
    pub(super) fn spawn<F, T, M>(&self, future: F, becomes: M) -> Handle<'env, T>
    where
        F: Future + 'env,
        T: 'env,
        M: FnOnce(F::Output) -> Option<T> + 'env,
    {
        // A scope that has ended has no room for children.
        let key = self.children.borrow().next_key()?;
        let id = wake::name(key, Priority::Normal);
        let child = Rc::new(Running {
            stage: RefCell::new(Box::pin(Stage::new(future))),
            becomes: Cell::new(Some(becomes)),
            joiner: Cell::new(None),
            wakeup: Wakeup::of(&self.board, id),
        });
        let polled: Rc<dyn Polled + 'env> = Rc::<Running<F, T, M>>::clone(&child);
        // There was a next key, so there is room.
        let _ = self.children.borrow_mut().insert(polled);
        self.ready.borrow_mut().push_back(id);
        if !self.polled.get() {
            self.board.wake_parent();
        }
        Some(child)
    }

    fn child(&self, id: TaskId) -> Option<Rc<dyn Polled + 'env>> {
        self.children.borrow().get(wake::place(id)).cloned()
    }

    /// Polls a child once.
    fn run(&self, id: TaskId) {
        let Some(child) = self.child(id) else { return };
        child.wakeup().begin_poll();
        let polled =
            child.wakeup().lend(|waker| child.poll(&mut Context::from_waker(waker)).is_ready());
        if polled {
            let ended = self.children.borrow_mut().remove(wake::place(id));
            drop(ended);
        }
    }

    /// Takes the child to be polled next.
    fn next(&self) -> Option<TaskId> {
        let mut ready = self.ready.borrow_mut();
        if ready.is_empty() {
            ready.extend(self.board.list().woken.drain(..));
        }
        ready.pop_front()
    }

    /// Stores the parent's waker when no child is left to be polled. Returns false if a child was woken already.
    fn may_wait(&self, context: &Context<'_>) -> bool {
        let waker = context.waker().clone();
        let mut list = self.board.list();
        let may_wait = list.woken.is_empty();
        let before = if may_wait { list.parent.replace(waker) } else { Some(waker) };
        drop(list);
        drop(before);
        may_wait
    }

    /// Returns whether there is no child.
    pub(super) fn is_empty(&self) -> bool {
        self.children.borrow().is_empty()
    }

    /// Ends the scope: no child runs on.
    pub(super) fn end(&self) {
        self.over.set(true);
    }

    /// Drops the futures of all children.
    fn close(&self) {
        self.over.set(true);
        let children = self.children.replace(Pool::new(0));
        children.iter().for_each(|(_, child)| child.clear());
    }
}

/// A scope that runs: its body, and its children.
pub(super) struct Run<'env, B: Future> {
    inner: Rc<Inner<'env>>,
    /// None once the body was dropped.
    body: Option<Pin<Box<B>>>,
    wakeup: WakeTarget<Wakeup<ChildWakeList>>,
    value: Option<B::Output>,
}

impl<'env, B: Future> Run<'env, B> {
    pub(super) fn new(inner: &Rc<Inner<'env>>, body: B) -> Run<'env, B> {
        let wakeup = Wakeup::of(&inner.board, MAIN);
        Run { inner: Rc::clone(inner), body: Some(Box::pin(body)), wakeup, value: None }
    }

    /// Polls the body, unless it is done.
    fn run_body(&mut self) {
        if self.value.is_some() {
            return;
        }
        let Run { body, wakeup, .. } = self;
        let Some(body) = body else { return };
        wakeup.begin_poll();
        let polled = wakeup.lend(|waker| body.as_mut().poll(&mut Context::from_waker(waker)));
        if let Poll::Ready(value) = polled {
            self.value = Some(value);
        }
    }
}

impl<B: Future> Unpin for Run<'_, B> {}

/// A guard that marks the parent as being polled.
struct WhilePolled<'a>(&'a Cell<bool>);

impl Drop for WhilePolled<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl<B: Future> Future for Run<'_, B> {
    /// The body's output; None if the scope was over before.
    type Output = Option<B::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let inner = Rc::clone(&self.inner);
        inner.polled.set(true);
        let _while_polled = WhilePolled(&inner.polled);
        for _ in 0..POLLS {
            let Some(id) = inner.next() else {
                if inner.may_wait(context) {
                    return Poll::Pending;
                }
                continue;
            };
            if id == MAIN {
                self.run_body()
            } else {
                inner.run(id)
            }
            let done = self.value.is_some() && inner.is_empty();
            if done || inner.over.get() {
                inner.close();
                return Poll::Ready(self.value.take());
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<B: Future> Drop for Run<'_, B> {
    fn drop(&mut self) {
        self.inner.close();
        let body = self.body.take();
        contain(|| drop(body));
    }
}

#[cfg(test)]
mod tests;
