//! Tests of gates with any arrivals, and of crowds against plain versions of their rules.

use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

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
    /// In any span of time the gate accepts no more than the rate allows, plus a second's worth. A caller that
    /// comes at the returned time is accepted.
    #[test]
    fn no_span_of_time_exceeds_the_rate(
        rate in 1..3000u32,
        pauses in prop::collection::vec(0..20_000_000u64, 1..400),
    ) {
        let mut gate = AdmissionPolicy::new(Terms { accepts_per_second: rate, ..Terms::default() }, 0);
        let (mut now, mut accepted) = (0, Vec::new());
        for pause in pauses {
            now += pause;
            while gate.accept(now).is_ok() {
                accepted.push(now);
            }
            let at = gate.opens_at(now).unwrap();
            prop_assert!(at > now && at - now <= SECOND_NS.div_ceil(u64::from(rate)));
        }
        for first in 0..accepted.len() {
            let stretch = accepted[accepted.len() - 1] - accepted[first];
            let most = u64::from(rate) * (SECOND_NS + stretch) / SECOND_NS;
            prop_assert!((accepted.len() - first) as u64 <= most.max(1));
        }
        let at = gate.opens_at(now).unwrap();
        prop_assert_eq!(gate.accept(at), Ok(()));
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
            prop_assert_eq!(gate.admits(from), *open < most);
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
        let spoke = gone.heard_ms.is_some();
        let wanted = match crowds {
            true => gone.began_ms + if spoke { CROWD_AGE_MS_MAX } else { CROWD_HELLO_MS_MAX },
            false => gone.heard_ms.unwrap_or(gone.began_ms) + HandshakeLimit::Hosts.patience_ms(spoke),
        };
        prop_assert_eq!(at, wanted);
    }
}

/// Callers of one address that send a byte now and then lose their handshakes, and do not displace those of
/// another address.
#[test]
fn sending_single_bytes_gains_no_time_in_a_crowd() {
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
    assert_eq!(HandshakeLimit::Hosts.gives_way(all), Some((REMOTE_SILENCE_MS_MAX / 2, 1000)));
}

#[test]
fn a_clock_that_stands_still_admits_no_caller() {
    let mut gate = AdmissionPolicy::new(Terms { accepts_per_second: 3, ..Terms::default() }, 50);
    for _ in 0..3 {
        // Three thirds of a second, rounded up, are more than a second.
        let _ = gate.accept(50);
    }
    assert!(gate.accept(40).is_err());
    assert!(gate.accept(50 + SECOND_NS).is_ok());
}
