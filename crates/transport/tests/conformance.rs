//! The behaviour that all carriers share, tested over each of them: connecting, frames both ways, wake-ups, growth,
//! and the end of a session as its other side sees it.

mod common;

use common::{Fixture, Pair, frame, receive};
use rustix::event::PollFlags;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use upbeat_core::frame::Head;
use upbeat_core::hello::{Parsed, Record, RefusalCode};
use upbeat_core::limits::{
    EXPORT_GENERATION, PENDING_HANDSHAKES_MAX, REMOTE_SESSIONS_MAX, SESSIONS_PER_NODE_MAX,
};
use upbeat_core::stream;
use upbeat_memory::segment::{self, Writers};
use upbeat_transport::carrier::{Carrier, Kind, OwnSegment, SocketError, WakeResult};
use upbeat_transport::error::OpenError;
use upbeat_transport::opening::{OpeningTimes, Step};
use upbeat_transport::remote;
use upbeat_transport::tls::TlsError;

/// Runs a case over every carrier.
fn over_all(case: impl Fn(Kind)) {
    over(&[Kind::Local, Kind::Shared, Kind::Stream, Kind::Tcp, Kind::Tls], case);
}

/// Runs a case over the carriers on which a node is found by its name.
fn over_names(case: impl Fn(Kind)) {
    over(&[Kind::Local, Kind::Shared, Kind::Stream], case);
}

/// Runs a case over the carriers whose sides share memory, which alone have pages, boards and doorbells.
fn over_lanes(case: impl Fn(Kind)) {
    over(&[Kind::Local, Kind::Shared], case);
}

fn over(kinds: &[Kind], case: impl Fn(Kind)) {
    let _alone = common::alone();
    kinds.iter().for_each(|kind| case(*kind));
}

/// Returns whether the peer is gone, after reading what it has sent.
fn is_closed(carrier: &Carrier) -> bool {
    if carrier.peer.at.is_some() {
        common::wait(carrier.socket().unwrap(), PollFlags::IN);
    }
    carrier.drain().unwrap().closed || carrier.drain().unwrap().closed
}

#[test]
fn both_sides_know_each_other() {
    over_all(|kind| {
        let fixture = Fixture::new(kind, "known");
        let Pair { near, far } = fixture.pair(5, 7);
        assert_eq!(near.peer.name, fixture.server.name().cloned());
        assert_eq!(far.peer.name, fixture.client.name().cloned());
        assert_eq!((near.peer.session, far.peer.session), (7, 5));
        assert_eq!(near.peer.incarnation, fixture.server.incarnation());
        assert_eq!(far.peer.incarnation, fixture.client.incarnation());
        assert_eq!(near.page().incarnation(), fixture.server.incarnation());
        let is_remote = matches!(kind, Kind::Tcp | Kind::Tls);
        let pid = (!is_remote).then(std::process::id);
        assert_eq!(near.peer.pid, pid);
        assert_eq!(near.peer.at.is_some(), is_remote);
        assert_eq!((near.kind, far.kind), (kind, kind));
    });
}

#[test]
fn frames_go_both_ways_in_order() {
    over_all(|kind| {
        let Pair { near, far } = Fixture::new(kind, "frames").pair(1, 2);
        for number in 0..1000u64 {
            frame(&near, number);
            frame(&far, number + 1_000_000);
            assert_eq!(receive(&far), Some(number));
            assert_eq!(receive(&near), Some(number + 1_000_000));
        }
        assert_eq!(receive(&near), None);
    });
}

#[test]
fn each_side_sees_the_peers_page_and_board() {
    over_lanes(|kind| {
        let fixture = Fixture::new(kind, "pages");
        let Pair { near, far } = fixture.pair(3, 9);
        assert_eq!(near.page().asleep_unfenced(), None);
        fixture.server.page().clear_polling();
        assert!(near.page().asleep_unfenced().is_some());
        fixture.server.page().set_polling();
        assert_eq!(near.page().asleep_unfenced(), None);

        let mut noted = Vec::new();
        near.note().unwrap().mark();
        fixture.server.board().sweep(SESSIONS_PER_NODE_MAX, |session| noted.push(session));
        far.note().unwrap().mark();
        fixture.client.board().sweep(SESSIONS_PER_NODE_MAX, |session| noted.push(session));
        assert_eq!(noted, [9, 3]);
    });
}

#[test]
fn wake_ups_are_received_and_a_peer_that_reads_nothing_blocks_nobody() {
    over_lanes(|kind| {
        let Pair { near, far } = Fixture::new(kind, "rings").pair(1, 2);
        // The reply to a local caller came with a wake-up.
        near.drain().unwrap();
        assert_eq!(near.ring(), WakeResult::Sent);
        assert_eq!(near.ring(), WakeResult::Sent);
        let drained = far.drain().unwrap();
        assert_eq!((drained.bells, drained.closed, drained.more), (2, false, false));

        // The socket's flag is changed here: calls must not depend on it.
        rustix::io::ioctl_fionbio(near.socket().unwrap(), false).unwrap();
        let rung = (0..100_000).take_while(|_| near.ring() == WakeResult::Sent).count();
        assert_eq!(near.ring(), WakeResult::Full);
        let drained = far.drain().unwrap();
        assert_eq!((drained.bells, drained.more), (rung, false), "{kind}");
        assert_eq!(near.ring(), WakeResult::Sent);
        rustix::io::ioctl_fionbio(far.socket().unwrap(), false).unwrap();
        assert_eq!(far.drain().unwrap().bells, 1);
        assert_eq!(far.drain().unwrap().bells, 0);
    });
}

#[test]
fn a_lane_continues_in_a_larger_segment() {
    over_all(|kind| {
        let Pair { near, far } = Fixture::new(kind, "growth").pair(1, 2);
        let (generation, bytes) = near.writer().next_growth().unwrap();
        let segment = near.make_segment("upbeat-lane", bytes).unwrap();
        frame(&near, 1);
        let generation = u32::from(generation);
        near.send_segment(generation, &segment).unwrap();
        near.writer().claim(1, 0).unwrap().commit(Head::switch(generation).words(), 0);
        near.writer().grow(segment.into_region());
        for number in 2..400 {
            frame(&near, number);
        }

        assert_eq!(receive(&far), Some(1));
        let drained = far.drain().unwrap();
        let [grown] = <[_; 1]>::try_from(drained.segments).unwrap();
        assert_eq!((grown.generation, grown.bytes as usize), (generation, bytes));
        let words = far.reader().look().unwrap().unwrap();
        assert_eq!(Head::parse(words).unwrap().call.generation(), generation);
        far.reader().advance();
        far.reader().grow(grown.open().unwrap());
        for number in 2..400 {
            // A socket takes fewer frames than a grown lane.
            near.pump();
            assert_eq!(receive(&far), Some(number), "{kind}");
        }
    });
}

/// A peer that sends segments as long as the socket takes them makes this side hold a bounded number of descriptors.
#[test]
fn one_look_takes_a_bounded_number_of_segments() {
    let _alone = common::alone();
    const MOST: usize = 64;
    let Pair { near, far } = Fixture::new(Kind::Shared, "segments").pair(1, 2);
    let segment = near.make_segment("upbeat-lane", 4096).unwrap();
    let sent = (1..1000).take_while(|number| near.send_segment(*number, &segment).is_ok()).count();
    assert!(sent > MOST, "{sent}");
    let mut left = sent;
    while left > 0 {
        let drained = far.drain().unwrap();
        assert_eq!(drained.segments.len(), left.min(MOST));
        assert_eq!(drained.more, left >= MOST);
        left -= drained.segments.len();
    }
}

/// A record of a segment says its bytes in 32 bits.
#[test]
fn a_segment_that_is_too_long_for_its_record_is_not_announced() {
    let _alone = common::alone();
    let Pair { near, far } = Fixture::new(Kind::Shared, "long").pair(1, 2);
    let segment = segment::Segment::create("upbeat-long", 1 << 32, Writers::Owner).unwrap();
    let sent = near.send_segment(EXPORT_GENERATION, &OwnSegment::Shared(segment));
    assert!(far.drain().unwrap().segments.is_empty());
    assert!(matches!(sent, Err(SocketError::System { .. })), "{sent:?}");
}

#[test]
fn the_end_is_seen_by_the_other_side() {
    over_all(|kind| {
        let Pair { near, far } = Fixture::new(kind, "end").pair(1, 2);
        frame(&near, 4);
        near.ring();
        drop(near);
        assert!(is_closed(&far), "{kind}");
        assert_eq!(far.ring(), WakeResult::Gone);
        assert_eq!(receive(&far), Some(4), "earlier frames stay readable");

        // Unread bytes cause a reset, which counts as an end as well.
        let Pair { near, far } = Fixture::new(kind, "reset").pair(1, 2);
        far.ring();
        drop(near);
        assert!(is_closed(&far));
    });
}

#[test]
fn a_session_costs_one_descriptor() {
    over_all(|kind| {
        let fixture = Fixture::new(kind, "cost");
        let before = common::descriptors();
        let pairs: Vec<_> = (0..10).map(|session| fixture.pair(session, session)).collect();
        assert_eq!(common::descriptors() - before, 20, "{kind}: both sides are in this process");
        drop(pairs);
        assert_eq!(common::descriptors(), before);
    });
}

#[test]
fn a_caller_gives_up_a_node_that_does_not_answer() {
    over_all(|kind| {
        let fixture = Fixture::new(kind, "mute");
        let before = common::descriptors();
        let mut opening = fixture.connect(1, 10).unwrap();
        assert!(matches!(opening.step(10), Ok(Step::Waiting)));
        let deadline = opening.deadline_ms();
        assert!(matches!(opening.step(deadline - 1), Ok(Step::Waiting)));
        let error = opening.step(deadline).err().unwrap();
        assert!(matches!(error, OpenError::TooSlow { .. }), "{error}");
        drop(opening);
        // The listener finds the caller gone; it accepts a local one, which had left its lane, and sees the end
        // later.
        let pair = fixture.accept(2, 3000).map(|mut opening| opening.step(3000));
        match pair {
            Some(Ok(Step::Done(carrier))) => assert!(is_closed(&carrier)),
            Some(Err(
                OpenError::Closed { .. } | OpenError::Refused { .. } | OpenError::Tls { .. },
            )) => {}
            other => panic!("{kind}: {}", other.is_some()),
        }
        assert_eq!(common::descriptors(), before);
    });
}

#[test]
fn a_missing_node_is_reported() {
    over_names(|kind| {
        let fixture = Fixture::new(kind, "nobody");
        let nobody = "no/body".parse().unwrap();
        let error = fixture.connect_to(&nobody, 1, 0).err().unwrap();
        assert!(matches!(error, OpenError::NoSuchNode { died: false, .. }), "{error}");
        assert!(error.to_string().contains("no/body"), "{error}");
    });
}

#[test]
fn a_refusal_arrives_with_its_text() {
    // Under TLS no text is sent before the peer is known.
    over(&[Kind::Local, Kind::Shared, Kind::Stream, Kind::Tcp], |kind| {
        let fixture = Fixture::new(kind, "refusal");
        let mut near = fixture.connect(1, 0).unwrap();
        let far = fixture.accept(2, 0).unwrap();
        far.refuse(RefusalCode::Closing, "until noon");
        let error = near.step(0).err().unwrap();
        let OpenError::Refused { text, .. } = &error else { panic!("{error}") };
        assert_eq!(text, "until noon");
    });
}

/// Requests within a process are bounded where they wait. How many handshakes of other callers are in progress, the
/// runtime decides, which is told their number.
#[test]
fn pending_handshakes_are_bounded_or_counted() {
    over(&[Kind::Local, Kind::Shared, Kind::Stream, Kind::Tcp, Kind::Tls], |kind| {
        let fixture = Fixture::new(kind, "crowd");
        let most = PENDING_HANDSHAKES_MAX;
        let (mut callers, mut held, mut full) = (Vec::new(), Vec::new(), 0);
        for number in 0..most + 3 {
            match fixture.connect(number, 0) {
                Ok(opening) => callers.push(opening),
                Err(error) => {
                    assert!(matches!(error, OpenError::Backlog { .. }), "{error}");
                    assert!(error.is_busy() && error.to_string().contains("crowd/1"), "{error}");
                    full += 1;
                }
            }
            if kind != Kind::Local {
                held.extend(fixture.accept(number, 0));
                assert_eq!(fixture.pending(), held.len());
            }
        }
        match kind {
            Kind::Local => assert_eq!((callers.len(), full), (most, 3)),
            _ => assert_eq!((held.len(), full), (most + 3, 0)),
        }
        held.clear();
        assert_eq!(fixture.pending(), 0);
    });
}

/// A caller of another host can be held once its first message is whole: nothing is answered before the owner lets the
/// handshake go on, and the caller counts as heard.
#[test]
fn a_first_message_waits_for_its_answer() {
    over(&[Kind::Tcp, Kind::Tls], |kind| {
        let fixture = Fixture::new(kind, "held");
        let mut near = fixture.connect(1, 0).unwrap();
        let mut far = fixture.accept(2, 0).unwrap().held();
        assert!(matches!(far.step(3).unwrap(), Step::Waiting) && !far.is_held());
        assert_eq!(far.under_way(), OpeningTimes { began_ms: 0, heard_ms: None });
        while !far.is_held() {
            assert!(matches!(common::step(&mut near).unwrap(), Step::Waiting));
            assert!(matches!(far.step(7).unwrap(), Step::Waiting));
        }
        assert_eq!(far.under_way(), OpeningTimes { began_ms: 0, heard_ms: Some(7) });
        for _ in 0..3 {
            assert!(matches!(far.step(8).unwrap(), Step::Waiting) && far.is_held());
            assert!(matches!(near.step(8).unwrap(), Step::Waiting));
        }
        far.go_on();
        assert!(common::finish(&mut near, &mut far).is_ok(), "{kind}");
    });
}

#[test]
fn a_session_number_beyond_the_board_is_refused() {
    over_all(|kind| {
        let most = match kind {
            Kind::Tcp | Kind::Tls => SESSIONS_PER_NODE_MAX + REMOTE_SESSIONS_MAX,
            _ => SESSIONS_PER_NODE_MAX,
        };
        let error = Fixture::new(kind, "number").connect(most, 0).err().unwrap();
        assert!(matches!(error, OpenError::Session { .. }), "{error}");
    });
}

/// A listener that was busy for long reads what its caller sends behind its question as records of the session: it reads
/// why the caller has given up.
#[test]
fn a_caller_that_gives_up_is_no_peer_that_breaks_a_rule() {
    let _alone = common::alone();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let (name, client) = ("late/1".parse().unwrap(), common::home("client"));
    let terms = common::terms(None);
    let mut near = remote::connect(&client, &name, at, 1, [0, 1_000], &terms).unwrap();
    assert!(matches!(common::step(&mut near).unwrap(), Step::Waiting));
    let error = near.step(60_000).err().expect("a timeout");
    let OpenError::TooSlow { .. } = error else { panic!("{error}") };
    drop(near);
    let mut said = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut said).unwrap();
    let mut next = said.as_slice();
    for kind in ["hello", "network"] {
        let Ok(Parsed::Complete(record, bytes)) = Record::parse(next) else { panic!("{next:?}") };
        assert_eq!(record.kind().name(), kind);
        next = &next[bytes..];
    }
    let Ok(Parsed::Complete(stream::Head::Refusal { bytes }, head)) = stream::parse(next) else {
        panic!("{next:?}");
    };
    let record = &next[head..];
    assert_eq!(record.len(), bytes as usize);
    let Ok(Record::Refusal(refusal)) = Record::decode(record) else { panic!("{record:?}") };
    assert_eq!(refusal.text(), error.to_string());
}

/// A caller whose handshake is dropped in favour of others is told so, whether it has spoken or not, and may retry.
#[test]
fn a_caller_dropped_in_favour_of_others_is_told() {
    over(&[Kind::Tcp, Kind::Tls], |kind| {
        for has_spoken in [false, true] {
            let fixture = Fixture::new(kind, "crowded");
            let mut near = fixture.connect(1, 0).unwrap();
            if has_spoken {
                assert!(matches!(common::step(&mut near).unwrap(), Step::Waiting));
            }
            let far = fixture.accept(2, 0).unwrap();
            if has_spoken {
                common::wait(&far, PollFlags::IN);
            }
            far.refuse(RefusalCode::TooSlow, "others wait");
            let error = loop {
                match common::step(&mut near) {
                    Ok(Step::Waiting) => {}
                    Ok(_) => panic!("{kind}: the caller was accepted"),
                    Err(error) => break error,
                }
            };
            assert!(error.is_busy(), "{kind}, {has_spoken}: {error}");
            let gave_way =
                matches!(&error, OpenError::Tls { why, .. } if **why == TlsError::GaveWay);
            assert_eq!(gave_way, kind == Kind::Tls, "{kind}, {has_spoken}: {error}");
        }
    });
}
