//! Handles: calls from any thread and any runtime, and what is left when a handle is gone.

mod leftovers;
mod wakers;

use crate::common::server::{KINDS, Kind, Server};
use crate::common::work::{Division, Point, WorkHandle};
use crate::common::{Directory, PROGRAM, Watchdog, alone, block_on, node, wait_until};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::future::Future;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use upbeat::error::Called;
use upbeat::handle::HandleError;
use upbeat::{CallError, ConnectError, Waiting};
use upbeat_core::limits::CALLS_PER_SESSION_MAX;
use upbeat_transport::socket_directory::SocketDirectory;

const THREADS: u64 = 4;
const POLICIES: [Waiting; 3] = [Waiting::Adaptive, Waiting::Sleeping, Waiting::Polling];

/// A server, and where it is.
struct Stand {
    server: Option<Server>,
    kind: Kind,
    name: String,
    place: PathBuf,
    _directory: Directory,
}

impl Stand {
    fn new(kind: Kind) -> Stand {
        let directory = Directory::new();
        let place = directory.path();
        // The registry of this process is one for all tests: names differ.
        let name = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let mut stand = Stand { server: None, kind, name, place, _directory: directory };
        stand.serve();
        stand
    }

    fn serve(&mut self) {
        let server = Server::start(self.kind, &self.name, &self.place, Waiting::Adaptive);
        self.server = Some(server);
    }

    fn handle(&self, waiting: Waiting) -> Result<WorkHandle, HandleError> {
        connect(&self.name, &self.place, waiting)
    }

    /// Ends the server as it ends by itself, and waits for that.
    fn shut_down(&mut self) {
        drop(self.server.take());
    }
}

fn connect(name: &str, place: &Path, waiting: Waiting) -> Result<WorkHandle, HandleError> {
    upbeat::handle::builder().program(PROGRAM).directory(place).waiting(waiting).connect(name)
}

/// The server is lost: what a call may say then.
fn check_lost<E: std::fmt::Debug>(error: &CallError<E>) {
    assert!(
        matches!(
            error,
            CallError::Unknown(_)
                | CallError::NotSent(_)
                | CallError::NotConnected { .. }
                | CallError::Failed { .. }
        ),
        "{error:?}"
    );
}

/// A handle may go to any thread, and be in several at once.
#[test]
fn goes_anywhere() {
    const fn anywhere<T: Send + Sync + Clone + 'static>() {}
    const { anywhere::<WorkHandle>() }
}

#[test]
fn blocking_calls_of_several_threads() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("blocking calls"));
    for (kind, waiting) in KINDS.into_iter().flat_map(|kind| POLICIES.map(|how| (kind, how))) {
        // Threads that poll in pairs on few cores take each other's time: fewer calls do.
        let calls = if waiting == Waiting::Polling { 100 } else { 1000 };
        let stand = Stand::new(kind);
        let handle = stand.handle(waiting).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let handle = handle.clone();
                scope.spawn(move || {
                    let work = handle.blocking();
                    for number in 0..calls {
                        assert_eq!(work.add(thread, number), Ok(thread + number));
                    }
                    assert_eq!(work.bytes(vec![7; 9000]), Ok(vec![7; 9000]));
                    assert_eq!(work.divide(6, 3), Ok(2));
                    assert_eq!(work.divide(6, 0), Err(CallError::Method(Division::ByZero)));
                    let not_whole = Division::NotWhole { rest: 2 };
                    assert_eq!(work.divide(6, 4), Err(CallError::Method(not_whole)));
                });
            }
        });
    }
}

#[test]
fn asynchronous_calls_of_several_threads() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("asynchronous calls"));
    for kind in KINDS {
        let stand = Stand::new(kind);
        let handle = stand.handle(Waiting::Adaptive).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let handle = handle.clone();
                scope.spawn(move || {
                    block_on(async {
                        for number in 0..300 {
                            assert_eq!(handle.add(thread, number).await, Ok(thread + number));
                        }
                        assert_eq!(handle.nap(5, thread).await, Ok(thread));
                        assert_eq!(handle.bytes(vec![7; 9000]).await, Ok(vec![7; 9000]));
                        let error = Err(CallError::Method(Division::ByZero));
                        assert_eq!(handle.divide(6, 0).await, error);
                    });
                });
            }
        });
    }
}

/// Results of awaited calls go into buffers of their callers', and nothing is written but them.
#[test]
fn asynchronous_calls_fill_buffers() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("calls that fill"));
    for kind in KINDS {
        let stand = Stand::new(kind);
        let handle = stand.handle(Waiting::Adaptive).unwrap();
        block_on(async {
            for bytes in [0, 1, 100, 9000, 1 << 20] {
                let mut buffer = vec![0xa5; bytes + 1];
                let filled = handle.blob(bytes as u64).into(&mut buffer).await;
                assert_eq!(filled, Ok(bytes));
                let blob = buffer[..bytes].iter().enumerate();
                assert!(
                    blob.into_iter().all(|(at, byte)| *byte == at as u8) && buffer[bytes] == 0xa5
                );
            }
            let mut small = [0xa5; 7];
            let error = Err(CallError::NoRoom { items: 8, room: 7, called: Called::default() });
            assert_eq!(handle.blob(8).into(&mut small).await, error);
            assert_eq!(small, [0xa5; 7]);
            let mut points = [Point { x: 0.0, y: 0.0 }; 8];
            assert_eq!(handle.points(8).into(&mut points).await, Ok(4));
            let odd = handle.points(7).into(&mut points).await;
            assert_eq!(odd, handle.points(7).await.map(|points| points.len()));
            assert!(matches!(odd, Err(CallError::Method(_))));
        });
    }
}

/// Blocking calls fill buffers, with every way of waiting.
#[test]
fn blocking_calls_fill_buffers() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("blocking calls that fill"));
    for (kind, waiting) in KINDS.into_iter().flat_map(|kind| POLICIES.map(|how| (kind, how))) {
        let stand = Stand::new(kind);
        let handle = stand.handle(waiting).unwrap();
        let work = handle.blocking();
        for bytes in [0, 1, 32, 33, 104, 9000, 65_528, 65_529, 1 << 20] {
            let mut buffer = vec![0xa5; bytes + 1];
            for room in [bytes + 1, bytes] {
                buffer.fill(0xa5);
                assert_eq!(work.filling(&mut buffer[..room]).blob(bytes as u64), Ok(bytes));
                let mut blob = buffer[..bytes].iter().enumerate();
                assert!(blob.all(|(at, byte)| *byte == at as u8) && buffer[bytes] == 0xa5);
            }
            buffer.fill(0xa5);
            if bytes > 0 {
                let error =
                    CallError::NoRoom { items: bytes, room: bytes - 1, called: Called::default() };
                assert_eq!(work.filling(&mut buffer[..bytes - 1]).blob(bytes as u64), Err(error));
                assert!(buffer.iter().all(|byte| *byte == 0xa5));
            }
        }
        let mut numbers = [0; 1000];
        assert_eq!(work.filling(&mut numbers).numbers(999), Ok(999));
        assert!(numbers.iter().copied().eq((0..999).chain([0])));
        let mut points = [Point { x: 0.0, y: 0.0 }; 8];
        assert_eq!(work.filling(&mut points).points(8), Ok(4));
        assert_eq!(points[3].x, 3.0);
        let odd = work.filling(&mut points).points(7);
        assert_eq!(odd, work.points(7).map(|points| points.len()));
        assert!(matches!(odd, Err(CallError::Method(_))));
        // The session goes on.
        assert_eq!(work.add(1, 2), Ok(3));
    }
}

/// A call that was polled in one thread may be awaited in another: the last waker counts.
#[test]
fn a_call_moves_between_threads() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a call that moves"));
    for kind in KINDS {
        let stand = Stand::new(kind);
        let handle = stand.handle(Waiting::Adaptive).unwrap();
        let mut call = Box::pin(handle.nap(50, 7));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        std::thread::scope(|scope| {
            scope.spawn(move || assert_eq!(block_on(call), Ok(7)));
        });
    }
}

/// A one-way message arrives although nothing is sent after it.
#[test]
fn a_lone_message_arrives() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a lone message"));
    for kind in KINDS {
        let stand = Stand::new(kind);
        let (sends, asks) = (stand.handle(Waiting::Adaptive), stand.handle(Waiting::Adaptive));
        let (sends, asks) = (sends.unwrap(), asks.unwrap());
        let asks = asks.blocking();
        let blocking = sends.blocking();
        for number in (1..20).step_by(2) {
            blocking.note(number).unwrap();
            wait_until(|| asks.noted().unwrap() == (number, number, 0));
            block_on(sends.note(number + 1)).unwrap();
            wait_until(|| asks.noted().unwrap() == (number + 1, number + 1, 0));
        }
    }
}

#[test]
fn a_dropped_call_is_cancelled() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a dropped call"));
    for kind in KINDS {
        let stand = Stand::new(kind);
        let handle = stand.handle(Waiting::Adaptive).unwrap();
        let asks = handle.blocking();
        // The session stands, so one poll sends.
        block_on(handle.null()).unwrap();
        let mut call = Box::pin(handle.forever());
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        wait_until(|| asks.waiting() == Ok((1, 1)));
        drop(call);
        wait_until(|| asks.waiting() == Ok((0, 1)));
    }
}

/// Open calls fail, and the next call finds the next server of the name.
#[test]
fn a_new_server_is_found() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a new server"));
    for (kind, killed) in [(Kind::Local, false), (Kind::Shared, false), (Kind::Shared, true)] {
        let mut stand = Stand::new(kind);
        let handle = stand.handle(Waiting::Adaptive).unwrap();
        let kept = handle.blocking();
        kept.null().unwrap();
        std::thread::scope(|scope| {
            let blocked = scope.spawn(|| handle.blocking().forever());
            let awaited = scope.spawn(|| block_on(handle.forever()));
            wait_until(|| kept.waiting() == Ok((2, 2)));
            if killed {
                stand.server.as_mut().unwrap().other().kill();
            }
            stand.shut_down();
            check_lost(&blocked.join().unwrap().unwrap_err());
            check_lost(&awaited.join().unwrap().unwrap_err());
        });
        // A kept handle ends with an error, and keeps the error while no node serves.
        check_lost(&kept.null().unwrap_err());
        check_lost(&kept.null().unwrap_err());
        check_lost(&handle.blocking().divide(4, 2).unwrap_err());
        check_lost(&block_on(handle.null()).unwrap_err());
        stand.serve();
        assert_eq!(handle.blocking().divide(4, 2), Ok(2));
        assert_eq!(kept.add(1, 2), Ok(3));
        assert_eq!(block_on(handle.add(1, 2)), Ok(3));
    }
}

/// A server is killed and started anew while a thread keeps what it calls by, and does not use it.
#[test]
fn a_server_that_was_killed_meanwhile_is_found_again() {
    let _alone = alone();
    let _watchdog = Watchdog::new("restarts");
    for waiting in POLICIES {
        for oneway in [false, true] {
            let mut stand = Stand::new(Kind::Shared);
            let handle = stand.handle(waiting).unwrap();
            let blocking = handle.blocking();
            assert_eq!(blocking.add(1, 2), Ok(3));
            stand.server.as_mut().unwrap().kill();
            stand.shut_down();
            let unsent = blocking.add(2, 3);
            assert!(matches!(unsent, Err(CallError::NotConnected { .. })), "{unsent:?}");
            stand.serve();
            assert_eq!(blocking.add(3, 4), Ok(7));
            stand.server.as_mut().unwrap().kill();
            stand.shut_down();
            stand.serve();
            if oneway {
                assert_eq!(blocking.note(1), Ok(()));
                assert_eq!(blocking.noted(), Ok((1, 1, 0)));
            } else {
                assert_eq!(blocking.add(4, 5), Ok(9));
            }
        }
    }
}

/// As many calls of a handle as may be open are. More wait, whether they are polled or not.
#[test]
fn calls_beyond_those_that_may_be_open_wait() {
    let _alone = alone();
    let _watchdog = Watchdog::new("calls of a handle");
    for kind in KINDS {
        let stand = Stand::new(kind);
        let handle = stand.handle(Waiting::Adaptive).unwrap();
        let once = |call: &mut (dyn Future<Output = Result<u64, CallError>> + Unpin)| {
            std::pin::Pin::new(call).poll(&mut Context::from_waker(Waker::noop()))
        };
        assert_eq!(block_on(handle.add(0, 1)), Ok(1));
        let mut open: Vec<_> = (0..CALLS_PER_SESSION_MAX).map(|_| handle.forever()).collect();
        let mut begun = 0;
        let watcher = handle.blocking();
        while begun < CALLS_PER_SESSION_MAX as u64 {
            for call in &mut open {
                let polled = std::pin::Pin::new(call).poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending());
            }
            begun = watcher.waiting().unwrap().1;
        }
        let mut kept = handle.add(1, 0);
        assert!(once(&mut kept).is_pending());
        for _ in 0..100 {
            let mut forgotten = Box::new(handle.add(1, 0));
            assert!(once(&mut *forgotten).is_pending());
            std::mem::forget(forgotten);
        }
        let late = block_on(handle.add(1, 0).deadline(Duration::from_millis(5))).unwrap_err();
        assert_eq!(late, CallError::deadline(false));
        assert!(late.to_string().contains("`add` of service `Work` at "), "{late}");
        // One-way messages pass.
        assert_eq!(block_on(handle.note(1)), Ok(()));
        let others: Vec<_> = (0..THREADS)
            .map(|thread| {
                let handle = handle.clone();
                std::thread::spawn(move || block_on(handle.add(thread, 1)))
            })
            .collect();
        open.pop();
        for n in 0..50 {
            assert_eq!(block_on(handle.add(n, 1)), Ok(n + 1));
        }
        for (thread, other) in (0..).zip(others) {
            assert_eq!(other.join().unwrap(), Ok(thread + 1));
        }
        assert_eq!(block_on(kept), Ok(1));
        drop(open);
        assert_eq!(block_on(handle.noted()), Ok((1, 1, 0)));
    }
}

#[test]
fn a_node_is_not_blocked() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a node is not blocked"));
    for kind in KINDS {
        let stand = Stand::new(kind);
        let node = node(&format!("client/{}", stand.name), &stand.place, Waiting::Adaptive);
        let handle = stand.handle(Waiting::Adaptive).unwrap();
        let (fresh, used) = (handle.blocking(), handle.blocking());
        used.null().unwrap();
        node.block_on(async {
            for work in [&fresh, &used] {
                assert_eq!(work.null(), Err(CallError::WouldBlockNode));
                let filled = work.filling(&mut [0; 8]).blob(8);
                assert_eq!(filled, Err(CallError::WouldBlockNode));
                assert_eq!(work.note(1), Err(CallError::WouldBlockNode));
            }
            let refused = node.handle::<WorkHandle>(&stand.name).err();
            let error = ConnectError::Call(CallError::WouldBlockNode);
            assert_eq!(refused, Some(error.clone()));
            match stand.handle(Waiting::Adaptive) {
                Err(HandleError::Connect(refused)) => assert_eq!(refused, error),
                _ => panic!("not refused"),
            }
            // The error says to await the call instead.
            assert_eq!(handle.add(1, 2).await, Ok(3));
        });
        assert_eq!((fresh.null(), used.null()), (Ok(()), Ok(())));
        assert_eq!(node.handle::<WorkHandle>(&stand.name).unwrap().blocking().add(1, 2), Ok(3));
    }
}

/// A socket of a node's name that takes callers and says nothing.
fn silent(name: &str, place: &Path) -> OwnedFd {
    let program = PROGRAM.parse().unwrap();
    let path = SocketDirectory::at(place).unwrap().socket_path(&program, &name.parse().unwrap());
    // The directory of the program may have gone with its last node.
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = std::fs::remove_file(&path);
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    rustix::net::listen(&socket, 8).unwrap();
    socket
}

/// The first awaited call connects elsewhere: its poll comes back at once, and the thread goes on.
#[test]
fn a_silent_peer_keeps_no_poll() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a silent peer"));
    let (mut stand, other) = (Stand::new(Kind::Shared), Stand::new(Kind::Shared));
    let (handle, other) = (stand.handle(Waiting::Adaptive), other.handle(Waiting::Adaptive));
    let (handle, other) = (handle.unwrap(), other.unwrap());
    stand.shut_down();
    let silent = silent(&stand.name, &stand.place);
    let (mut call, mut note) = (Box::pin(handle.null()), Box::pin(handle.note(1)));
    let mut dropped = Box::pin(handle.null());
    let mut noop = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut noop).is_pending());
    assert!(note.as_mut().poll(&mut noop).is_pending());
    assert!(dropped.as_mut().poll(&mut noop).is_pending());
    drop(dropped);
    assert_eq!(block_on(other.add(1, 2)), Ok(3));
    // The end of the listener ends the one attempt. Both futures get the error, and are woken for it.
    drop(silent);
    for error in [block_on(call).unwrap_err(), block_on(note).unwrap_err()] {
        assert!(matches!(error, CallError::NotConnected { .. }), "{error:?}");
    }
    // The next call tries again.
    stand.serve();
    assert_eq!(block_on(handle.add(1, 2)), Ok(3));
}

/// A message for which there is no room is given up, and what was not sent does not come.
#[test]
fn messages_to_a_silent_server_wait_no_longer_than_they_may() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("messages in time"));
    let mut stand = Stand::new(Kind::Shared);
    let handle = stand.handle(Waiting::Adaptive).unwrap();
    let work = handle.blocking();
    assert_eq!(work.note(1), Ok(()));
    let work = work.deadline(Duration::from_millis(50));
    stand.server.as_mut().unwrap().other().signal(rustix::process::Signal::STOP);
    let (mut sent, late) = (1, Instant::now());
    let error = loop {
        match work.note(sent + 1) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, CallError::deadline(false));
    assert!(error.to_string().contains("`note` of service `Work` at "), "{error}");
    assert!(sent > 10 && late.elapsed() >= Duration::from_millis(50), "{sent}");
    stand.server.as_mut().unwrap().other().signal(rustix::process::Signal::CONT);
    let work = work.deadline(Duration::from_secs(60));
    wait_until(|| work.noted() == Ok((sent, sent, 0)));
    work.note(sent + 1).unwrap();
    wait_until(|| work.noted() == Ok((sent + 1, sent + 1, 0)));
}
