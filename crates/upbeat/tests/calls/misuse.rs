//! Futures of a node that a foreign executor polls: the message where nobody drives the
//! node, and that loops that drive it are left alone.

use crate::common::process::{Other, end_with_input, say};
use crate::common::server::{Kind, Server};
use crate::common::work::{WorkClient, WorkHandle, WorkServer, Worker};
use crate::common::{Directory, PROGRAM, SOON, Signal, Watchdog, at_once, block_on};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal as Sent;
use std::future::{Future, pending};
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use upbeat::{CallError, ConnectError, Node, Waiting};
use upbeat_core::limits::{MESSAGE_BYTES_MAX, TAKEN_BYTES_MIN};
use upbeat_memory::fork::in_child;

/// How long a node is not driven before its futures are polled again.
const PERIOD: Duration = Duration::from_millis(100);

/// Builds a node that finds out soon that nobody drives it.
fn node(name: &str, place: &Path) -> Node {
    let builder = Node::builder(name).program(PROGRAM).directory(place);
    builder.waiting(Waiting::Sleeping).undriven_period(PERIOD).build().unwrap()
}

/// Returns what the act panics with.
fn panic_of(act: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(act)).expect_err("it does not panic");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().expect("a text").to_string(),
    }
}

#[test]
fn settings_out_of_their_bounds_are_refused_where_they_are_made() {
    type Set = fn(upbeat::Builder) -> upbeat::Builder;
    let settings: [(Set, &str); 9] = [
        (|of| of.budget(0), "a node without a budget"),
        (|of| of.session_budget(0), "a session without a budget"),
        (|of| of.max_message_bytes(TAKEN_BYTES_MIN - 1), "is given as 1048575 bytes"),
        (|of| of.max_message_bytes(MESSAGE_BYTES_MAX + 1), "is given as 1073741825 bytes"),
        (|of| of.peer_timeout(Duration::from_millis(999)), "`peer_timeout` is 999ms"),
        (|of| of.sessions_per_address(0), "permits no sessions"),
        (|of| of.remote_sessions(0), "0 sessions with other hosts: give 1 to"),
        (|of| of.remote_sessions(usize::MAX), "sessions with other hosts: give 1 to"),
        (|of| of.accepts_per_second(0), "accepts no connections"),
    ];
    for (set, text) in settings {
        let panic = panic_of(|| drop(set(Node::builder("settings"))));
        assert!(panic.contains(text), "{panic}");
    }
    let handle = || upbeat::handle::builder();
    for bytes in [TAKEN_BYTES_MIN, MESSAGE_BYTES_MAX] {
        drop((
            Node::builder("settings").max_message_bytes(bytes),
            handle().max_message_bytes(bytes),
        ));
    }
    let panic = panic_of(|| drop(handle().max_message_bytes(TAKEN_BYTES_MIN - 1)));
    assert!(panic.contains("the longest message is given as 1048575 bytes"), "{panic}");
    let panic = panic_of(|| drop(handle().peer_timeout(Duration::ZERO)));
    assert!(panic.contains("`peer_timeout` is 0ns"), "{panic}");
}

/// Whether a future was woken since this was last asked.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Polls a future, where it was woken.
fn poll_woken<F: Future>(future: Pin<&mut F>, woken: &Arc<Woken>) -> Option<F::Output> {
    if !woken.0.swap(false, Ordering::SeqCst) {
        return None;
    }
    match future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(woken)))) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// A client of a server that runs in another thread.
fn client(server: &str, place: &Path) -> (Server, Node, WorkClient) {
    let serves = Server::start(Kind::Local, server, place, Waiting::Sleeping);
    let node = node(&format!("{server}/client"), place);
    let work = node.block_on(node.connect(server)).unwrap();
    (serves, node, work)
}

/// The futures that are awaited while nobody drives the node.
const AWAITED: [&str; 8] =
    ["call", "joined", "spun", "oneway", "connect", "task", "sleep", "within"];

#[test]
fn what_is_awaited_while_nobody_drives_the_node_panics_and_says_what_to_write() {
    let _watchdog = Watchdog::new("awaiting without a drive");
    let directory = Directory::new();
    at_once(AWAITED, |what| {
        let text = panic_of(|| await_undriven(what, &directory.path()));
        let name = format!("misuse/{what}");
        for part in [&*name, "nobody drove the node", "node.block_on(async { … })"] {
            assert!(text.contains(part), "{what}: {text}");
        }
        for part in ["node.turn()", "upbeat::tokio_runtime::drive", "upbeat::handle::connect("] {
            assert!(text.contains(part), "{what}: {text}");
        }
    });
}

/// Awaits something of a node's in a runtime that knows nothing of the node.
fn await_undriven(what: &str, place: &Path) {
    let name = format!("misuse/{what}");
    match what {
        "connect" => {
            // The server is in this thread, and accepts no connection.
            let (_server, node) = (node(&format!("{name}/server"), place), node(&name, place));
            let connected = block_on(node.connect::<WorkClient>(&format!("{name}/server")));
            panic!("connected: {}", connected.is_ok());
        }
        "task" => {
            let node = node(&name, place);
            let ended = block_on(node.spawn(pending::<()>()));
            panic!("a task has ended: {ended:?}");
        }
        "sleep" | "within" => {
            let node = node(&name, place);
            // The futures begin inside the node, and are awaited elsewhere.
            let mut begun: Pin<Box<dyn Future<Output = ()>>> = match what {
                "sleep" => Box::pin(upbeat::sleep(SOON)),
                _ => Box::pin(async { drop(upbeat::within(SOON, pending::<()>()).await) }),
            };
            let first = async { begun.as_mut().poll(&mut Context::from_waker(Waker::noop())) };
            assert!(node.block_on(first).is_pending());
            block_on(begun);
            panic!("{what} has ended");
        }
        "oneway" => fill(&name, place),
        _ => {
            let (_serves, _node, work) = client(&name, place);
            let result = match what {
                "call" => block_on(work.add(1, 1)),
                // By a waker that is none of the runtime's.
                "joined" => block_on(async {
                    crate::common::first(work.add(1, 1), pending::<()>()).await.unwrap()
                }),
                _ => {
                    let mut call = pin!(work.add(1, 1));
                    loop {
                        let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                        if let Poll::Ready(result) = polled {
                            break result;
                        }
                        std::thread::yield_now();
                    }
                }
            };
            panic!("the call has returned: {result:?}");
        }
    }
}

/// Sends one-way messages to a node that does not take them, in a runtime that drives nobody.
fn fill(name: &str, place: &Path) {
    let server = node(&format!("{name}/server"), place);
    server.serve(WorkServer::new(Worker::new(Signal::default()))).unwrap();
    let client = node(name, place);
    let to = format!("{name}/server");
    let mut connecting = pin!(client.connect::<WorkClient>(&to));
    let work = loop {
        let polled = connecting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(connected) = polled {
            break connected.unwrap();
        }
        client.turn();
        server.turn();
    };
    for number in 0.. {
        block_on(work.note(number)).unwrap();
    }
}

/// Plays the process that is to stop. False if the part is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let Some(how) = part.strip_prefix("misuse ") else { return false };
    let node = node("misuse/stops", place);
    end_with_input();
    node.serve(WorkServer::new(Worker::default())).unwrap();
    let asleep = node.spawn(upbeat::sleep(SOON));
    node.block_on(async {
        let mut asked = Some(Box::pin(upbeat::ctrl_c()));
        let first = asked.as_mut().unwrap().as_mut();
        assert!(first.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        if how == "forks" {
            let dropped = in_child(|| {
                drop(asked.take());
                7
            });
            assert_eq!(dropped, Some(7));
        }
        // The task is polled once this future waits.
        drop(node.spawn(async { say("waits") }));
        asked.unwrap().await.unwrap();
        say("asked");
    });
    let _ = node.block_on(asleep);
    panic!("nobody has ended the process");
}

/// A forked child that drops the wait for a signal leaves its parent's as it is.
#[test]
fn a_second_signal_ends_the_program() {
    let _watchdog = Watchdog::new("a second signal");
    let directory = Directory::new();
    for part in ["misuse stops", "misuse forks"] {
        let mut stops = Other::start(part, &directory.path());
        stops.expect("waits");
        stops.signal(Sent::INT);
        stops.expect("asked");
        stops.signal(Sent::INT);
        assert_eq!(stops.ended().signal(), Some(Sent::INT.as_raw()));
    }
}

#[test]
fn what_needs_a_node_says_so_at_once_where_none_is_driven() {
    let outside: [(&str, fn()); 4] = [
        ("upbeat::sleep", || block_on(upbeat::sleep(Duration::ZERO))),
        ("upbeat::within", || drop(block_on(upbeat::within(Duration::ZERO, pending::<()>())))),
        ("upbeat::spawn", || drop(upbeat::spawn(async {}))),
        ("upbeat::ctrl_c", || block_on(upbeat::ctrl_c()).unwrap()),
    ];
    for (function, act) in outside {
        let text = panic_of(act);
        for part in [function, "node.block_on(async { … })", "upbeat::handle::connect"] {
            assert!(text.contains(part), "{function}: {text}");
        }
    }
}

#[test]
fn a_blocking_call_and_a_drive_inside_a_node_say_what_to_write() {
    let _watchdog = Watchdog::new("blocking inside a node");
    let directory = Directory::new();
    let (_serves, node, _) = client("misuse/blocked", &directory.path());
    let handle: WorkHandle = node.handle("misuse/blocked").unwrap();
    let error = node.block_on(async { handle.blocking().add(1, 1) }).unwrap_err();
    assert_eq!(error, CallError::WouldBlockNode);
    let text = error.to_string();
    assert!(text.contains("`counter.add(1).await` instead of `counter.blocking()"), "{text}");
    let text = panic_of(|| node.block_on(async { node.block_on(async {}) }));
    assert!(text.contains("write `future.await` there"), "{text}");
}

#[upbeat::service]
trait Unserved {
    async fn call(&self);
}

#[test]
fn a_node_and_a_service_that_are_missing_say_what_to_write() {
    let _watchdog = Watchdog::new("a missing service");
    let directory = Directory::new();
    let (_serves, node, _) = client("misuse/unserved", &directory.path());
    let text = |to: &'static str| {
        let connected = node.block_on(node.connect::<UnservedClient>(to));
        connected.err().unwrap().to_string()
    };
    let missing = text("misuse/nobody");
    for part in ["there is no node `misuse/nobody`", "start it first", "same program and user"] {
        assert!(missing.contains(part), "{missing}");
    }
    let unserved = text("misuse/unserved");
    for part in [
        "does not serve Unserved",
        "write `node.serve(UnservedServer::new(…))?` in its program",
        "`node.connect(…).wait_for(…)`",
    ] {
        assert!(unserved.contains(part), "{unserved}");
    }
}

/// A service whose handler makes a blocking call.
#[upbeat::service]
trait Blocks {
    async fn block(&self) -> String;
}

struct Blocker(WorkHandle);

impl Blocks for Blocker {
    async fn block(&self) -> String {
        self.0.blocking().add(1, 1).unwrap_err().to_string()
    }
}

#[test]
fn a_blocking_call_in_a_handler_says_what_to_write() {
    let _watchdog = Watchdog::new("blocking in a handler");
    let directory = Directory::new();
    let place = directory.path();
    let (_serves, node, _) = client("misuse/handler", &place);
    let handle: WorkHandle = node.handle("misuse/handler").unwrap();
    node.serve(BlocksServer::new(Blocker(handle))).unwrap();
    let caller = std::thread::spawn(move || {
        let builder = upbeat::handle::builder().program(PROGRAM).directory(place);
        let blocks: BlocksHandle = builder.connect("misuse/handler/client").unwrap();
        blocks.blocking().block().unwrap()
    });
    while !caller.is_finished() {
        node.turn();
    }
    let text = caller.join().unwrap();
    for part in [
        "a blocking call in the thread that drives a node would stop that node",
        "`counter.add(1).await` instead of `counter.blocking().add(1)`",
        "block in another thread",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn an_error_that_main_returns_is_a_text_with_its_variant() {
    let directory = Directory::new();
    let node = node("misuse/errors", &directory.path());
    let missing = node.block_on(node.connect::<WorkClient>("misuse/nobody")).err().unwrap();
    let boxed: Box<dyn std::error::Error> = Box::new(missing);
    let text = format!("{boxed:?}");
    assert!(text.starts_with(&boxed.to_string()) && text.contains("`misuse/nobody`"), "{text}");
    assert!(text.ends_with(" (ConnectError::Open)"), "{text}");
    node.serve(WorkServer::new(Worker::default())).unwrap();
    let twice = node.serve(WorkServer::new(Worker::default())).unwrap_err();
    assert_eq!(format!("{twice:?}"), format!("{twice} (ServeError::AlreadyServed)"));
    let build = Node::builder("no name").local_only().build().err().unwrap();
    assert_eq!(format!("{build:?}"), format!("{build} (BuildError::Name)"));
    let handle = upbeat::handle::connect::<WorkHandle>("no name").err().unwrap();
    assert_eq!(format!("{handle:?}"), format!("{handle} (HandleError::Connect)"));
    let method = CallError::Method("why");
    assert_eq!(format!("{method:?}"), "\"why\"");
    let deadline: CallError = CallError::deadline(true);
    assert_eq!(format!("{deadline:?}"), format!("{deadline} (CallError::Deadline)"));
    let closed = ConnectError::Call(CallError::Full);
    assert!(format!("{closed:?}").ends_with("(ConnectError::Call)"), "{closed:?}");
}

#[test]
fn a_service_is_served_once() {
    let directory = Directory::new();
    let node = node("misuse/twice", &directory.path());
    assert_eq!(node.serve(WorkServer::new(Worker::default())), Ok(()));
    let text = node.serve(WorkServer::new(Worker::default())).unwrap_err().to_string();
    for part in ["`misuse/twice` serves `Work` already", "once for each service"] {
        assert!(text.contains(part), "{text}");
    }
    node.shut_down(Duration::ZERO);
    let text = node.serve(WorkServer::new(Worker::default())).unwrap_err().to_string();
    assert!(text.contains("has been shut down and cannot serve `Work`"), "{text}");
}

#[test]
fn a_loop_that_turns_its_node_awaits_for_as_long_as_it_takes() {
    let _watchdog = Watchdog::new("turning between polls");
    let directory = Directory::new();
    let (_serves, node, work) = client("misuse/turned", &directory.path());
    let mut call = pin!(work.nap(20 * PERIOD.as_millis() as u64, 7));
    let began = Instant::now();
    let result = loop {
        if let Poll::Ready(result) = call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            break result;
        }
        node.turn();
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(result, Ok(7));
    assert!(began.elapsed() >= 20 * PERIOD);
}

#[test]
fn a_loop_whose_other_tasks_are_slow_turns_its_node_late() {
    let _watchdog = Watchdog::new("slow tasks beside a call");
    let directory = Directory::new();
    let (_serves, node, work) = client("misuse/slow", &directory.path());
    let nap = work.nap(8 * PERIOD.as_millis() as u64, 7);
    let (mut call, woken) = (pin!(nap), Arc::<Woken>::default());
    woken.0.store(true, Ordering::SeqCst);
    let (began, mut rounds) = (Instant::now(), 0);
    let result = loop {
        if let Some(result) = poll_woken(call.as_mut(), &woken) {
            break result;
        }
        // Another task of the loop takes three periods, twice.
        if rounds < 2 {
            std::thread::sleep(3 * PERIOD);
            // The call was polled again meanwhile, or is now.
            if let Some(result) = poll_woken(call.as_mut(), &woken) {
                break result;
            }
        }
        rounds += 1;
        node.turn();
        assert!(began.elapsed() < SOON, "the call does not return");
    };
    assert_eq!(result, Ok(7));
}

#[test]
fn a_loop_that_waits_for_the_descriptor_is_woken_to_turn() {
    let _watchdog = Watchdog::new("waiting for the descriptor");
    let directory = Directory::new();
    let (_serves, node, work) = client("misuse/descriptor", &directory.path());
    let (mut call, woken) = (pin!(work.nap(1, 7)), Arc::<Woken>::default());
    while node.turn() || !node.may_wait() {}
    // Polled behind the turns: nobody has told the node of it.
    woken.0.store(true, Ordering::SeqCst);
    let result = loop {
        if let Some(result) = poll_woken(call.as_mut(), &woken) {
            break result;
        }
        let mut asked = [PollFd::new(&node, PollFlags::IN)];
        let soon = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        if poll(&mut asked, Some(&soon)).unwrap() != 0 {
            while node.turn() || !node.may_wait() {}
        }
    };
    assert_eq!(result, Ok(7));
}
