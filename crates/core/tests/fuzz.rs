//! A fuzz test of every parser of bytes that a peer or a user writes, with bytes near valid ones.
//!
//! A seeded mutator changes valid inputs: bits, bytes, words at their bounds, lengths, parts of other inputs.
//! `UPBEAT_FUZZ_INPUTS` sets the number of inputs. A parsed value stays within its bounds and is written as the
//! bytes that it came from. All other inputs break a rule, and nothing panics.

mod mutate;

use mutate::{Random, mutate, setting};
use std::num::NonZeroU64;
use std::sync::LazyLock;
use std::time::Instant;
use upbeat_core::address::{Address, NodeAddress};
use upbeat_core::bill::taken::MessageStamps;
use upbeat_core::bind::{BindReply, BindRequest, Offered, bind};
use upbeat_core::channel::export::{
    Compare, Expression, Filter, Fold, Number, Operand, Scalar, Shape,
};
use upbeat_core::context::Context;
use upbeat_core::fault::Rule;
use upbeat_core::frame::{Failure, Head};
use upbeat_core::hello::{
    Hello, Listening, Parsed, Record, Refusal, RefusalCode, Segment, Segments, Streamed,
    VERSION_MAX, Welcome,
};
use upbeat_core::limits::{
    CHUNK_BYTES_MAX, HELLO_BYTES_MAX, IN_RING_BYTES_MAX, MESSAGE_BYTES_MAX, STAMPS_BYTES_MAX,
};
use upbeat_core::method::Signature;
use upbeat_core::name::{NodeName, ProgramId, ProgramName};
use upbeat_core::signal::Signals;
use upbeat_core::stream::{self, Chunk, PROGRESS_BYTES_MAX};

/// A parser, which returns whether it accepts these bytes.
type Parser = fn(&[u8]) -> bool;

fn records() -> Vec<Vec<u8>> {
    let name = |text: &str| NodeName::new(text).unwrap();
    let hello = Hello {
        version_min: 1,
        version_max: VERSION_MAX,
        program: ProgramId::named(ProgramName::new("demo").unwrap()),
        caller: Some(name("worker/3")),
        wanted: name("counter"),
        incarnation: 7,
        pid: 9,
        memory: true,
    };
    let welcome = Welcome { node: name("counter"), incarnation: 8, version: VERSION_MAX };
    let at = "[::1]:7411".parse().unwrap();
    let listening = Some(Listening::new(at, true, NonZeroU64::new(9).unwrap()));
    let all = [
        Record::Hello(hello.clone()),
        Record::Hello(Hello { caller: None, ..hello }),
        Record::Welcome(welcome),
        Record::Segments(Segments { lane_bytes: 8192, board_slot: 3, session: 4, listening: None }),
        Record::Segments(Segments { lane_bytes: 8192, board_slot: 3, session: 4, listening }),
        Record::Ready,
        Record::Refusal(Refusal::new(RefusalCode::TooManyOfAddress, "16 sessions are open")),
        Record::Segment(Segment { generation: 1, bytes: 65_536 }),
        Record::Stream(Streamed { session: 5 }),
        Record::Joined(Streamed { session: u64::MAX }),
    ];
    all.iter().map(Record::encode).collect()
}

fn streamed() -> Vec<Vec<u8>> {
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        out
    };
    let chunk = Chunk { slab: 3, index: 2, at: 4096, bytes: 1000, whole: 60_000 };
    let mut progress = vec![0; PROGRESS_BYTES_MAX];
    progress[1..3].copy_from_slice(&[0x80, 0x0f]);
    progress[4..8].copy_from_slice(&[0xff; 4]);
    vec![
        written(&|out| stream::write_frame(Head::oneway(1, 8).words(), out)),
        written(&|out| stream::write_frame(Head::slab(4).words(), out)),
        written(&|out| stream::write_frame(Head::goodbye().words(), out)),
        written(&|out| stream::write_padding(7, out)),
        written(&|out| stream::write_segment(Segment { generation: 65_536, bytes: 8192 }, out)),
        written(&|out| stream::write_chunk(chunk, out)),
        written(&|out| stream::write_refusal_head(40, out)),
        written(&|out| stream::write_end(out)),
        progress,
    ]
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Parses the bytes of a byte stream.
fn parse_streamed(bytes: &[u8]) -> bool {
    let (head, len) = match stream::parse(bytes) {
        Ok(Parsed::Complete(head, len)) => (head, len),
        Ok(Parsed::NeedMore(missing)) => {
            return check(missing > 0 && bytes.len() + missing <= PROGRESS_BYTES_MAX);
        }
        Err(_) => return false,
    };
    assert!(len <= bytes.len() && len <= PROGRESS_BYTES_MAX);
    let mut again = Vec::new();
    match head {
        stream::Head::Frame { words, payload } => {
            assert!(payload as usize <= IN_RING_BYTES_MAX);
            stream::write_frame(words, &mut again);
        }
        stream::Head::Padding { span } => stream::write_padding(span, &mut again),
        stream::Head::Progress(progress) => progress.write(&mut again),
        stream::Head::Segment(segment) => {
            assert!(segment.bytes as usize <= 2 * MESSAGE_BYTES_MAX);
            stream::write_segment(segment, &mut again);
        }
        stream::Head::Buffer(chunk) => {
            assert!(chunk.bytes as usize <= CHUNK_BYTES_MAX);
            assert!(chunk.whole as usize <= MESSAGE_BYTES_MAX);
            stream::write_chunk(chunk, &mut again);
        }
        stream::Head::Refusal { bytes } => {
            assert!(bytes as usize <= HELLO_BYTES_MAX);
            stream::write_refusal_head(bytes, &mut again);
        }
        stream::Head::End => stream::write_end(&mut again),
        stream::Head::Clock { asks, stamps } => stream::write_clock(asks, stamps, &mut again),
    }
    check(again == bytes[..len])
}

/// Parses a record of a handshake.
fn parse_record(bytes: &[u8]) -> bool {
    match Record::parse(bytes) {
        Ok(Parsed::Complete(record, len)) => check(record.encode() == bytes[..len]),
        Ok(Parsed::NeedMore(missing)) => {
            check(missing > 0 && bytes.len() + missing <= HELLO_BYTES_MAX)
        }
        Err(_) => false,
    }
}

/// Parses the head of a frame in a lane.
fn parse_head(bytes: &[u8]) -> bool {
    let word = |at: usize| {
        let word = bytes.get(8 * at..8 * at + 8).map_or([0; 8], |word| word.try_into().unwrap());
        u64::from_le_bytes(word)
    };
    Head::parse([word(0), word(1), word(2)]).is_ok()
}

fn parse_bind(bytes: &[u8]) -> bool {
    BindRequest::decode(bytes).is_ok_and(|request| check(request.encode() == bytes))
}

/// The request of a client for three methods, of which a callee has one, another lacks, and a third has otherwise.
static REQUEST: LazyLock<BindRequest> = LazyLock::new(|| {
    let methods = ["add", "gone", "other"].map(|name| signature(name, "(u64)"));
    BindRequest::new("demo", &methods).unwrap()
});

fn signature(name: &str, types: &str) -> Signature {
    Signature::new("demo", name, &format!("demo.{name}{types}")).unwrap()
}

/// Returns requests and replies of a binding.
fn bindings() -> [Vec<Vec<u8>>; 2] {
    let known = [signature("add", "(u64)"), signature("other", "(u8)")];
    let offers = known.each_ref().map(|of| Offered::new(of, 7));
    let replies = [bind(&REQUEST, &offers), bind(&REQUEST, &[])];
    [vec![REQUEST.encode()], replies.iter().map(BindReply::encode).collect()]
}

fn parse_bind_reply(bytes: &[u8]) -> bool {
    BindReply::decode(bytes, &REQUEST).is_ok_and(|reply| {
        check(reply.methods().len() == REQUEST.methods().len() && reply.encode() == bytes)
    })
}

fn parse_failure(bytes: &[u8]) -> bool {
    Failure::parse(bytes).is_ok_and(|failure| {
        let mut again = Vec::new();
        failure.write(&mut again);
        check(again == bytes)
    })
}

/// Returns the payload of a frame of stamps: three points of a message, with and without a lock.
fn stamps() -> Vec<Vec<u8>> {
    let words = |lock: &str| {
        let fields = [&[1, 0, 0, 0][..], &0b1011_u32.to_le_bytes(), &[7; 24], lock.as_bytes()];
        fields.concat()
    };
    vec![words("orders"), words("")]
}

fn parse_stamps(bytes: &[u8]) -> bool {
    MessageStamps::decode(bytes).is_ok_and(|(stamps, lock)| {
        let mut again = [0; STAMPS_BYTES_MAX];
        let len = stamps.encode(lock, &mut again);
        check(again[..len] == *bytes)
    })
}

fn contexts() -> Vec<Vec<u8>> {
    let mut context = Context::default();
    context.set("tenant", &[7, 8]).unwrap();
    let one = context.as_bytes().to_vec();
    context.set("trace", &[9; 16]).unwrap();
    vec![one, context.as_bytes().to_vec()]
}

fn parse_context(bytes: &[u8]) -> bool {
    Context::parse(bytes.to_vec()).is_ok_and(|context| check(context.as_bytes() == bytes))
}

/// Returns expressions with a condition and without one.
fn expressions() -> Vec<Vec<u8>> {
    let of = Operand { at: 16, scalar: Scalar::U32 };
    let compare = Compare::AtMost;
    let filter = Some(Filter { of, compare, with: Number::Unsigned(9) });
    let plain = Expression { first: 16, each: 24, count: 10, of, filter: None, fold: Fold::Sum };
    let bytes = |of: Expression| of.encode().iter().flat_map(|word| word.to_le_bytes()).collect();
    [plain, Expression { filter, ..plain }].map(bytes).to_vec()
}

fn parse_expression(bytes: &[u8]) -> bool {
    let (words, []) = bytes.as_chunks::<8>() else { return false };
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let Ok(words) = words.try_into() else { return false };
    Expression::decode(words).is_ok_and(|parsed| {
        let words = parsed.encode();
        check(Expression::decode(words).map(|again| again.encode()) == Ok(words))
    })
}

/// Parses the type of an export, as its owner describes it.
fn parse_shape(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    text.parse::<Shape>().is_ok_and(|shape| {
        check(
            shape.to_string().parse::<Shape>().map(|again| again.to_string())
                == Ok(shape.to_string()),
        )
    })
}

/// Parses the bytes of a session's socket, in two pieces.
fn parse_signals(bytes: &[u8]) -> bool {
    let (first, second) = bytes.split_at(bytes.len() / 3);
    let mut signals = Signals::new();
    [first, second].into_iter().all(|mut part| {
        let mut left = part.len() + 1;
        loop {
            match signals.next(&mut part) {
                Ok(None) => return check(part.is_empty()),
                Ok(Some(_)) => left = left.checked_sub(1).expect("a signal takes a byte"),
                Err(_) => return false,
            }
        }
    })
}

fn parse_address(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let address = Address::new(text)
        .is_ok_and(|address| check(Address::new(&address.to_string()) == Ok(address)));
    let node = NodeAddress::new(text)
        .is_ok_and(|node| check(NodeAddress::new(&node.to_string()) == Ok(node)));
    address | node
}

/// Asserts a property of a parsed value.
#[track_caller]
fn check(holds: bool) -> bool {
    assert!(holds, "a parsed value breaks its bounds or is written differently");
    true
}

#[test]
fn no_bytes_go_beyond_a_bound() {
    let inputs = setting("UPBEAT_FUZZ_INPUTS", 200_000);
    let seed = setting("UPBEAT_FUZZ_SEED", 1);
    eprintln!("seed {seed}");
    let addresses = ["counter@db1.example:7411", "[2001:db8::1]:7411", "10.0.0.1:1", "a/b@[::1]:9"];
    let [requests, replies] = bindings();
    let shapes = ["A { n: u64, book: [Row { bid: f64, size: u32 }; 10], bytes: [i8; 20] }", "u64"];
    let targets: [(Parser, Vec<Vec<u8>>); 12] = [
        (parse_streamed, streamed()),
        (parse_record, records()),
        (parse_head, streamed()),
        (parse_bind, requests),
        (parse_bind_reply, replies),
        (parse_stamps, stamps()),
        (parse_context, contexts()),
        (parse_expression, expressions()),
        (parse_shape, texts(&shapes)),
        (parse_failure, texts(&["\u{1}no such row", "\u{2}"])),
        (parse_signals, records()),
        (parse_address, texts(&addresses)),
    ];
    let mut random = Random::new(seed);
    let (mut bytes, mut taken) = (Vec::with_capacity(4096), [0_u64; 12]);
    let began = Instant::now();
    for _ in 0..inputs {
        let target = random.below(targets.len());
        let (parse, good) = &targets[target];
        let (one, other) = (random.below(good.len()), random.below(good.len()));
        bytes.clear();
        bytes.extend_from_slice(&good[one]);
        mutate(&mut bytes, &good[other], &mut random);
        taken[target] += u64::from(parse(&bytes));
    }
    eprintln!("{inputs} inputs in {:?}; accepted by each parser: {taken:?}", began.elapsed());
    // A parser that accepts nothing was not tested behind its first bytes.
    assert!(taken.iter().all(|taken| *taken > 0), "{taken:?}");
}

/// A broken rule has a text, whatever the numbers are.
#[test]
fn every_broken_rule_has_a_text() {
    let mut random = Random::new(11);
    let good = records();
    for round in 0..20_000 {
        let mut bytes = good[round % good.len()].clone();
        mutate(&mut bytes, &good[0], &mut random);
        let rules: [Option<Rule>; 2] = [Record::parse(&bytes).err(), stream::parse(&bytes).err()];
        for rule in rules.into_iter().flatten() {
            assert!(!rule.to_string().is_empty());
        }
    }
}
