//! The requests of the peer: which is accepted, which waits, and what the peer is told.

use super::outbound::Bounds;
use crate::fault::Rule;
use crate::flow::{Budget, Receiver, ReceiverAction, Share};
use crate::limits::{MESSAGE_BYTES_MAX, SHORT_BYTES};
use crate::mutant::{Mutant, mutated};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

/// The requests of the peer in one session. `P` is a waiting request, or a reference to one.
///
/// ```
/// use upbeat_core::flow::{Budget, Share, ReceiverAction};
/// use upbeat_core::session::{Bounds, Inbound};
///
/// let mut budget = Budget::new(1000);
/// let inbound = Inbound::new(Bounds::new(true), Share::new(1000), 16, |_| 0);
/// assert!(inbound.is_clear());
/// inbound.accept();
/// assert_eq!(inbound.keep("the second", 500).map(|placed| placed.nack), Ok(Some(1)));
/// assert!(!inbound.is_clear());
/// let accepted = ReceiverAction::Accept { request: "the second", bytes: 756 };
/// assert_eq!(inbound.step(&mut budget, true), Some(accepted));
/// ```
#[derive(Debug)]
pub struct Inbound<P> {
    /// The number of accepted requests.
    accepted: Cell<u64>,
    /// The number of accepted requests at which the count is published: the published number and `unshown` more.
    due: Cell<u64>,
    /// The number of requests that may be accepted before the count is published.
    unshown: u64,
    /// Whether a request may be accepted at once.
    open: Cell<bool>,
    /// The bytes of waiting requests that lay in the ring and were copied.
    copied: Cell<usize>,
    copied_max: usize,
    copied_of: fn(&P) -> usize,
    machine: RefCell<Machine<P>>,
}

#[derive(Debug)]
struct Machine<P> {
    receiver: Receiver<P>,
    share: Share,
}

/// A request that waits in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The number of the request, if its sender must be told that it waits.
    pub nack: Option<u64>,
}

impl<P> Inbound<P> {
    /// Creates a direction in which nothing has come. The count of accepted requests is published after `unshown`
    /// of them. `copied_of` returns the bytes of a waiting request that lay in the ring and were copied.
    pub fn new(
        bounds: Bounds,
        share: Share,
        unshown: u64,
        copied_of: fn(&P) -> usize,
    ) -> Inbound<P> {
        let receiver = Receiver::with_places(bounds.places());
        Inbound {
            accepted: Cell::new(0),
            due: Cell::new(unshown),
            unshown,
            open: Cell::new(true),
            copied: Cell::new(0),
            copied_max: bounds.copied,
            copied_of,
            machine: RefCell::new(Machine { receiver, share }),
        }
    }

    /// Returns whether a request that is not long may be accepted at once.
    #[inline(always)]
    pub fn is_clear(&self) -> bool {
        self.open.get()
    }

    /// Counts a request that is accepted at once.
    #[inline(always)]
    pub fn accept(&self) {
        self.accepted.set(self.accepted.get() + 1);
    }

    /// Returns the number of accepted requests.
    #[inline(always)]
    pub fn accepted(&self) -> u64 {
        self.accepted.get()
    }

    /// Returns whether the count of accepted requests must be published. A peer that waits for the count is served
    /// by the caller of [`Inbound::show_to`].
    #[inline(always)]
    pub fn is_unshown(&self) -> bool {
        self.accepted.get() >= self.due.get()
    }

    /// Returns the count to publish to a peer that waits for progress, or to one that does not.
    pub fn show_to(&self, waits: bool) -> Option<u64> {
        let is_due = waits && !mutated(Mutant::WishUnheard) || self.is_unshown();
        if is_due { self.show() } else { None }
    }

    /// Returns the number of accepted requests if another number was published last.
    pub fn show(&self) -> Option<u64> {
        let accepted = self.accepted.get();
        let due = accepted + self.unshown;
        (due != self.due.replace(due)).then_some(accepted)
    }

    /// Returns the state machine, after it has counted the requests that were accepted at once.
    fn machine(&self) -> core::cell::RefMut<'_, Machine<P>> {
        let mut machine = self.machine.borrow_mut();
        let behind = self.accepted.get() - machine.receiver.accepted();
        machine.receiver.accept(behind);
        machine
    }

    /// Records that the next request is not accepted at once.
    pub fn stop_short(&self) {
        self.open.set(false);
    }

    /// Returns whether a request with this many bytes of payload may be accepted, if none waits before it.
    pub fn admits(&self, bytes: usize, budget: &Budget) -> bool {
        budget.admits(&self.machine.borrow().share, Budget::price(bytes))
    }

    /// Updates and returns whether a request may be accepted at once. `takes` is false while too many replies
    /// wait.
    pub fn look_clear(&self, budget: &Budget, takes: bool) -> bool {
        let machine = self.machine.borrow();
        let waits = machine.receiver.waiting() != 0 && !mutated(Mutant::OpenWhileWaiting);
        let clear = !waits && budget.admits(&machine.share, 0) && takes;
        self.open.set(clear);
        clear
    }

    /// Returns the number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.machine.borrow().receiver.waiting()
    }

    /// Returns the bytes of waiting requests that lay in the ring and were copied.
    pub fn copied(&self) -> usize {
        self.copied.get()
    }

    /// Keeps a request with `len` bytes of payload, which waits here.
    pub fn keep(&self, request: P, len: usize) -> Result<Placed, Rule> {
        self.copy(&request)?;
        let number = self.machine().receiver.keep(request, Budget::price(len));
        self.open.set(false);
        let number = number?;
        Ok(Placed { nack: (len > SHORT_BYTES).then_some(number) })
    }

    /// Keeps a request for which room was granted, in its place.
    pub fn fill(&self, number: u64, request: P, len: usize) -> Result<(), Rule> {
        self.copy(&request)?;
        self.open.set(false);
        self.machine().receiver.fill(number, request, Budget::price(len))
    }

    /// Handles the peer's question for room for a request with a charge of `bytes`.
    pub fn reserve(&self, bytes: u64) -> Result<(), Rule> {
        let most = Budget::price(MESSAGE_BYTES_MAX);
        if bytes > most {
            return Err(Rule::BeyondReserved { len: bytes, reserved: most });
        }
        self.open.set(false);
        self.machine().receiver.await_grant(bytes).map(drop)
    }

    fn copy(&self, request: &P) -> Result<(), Rule> {
        let copied = self.copied.get() + (self.copied_of)(request);
        self.copied.set(copied);
        match copied > self.copied_max && !mutated(Mutant::CopiesUnbounded) {
            true => {
                let (seen, max) = (copied as u64, self.copied_max as u64);
                Err(Rule::TooManyCopies { seen, max })
            }
            false => Ok(()),
        }
    }

    /// Updates the copied bytes after a request was removed.
    fn gone(&self, request: Option<&P>) {
        if !mutated(Mutant::CopiesStay) {
            self.copied.set(self.copied.get() - request.map_or(0, self.copied_of));
        }
    }

    /// Handles the peer's withdrawal of the reservation of this number. Returns the request if it had come.
    pub fn withdrawn(&self, number: u64, budget: &mut Budget) -> Result<Option<P>, Rule> {
        let machine = &mut *self.machine();
        let request = machine.receiver.void(number, budget, &mut machine.share)?;
        self.gone(request.as_ref());
        Ok(request)
    }

    /// Removes the waiting request for which `is_it` returns true, and returns it.
    pub fn cancel(&self, is_it: impl FnMut(&P) -> bool, budget: &mut Budget) -> Option<P> {
        let number = self.machine.borrow().receiver.find(is_it)?;
        self.withdrawn(number, budget).ok()?
    }

    /// Returns the next possible action for the waiting requests, if requests are accepted at all.
    pub fn step(&self, budget: &mut Budget, takes: bool) -> Option<ReceiverAction<P>> {
        if !takes {
            return None;
        }
        let machine = &mut *self.machine();
        let step = machine.receiver.step(budget, &mut machine.share);
        self.accepted.set(machine.receiver.accepted());
        if let Some(ReceiverAction::Accept { request, .. }) = &step {
            self.gone(Some(request));
        }
        step
    }

    /// Removes all waiting requests because the session ends, and returns those that are here.
    pub fn clear(&self, budget: &mut Budget) -> Vec<P> {
        let machine = &mut *self.machine();
        self.copied.set(0);
        machine.receiver.clear(budget, &mut machine.share)
    }

    /// Gives access to the session's share, to charge or release a request that runs on as a task.
    pub fn with_share<R>(&self, with: impl FnOnce(&mut Share) -> R) -> R {
        with(&mut self.machine.borrow_mut().share)
    }
}
