//! Flow control between two honest sides by generated acts, and each rule that a peer can break.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::limits::{
    GRANTS_AHEAD, MEDIUM_BYTES_MAX, OPTIMISM, PLACES_MAX, PLACES_RESERVED, SHORT_BYTES,
};

const MEDIUM: u64 = Budget::price(1000);

fn long() -> u64 {
    Budget::price(MEDIUM_BYTES_MAX + 1)
}

fn budgets(node: u64, share: u64) -> (Budget, Share) {
    (Budget::new(node), Share::new(share))
}

fn stray_nack(number: u64) -> Rule {
    stray(Kind::Nack, number)
}

fn stray_grant(number: u64) -> Rule {
    stray(Kind::Grant, number)
}

/// What goes from the sender to the receiver, in order.
#[derive(Clone, Copy, Debug)]
enum Forth {
    Request { id: u64, bytes: usize },
    Reserve { bytes: usize },
    Transfer { number: u64, id: u64 },
    Withdraw(u64),
}

/// What goes back, in order.
#[derive(Clone, Copy, Debug)]
enum Back {
    Nack(u64),
    Grant(u64),
    Progress(u64),
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Send(usize),
    Withdraw(usize),
    Hear,
    Tell,
    Step,
    Finish,
    Progress,
    Cancel(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => prop_oneof![Just(8), Just(1000), Just(MEDIUM_BYTES_MAX + 1)].prop_map(Act::Send),
        1 => any::<usize>().prop_map(Act::Withdraw),
        6 => Just(Act::Hear),
        4 => Just(Act::Tell),
        4 => Just(Act::Step),
        2 => Just(Act::Finish),
        1 => Just(Act::Progress),
        1 => any::<u64>().prop_map(Act::Cancel),
    ]
}

/// Two sides and what is under way between them.
struct Pair {
    sender: Sender,
    receiver: Receiver<u64>,
    node: Budget,
    share: Share,
    forth: VecDeque<Forth>,
    back: VecDeque<Back>,
    next: u64,
    /// Requests that were sent or are reserved: number, identity, and whether it has not gone.
    kept: Vec<(u64, u64, bool)>,
    withdrawn: Vec<u64>,
    accepted: Vec<u64>,
    /// Whether progress is seen ahead of frames.
    ahead: bool,
    running: VecDeque<u64>,
    optimistic: usize,
    places: usize,
}

impl Pair {
    fn new(ahead: bool, window: (usize, usize), limit: (u64, u64)) -> Pair {
        let (node, share) = budgets(limit.0, limit.1);
        Pair {
            sender: Sender::with_window(window.0, window.1),
            receiver: Receiver::with_places(window.0 + window.1),
            node,
            share,
            forth: VecDeque::new(),
            back: VecDeque::new(),
            next: 0,
            kept: Vec::new(),
            withdrawn: Vec::new(),
            accepted: Vec::new(),
            ahead,
            running: VecDeque::new(),
            optimistic: window.0,
            places: window.0 + window.1,
        }
    }

    fn send(&mut self, bytes: usize) {
        let id = self.next;
        let open = self.sender.open();
        match self.sender.way(bytes) {
            Way::Wait => {
                assert!(open >= self.places as u64);
                return;
            }
            Way::Reserve => {
                let number = self.sender.reserved();
                self.kept.push((number, id, true));
                self.forth.push_back(Forth::Reserve { bytes });
            }
            Way::Go => {
                assert!(open < self.optimistic as u64 || bytes <= SHORT_BYTES);
                let number = self.sender.sent();
                self.kept.push((number, id, false));
                self.forth.push_back(Forth::Request { id, bytes });
            }
        }
        self.next += 1;
    }

    fn withdraw(&mut self, at: usize) {
        let Some(&(number, id, waits)) = self.kept.get(at % self.kept.len().max(1)) else { return };
        let told = self.sender.withdraw(number);
        assert!(!told || waits, "what has gone cannot be withdrawn");
        if told {
            self.withdrawn.push(id);
            self.kept.retain(|&(other, ..)| other != number);
            self.forth.push_back(Forth::Withdraw(number));
        }
    }

    fn hear(&mut self) -> Result<(), Rule> {
        match self.forth.pop_front() {
            None => {}
            Some(Forth::Request { id, bytes }) => {
                let price = Budget::price(bytes);
                if self.receiver.waiting() == 0 && self.node.admits(&self.share, price) {
                    self.receiver.accept(1);
                    self.accept(id, price);
                } else {
                    let number = self.receiver.keep(id, price)?;
                    if bytes > SHORT_BYTES {
                        self.back.push_back(Back::Nack(number));
                    }
                }
            }
            Some(Forth::Reserve { bytes }) => {
                self.receiver.await_grant(Budget::price(bytes))?;
            }
            Some(Forth::Transfer { number, id }) => self.receiver.fill(number, id, 1)?,
            Some(Forth::Withdraw(number)) => {
                let left = self.receiver.void(number, &mut self.node, &mut self.share)?;
                assert_eq!(left, None);
            }
        }
        Ok(())
    }

    fn accept(&mut self, id: u64, bytes: u64) {
        self.accepted.push(id);
        self.node.charge(&mut self.share, bytes);
        self.running.push_back(bytes);
    }

    fn tell(&mut self) -> Result<(), Rule> {
        match self.back.pop_front() {
            None => {}
            Some(Back::Nack(number)) => self.sender.refused(number)?,
            Some(Back::Progress(accepted)) => {
                self.sender.heard(accepted)?;
            }
            Some(Back::Grant(number)) => {
                if !self.sender.granted(number)? {
                    return Ok(());
                }
                let kept = self.kept.iter_mut().find(|(other, ..)| *other == number);
                let (_, id, waits) = kept.expect("a grant of a request that was kept");
                assert!(std::mem::take(waits), "a request is granted that has gone");
                self.sender.transferred(number);
                self.forth.push_back(Forth::Transfer { number, id: *id });
            }
        }
        Ok(())
    }

    fn step(&mut self) -> bool {
        match self.receiver.step(&mut self.node, &mut self.share) {
            None => return false,
            Some(Step::Grant(number)) => self.back.push_back(Back::Grant(number)),
            Some(Step::Accept { request, bytes }) => self.accept(request, bytes),
        }
        true
    }

    fn finish(&mut self) {
        if let Some(bytes) = self.running.pop_front() {
            self.node.release(&mut self.share, bytes);
        }
    }

    fn act(&mut self, act: Act) -> Result<(), Rule> {
        match act {
            Act::Send(bytes) => self.send(bytes),
            Act::Withdraw(at) => self.withdraw(at),
            Act::Hear => self.hear()?,
            Act::Tell => self.tell()?,
            Act::Step => {
                self.step();
            }
            Act::Finish => self.finish(),
            // In memory it may be seen at once, ahead of what is under way.
            Act::Progress if self.back.is_empty() || self.ahead => {
                self.sender.heard(self.receiver.accepted())?;
            }
            Act::Progress => self.back.push_back(Back::Progress(self.receiver.accepted())),
            Act::Cancel(id) => {
                if let Some(number) = self.receiver.find(|&other| other == id) {
                    let left = self.receiver.void(number, &mut self.node, &mut self.share)?;
                    assert_eq!(left, Some(id));
                    self.withdrawn.push(id);
                }
            }
        }
        Ok(())
    }

    /// Until nothing is left to do.
    fn settle(&mut self) -> Result<(), Rule> {
        while !self.forth.is_empty() || !self.back.is_empty() || self.receiver.waiting() > 0 {
            let mut busy = !self.forth.is_empty() || !self.back.is_empty();
            self.hear()?;
            self.tell()?;
            while self.step() {
                busy = true;
            }
            let idle = self.running.is_empty() && self.receiver.waiting() > 0;
            assert!(busy || !idle, "nothing runs, and requests wait");
            self.finish();
        }
        while !self.running.is_empty() {
            self.finish();
        }
        self.sender.heard(self.receiver.accepted())?;
        Ok(())
    }
}

proptest! {
    /// Between honest sides no rule is broken, requests are accepted in order and once, none is
    /// lost, places are bounded, and every budget comes back.
    #[test]
    fn all_that_was_sent_is_accepted_in_order(
        acts in prop::collection::vec(act(), 0..400),
        ahead: bool,
        optimistic in 0..6usize,
        reserved in 1..4usize,
        (node, share) in prop_oneof![Just((1, 1)), Just((3000, 2000)), Just((1 << 20, 1 << 18))],
    ) {
        let mut pair = Pair::new(ahead, (optimistic, reserved), (node, share));
        for act in acts {
            prop_assert_eq!(pair.act(act), Ok(()), "{:?}", act);
            prop_assert!(pair.receiver.waiting() <= pair.places);
            let most = share.min(node) + long();
            prop_assert!(pair.share.held() < most, "{} held", pair.share.held());
        }
        prop_assert_eq!(pair.settle(), Ok(()));
        let wanted: Vec<u64> = (0..pair.next).filter(|id| !pair.withdrawn.contains(id)).collect();
        prop_assert_eq!(&pair.accepted, &wanted);
        prop_assert_eq!((pair.node.held(), pair.share.held(), pair.sender.open()), (0, 0, 0));
    }

    /// Whatever a peer says gives a rule or leaves both sides within their bounds.
    #[test]
    fn a_hostile_peer_meets_rules(
        says in prop::collection::vec((0..9u8, prop_oneof![0..12u64, any::<u64>()]), 0..200),
    ) {
        let mut sender = Sender::with_window(4, 4);
        let mut receiver = Receiver::with_places(8);
        let (mut node, mut share) = budgets(5000, 3000);
        for (what, number) in says {
            let _ = match what {
                0 => sender.refused(number),
                1 => sender.granted(number).map(|wanted| {
                    if wanted {
                        sender.transferred(number);
                    }
                }),
                2 => sender.heard(number).map(drop),
                3 if sender.way(1000) == Way::Reserve => {
                    sender.reserved();
                    Ok(())
                },
                4 if sender.way(8) != Way::Wait => {
                    sender.sent();
                    Ok(())
                },
                5 => receiver.await_grant(number % 4096).map(drop),
                6 => receiver.fill(number, number, number),
                7 => receiver.void(number, &mut node, &mut share).map(drop),
                8 => receiver.keep(number, number % 4096).map(drop),
                _ => {
                    while receiver.step(&mut node, &mut share).is_some() {}
                    Ok(())
                }
            };
            prop_assert!(sender.open() <= 8 && sender.safe() <= sender.out());
            prop_assert!(sender.special() as u64 <= sender.open() && receiver.waiting() <= 8);
            prop_assert!(receiver.granted <= GRANTS_AHEAD && share.held() == node.held());
        }
        receiver.clear(&mut node, &mut share);
        prop_assert_eq!((node.held(), share.held(), receiver.waiting()), (0, 0, 0));
    }
}

#[test]
fn what_is_not_on_its_way_is_neither_refused_nor_granted() {
    let mut sender = Sender::new(true);
    assert_eq!(sender.refused(0), Err(stray_nack(0)));
    assert_eq!(sender.granted(0), Err(stray_grant(0)));
    assert_eq!((sender.sent(), sender.reserved()), (0, 1));
    assert_eq!(sender.granted(0), Err(stray_grant(0)), "nobody has refused it");
    assert_eq!(sender.refused(1), Err(stray_nack(1)), "nobody has seen it");
    assert_eq!(sender.refused(0), Ok(()));
    assert_eq!(sender.refused(0), Err(stray_nack(0)), "twice");
    assert_eq!(sender.granted(0), Err(stray_grant(0)), "its receiver fetches it");
    assert_eq!(sender.granted(1), Ok(true));
    assert_eq!(sender.granted(1), Err(stray_grant(1)), "twice");
    sender.transferred(1);
    assert_eq!(sender.granted(1), Err(stray_grant(1)), "after it has gone");
    assert_eq!(sender.refused(1), Err(stray_nack(1)), "with room kept for it");
    assert!(!sender.withdraw(1), "after it has gone");
}

#[test]
fn what_was_withdrawn_is_withdrawn_once_and_may_still_be_granted() {
    let mut sender = Sender::new(true);
    let (first, second) = (sender.reserved(), sender.reserved());
    assert!(sender.withdraw(first) && !sender.withdraw(first));
    assert_eq!(sender.granted(first), Ok(false));
    assert_eq!(sender.granted(second), Ok(true));
    assert!(sender.withdraw(second));
}

/// The receiver's progress is a word that is seen before frames that were written first.
#[test]
fn progress_may_be_seen_before_what_led_to_it() {
    let mut sender = Sender::new(true);
    let (medium, long) = (sender.sent(), sender.reserved());
    assert!(sender.withdraw(long));
    assert_eq!(sender.heard(2), Ok(true));
    assert_eq!(sender.refused(medium), Ok(()));
    assert_eq!(sender.granted(long), Ok(false));
    assert_eq!(sender.open(), 0);
}

#[test]
fn progress_is_monotone_and_passes_nothing_that_has_not_gone() {
    let mut sender = Sender::new(true);
    assert_eq!((sender.sent(), sender.reserved()), (0, 1));
    assert_eq!(sender.heard(3), Err(Rule::CreditAhead { seen: 3, out: 2 }));
    assert_eq!(sender.heard(2), Err(Rule::CreditAhead { seen: 2, out: 1 }));
    assert_eq!((sender.heard(1), sender.heard(1)), (Ok(true), Ok(false)));
    assert_eq!(sender.heard(0), Err(Rule::CreditBackwards { seen: 0, before: 1 }));
    assert_eq!(sender.granted(1), Ok(true));
    assert_eq!(sender.heard(2), Err(Rule::CreditAhead { seen: 2, out: 1 }));
    sender.transferred(1);
    assert_eq!(sender.heard(2), Ok(true));
}

#[test]
fn what_is_known_of_requests_ends_with_them() {
    let mut sender = Sender::with_window(100, 1);
    for number in 0..100 {
        sender.sent();
        assert_eq!((sender.refused(number), sender.is_calm()), (Ok(()), false));
        assert_eq!((sender.heard(number + 1), sender.special()), (Ok(true), 0));
        assert!(sender.is_calm());
    }
}

#[test]
fn past_the_threshold_short_ones_take_the_reserved_room() {
    let mut sender = Sender::new(true);
    for _ in 0..OPTIMISM {
        assert_eq!((sender.way(SHORT_BYTES), sender.way(1 << 20)), (Way::Go, Way::Go));
        sender.sent();
    }
    for _ in 0..PLACES_RESERVED {
        let ways = [SHORT_BYTES, SHORT_BYTES + 1].map(|bytes| sender.way(bytes));
        assert_eq!(ways, [Way::Go, Way::Reserve]);
        sender.sent();
    }
    assert_eq!([SHORT_BYTES, 1 << 20].map(|bytes| sender.way(bytes)), [Way::Wait; 2]);
    assert_eq!(sender.open() as usize, PLACES_MAX);
    assert_eq!(Sender::new(false).way(SHORT_BYTES + 1), Way::Reserve);
}

#[test]
fn a_place_is_filled_once_by_what_was_granted() {
    let mut receiver = Receiver::new();
    let (mut node, mut share) = budgets(1 << 20, 1 << 20);
    let stray = stray(Kind::Call, 0);
    assert_eq!(receiver.fill(0, 'a', 1), Err(stray), "there is no place");
    assert_eq!(receiver.await_grant(100), Ok(0));
    assert_eq!(receiver.fill(0, 'a', 1), Err(stray), "it was not granted");
    assert_eq!(receiver.step(&mut node, &mut share), Some(Step::Grant(0)));
    assert_eq!(receiver.step(&mut node, &mut share), None);
    let beyond = Rule::BeyondReserved { len: 101, reserved: 100 };
    assert_eq!(receiver.fill(0, 'a', 101), Err(beyond));
    assert_eq!((receiver.fill(0, 'a', 100), share.held()), (Ok(()), 100));
    assert_eq!(receiver.fill(0, 'b', 100), Err(stray), "twice");
    let accepted = Step::Accept { request: 'a', bytes: 100 };
    assert_eq!(receiver.step(&mut node, &mut share), Some(accepted));
    assert_eq!((receiver.fill(0, 'b', 1), share.held()), (Err(stray), 0));
}

#[test]
fn a_void_place_gives_its_charge_back_once() {
    let mut receiver = Receiver::new();
    let (mut node, mut share) = budgets(1 << 20, 1 << 20);
    let none = Err(stray(Kind::Withdraw, 1));
    assert_eq!(receiver.void(1, &mut node, &mut share), none);
    for _ in 0..3 {
        receiver.await_grant(100).unwrap();
    }
    for number in 0..3 {
        assert_eq!(receiver.step(&mut node, &mut share), Some(Step::Grant(number)));
    }
    receiver.fill(2, 'c', 100).unwrap();
    assert_eq!((share.held(), node.held()), (300, 300));
    assert_eq!(receiver.void(1, &mut node, &mut share), Ok(None));
    assert_eq!(receiver.void(1, &mut node, &mut share), none, "twice");
    assert_eq!(receiver.void(2, &mut node, &mut share), Ok(Some('c')));
    assert_eq!(share.held(), 100);
    assert_eq!(receiver.void(0, &mut node, &mut share), Ok(None));
    assert_eq!(receiver.step(&mut node, &mut share), None);
    assert_eq!((receiver.accepted(), receiver.waiting(), share.held(), node.held()), (3, 0, 0, 0));
}

#[test]
fn grants_are_few_ahead_and_behind_nothing_that_waits_for_room() {
    let mut receiver = Receiver::<char>::new();
    let (mut node, mut share) = budgets(1 << 20, 1 << 20);
    for _ in 0..2 * GRANTS_AHEAD {
        receiver.await_grant(10).unwrap();
    }
    for number in 0..GRANTS_AHEAD as u64 {
        assert_eq!(receiver.step(&mut node, &mut share), Some(Step::Grant(number)));
    }
    assert_eq!(receiver.step(&mut node, &mut share), None);

    let (mut node, mut share) = budgets(100, 100);
    let mut receiver = Receiver::new();
    node.charge(&mut share, 100);
    receiver.keep('a', 10).unwrap();
    receiver.await_grant(10).unwrap();
    assert_eq!(receiver.step(&mut node, &mut share), None);
    node.release(&mut share, 100);
    let accepted = Step::Accept { request: 'a', bytes: 10 };
    assert_eq!(receiver.step(&mut node, &mut share), Some(accepted));
    assert_eq!(receiver.step(&mut node, &mut share), Some(Step::Grant(1)));
}

#[test]
fn places_are_bounded() {
    let mut receiver = Receiver::new();
    for number in 0..PLACES_MAX as u64 {
        assert_eq!(receiver.keep((), 1), Ok(number));
    }
    let rule = Rule::TooManyPlaces { max: PLACES_MAX as u32 };
    assert_eq!((receiver.keep((), 1), receiver.await_grant(1)), (Err(rule), Err(rule)));
}

#[test]
fn what_ends_gives_everything_back() {
    let mut receiver = Receiver::new();
    let (mut node, mut share) = budgets(1 << 20, 1 << 20);
    for _ in 0..3 {
        receiver.await_grant(10).unwrap();
    }
    for _ in 0..2 {
        assert!(receiver.step(&mut node, &mut share).is_some());
    }
    receiver.fill(1, 'b', 10).unwrap();
    receiver.keep('d', 10).unwrap();
    assert_eq!(receiver.clear(&mut node, &mut share), ['b', 'd']);
    assert_eq!((share.held(), node.held(), receiver.waiting()), (0, 0, 0));
}

#[test]
fn a_session_that_holds_nothing_is_admitted_unless_it_asks_for_much() {
    let (mut node, mut one) = budgets(100, 60);
    let other = Share::new(60);
    assert!(node.admits(&one, long()), "while there is room, whatever it takes");
    node.charge(&mut one, 60);
    assert!(!node.admits(&one, 1) && node.admits(&other, long()), "its share is taken");
    node.charge(&mut one, 40);
    assert!(node.admits(&other, MEDIUM) && !node.admits(&other, long()));
}

#[test]
#[should_panic(expected = "more is given back than was taken")]
fn more_than_was_taken_is_not_given_back() {
    let (mut node, mut share) = budgets(100, 100);
    node.charge(&mut share, 5);
    node.release(&mut share, 6);
}
