//! Tests that nodes and handles of other hosts make a node hold no more than its bound, for any messages, and nothing
//! once they are gone.

use crate::common::{Directory, PROGRAM, Watchdog, alone, soon};
use crate::resume::proxy::Proxy;
use crate::{client_that, handle};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use upbeat::{CallError, Counter, InPlace, Node, sleep};

const MIB: u64 = 1 << 20;
/// How long sessions outlive their connections.
const WITHIN: Duration = Duration::from_millis(300);

#[upbeat::service]
pub(crate) trait Hoard {
    async fn add(&self, a: u64, b: u64) -> u64;
    /// Waits until all are let go, and says how many bytes it was given.
    async fn keep(&self, bytes: Vec<u8>) -> u64;
    /// Gives them back.
    async fn bytes(&self, bytes: Vec<u8>) -> Vec<u8>;
    #[oneway]
    async fn note(&self, bytes: Vec<u8>);
    /// How many bytes `note` was given.
    async fn noted(&self) -> u64;
    /// Keeps the bytes where they lie.
    async fn lend(&self, bytes: InPlace<u8>);
    /// Drops one of those that were lent.
    async fn give_back(&self);
}

/// The signals between the test and the server's thread.
#[derive(Default)]
struct Shared {
    lets_go: AtomicBool,
    noted: AtomicU64,
    held: AtomicU64,
    held_most: AtomicU64,
    declined: AtomicU64,
    resumed: AtomicU64,
    quits: AtomicBool,
}

struct Hoarder(Arc<Shared>, RefCell<Vec<InPlace<u8>>>);

impl Hoard for Hoarder {
    async fn add(&self, a: u64, b: u64) -> u64 {
        a + b
    }

    async fn keep(&self, bytes: Vec<u8>) -> u64 {
        while !self.0.lets_go.load(SeqCst) {
            sleep(Duration::from_millis(1)).await;
        }
        bytes.len() as u64
    }

    async fn bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    async fn note(&self, bytes: Vec<u8>) {
        self.0.noted.fetch_add(bytes.len() as u64, SeqCst);
    }

    async fn noted(&self) -> u64 {
        self.0.noted.load(SeqCst)
    }

    async fn lend(&self, bytes: InPlace<u8>) {
        assert!(bytes.is_lent());
        self.1.borrow_mut().push(bytes);
    }

    async fn give_back(&self) {
        drop(self.1.borrow_mut().pop());
    }
}

/// Has a node serve on another thread that may hold so many bytes, while a test runs, which gets its address.
fn beside(name: &'static str, most: u64, test: impl FnOnce(&str, &Shared)) {
    let (tell, told) = channel();
    let shared = Arc::<Shared>::default();
    let server = thread::spawn({
        let shared = Arc::clone(&shared);
        move || {
            let directory = Directory::new();
            let builder = Node::builder(name).program(PROGRAM).directory(directory.path());
            let builder = builder.listen("127.0.0.1:0").insecure_plaintext().resume_within(WITHIN);
            // One request runs at a time, if it is long; the others wait, in their senders' buffers.
            let node = builder.budget(1).remote_bytes(most).build().unwrap();
            node.serve(HoardServer::new(Hoarder(Arc::clone(&shared), RefCell::default()))).unwrap();
            tell.send(node.listens_at().unwrap().to_string()).unwrap();
            while !shared.quits.load(SeqCst) {
                node.block_on(sleep(Duration::from_micros(200)));
                shared.held.store(node.remote_bytes(), SeqCst);
                shared.held_most.fetch_max(node.remote_bytes(), SeqCst);
                shared.declined.store(node.counted(Counter::RemoteBytesDeclined), SeqCst);
                shared.resumed.store(node.counted(Counter::SessionsResumed), SeqCst);
            }
        }
    });
    test(&told.recv().unwrap(), &shared);
    shared.quits.store(true, SeqCst);
    server.join().unwrap();
    let held_most = shared.held_most.load(SeqCst);
    assert!(held_most <= most, "{held_most} bytes are held where {most} may be");
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn connect(directory: &Directory, to: &str) -> HoardHandle {
    handle(directory).resume_within(WITHIN).connect(to).unwrap()
}

/// How the peers of a round end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    /// Their calls are answered.
    Answered,
    /// The callers give their calls up.
    GivenUp,
    /// Their connections break, and do not come back.
    Cut,
}

/// A crowd of peers whose long calls are not taken holds no more than the node may, and holds up nobody else. Each of
/// them is told what became of its call. Once they are gone, however that came, all is free again.
#[test]
fn a_crowd_of_peers_holds_what_the_node_may_and_no_more() {
    const PEERS: usize = 24;
    const MOST: u64 = 4 * MIB;
    let _alone = alone();
    let _watchdog = Watchdog::new("a crowd that is not read");
    let directory = Directory::new();
    beside("held", MOST, |at, shared| {
        // At its own address the node would be reached in memory.
        let between = Proxy::to(at);
        let honest = connect(&directory, &format!("held@{}", between.at));
        for ends in [Ends::Answered, Ends::GivenUp, Ends::Cut] {
            shared.lets_go.store(false, SeqCst);
            let declined = shared.declined.load(SeqCst);
            let proxy = Proxy::to(at);
            let to = format!("held@{}", proxy.at);
            let peers: Vec<_> = (0..PEERS)
                .map(|number| {
                    let peer = connect(&directory, &to);
                    // In the ring, in buffers of a usual size, and in such of their own.
                    let bytes = [30_000, 300_000, 65_000, 700_000][number % 4];
                    thread::spawn(move || {
                        let call = peer.blocking();
                        let call = match ends {
                            Ends::GivenUp => call.deadline(Duration::from_secs(2)),
                            _ => call,
                        };
                        call.keep(vec![7; bytes]).map(|len| assert_eq!(len, bytes as u64))
                    })
                })
                .collect();
            until("nobody is declined", || {
                shared.held.load(SeqCst) > MOST / 2 && shared.declined.load(SeqCst) > declined
            });
            for number in 0..300 {
                assert_eq!(honest.blocking().add(number, 1), Ok(number + 1));
            }
            match ends {
                Ends::Answered => shared.lets_go.store(true, SeqCst),
                Ends::GivenUp => {}
                Ends::Cut => drop(proxy),
            }
            let mut ways = [0; 3];
            for peer in peers {
                let way = match peer.join().unwrap() {
                    Ok(()) => 0,
                    Err(CallError::NoMemory { text, .. }) => {
                        assert!(text.contains("remote_bytes"), "{text}");
                        1
                    }
                    Err(CallError::Deadline(_)) if ends == Ends::GivenUp => 2,
                    Err(CallError::Unknown(_) | CallError::NotSent(_)) if ends == Ends::Cut => 2,
                    Err(error) => panic!("{ends:?}: {error}"),
                };
                ways[way] += 1;
            }
            let [answered, declined, ended] = ways;
            assert!(declined > 0, "{ends:?}: {ways:?}");
            assert!(answered > 0 || ends != Ends::Answered && ended > 0, "{ends:?}: {ways:?}");
            until("bytes are left of peers that are gone", || shared.held.load(SeqCst) == 0);
        }
    });
}

/// A sender waits for the buffer of its message, which the receiver keeps, in a session in which nothing comes any
/// more, and which the receiver, that has others, does not look at each turn. It goes on when the buffer is given back.
#[test]
fn a_sender_in_a_quiet_session_learns_that_its_buffer_is_free() {
    const BYTES: usize = 700_000;
    let _alone = alone();
    let _watchdog = Watchdog::new("a quiet session");
    let directory = Directory::new();
    // One of the messages finds room: no session may hold more than stays free.
    beside("quiet", 2 * MIB, |at, shared| {
        // At its own address the node would be reached in memory.
        let proxy = Proxy::to(at);
        let to = format!("quiet@{}", proxy.at);
        let lender = connect(&directory, &to);
        let lends = move || lender.blocking().lend(vec![7; BYTES].into());
        let lent = thread::spawn(move || (0..2).map(|_| lends()).collect::<Vec<_>>());
        until("nobody is declined", || shared.declined.load(SeqCst) > 0);
        let crowd: Vec<_> = (0..8).map(|_| connect(&directory, &to)).collect();
        for number in 0..100 {
            for other in &crowd {
                assert_eq!(other.blocking().add(number, 1), Ok(number + 1));
            }
        }
        assert!(!lent.is_finished());
        crowd[0].blocking().give_back().unwrap();
        assert_eq!(lent.join().unwrap(), [Ok(()), Ok(())]);
    });
}

/// Where there is no room at all, what fits the first ring goes on; what does not is refused to its sender, also a
/// one-way message, and the session stands.
#[test]
fn a_node_without_room_refuses_what_is_long_to_its_sender() {
    let _alone = alone();
    let _watchdog = Watchdog::new("no room");
    let directory = Directory::new();
    beside("roomless", 0, |at, _| {
        let node = client_that(&directory, |builder| builder);
        // At its own address it would be reached in memory.
        let proxy = Proxy::to(at);
        node.block_on(async {
            let hoard: HoardClient = node.connect(&format!("roomless@{}", proxy.at)).await.unwrap();
            let mut noted = 0;
            for _ in 0..3 {
                for bytes in [10, 1_000, 3_000] {
                    let sent = vec![3; bytes];
                    assert_eq!(soon(hoard.bytes(sent.clone())).await, Ok(sent));
                    soon(hoard.note(vec![4; bytes])).await.unwrap();
                    noted += bytes as u64;
                }
                for bytes in [60_000, 70_000, 3 << 20] {
                    let call = soon(hoard.bytes(vec![5; bytes])).await.unwrap_err();
                    let note = soon(hoard.note(vec![5; bytes])).await.unwrap_err();
                    for error in [call.to_string(), note.to_string()] {
                        assert!(error.contains("remote_bytes"), "{error}");
                    }
                }
                assert_eq!(soon(hoard.noted()).await, Ok(noted), "each that was sent has come");
            }
        });
    });
}

/// Calls of a usual long size go through a few buffers again and again: no side has a ring for them that is many times
/// as long.
#[test]
fn calls_of_64_kib_make_neither_side_hold_a_long_ring() {
    const MOST: u64 = 512 << 10;
    let _alone = alone();
    let _watchdog = Watchdog::new("few buffers");
    let directory = Directory::new();
    beside("few", 64 * MIB, |at, shared| {
        let node = client_that(&directory, |builder| builder);
        // At its own address it would be reached in memory.
        let proxy = Proxy::to(at);
        let bytes = (64 << 10) - 100;
        node.block_on(async {
            let hoard: HoardClient = node.connect(&format!("few@{}", proxy.at)).await.unwrap();
            for round in 0..50 {
                let sent = vec![round; bytes];
                assert_eq!(soon(hoard.bytes(sent.clone())).await, Ok(sent));
            }
        });
        // All calls were answered before: what is stored from now on was read after them.
        shared.held.store(0, SeqCst);
        until("the server holds nothing", || shared.held.load(SeqCst) != 0);
        for (side, held) in [("client", node.remote_bytes()), ("server", shared.held.load(SeqCst))]
        {
            assert!(held >= bytes as u64, "the {side} holds {held} bytes: the calls took none?");
            assert!(held < MOST, "the {side} holds {held} bytes where {MOST} are enough");
        }
    });
}

/// A peer that has the node hold all that it may leaves room for the next one.
#[test]
fn a_greedy_peer_leaves_room_for_another() {
    /// A buffer of the greedy peer: the first is alone, and further ones are asked for sixteen at a time, 8 MiB.
    const EACH: usize = 300_000;
    /// With 9 MiB of these the greedy peer holds what it may; 17 would be what fits.
    const MOST: u64 = 20 * MIB;
    const LONG: usize = 5_000_000;
    let _alone = alone();
    let _watchdog = Watchdog::new("a greedy peer");
    let directory = Directory::new();
    beside("shared", MOST, |at, shared| {
        let (proxy, other) = (Proxy::to(at), Proxy::to(at));
        let greedy = client_that(&directory, |builder| builder);
        let modest = connect(&directory, &format!("shared@{}", other.at));
        greedy.block_on(async {
            let hoard: HoardClient = greedy.connect(&format!("shared@{}", proxy.at)).await.unwrap();
            // Nothing is read before all are let go, so each waits in a buffer of its own, or for one.
            let keep = |hoard: HoardClient| async move { hoard.keep(vec![7; EACH]).await };
            let calls: Vec<_> = (0..40).map(|_| greedy.spawn(keep(hoard.clone()))).collect();
            soon(async {
                while shared.declined.load(SeqCst) == 0 {
                    sleep(Duration::from_millis(1)).await;
                }
            })
            .await;
            let held = shared.held.load(SeqCst);
            let call = thread::spawn(move || modest.blocking().keep(vec![7; LONG]));
            soon(async {
                while !call.is_finished() && shared.held.load(SeqCst) < held + LONG as u64 {
                    sleep(Duration::from_millis(1)).await;
                }
            })
            .await;
            shared.lets_go.store(true, SeqCst);
            for call in calls {
                assert_eq!(soon(call).await.unwrap(), Ok(EACH as u64));
            }
            assert_eq!(call.join().unwrap(), Ok(LONG as u64));
        });
    });
}

/// A session whose connection breaks again and again is charged once for what it has.
#[test]
fn a_session_that_is_resumed_is_charged_once() {
    let _alone = alone();
    let _watchdog = Watchdog::new("charged once");
    let directory = Directory::new();
    // Twice both rings, and a slab of each kind that the calls use, for a session gets half: not four times as much.
    beside("once", 8 * MIB, |at, shared| {
        let proxy = Proxy::to(at);
        let node =
            client_that(&directory, |builder| builder.resume_within(Duration::from_secs(20)));
        node.block_on(async {
            let hoard: HoardClient = node.connect(&format!("once@{}", proxy.at)).await.unwrap();
            proxy.break_often(30, 11);
            let mut rounds = 0;
            while rounds < 10 || !proxy.has_broken() {
                for bytes in [100, 60_000, 300_000, 900_000] {
                    let sent = vec![rounds as u8; bytes];
                    assert_eq!(hoard.bytes(sent.clone()).await, Ok(sent));
                }
                rounds += 1;
            }
        });
        assert!(shared.resumed.load(SeqCst) > 0);
        drop(node);
        until("bytes are left of a session that has ended", || shared.held.load(SeqCst) == 0);
    });
}
