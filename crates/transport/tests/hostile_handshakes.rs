//! Wrong, silent and hostile peers in a handshake: each gets its own error, leaks no descriptor and harms no other.

mod common;

use common::{Fixture, Raw, alone, descriptors, finish, passed};
use rustix::fs::{MemfdFlags, SealFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use upbeat_core::fault::Rule;
use upbeat_core::hello::{Hello, Record, RefusalCode, Segments, VERSION_MAX, Welcome};
use upbeat_core::limits::{BOARD_BYTES, HANDSHAKE_MS_MAX};
use upbeat_core::name::ProgramId;
use upbeat_memory::lane::LANE_BYTES;
use upbeat_memory::segment::{PAGE, Segment, SegmentError, Writers};
use upbeat_transport::carrier::{Carrier, Kind, SocketError};
use upbeat_transport::error::OpenError;
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::opening::{Opening, Step};
use upbeat_transport::{local, shared};

fn fixture(name: &str) -> Fixture {
    Fixture::new(Kind::Shared, name)
}

/// Returns the error with which a step ends.
fn error_of(opening: &mut Opening) -> OpenError {
    match opening.step(0) {
        Err(error) => error,
        Ok(Step::Waiting) => panic!("the opening waits"),
        Ok(_) => panic!("the session is open"),
    }
}

/// Returns a caller that the test controls, and the listener's opening.
fn raw_caller(fixture: &Fixture) -> (Raw, Opening) {
    let raw = Raw::connect(fixture.listener().path());
    let opening = fixture.accept(1, 0).expect("a caller");
    (raw, opening)
}

fn hello(fixture: &Fixture) -> Hello {
    Hello {
        version_min: VERSION_MAX,
        version_max: VERSION_MAX,
        program: fixture.server.program().clone(),
        caller: None,
        wanted: fixture.name.clone(),
        incarnation: 77,
        pid: 1,
        memory: true,
    }
}

fn segments() -> Record {
    Record::Segments(Segments {
        lane_bytes: LANE_BYTES as u32,
        board_slot: 0,
        session: 0,
        listening: None,
    })
}

/// Returns a caller that the test controls, which was asked for its segments.
fn raw_caller_to_segments(fixture: &Fixture) -> (Raw, Opening) {
    let (raw, mut opening) = raw_caller(fixture);
    raw.send(&Record::Hello(hello(fixture)).encode(), &[]);
    assert!(matches!(opening.step(0), Ok(Step::Waiting)));
    assert!(matches!(raw.receive(), (Some(Record::Welcome(_)), 0)));
    assert!(matches!(raw.receive(), (Some(Record::Segments(_)), 3)));
    (raw, opening)
}

/// Checks that a case leaves the table of descriptors unchanged, and the listener at work.
fn harmless(fixture: &Fixture, case: impl FnOnce()) {
    let before = descriptors();
    case();
    assert_eq!(descriptors(), before, "descriptors were leaked");
    fixture.pair(10, 11);
    assert_eq!(descriptors(), before);
}

#[test]
fn a_peer_of_another_program_is_refused() {
    let _alone = alone();
    let fixture = fixture("program");
    let other = ProgramId::new("test".parse().unwrap(), 7);
    let stranger = LocalNode::new(other.clone(), None).unwrap();
    harmless(&fixture, || {
        let mut near = shared::connect(&fixture.place, &stranger, &fixture.name, 1, 0).unwrap();
        let error = error_of(&mut fixture.accept(1, 0).unwrap());
        let OpenError::WrongProgram { ours, theirs, .. } = &error else { panic!("{error}") };
        assert_eq!((&**ours, &**theirs), (fixture.server.program(), &other));
        let error = error_of(&mut near);
        let OpenError::Refused { code, .. } = &error else { panic!("{error}") };
        assert_eq!(*code, RefusalCode::WrongProgram);
    });

    let fixture = Fixture::new(Kind::Local, "program");
    let error = local::connect(&stranger, &fixture.name, 1, 0).err().unwrap();
    assert!(matches!(error, OpenError::WrongProgram { .. }), "{error}");
}

#[test]
fn a_peer_of_another_version_is_refused() {
    let _alone = alone();
    let fixture = fixture("version");
    harmless(&fixture, || {
        // The versions are of the protocol, and of the records' format.
        for (at, bytes, known) in [(16, [9, 0, 9, 0], VERSION_MAX), (8, [2, 0, 1, 0], 1)] {
            let (raw, mut opening) = raw_caller(&fixture);
            let mut record = Record::Hello(hello(&fixture)).encode();
            record[at..at + 4].copy_from_slice(&bytes);
            raw.send(&record, &[]);
            let error = error_of(&mut opening);
            let OpenError::WrongVersion { ours, .. } = error else { panic!("{error}") };
            assert_eq!(ours, known);
            assert_eq!(raw.refusal(), RefusalCode::WrongVersion);
        }
    });
}

#[test]
fn a_moved_socket_is_refused() {
    let _alone = alone();
    let fixture = fixture("moved");
    let elsewhere =
        fixture.place.socket_path(fixture.server.program().name(), &"else".parse().unwrap());
    std::fs::rename(fixture.listener().path(), elsewhere).unwrap();
    let mut near = fixture.connect_to(&"else".parse().unwrap(), 1, 0).unwrap();
    let error = error_of(&mut fixture.accept(1, 0).unwrap());
    assert!(matches!(error, OpenError::WrongNode { .. }), "{error}");
    assert!(error.to_string().contains(", which listens there: connect to `"), "{error}");
    let error = error_of(&mut near);
    assert!(matches!(error, OpenError::Refused { code: RefusalCode::NoSuchNode, .. }), "{error}");
}

#[test]
fn a_silent_caller_is_refused() {
    let _alone = alone();
    let fixture = fixture("silent");
    let before = descriptors();
    let (raw, mut silent) = raw_caller(&fixture);
    assert_eq!(descriptors() - before, 2, "one for each side of a socket");
    for now_ms in [0, 1, HANDSHAKE_MS_MAX - 1] {
        assert!(matches!(silent.step(now_ms), Ok(Step::Waiting)));
        drop(fixture.pair(2, 3));
    }
    assert_eq!(silent.deadline_ms(), HANDSHAKE_MS_MAX);
    let error = silent.step(HANDSHAKE_MS_MAX).err().unwrap();
    assert!(matches!(error, OpenError::TooSlow { waited_ms: HANDSHAKE_MS_MAX, .. }), "{error}");
    assert_eq!(raw.refusal(), RefusalCode::TooSlow);
    drop((raw, silent));
    assert_eq!(descriptors(), before);
}

#[test]
fn a_caller_that_closes_is_reported() {
    let _alone = alone();
    let fixture = fixture("away");
    harmless(&fixture, || {
        let (raw, mut opening) = raw_caller(&fixture);
        drop(raw);
        let error = error_of(&mut opening);
        assert!(matches!(error, OpenError::Closed { .. }), "{error}");

        let (raw, mut opening) = raw_caller_to_segments(&fixture);
        drop(raw);
        assert!(matches!(error_of(&mut opening), OpenError::Closed { .. }));
    });
}

#[test]
fn a_wrong_number_of_descriptors_is_refused() {
    let _alone = alone();
    let fixture = fixture("count");
    let some: Vec<OwnedFd> = (0..20).map(|_| passed::plain_file(0)).collect();
    let some: Vec<BorrowedFd<'_>> = some.iter().map(AsFd::as_fd).collect();
    for count in [0, 1, 2, 4, 5, 6, 7, 20] {
        harmless(&fixture, || {
            let (raw, mut opening) = raw_caller_to_segments(&fixture);
            raw.send(&segments().encode(), &some[..count]);
            let error = error_of(&mut opening);
            let OpenError::Protocol { rule: Rule::Descriptors { seen, expected: 3 }, .. } = error
            else {
                panic!("{error}")
            };
            assert!(seen as usize == count || (count > 3 && seen > 3), "{seen} of {count}");
            assert_eq!(raw.refusal(), RefusalCode::Malformed);
        });
        harmless(&fixture, || {
            let (raw, mut opening) = raw_caller(&fixture);
            raw.send(&Record::Hello(hello(&fixture)).encode(), &some[..count]);
            match opening.step(0) {
                Ok(_) => assert_eq!(count, 0),
                Err(OpenError::Protocol {
                    rule: Rule::Descriptors { expected: 0, .. }, ..
                }) => {}
                Err(error) => panic!("{error}"),
            }
        });
    }
}

/// Hands over `[lane, page, board]`, and returns the listener's error.
fn offer(fixture: &Fixture, offered: [&OwnedFd; 3]) -> OpenError {
    let (raw, mut opening) = raw_caller_to_segments(fixture);
    raw.send(&segments().encode(), &offered.map(|descriptor| descriptor.as_fd()));
    let error = error_of(&mut opening);
    assert_eq!(raw.refusal(), RefusalCode::Malformed, "{error}");
    error
}

#[test]
fn untrustworthy_segments_are_refused() {
    let _alone = alone();
    let fixture = fixture("segments");
    let owner = Writers::Owner;
    let lane = passed::segment(LANE_BYTES, owner);
    let page = passed::segment(PAGE, owner);
    let board = passed::segment(BOARD_BYTES, Writers::Everybody);
    harmless(&fixture, || {
        let size = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        let unsealed = passed::memfd(LANE_BYTES, MemfdFlags::empty(), SealFlags::empty());
        let shrinks = passed::memfd(
            LANE_BYTES,
            MemfdFlags::empty(),
            SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL,
        );
        let writable = passed::memfd(LANE_BYTES, MemfdFlags::empty(), size);
        for bad in [&unsealed, &shrinks, &writable] {
            let error = offer(&fixture, [bad, &page, &board]);
            let OpenError::Segment { which: "lane", error: SegmentError::Seals { .. }, .. } = error
            else {
                panic!("{error}")
            };
        }
        let error = offer(&fixture, [&lane, &page, &passed::segment(BOARD_BYTES, owner)]);
        assert!(matches!(
            error,
            OpenError::Segment { which: "board", error: SegmentError::Seals { .. }, .. }
        ));
        for bytes in [PAGE, 2 * LANE_BYTES] {
            let error = offer(&fixture, [&passed::segment(bytes, owner), &page, &board]);
            assert!(matches!(
                error,
                OpenError::Segment { which: "lane", error: SegmentError::Size { .. }, .. }
            ));
        }
        let other_kinds = [
            Some(passed::plain_file(LANE_BYTES)),
            Some(OwnedFd::from(std::fs::File::open("/dev/zero").unwrap())),
            Some(std::io::pipe().unwrap().0.into()),
            passed::hugetlb(),
        ];
        for bad in other_kinds.into_iter().flatten() {
            let error = offer(&fixture, [&bad, &page, &board]);
            assert!(
                matches!(error, OpenError::Segment { which: "lane", .. }),
                "{error}: only a sealed tmpfs file is accepted"
            );
        }
        let error = offer(&fixture, [&lane, &page, &board]);
        let OpenError::Incarnation { said: 77, page: 0, .. } = error else { panic!("{error}") };
    });
}

#[test]
fn a_lane_of_another_size_and_a_slot_beyond_the_board_are_refused() {
    let _alone = alone();
    let fixture = fixture("numbers");
    harmless(&fixture, || {
        let page = passed::segment(PAGE, Writers::Owner);
        let lane = passed::segment(2 * LANE_BYTES, Writers::Owner);
        for (lane_bytes, board_slot) in [(2 * LANE_BYTES, 0), (LANE_BYTES, 4095)] {
            let (raw, mut opening) = raw_caller_to_segments(&fixture);
            let lane_bytes = lane_bytes as u32;
            let record =
                Record::Segments(Segments { lane_bytes, board_slot, session: 0, listening: None });
            raw.send(&record.encode(), &[lane.as_fd(), page.as_fd(), page.as_fd()]);
            let error = error_of(&mut opening);
            assert!(matches!(error, OpenError::Protocol { .. }), "{error}");
        }
    });
}

#[test]
fn records_out_of_order_are_refused() {
    let _alone = alone();
    let fixture = fixture("place");
    harmless(&fixture, || {
        let (raw, mut opening) = raw_caller(&fixture);
        raw.send(&Record::Ready.encode(), &[]);
        let error = error_of(&mut opening);
        let OpenError::Protocol { rule: Rule::RecordOutOfPlace { kind: "ready" }, .. } = error
        else {
            panic!("{error}")
        };
        let (raw, mut opening) = raw_caller_to_segments(&fixture);
        raw.send(&Record::Hello(hello(&fixture)).encode(), &[]);
        let error = error_of(&mut opening);
        assert!(matches!(error, OpenError::Protocol { .. }), "{error}");
    });
}

/// Returns a session whose caller the test controls.
fn raw_session(fixture: &Fixture) -> (Raw, Carrier) {
    let (raw, mut opening) = raw_caller_to_segments(fixture);
    let page = Segment::create("page", PAGE, Writers::Owner).and_then(Segment::reserve).unwrap();
    page.region().store(0, 77);
    let lane = passed::segment(LANE_BYTES, Writers::Owner);
    let board = passed::segment(BOARD_BYTES, Writers::Everybody);
    raw.send(&segments().encode(), &[lane.as_fd(), page.descriptor(), board.as_fd()]);
    let Ok(Step::Done(carrier)) = opening.step(0) else { panic!("the session is not open") };
    assert!(matches!(raw.receive(), (Some(Record::Ready), 0)));
    (raw, carrier)
}

#[test]
fn packets_that_are_no_wake_up_and_no_segment_are_refused() {
    let _alone = alone();
    let fixture = fixture("bell");
    let lane = passed::segment(LANE_BYTES, Writers::Owner);
    let growth = upbeat_core::hello::Segment { generation: 1, bytes: LANE_BYTES as u32 };
    let growth = Record::Segment(growth).encode();
    let long = [&growth[..], &[0]].concat();
    let packets: [(&[u8], usize); 9] = [
        (&[1], 0),
        (&[0, 1], 0),
        (&[0; 3000], 0),
        (&[0], 1),
        (&growth, 0),
        (&growth, 2),
        (&growth[..20], 1),
        (&long, 1),
        (&Record::Ready.encode(), 0),
    ];
    for (packet, count) in packets {
        harmless(&fixture, || {
            let (raw, carrier) = raw_session(&fixture);
            raw.send(packet, &vec![lane.as_fd(); count]);
            match carrier.drain() {
                Err(SocketError::Rule(_)) => {}
                // A packet of many zeros is many wake-ups.
                Ok(drained) => assert!(packet.len() == 3000 && drained.bells > 0),
                Err(fault) => panic!("{fault}"),
            }
        });
    }
    harmless(&fixture, || {
        let (raw, carrier) = raw_session(&fixture);
        let plain = passed::plain_file(LANE_BYTES);
        raw.send(&growth, &[plain.as_fd()]);
        let mut drained = carrier.drain().unwrap();
        let error = drained.segments.pop().unwrap().open().err().unwrap();
        assert!(matches!(error, SegmentError::Kind { .. } | SegmentError::Seals { .. }), "{error}");
    });
}

/// A generator of numbers from a seed (splitmix64). A failure names its seed, with which it can be repeated.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Returns random bytes, or a valid record with a fault; never a valid record.
    fn garbage(&mut self, right: &[u8]) -> Vec<u8> {
        if self.below(2) == 0 {
            let length = 1 + self.below(4000);
            return (0..length).map(|_| self.next() as u8).collect();
        }
        let mut bytes = right.to_vec();
        match self.below(3) {
            0 => bytes.truncate(1 + self.below(right.len() - 1)),
            1 => bytes.extend((0..=self.below(100)).map(|_| 0)),
            _ => bytes[self.below(16)] ^= 1 << self.below(8),
        }
        bytes
    }
}

#[test]
fn garbage_from_a_caller_is_refused() {
    let _alone = alone();
    let fixture = fixture("caller");
    let before = descriptors();
    let things = [passed::plain_file(1), passed::segment(LANE_BYTES, Writers::Owner)];
    for seed in 0..400 {
        let mut numbers = Numbers(seed);
        let (raw, mut opening, right) = match numbers.below(2) {
            0 => {
                let (raw, opening) = raw_caller(&fixture);
                (raw, opening, Record::Hello(hello(&fixture)).encode())
            }
            _ => {
                let (raw, opening) = raw_caller_to_segments(&fixture);
                (raw, opening, segments().encode())
            }
        };
        let beside: Vec<_> =
            (0..numbers.below(6)).map(|_| things[numbers.below(2)].as_fd()).collect();
        raw.send(&numbers.garbage(&right), &beside);
        let error = match opening.step(0) {
            Err(error) => error,
            Ok(_) => panic!("seed {seed} was accepted"),
        };
        assert!(!error.to_string().is_empty());
        raw.refusal();
    }
    drop(things);
    assert_eq!(descriptors(), before);
    fixture.pair(5, 6);
}

#[test]
fn garbage_from_a_listener_is_refused() {
    let _alone = alone();
    let fixture = fixture("listener");
    let path = fixture.place.socket_path(fixture.server.program().name(), &"imp".parse().unwrap());
    let imp = common::raw_listener(&path);
    let before = descriptors();
    let thing = passed::segment(LANE_BYTES, Writers::Owner);
    for seed in 0..400 {
        let mut numbers = Numbers(seed);
        let mut near = fixture.connect_to(&"imp".parse().unwrap(), 1, 0).unwrap();
        let raw = Raw::accept(&imp);
        assert!(matches!(raw.receive(), (Some(Record::Hello(_)), 0)));
        let node = "imp".parse().unwrap();
        let welcome =
            Record::Welcome(Welcome { node, incarnation: 5, version: VERSION_MAX }).encode();
        let right = match numbers.below(2) {
            0 => welcome,
            _ => {
                raw.send(&welcome, &[]);
                segments().encode()
            }
        };
        let beside = vec![thing.as_fd(); numbers.below(6)];
        raw.send(&numbers.garbage(&right), &beside);
        let Err(error) = near.step(0) else { panic!("seed {seed} was accepted") };
        assert!(error.to_string().contains("imp"), "{error}");
    }
    drop(thing);
    assert_eq!(descriptors(), before);
}

#[test]
fn a_listener_with_another_name_is_refused() {
    let _alone = alone();
    let fixture = fixture("name");
    let name = "imp".parse().unwrap();
    let imp =
        common::raw_listener(&fixture.place.socket_path(fixture.server.program().name(), &name));
    let mut near = fixture.connect_to(&name, 1, 0).unwrap();
    let raw = Raw::accept(&imp);
    let node = "devil".parse().unwrap();
    raw.send(
        &Record::Welcome(Welcome { node, incarnation: 5, version: VERSION_MAX }).encode(),
        &[],
    );
    let error = error_of(&mut near);
    assert!(matches!(error, OpenError::WrongNode { .. }), "{error}");
}

#[test]
fn a_name_is_taken_once_in_a_process() {
    let _alone = alone();
    let fixture = fixture("twice");
    let error = shared::Listener::bind(&fixture.place, &fixture.server).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("twice/1") && text.contains("this process"), "{text}");
    // The first node is not affected.
    let mut near = fixture.connect(1, 0).unwrap();
    finish(&mut near, &mut fixture.accept(1, 0).unwrap()).unwrap();

    let fixture = Fixture::new(Kind::Local, "twice");
    let error = local::Listener::bind(&fixture.server).err().unwrap();
    assert!(error.to_string().contains("this process"), "{error}");
}

#[test]
fn a_dropped_name_is_free_again() {
    let _alone = alone();
    let directory = common::Directory::new();
    let (place, home) = (directory.place(), common::home("again"));
    for _ in 0..3 {
        let listener = shared::Listener::bind(&place, &home).unwrap();
        let path = listener.path().to_owned();
        drop(listener);
        assert!(!path.parent().unwrap().exists());
        drop(local::Listener::bind(&home).unwrap());
    }
}
