//! The node that a thread drives.

use super::Dispatcher;
use crate::drives::{Drives, Word};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use upbeat_memory::fork::Process;

/// Stands for the number of a node while this thread drives one and does something else, between two polls of the future
/// that drives.
const BETWEEN: u32 = u32::MAX;

thread_local! {
    /// The number of the node that this thread drives now; 0 if it drives none.
    static DRIVEN: Cell<u32> = const { Cell::new(0) };
    /// The nodes that this thread has driven and that have not ended: the first has number 1. A drive
    /// counts no reference, since its node is kept here.
    static NODES: RefCell<Vec<Option<Rc<Dispatcher>>>> = const { RefCell::new(Vec::new()) };
}

/// The life of a node: where it was made, which thread drives it, and whether it ends.
pub(crate) struct Life {
    /// The process that made the node. A child that was forked there must not use it.
    made: Process,
    /// The number that the thread has given the node; 0 before the first drive and after the end.
    number: Cell<u32>,
    /// The process in which the node has a number: the one that made it, or none without a number. One comparison
    /// therefore tells whether the node may be driven.
    numbered: Cell<Process>,
    /// Whether the node accepts no more requests.
    pub(super) closing: Cell<bool>,
    /// Whether the node has ended.
    ended: Cell<bool>,
    pub(crate) drives: Rc<Drives>,
    /// The word in which drives are counted.
    drive: Word,
}

impl Life {
    /// Begins the life of a node of this process.
    pub(super) fn new(drives: Rc<Drives>) -> Life {
        let (closing, ended) = (Cell::new(false), Cell::new(false));
        let (number, numbered) = (Cell::new(0), Cell::new(Process::none()));
        let drive = drives.word();
        Life { made: Process::this(), number, numbered, closing, ended, drives, drive }
    }
}

/// A guard for the time in which this thread drives a node.
pub(crate) struct Enter<'n> {
    node: &'n Dispatcher,
    /// 0, or [`BETWEEN`].
    outer: u32,
}

impl<'n> Enter<'n> {
    /// # Panics
    /// When the thread is inside a node already, or in a forked child of the node's process.
    #[inline]
    pub(crate) fn new(node: &'n Rc<Dispatcher>) -> Enter<'n> {
        if !node.life.numbered.get().is_this() {
            number(node);
        }
        let outer = DRIVEN.replace(node.life.number.get());
        if outer != 0 {
            refuse_nested(outer);
        }
        node.life.drive.begins();
        Enter { node, outer }
    }
}

impl Drop for Enter<'_> {
    #[inline]
    fn drop(&mut self) {
        DRIVEN.set(self.outer);
        self.node.life.drive.ends();
        if self.node.life.closing.get() {
            self.node.is_driven_no_more();
        }
    }
}

/// A guard for the time in which a future of another executor drives a node. Between two of its polls the thread does
/// other things, and must not block for the node.
#[cfg(feature = "tokio")]
pub(crate) struct UnderWay(());

#[cfg(feature = "tokio")]
thread_local! {
    /// The number of these guards.
    static UNDER_WAY: Cell<u32> = const { Cell::new(0) };
}

#[cfg(feature = "tokio")]
impl UnderWay {
    pub(crate) fn begin() -> UnderWay {
        UNDER_WAY.set(UNDER_WAY.get() + 1);
        UnderWay(())
    }

    /// Runs one poll of the future.
    pub(crate) fn poll<R>(&self, act: impl FnOnce() -> R) -> R {
        if DRIVEN.get() == BETWEEN {
            DRIVEN.set(0);
        }
        let result = act();
        if DRIVEN.get() == 0 {
            DRIVEN.set(BETWEEN);
        }
        result
    }
}

#[cfg(feature = "tokio")]
impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.set(UNDER_WAY.get() - 1);
        if UNDER_WAY.get() == 0 && DRIVEN.get() == BETWEEN {
            DRIVEN.set(0);
        }
    }
}

/// Gives a node its number, and keeps the node.
///
/// # Panics
/// In a forked child of the node's process.
#[cold]
#[inline(never)]
fn number(node: &Rc<Dispatcher>) {
    if !node.is_here() {
        forked();
    }
    NODES.with_borrow_mut(|nodes| {
        let free = nodes.iter().position(Option::is_none).unwrap_or_else(|| {
            nodes.push(None);
            nodes.len() - 1
        });
        nodes[free] = Some(Rc::clone(node));
        node.life.number.set(free as u32 + 1);
        node.life.numbered.set(node.life.made);
    });
}

/// Refuses to drive a node inside of a node.
///
/// # Panics
/// Unless the thread is between two polls of a future that drives a node.
#[cold]
fn refuse_nested(outer: u32) {
    if outer == BETWEEN {
        return;
    }
    DRIVEN.set(outer);
    panic!(
        "`block_on`, `turn` or `shut_down` of a node was called inside a handler or a task of a node, which would \
         stop that node: write `future.await` there, or start the future with `upbeat::spawn(future)`"
    );
}

/// Reports that a function for a node's tasks was used where no node is driven.
#[cold]
#[inline(never)]
fn outside(function: &str) -> ! {
    panic!(
        "`{function}` was used where this thread drives no node: write `node.block_on(async {{ … }})` and use \
         `{function}` there, or in a handler or a task of the node (`node.spawn(async {{ … }})`). Under tokio the \
         node is driven by `upbeat::tokio_runtime::drive(&node, async {{ … }})`. A task of another runtime uses \
         that runtime's own functions (such as `tokio::time::sleep`), and calls services through a handle \
         (`upbeat::handle::connect`)"
    )
}

#[cold]
pub(super) fn forked() -> ! {
    panic!(
        "a node was used in a forked child of the process that built it, where it has no memory \
         and no sessions: build another node in the child, or end the child by `exec`"
    )
}

impl Dispatcher {
    /// Removes a node that has ended from its thread, unless the thread drives the node now.
    pub(super) fn has_ended(&self) {
        self.life.ended.set(true);
        self.is_driven_no_more();
    }

    #[cold]
    #[inline(never)]
    fn is_driven_no_more(&self) {
        if !self.life.ended.get()
            || self.life.number.get() == 0
            || DRIVEN.get() == self.life.number.get()
        {
            return;
        }
        let number = self.life.number.replace(0) as usize;
        self.life.numbered.set(Process::none());
        // When the thread ends, its nodes are gone already.
        let kept = NODES.try_with(|nodes| nodes.borrow_mut().get_mut(number - 1)?.take());
        drop(kept);
    }

    /// Returns whether this process has built the node. A child that it has forked has not.
    pub(crate) fn is_here(&self) -> bool {
        self.life.made.is_this()
    }

    /// Returns the node that this thread is driving, for the function of this name.
    ///
    /// # Panics
    /// When it drives none.
    pub(crate) fn current(function: &str) -> Rc<Dispatcher> {
        Dispatcher::with_current(function, Rc::clone)
    }

    /// Passes the node that this thread is driving to `with`, for the function of this name.
    ///
    /// # Panics
    /// When it drives none.
    #[inline]
    pub(crate) fn with_current<R>(function: &str, show: impl FnOnce(&Rc<Dispatcher>) -> R) -> R {
        Dispatcher::if_driving(show).unwrap_or_else(|| outside(function))
    }

    /// Passes the node that this thread is driving to `with`, if it drives one.
    #[inline]
    pub(crate) fn if_driving<R>(show: impl FnOnce(&Rc<Dispatcher>) -> R) -> Option<R> {
        let number = (DRIVEN.get() as usize).checked_sub(1)?;
        let node = NODES.with_borrow(|nodes| nodes.get(number).cloned())??;
        Some(show(&node))
    }

    /// Wakes the application's loop that waits for the node's descriptor, because code outside of the node's drives has
    /// given the node something to do.
    #[inline]
    pub(crate) fn has_work_from_outside(&self) {
        if self.work.roster.is_asleep() && DRIVEN.get() != self.life.number.get() {
            self.work.roster.nudge();
        }
    }

    /// Returns whether this thread drives a node, also between two polls of a future that does.
    pub(crate) fn is_driving() -> bool {
        DRIVEN.get() != 0
    }
}
