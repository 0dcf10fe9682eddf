//! Tests of flow control between two correct sides by generated acts, and of each rule that a peer can break.

mod pair;

use proptest::prelude::*;

use super::*;
use crate::limits::{
    GRANTS_AHEAD, MEDIUM_BYTES_MAX, OPTIMISM, PLACES_MAX, PLACES_RESERVED, SHORT_BYTES,
    WAITERS_AHEAD_BYTES,
};
use pair::{Pair, act};

const MEDIUM: u64 = Budget::price(1000);

fn long() -> u64 {
    Budget::price(MEDIUM_BYTES_MAX + 1)
}

fn budgets(node: u64, share: u64) -> (Budget, Share) {
    (Budget::new(node), Share::new(share))
}

fn stray_nack(number: u64) -> Rule {
    stray_place(Kind::Nack, number)
}

fn stray_grant(number: u64) -> Rule {
    stray_place(Kind::Grant, number)
}

proptest! {
    /// Between correct sides no rule is broken, requests are accepted in order and once, no request is lost,
    /// places are bounded, and every charge is released.
    #[test]
    fn every_sent_request_is_accepted_once_and_in_order(
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

    /// Anything that a peer sends gives a rule, or leaves both sides within their bounds.
    #[test]
    fn a_hostile_peer_breaks_rules_and_no_bounds(
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
                2 => sender.handle_progress(number).map(drop),
                3 if sender.way(1000) == SendMode::Reserve => {
                    sender.reserved();
                    Ok(())
                },
                4 if sender.way(8) != SendMode::Wait => {
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
fn a_refusal_or_grant_of_a_request_in_another_state_is_a_fault() {
    let mut sender = Sender::new(true);
    assert_eq!(sender.refused(0), Err(stray_nack(0)));
    assert_eq!(sender.granted(0), Err(stray_grant(0)));
    assert_eq!((sender.sent(), sender.reserved()), (0, 1));
    assert_eq!(sender.granted(0), Err(stray_grant(0)), "the request did not ask for room");
    assert_eq!(sender.refused(1), Err(stray_nack(1)), "the request was not sent");
    assert_eq!(sender.refused(0), Ok(()));
    assert_eq!(sender.refused(0), Err(stray_nack(0)), "twice");
    assert_eq!(sender.granted(0), Err(stray_grant(0)), "the receiver fetches a refused request");
    assert_eq!(sender.granted(1), Ok(true));
    assert_eq!(sender.granted(1), Err(stray_grant(1)), "twice");
    sender.transferred(1);
    assert_eq!(sender.granted(1), Err(stray_grant(1)), "after the transfer");
    assert_eq!(sender.refused(1), Err(stray_nack(1)), "after a grant");
    assert!(!sender.withdraw(1), "after the transfer");
}

#[test]
fn a_request_is_withdrawn_once_and_may_still_be_granted() {
    let mut sender = Sender::new(true);
    let (first, second) = (sender.reserved(), sender.reserved());
    assert!(sender.withdraw(first) && !sender.withdraw(first));
    assert_eq!(sender.granted(first), Ok(false));
    assert_eq!(sender.granted(second), Ok(true));
    assert!(sender.withdraw(second));
}

/// The receiver's progress is a word in memory that may be seen before frames that were written earlier.
#[test]
fn progress_may_be_seen_before_earlier_frames() {
    let mut sender = Sender::new(true);
    let (medium, long) = (sender.sent(), sender.reserved());
    assert!(sender.withdraw(long));
    assert_eq!(sender.handle_progress(2), Ok(true));
    assert_eq!(sender.refused(medium), Ok(()));
    assert_eq!(sender.granted(long), Ok(false));
    assert_eq!(sender.open(), 0);
}

#[test]
fn progress_is_monotone_and_never_beyond_sent_requests() {
    let mut sender = Sender::new(true);
    assert_eq!((sender.sent(), sender.reserved()), (0, 1));
    assert_eq!(sender.handle_progress(3), Err(Rule::CreditAhead { seen: 3, out: 2 }));
    assert_eq!(sender.handle_progress(2), Err(Rule::CreditAhead { seen: 2, out: 1 }));
    assert_eq!((sender.handle_progress(1), sender.handle_progress(1)), (Ok(true), Ok(false)));
    assert_eq!(sender.handle_progress(0), Err(Rule::CreditBackwards { seen: 0, before: 1 }));
    assert_eq!(sender.granted(1), Ok(true));
    assert_eq!(sender.handle_progress(2), Err(Rule::CreditAhead { seen: 2, out: 1 }));
    sender.transferred(1);
    assert_eq!(sender.handle_progress(2), Ok(true));
}

#[test]
fn an_accepted_request_leaves_no_state() {
    let mut sender = Sender::with_window(100, 1);
    for number in 0..100 {
        sender.sent();
        assert_eq!((sender.refused(number), sender.is_calm()), (Ok(()), false));
        assert_eq!((sender.handle_progress(number + 1), sender.special()), (Ok(true), 0));
        assert!(sender.is_calm());
    }
}

#[test]
fn beyond_the_threshold_short_requests_take_the_reserved_room() {
    let mut sender = Sender::new(true);
    for _ in 0..OPTIMISM {
        assert_eq!((sender.way(SHORT_BYTES), sender.way(1 << 20)), (SendMode::Go, SendMode::Go));
        sender.sent();
    }
    for _ in 0..PLACES_RESERVED {
        let ways = [SHORT_BYTES, SHORT_BYTES + 1].map(|bytes| sender.way(bytes));
        assert_eq!(ways, [SendMode::Go, SendMode::Reserve]);
        sender.sent();
    }
    assert_eq!([SHORT_BYTES, 1 << 20].map(|bytes| sender.way(bytes)), [SendMode::Wait; 2]);
    assert_eq!(sender.open() as usize, PLACES_MAX);
    assert_eq!(Sender::new(false).way(SHORT_BYTES + 1), SendMode::Reserve);
}

#[test]
fn a_place_is_filled_once_by_a_granted_request() {
    let mut receiver = Receiver::new();
    let (mut node, mut share) = budgets(1 << 20, 1 << 20);
    let stray = stray_place(Kind::Call, 0);
    assert_eq!(receiver.fill(0, 'a', 1), Err(stray), "there is no place");
    assert_eq!(receiver.await_grant(100), Ok(0));
    assert_eq!(receiver.fill(0, 'a', 1), Err(stray), "the request was not granted");
    assert_eq!(receiver.step(&mut node, &mut share), Some(ReceiverAction::Grant(0)));
    assert_eq!(receiver.step(&mut node, &mut share), None);
    let beyond = Rule::BeyondReserved { len: 101, reserved: 100 };
    assert_eq!(receiver.fill(0, 'a', 101), Err(beyond));
    assert_eq!((receiver.fill(0, 'a', 100), share.held()), (Ok(()), 100));
    assert_eq!(receiver.fill(0, 'b', 100), Err(stray), "twice");
    let accepted = ReceiverAction::Accept { request: 'a', bytes: 100 };
    assert_eq!(receiver.step(&mut node, &mut share), Some(accepted));
    assert_eq!((receiver.fill(0, 'b', 1), share.held()), (Err(stray), 0));
}

#[test]
fn a_withdrawn_place_releases_its_charge_once() {
    let mut receiver = Receiver::new();
    let (mut node, mut share) = budgets(1 << 20, 1 << 20);
    let none = Err(stray_place(Kind::Withdraw, 1));
    assert_eq!(receiver.void(1, &mut node, &mut share), none);
    for _ in 0..3 {
        receiver.await_grant(100).unwrap();
    }
    for number in 0..3 {
        assert_eq!(receiver.step(&mut node, &mut share), Some(ReceiverAction::Grant(number)));
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
fn grants_are_bounded_and_wait_behind_requests_that_wait_for_room() {
    let mut receiver = Receiver::<char>::new();
    let (mut node, mut share) = budgets(1 << 20, 1 << 20);
    for _ in 0..2 * GRANTS_AHEAD {
        receiver.await_grant(10).unwrap();
    }
    for number in 0..GRANTS_AHEAD as u64 {
        assert_eq!(receiver.step(&mut node, &mut share), Some(ReceiverAction::Grant(number)));
    }
    assert_eq!(receiver.step(&mut node, &mut share), None);

    let (mut node, mut share) = budgets(100, 100);
    let mut receiver = Receiver::new();
    node.charge(&mut share, 100);
    receiver.keep('a', 10).unwrap();
    receiver.await_grant(10).unwrap();
    assert_eq!(receiver.step(&mut node, &mut share), None);
    node.release(&mut share, 100);
    let accepted = ReceiverAction::Accept { request: 'a', bytes: 10 };
    assert_eq!(receiver.step(&mut node, &mut share), Some(accepted));
    assert_eq!(receiver.step(&mut node, &mut share), Some(ReceiverAction::Grant(1)));
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
fn clearing_a_receiver_releases_all_charges() {
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
fn a_session_that_holds_nothing_is_admitted_unless_its_request_is_long() {
    let (mut node, mut one) = budgets(100, 60);
    let other = Share::new(60);
    assert!(node.admits(&one, long()), "any request is admitted while there is room");
    node.charge(&mut one, 60);
    assert!(
        !node.admits(&one, 1) && node.admits(&other, long()),
        "the first session's share is used up"
    );
    node.charge(&mut one, 40);
    assert!(node.admits(&other, MEDIUM) && !node.admits(&other, long()));
}

#[test]
fn a_session_that_holds_only_waiters_is_admitted_up_to_a_bound() {
    let (mut node, mut one) = budgets(100, 2 * WAITERS_AHEAD_BYTES);
    node.charge(&mut one, 100);
    assert!(!node.admits(&one, MEDIUM));
    one.begin_waiting(100);
    assert!(node.admits(&one, MEDIUM) && !node.admits(&one, long()));
    node.charge(&mut one, WAITERS_AHEAD_BYTES - 100);
    assert!(!node.admits(&one, 1), "a handler that waits for nobody is among them");
    one.begin_waiting(WAITERS_AHEAD_BYTES - 100);
    assert!(!node.admits(&one, 1), "as many bytes wait as may");
    one.end_waiting(100);
    node.release(&mut one, 100);
    assert!(node.admits(&one, 1));
}

#[test]
#[should_panic(expected = "more is released than was charged")]
fn releasing_more_than_was_charged_panics() {
    let (mut node, mut share) = budgets(100, 100);
    node.charge(&mut share, 5);
    node.release(&mut share, 6);
}

/// Arguments that take much more memory than the budget of the node take their session's share of it.
#[test]
fn the_memory_of_one_request_fills_no_node() {
    let (mut node, mut one) = budgets(4000, 1000);
    node.charge(&mut one, Budget::price_in_memory(100, 64_000, 1000));
    assert!(!node.admits(&one, MEDIUM) && node.has_room());
    assert_eq!(Budget::price_in_memory(100, 500, 1000), Budget::price(500));
    assert_eq!(Budget::price_in_memory(2000, 64_000, 1000), Budget::price(2000));
}
