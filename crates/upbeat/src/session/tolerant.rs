//! The form in which the peer has written its open calls, and in which it reads their replies, and the methods of which it
//! may write calls in the tolerant form.
//!
//! Invariant: the mark of an open call whose reply may differ in form says in which form the call was written.

use super::Session;
use std::cell::RefCell;
use upbeat_core::frame::CallNumber;
use upbeat_core::limits::{CALLS_PER_SESSION_MAX, METHODS_PER_SESSION_MAX};

/// The calls, by their indexes, and the methods, by their numbers, that are in the tolerant form.
#[derive(Default)]
pub(super) struct Tolerant {
    calls: Bits<CALLS_PER_SESSION_MAX>,
    methods: Bits<METHODS_PER_SESSION_MAX>,
}

impl Tolerant {
    /// Returns whether a call was written in the tolerant form.
    pub(super) fn has(&self, call: CallNumber) -> bool {
        self.calls.has(call.index() as usize)
    }
}

/// A bit for each of so many numbers. Empty until one is set.
#[derive(Default)]
struct Bits<const MOST: usize>(RefCell<Vec<u64>>);

impl<const MOST: usize> Bits<MOST> {
    fn has(&self, at: usize) -> bool {
        self.0.borrow().get(at / 64).is_some_and(|bits| bits & 1 << (at % 64) != 0)
    }

    fn set(&self, at: usize, value: bool) {
        let mut all = self.0.borrow_mut();
        if value && all.is_empty() {
            all.resize(MOST / 64, 0);
        }
        if let Some(bits) = all.get_mut(at / 64) {
            let bit = 1 << (at % 64);
            *bits = if value { *bits | bit } else { *bits & !bit };
        }
    }
}

impl Session {
    /// Notes that the peer was told to call a method in the tolerant form.
    pub(crate) fn bound_tolerantly(&self, method: u16) {
        self.answers.tolerant.methods.set(method.into(), true);
    }

    /// Returns whether the peer was told to call a method in the tolerant form.
    pub(crate) fn is_bound_tolerantly(&self, method: u16) -> bool {
        self.answers.tolerant.methods.has(method.into())
    }

    /// Notes the form in which a call of the peer was written.
    pub(crate) fn note_form(&self, call: CallNumber, is_tolerant: bool) {
        self.answers.tolerant.calls.set(call.index() as usize, is_tolerant);
    }
}
