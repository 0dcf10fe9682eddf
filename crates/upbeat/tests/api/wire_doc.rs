//! docs/wire.md is true: its bounds are those of the code, and its bytes are those of real frames.
//!
//! A client and a server, each a node in a thread, talk through the test, which holds one end of
//! a session with each, passes every frame on and keeps its bytes.

#[path = "../../examples/counter/mod.rs"]
mod counter;

use crate::common::left_out::leave_out;
use counter::{Counter, CounterClient, CounterError, CounterServer, Description};
use std::cell::RefCell;
use std::fmt::Write;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};
use upbeat::{CallError, Node, Waiting};
use upbeat_core::backoff;
use upbeat_core::bill::way::StampMode;
use upbeat_core::channel::{Control, Operation};
use upbeat_core::context::Context;
use upbeat_core::flow::Budget;
use upbeat_core::frame::{CallNumber, FailCode, Flags, Head, Kind, Placed};
use upbeat_core::hello::{Hello, Listening, Record, Segments, VERSION_MAX, VERSION_MIN};
use upbeat_core::limits;
use upbeat_core::method::TOLERANT;
use upbeat_core::name::{NodeName, ProgramId};
use upbeat_memory::slab::{BUFFERS_PER_SLAB_MAX, Borrowed, Slab};
use upbeat_memory::{board, lane, page, ring, segment};
use upbeat_transport::carrier::Carrier;
use upbeat_transport::local;
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::opening::{Opening, Step};

const DOCUMENT: &str = include_str!("../../../../docs/wire.md");
const PROGRAM: &str = "wire-doc";
/// A frame that does not come must not hold up the tests for ever.
const PATIENCE: Duration = Duration::from_secs(30);
/// The microseconds that the call with a deadline has.
const DEADLINE_US: u64 = 2_500_000;

#[test]
fn the_bounds_are_those_of_the_code() {
    let bounds = [
        ("HEAD_BYTES", limits::HEAD_BYTES),
        ("SLOT_BYTES", limits::SLOT_BYTES),
        ("SHORT_BYTES", limits::SHORT_BYTES),
        ("PAGE_BYTES", limits::PAGE_BYTES),
        ("LANE_BYTES_FIRST", limits::LANE_BYTES_FIRST),
        ("RING_SLOTS_FIRST", limits::RING_SLOTS_FIRST),
        ("CONTROL_SLOTS", limits::CONTROL_SLOTS),
        ("EXTENSION_BYTES", limits::EXTENSION_BYTES),
        ("CONTEXT_ENTRIES_MAX", limits::CONTEXT_ENTRIES_MAX),
        ("CONTEXT_KEY_BYTES_MAX", limits::CONTEXT_KEY_BYTES_MAX),
        ("CONTEXT_BYTES_MAX", limits::CONTEXT_BYTES_MAX),
        ("MESSAGE_BYTES_MAX", limits::MESSAGE_BYTES_MAX),
        ("MEDIUM_BYTES_MAX", limits::MEDIUM_BYTES_MAX),
        ("TAKEN_BYTES_MIN", limits::TAKEN_BYTES_MIN),
        ("OPTIMISM", limits::OPTIMISM),
        ("PLACES_RESERVED", limits::PLACES_RESERVED),
        ("PLACES_MAX", limits::PLACES_MAX),
        ("IN_RING_BYTES_MAX", limits::IN_RING_BYTES_MAX),
        ("IN_STREAMED_RING_BYTES_MAX", limits::IN_STREAMED_RING_BYTES_MAX),
        ("COPIED_BYTES_MAX", limits::COPIED_BYTES_MAX),
        ("GRANTS_AHEAD", limits::GRANTS_AHEAD),
        ("REQUEST_BYTES", limits::REQUEST_BYTES),
        ("SLABS_MAX", limits::SLABS_MAX),
        ("BUFFERS_PER_SLAB_MAX", BUFFERS_PER_SLAB_MAX as usize),
        ("LONG_STEP_BYTES", limits::LONG_STEP_BYTES),
        ("SLAB_GENERATION", limits::SLAB_GENERATION as usize),
        ("CALLS_PER_SESSION_MAX", limits::CALLS_PER_SESSION_MAX),
        ("SESSIONS_PER_NODE_MAX", limits::SESSIONS_PER_NODE_MAX),
        ("REMOTE_SESSIONS_MAX", limits::REMOTE_SESSIONS_MAX),
        ("BOARD_HEADER_BYTES", limits::BOARD_HEADER_BYTES),
        ("METHODS_PER_SESSION_MAX", limits::METHODS_PER_SESSION_MAX),
        ("METHODS_PER_SERVICE_MAX", limits::METHODS_PER_SERVICE_MAX),
        ("NAME_BYTES_MAX", limits::NAME_BYTES_MAX),
        ("PROGRAM_BYTES_MAX", limits::PROGRAM_BYTES_MAX),
        ("IDENT_BYTES_MAX", limits::IDENT_BYTES_MAX),
        ("SIGNATURE_BYTES_MAX", limits::SIGNATURE_BYTES_MAX),
        ("SCHEMA_REPEATS_BYTES_MAX", limits::SCHEMA_REPEATS_BYTES_MAX),
        ("DEFAULT_FIELDS_MAX", limits::DEFAULT_FIELDS_MAX),
        ("DEFAULT_FIELDS_PER_REQUEST_MAX", limits::DEFAULT_FIELDS_PER_REQUEST_MAX),
        ("HELLO_BYTES_MAX", limits::HELLO_BYTES_MAX),
        ("ERROR_TEXT_BYTES_MAX", limits::ERROR_TEXT_BYTES_MAX),
        ("HANDSHAKE_MS_MAX", limits::HANDSHAKE_MS_MAX as usize),
        ("CONNECT_MS_MAX", limits::CONNECT_MS_MAX as usize),
        ("HELLO_MS_MAX", limits::HELLO_MS_MAX as usize),
        ("HANDSHAKE_SILENCE_MS_MAX", limits::HANDSHAKE_SILENCE_MS_MAX as usize),
        ("PENDING_HANDSHAKES_MAX", limits::PENDING_HANDSHAKES_MAX),
        ("REMOTE_HANDSHAKE_MS_MAX", limits::REMOTE_HANDSHAKE_MS_MAX as usize),
        ("REMOTE_PENDING_MAX", limits::REMOTE_PENDING_MAX),
        ("REMOTE_PENDING_SHARE", limits::REMOTE_PENDING_SHARE),
        ("REMOTE_HELLO_MS_MAX", limits::REMOTE_HELLO_MS_MAX as usize),
        ("CROWD_AGE_MS_MAX", limits::CROWD_AGE_MS_MAX as usize),
        ("RESUME_WITHIN_MS", limits::RESUME_WITHIN_MS as usize),
        ("REMOTE_SILENCE_MS_MAX", limits::REMOTE_SILENCE_MS_MAX as usize),
        ("PENDING_SEGMENTS_MAX", limits::PENDING_SEGMENTS_MAX),
        ("CHUNK_BYTES_MAX", limits::CHUNK_BYTES_MAX),
        ("DEFERRED_BYTES_MAX", limits::DEFERRED_BYTES_MAX),
        ("EXPORT_WORDS_MAX", limits::EXPORT_WORDS_MAX),
        ("EXPORT_DEPTH_MAX", limits::EXPORT_DEPTH_MAX),
        ("EXPORT_FIELDS_MAX", limits::EXPORT_FIELDS_MAX),
        ("EXPORT_PARTS_MAX", limits::EXPORT_PARTS_MAX),
        ("EXPRESSION_ELEMENTS_MAX", limits::EXPRESSION_ELEMENTS_MAX),
        ("EXPORT_STEPS_MAX", limits::EXPORT_STEPS_MAX),
        ("EXPORT_KEY_WORDS_MAX", limits::EXPORT_KEY_WORDS_MAX),
        ("EXPORT_NAME_BYTES_MAX", limits::EXPORT_NAME_BYTES_MAX),
        ("EXPORT_TEXT_BYTES_MAX", limits::EXPORT_TEXT_BYTES_MAX),
        ("EXPORT_GENERATION", limits::EXPORT_GENERATION as usize),
        ("LOCK_NAME_BYTES_MAX", limits::LOCK_NAME_BYTES_MAX),
    ];
    for (name, value) in bounds {
        let row = format!("| `{name}` | {value} |");
        assert!(DOCUMENT.contains(&row), "docs/wire.md has not: {row}");
    }
    let listed =
        |numbers: &[usize]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let counts = |buffers: [u32; 4]| buffers.map(|count| count as usize);
    for (name, numbers) in [
        ("BUFFER_BYTES", limits::BUFFER_BYTES),
        ("BUFFERS_FIRST", counts(limits::BUFFERS_FIRST)),
        ("BUFFERS", counts(limits::BUFFERS)),
    ] {
        let row = format!("| `{name}` | {} |", listed(&numbers));
        assert!(DOCUMENT.contains(&row), "docs/wire.md has not: {row}");
    }
    // And no row of that table is one that nobody compares.
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `") && line.contains('_'));
    let names = rows.filter_map(|row| row.split('`').nth(1));
    let is_bound = |name: &&str| name.chars().all(|it| it.is_ascii_uppercase() || it == '_');
    let lists = ["BUFFER_BYTES", "BUFFERS_FIRST", "BUFFERS"];
    let known = |name: &&str| lists.contains(name) || bounds.iter().any(|bound| bound.0 == *name);
    let unknown: Vec<&str> = names.filter(is_bound).filter(|name| !known(name)).collect();
    assert_eq!(unknown, [""; 0], "rows of docs/wire.md that are compared with nothing");
    // The numbers that the text mentions in passing.
    assert_eq!((ring::SLOT, ring::HEAD, segment::PAGE), (128, 24, 4096));
    assert_eq!((lane::HEAD_LINES, lane::LANE_BYTES, page::PAGE_WORDS), (8, 8192, 16));
    assert_eq!(lane::GROWN_BYTES, [64 << 10, 2 << 20]);
    assert_eq!((limits::SHORT_BYTES, limits::SLABS_PER_SIZE_MAX), (104, 2));
    assert_eq!(limits::LONG_STEP_BYTES, 256 << 10);
    assert_eq!(Budget::price(limits::MESSAGE_BYTES_MAX), 1_073_742_080);
    assert_eq!(Budget::price(0), 256);
    assert_eq!(FailCode::Cancelled as u8, 4);
    assert_eq!((FailCode::Refused as u8, FailCode::WouldWait as u8), (10, 11));
    assert_eq!((FailCode::ArgumentsTooLarge as u8, FailCode::NoMemory as u8), (12, 13));
    assert_eq!((FailCode::Denied as u8, FailCode::Aborted as u8), (14, 15));
    let mut context = Context::default();
    context.set("tenant", &[7, 0]).unwrap();
    assert_eq!(context.as_bytes(), b"\x06\0tenant\x02\0\x07\0");
    assert_eq!((backoff::REFUSALS_MAX, backoff::BACKOFF_FIRST_NS), (8, 20_000));
    assert_eq!(board::sessions_in(4096), limits::SESSIONS_PER_NODE_MAX);
    assert_eq!((Flags::DEADLINE.bits(), Flags::GRANTED.bits()), (1, 4));
    assert_eq!((Flags::REFUSABLE.bits(), Flags::EXTENDABLE.bits()), (8, 16));
    assert_eq!((Flags::MADE.bits(), Flags::CONTEXT.bits()), (32, 64));
    let tolerant = Head::reply(CallNumber::NONE, 0).with_flags(Flags::TOLERANT);
    assert_eq!((tolerant.words()[2], TOLERANT), (2 << 56, 32768));
    let extended = Head::call(1, CallNumber::NONE, 24)
        .with_flags(Flags::DEADLINE.with(Flags::PLACED).with(Flags::GRANTED));
    assert_eq!(extended.words()[2], 1 | 5 << 16 | 1 << 56);
    let offset = |flag| extended.flags.offset_of(flag);
    assert_eq!((offset(Flags::PLACED), offset(Flags::GRANTED)), (Some(8), Some(16)));
    let placed = Placed { slab: 1, index: 2, len: 3 };
    assert_eq!(placed.as_u64(), 1 | 2 << 16 | 3 << 32);
    let kinds: Vec<u8> = Kind::ALL.iter().map(|kind| kind.byte()).collect();
    assert_eq!(kinds, [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    let codes = (Operation::ALL.map(Operation::code), Control::ALL.map(Control::code));
    assert_eq!(codes, ([257, 258], [259, 260]));
    let version = format!("The version of the protocol is {VERSION_MAX},");
    assert!(DOCUMENT.contains(&version), "docs/wire.md has not: {version}");
    assert_eq!((StampMode::Pair(27).byte(), StampMode::Whole.byte()), (28, 255));
}

#[test]
fn the_records_are_those_of_the_code() {
    let hello = Hello {
        version_min: VERSION_MIN,
        version_max: VERSION_MAX,
        program: ProgramId::new("demo".parse().unwrap(), 0x1122_3344_5566_7788),
        caller: Some("client/7".parse().unwrap()),
        wanted: "counter".parse().unwrap(),
        incarnation: 0xaabb_ccdd,
        pid: 4242,
        memory: true,
    };
    let network = NonZeroU64::new(0xf000_0099).unwrap();
    let listening = Some(Listening::new("127.0.0.1:7411".parse().unwrap(), false, network));
    let segments = Segments { lane_bytes: 8192, board_slot: 3, session: 3, listening };
    let mut text = String::new();
    dump(&mut text, "hello", &Record::Hello(hello).encode());
    dump(&mut text, "segments", &Record::Segments(segments).encode());
    assert!(DOCUMENT.contains(&text), "docs/wire.md has not:\n{text}");
}

#[test]
fn the_frames_are_those_of_real_calls() {
    // The frames are read off shared lanes; over a byte stream they are the same.
    if std::env::var("UPBEAT_TEST_CARRIER").is_ok_and(|carrier| carrier == "stream") {
        leave_out("over byte streams: frames are read off shared lanes");
        return;
    }
    let server = std::thread::spawn(serve);
    let client = std::thread::spawn(call);
    let text = pass_on();
    client.join().unwrap();
    server.join().unwrap();
    assert!(DOCUMENT.contains(&text), "docs/wire.md has not:\n{text}");
}

#[test]
fn the_words_of_the_header_stand_where_the_document_says() {
    let own = upbeat_memory::region::Region::heap(lane::LANE_BYTES / 8);
    let others = upbeat_memory::region::Region::heap(lane::LANE_BYTES / 8);
    let lanes = lane::Lanes::new(own.clone(), 9, others, 0);
    lanes.set_wants_room(true);
    lanes.publish_accepted(7);
    lanes.returns_for(5).toggle(0, 1 << 3);
    let at = |byte: usize| own.load(byte / 8);
    assert_eq!([at(0), at(72), at(128), at(136), at(256 + 8 * 5)], [9, 7, 1, 1, 8]);
    assert_eq!((0..512 / 8).filter(|word| own.load(*word) != 0).count(), 5);
}

/// Bytes in rows of sixteen; for rows that are the same as the one before stands a star.
fn dump(text: &mut String, what: &str, bytes: &[u8]) {
    writeln!(text, "{what}").unwrap();
    rows(text, bytes);
}

fn rows(text: &mut String, bytes: &[u8]) {
    let mut before: &[u8] = &[];
    let mut alike = false;
    for (row, bytes) in bytes.chunks(16).enumerate() {
        if bytes == before {
            if !std::mem::replace(&mut alike, true) {
                writeln!(text, "  *").unwrap();
            }
            continue;
        }
        (before, alike) = (bytes, false);
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' };
        let shown: String = bytes.iter().map(shown).collect();
        writeln!(text, "  {:02x}  {:<47}  {shown}", row * 16, hex.join(" ")).unwrap();
    }
}

struct Count(RefCell<u64>);

impl Counter for Count {
    async fn add(&self, n: u64) -> u64 {
        *self.0.borrow_mut() += n;
        *self.0.borrow()
    }

    async fn describe(&self, name: String) -> Result<Description, CounterError> {
        let count = *self.0.borrow();
        match name.as_str() {
            "" => Err(CounterError::NoName),
            _ => Ok(Description { text: name, count }),
        }
    }

    async fn reset(&self) {
        self.0.replace(0);
    }
}

fn node(name: &str) -> Node {
    let builder = Node::builder(name).program(PROGRAM).local_only();
    let node = builder.waiting(Waiting::Polling).build().unwrap();
    // A sampled message is stamped.
    node.set_sampling(0);
    node
}

fn serve() {
    let node = node("server");
    node.serve(CounterServer::new(Count(RefCell::new(6)))).unwrap();
    // Until the session has come and gone.
    node.block_on(async {
        while node.sessions() == 0 {
            upbeat::sleep(Duration::from_millis(1)).await;
        }
        while node.sessions() != 0 {
            upbeat::sleep(Duration::from_millis(1)).await;
        }
    });
}

fn call() {
    let node = node("client");
    node.block_on(async {
        let counter: CounterClient = loop {
            match node.connect("middle").await {
                Ok(counter) => break counter,
                Err(_) => upbeat::sleep(Duration::from_millis(1)).await,
            }
        };
        assert_eq!(counter.add(1).await, Ok(7));
        counter.reset().await.unwrap();
        let described = counter.describe("mine".into()).await.unwrap();
        assert_eq!((described.text.as_str(), described.count), ("mine", 0));
        let refused = counter.describe(String::new()).await.unwrap_err();
        assert_eq!(refused, CallError::Method(CounterError::NoName));
        assert_eq!(counter.add(3).deadline(Duration::from_micros(DEADLINE_US)).await, Ok(3));
        for letters in [120, 1 << 16] {
            let described = counter.describe("n".repeat(letters)).await.unwrap();
            assert_eq!((described.text.len(), described.count), (letters, 3));
        }
    });
}

/// Passes frames on, and gives the bytes of all but those of binding.
fn pass_on() -> String {
    let program = ProgramId::named(PROGRAM.parse().unwrap());
    let name = |text: &str| text.parse::<NodeName>().unwrap();
    let home = LocalNode::local(program.clone(), Some(name("middle"))).unwrap();
    let other = LocalNode::local(program, None).unwrap();
    let listener = local::Listener::bind(&home).unwrap();
    let patience = Patience(Instant::now());
    let to_server = patience.until(|| local::connect(&other, &name("server"), 0, 0).ok());
    let mut server = Side::new(patience.open(to_server));
    let from_client = patience.until(|| listener.accept(&home, 0, 0).unwrap());
    let mut client = Side::new(patience.open(from_client));
    let (mut text, mut answers) = (String::new(), 0);
    // The binding, and six calls.
    while answers < 7 {
        patience.check();
        let bound = answers > 0;
        client.carrier.reader().publish_accepted(server.carrier.writer().peer_accepted());
        if let Some(passed) = pass(&mut client, &mut server)
            && bound
        {
            passed.dump(&mut text, "client to server");
        }
        if let Some(passed) = pass(&mut server, &mut client) {
            answers += u32::from(passed.kind == Kind::Reply);
            if bound {
                passed.dump(&mut text, "server to client");
            }
        }
    }
    text
}

/// A session, the slabs of its peer, and for each of them one of ours on the other side.
struct Side {
    carrier: Carrier,
    lent: Vec<Arc<Borrowed>>,
    own: Vec<Slab>,
}

impl Side {
    fn new(carrier: Carrier) -> Side {
        Side { carrier, lent: Vec::new(), own: Vec::new() }
    }
}

/// A frame that was passed on: head and payload as they lay there, and the buffer if there is one.
struct Passed {
    kind: Kind,
    bytes: Vec<u8>,
    buffer: Option<Vec<u8>>,
}

impl Passed {
    fn dump(&self, text: &mut String, what: &str) {
        // Idle memory is retired at some time.
        if self.kind == Kind::Retire {
            return;
        }
        dump(text, what, &self.bytes);
        if let Some(buffer) = &self.buffer {
            dump(text, "  in the buffer", buffer);
        }
    }
}

/// Passes one frame on, if there is one.
fn pass(from: &mut Side, to: &mut Side) -> Option<Passed> {
    let words = from.carrier.reader().look().unwrap()?;
    let head = Head::parse(words).unwrap();
    let mut payload = vec![0; head.len as usize];
    from.carrier.payload().read(0, &mut payload);
    let word = |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().unwrap());
    let placed = head.flags.offset_of(Flags::PLACED).map(|at| Placed::from_u64(word(at as usize)));
    if head.kind == Kind::Slab {
        pass_slab(from, to, head.call.index() as usize, word(0));
    }
    let buffer = placed.map(|placed| pass_buffer(from, to, placed));
    from.carrier.reader().advance();
    from.carrier.reader().publish_progress();
    let mut claim = to.carrier.writer().claim(ring::span_of(payload.len()), 0).unwrap();
    claim.write(0, &payload);
    claim.commit(words, payload.len());
    // The document has zeros for the counter, which is never the same, and all of the time that a call has, of which a
    // little is over.
    if let Some(at) = head.flags.offset_of(Flags::DEADLINE) {
        let left = word(at as usize);
        assert!((1..=DEADLINE_US).contains(&left), "{left} microseconds are left");
        payload[at as usize..][..8].copy_from_slice(&DEADLINE_US.to_le_bytes());
    }
    if let Some(at) = head.flags.offset_of(Flags::MADE) {
        payload[at as usize..][..limits::EXTENSION_BYTES].fill(0);
    }
    // The nodes look for ever, so nobody has to be woken.
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).chain(payload).collect();
    Some(Passed { kind: head.kind, bytes, buffer })
}

/// Takes over a slab, and makes one of its shape for the other side.
fn pass_slab(from: &mut Side, to: &mut Side, number: usize, shape: u64) {
    let (each, count) = (shape as u32 as usize, (shape >> 32) as u32);
    let handed = from.carrier.drain().unwrap().segments.pop().expect("the segment comes first");
    assert_eq!(handed.generation as usize, limits::SLAB_GENERATION as usize + from.lent.len());
    assert_eq!((handed.bytes as usize, number), (each * count as usize, from.lent.len()));
    let returns = from.carrier.reader().returns_for(number);
    from.lent.push(Arc::new(Borrowed::new(handed.open().unwrap(), each, count, returns)));
    let segment = to.carrier.make_segment("middle", each * count as usize).unwrap();
    to.carrier.send_segment(limits::SLAB_GENERATION + number as u32, &segment).unwrap();
    let returned = to.carrier.writer().peer_returned(number);
    to.own.push(Slab::new(segment.into_region(), each, count, returned));
}

/// Copies what lies in a buffer into ours of the same place, and returns it.
fn pass_buffer(from: &Side, to: &Side, placed: Placed) -> Vec<u8> {
    let loan = from.lent[placed.slab as usize].take(u32::from(placed.index), placed.len as usize);
    let mut bytes = vec![0; placed.len as usize];
    loan.unwrap().read(0, &mut bytes);
    let returned = || to.carrier.writer().peer_returned(placed.slab.into());
    let mut buffer = to.own[placed.slab as usize].claim(returned).unwrap();
    buffer.write(0, &bytes);
    assert_eq!(
        buffer.lend(),
        u32::from(placed.index),
        "both sides use the first buffer that is free"
    );
    bytes
}

struct Patience(Instant);

impl Patience {
    fn check(&self) {
        assert!(self.0.elapsed() < PATIENCE, "a frame does not come");
    }

    fn until<T>(&self, mut act: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(done) = act() {
                return done;
            }
            self.check();
            std::thread::yield_now();
        }
    }

    fn open(&self, mut opening: Opening) -> Carrier {
        self.until(|| match opening.step(0).unwrap() {
            Step::Done(carrier) => Some(carrier),
            _ => None,
        })
    }
}
