//! Tests of queued senders, unused grants and copies: against plain models, and rule by rule.

use super::*;
use crate::fault::Rule;
use crate::flow::{Budget, ReceiverAction, Share};
use crate::limits::{
    CALLS_PER_SESSION_MAX, COPIED_BYTES_MAX, FLUSH_MESSAGES, GRANT_KEPT_NS, IN_RING_BYTES_MAX,
    MEDIUM_BYTES_MAX, PLACES_MAX, SESSION_BUDGET_BYTES,
};
use proptest::prelude::*;

fn outbound(optimism: usize, reserved: usize, copied: usize) -> Outbound<u32> {
    Outbound::new(Bounds { optimism, reserved, copied, grant_kept: GRANT_KEPT_NS })
}

/// Returns the senders that are woken for new room.
fn woken(outbound: &Outbound<u32>, now: u64) -> Vec<u32> {
    let mut woken = Vec::new();
    outbound.room_came(now, |who| woken.push(*who));
    woken
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Stand(usize),
    Leave(usize),
    Wake(usize),
    Round,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..80usize).prop_map(Act::Stand),
        2 => (0..80usize).prop_map(Act::Leave),
        1 => (0..40usize).prop_map(Act::Wake),
        1 => Just(Act::Round),
    ]
}

proptest! {
    /// For any order of arriving, leaving, waking and responding: the first in the queue is the sender with the
    /// lowest ticket that has not lost its turn, and only that sender is in its turn.
    #[test]
    fn a_queue_is_a_sorted_list_of_responding_senders(acts in prop::collection::vec(act(), 0..200)) {
        let line = SenderQueue::new();
        // For each sender: its ticket, whether it is queued, and the round in which it was woken.
        let mut senders: Vec<(u64, bool, Option<u64>)> = Vec::new();
        let mut round = 0;
        for act in acts {
            let note = |senders: &mut Vec<(u64, bool, Option<u64>)>, who: usize, round| {
                senders[who].2.get_or_insert(round);
            };
            match act {
                Act::Stand(at) if at < senders.len() => {
                    let ticket = senders[at].0;
                    prop_assert_eq!(line.stand(Some(ticket), &at), ticket);
                    senders[at] = (ticket, true, None);
                }
                Act::Stand(_) => {
                    let ticket = line.stand(None, &senders.len());
                    prop_assert!(senders.iter().all(|(other, ..)| *other < ticket));
                    senders.push((ticket, true, None));
                }
                Act::Leave(at) if at < senders.len() => {
                    let first = senders.iter().position(|sender| sender.1);
                    let mut next = Vec::new();
                    line.leave(senders[at].0, |who| next.push(who));
                    senders[at].1 = false;
                    let standing: Vec<_> = (0..senders.len()).filter(|&at| senders[at].1).collect();
                    let expected = [standing.first(), standing.get(FLUSH_MESSAGES - 1)];
                    let expected: Vec<usize> = match first == Some(at) {
                        true => expected.into_iter().flatten().copied().collect(),
                        false => Vec::new(),
                    };
                    prop_assert_eq!(&next, &expected);
                    expected.into_iter().for_each(|who| note(&mut senders, who, round));
                }
                Act::Leave(_) => {}
                Act::Wake(most) => {
                    let standing = (0..senders.len()).filter(|&at| senders[at].1);
                    let expected: Vec<_> = standing.take(most.min(FLUSH_MESSAGES)).collect();
                    let mut woken = Vec::new();
                    line.wake_first(most, |who| woken.push(*who));
                    prop_assert_eq!(&woken, &expected);
                    woken.into_iter().for_each(|who| note(&mut senders, who, round));
                }
                Act::Round => {
                    round += 1;
                    let mut passed = false;
                    let standing: Vec<_> = (0..senders.len()).filter(|&at| senders[at].1).collect();
                    for at in standing.into_iter().take(4 * FLUSH_MESSAGES) {
                        if senders[at].2.is_some_and(|woken| woken + 2 <= round) {
                            senders[at].1 = false;
                            passed = true;
                        }
                    }
                    prop_assert_eq!(line.skip_unresponsive(), passed);
                }
            }
            let standing: Vec<u64> =
                senders.iter().filter(|sender| sender.1).map(|sender| sender.0).collect();
            prop_assert_eq!((line.len(), line.has_waiters()), (standing.len(), !standing.is_empty()));
            prop_assert!(line.has_waiters() || !line.has_woken(), "its owner would never sleep");
            for &(ticket, stands, _) in &senders {
                line.take_turn(Some(ticket));
                prop_assert_eq!(line.has(ticket), stands);
                prop_assert_eq!(line.is_in_turn(), standing.iter().all(|first| ticket <= *first));
            }
            line.take_turn(None);
            prop_assert_eq!(line.is_in_turn(), standing.is_empty());
        }
    }
}

#[test]
fn a_request_waits_behind_queued_senders_and_there_is_no_credit() {
    let outbound = outbound(2, 1, 1 << 20);
    for _ in 0..3 {
        assert!(outbound.has_credit());
        outbound.went();
    }
    assert!(!outbound.has_credit());
    assert_eq!(outbound.admits(|| 0), Ok(false), "three are on their way");
    let first = outbound.stand(None, &1);
    assert!(!outbound.has_room(true, || 0, || false, || false));
    assert!(outbound.has_room(true, || 1, || false, || false), "one request was accepted");
    assert_eq!(woken(&outbound, 0), [1]);
    assert_eq!(outbound.admits(|| 1), Ok(false), "it is not the turn of the other sender");
    assert!(!outbound.has_credit());
    outbound.line().take_turn(Some(first));
    assert_eq!(outbound.admits(|| 1), Ok(true));
    outbound.record_sent_slowly();
    outbound.line().take_turn(None);
    assert!(outbound.handle_progress(2).unwrap() > 0 && !outbound.has_credit(), "a sender stands");
    outbound.leave(first, |_| panic!("no other sender is queued"));
    assert_eq!((outbound.handle_progress(3), outbound.has_credit()), (Ok(2), true));
    assert_eq!(outbound.handle_progress(5), Err(Rule::CreditAhead { seen: 5, out: 4 }));
}

#[test]
fn no_request_is_sent_before_waiting_frames() {
    let outbound = outbound(8, 1, 1 << 20);
    outbound.set_barred(true);
    assert!(!outbound.has_credit() && !outbound.admits_granted());
    assert_eq!(outbound.admits(|| 0), Ok(false));
    assert!(!outbound.has_room(false, || 0, || true, || true));
    outbound.set_barred(false);
    assert!(outbound.has_credit() && outbound.admits_granted());
    assert!(outbound.has_room(false, || 0, || true, || true), "a slot was lacking");
}

/// Senders try again only where the shortest of their requests fits, and where a good part of the ring is free.
#[test]
fn senders_that_lack_slots_are_woken_for_as_many_as_they_need() {
    let outbound = outbound(4, 4, 0);
    assert_eq!(outbound.wanted_slots(60, 26), 15, "a quarter");
    outbound.record_missing_slots(2);
    assert_eq!(outbound.wanted_slots(60, 26), 15);
    assert_eq!(woken(&outbound, 0), []);
    outbound.record_missing_slots(24);
    assert_eq!(outbound.wanted_slots(60, 26), 24);
    outbound.record_missing_slots(20);
    outbound.record_missing_slots(26);
    assert_eq!(outbound.wanted_slots(60, 26), 20, "one of them can go");
    assert_eq!(outbound.wanted_slots(508, 250), 127, "the lane has grown");
    woken(&outbound, 0);
    assert_eq!(outbound.wanted_slots(60, 26), 15);
    outbound.record_missing_slots(40);
    assert_eq!(outbound.wanted_slots(60, 26), 26, "a longer claim is not granted everywhere");
    assert_eq!(outbound.wanted_slots(2, 0), 1);
}

#[test]
fn an_unresponsive_sender_loses_its_turn_and_returns_before_later_ones() {
    let outbound = outbound(0, 1, 0);
    outbound.went();
    let tickets = [1, 2, 3].map(|who| outbound.stand(None, &who));
    assert_eq!(woken(&outbound, 0), [1, 2, 3]);
    outbound.stand(Some(tickets[1]), &2);
    assert!(!outbound.skip_unresponsive() && outbound.line().has_woken());
    assert!(outbound.skip_unresponsive(), "the sender was not polled for two rounds");
    assert_eq!(outbound.line().len(), 1);
    outbound.stand(Some(tickets[0]), &1);
    outbound.line().take_turn(Some(tickets[1]));
    assert!(!outbound.line().is_in_turn());
    outbound.line().take_turn(Some(tickets[0]));
    assert!(outbound.line().is_in_turn());
}

#[test]
fn a_grant_is_used_in_its_turn_or_given_back_in_time() {
    let outbound = outbound(0, 4, 0);
    assert_eq!(outbound.placement(1000, || 0), Ok(RequestPlacement::Ask));
    let numbers = [7, 8, 9].map(|who| outbound.ask(1000, who));
    assert_eq!(outbound.poll_grant(numbers[0], &7), Grant::Awaited);
    assert_eq!(outbound.granted(numbers[1], 50), Ok(Some(8)));
    assert_eq!(
        outbound.poll_grant(numbers[1], &8),
        Grant::Awaited,
        "the first request has no grant yet"
    );
    assert_eq!(outbound.grants_kept(100), None, "the sender has responded");
    assert_eq!(outbound.granted(numbers[0], 100), Ok(Some(7)));
    assert_eq!(outbound.grants_kept(100), Some(GRANT_KEPT_NS));
    assert!(outbound.unused_grants(99 + GRANT_KEPT_NS).is_empty());
    assert_eq!(outbound.unused_grants(100 + GRANT_KEPT_NS), [numbers[0]]);
    assert_eq!(outbound.withdraw(numbers[0], 200), (true, Some(8)), "the next sender is woken");
    assert_eq!(outbound.poll_grant(numbers[0], &7), Grant::Lost);
    assert_eq!(outbound.poll_grant(numbers[1], &8), Grant::Here);
    assert_eq!(outbound.transferred(numbers[1], 300), None, "the third request has no grant");
    assert_eq!((outbound.asking(), outbound.withdraw(numbers[1], 300).0), (1, false));
    assert_eq!(outbound.granted(numbers[0], 400), Ok(None), "the grant crosses the withdrawal");
    assert_eq!(outbound.handle_progress(2), Ok(3));
    assert_eq!(outbound.handle_progress(3), Err(Rule::CreditAhead { seen: 3, out: 2 }));
}

#[test]
fn longer_requests_use_the_ring_while_none_is_refused_and_few_bytes_are_open() {
    let outbound = outbound(100, 10, 16_000);
    assert_eq!(outbound.placement(IN_RING_BYTES_MAX + 1, || 0), Ok(RequestPlacement::Buffer));
    for number in 0..16 {
        assert_eq!(outbound.placement(1000, || 0), Ok(RequestPlacement::Ring), "{number}");
        outbound.record_in_ring(1000);
        outbound.went();
    }
    assert_eq!(outbound.placement(1000, || 0), Ok(RequestPlacement::Buffer));
    assert_eq!(
        outbound.placement(1000, || 8),
        Ok(RequestPlacement::Ring),
        "half of the requests were accepted"
    );
    assert_eq!(outbound.refused(12), Ok(()));
    assert_eq!(outbound.placement(1000, || 8), Ok(RequestPlacement::Buffer));
    assert_eq!(
        (outbound.placement(1000, || 13), outbound.open()),
        (Ok(RequestPlacement::Ring), (3, 0))
    );
}

#[test]
fn all_waiters_are_woken_at_the_end() {
    let outbound = outbound(0, 9, 0);
    outbound.stand(None, &1);
    outbound.ask(1000, 2);
    outbound.wait_for_room(&3, |other| *other == 3);
    outbound.wait_for_room(&3, |other| *other == 3);
    let mut told = Vec::new();
    outbound.wake_all(|who| told.push(*who));
    assert_eq!(told, [3, 1, 2]);
}

#[test]
fn requests_are_accepted_at_once_until_one_waits_and_the_count_is_published() {
    let mut budget = Budget::new(600);
    let inbound = Inbound::new(Bounds::new(true), Share::new(600), 3, |_: &&str| 0);
    for _ in 0..2 {
        assert!(inbound.is_clear() && inbound.admits(100, &budget));
        inbound.accept();
    }
    assert!(!inbound.is_unshown());
    inbound.with_share(|share| budget.charge(share, 600));
    assert!(!inbound.look_clear(&budget, true));
    assert_eq!(inbound.keep("short", 8), Ok(Placed { nack: None }));
    assert_eq!(inbound.keep("longer", 200), Ok(Placed { nack: Some(3) }));
    assert_eq!(inbound.step(&mut budget, true), None);
    inbound.with_share(|share| budget.release(share, 600));
    assert!(!inbound.look_clear(&budget, true), "two requests wait");
    assert_eq!(inbound.step(&mut budget, false), None, "too many replies wait");
    let accepted = ReceiverAction::Accept { request: "short", bytes: Budget::price(8) };
    assert_eq!(inbound.step(&mut budget, true), Some(accepted));
    assert!(inbound.is_unshown());
    assert_eq!((inbound.show(), inbound.show()), (Some(3), None));
    assert!(inbound.step(&mut budget, true).is_some() && inbound.look_clear(&budget, true));
    assert_eq!([false, true].map(|waits| inbound.show_to(waits)), [None, Some(4)]);
    assert!(!inbound.look_clear(&budget, false));
}

#[test]
fn copied_bytes_are_bounded_and_released_with_their_requests() {
    let mut budget = Budget::new(1);
    let bounds = Bounds { copied: 100, ..Bounds::new(true) };
    let inbound = Inbound::new(bounds, Share::new(1), 1, |copied: &usize| *copied);
    assert_eq!(inbound.keep(60, 200), Ok(Placed { nack: Some(0) }));
    assert_eq!(inbound.keep(40, 200), Ok(Placed { nack: Some(1) }));
    assert_eq!(inbound.cancel(|copied| *copied == 40, &mut budget), Some(40));
    assert_eq!((inbound.copied(), inbound.waiting()), (60, 2));
    assert_eq!(inbound.keep(41, 200), Err(Rule::TooManyCopies { seen: 101, max: 100 }));
    assert!(inbound.clear(&mut budget).contains(&60));
    assert_eq!(inbound.copied(), 0);
    let places = PLACES_MAX as u64;
    assert!((0..places).all(|_| inbound.reserve(300).is_ok()) && inbound.reserve(300).is_err());
    let rule = Rule::BeyondReserved { len: u64::MAX, reserved: Budget::price(1 << 30) };
    assert_eq!(inbound.reserve(u64::MAX), Err(rule));
}

/// Both sides count to the same limit: the sender writes no request to the ring that its receiver could not copy.
#[test]
fn the_copied_bytes_of_a_session_reach_their_limit_and_not_beyond() {
    let (outbound, rest) = (Outbound::<u32>::new(Bounds::new(true)), 1_000);
    outbound.record_in_ring(COPIED_BYTES_MAX - rest);
    outbound.went();
    assert_eq!(outbound.placement(rest, || 0), Ok(RequestPlacement::Ring));
    assert_eq!(outbound.placement(rest + 1, || 0), Ok(RequestPlacement::Buffer));

    let inbound = Inbound::new(Bounds::new(true), Share::new(1), 1, |copied: &usize| *copied);
    assert_eq!(inbound.keep(COPIED_BYTES_MAX, 200), Ok(Placed { nack: Some(0) }));
    let max = COPIED_BYTES_MAX as u64;
    assert_eq!(inbound.keep(1, 200), Err(Rule::TooManyCopies { seen: max + 1, max }));
}

#[test]
fn replies_queue_by_class_and_many_waiting_replies_hold_up_requests() {
    let mut budget = Budget::new(20_000);
    let mut owed = SendQueue::new(10_000, 3_000);
    owed.push_frame("a cancel");
    owed.push_reply("short", 100, &mut budget);
    assert!(owed.bars() && owed.classes() == 0 && owed.takes_requests(&budget));
    owed.push_reply("longer", 1_000, &mut budget);
    assert!(owed.goes_behind(2_000) && !owed.goes_behind(200) && !owed.goes_behind(100));
    assert_eq!((owed.classes(), owed.len(), owed.held()), (0b10, 3, budget.held()));
    owed.push_reply("long", 9_000, &mut budget);
    assert!(!owed.takes_requests(&budget), "more than 3,000 bytes wait");
    assert!(!owed.admits(1_000, &budget) && owed.admits(104, &budget), "the share is used up");

    let longer = owed.pop_reply(class_of(1_000)).unwrap();
    owed.put_back_reply(longer, 1);
    let longer = owed.pop_reply(1).unwrap();
    assert_eq!((longer.frame, owed.release(&longer, &mut budget)), ("longer", true));
    let cancel = owed.pop_frame().unwrap();
    owed.put_back_frame(cancel);
    let cancel = owed.pop_frame().unwrap();
    assert_eq!((cancel.frame, owed.release(&cancel, &mut budget)), ("a cancel", false));
    owed.clear(&mut budget);
    assert_eq!((owed.len(), owed.held(), budget.held()), (0, 0, 0));
}

#[test]
fn waiting_replies_of_other_sessions_hold_up_a_session_with_waiting_replies() {
    let mut budget = Budget::new(5_000);
    let (mut one, mut other) = (SendQueue::new(10_000, 3_000), SendQueue::new(10_000, 3_000));
    one.push_reply((), 5_000, &mut budget);
    assert!(other.takes_requests(&budget) && other.admits(1_000, &budget));
    other.push_reply((), 500, &mut budget);
    assert!(!other.takes_requests(&budget) && !other.admits(1_000, &budget));
}

#[test]
fn waiting_frames_are_bounded() {
    let mut owed = SendQueue::default();
    let most = 2 * CALLS_PER_SESSION_MAX;
    for _ in 0..most - 10 {
        assert_eq!(owed.may_wait(10), Ok(()));
        owed.push_frame(());
    }
    let (index, max) = (most as u32 - 10, CALLS_PER_SESSION_MAX as u32);
    assert_eq!(owed.may_wait(10), Err(Rule::TooManyCalls { index, max }));
    assert_eq!(owed.may_wait(9), Ok(()));
}

/// A side whose types are numbers.
struct Numbers;

impl Side for Numbers {
    type Sender = u32;
    type Request = u32;
    type Frame = &'static str;
    type Caller = u32;
    type Task = u32;

    fn copied(_: &u32) -> usize {
        0
    }
}

fn session(terms: Terms) -> Session<Numbers> {
    Session::new(&terms, ReplyBudget::with_ahead(10_000, terms.ahead))
}

fn terms() -> Terms {
    Terms { unread: 500, ahead: 3_000, ..Terms::new(true, 1_000) }
}

#[test]
fn a_handler_that_waits_for_another_node_holds_nothing_meanwhile() {
    let (session, shared_budget) = (session(terms()), SharedBudget::new(1_000));
    let mut charge = Charge::new(1_000);
    charge.polled(Awaits::Other, &session, &shared_budget);
    assert_eq!(
        (charge.held(), shared_budget.budget().held(), shared_budget.take_filled()),
        (1_000, 1_000, true)
    );
    assert!(!session.inbound().is_clear() && !session.may_accept(false, None, &shared_budget));
    charge.polled(Awaits::Reply, &session, &shared_budget);
    assert!(shared_budget.take_freed() && session.may_accept(false, None, &shared_budget));
    assert!(!session.may_accept(true, None, &shared_budget), "a granted request has a place");
    charge.polled(Awaits::Other, &session, &shared_budget);
    charge.polled(Awaits::Other, &session, &shared_budget);
    charge.release(&session, &shared_budget);
    charge.release(&session, &shared_budget);
    assert_eq!(
        (charge.held(), shared_budget.budget().held(), shared_budget.take_freed()),
        (0, 0, true)
    );
}

#[test]
fn a_session_whose_handlers_wait_for_others_is_admitted_up_to_its_share() {
    let (waits, shared_budget) = (session(terms()), SharedBudget::new(300));
    let other = session(terms());
    let mut charges = [300, 400, 300].map(Charge::new);
    let mut polled = |at: usize, awaits, session| {
        charges[at].polled(awaits, session, &shared_budget);
        shared_budget.take_freed()
    };
    assert!(!polled(0, Awaits::Other, &waits) && !waits.may_accept(false, None, &shared_budget));
    assert!(polled(0, Awaits::Handler, &waits) && waits.may_accept(false, None, &shared_budget));
    let long = Some(MEDIUM_BYTES_MAX + 1);
    assert!(!waits.may_accept(false, long, &shared_budget), "a long request finds no room");
    // The next handler that waits for something else is the last.
    polled(1, Awaits::Other, &waits);
    assert!(!waits.may_accept(false, None, &shared_budget));
    assert!(other.may_accept(false, None, &shared_budget));
    assert!(polled(1, Awaits::Handler, &waits) && waits.may_accept(false, None, &shared_budget));
    polled(2, Awaits::Handler, &waits);
    assert!(!waits.may_accept(false, None, &shared_budget), "the share is used up");
    polled(2, Awaits::Reply, &waits);
    assert!(waits.may_accept(false, None, &shared_budget));
    for mut charge in charges {
        charge.release(&waits, &shared_budget);
    }
    assert_eq!(shared_budget.budget().held(), 0);
}

#[test]
fn frames_are_sent_before_requests_and_longer_replies_when_there_is_room() {
    let (session, shared_budget) = (session(terms()), SharedBudget::new(1_000));
    session.inbound().reserve(300).unwrap();
    assert_eq!(session.queue_reply("long", 4_000), Ok(true));
    assert!(session.outbound().has_credit(), "the reply waits only for a buffer");
    assert!(session.goes_behind(3_000) && !session.goes_behind(300) && !session.goes_behind(100));
    assert_eq!(session.step(&shared_budget), None, "more than 3,000 bytes wait");
    assert_eq!(session.queue_frame("cancel"), Ok(true));
    assert!(!session.outbound().has_credit() && !session.write_frames(|_| false));
    assert!(!session.write_frames(|frame| *frame == "cancel") && session.outbound().has_credit());
    assert!(!session.write_replies(|_| SendOutcome::NoRoom));
    assert!(session.write_replies(|_| SendOutcome::Refused) && session.may_step());
    assert_eq!(session.step(&shared_budget), Some(ReceiverAction::Grant(0)));
    assert_eq!((session.owed(), session.classes()), ((0, 0), 0));
}

#[test]
fn replies_of_the_limit_hold_up_the_requests_of_their_session() {
    let waiting = REPLIES_AHEAD_BYTES - 1 - 2 * Budget::price(0);
    for (more, takes) in [(0, true), (1, false)] {
        let terms = Terms::new(true, SESSION_BUDGET_BYTES);
        let session = Session::<Numbers>::new(&terms, ReplyBudget::default());
        let shared_budget = SharedBudget::new(1_000);
        session.inbound().reserve(300).unwrap();
        session.queue_reply("long", waiting as usize).unwrap();
        session.queue_reply("short", more).unwrap();
        assert_eq!(session.owed().1, REPLIES_AHEAD_BYTES - 1 + more as u64);
        assert_eq!(session.step(&shared_budget).is_some(), takes);
    }
}

#[test]
fn copies_of_unread_replies_are_bounded() {
    let session = session(terms());
    assert_eq!(session.keep_unread(400, || true), UnreadReply::InPlace);
    assert_eq!(session.keep_unread(400, || false), UnreadReply::Copied);
    assert_eq!(session.keep_unread(400, || false), UnreadReply::Copied);
    assert_eq!((session.keep_unread(1, || false), session.unread()), (UnreadReply::Dropped, 800));
    session.was_read(400);
    assert_eq!(session.keep_unread(1, || false), UnreadReply::Copied);
}

#[test]
fn a_cancel_finds_the_task_or_the_waiting_request() {
    let (session, shared_budget) = (session(terms()), SharedBudget::new(1_000));
    let [served, kept] = [1, 2].map(|index| CallNumber::new(index, 1));
    session.serving().insert(served, 7).unwrap();
    session.inbound().keep(8, 300).unwrap();
    let cancel = |call, request| session.cancel(call, |it| *it == request, &shared_budget);
    assert_eq!(cancel(served, 8), Cancelled::Task(7));
    assert_eq!((cancel(kept, 8), cancel(kept, 8)), (Cancelled::Kept(8), Cancelled::Gone));
}

#[test]
fn the_end_of_a_session_releases_everything() {
    let (session, shared_budget) = (session(terms()), SharedBudget::new(1_000));
    let calls = [4, 5].map(|caller| (session.open_call(caller).unwrap(), caller));
    session.serving().insert(calls[0].0, 6).unwrap();
    session.inbound().keep(7, 300).unwrap();
    session.queue_reply("reply", 2_000).unwrap();
    assert_eq!(session.end(), calls);
    assert_eq!(session.take_served(), [(calls[0].0, 6)]);
    assert_eq!(session.forget_requests(&shared_budget), [7]);
    assert_eq!((session.owed(), session.queue_frame("late")), ((0, 0), Ok(false)));
    assert!(!session.outbound().has_credit() && session.has_ended());
}
