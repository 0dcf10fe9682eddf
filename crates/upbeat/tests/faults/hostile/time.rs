//! Questions for more time, and answers to them, that an honest peer would not send.

use super::attack::Attack;
use super::raw::Raw;
use super::room::{against, connect};
use upbeat_core::frame::{CallNumber, Flags, Head, Kind};

/// Asks for a second of time, and says how many microseconds it has then, or 0.
const STRETCH: u16 = 15;

const fn number(index: u32) -> CallNumber {
    CallNumber::new(index, 1)
}

impl Raw {
    fn extend(&self, call: CallNumber, microseconds: u64) {
        assert!(self.put(Head::extend(call).words(), &microseconds.to_le_bytes()));
    }

    fn extended(&self, call: CallNumber, microseconds: u64) {
        assert!(self.put(Head::extended(call).words(), &microseconds.to_le_bytes()));
    }

    /// Calls for what asks for more time, and may.
    fn stretch(&self, call: CallNumber, deadline: u64) {
        let flags = Flags::DEADLINE.with(Flags::EXTENDABLE);
        let head = Head::call(STRETCH, call, flags.extension_bytes()).with_flags(flags);
        let payload = [deadline.to_le_bytes(), u64::MAX.to_le_bytes()].concat();
        assert!(self.put(head.words(), &payload));
    }

    /// Expects a frame of this kind about this call, and gives its first word.
    fn expect_about(&self, kind: Kind, call: CallNumber) -> u64 {
        let (head, word) = self.next_with_word().expect("a frame");
        assert_eq!((head.kind, head.call), (kind, call));
        word
    }
}

impl Attack {
    /// Questions about anything, answers to anybody.
    pub(crate) fn time(&mut self) {
        let most = [0, 1, 1_000_000, u64::MAX][self.random.below(4) as usize];
        let index = self.random.below(u64::from(self.call) + 3) as u32;
        let call = CallNumber::new(index, 1 + self.random.below(2) as u32);
        match self.random.below(4) {
            0 => self.frame(Head::extend(call).words(), &most.to_le_bytes()),
            1 => self.frame(Head::extended(call).words(), &most.to_le_bytes()),
            2 => self.pass(),
            _ => {
                let call = self.next_call();
                let flags = Flags::DEADLINE.with(Flags::EXTENDABLE);
                let head = Head::call(STRETCH, call, flags.extension_bytes()).with_flags(flags);
                let words = [self.random.below(2_000).to_le_bytes(), most.to_le_bytes()];
                self.frame(head.words(), &words.concat())
            }
        };
    }
}

/// A question about a call that does not exist is answered once: there is no more time.
#[test]
fn questions_about_calls_that_are_not_there_are_answered_with_nothing() {
    if !crate::common::shares_memory("the peers of this test write into shared lanes") {
        return;
    }
    let (ends, _) = against("questions", |place| {
        let raw = connect(place);
        raw.add(0);
        // The questions are about a call that was answered, about one that never was, about none, twice, and for ever.
        let calls = [number(0), number(4095), CallNumber::new(u32::MAX, 7)];
        for call in calls {
            for wanted in [1_000_000, 0, u64::MAX, u64::MAX] {
                raw.extend(call, wanted);
                assert_eq!(raw.expect_about(Kind::Extended, call), 0);
            }
        }
        raw.add(1);
    });
    assert_eq!(ends.get("Misbehaved"), None, "{ends:?}");
}

/// Answers that nobody waits for change nothing, neither before a question nor behind its answer.
#[test]
fn answers_that_nobody_asked_for_do_nothing() {
    if !crate::common::shares_memory("the peers of this test write into shared lanes") {
        return;
    }
    let (ends, _) = against("answers", |place| {
        let raw = connect(place);
        raw.add(0);
        let minute = 60_000_000;
        for call in [number(0), number(9), CallNumber::new(u32::MAX, 7)] {
            for time in [0, minute, u64::MAX] {
                raw.extended(call, time);
            }
        }
        // A wish that is granted twice: the second grant finds no waiter, and neither does one behind the end.
        raw.stretch(number(1), 2 * minute);
        assert!(raw.expect_about(Kind::Extend, number(1)) > 0);
        raw.extended(number(1), 10 * minute);
        raw.extended(number(1), 100 * minute);
        let left = raw.expect_about(Kind::Reply, number(1));
        assert!(2 * minute < left && left <= 10 * minute, "{left}");
        raw.extended(number(1), 100 * minute);
        // A wish that is refused twice.
        raw.stretch(number(2), minute);
        raw.expect_about(Kind::Extend, number(2));
        raw.extended(number(2), 0);
        raw.extended(number(2), 100 * minute);
        assert_eq!(raw.expect_about(Kind::Reply, number(2)), 0);
        // A call that is given all the time that there is, and a call that is given less than it has.
        raw.stretch(number(3), minute);
        raw.expect_about(Kind::Extend, number(3));
        raw.extended(number(3), u64::MAX);
        assert!(raw.expect_about(Kind::Reply, number(3)) > 100 * minute);
        raw.stretch(number(4), minute);
        raw.expect_about(Kind::Extend, number(4));
        raw.extended(number(4), 1);
        let left = raw.expect_about(Kind::Reply, number(4));
        assert!(1 < left && left <= minute, "{left}");
        // A call whose question is not answered ends at its deadline, and the answer comes too late.
        raw.stretch(number(5), 20_000);
        raw.expect_about(Kind::Extend, number(5));
        raw.expect_about(Kind::Failed, number(5));
        raw.extended(number(5), 100 * minute);
        raw.add(6);
    });
    assert_eq!(ends.get("Misbehaved"), None, "{ends:?}");
}
