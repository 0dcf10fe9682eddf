//! The requests of the peer: which is accepted, which waits, and what the peer is told of that.

use super::outbound::Bounds;
use crate::fault::Rule;
use crate::flow::{Budget, Receiver, Share, Step};
use crate::limits::{MESSAGE_BYTES_MAX, SHORT_BYTES};
use crate::mutant::{Mutant, mutated};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

/// The inbound requests of one side of a session. `P` is a request that waits, or a hold on one.
///
/// ```
/// use upbeat_core::flow::{Budget, Share, Step};
/// use upbeat_core::session::{Bounds, Inbound};
///
/// let mut budget = Budget::new(1000);
/// let inbound = Inbound::new(Bounds::new(true), Share::new(1000), 16, |_| 0);
/// assert!(inbound.is_clear());
/// inbound.accept();
/// assert_eq!(inbound.keep("the second", 500).map(|placed| placed.nack), Ok(Some(1)));
/// assert!(!inbound.is_clear());
/// let accepted = Step::Accept { request: "the second", bytes: 756 };
/// assert_eq!(inbound.step(&mut budget, true), Some(accepted));
/// ```
#[derive(Debug)]
pub struct Inbound<P> {
    /// Requests that were accepted.
    accepted: Cell<u64>,
    /// When so many were accepted, the peer is shown: as many as it was shown last, and `unshown` more.
    due: Cell<u64>,
    /// Requests that may be accepted before the peer is shown.
    unshown: u64,
    /// Whether a request may be accepted at once.
    open: Cell<bool>,
    /// Bytes of requests that wait here and lay in the ring.
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

/// A request that has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its number, if its sender is to be told that it waits.
    pub nack: Option<u64>,
}

impl<P> Inbound<P> {
    /// A direction in which nothing has come. The peer is shown what was accepted after so many.
    /// `copied_of` says how many bytes of a request that waits lay in the ring and were copied.
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

    /// Whether a request that is not long may be accepted at once.
    #[inline(always)]
    pub fn is_clear(&self) -> bool {
        self.open.get()
    }

    /// A request is accepted at once.
    #[inline(always)]
    pub fn accept(&self) {
        self.accepted.set(self.accepted.get() + 1);
    }

    /// Requests that were accepted.
    #[inline(always)]
    pub fn accepted(&self) -> u64 {
        self.accepted.get()
    }

    /// Whether the peer is to be shown how many were accepted: now and then. A peer that waits for that is
    /// told by whoever relieves it.
    #[inline(always)]
    pub fn is_unshown(&self) -> bool {
        self.accepted.get() >= self.due.get()
    }

    /// Returns the number to show to a peer that waits for progress, or one that does not.
    pub fn show_to(&self, waits: bool) -> Option<u64> {
        let is_due = waits && !mutated(Mutant::WishUnheard) || self.is_unshown();
        if is_due { self.show() } else { None }
    }

    /// Returns the number of accepted requests, if the peer was shown another.
    pub fn show(&self) -> Option<u64> {
        let accepted = self.accepted.get();
        let due = accepted + self.unshown;
        (due != self.due.replace(due)).then_some(accepted)
    }

    /// The machine, told what came without it.
    fn machine(&self) -> core::cell::RefMut<'_, Machine<P>> {
        let mut machine = self.machine.borrow_mut();
        let behind = self.accepted.get() - machine.receiver.accepted();
        machine.receiver.accept(behind);
        machine
    }

    /// The next request is not accepted at once.
    pub fn stop_short(&self) {
        self.open.set(false);
    }

    /// Whether a request of so many payload bytes may be accepted, none being in front of it.
    pub fn admits(&self, bytes: usize, budget: &Budget) -> bool {
        budget.admits(&self.machine.borrow().share, Budget::price(bytes))
    }

    /// Finds out anew whether a request may be accepted at once. `takes` says whether requests are taken
    /// at all: not while too many of their replies wait.
    pub fn look_clear(&self, budget: &Budget, takes: bool) -> bool {
        let machine = self.machine.borrow();
        let waits = machine.receiver.waiting() != 0 && !mutated(Mutant::OpenWhileWaiting);
        let clear = !waits && budget.admits(&machine.share, 0) && takes;
        self.open.set(clear);
        clear
    }

    /// Requests that wait to be accepted.
    pub fn waiting(&self) -> usize {
        self.machine.borrow().receiver.waiting()
    }

    /// Bytes of those that lay in the ring and were copied.
    pub fn copied(&self) -> usize {
        self.copied.get()
    }

    /// A request of `len` payload bytes waits here.
    pub fn keep(&self, request: P, len: usize) -> Result<Placed, Rule> {
        self.copy(&request)?;
        let number = self.machine().receiver.keep(request, Budget::price(len));
        self.open.set(false);
        let number = number?;
        Ok(Placed { nack: (len > SHORT_BYTES).then_some(number) })
    }

    /// The same with a request for which room was granted.
    pub fn fill(&self, number: u64, request: P, len: usize) -> Result<(), Rule> {
        self.copy(&request)?;
        self.open.set(false);
        self.machine().receiver.fill(number, request, Budget::price(len))
    }

    /// The peer asks for room for a request that is charged with so many bytes.
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

    /// A request waits no more.
    fn gone(&self, request: Option<&P>) {
        if !mutated(Mutant::CopiesStay) {
            self.copied.set(self.copied.get() - request.map_or(0, self.copied_of));
        }
    }

    /// The peer takes the reservation of this number back. Gives the request, if it had come.
    pub fn withdrawn(&self, number: u64, budget: &mut Budget) -> Result<Option<P>, Rule> {
        let machine = &mut *self.machine();
        let request = machine.receiver.void(number, budget, &mut machine.share)?;
        self.gone(request.as_ref());
        Ok(request)
    }

    /// Gives up the request that waits here and is looked for, and returns it.
    pub fn cancel(&self, is_it: impl FnMut(&P) -> bool, budget: &mut Budget) -> Option<P> {
        let number = self.machine.borrow().receiver.find(is_it)?;
        self.withdrawn(number, budget).ok()?
    }

    /// Returns the next thing that can be done for requests that wait, if requests are taken at all.
    pub fn step(&self, budget: &mut Budget, takes: bool) -> Option<Step<P>> {
        if !takes {
            return None;
        }
        let machine = &mut *self.machine();
        let step = machine.receiver.step(budget, &mut machine.share);
        self.accepted.set(machine.receiver.accepted());
        if let Some(Step::Accept { request, .. }) = &step {
            self.gone(Some(request));
        }
        step
    }

    /// Forgets all requests that wait, because the session ends, and gives what was here.
    pub fn clear(&self, budget: &mut Budget) -> Vec<P> {
        let machine = &mut *self.machine();
        self.copied.set(0);
        machine.receiver.clear(budget, &mut machine.share)
    }

    /// Takes room for a request that goes on as a task, or gives it back.
    pub fn with_share<R>(&self, with: impl FnOnce(&mut Share) -> R) -> R {
        with(&mut self.machine.borrow_mut().share)
    }
}
