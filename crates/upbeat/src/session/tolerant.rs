//! The form in which the peer has written its open calls, and in which it reads their replies.
//!
//! Invariant: the mark of an open call whose reply may differ in form says in which form the call was written.

use super::Session;
use std::cell::RefCell;
use upbeat_core::frame::CallNumber;
use upbeat_core::limits::CALLS_PER_SESSION_MAX;

/// The calls that were written in the tolerant form, by their indexes, a bit each. Empty until there is one.
#[derive(Default)]
pub(super) struct TolerantCalls(RefCell<Vec<u64>>);

impl TolerantCalls {
    /// Returns whether a call was written in the tolerant form.
    pub(super) fn has(&self, call: CallNumber) -> bool {
        let (word, bit) = place(call);
        self.0.borrow().get(word).is_some_and(|calls| calls & bit != 0)
    }

    fn set(&self, call: CallNumber, is_tolerant: bool) {
        let (word, bit) = place(call);
        let mut calls = self.0.borrow_mut();
        if is_tolerant && calls.is_empty() {
            calls.resize(CALLS_PER_SESSION_MAX / 64, 0);
        }
        if let Some(calls) = calls.get_mut(word) {
            *calls = if is_tolerant { *calls | bit } else { *calls & !bit };
        }
    }
}

fn place(call: CallNumber) -> (usize, u64) {
    (call.index() as usize / 64, 1 << (call.index() % 64))
}

impl Session {
    /// Notes the form in which a call of the peer was written.
    pub(crate) fn note_form(&self, call: CallNumber, is_tolerant: bool) {
        self.answers.tolerant.set(call, is_tolerant);
    }
}
