//! Which node a thread is driving.

use super::Dispatcher;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::rc::Rc;

thread_local! {
    /// The node that this thread is driving. An [`Enter`] owns the reference and takes it back, so
    /// that nothing is left to drop with the thread.
    static DRIVEN: Cell<Option<ManuallyDrop<Rc<Dispatcher>>>> = const { Cell::new(None) };
    /// Whether a node of this thread ever reported waits that last too long.
    static WATCHES: Cell<bool> = const { Cell::new(false) };
}

const NONE: &str = "this is used inside a node's task or handler only";

/// While it stands, this thread drives a node.
pub(crate) struct Enter(());

impl Enter {
    /// # Panics
    /// When the thread is inside a node already, or in a forked child of the node's process.
    #[inline]
    pub(crate) fn new(node: &Rc<Dispatcher>) -> Enter {
        if !node.is_here() {
            Enter::forked();
        }
        let outer = DRIVEN.replace(Some(ManuallyDrop::new(Rc::clone(node))));
        if outer.is_some() {
            Enter::nested(outer);
        }
        node.drives.begin();
        Enter(())
    }

    #[cold]
    pub(super) fn forked() -> ! {
        panic!(
            "a node was used in a forked child of the process that built it, where it has no memory \
             and no sessions: build another node in the child, or end the child by `exec`"
        )
    }

    #[cold]
    fn nested(outer: Option<ManuallyDrop<Rc<Dispatcher>>>) {
        if let Some(inner) = DRIVEN.replace(outer) {
            drop(ManuallyDrop::into_inner(inner));
        }
        panic!("a node was to be driven inside a node's task or handler: await instead");
    }
}

impl Drop for Enter {
    #[inline]
    fn drop(&mut self) {
        if let Some(node) = DRIVEN.take() {
            node.drives.end();
            drop(ManuallyDrop::into_inner(node));
        }
    }
}

impl Dispatcher {
    /// Whether this is the process that has built the node, and no child that it has forked.
    pub(crate) fn is_here(&self) -> bool {
        self.made.is_this()
    }

    /// The node that this thread is driving.
    ///
    /// # Panics
    /// When it drives none.
    pub(crate) fn current() -> Rc<Dispatcher> {
        Dispatcher::with_current(Rc::clone)
    }

    /// Shows the node that this thread is driving to somebody who asks for none himself.
    ///
    /// # Panics
    /// When it drives none.
    #[inline]
    pub(crate) fn with_current<R>(show: impl FnOnce(&Rc<Dispatcher>) -> R) -> R {
        Dispatcher::if_driving(show).expect(NONE)
    }

    /// The same, if it drives one.
    #[inline]
    pub(crate) fn if_driving<R>(show: impl FnOnce(&Rc<Dispatcher>) -> R) -> Option<R> {
        let driven = DRIVEN.take();
        let shown = driven.as_deref().map(show);
        DRIVEN.set(driven);
        shown
    }

    /// Whether the node that this thread is driving may report waits that last too long: one of
    /// this thread's does, or did.
    #[inline]
    pub(crate) fn may_watch() -> bool {
        WATCHES.get()
    }

    /// A node of this thread, where it stays, does so if it is told to.
    pub(super) fn begin_to_watch(&self) {
        if self.settings.stuck.after.is_some() {
            WATCHES.set(true);
        }
    }

    /// Whether this thread is driving a node.
    pub(crate) fn is_driving() -> bool {
        Dispatcher::if_driving(|_| ()).is_some()
    }
}
