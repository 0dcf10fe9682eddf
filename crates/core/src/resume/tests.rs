//! Tests of links with random histories of breaks, attempts and times.

use super::*;
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

#[test]
fn a_caller_connects_at_once_and_then_after_delays() {
    let mut link = link(Role::Caller, 1_000);
    assert_eq!((link.next_ns(), link.due(5 * MS)), (None, None));
    assert!(link.broke(5 * MS) && !link.broke(6 * MS));
    assert_eq!(link.due(5 * MS), Some(Due::Connect));
    assert_eq!(link.due(6 * MS), None, "one attempt is under way");
    link.failed(7 * MS, u64::MAX);
    let next = link.next_ns().unwrap();
    assert!((8 * MS..=9 * MS).contains(&next), "{next}");
    assert_eq!(link.due(next - 1), None);
    assert_eq!(link.due(next), Some(Due::Connect));
    assert!(link.resumed());
    assert_eq!((link.next_ns(), link.due(u64::MAX)), (None, None));
    // The next break starts a new time.
    assert!(link.broke(5_000 * MS));
    assert_eq!(link.until_ns(), Some(6_000 * MS));
}

#[test]
fn a_listener_waits_and_gives_up_after_the_same_time() {
    let mut link = link(Role::Listener, 300);
    assert!(link.takes(&ticket(1)), "a caller may notice the loss of the connection first");
    assert!(link.broke(0));
    assert_eq!(link.due(300 * MS - 1), None);
    assert!(link.takes(&ticket(1)));
    for other in [
        ticket(2),
        Ticket { session: 5, ..ticket(1) },
        Ticket { incarnation: 12, ..ticket(1) },
        Ticket { key: core::array::from_fn(|at| u8::from(at < 15)), ..ticket(1) },
    ] {
        assert!(!link.takes(&other), "{other:?}");
    }
    assert_eq!(link.due(300 * MS), Some(Due::GiveUp));
    assert!(!link.takes(&ticket(1)) && !link.resumed());
    assert!(!super::tests::link(Role::Caller, 300).takes(&ticket(1)), "a caller accepts no ticket");
}

#[test]
fn a_refusal_is_final() {
    let mut link = link(Role::Caller, 1_000);
    assert!(link.broke(0));
    link.refused();
    assert!(!link.resumed() && !link.broke(1));
    assert_eq!((link.next_ns(), link.due(u64::MAX)), (None, None));
}

#[derive(Clone, Debug)]
enum Act {
    Break,
    Ask,
    Fail(u64),
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
                Just(Act::Break), Just(Act::Ask), any::<u64>().prop_map(Act::Fail), Just(Act::Resume),
            ]),
            1..60,
        ),
    ) {
        let mut link = link(role, within_ms);
        let (mut now, mut down_since, mut under_way, mut over) = (0, None, false, false);
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
                    Some(Due::Connect) => {
                        prop_assert!(role == Role::Caller && !under_way && down_since.is_some());
                        under_way = true;
                    }
                    Some(Due::GiveUp) => {
                        prop_assert!(now >= down_since.unwrap() + u64::from(within_ms) * MS);
                        (down_since, under_way, over) = (None, false, true);
                    }
                    None => {
                        let until = down_since.map_or(u64::MAX, |at| at + u64::from(within_ms) * MS);
                        prop_assert!(now < until);
                    }
                },
                Act::Fail(random) => {
                    link.failed(now, random);
                    under_way = false;
                }
                Act::Resume => {
                    prop_assert_eq!(link.resumed(), !over);
                    (down_since, under_way) = (None, false);
                }
            }
            match down_since {
                None => prop_assert_eq!(link.next_ns(), None),
                Some(at) => {
                    let until = at + u64::from(within_ms) * MS;
                    prop_assert_eq!(link.until_ns(), Some(until));
                    prop_assert!(link.next_ns().unwrap() <= until);
                    prop_assert!(role == Role::Listener || under_way || link.next_ns().unwrap() <= now + 129 * MS);
                }
            }
        }
    }
}
