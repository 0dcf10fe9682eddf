//! Questions for more time: those that are asked in the name of a handler, and of the callers of whom.
//!
//! A call that may be extended is a [`Loan`] where it was made and a [`Lease`] where it is served. A handler
//! asks through its lease; what it has called for that asks its loan, which asks the lease of the handler
//! that made it where the answer lies above. How far a call may be extended is decided in
//! [`term`](crate::term); frames, clocks, and who is told are left to others. `Q` is the one who asks.
//! Invariant: each question is answered once, one of a lease is under way at a time, and what is gone
//! refuses.

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
/// lease.ask(200, "what it has called");
/// assert_eq!(lease.poll_next(), None);
/// let told = lease.answered(Some(250)).unwrap();
/// assert_eq!((told.whose, told.granted, lease.end()), ("the handler", true, 250));
/// assert!(matches!(lease.poll_next(), Some(Next::Tell(told)) if told.granted));
/// ```
#[derive(Debug)]
pub struct Lease<Q> {
    end: u64,
    asks: VecDeque<(u64, Q)>,
    /// Whether the first is under way.
    under_way: bool,
}

/// An answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told<Q> {
    /// The one who has asked.
    pub whose: Q,
    /// Until when it wanted the call to last.
    pub wanted: u64,
    /// Whether the call lasts longer, or as long.
    pub granted: bool,
    /// When the call ends now; none if nobody can say.
    pub end: Option<u64>,
}

/// The next thing to do for the questions that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<Q> {
    /// This one is told.
    Tell(Told<Q>),
    /// The caller is asked to have the call last until then.
    Send(u64),
}

impl<Q> Lease<Q> {
    /// A call that ends then.
    pub const fn new(end: u64) -> Lease<Q> {
        Lease { end, asks: VecDeque::new(), under_way: false }
    }

    /// When the call ends.
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// A question: until when. What is to be done is [polled](Lease::poll_next).
    pub fn ask(&mut self, wanted: u64, whose: Q) {
        if !mutated(Mutant::QuestionForgotten) {
            self.asks.push_back((wanted, whose));
        }
    }

    /// The caller has answered: the call ends at `end`, or when it would have. Gives who is told, if a
    /// question was under way.
    pub fn answered(&mut self, end: Option<u64>) -> Option<Told<Q>> {
        if !core::mem::take(&mut self.under_way) {
            return None;
        }
        let (wanted, whose) = self.asks.pop_front()?;
        if let Some(end) = end.filter(|_| !mutated(Mutant::ExtensionUnheard)) {
            self.end = self.end.max(end);
        }
        Some(Told { whose, wanted, granted: end.is_some(), end: Some(self.end) })
    }

    /// Returns the next thing to do, as long as there is anything.
    pub fn poll_next(&mut self) -> Option<Next<Q>> {
        let wanted = self.asks.front().map(|(wanted, _)| *wanted)?;
        if self.under_way {
            return None;
        }
        if wanted <= self.end {
            let (wanted, whose) = self.asks.pop_front()?;
            let end = Some(self.end);
            return Some(Next::Tell(Told { whose, wanted, granted: true, end }));
        }
        self.under_way = true;
        Some(Next::Send(wanted))
    }

    /// Refuses every question, since the caller answers no more. Calls that the handler has made get no more time
    /// either: the handler may end sooner now than its call would have.
    pub fn close(&mut self) -> impl Iterator<Item = Told<Q>> + use<Q> {
        self.under_way = false;
        let asks = core::mem::take(&mut self.asks);
        let end = mutated(Mutant::CloseGrants).then_some(self.end);
        asks.into_iter().map(move |(wanted, whose)| Told { whose, wanted, granted: false, end })
    }
}

/// A call that was made and whose callee may ask for more time.
#[derive(Clone, Copy, Debug)]
pub struct Loan {
    term: Term,
    /// Whether it was asked above, and there is no answer yet.
    asks: bool,
}

/// The handler that has made a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Above {
    /// There is none, or its time has no bound.
    Nobody,
    /// It ends then, and may ask for more.
    Ends(u64),
    /// It is gone.
    Gone,
}

impl Loan {
    /// A call that has so much time.
    pub const fn new(term: Term) -> Loan {
        Loan { term, asks: false }
    }

    /// When the call ends.
    pub const fn end(&self) -> u64 {
        self.term.end()
    }

    /// The callee of a call asks for it to last until `wanted`; none is a call that has ended. The answer
    /// is what it is told, unless it lies above: then that lease is asked, and [`Loan::told`] says.
    pub fn asked(loan: Option<&mut Loan>, wanted: u64, above: Above) -> Step {
        let Some(loan) = loan else {
            return if mutated(Mutant::EndedExtended) {
                Step::Granted(wanted)
            } else {
                Step::Refused
            };
        };
        // One question of a call at a time: who asks twice says things twice.
        if loan.asks {
            return Step::Refused;
        }
        let above = match above {
            Above::Nobody => None,
            Above::Ends(end) => Some(end),
            Above::Gone => return Step::Refused,
        };
        let step = loan.term.extend(wanted, above);
        loan.asks = matches!(step, Step::Above(_));
        step
    }

    /// It is known above until when the call for which this one is made lasts: `end`, or nobody says. The
    /// answer is what the callee is told.
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
        assert_eq!(lease.answered(Some(900)), None, "nothing is under way");
        let told = Told { whose: 'b', wanted: 200, granted: true, end: Some(250) };
        assert_eq!(sent(&mut lease), [Next::Tell(told), Next::Send(500)]);
        let told = Told { whose: 'c', wanted: 500, granted: false, end: Some(250) };
        assert_eq!((lease.answered(None), lease.end()), (Some(told), 250));
        assert_eq!(lease.answered(Some(90)), None);
        lease.ask(1, 'd');
        assert!(matches!(lease.poll_next(), Some(Next::Tell(told)) if told.granted));
    }

    #[test]
    fn what_is_gone_refuses() {
        let mut lease = Lease::new(100);
        lease.ask(300, 'a');
        lease.ask(300, 'b');
        assert_eq!(sent(&mut lease), [Next::Send(300)]);
        let refused: Vec<_> = lease.close().map(|told| (told.whose, told.granted)).collect();
        assert_eq!(refused, [('a', false), ('b', false)]);
        assert_eq!((lease.answered(Some(900)), lease.end()), (None, 100));
        assert_eq!(Loan::asked(None, 300, Above::Nobody), Step::Refused);
    }

    #[test]
    fn a_loan_asks_above_once_at_a_time() {
        let mut loan = Loan::new(Term::new(100, 400));
        assert_eq!(Loan::asked(Some(&mut loan), 300, Above::Gone), Step::Refused);
        assert_eq!(Loan::asked(Some(&mut loan), 300, Above::Ends(200)), Step::Above(300));
        assert_eq!(Loan::asked(Some(&mut loan), 150, Above::Ends(200)), Step::Refused, "twice");
        assert_eq!((loan.told(300, None), loan.end()), (Step::Refused, 100));
        assert_eq!(Loan::asked(Some(&mut loan), 300, Above::Ends(200)), Step::Above(300));
        assert_eq!((loan.told(300, Some(350)), loan.end()), (Step::Granted(300), 300));
        assert_eq!(Loan::asked(Some(&mut loan), 900, Above::Nobody), Step::Granted(400));
    }
}
