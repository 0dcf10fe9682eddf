//! Tests of links with random histories of breaks, attempts and times.

use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn ticket(key: u8) -> Ticket {
    Ticket { session: 4, incarnation: 11, key: [key; 16] }
}

fn link(role: Role, within_ms: u32) -> Link {
    Link::new(Agreed::new(role, ticket(1), [within_ms, u32::MAX]).unwrap())
}

#[test]
fn a_session_is_kept_for_the_shorter_of_both_times() {
    let within = |said| Agreed::new(Role::Caller, ticket(1), said).map(|agreed| agreed.within_ms);
    assert_eq!(within([5_000, 300]), Some(300));
    assert_eq!(within([300, 5_000]), Some(300));
    assert_eq!([within([0, 300]), within([300, 0])], [None, None]);
}

/// Returns the attempt that begins now.
fn begins(link: &mut Link, now: u64) -> Attempt {
    match link.due(now) {
        Some(Due::Connect(attempt)) => attempt,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_caller_connects_at_once_and_then_after_delays() {
    let mut link = link(Role::Caller, 1_000);
    assert_eq!((link.next_ns(), link.due(5 * MS)), (None, None));
    assert!(link.broke(5 * MS) && !link.broke(6 * MS));
    let first = begins(&mut link, 5 * MS);
    assert_eq!(first, Attempt { number: 1, nth: 0, until_ns: 1_005 * MS });
    assert_eq!(link.due(6 * MS), None, "the first attempt has its time");
    link.failed(&first, 7 * MS, u64::MAX);
    let next = link.next_ns().unwrap();
    assert!((8 * MS..=9 * MS).contains(&next), "{next}");
    assert_eq!(link.due(next - 1), None);
    assert_eq!(begins(&mut link, next).nth, 1);
    assert!(link.resumed());
    assert_eq!((link.next_ns(), link.due(u64::MAX)), (None, None));
    // The next break starts a new time. Attempts are numbered on.
    assert!(link.broke(5_000 * MS));
    assert_eq!(link.until_ns(), Some(6_000 * MS));
    let next = begins(&mut link, 5_000 * MS);
    assert_eq!((next.number, next.nth), (3, 0));
}

/// A network that drops everything answers no attempt. Whenever it is back, an attempt begins within a quarter of a
/// second, and has a second for its answer.
#[test]
fn attempts_without_an_answer_overlap() {
    let mut link = link(Role::Caller, 60_000);
    assert!(link.broke(0));
    let (mut now, mut under_way, mut last) = (0, Vec::<Attempt>::new(), 0);
    while now < 59_000 * MS {
        // The system ends an attempt whose time is over.
        for over in under_way.extract_if(.., |attempt| attempt.until_ns <= now) {
            link.failed(&over, now, 7);
        }
        if let Some(Due::Connect(attempt)) = link.due(now) {
            assert!(now - last <= OVERLAP_NS, "{last} to {now}");
            let most =
                if attempt.nth.is_multiple_of(PATIENT_EVERY) { PATIENT_MS } else { ATTEMPT_MS };
            assert_eq!(attempt.until_ns, (now + most * MS).min(60_000 * MS));
            under_way.push(attempt);
            last = now;
        }
        assert!(under_way.len() <= ATTEMPTS_MAX as usize);
        now += MS;
    }
    assert!(now - last <= OVERLAP_NS);
}

/// A host that answers slowly is not called again and again meanwhile.
#[test]
fn an_answered_attempt_is_waited_for() {
    let mut link = link(Role::Caller, 60_000);
    assert!(link.broke(0));
    let first = begins(&mut link, 0);
    link.answered(200 * MS);
    assert_eq!((link.due(5_199 * MS), link.next_ns()), (None, Some(5_200 * MS)));
    // The last attempt that began fails, and the next one follows soon.
    link.failed(&first, 3_000 * MS, 7);
    assert!(link.next_ns() < Some(3_003 * MS));
    let [second, third] = [3_003, 3_253].map(|ms| begins(&mut link, ms * MS));
    // An earlier one is answered, and fails while the last is silent.
    link.answered(3_300 * MS);
    link.failed(&second, 3_400 * MS, 7);
    assert_eq!(link.next_ns(), Some(3_650 * MS));
    let fourth = begins(&mut link, 3_650 * MS);
    link.ready(3_700 * MS);
    assert_eq!(link.next_ns(), Some(8_700 * MS));
    // The owner has closed the others. The one that showed the ticket fails.
    link.failed(&fourth, 4_000 * MS, 7);
    assert!(link.next_ns() < Some(4_003 * MS));
    assert_eq!([third, fourth].map(|attempt| attempt.number), [3, 4]);
}

#[test]
fn no_more_attempts_than_the_most_are_under_way() {
    let mut link = link(Role::Caller, 60_000);
    assert!(link.broke(0));
    let attempts: Vec<Attempt> =
        (0..u64::from(ATTEMPTS_MAX)).map(|nth| begins(&mut link, nth * OVERLAP_NS)).collect();
    let now = 30_000 * MS;
    assert_eq!((link.due(now), link.next_ns()), (None, Some(60_000 * MS)));
    link.failed(&attempts[0], now, 7);
    begins(&mut link, now);
    assert_eq!(link.due(now + OVERLAP_NS), None);
    // The one that is ready is the only one that is left.
    link.ready(now + OVERLAP_NS);
    begins(&mut link, now + OVERLAP_NS + ANSWERED_NS);
}

/// The peer may be at another address of the host.
#[test]
fn a_session_is_over_once_it_is_unknown_at_all_addresses() {
    let mut link = link(Role::Caller, 60_000);
    assert!(link.broke(0));
    assert!(!link.unknown_at(1, 2) && !link.unknown_at(1, 2));
    // The name leads elsewhere now.
    assert!(!link.unknown_at(1, 3) && !link.unknown_at(2, 3));
    assert!(link.resumed() && link.broke(1));
    assert!(!link.unknown_at(0, 3) && !link.unknown_at(1, 3));
    assert!(link.unknown_at(2, 3) && link.unknown_at(0, 3));
    assert!(!link.resumed() && !link.broke(2));
    assert_eq!((link.next_ns(), link.due(u64::MAX)), (None, None));
}

/// A record that was delayed is not accepted behind that of a later attempt.
#[test]
fn a_listener_accepts_attempts_in_their_order() {
    let mut link = link(Role::Listener, 300);
    assert!(link.broke(0) && link.takes(&ticket(1), 2));
    link.took(2);
    assert!(link.takes(&ticket(1), 3), "the caller may have lost that connection too");
    assert!(!link.takes(&ticket(1), 2) && !link.takes(&ticket(1), 1));
    assert!(link.broke(MS) && !link.takes(&ticket(1), 2) && link.takes(&ticket(1), 3));
}

#[test]
fn a_listener_waits_and_gives_up_after_the_same_time() {
    let mut link = link(Role::Listener, 300);
    assert!(link.takes(&ticket(1), 1), "a caller may notice the loss of the connection first");
    assert!(link.broke(0));
    assert_eq!(link.due(300 * MS - 1), None);
    assert!(link.takes(&ticket(1), 1));
    for other in [
        ticket(2),
        Ticket { session: 5, ..ticket(1) },
        Ticket { incarnation: 12, ..ticket(1) },
        Ticket { key: core::array::from_fn(|at| u8::from(at < 15)), ..ticket(1) },
    ] {
        assert!(!link.takes(&other, 1), "{other:?}");
    }
    assert_eq!(link.due(300 * MS), Some(Due::GiveUp));
    assert!(!link.takes(&ticket(1), 1) && !link.resumed());
    assert!(
        !super::tests::link(Role::Caller, 300).takes(&ticket(1), 1),
        "a caller accepts no ticket"
    );
}

#[derive(Clone, Debug)]
enum Act {
    Break,
    Ask,
    Fail(u64),
    Ready,
    Resume,
}

proptest! {
    /// For any history, a link without a connection asks to be checked in time, and ends in time.
    #[test]
    fn a_broken_link_ends_or_resumes_in_time(
        role in prop_oneof![Just(Role::Caller), Just(Role::Listener)],
        within_ms in 1..10_000u32,
        acts in prop::collection::vec(
            (0..3_000_000_000u64, prop_oneof![
                Just(Act::Break), Just(Act::Ask), any::<u64>().prop_map(Act::Fail), Just(Act::Ready),
                Just(Act::Resume),
            ]),
            1..60,
        ),
    ) {
        let mut link = link(role, within_ms);
        let (mut now, mut down_since, mut over) = (0, None, false);
        let (mut under_way, mut last) = (Vec::<Attempt>::new(), 0);
        for (passed, act) in acts {
            now += passed;
            match act {
                Act::Break => {
                    prop_assert_eq!(link.broke(now), down_since.is_none() && !over);
                    if !over {
                        down_since.get_or_insert(now);
                    }
                }
                Act::Ask => match link.due(now) {
                    Some(Due::Connect(attempt)) => {
                        prop_assert!(role == Role::Caller && down_since.is_some());
                        prop_assert!(under_way.len() < ATTEMPTS_MAX as usize);
                        prop_assert!(attempt.number == last + 1 && attempt.until_ns > now);
                        last = attempt.number;
                        under_way.push(attempt);
                    }
                    Some(Due::GiveUp) => {
                        prop_assert!(now >= down_since.unwrap() + u64::from(within_ms) * MS);
                        (down_since, over) = (None, true);
                        under_way.clear();
                    }
                    None => {
                        let until = down_since.map_or(u64::MAX, |at| at + u64::from(within_ms) * MS);
                        prop_assert!(now < until);
                    }
                },
                Act::Fail(random) => {
                    if let Some(failed) = under_way.pop() {
                        link.failed(&failed, now, random);
                    }
                }
                Act::Ready => {
                    if let Some(ready) = under_way.pop() {
                        link.ready(now);
                        under_way = Vec::from([ready]);
                    }
                }
                Act::Resume => {
                    prop_assert_eq!(link.resumed(), !over);
                    down_since = None;
                    under_way.clear();
                }
            }
            match down_since {
                None => prop_assert_eq!(link.next_ns(), None),
                Some(at) => {
                    let until = at + u64::from(within_ms) * MS;
                    prop_assert_eq!(link.until_ns(), Some(until));
                    prop_assert!(link.next_ns().unwrap() <= until);
                    let waits = role == Role::Listener || under_way.len() == ATTEMPTS_MAX as usize;
                    prop_assert!(waits || link.next_ns().unwrap() <= now + ANSWERED_NS);
                }
            }
        }
    }
}
