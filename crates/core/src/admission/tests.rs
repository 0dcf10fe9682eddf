//! Tests of gates with any arrivals, and of crowds against plain versions of their rules.

use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;
use share::AT_ONCE_NS_MAX;

fn caller(number: u8) -> Prefix {
    Prefix::V4(Ipv4Addr::new(10, 0, 0, number))
}

fn handshakes() -> impl Strategy<Value = Vec<Handshake<usize>>> {
    let one = (0..3u8, 0..2000u64, prop::option::of(0..2000u64));
    prop::collection::vec(one, 0..300).prop_map(|all| {
        let all = all.into_iter().enumerate();
        all.map(|(key, (number, began_ms, heard))| Handshake {
            key,
            // The first of the three addresses has most of the handshakes.
            from: Some(caller(number & (key % 2) as u8)),
            began_ms,
            heard_ms: heard.map(|later| began_ms + later),
        })
        .collect()
    })
}

proptest! {
    /// In any span of time the gate permits no more answers than the rate allows, plus a second's worth. At the end
    /// of the pause one is permitted.
    #[test]
    fn no_span_of_time_exceeds_the_rate(
        rate in 1..3000u32,
        pauses in prop::collection::vec(0..20_000_000u64, 1..400),
    ) {
        let mut gate = AdmissionPolicy::new(Terms { accepts_per_second: rate, ..Terms::default() }, 0);
        let (mut now, mut accepted) = (0, Vec::new());
        for pause in pauses {
            now += pause;
            let at = loop {
                match gate.answer(now) {
                    Ok(()) => accepted.push(now),
                    Err(pause) => break pause.until_ns(),
                }
            };
            prop_assert!(at > now && at - now <= SECOND_NS.div_ceil(u64::from(rate)));
        }
        for first in 0..accepted.len() {
            let stretch = accepted[accepted.len() - 1] - accepted[first];
            let most = u64::from(rate) * (SECOND_NS + stretch) / SECOND_NS;
            prop_assert!((accepted.len() - first) as u64 <= most.max(1));
        }
        let at = gate.answer(now).unwrap_err().until_ns();
        prop_assert_eq!(gate.answer(at), Ok(()));
    }

    /// Sessions are counted by address, and the end of a session frees its place.
    #[test]
    fn the_sessions_of_an_address_are_bounded(
        most in 1..5usize,
        steps in prop::collection::vec((0..4u8, any::<bool>()), 0..200),
    ) {
        let mut gate = AdmissionPolicy::new(Terms { sessions_per_address: most, ..Terms::default() }, 0);
        let mut open = [0; 4];
        for (number, opens) in steps {
            let (from, open) = (caller(number), &mut open[usize::from(number)]);
            prop_assert_eq!(gate.admits(from, 0), *open < most);
            if opens && *open < most {
                gate.opened(from);
                *open += 1;
            } else if !opens && *open > 0 {
                gate.closed(from);
                *open -= 1;
            }
            prop_assert_eq!(gate.sessions_of(from), *open);
        }
    }

    /// The address with the most handshakes loses one if it has more than its share. Of the candidates a silent
    /// one goes before one that has spoken, and the oldest goes first.
    #[test]
    fn the_busiest_address_gives_way(all in handshakes()) {
        let count = |from| all.iter().filter(|other| other.from == from).count();
        let Some((at, key)) = HandshakeLimit::Hosts.gives_way(all.iter().copied()) else {
            prop_assert!(all.is_empty());
            return Ok(());
        };
        let gone = all[key];
        let most = all.iter().map(|other| count(other.from)).max().unwrap();
        let crowds = most > REMOTE_PENDING_SHARE;
        prop_assert!(!crowds || count(gone.from) == most);
        let rivals = all.iter().filter(|other| !crowds || other.from == gone.from);
        for other in rivals {
            prop_assert!(gone.heard_ms.is_none() || other.heard_ms.is_some());
            if gone.heard_ms.is_none() && other.heard_ms.is_none() {
                prop_assert!(gone.began_ms <= other.began_ms);
            }
        }
        let wanted = match gone.heard_ms {
            None => gone.began_ms + REMOTE_HELLO_MS_MAX,
            Some(_) if crowds => gone.began_ms + CROWD_AGE_MS_MAX,
            Some(heard_ms) => heard_ms + REMOTE_SILENCE_MS_MAX,
        };
        prop_assert_eq!(at, wanted);
    }

    /// A node that pauses whenever it must, sleeps until the first end of its pauses at most, and then decides again,
    /// accepts every caller, however late it wakes and whichever handshakes end.
    #[test]
    fn callers_who_wait_are_accepted(
        limit in prop::sample::select(&[HandshakeLimit::Processes, HandshakeLimit::Hosts]),
        callers in 1..1000usize,
        late in prop::collection::vec(0..30_000_000u64, 1..20),
        elsewhere in 0..300usize,
    ) {
        let mut pauses = Pauses::default();
        let (mut now, mut waiting, mut key) = (0, callers, 0);
        let mut elsewhere = elsewhere.min(limit.handshakes_max());
        let mut under_way: Vec<Handshake<usize>> = Vec::new();
        for round in 0.. {
            prop_assert!(round < 10_000, "{} callers are left at {}", waiting, now);
            let turn = limit.next(under_way.len() + elsewhere, under_way.iter().copied(), now);
            if let Next::Wait(pause) = turn {
                prop_assert!(pause.until_ns() > now || elsewhere > 0);
                let _ = pauses.begin(Paused::Hosts, pause);
                // The thread sleeps until then, and wakes later than that.
                let next = pauses.next_ns();
                prop_assert!(next.is_some_and(|at| at <= now + PAUSE_MS_MAX * 1_000_000));
                now = next.unwrap().max(now) + late[round % late.len()];
                prop_assert!(pauses.of(Paused::Hosts).unwrap().is_due(now));
                // Another node ends one of those that it has.
                elsewhere = elsewhere.saturating_sub(1);
                continue;
            }
            pauses.end(Paused::Hosts);
            if let Next::Instead(gone) = turn {
                under_way.retain(|handshake| handshake.key != gone);
            }
            prop_assert!(under_way.len() + elsewhere < limit.handshakes_max());
            let Some(left) = waiting.checked_sub(1) else { break };
            let heard_ms = (key % 3 == 0).then_some(now / 1_000_000);
            let from = (limit == HandshakeLimit::Hosts).then(|| caller((key % 7) as u8));
            under_way.push(Handshake { key, from, began_ms: now / 1_000_000, heard_ms });
            (waiting, key) = (left, key + 1);
        }
    }
}

/// The end of a pause may pass before the node computes how long it sleeps: the pause is due then, and not forgotten.
#[test]
fn a_pause_that_is_over_stays_due() {
    let terms = Terms { accepts_per_second: 1_000, ..Terms::default() };
    let mut gate = AdmissionPolicy::new(terms, 0);
    let pause = loop {
        if let Err(pause) = gate.answer(0) {
            break pause;
        }
    };
    let mut pauses = Pauses::default();
    assert!(pauses.begin(Paused::Answers, pause));
    let late = pause.until_ns() + 500_000;
    assert!(pauses.next_ns().is_some_and(|at| at < late), "the node does not sleep");
    assert!(pauses.of(Paused::Answers).unwrap().is_due(late));
    assert_eq!(gate.answer(late), Ok(()));
}

/// Callers that say nothing leave a place for the next soon, whether they are of one address or of many.
#[test]
fn silent_callers_of_many_addresses_hold_nobody_up() {
    for addresses in [1, 5, 250] {
        let silent = (0..REMOTE_PENDING_MAX).map(|key| Handshake {
            key,
            from: Some(caller((key % addresses) as u8)),
            began_ms: 7,
            heard_ms: None,
        });
        let next = |now_ms: u64| {
            HandshakeLimit::Hosts.next(REMOTE_PENDING_MAX, silent.clone(), now_ms * 1_000_000)
        };
        let Next::Wait(pause) = next(7) else { panic!("{:?}", next(7)) };
        assert_eq!((pause.cause(), pause.until_ns()), (Cause::Handshakes, 27_000_000));
        assert!(matches!(next(7 + REMOTE_HELLO_MS_MAX), Next::Instead(_)));
    }
}

/// A silent process of the same host gives way when its time is over, and no nanosecond sooner.
#[test]
fn a_silent_process_of_the_host_gives_way_when_its_time_is_over() {
    let over_ms = [(None, 7 + HELLO_MS_MAX), (Some(50), 50 + HANDSHAKE_SILENCE_MS_MAX)];
    for (heard_ms, over_ms) in over_ms {
        let silent = (0..PENDING_HANDSHAKES_MAX).map(|key| Handshake {
            key,
            from: None,
            began_ms: 7,
            heard_ms,
        });
        let next = |pending: usize, now_ns: u64| {
            HandshakeLimit::Processes.next(pending, silent.clone(), now_ns)
        };
        let over_ns = over_ms * 1_000_000;
        let wait = Next::Wait(Pause::new(Cause::Handshakes, over_ns));
        assert_eq!(next(PENDING_HANDSHAKES_MAX, over_ns - 1), wait);
        assert_eq!(next(PENDING_HANDSHAKES_MAX, over_ns), Next::Instead(0));
        assert_eq!(next(PENDING_HANDSHAKES_MAX - 1, over_ns), Next::Accept);
    }
}

/// Callers of one address that send a message now and then lose their handshakes, and do not displace those of
/// another address.
#[test]
fn sending_now_and_then_gains_no_time_in_a_crowd() {
    let trickle = (0..=REMOTE_PENDING_SHARE).map(|key| Handshake {
        key,
        from: Some(caller(1)),
        began_ms: key as u64,
        heard_ms: Some(400),
    });
    let other = Handshake { key: 1000, from: Some(caller(2)), began_ms: 0, heard_ms: None };
    let all = trickle.clone().chain([other]);
    assert_eq!(HandshakeLimit::Hosts.gives_way(all), Some((CROWD_AGE_MS_MAX, 0)));
    // An address within its share is treated as any other.
    let all = trickle.take(REMOTE_PENDING_SHARE).chain([other]);
    assert_eq!(HandshakeLimit::Hosts.gives_way(all), Some((REMOTE_HELLO_MS_MAX, 1000)));
}

#[test]
fn a_clock_that_stands_still_admits_no_caller() {
    let mut gate = AdmissionPolicy::new(Terms { accepts_per_second: 3, ..Terms::default() }, 50);
    for _ in 0..3 {
        // Three thirds of a second, rounded up, are more than a second.
        let _ = gate.answer(50);
    }
    assert!(gate.answer(40).is_err());
    assert!(gate.answer(50 + SECOND_NS).is_ok());
}

/// Callers that have work of `each_ns` come all the time, beside messages or not. Returns the part of a second that the
/// node has worked for them, and the longest time without a pause.
fn worked(each_ns: u64, is_busy: bool) -> (f64, u64) {
    let mut gate =
        AdmissionPolicy::new(Terms { accepts_per_second: 1_000_000, ..Terms::default() }, 0);
    let (from_ns, mut messages) = (7 * SECOND_NS, 0);
    let (mut now_ns, mut sum_ns, mut longest_ns) = (from_ns, 0, 0);
    while now_ns < from_ns + SECOND_NS {
        messages += u64::from(is_busy);
        gate.look(messages);
        let mut at_once_ns = 0;
        let pause = loop {
            if let Err(pause) = gate.answer(now_ns) {
                break pause;
            }
            let work = gate.work(now_ns);
            // A part of the work lies within the other.
            let inner = gate.work(now_ns + each_ns / 4);
            gate.charge(inner, now_ns + each_ns / 2, now_ns + each_ns / 2);
            now_ns += each_ns;
            gate.charge(work, now_ns, now_ns);
            at_once_ns += each_ns;
        };
        assert_eq!(pause.cause(), Cause::Share);
        (sum_ns, longest_ns) = (sum_ns + at_once_ns, longest_ns.max(at_once_ns));
        now_ns = if is_busy { pause.until_ns() } else { now_ns + 1_000 };
    }
    (sum_ns as f64 / SECOND_NS as f64, longest_ns)
}

#[test]
fn callers_get_a_third_of_a_busy_node_and_an_idle_one_looks_between() {
    for each_ns in [50_000, 270_000, 1_000_000] {
        let (part, longest_ns) = worked(each_ns, true);
        assert!((0.32..0.34).contains(&part), "{part} of the time");
        assert!(longest_ns < AT_ONCE_NS_MAX * 3 / 2 + each_ns, "{longest_ns} at once");
        let (part, longest_ns) = worked(each_ns, false);
        assert!(part > 0.99, "{part} of the time of an idle node");
        assert!(longest_ns < AT_ONCE_NS_MAX * 3 / 2 + each_ns, "{longest_ns} at once");
    }
}

/// Callers that say nothing leave time for answers.
#[test]
fn answers_go_before_further_connections() {
    let mut gate = AdmissionPolicy::new(Terms::default(), 0);
    let mut now_ns = SECOND_NS;
    while gate.accept(now_ns).is_ok() {
        let work = gate.work(now_ns);
        now_ns += 50_000;
        gate.charge(work, now_ns, now_ns);
    }
    assert_eq!(gate.answer(now_ns), Ok(()));
}

/// Work that no pause stops, such as reading single bytes, keeps callers out for a while at most, and no pause outlasts
/// the next look at the sessions by much.
#[test]
fn callers_owe_a_bounded_time() {
    let mut gate = AdmissionPolicy::new(Terms::default(), 0);
    let mut now_ns = SECOND_NS;
    gate.look(1);
    for _ in 0..10_000 {
        let work = gate.work(now_ns);
        now_ns += 50_000;
        gate.charge(work, now_ns, now_ns);
    }
    let pause = gate.accept(now_ns).unwrap_err();
    assert!(pause.until_ns() <= now_ns + 3 * AT_ONCE_NS_MAX, "{pause:?} from {now_ns}");
    gate.look(2);
    now_ns += (PAUSE_MS_MAX + 2) * 1_000_000;
    assert_eq!((gate.accept(now_ns), gate.answer(now_ns)), (Ok(()), Ok(())));
}
