//! Questions for more time, which a handler asks for its own call and for the calls that it has made.
//!
//! A call that may be extended is a [`Loan`] at its caller and a [`Lease`] at its callee. A handler asks through
//! its lease. The callee of a call that the handler has made asks that call's loan, which asks the lease of the
//! handler if the answer depends on the handler's own time. [`term`](crate::term) decides how far a call may be
//! extended; other modules have the frames and the clocks, and deliver the answers. `Q` is the asker. Invariant:
//! each question is answered once, one question of a lease is under way at a time, and an ended call refuses all
//! questions.

use crate::mutant::{Mutant, mutated};
use crate::term::{Step, Term};
use alloc::collections::VecDeque;

/// A call that is served and whose time may be extended.
///
/// ```
/// use upbeat_core::lease::{Lease, Next};
///
/// let mut lease = Lease::new(100);
/// lease.ask(300, "the handler");
/// assert_eq!(lease.poll_next(), Some(Next::Send(300)));
/// lease.ask(200, "a callee of the handler");
/// assert_eq!(lease.poll_next(), None);
/// let told = lease.answered(Some(250)).unwrap();
/// assert_eq!((told.whose, told.granted, lease.end()), ("the handler", true, 250));
/// assert!(matches!(lease.poll_next(), Some(Next::Tell(told)) if told.granted));
/// ```
#[derive(Debug)]
pub struct Lease<Q> {
    end: u64,
    asks: VecDeque<(u64, Q)>,
    /// Whether the first question is under way.
    under_way: bool,
}

/// The answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseAnswer<Q> {
    /// The asker.
    pub whose: Q,
    /// The requested end of the call.
    pub wanted: u64,
    /// Whether the call was extended, or lasts long enough already.
    pub granted: bool,
    /// The present end of the call, or none if it is unknown.
    pub end: Option<u64>,
}

/// The next action for the waiting questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<Q> {
    /// Deliver this answer.
    Tell(LeaseAnswer<Q>),
    /// Ask the caller to extend the call until then.
    Send(u64),
}

impl<Q> Lease<Q> {
    /// Creates the lease of a call that ends at `end`.
    pub const fn new(end: u64) -> Lease<Q> {
        Lease { end, asks: VecDeque::new(), under_way: false }
    }

    /// Returns when the call ends.
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Adds a question for time until `wanted`. [`Lease::poll_next`] then returns the actions.
    pub fn ask(&mut self, wanted: u64, whose: Q) {
        if !mutated(Mutant::QuestionForgotten) {
            self.asks.push_back((wanted, whose));
        }
    }

    /// Handles the caller's answer: the call ends at `end`, or is not extended. Returns the answer to deliver, if
    /// a question was under way.
    pub fn answered(&mut self, end: Option<u64>) -> Option<LeaseAnswer<Q>> {
        if !core::mem::take(&mut self.under_way) {
            return None;
        }
        let (wanted, whose) = self.asks.pop_front()?;
        if let Some(end) = end.filter(|_| !mutated(Mutant::ExtensionUnheard)) {
            self.end = self.end.max(end);
        }
        Some(LeaseAnswer { whose, wanted, granted: end.is_some(), end: Some(self.end) })
    }

    /// Returns the next action, if there is one.
    pub fn poll_next(&mut self) -> Option<Next<Q>> {
        let wanted = self.asks.front().map(|(wanted, _)| *wanted)?;
        if self.under_way {
            return None;
        }
        if wanted <= self.end {
            let (wanted, whose) = self.asks.pop_front()?;
            let end = Some(self.end);
            return Some(Next::Tell(LeaseAnswer { whose, wanted, granted: true, end }));
        }
        self.under_way = true;
        Some(Next::Send(wanted))
    }

    /// Refuses every question, since the caller answers no more. The calls that the handler has made get no more
    /// time either, because the handler may now end sooner than its call would have.
    pub fn close(&mut self) -> impl Iterator<Item = LeaseAnswer<Q>> + use<Q> {
        self.under_way = false;
        let asks = core::mem::take(&mut self.asks);
        let end = mutated(Mutant::CloseGrants).then_some(self.end);
        asks.into_iter().map(move |(wanted, whose)| LeaseAnswer {
            whose,
            wanted,
            granted: false,
            end,
        })
    }
}

/// A call that was made, and whose callee may ask for more time.
#[derive(Clone, Copy, Debug)]
pub struct Loan {
    term: Term,
    /// Whether a question is under way above, at the lease of the calling handler.
    asks: bool,
}

/// The handler that has made a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallingHandler {
    /// There is no such handler, or its time has no bound.
    Nobody,
    /// The handler ends then, and may ask for more time.
    Ends(u64),
    /// The handler is gone.
    Gone,
}

impl Loan {
    /// Creates the loan of a call with this term.
    pub const fn new(term: Term) -> Loan {
        Loan { term, asks: false }
    }

    /// Returns when the call ends.
    pub const fn end(&self) -> u64 {
        self.term.end()
    }

    /// Handles the question of a call's callee for time until `wanted`; the loan is none for a call that has
    /// ended. The result is the answer, unless it is [`Step::Above`]: then that lease must be asked, and
    /// [`Loan::told`] returns the answer.
    pub fn asked(loan: Option<&mut Loan>, wanted: u64, above: CallingHandler) -> Step {
        let Some(loan) = loan else {
            return if mutated(Mutant::EndedExtended) {
                Step::Granted(wanted)
            } else {
                Step::Refused
            };
        };
        // One question of a call is under way at a time, so a second one is refused.
        if loan.asks {
            return Step::Refused;
        }
        let above = match above {
            CallingHandler::Nobody => None,
            CallingHandler::Ends(end) => Some(end),
            CallingHandler::Gone => return Step::Refused,
        };
        let step = loan.term.extend(wanted, above);
        loan.asks = matches!(step, Step::Above(_));
        step
    }

    /// Handles the answer from above: the call for which this one is made lasts until `end`, or the end is
    /// unknown. Returns the answer for the callee.
    pub fn told(&mut self, wanted: u64, end: Option<u64>) -> Step {
        self.asks = false;
        end.map_or(Step::Refused, |end| self.term.settle(wanted, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn sent(lease: &mut Lease<char>) -> Vec<Next<char>> {
        core::iter::from_fn(|| lease.poll_next()).collect()
    }

    #[test]
    fn one_question_is_under_way_and_each_is_answered_once() {
        let mut lease = Lease::new(100);
        for (wanted, whose) in [(300, 'a'), (200, 'b'), (500, 'c')] {
            lease.ask(wanted, whose);
        }
        assert_eq!(sent(&mut lease), [Next::Send(300)]);
        assert_eq!(lease.answered(Some(250)).map(|told| told.whose), Some('a'));
        assert_eq!(lease.answered(Some(900)), None, "no question is under way");
        let told = LeaseAnswer { whose: 'b', wanted: 200, granted: true, end: Some(250) };
        assert_eq!(sent(&mut lease), [Next::Tell(told), Next::Send(500)]);
        let told = LeaseAnswer { whose: 'c', wanted: 500, granted: false, end: Some(250) };
        assert_eq!((lease.answered(None), lease.end()), (Some(told), 250));
        assert_eq!(lease.answered(Some(90)), None);
        lease.ask(1, 'd');
        assert!(matches!(lease.poll_next(), Some(Next::Tell(told)) if told.granted));
    }

    #[test]
    fn an_ended_call_refuses_all_questions() {
        let mut lease = Lease::new(100);
        lease.ask(300, 'a');
        lease.ask(300, 'b');
        assert_eq!(sent(&mut lease), [Next::Send(300)]);
        let refused: Vec<_> =
            lease.close().map(|told| (told.whose, told.granted, told.end)).collect();
        assert_eq!(refused, [('a', false, None), ('b', false, None)]);
        assert_eq!((lease.answered(Some(900)), lease.end()), (None, 100));
        assert_eq!(Loan::asked(None, 300, CallingHandler::Nobody), Step::Refused);
    }

    #[test]
    fn a_loan_has_one_question_above_at_a_time() {
        let mut loan = Loan::new(Term::new(100, 400));
        assert_eq!(Loan::asked(Some(&mut loan), 300, CallingHandler::Gone), Step::Refused);
        assert_eq!(Loan::asked(Some(&mut loan), 300, CallingHandler::Ends(200)), Step::Above(300));
        assert_eq!(
            Loan::asked(Some(&mut loan), 150, CallingHandler::Ends(200)),
            Step::Refused,
            "twice"
        );
        assert_eq!((loan.told(300, None), loan.end()), (Step::Refused, 100));
        assert_eq!(Loan::asked(Some(&mut loan), 300, CallingHandler::Ends(200)), Step::Above(300));
        assert_eq!((loan.told(300, Some(350)), loan.end()), (Step::Granted(300), 300));
        assert_eq!(Loan::asked(Some(&mut loan), 900, CallingHandler::Nobody), Step::Granted(400));
    }
}
