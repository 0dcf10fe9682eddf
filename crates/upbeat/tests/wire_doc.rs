//! docs/wire.md is true: its bounds are those of the code, and its bytes are those of real frames.
//!
//! A client and a server, each a node in a thread, talk through the test, which holds one end of
//! a session with each, passes every frame on and keeps its bytes.

#[path = "../examples/counter/mod.rs"]
mod counter;

use counter::{Counter, CounterClient, CounterError, CounterServer, Description};
use std::cell::RefCell;
use std::fmt::Write;
use std::time::{Duration, Instant};
use upbeat::{CallError, Node, Waiting};
use upbeat_core::bill::way::Manner;
use upbeat_core::frame::{Flags, Head, Kind};
use upbeat_core::hello::{Hello, Record, Segments};
use upbeat_core::limits;
use upbeat_core::name::{NodeName, ProgramId};
use upbeat_memory::{board, lane, page, ring, segment};
use upbeat_transport::carrier::Carrier;
use upbeat_transport::home::Home;
use upbeat_transport::local;
use upbeat_transport::opening::{Opening, Step};

const DOCUMENT: &str = include_str!("../../../docs/wire.md");
const PROGRAM: &str = "wire-doc";
/// A frame that does not come must not hold up the tests for ever.
const PATIENCE: Duration = Duration::from_secs(30);

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
        ("MESSAGE_BYTES_MAX", limits::MESSAGE_BYTES_MAX),
        ("CALLS_PER_SESSION_MAX", limits::CALLS_PER_SESSION_MAX),
        ("SESSIONS_PER_NODE_MAX", limits::SESSIONS_PER_NODE_MAX),
        ("BOARD_HEADER_BYTES", limits::BOARD_HEADER_BYTES),
        ("METHODS_PER_SESSION_MAX", limits::METHODS_PER_SESSION_MAX),
        ("METHODS_PER_SERVICE_MAX", limits::METHODS_PER_SERVICE_MAX),
        ("NAME_BYTES_MAX", limits::NAME_BYTES_MAX),
        ("PROGRAM_BYTES_MAX", limits::PROGRAM_BYTES_MAX),
        ("IDENT_BYTES_MAX", limits::IDENT_BYTES_MAX),
        ("SIGNATURE_BYTES_MAX", limits::SIGNATURE_BYTES_MAX),
        ("HELLO_BYTES_MAX", limits::HELLO_BYTES_MAX),
        ("ERROR_TEXT_BYTES_MAX", limits::ERROR_TEXT_BYTES_MAX),
        ("HANDSHAKE_MS_MAX", limits::HANDSHAKE_MS_MAX as usize),
        ("PENDING_HANDSHAKES_MAX", limits::PENDING_HANDSHAKES_MAX),
        ("PENDING_SEGMENTS_MAX", limits::PENDING_SEGMENTS_MAX),
        ("LOCK_NAME_BYTES_MAX", limits::LOCK_NAME_BYTES_MAX),
    ];
    for (name, value) in bounds {
        let row = format!("| `{name}` | {value} |");
        assert!(DOCUMENT.contains(&row), "docs/wire.md has not: {row}");
    }
    // What the text says in passing.
    assert_eq!((ring::SLOT, ring::HEAD, segment::PAGE), (128, 24, 4096));
    assert_eq!((lane::HEAD_LINES, lane::LANE_BYTES, page::PAGE_WORDS), (8, 8192, 16));
    assert_eq!(lane::GROWN_BYTES, [64 << 10, 2 << 20]);
    assert_eq!(board::sessions_in(4096), limits::SESSIONS_PER_NODE_MAX);
    assert_eq!(Flags::DEADLINE.bits(), 1);
    let kinds: Vec<u8> = Kind::ALL.iter().map(|kind| kind.byte()).collect();
    assert_eq!(kinds, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!((Manner::Pair(27).byte(), Manner::Whole.byte()), (28, 255));
}

#[test]
fn the_records_are_those_of_the_code() {
    let hello = Hello {
        version_min: 1,
        version_max: 1,
        program: ProgramId::new("demo".parse().unwrap(), 0x1122_3344_5566_7788),
        caller: Some("client/7".parse().unwrap()),
        wanted: "counter".parse().unwrap(),
        incarnation: 0xaabb_ccdd,
        pid: 4242,
    };
    let segments = Segments { lane_bytes: 8192, board_slot: 3, session: 3 };
    let mut text = String::new();
    dump(&mut text, "hello", &Record::Hello(hello).encode());
    dump(&mut text, "segments", &Record::Segments(segments).encode());
    assert!(DOCUMENT.contains(&text), "docs/wire.md has not:\n{text}");
}

#[test]
fn the_frames_are_those_of_real_calls() {
    let server = std::thread::spawn(serve);
    let client = std::thread::spawn(call);
    let text = pass_on();
    client.join().unwrap();
    server.join().unwrap();
    assert!(DOCUMENT.contains(&text), "docs/wire.md has not:\n{text}");
}

/// Bytes in rows of sixteen.
fn dump(text: &mut String, what: &str, bytes: &[u8]) {
    writeln!(text, "{what}").unwrap();
    for (row, bytes) in bytes.chunks(16).enumerate() {
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
    builder.waiting(Waiting::Polling).build().unwrap()
}

fn serve() {
    let node = node("server");
    node.serve(CounterServer::new(Count(RefCell::new(6))));
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
        assert_eq!(counter.add(3).deadline(Duration::from_millis(2_500)).await, Ok(3));
    });
}

/// Passes frames on, and gives the bytes of all but those of binding.
fn pass_on() -> String {
    let program = ProgramId::named(PROGRAM.parse().unwrap());
    let name = |text: &str| text.parse::<NodeName>().unwrap();
    let home = Home::local(program.clone(), Some(name("middle"))).unwrap();
    let other = Home::local(program, None).unwrap();
    let listener = local::Listener::bind(&home).unwrap();
    let patience = Patience(Instant::now());
    let to_server = patience.until(|| local::connect(&other, &name("server"), 0, 0).ok());
    let server = patience.open(to_server);
    let from_client = patience.until(|| listener.accept(&home, 0, 0).unwrap());
    let client = patience.open(from_client);
    let (mut text, mut answers) = (String::new(), 0);
    // The binding, and four calls.
    while answers < 5 {
        patience.check();
        let bound = answers > 0;
        if let Some(bytes) = pass(&client, &server)
            && bound
        {
            dump(&mut text, "client to server", &bytes);
        }
        if let Some(bytes) = pass(&server, &client) {
            answers += 1;
            if bound {
                dump(&mut text, "server to client", &bytes);
            }
        }
    }
    text
}

/// Passes one frame on, if there is one, and gives its head and its payload as they lay there.
fn pass(from: &Carrier, to: &Carrier) -> Option<Vec<u8>> {
    let words = from.lanes.look().unwrap()?;
    let len = Head::parse(words).unwrap().len as usize;
    let mut payload = vec![0; len];
    from.lanes.reader().read(0, &mut payload);
    from.lanes.reader().advance();
    from.lanes.publish_progress();
    let mut claim = to.lanes.claim(ring::span_of(len), 0).unwrap();
    claim.write(0, &payload);
    claim.commit(words, len);
    // The nodes look for ever, so nobody has to be woken.
    Some(words.iter().flat_map(|word| word.to_le_bytes()).chain(payload).collect())
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
            Step::Waiting => None,
        })
    }
}
