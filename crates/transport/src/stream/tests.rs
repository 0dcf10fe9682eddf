use super::*;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::os::fd::OwnedFd;
use upbeat_core::bill::clock::Timestamps;
use upbeat_core::frame::Head;
use upbeat_core::limits::SLAB_GENERATION;
use upbeat_core::stream::{
    Chunk, Progress, write_chunk, write_clock, write_frame, write_padding, write_segment,
};

/// The records that a peer has written: more than one turn reads.
const RECORDS: usize = 4 * DRAINS_MAX;

/// A stream whose peer's records come in packets, so that each read takes one of them.
struct Flooded {
    stream: Stream,
    peer: OwnedFd,
    /// Another descriptor of the stream's socket.
    socket: OwnedFd,
}

impl Flooded {
    /// Returns a stream, and sends it these records.
    fn by(records: &[Vec<u8>]) -> Flooded {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, peer) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .unwrap();
        let socket = own.try_clone().unwrap();
        let flooded = Flooded { stream: Stream::new(Pipe::Plain(own)).0, peer, socket };
        flooded.write(records);
        flooded
    }

    fn write(&self, records: &[Vec<u8>]) {
        for record in records {
            rustix::net::send(&self.peer, record, SendFlags::NOSIGNAL).unwrap();
        }
    }

    /// Returns the number of records that the stream has not read, and takes them away.
    fn left(&self) -> usize {
        let mut record = [0; 64];
        let mut receive = || rustix::net::recv(&self.socket, &mut record[..], RecvFlags::DONTWAIT);
        std::iter::from_fn(|| matches!(receive(), Ok((1.., _))).then_some(())).count()
    }
}

fn record(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut record = Vec::new();
    write(&mut record);
    record
}

fn progress() -> Vec<u8> {
    record(|out| Progress::default().write(out))
}

/// Progress, time stamps and bytes of a buffer cost a peer no credit, so it can write them for ever.
#[test]
fn one_turn_reads_a_bounded_number_of_records_that_cost_no_credit() {
    let clock = record(|out| write_clock(true, Timestamps::default(), out));
    let bytes = record(|out| {
        write_chunk(Chunk { slab: 0, index: 0, at: 0, bytes: 8, whole: 8 }, out);
        out.extend([9; 8]);
    });
    let slab = record(|out| {
        write_segment(hello::Segment { generation: SLAB_GENERATION, bytes: 4096 }, out);
        let words = Head::slab(0).words();
        write_frame([words[0] | 1 << 16, words[1], words[2]], out);
        out.extend((512 | 8_u64 << 32).to_le_bytes());
    });
    for (kind, record) in [("progress", progress()), ("clock", clock), ("buffer", bytes)] {
        let flooded = Flooded::by(std::slice::from_ref(&slab));
        assert!(!flooded.stream.drain().unwrap().more, "{kind}");
        flooded.write(&vec![record; RECORDS]);
        assert!(flooded.stream.drain().unwrap().more, "{kind}");
        assert_eq!(flooded.left(), RECORDS - DRAINS_MAX, "{kind}");
    }
}

/// A connection that is given up takes as little time.
#[test]
fn a_session_that_is_suspended_reads_a_bounded_number_of_records() {
    let flooded = Flooded::by(&vec![progress(); RECORDS]);
    flooded.stream.set_resumable(true);
    flooded.stream.suspend();
    assert!(flooded.stream.is_suspended());
    assert_eq!(flooded.left(), RECORDS - DRAINS_MAX);
}

#[test]
fn nothing_more_is_read_of_a_peer_that_has_broken_a_rule() {
    let nothing = record(|out| write_padding(0, out));
    let flooded = Flooded::by(&[nothing, progress()]);
    let (stream, broken) =
        (&flooded.stream, SocketError::Rule(Rule::SpanBeyondRing { span: 0, slots: 60 }));
    for _ in 0..2 {
        assert_eq!(stream.drain().err(), Some(broken));
        assert!(!stream.pull());
        stream.take_rest();
    }
    assert_eq!(flooded.left(), 1);
}

/// Returns a stream with its lanes, and the socket of its peer, which has written these bytes.
fn fed(bytes: &[u8]) -> (Stream, Lanes, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let (own, peer) = pair.unwrap();
    assert_eq!(rustix::net::send(&peer, bytes, SendFlags::NOSIGNAL), Ok(bytes.len()));
    let (stream, lanes) = Stream::new(Pipe::Plain(own));
    (stream, lanes, peer)
}

/// A peer that asks for a report, and then reports its own progress once more, gets what it has asked for.
#[test]
fn a_question_in_an_earlier_report_is_answered() {
    let mut asks = Progress::default();
    asks.asks = true;
    let asks = record(|out| asks.write(out));
    for (reports, is_answered) in [(vec![progress()], false), (vec![asks, progress()], true)] {
        let (stream, lanes, peer) = fed(&reports.concat());
        assert!(!stream.drain().unwrap().more);
        assert!(stream.push(&lanes, PushReason::Idle));
        let answer = rustix::net::recv(&peer, &mut [0; 64][..], RecvFlags::DONTWAIT);
        assert_eq!(matches!(answer, Ok((1.., _))), is_answered);
    }
}

/// A buffer that has become longer than that of most sessions is charged as long as it is held.
#[test]
fn a_long_receive_buffer_is_charged() {
    let reports = progress().repeat(5 * READ_BYTES / progress().len());
    let (stream, lanes, _peer) = fed(&reports);
    let quota = Quota::new(1 << 20);
    stream.charge_to(&quota);
    assert!(!stream.drain().unwrap().more);
    assert!(quota.held() > READ_BYTES as u64, "{} bytes", quota.held());
    stream.rest(&lanes);
    assert_eq!(quota.held(), 0);
}
