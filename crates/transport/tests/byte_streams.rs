//! Tests of byte streams: a hostile peer that writes into one, and a peer that does not read.

mod common;
#[path = "byte_streams/priorities.rs"]
mod priorities;
#[path = "byte_streams/quota.rs"]
mod quota;

use common::{Fixture, Pair, Raw, frame, program, receive};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use upbeat_core::fault::Rule;
use upbeat_core::frame::{CallNumber, Flags, Head, Placed};
use upbeat_core::hello::{Hello, Record, Refusal, RefusalCode, Segment, Streamed, VERSION_MAX};
use upbeat_core::limits::{
    CHUNK_BYTES_MAX, IN_RING_BYTES_MAX, PENDING_SEGMENTS_MAX, SLAB_GENERATION,
};
use upbeat_core::stream::{
    Chunk, Progress, write_chunk, write_frame, write_padding, write_refusal, write_refusal_head,
    write_segment,
};
use upbeat_transport::carrier::{Carrier, Kind, SocketError};
use upbeat_transport::opening::Step;

/// A carrier, and the peer's end of its stream, which the test holds.
struct Attack {
    carrier: Carrier,
    socket: OwnedFd,
    _stand: Fixture,
}

fn hello(fixture: &Fixture) -> Hello {
    Hello {
        version_min: VERSION_MAX,
        version_max: VERSION_MAX,
        program: program("test"),
        caller: None,
        wanted: fixture.name.clone(),
        incarnation: 77,
        pid: 1,
        memory: true,
    }
}

fn pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).unwrap()
}

impl Attack {
    fn new(name: &str) -> Attack {
        let fixture = Fixture::new(Kind::Stream, name);
        let raw = Raw::connect(fixture.listener().path());
        let mut opening = fixture.accept(3, 0).unwrap();
        raw.send(&Record::Hello(hello(&fixture)).encode(), &[]);
        assert!(matches!(opening.step(0), Ok(Step::Waiting)));
        assert!(matches!(raw.receive(), (Some(Record::Welcome(_)), 0)));
        let stream = Record::Stream(Streamed { session: 3 });
        assert_eq!(raw.receive(), (Some(stream), 0), "the caller cannot share memory");
        let (socket, theirs) = pair(SocketType::STREAM);
        let joined = Record::Joined(Streamed { session: 0 }).encode();
        raw.send(&joined, &[theirs.as_fd()]);
        let Ok(Step::Done(carrier)) = opening.step(0) else { panic!("no session") };
        assert_eq!(raw.receive(), (Some(Record::Ready), 0));
        Attack { carrier, socket, _stand: fixture }
    }

    /// Writes as many of the bytes as the socket takes.
    fn write(&self, bytes: &[u8]) {
        let mut left = bytes;
        while !left.is_empty() {
            match rustix::net::send(&self.socket, left, SendFlags::NOSIGNAL) {
                Ok(sent) => left = &left[sent..],
                Err(Errno::AGAIN) if self.look().is_ok() => {}
                // The session is over.
                Err(_) => return,
            }
        }
    }

    /// Lets the carrier receive what has come, and reads its frames.
    fn look(&self) -> Result<usize, SocketError> {
        let mut frames = 0;
        for _ in 0..3 {
            self.carrier.pump();
            while let Ok(Some(words)) = self.carrier.reader().look() {
                if words[0] >> 8 & 0xff == 7 {
                    // The reader of this frame would look for its segment.
                    return Ok(frames);
                }
                frames += 1;
                self.carrier.reader().advance();
                self.carrier.reader().publish_progress();
            }
        }
        let drained = self.carrier.drain()?;
        assert!(drained.segments.len() <= PENDING_SEGMENTS_MAX);
        Ok(frames)
    }

    /// Returns the rule that these bytes break.
    fn rule(&self, bytes: &[u8]) -> Rule {
        self.write(bytes);
        match self.look() {
            Err(SocketError::Rule(rule)) => rule,
            other => panic!("{other:?}"),
        }
    }
}

/// A peer that writes records without end, which cost it no credit, holds its reader up no longer than others.
#[test]
fn a_peer_that_keeps_writing_is_read_for_a_bounded_time() {
    const AT_MOST: Duration = Duration::from_secs(20);
    let attack = Attack::new("endless");
    let mut records = Vec::new();
    (0..1000).for_each(|_| Progress::default().write(&mut records));
    let (socket, is_enough) = (attack.socket.try_clone().unwrap(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let floods = scope.spawn(|| {
            let begun = Instant::now();
            while !is_enough.load(SeqCst) && begun.elapsed() < AT_MOST {
                let _ = rustix::net::send(&socket, &records, SendFlags::NOSIGNAL);
            }
            begun.elapsed() < AT_MOST
        });
        while !attack.carrier.pump().came {}
        attack.carrier.drain().unwrap();
        is_enough.store(true, SeqCst);
        assert!(floods.join().unwrap(), "the reader goes on as long as the peer writes");
    });
}

/// Each piece of a first message costs its reader a look at its sockets, and a stranger may send one byte at a time.
#[test]
fn a_first_message_in_too_many_pieces_is_refused() {
    let of_tls = [&[22, 3, 1, 2, 0][..], &[1; 100]].concat();
    for kind in [Kind::Tcp, Kind::Tls] {
        let fixture = Fixture::new(kind, "pieces");
        let of_plaintext = Record::Hello(hello(&fixture)).encode();
        let first = if kind == Kind::Tls { &of_tls } else { &of_plaintext };
        let mut caller = TcpStream::connect(fixture.address()).unwrap();
        caller.set_nodelay(true).unwrap();
        let mut opening = fixture.accept(1, 0).unwrap();
        let mut is_taken = |byte| {
            caller.write_all(std::slice::from_ref(byte)).unwrap();
            matches!(common::step(&mut opening), Ok(Step::Waiting))
        };
        let pieces = first.iter().take_while(|byte| is_taken(byte)).count();
        assert_eq!(pieces, 64, "{kind:?}: of {} bytes", first.len());
    }
}

/// Returns a frame with a payload of its length, as an honest peer writes it.
fn framed(head: Head) -> Vec<u8> {
    let words = head.words();
    let payload = (words[0] >> 32) as usize;
    let span = (24 + payload).div_ceil(128) as u64;
    let mut bytes = Vec::new();
    write_frame([words[0] | span << 16, words[1], words[2]], &mut bytes);
    bytes.resize(24 + payload, 7);
    bytes
}

fn segment(generation: u32, bytes: u32) -> Vec<u8> {
    let mut out = Vec::new();
    write_segment(Segment { generation, bytes }, &mut out);
    out
}

fn progress(set: impl FnOnce(&mut Progress)) -> Vec<u8> {
    let (mut progress, mut out) = (Progress::default(), Vec::new());
    set(&mut progress);
    progress.write(&mut out);
    out
}

fn taken(slots: u64) -> Vec<u8> {
    progress(|progress| progress.taken = Some(slots))
}

/// Returns a slab of this shape, correctly announced.
fn slab(generation: u32, bytes: u32, number: u32, each: u32, count: u32) -> Vec<u8> {
    let mut out = segment(generation, bytes);
    let mut frame = framed(Head::slab(number));
    frame[24..32].copy_from_slice(&(u64::from(each) | u64::from(count) << 32).to_le_bytes());
    out.extend(frame);
    out
}

fn chunk(slab: u16, index: u32, at: u32, bytes: u32) -> Vec<u8> {
    let mut out = Vec::new();
    write_chunk(Chunk { slab, index, at, bytes, whole: at + bytes }, &mut out);
    out.resize(out.len() + bytes as usize, 9);
    out
}

#[test]
fn each_broken_rule_is_named() {
    let _alone = common::alone();
    let rule = |bytes: &[u8]| Attack::new("rules").rule(bytes);
    let oneway = framed(Head::oneway(1, 100));
    // A ring of 60 slots takes no more before it was read, and this test reads nothing.
    let attack = Attack::new("credit");
    let mut frames = Vec::new();
    (0..61).for_each(|_| frames.extend(&oneway));
    // The ring begins at slot 0, so that no padding is due before the 60th.
    attack.write(&frames);
    attack.carrier.pump();
    attack.carrier.pump();
    let fault = attack.carrier.drain().unwrap_err();
    assert_eq!(fault, SocketError::Rule(Rule::BeyondCredit { span: 1 }));

    assert!(matches!(rule(&[0, 0x99, 0, 0, 0, 0, 0, 0]), Rule::RecordKind { kind: 0x99 }));
    let long = framed(Head::oneway(1, IN_RING_BYTES_MAX as u32));
    assert!(matches!(rule(&long), Rule::SpanBeyondRing { .. }));
    let mut wrong = oneway.clone();
    wrong[2] = 2;
    assert!(matches!(rule(&wrong), Rule::LengthBeyondSpan { .. }));
    let mut padding = Vec::new();
    write_padding(61, &mut padding);
    assert!(matches!(rule(&padding), Rule::SpanBeyondRing { span: 61, slots: 60 }));
    let (mut none, mut twice) = (Vec::new(), Vec::new());
    write_padding(0, &mut none);
    assert!(matches!(rule(&none), Rule::SpanBeyondRing { span: 0, .. }));
    // Padding takes slots like frames.
    (0..2).for_each(|_| write_padding(31, &mut twice));
    assert!(matches!(rule(&twice), Rule::SpanBeyondRing { span: 31, .. }));
    let attack = Attack::new("padded");
    let mut slots = Vec::new();
    (0..61).for_each(|_| write_padding(1, &mut slots));
    attack.write(&slots);
    attack.carrier.pump();
    attack.carrier.pump();
    let fault = attack.carrier.drain().unwrap_err();
    assert_eq!(fault, SocketError::Rule(Rule::BeyondCredit { span: 1 }));

    let ahead = taken(1);
    assert_eq!(rule(&ahead), Rule::CreditAhead { seen: 1, out: 0 });
    let attack = Attack::new("backwards");
    frame(&attack.carrier, 1);
    attack.write(&taken(1));
    assert_eq!(attack.look(), Ok(0));
    let back = taken(0);
    assert_eq!(attack.rule(&back), Rule::CreditBackwards { seen: 0, before: 1 });

    let switch = framed(Head::switch(1));
    assert_eq!(rule(&switch), Rule::SwitchWithoutSegment { generation: 1 });
    let of = |generation, bytes| [segment(generation, bytes), framed(Head::switch(generation))];
    for (generation, bytes) in [(1, 8192), (2, 2 << 20), (7, 65536)] {
        let bytes = of(generation, bytes).concat();
        assert_eq!(rule(&bytes), Rule::StraySegment { generation });
    }
    let mut many = Vec::new();
    (0..=PENDING_SEGMENTS_MAX as u32).for_each(|each| many.extend(segment(each + 9, 8192)));
    assert!(matches!(rule(&many), Rule::StraySegment { .. }));

    let first = SLAB_GENERATION;
    assert!(matches!(rule(&slab(first, 4096, 32, 512, 8)), Rule::StraySegment { .. }));
    assert!(matches!(rule(&slab(first, 4096, 0, 512, 9)), Rule::StraySegment { .. }));
    assert!(matches!(rule(&slab(first, 4096, 0, 0, 0)), Rule::StraySegment { .. }));
    let twice = [slab(first, 4096, 0, 512, 8), slab(first + 1, 4096, 0, 512, 8)].concat();
    assert!(matches!(rule(&twice), Rule::StraySegment { .. }));
    for (number, index, at, bytes) in [(1, 0, 0, 8), (0, 8, 0, 8), (0, 7, 510, 3), (0, 0, 600, 1)] {
        let bytes = [slab(first, 4096, 0, 512, 8), chunk(number, index, at, bytes)].concat();
        assert!(matches!(rule(&bytes), Rule::StrayBuffer { .. }));
    }

    let mut refusal = Vec::new();
    let record = Record::Ready.encode();
    write_refusal_head(record.len() as u32, &mut refusal);
    refusal.extend(record);
    assert!(matches!(rule(&refusal), Rule::RecordOutOfPlace { kind: "ready" }));
}

#[test]
fn valid_records_are_accepted_in_pieces_of_any_size() {
    let _alone = common::alone();
    let call = framed(Head::call(3, CallNumber::new(1, 1), 200));
    let parts = [
        framed(Head::oneway(1, 40)),
        call,
        progress(|progress| (progress.accepted, progress.wants_room) = (Some(0), true)),
        slab(SLAB_GENERATION, 4096, 0, 512, 8),
        chunk(0, 3, 0, 512),
        // Bytes of one buffer may come between those of another, and frames between them.
        chunk(0, 7, 100, 30),
        framed(Head::oneway(1, 0)),
        chunk(0, 3, 0, 30),
        framed(Head::goodbye()),
    ];
    let bytes = parts.concat();
    for cut in [1, 2, 7, 23, 25, 64, 100, 1000] {
        let attack = Attack::new("cuts");
        let mut frames = 0;
        for piece in bytes.chunks(cut) {
            attack.write(piece);
            frames += attack.look().unwrap();
        }
        assert_eq!(frames, 5, "in pieces of {cut}");
        assert!(attack.carrier.reader().peer_wants_room());
        let mut refusal = Vec::new();
        write_refusal(Refusal::new(RefusalCode::NoResources, "so it is"), &mut refusal);
        attack.write(&refusal);
        attack.carrier.pump();
        attack.carrier.pump();
        let refusal = attack.carrier.drain().unwrap().refusal.unwrap();
        assert_eq!((refusal.code(), refusal.text()), (RefusalCode::NoResources, "so it is"));
    }
}

#[test]
fn a_long_frame_in_parts_is_found_when_it_is_whole() {
    let payload: Vec<u8> = (0..5000_u32).map(|at| ((at * 7) >> 3) as u8).collect();
    let mut bytes = framed(Head::oneway(1, 5000));
    bytes[24..].copy_from_slice(&payload);
    bytes.extend(framed(Head::oneway(2, 8)));
    for cut in [25, 2048, 4096, 5023] {
        let attack = Attack::new("parts");
        let pump = || (0..3).any(|_| attack.carrier.pump().ended);
        attack.write(&bytes[..cut]);
        assert!(!pump());
        let carrier = &attack.carrier;
        assert_eq!(carrier.reader().look(), Ok(None), "{cut} of its bytes have come");
        attack.write(&bytes[cut..]);
        assert!(!pump());
        let words = carrier.reader().look().unwrap().expect("a frame");
        assert_eq!((words[0] >> 32, words[2] as u16), (5000, 1));
        let mut came = vec![0; payload.len()];
        carrier.payload().read(0, &mut came);
        assert!(came == payload, "cut behind {cut} bytes");
        carrier.reader().advance();
        let words = carrier.reader().look().unwrap().expect("the frame behind it");
        assert_eq!((words[0] >> 32, words[2] as u16), (8, 2));
    }
}

/// Bytes close to honest ones, and random bytes: the session ends or goes on, and nothing else happens.
#[test]
fn hostile_bytes_can_only_end_the_session() {
    let _alone = common::alone();
    let rounds = std::env::var("UPBEAT_STREAM_ATTACKS").map_or(100, |text| text.parse().unwrap());
    let mut random = Random(0x5eed | 1);
    let before = resident();
    let mut ended = 0;
    for _ in 0..rounds {
        let attack = Attack::new("random");
        let mut bytes = Vec::new();
        for _ in 0..random.below(12) {
            bytes.extend(match random.below(9) {
                0 => framed(Head::oneway(1, random.below(600) as u32)),
                1 => framed(Head::reply(CallNumber::new(1, 1), 8)),
                2 => taken(random.below(2)),
                3 => segment(random.below(3) as u32, [65536, 2 << 20][random.below(2) as usize]),
                4 => framed(Head::switch(1 + random.below(2) as u32)),
                5 => {
                    let slabs = SLAB_GENERATION + random.below(2) as u32;
                    slab(slabs, 1 << 30, random.below(3) as u32, 256 << 20, 4)
                }
                6 => chunk(0, random.below(4) as u32, random.below(1 << 26) as u32 & !7, 64),
                7 => chunk(1, 0, 0, CHUNK_BYTES_MAX as u32),
                _ => (0..random.below(40)).map(|_| random.below(256) as u8).collect(),
            });
        }
        if random.below(2) == 0 && !bytes.is_empty() {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
        attack.write(&bytes);
        ended += usize::from(attack.look().is_err());
        // Bytes after a broken rule change nothing.
        attack.write(&framed(Head::oneway(1, 8)));
        let _ = attack.look();
        drop(attack.socket);
    }
    assert!(ended > rounds / 10, "{ended} of {rounds}");
    // A GiB was announced again and again, and only the bytes that came took memory.
    assert!(resident() < before + (256 << 10), "{before} to {} KiB", resident());
}

/// The descriptor that a caller hands over must be a connected stream socket.
#[test]
fn other_descriptors_are_refused() {
    let _alone = common::alone();
    let unconnected = || {
        let flags = SocketFlags::CLOEXEC;
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
    };
    let file = || OwnedFd::from(std::fs::File::open("/").unwrap());
    let packets = || pair(SocketType::SEQPACKET).0;
    for make in [&unconnected as &dyn Fn() -> OwnedFd, &file, &packets] {
        let fixture = Fixture::new(Kind::Stream, "descriptors");
        let raw = Raw::connect(fixture.listener().path());
        let mut opening = fixture.accept(3, 0).unwrap();
        raw.send(&Record::Hello(hello(&fixture)).encode(), &[]);
        assert!(matches!(opening.step(0), Ok(Step::Waiting)));
        let joined = Record::Joined(Streamed { session: 0 }).encode();
        raw.send(&joined, &[make().as_fd()]);
        assert!(opening.step(0).is_err());
        assert_eq!(raw.refusal(), RefusalCode::Malformed);
    }
}

/// A peer that does not read makes its sender keep at most a lane, and blocks nothing.
#[test]
fn a_peer_that_does_not_read_costs_a_lane() {
    let _alone = common::alone();
    let Pair { near, far } = Fixture::new(Kind::Stream, "slow").pair(1, 2);
    let mut sent = 0;
    while let Ok(mut claim) = near.writer().claim(20, 0) {
        claim.write(0, &u64::to_le_bytes(sent));
        claim.commit([1 << 8 | 2500 << 32, 0, 0], 2500);
        near.pump();
        sent += 1;
    }
    assert_eq!(sent, 3, "as many as the ring holds");
    for number in 0..sent {
        assert_eq!(receive(&far), Some(number));
    }
    assert_eq!(receive(&far), None);
    // The peer reports its room, and the sender goes on.
    far.rest();
    far.ring();
    near.pump();
    for number in 0..1000 {
        frame(&near, number);
        assert_eq!(receive(&far), Some(number));
        if number % 8 == 0 {
            far.pump();
            near.pump();
        }
    }
}

/// A push ends after a few rounds even if the socket would take more: its owner must not sleep before the rest was
/// sent.
#[test]
fn a_push_that_ends_early_reports_more_output() {
    const BUFFERS: u32 = 40;
    const BYTES: usize = 2048;
    let _alone = common::alone();
    let Pair { near, far } = Fixture::new(Kind::Stream, "rounds").pair(1, 2);
    let segment = near.make_segment("slab", BUFFERS as usize * BYTES).unwrap();
    near.send_segment(SLAB_GENERATION, &segment).unwrap();
    let mut claim = near.writer().claim(1, 0).unwrap();
    claim.write_word(0, BYTES as u64 | u64::from(BUFFERS) << 32);
    claim.commit(Head::slab(0).words(), 8);
    // Each frame has a buffer, and a round sends the bytes of a few buffers.
    for index in 0..BUFFERS {
        let placed = Placed { slab: 0, index: index as u16, len: BYTES as u32 };
        let head = Head::oneway(1, 8).with_flags(Flags::PLACED);
        let mut claim = near.writer().claim(1, 0).unwrap();
        claim.write_word(0, placed.as_u64());
        claim.commit(head.words(), 8);
    }
    let (mut pumps, mut frames) = (0, 0);
    loop {
        near.pump();
        pumps += 1;
        while receive(&far).is_some() {
            frames += 1;
        }
        if !near.has_output() {
            break;
        }
    }
    assert!(pumps > 1, "more rounds than one push has");
    assert_eq!(frames, 1 + BUFFERS, "the slab's frame and those of its buffers");
}

/// Returns the kilobytes that this process has in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound.max(1)
    }
}
