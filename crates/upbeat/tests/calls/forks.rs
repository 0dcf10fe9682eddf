//! Forked children: what they do with a node or a handle of their parent's is refused or does nothing, and
//! the parent goes on.

use crate::common::process::{Other, linger, say};
use crate::common::server::{Kind, Server, Stand};
use crate::common::work::{WorkClient, WorkHandle};
use crate::common::{Directory, PROGRAM, Signal, Watchdog, block_on, node};
use serde::{Deserialize, Serialize, Serializer};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Waker};
use std::time::Duration;
use upbeat::handle::HandleClient;
use upbeat::{CallError, Counter, Node, Waiting, Why};
use upbeat_memory::fork::in_child;

/// The message of a panic.
fn refused(act: impl FnOnce()) -> bool {
    let panic = catch_unwind(AssertUnwindSafe(act)).err();
    let text = panic.and_then(|panic| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.is_some_and(|text| text.contains("forked child"))
}

/// Plays the part `fork SERVER`, `fork-handles SERVER`, `fork-locked SERVER`, `fork-computing SERVER` or
/// `fork-opening NODE`. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let words: Vec<&str> = part.split(' ').collect();
    match words[..] {
        ["fork", server] => fork_nodes(server, place),
        ["fork-handles", server] => fork_handles(server, place),
        ["fork-locked", server] => fork_locked(server, place),
        ["fork-computing", server] => fork_computing(server, place),
        ["fork-opening", name] => fork_opening(name, place),
        _ => return false,
    }
    say("done");
    linger();
    true
}

/// In one thread.
fn fork_nodes(server: &str, place: &Path) {
    let own = Node::builder(&format!("{server}/parent")).program(PROGRAM).directory(place);
    // The node asks for room before it sends a long value.
    let own = own.conservative(true).build().unwrap();
    let work: WorkClient = own.block_on(own.connect(server)).unwrap();
    let asked = work.clone();
    let mut open = Some(Box::pin(asked.nap(1, 5)));
    let long = "long".repeat(2000);
    let asked_before = own.counted(Counter::RoomAsked);
    let mut asking = Some(Box::pin(asked.text(long.clone())));
    own.block_on(async {
        // One is sent and not answered, the other has asked for room.
        let _ = upbeat::within(Duration::ZERO, open.as_mut().unwrap().as_mut()).await;
        let _ = upbeat::within(Duration::ZERO, asking.as_mut().unwrap().as_mut()).await;
    });
    assert_eq!(own.counted(Counter::RoomAsked), asked_before + 1);
    let (mut held, mut client) = (Some(own), Some(work));
    for drops in [false, true] {
        let code = in_child(|| {
            let (node, work) = (held.take().unwrap(), client.take().unwrap());
            if drops {
                drop((open.take(), asking.take(), work, node));
            } else {
                assert!(refused(|| node.block_on(async {})));
                assert!(refused(|| assert!(!node.turn())));
                assert!(refused(|| assert_eq!(node.block_on(work.add(1, 1)), Ok(2))));
                assert!(refused(|| node.shut_down(Duration::ZERO)));
                assert!(node.may_wait());
                // So is another executor.
                assert!(refused(|| drop(block_on(work.add(1, 1)))));
                let open = open.as_mut().unwrap();
                assert!(refused(|| drop(block_on(open.as_mut()))));
            }
            // The child may have nodes of its own.
            let name = format!("{server}/child-{drops}");
            let node: Node = crate::common::node(&name, place, Waiting::Adaptive);
            let work: WorkClient = node.block_on(node.connect(server)).unwrap();
            assert_eq!(node.block_on(work.add(2, 3)), Ok(5));
            7
        });
        assert_eq!(code, Some(7), "drops: {drops}");
    }
    // The parent has lost nothing.
    let (own, work) = (held.unwrap(), client.unwrap());
    assert_eq!(own.block_on(open.unwrap()), Ok(5));
    assert_eq!(own.block_on(asking.unwrap()), Ok(long));
    assert_eq!(own.block_on(work.add(3, 4)), Ok(7));
    drop(own);
}

fn connect<C: HandleClient>(server: &str, place: &Path) -> C {
    upbeat::handle::builder().program(PROGRAM).directory(place).connect(server).unwrap()
}

/// Polls a future once, for nobody.
fn poll_once<F: Future>(future: Pin<&mut F>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Whether a call of a handle failed because it was made in a child, and before it was sent or not.
fn is_forked<T>(result: Result<T, CallError>, may_have_run: bool) -> bool {
    let Err(error) = result else { return false };
    let text = error.to_string();
    assert!(text.contains("forked child") && text.contains("connect a handle"), "{text}");
    assert_eq!(error.may_have_run(), may_have_run);
    match error {
        CallError::NotSent(lost) | CallError::Unknown(lost) => lost.why == Why::Forked,
        _ => false,
    }
}

fn fork_handles(server: &str, place: &Path) {
    let work: WorkHandle = connect(server, place);
    // Two sessions of blocking callers, one of them idle, and the session of the awaited calls.
    let (one, two) = (work.clone(), work.clone());
    let blocking = one.blocking();
    assert_eq!((blocking.add(1, 1), two.blocking().add(1, 2)), (Ok(2), Ok(3)));
    assert_eq!(block_on(two.add(2, 2)), Ok(4));
    let mut open = Some(Box::pin(two.nap(300, 5)));
    let mut timed = Some(Box::pin(two.nap(300, 6).deadline(Duration::from_secs(60))));
    assert!(!poll_once(open.as_mut().unwrap().as_mut()));
    assert!(!poll_once(timed.as_mut().unwrap().as_mut()));
    let mut lent = Some(block_on(two.numbers(50_000)).unwrap());
    assert!(lent.as_ref().unwrap().is_lent());
    let (mut blocking, mut work) = (Some(blocking), Some(work));
    for drops in [false, true] {
        let code = in_child(|| {
            if drops {
                drop((open.take(), timed.take(), blocking.take(), lent.take(), work.take()));
            } else {
                let (blocking, work) = (blocking.as_ref().unwrap(), work.as_ref().unwrap());
                assert!(is_forked(blocking.add(1, 1), false));
                assert!(is_forked(blocking.note(1), false));
                assert!(is_forked(work.blocking().add(1, 1), false));
                assert!(is_forked(block_on(work.add(1, 1)), false));
                assert!(is_forked(block_on(work.note(1)), false));
                assert!(is_forked(block_on(open.take().unwrap()), true));
                assert!(is_forked(block_on(timed.take().unwrap()), true));
                assert!(refused(|| assert_eq!(lent.take().unwrap().get(1), Some(1))));
            }
            // The child may have handles of its own.
            let own: WorkHandle = connect(server, place);
            assert_eq!((own.blocking().add(2, 3), block_on(own.add(3, 3))), (Ok(5), Ok(6)));
            7
        });
        assert_eq!(code, Some(7), "drops: {drops}");
    }
    // The parent has lost nothing.
    assert_eq!(lent.unwrap().to_vec(), (0..50_000).collect::<Vec<u32>>());
    assert_eq!((block_on(open.unwrap()), block_on(timed.unwrap())), (Ok(5), Ok(6)));
    let work = work.unwrap();
    assert_eq!((blocking.unwrap().add(3, 4), block_on(work.add(4, 4))), (Ok(7), Ok(8)));
    assert_eq!(work.blocking().add(4, 5), Ok(9));
}

/// A value that blocks the thread that serializes it, under the lock of the handle's session, until a signal.
#[derive(Clone, Deserialize, upbeat::Wire)]
struct Slow(u64);

/// Given by the thread that writes, and to it.
static WRITES: LazyLock<(Signal, Signal)> = LazyLock::new(Default::default);

impl Serialize for Slow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WRITES.0.give();
        block_on(WRITES.1.clone());
        self.0.serialize(serializer)
    }
}

#[upbeat::service]
trait Post {
    async fn pass(&self, slow: Slow) -> u64;
    async fn add(&self, a: u64, b: u64) -> u64;
    async fn nap(&self, ms: u64, value: u64) -> u64;
}

struct Office;

impl Post for Office {
    async fn pass(&self, slow: Slow) -> u64 {
        slow.0
    }

    async fn add(&self, a: u64, b: u64) -> u64 {
        a + b
    }

    async fn nap(&self, ms: u64, value: u64) -> u64 {
        upbeat::sleep(Duration::from_millis(ms)).await;
        value
    }
}

/// Another thread holds the lock of the session at the fork.
fn fork_locked(server: &str, place: &Path) {
    let post: PostHandle = connect(server, place);
    assert_eq!(block_on(post.add(1, 1)), Ok(2));
    let user = post.clone();
    let mut open = Some(Box::pin(user.nap(100, 5)));
    assert!(!poll_once(open.as_mut().unwrap().as_mut()));
    std::thread::scope(|scope| {
        let other = post.clone();
        let writes = scope.spawn(move || block_on(other.pass(Slow(3))));
        block_on(WRITES.0.clone());
        let code = in_child(|| {
            assert!(is_forked(block_on(post.add(1, 1)), false));
            assert!(is_forked(block_on(user.nap(1, 1)), false));
            drop(open.take());
            7
        });
        // Before anything can panic: the thread is waited for.
        WRITES.1.give();
        assert_eq!(code, Some(7));
        assert_eq!(writes.join().unwrap(), Ok(3));
    });
    assert_eq!(block_on(open.unwrap()), Ok(5));
}

/// A child computes, whatever threads its parent has for that: idle ones here.
fn fork_computing(server: &str, place: &Path) {
    let node = |who| node(&format!("{server}/{who}"), place, Waiting::Adaptive);
    let parent = node("parent");
    assert_eq!(parent.block_on(parent.compute(|| 1)), 1);
    let computes = || {
        let child = node("child");
        child.block_on(child.compute(|| 2))
    };
    assert_eq!(in_child(|| in_child(computes).map_or(9, |code| code as u8)), Some(2));
    assert_eq!(in_child(computes), Some(2));
    assert_eq!(parent.block_on(parent.compute(|| 3)), 3);
}

/// The node refuses a connection whose bytes are no greeting, while a forked child holds a copy of its socket.
fn fork_opening(name: &str, place: &Path) {
    let node = Node::builder(name).program(PROGRAM).directory(place).waiting(Waiting::Sleeping);
    let node = node.listen("127.0.0.1:0").insecure_plaintext().build().unwrap();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (mut ours, mut childs) = UnixStream::pair().unwrap();
    let mut stranger = TcpStream::connect(node.listens_at().unwrap()).unwrap();
    let before = descriptors();
    while descriptors() == before {
        node.turn();
    }
    std::thread::scope(|scope| {
        let child = scope.spawn(move || {
            in_child(|| {
                childs.write_all(&[0]).unwrap();
                childs.read_exact(&mut [0]).unwrap();
                7
            })
        });
        ours.read_exact(&mut [0]).unwrap();
        stranger.write_all(b"GET / HTTP/1.1").unwrap();
        while descriptors() > before {
            node.turn();
        }
        stranger.shutdown(Shutdown::Both).unwrap();
        let before = node.counted(Counter::Sleeps);
        node.block_on(upbeat::sleep(Duration::from_millis(100)));
        let sleeps = node.counted(Counter::Sleeps) - before;
        // Before anything can panic: the child is waited for.
        ours.write_all(&[0]).unwrap();
        assert_eq!(child.join().unwrap(), Some(7));
        assert!(sleeps < 10, "the node slept {sleeps} times");
    });
}

/// Has another process play a part, with this server.
fn plays(part: &str, server: &str, place: &Path) {
    let mut other = Other::start(&format!("{part} {server}"), place);
    other.expect("done");
    other.end();
}

#[test]
fn a_child_that_uses_or_drops_its_parents_node() {
    let _watchdog = Watchdog::new("forks");
    let stand = Stand::new(Kind::Shared, Waiting::Adaptive);
    plays("fork", &stand.name(), &stand.place);
}

#[test]
fn a_child_that_uses_or_drops_its_parents_handles() {
    let _watchdog = Watchdog::new("forks with handles");
    let stand = Stand::new(Kind::Shared, Waiting::Adaptive);
    plays("fork-handles", &stand.name(), &stand.place);
}

#[test]
fn a_child_that_computes_after_its_parent() {
    let _watchdog = Watchdog::new("forks that compute");
    let directory = Directory::new();
    plays("fork-computing", "computing/forks", &directory.path());
}

#[test]
fn a_child_that_was_forked_during_a_handshake() {
    let _watchdog = Watchdog::new("forks during a handshake");
    plays("fork-opening", "opening/forks", &Directory::new().path());
}

#[test]
fn a_child_that_was_forked_while_another_thread_wrote() {
    let _watchdog = Watchdog::new("forks under a lock");
    let (directory, name) = (Directory::new(), "post/forks");
    let place = directory.path();
    let at = place.clone();
    let local = move |quit, ready: &dyn Fn()| {
        let node = node(name, &at, Waiting::Adaptive);
        node.serve(PostServer::new(Office)).unwrap();
        ready();
        node.block_on(quit);
    };
    let server = Server::of(Kind::Local, || unreachable!("a thread"), local);
    plays("fork-locked", name, &place);
    drop(server);
}
