//! Pinned memory for a future, and afterwards for its outcome.
//!
//! One stage serves a task from its start until its outcome is taken, and then the next task. Other modules decide
//! when the future is polled. Invariant: a future that may have been polled is not moved until it is dropped in
//! place.

use std::fmt;
use std::pin::Pin;

/// Memory for a future of type `F`, and then for its outcome.
///
/// ```
/// use std::future::Future;
/// use std::pin::pin;
/// use std::task::{Context, Poll, Waker};
/// use upbeat_memory::stage::Stage;
///
/// let mut stage = pin!(Stage::new(async { 6 * 7 }));
/// let mut context = Context::from_waker(Waker::noop());
/// let polled = stage.as_mut().future().map(|future| future.poll(&mut context));
/// assert_eq!(polled, Some(Poll::Ready(42)));
/// stage.as_mut().end("it was 42");
/// assert!(stage.is_ended() && stage.as_mut().future().is_none());
/// assert_eq!(stage.as_mut().take(), Some("it was 42"));
/// assert_eq!(stage.take(), None);
/// ```
pub struct Stage<F, T> {
    content: Content<F, T>,
}

enum Content<F, T> {
    Empty,
    Runs(F),
    Ended(T),
}

impl<F, T> Stage<F, T> {
    /// Creates a stage with a future.
    #[inline]
    pub const fn new(future: F) -> Stage<F, T> {
        Stage { content: Content::Runs(future) }
    }

    /// Replaces the content by another future. The old content is dropped.
    #[inline]
    pub fn begin(self: Pin<&mut Self>, future: F) {
        self.put(Content::Runs(future));
    }

    /// Drops the future and stores its outcome.
    #[inline]
    pub fn end(self: Pin<&mut Self>, outcome: T) {
        self.put(Content::Ended(outcome));
    }

    /// Drops the content.
    #[inline]
    pub fn clear(self: Pin<&mut Self>) {
        self.put(Content::Empty);
    }

    #[inline]
    fn put(mut self: Pin<&mut Self>, content: Content<F, T>) {
        self.set(Stage { content });
    }

    /// Returns the future, to be polled, while there is one.
    #[inline]
    pub fn future(self: Pin<&mut Self>) -> Option<Pin<&mut F>> {
        // SAFETY: a future is pinned if its stage is. Only this method gives access to the future, and it does so
        // pinned. The future leaves by `Pin::set` or with the stage, which drop it in place; `take` moves only
        // outcomes. The type has no `Drop`, and it is `Unpin` only if the future is.
        let content = unsafe { &mut self.get_unchecked_mut().content };
        match content {
            // SAFETY: as above.
            Content::Runs(future) => Some(unsafe { Pin::new_unchecked(future) }),
            Content::Empty | Content::Ended(_) => None,
        }
    }

    /// Returns whether the future has ended and its outcome is stored.
    #[inline]
    pub fn is_ended(&self) -> bool {
        matches!(self.content, Content::Ended(_))
    }

    /// Takes the outcome.
    #[inline]
    pub fn take(self: Pin<&mut Self>) -> Option<T> {
        if !self.is_ended() {
            return None;
        }
        // SAFETY: the check above has shown that there is no future, and outcomes are never pinned, so the outcome
        // may be moved.
        let content = unsafe { &mut self.get_unchecked_mut().content };
        match std::mem::replace(content, Content::Empty) {
            Content::Ended(outcome) => Some(outcome),
            Content::Empty | Content::Runs(_) => None,
        }
    }
}

impl<F, T> fmt::Debug for Stage<F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.content {
            Content::Empty => "Stage(empty)",
            Content::Runs(_) => "Stage(runs)",
            Content::Ended(_) => "Stage(ended)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::future::Future;
    use std::marker::PhantomPinned;
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};

    /// A future that checks, when polled and when dropped, that it was not moved since the first poll.
    struct Unmoved {
        at: Cell<Option<usize>>,
        dropped: Rc<Cell<u32>>,
        _pinned: PhantomPinned,
    }

    impl Unmoved {
        fn new(dropped: &Rc<Cell<u32>>) -> Unmoved {
            Unmoved { at: Cell::new(None), dropped: Rc::clone(dropped), _pinned: PhantomPinned }
        }

        fn look(&self) {
            let here = std::ptr::from_ref(self).addr();
            assert_eq!(self.at.replace(Some(here)).unwrap_or(here), here, "the future was moved");
        }
    }

    impl Future for Unmoved {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
            self.look();
            Poll::Pending
        }
    }

    impl Drop for Unmoved {
        fn drop(&mut self) {
            self.look();
            self.dropped.set(self.dropped.get() + 1);
        }
    }

    fn poll(stage: Pin<&mut Stage<Unmoved, String>>) -> Option<Poll<()>> {
        stage.future().map(|future| future.poll(&mut Context::from_waker(Waker::noop())))
    }

    #[test]
    fn a_future_is_not_moved_and_is_dropped_once() {
        let dropped = Rc::new(Cell::new(0));
        let mut stage = Box::pin(Stage::new(Unmoved::new(&dropped)));
        assert_eq!(poll(stage.as_mut()), Some(Poll::Pending));
        assert_eq!(stage.as_mut().take(), None, "the future still runs");
        stage.as_mut().end("over".to_owned());
        assert_eq!((dropped.get(), poll(stage.as_mut())), (1, None));
        assert_eq!(stage.as_mut().take().as_deref(), Some("over"));
        assert_eq!(stage.as_mut().take(), None);
        // The stage serves the next future.
        stage.as_mut().begin(Unmoved::new(&dropped));
        assert_eq!(poll(stage.as_mut()), Some(Poll::Pending));
        stage.as_mut().clear();
        assert_eq!((dropped.get(), stage.is_ended()), (2, false));
        stage.as_mut().begin(Unmoved::new(&dropped));
        assert_eq!(poll(stage.as_mut()), Some(Poll::Pending));
        drop(stage);
        assert_eq!(dropped.get(), 3);
    }

    #[test]
    fn an_outcome_that_is_not_taken_is_dropped_with_the_stage() {
        let held = Rc::new(());
        let mut stage = Box::pin(Stage::<Unmoved, Rc<()>>::new(Unmoved::new(&Rc::default())));
        stage.as_mut().end(Rc::clone(&held));
        assert_eq!(Rc::strong_count(&held), 2);
        drop(stage);
        assert_eq!(Rc::strong_count(&held), 1);
    }
}
