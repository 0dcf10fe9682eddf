//! Sessions that outlive their connection: it is cut after any byte, and the session is resumed over another.

mod common;
#[path = "resume/end.rs"]
mod end;
#[path = "resume/handed.rs"]
mod handed;
#[path = "resume/wire.rs"]
mod wire;

use common::{Fixture, Pair};
use end::{End, Op};
use upbeat_core::fault::Rule;
use upbeat_core::hello::RefusalCode;
use upbeat_core::limits::{CHUNK_BYTES_MAX, PENDING_SEGMENTS_MAX, SLABS_MAX};
use upbeat_core::quota::Quota;
use upbeat_core::stream::write_padding;
use upbeat_transport::carrier::{Carrier, Connection, Kind, SocketError};
use wire::{Random, Wire};

/// The rounds after which a session that has not ended never does.
const ROUNDS_MAX: usize = 20_000;

/// Returns two carriers of one session, without a connection.
fn suspended() -> (Fixture, Pair) {
    let fixture = Fixture::new(Kind::Tcp, "resumed");
    let pair = fixture.pair(1, 2);
    for carrier in [&pair.near, &pair.far] {
        carrier.set_resumable(true);
        carrier.suspend();
        assert!(carrier.is_suspended() && carrier.socket().is_none());
        assert!(carrier.drain().unwrap().suspended);
    }
    (fixture, pair)
}

/// A session, its connection, and the way to cut it.
struct World {
    ends: [End; 2],
    wire: Option<Wire>,
    tls: bool,
    cuts: usize,
    _stand: Fixture,
}

impl World {
    fn new(scripts: [Vec<Op>; 2], tls: bool) -> World {
        let (fixture, Pair { near, far }) = suspended();
        let [first, second] = scripts;
        let ends = [End::new(near, first), End::new(far, second)];
        World { ends, wire: None, tls, cuts: 0, _stand: fixture }
    }

    /// Makes both sides charge their peers' segments to quotas of this size, and ask before announcing one.
    fn charge(&mut self, most: u64) -> [Quota; 2] {
        let quotas = [Quota::new(most), Quota::new(most)];
        for (end, quota) in self.ends.iter_mut().zip(&quotas) {
            end.charge_to(quota.clone());
        }
        quotas
    }

    /// Ends the session, after checking that each segment is charged once, however often it was announced.
    fn end(self, quotas: [Quota; 2]) {
        for end in &self.ends {
            // This frees the memory that a burst of bytes has taken.
            end.carrier.cool();
            end.check_charges();
        }
        drop(self);
        assert_eq!(quotas.map(|quota| quota.held()), [0; 2]);
    }

    /// Resumes both sides over a connection that is cut once so many bytes have gone in a direction.
    fn connect(&mut self, budget: [usize; 2]) {
        let (wire, connections) = Wire::new(budget, self.tls);
        let positions = [0, 1].map(|side| self.ends[side].carrier.position());
        for (side, connection) in connections.into_iter().enumerate() {
            let carrier = &self.ends[side].carrier;
            carrier.resume(connection, positions[1 - side]).unwrap();
            assert!(!carrier.is_suspended() && carrier.socket().is_some());
        }
        self.wire = Some(wire);
    }

    /// Breaks the connection: both sides find that, each in its way.
    fn cut(&mut self, random: &mut Random) {
        self.cuts += 1;
        self.wire = None;
        for end in &mut self.ends {
            match random.below(4) {
                0 => end.carrier.suspend(),
                1 => end.carrier.rest(),
                2 => _ = end.carrier.pump(),
                _ => {}
            }
            // The end stands behind the data that has come, and sending may have found it first.
            for _ in 0..3 {
                let drained = end.hear();
                assert!(!drained.closed && drained.refusal.is_none());
            }
            assert!(end.carrier.is_suspended(), "the connection is gone");
            assert!(!end.carrier.has_output());
            let position = end.carrier.position();
            end.write(random, 5);
            end.carrier.rest();
            assert_eq!(end.carrier.position(), position);
        }
        if random.below(4) == 0 {
            // One side resumes, and the new connection breaks before the other side does.
            let [one, other] = &self.ends;
            let (_, [connection, _]) = Wire::new([0, 0], false);
            one.carrier.resume(connection, other.carrier.position()).unwrap();
            one.carrier.pump();
            assert!(one.carrier.drain().unwrap().suspended);
        }
    }

    fn round(&mut self, random: &mut Random) {
        let [one, other] = &mut self.ends;
        one.round(other, random);
        other.round(one, random);
        if let Some(wire) = &mut self.wire
            && wire.forward()
        {
            self.cut(random);
        }
    }

    fn is_done(&self) -> bool {
        let [one, other] = &self.ends;
        one.is_done(other) && other.is_done(one)
    }

    /// Runs until everything has come, over connections that are cut after the budgeted bytes.
    fn run(&mut self, random: &mut Random, mut budget: impl FnMut(&mut Random) -> [usize; 2]) {
        for _ in 0..ROUNDS_MAX {
            if self.wire.is_none() {
                let budget = budget(random);
                self.connect(budget);
            }
            self.round(random);
            if self.is_done() {
                return;
            }
        }
        panic!("the session never ends: {:?}", self.ends);
    }
}

/// Returns `many` frames of all kinds.
fn script(random: &mut Random, many: usize) -> Vec<Op> {
    let mut script = vec![Op::Slab { each: 64, count: 1 }];
    for _ in 0..many {
        script.push(match random.below(40) {
            0..=14 => Op::Frame(random.below(100) as usize),
            15..=19 => Op::Frame(random.below(4000) as usize),
            20 => Op::Frame(random.below(70_000) as usize),
            21..=30 => Op::Placed(random.below(6000) as usize),
            31..=32 => Op::Answer(random.below(100) as usize),
            33..=35 => Op::Slab { each: 8 << random.below(11), count: 1 + random.below(3) as u32 },
            36..=37 => Op::Retire,
            _ => Op::Grow,
        });
    }
    script
}

fn seeds(default: u64) -> u64 {
    std::env::var("UPBEAT_CUTS").map_or(default, |text| text.parse().unwrap())
}

/// The bytes of the longest frame, with the records at the beginning of each connection.
const LONGEST_BYTES: u64 = 80_000;

fn cut_at_random(seed: u64, tls: bool, many: usize) -> usize {
    let mut random = Random::new(seed);
    let scripts = [script(&mut random, many), script(&mut random, many)];
    let mut world = World::new(scripts, tls);
    // The quotas have room for everything, for some segments, and for none that needs permission.
    let quotas = world.charge([64 << 20, 100 << 10, 0][seed as usize % 3]);
    let most = [1_000, 5_000, 40_000][random.below(3) as usize];
    world.run(&mut random, |random| {
        // A frame that is longer than every connection's budget would never come.
        let more = if random.below(8) == 0 { LONGEST_BYTES } else { 0 };
        [0, 1].map(|_| (random.below(most) + more) as usize)
    });
    let cuts = world.cuts;
    world.end(quotas);
    cuts
}

#[test]
fn every_frame_comes_once_however_often_the_connection_is_cut() {
    let _alone = common::alone();
    let cuts: usize = (0..seeds(60)).map(|seed| cut_at_random(seed, false, 150)).sum();
    println!("{cuts} cuts");
    assert!(cuts > 100);
}

#[test]
fn every_frame_comes_once_under_tls() {
    let _alone = common::alone();
    let cuts: usize = (0..seeds(60).div_ceil(20)).map(|seed| cut_at_random(seed, true, 60)).sum();
    println!("{cuts} cuts");
    assert!(cuts > 3);
}

/// One connection after another is cut behind each byte, in either direction.
#[test]
fn a_connection_may_be_cut_after_any_byte() {
    let _alone = common::alone();
    let ops = || {
        vec![
            Op::Frame(8),
            Op::Slab { each: 64, count: 1 },
            Op::Placed(40),
            Op::Frame(300),
            Op::Placed(64),
            Op::Grow,
            Op::Frame(8),
            Op::Placed(9),
            Op::Retire,
            Op::Slab { each: 128, count: 2 },
            Op::Placed(100),
            Op::Frame(200),
        ]
    };
    let step = if std::env::var_os("UPBEAT_CUTS").is_some() { 1 } else { 7 };
    let mut cut = 0;
    loop {
        let mut random = Random::new(cut as u64);
        let mut world = World::new([ops(), ops()], false);
        let quotas = world.charge(64 << 20);
        let mut connections = 0;
        world.run(&mut random, |_| {
            connections += 1;
            match connections {
                1 => [cut, usize::MAX],
                2 => [usize::MAX, cut],
                _ => [usize::MAX; 2],
            }
        });
        let cuts = world.cuts;
        world.end(quotas);
        if cuts == 0 {
            break;
        }
        cut += step;
    }
    assert!(cut > 1000, "{cut} bytes go over a connection");
}

/// Replies pass a payload that goes in chunks. Connections are cut anywhere in the chunks, and between them.
#[test]
fn replies_that_pass_a_long_payload_come_once() {
    const BYTES: usize = CHUNK_BYTES_MAX * 2 + 1000;
    let _alone = common::alone();
    let ops = || {
        let mut ops = vec![Op::Slab { each: BYTES.next_multiple_of(4096), count: 1 }];
        for _ in 0..2 {
            ops.extend([Op::Placed(BYTES), Op::Frame(8), Op::Answer(8), Op::Placed(2000)]);
            ops.extend([Op::Answer(300), Op::Frame(200), Op::Answer(0)]);
        }
        ops
    };
    let (mut passed, mut cuts) = (0, 0);
    for seed in 0..seeds(12) {
        let mut random = Random::new(seed);
        let mut world = World::new([ops(), ops()], seed % 4 == 3);
        let mut connections = 0;
        world.run(&mut random, |random| {
            connections += 1;
            // The first connections are cut early or late in the payload, the later ones anywhere.
            let most = if connections < 3 { CHUNK_BYTES_MAX } else { 5 * BYTES } as u64;
            [0, 1]
                .map(|_| random.below(most) as usize + if connections % 2 == 0 { BYTES } else { 0 })
        });
        cuts += world.cuts;
        passed += world.ends.iter().map(|end| end.passed).sum::<usize>();
    }
    println!("{cuts} cuts, {passed} answers have passed");
    assert!(cuts > 12 && passed > 24, "{cuts} cuts, {passed} answers have passed");
}

/// A segment whose frame has not come is announced over each connection, and forgotten with the connection.
#[test]
fn announcements_do_not_pile_up() {
    let _alone = common::alone();
    let mut random = Random::new(7);
    let mut world = World::new([vec![Op::Grow, Op::Frame(9)], Vec::new()], false);
    // The words of the header go first: progress, and the returns of each slab. Then comes the segment.
    let first = 8 + 8 * SLABS_MAX + 16;
    let mut connections = 0;
    world.run(&mut random, |_| {
        connections += 1;
        if connections <= 2 * PENDING_SEGMENTS_MAX { [first, usize::MAX] } else { [usize::MAX; 2] }
    });
    assert!(world.cuts >= PENDING_SEGMENTS_MAX);
}

/// Returns a session in which one side has written frames, and the other has received all and read the first.
fn with_frames() -> (Fixture, Pair) {
    let (fixture, pair) = suspended();
    let (mut wire, [near, far]) = Wire::new([usize::MAX; 2], false);
    pair.near.resume(near, 0).unwrap();
    pair.far.resume(far, 0).unwrap();
    for bytes in [8, 500, 200] {
        let claim = pair.near.writer().claim((24 + bytes as u32).div_ceil(128), 0).unwrap();
        claim.commit([2 << 8 | (bytes as u64) << 32, 0, 0], bytes);
    }
    pair.near.pump();
    wire.forward();
    pair.far.drain().unwrap();
    assert_eq!(pair.far.position(), 8);
    assert!(pair.far.reader().look().unwrap().is_some());
    pair.far.reader().advance();
    pair.far.reader().publish_progress();
    // The question makes the peer report its progress.
    pair.near.found_no_room();
    pair.near.pump();
    wire.forward();
    pair.far.drain().unwrap();
    pair.far.rest();
    wire.forward();
    pair.near.drain().unwrap();
    pair.near.suspend();
    (fixture, pair)
}

#[test]
fn a_position_where_the_peer_cannot_be_is_refused() {
    let _alone = common::alone();
    let (_stand, Pair { near, far }) = with_frames();
    let resume = |position| {
        let (_wire, [connection, _]) = Wire::new([0, 0], false);
        near.resume(connection, position)
    };
    let within = |seen| Err(Rule::ResumeWithin { seen });
    assert_eq!(resume(0), Err(Rule::ResumeBehind { seen: 0, acknowledged: 1 }));
    for position in [2, 3, 4, 5, 7] {
        assert_eq!(resume(position), within(position));
    }
    for position in [9, u64::MAX] {
        assert_eq!(resume(position), Err(Rule::ResumeAhead { seen: position, shipped: 8 }));
    }
    assert!(near.is_suspended(), "the failed call changed nothing");
    far.suspend();
    assert_eq!(resume(far.position()), Ok(()));
    assert!(!near.is_suspended());
}

/// Returns a carrier of a resumable session, and the other side's, over a connection.
fn connected() -> (Fixture, Pair, Wire) {
    let (fixture, pair) = suspended();
    let (wire, [near, far]) = Wire::new([usize::MAX; 2], false);
    pair.near.resume(near, 0).unwrap();
    pair.far.resume(far, 0).unwrap();
    (fixture, pair, wire)
}

#[test]
fn a_session_that_was_ended_is_never_resumed() {
    let _alone = common::alone();
    let closed = |carrier: &Carrier| {
        let drained = carrier.drain().unwrap();
        assert!(!drained.suspended && !carrier.is_suspended());
        drained.closed
    };
    // The peer closes the session.
    let (_stand, Pair { near, far }, mut wire) = connected();
    near.close();
    wire.forward();
    drop(wire);
    far.suspend();
    assert!(closed(&far));
    // The side that closes does not treat this as a break either.
    assert!(closed(&near));

    // The peer refuses the session.
    let (_stand, Pair { near, far }, mut wire) = connected();
    near.refuse(RefusalCode::NoResources, "so it is");
    near.close();
    wire.forward();
    drop(wire);
    assert_eq!(far.drain().unwrap().refusal.unwrap().text(), "so it is");
    assert!(closed(&far));

    // The peer breaks a rule.
    let (_stand, Pair { near: _near, far }, mut wire) = connected();
    wire.forward();
    let mut padding = Vec::new();
    write_padding(61, &mut padding);
    wire.say(1, &padding);
    drop(wire);
    assert!(matches!(far.drain(), Err(SocketError::Rule(Rule::SpanBeyondRing { .. }))));
    assert!(!far.is_suspended());
}

#[test]
fn a_session_that_is_not_resumable_ends_with_its_connection() {
    let _alone = common::alone();
    let (_stand, Pair { near, far }, wire) = connected();
    far.set_resumable(false);
    drop(wire);
    far.was_read();
    assert!(far.pump().ended);
    let drained = far.drain().unwrap();
    assert!(drained.closed && !drained.suspended && !far.is_suspended());
    near.was_read();
    assert!(near.pump().ended);
    assert!(near.drain().unwrap().suspended && near.is_suspended());
}

/// A side that only sends finds the break as well.
#[test]
fn a_break_is_found_by_sending() {
    let _alone = common::alone();
    let (_stand, Pair { near, far: _far }, wire) = connected();
    drop(wire);
    common::frame(&near, 1);
    assert!(near.pump().ended);
    let drained = near.drain().unwrap();
    assert!(drained.suspended && !drained.closed);
    // Sending finds the break only once, and frames that are written stay.
    common::frame(&near, 2);
    assert!(!near.pump().ended && !near.has_output());
    assert!(near.drain().unwrap().suspended);
    let (_wire, [connection, _]) = Wire::new([0, 0], false);
    near.resume(connection, 0).unwrap();
}

/// Data from before the break is received, even if nobody has looked at it.
#[test]
fn data_from_before_the_break_is_received() {
    let _alone = common::alone();
    let (_stand, Pair { near, far }, mut wire) = connected();
    (1..=3).for_each(|number| common::frame(&near, number));
    wire.forward();
    drop(wire);
    assert!(far.drain().unwrap().suspended);
    assert_eq!(far.position(), 3);
    for number in 1..=3 {
        let mut bytes = [0; 8];
        assert!(far.reader().look().unwrap().is_some());
        far.payload().read(0, &mut bytes);
        assert_eq!(u64::from_le_bytes(bytes), number);
        far.reader().advance();
    }
}

#[test]
#[should_panic(expected = "still has a connection")]
fn an_intact_connection_is_not_replaced() {
    let _alone = common::alone();
    let (_stand, Pair { near, .. }, _wire) = connected();
    let (_other, connections): (Wire, [Connection; 2]) = Wire::new([0, 0], false);
    let [connection, _] = connections;
    let _ = near.resume(connection, 0);
}
