//! Messages that are longer than their receiver takes, or than it has memory for: their calls fail with an
//! error, and nothing else does.

mod store;

use crate::common::process::{Other, end_with_input, input_ends, say};
use crate::common::server::{KINDS, Kind, Server};
use crate::common::{Directory, PROGRAM, Signal, Watchdog};
use std::path::Path;
use std::process::Command;
use std::task::Poll;
use store::{FEW, Record, Shop, StoreClient, StoreHandle, StoreServer, limit};
use upbeat::error::{Called, FailCode};
use upbeat::{CallError, Node, Waiting};
use upbeat_core::limits::TAKEN_BYTES_MAX;

const MIB: usize = 1 << 20;
/// A message that every node takes, and for which there is no memory here.
const LONG: usize = 20 * MIB;

/// The settings of a node: the longest message that it takes, and its session's budget.
#[derive(Clone, Copy)]
struct Make {
    longest: usize,
    share: u64,
}

const USUAL: Make = Make { longest: TAKEN_BYTES_MAX, share: 64 << 20 };

impl Make {
    fn node(self, name: &str, place: &Path) -> Node {
        let builder = Node::builder(name).program(PROGRAM).directory(place);
        let builder = builder.waiting(Waiting::Adaptive).session_budget(self.share);
        // No setting changes the usual limit.
        match self.longest {
            TAKEN_BYTES_MAX => builder.build().unwrap(),
            longest => builder.max_message_bytes(longest).build().unwrap(),
        }
    }

    fn serve(self, name: &str, place: &Path, quit: Signal, ready: impl FnOnce()) {
        let node = self.node(name, place);
        node.serve(StoreServer::new(Shop::default())).unwrap();
        ready();
        node.block_on(quit);
    }
}

/// Plays a part of the tests here. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    match part.split(' ').collect::<Vec<_>>()[..] {
        ["store", name, longest, share] => {
            let make = Make { longest: longest.parse().unwrap(), share: share.parse().unwrap() };
            make.serve(name, place, input_ends(), || say("serving"));
        }
        ["store-call", name] => call(name, place),
        _ => return false,
    }
    true
}

/// Starts a process that reserves no addresses for heaps of other threads: what is asked for later has to
/// come from within the limit.
fn with_one_heap() -> Command {
    let mut command = Command::new("env");
    // The trace of a panic asks for memory that there is not.
    command.args(["MALLOC_ARENA_MAX=1", "RUST_BACKTRACE=0"]);
    command
}

/// A client's node beside a server.
struct Stand {
    node: Node,
    name: String,
    _server: Server,
    directory: Directory,
}

impl Stand {
    fn new(kind: Kind, server: Make, client: Make) -> Stand {
        Stand::under(kind, server, client, None)
    }

    /// The server is started by a command, if it is another process.
    fn under(kind: Kind, server: Make, client: Make, command: Option<Command>) -> Stand {
        let directory = Directory::new();
        let place = directory.path();
        // The registry of this process is one for all tests: names differ.
        let id = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let name = format!("store/{id}");
        let (own, at) = (name.clone(), place.clone());
        let part = format!("store {name} {} {}", server.longest, server.share);
        let other = || match command {
            Some(command) => Other::start_under(command, &part, &place),
            None => Other::start_under(with_one_heap(), &part, &place),
        };
        let local = move |quit, ready: &dyn Fn()| server.serve(&own, &at, quit, ready);
        let server = Server::of(kind, other, local);
        let node = client.node(&format!("client/{id}"), &place);
        Stand { node, name, _server: server, directory }
    }

    async fn client(&self) -> StoreClient {
        self.node.connect(&self.name).await.unwrap()
    }
}

/// The callee refused the arguments: so many bytes, where so many are taken.
fn is_too_large(error: &CallError, bytes: usize, most: usize) {
    let CallError::Failed { code: FailCode::ArgumentsTooLarge, text, .. } = error else {
        panic!("{error:?}");
    };
    assert!(text.contains(&bytes.to_string()) && text.contains(&most.to_string()), "{text}");
    assert!(!error.may_have_run());
}

fn is_no_memory(error: &CallError) {
    assert!(matches!(error, CallError::Failed { code: FailCode::NoMemory, .. }), "{error:?}");
    assert!(!error.may_have_run());
}

#[test]
fn arguments_longer_than_a_node_takes_are_refused() {
    let _watchdog = Watchdog::new("arguments");
    for kind in KINDS {
        for longest in [TAKEN_BYTES_MAX, 3 * MIB] {
            let stand = Stand::new(kind, Make { longest, ..USUAL }, USUAL);
            stand.node.block_on(async {
                let store = stand.client().await;
                // Their count stands before them.
                let fits = longest - 8;
                assert_eq!(store.bytes(vec![1; 2 * MIB]).await, Ok(2 * MIB as u64));
                let before = store.most_resident().await.unwrap();
                for _ in 0..3 {
                    let error = store.bytes(vec![1; fits + 1]).await.unwrap_err();
                    is_too_large(&error, longest + 1, longest);
                    let error = store.in_place(vec![1; fits + 1].into()).await.unwrap_err();
                    is_too_large(&error, longest + 1, longest);
                    let texts = vec!["t".repeat(longest / 4); 4];
                    let error = store.texts(texts).await.unwrap_err();
                    is_too_large(&error, longest + 5 * 8, longest);
                    store.note(vec![1; fits + 1]).await.unwrap();
                }
                let after = store.most_resident().await.unwrap();
                if kind == Kind::Shared {
                    assert!(after - before < 1024, "{before} to {after} KiB");
                }
                assert_eq!(store.noted().await, Ok(0));
                assert_eq!(store.bytes(vec![1; fits]).await, Ok(fits as u64));
                store.note(vec![1; fits]).await.unwrap();
                assert_eq!(store.noted().await, Ok(fits as u64));
            });
        }
    }
}

#[test]
fn arguments_longer_than_a_method_takes_are_refused() {
    let _watchdog = Watchdog::new("a method's arguments");
    for kind in KINDS {
        let stand = Stand::new(kind, USUAL, USUAL);
        let blocking = {
            let builder = upbeat::handle::builder().program(PROGRAM);
            let place = stand.directory.path();
            builder.directory(place).connect::<StoreHandle>(&stand.name).unwrap()
        };
        let (few, many) = (vec![1; FEW], vec![1; FEW + 1]);
        stand.node.block_on(async {
            let store = stand.client().await;
            let deadline = std::time::Duration::from_secs(30);
            // Plain calls, and those of which the head says more.
            assert_eq!(store.few(few.clone()).await, Ok(FEW as u64));
            assert_eq!(store.few(few.clone()).deadline(deadline).await, Ok(FEW as u64));
            assert_eq!(store.few_in_place(few.clone().into()).await, Ok(FEW as u64));
            let refused = [
                store.few(many.clone()).await,
                store.few(many.clone()).deadline(deadline).await,
                store.few_in_place(many.clone().into()).await,
                store.few(vec![1; MIB]).await,
            ];
            for (refused, count) in refused.iter().zip([FEW + 1, FEW + 1, FEW + 1, MIB]) {
                is_too_large(refused.as_ref().unwrap_err(), 8 + count, 8 + FEW);
            }
            store.note_few(many.clone()).await.unwrap();
            store.note_few(few.clone()).await.unwrap();
            assert_eq!(store.noted().await, Ok(FEW as u64));
        });
        let (few, many) = (blocking.blocking().few(few), blocking.blocking().few(many));
        assert_eq!(few, Ok(FEW as u64));
        is_too_large(&many.unwrap_err(), 8 + FEW + 1, 8 + FEW);
    }
}

#[test]
fn results_longer_than_their_caller_takes_are_refused() {
    let _watchdog = Watchdog::new("results");
    for kind in KINDS {
        for longest in [TAKEN_BYTES_MAX, 3 * MIB] {
            let stand = Stand::new(kind, USUAL, Make { longest, ..USUAL });
            let fits = (longest - 8) as u64;
            let error = CallError::ResultTooLarge {
                bytes: longest + 1,
                most: longest,
                called: Called::default(),
            };
            stand.node.block_on(async {
                let store = stand.client().await;
                assert_eq!(store.blob(fits).await.map(|blob| blob.len() as u64), Ok(fits));
                let blob = store.blob(fits + 1).await.map(|blob| blob.len());
                assert_eq!(blob, Err(error.clone()));
                let blob = store.blob_in_place(fits + 1).await.map(|blob| blob.len());
                assert_eq!(blob, Err(error.clone()));
                // A reply that has come before its future is polled for it.
                let mut one = std::pin::pin!(store.blob(fits + 1));
                std::future::poll_fn(|context| {
                    assert!(one.as_mut().poll(context).is_pending());
                    Poll::Ready(())
                })
                .await;
                let other = store.clone();
                let joined = stand.node.spawn(async move { other.blob(fits + 1).await });
                assert_eq!(store.bytes(vec![]).await, Ok(0));
                assert_eq!(one.await.map(|blob| blob.len()), Err(error.clone()));
                assert_eq!(joined.await.unwrap().map(|blob| blob.len()), Err(error.clone()));
                assert_eq!(store.bytes(vec![1]).await, Ok(1));
            });
            assert!(error.may_have_run());
            assert!(error.to_string().contains("max_message_bytes"), "{error}");
            let builder = upbeat::handle::builder().program(PROGRAM);
            let builder = builder.directory(stand.directory.path()).max_message_bytes(longest);
            let handle: StoreHandle = builder.connect(&stand.name).unwrap();
            let own: StoreHandle = stand.node.handle(&stand.name).unwrap();
            for handle in [handle, own] {
                let blob = handle.blocking().blob(fits);
                assert_eq!(blob.map(|blob| blob.len() as u64), Ok(fits));
                let blob = handle.blocking().blob(fits + 1).map(|blob| blob.len());
                assert_eq!(blob, Err(error.clone()));
                let blob = crate::common::block_on(handle.blob(fits + 1)).map(|blob| blob.len());
                assert_eq!(blob, Err(error.clone()));
                assert_eq!(handle.blocking().bytes(vec![1]), Ok(1));
            }
        }
    }
}

/// Requests that wait for the budget are refused when it is their turn.
#[test]
fn requests_that_had_to_wait_are_refused_as_well() {
    let _watchdog = Watchdog::new("requests that wait");
    let server = Make { longest: 3 * MIB, share: 1 };
    let stand = Stand::new(Kind::Shared, server, USUAL);
    let place = stand.directory.path();
    stand.node.block_on(async {
        let (store, waits) = (stand.client().await, stand.client().await);
        let waiting = stand.node.spawn(async move { waits.wait().await });
        let began = |store: &StoreClient, bytes: Vec<u8>| {
            let store = store.clone();
            stand.node.spawn(async move { store.bytes(bytes).await })
        };
        let calls = [
            began(&store, vec![1; 3 * MIB]),
            began(&store, vec![1; 2 * MIB]),
            began(&store, vec![1; 2 * MIB]),
        ];
        crate::common::until(|| stand.node.counted(upbeat::Counter::Refused) >= 3).await;
        // This is another session, and holds nothing.
        let name = stand.name.clone();
        let opener = std::thread::spawn(move || {
            let other = USUAL.node(&format!("opener/{name}"), &place);
            other.block_on(async {
                let store: StoreClient = other.connect(&name).await.unwrap();
                store.limit(Some(MIB as u64)).await.unwrap();
                store.open().await.unwrap();
            });
        });
        opener.join().unwrap();
        assert_eq!(waiting.await.unwrap(), Ok(()));
        let [too_large, no_memory, no_memory_either] = calls;
        is_too_large(&too_large.await.unwrap().unwrap_err(), 3 * MIB + 8, 3 * MIB);
        is_no_memory(&no_memory.await.unwrap().unwrap_err());
        is_no_memory(&no_memory_either.await.unwrap().unwrap_err());
        store.limit(None).await.unwrap();
        assert_eq!(store.bytes(vec![1; 2 * MIB]).await, Ok(2 * MIB as u64));
    });
}

/// Calls the store with long arguments of every form.
async fn every_form(store: &StoreClient) -> [Result<u64, CallError>; 6] {
    [
        store.bytes(vec![1; LONG]).await,
        store.words(vec![1; LONG / 8]).await,
        store.text("t".repeat(LONG)).await,
        store.texts(vec!["t".repeat(LONG / 1000); 1000]).await,
        store.record(Record { text: "t".repeat(LONG / 2), bytes: vec![1; LONG / 2] }).await,
        store.record(Record { text: "t".repeat(LONG), bytes: vec![] }).await,
    ]
}

#[test]
fn arguments_without_memory_fail_their_calls_alone() {
    let _watchdog = Watchdog::new("no memory for arguments");
    let stand = Stand::new(Kind::Shared, USUAL, USUAL);
    stand.node.block_on(async {
        let store = stand.client().await;
        // The message can be mapped and not be copied; it cannot even be mapped.
        for left in [LONG + LONG / 2, LONG / 2] {
            store.limit(Some(left as u64)).await.unwrap();
            for (form, result) in every_form(&store).await.iter().enumerate() {
                match result {
                    Err(error) => is_no_memory(error),
                    Ok(bytes) => panic!("{bytes} bytes in form {form} with {left} left"),
                }
            }
            let panicked = store.in_place(vec![1; LONG].into()).await.unwrap_err();
            let codes = [FailCode::Panicked, FailCode::NoMemory];
            let is_told =
                matches!(panicked, CallError::Failed { code, .. } if codes.contains(&code));
            assert!(is_told, "{panicked:?}");
            store.note(vec![1; LONG]).await.unwrap();
            assert_eq!(store.noted().await, Ok(0));
            store.limit(None).await.unwrap();
            // A value that could not be mapped may be given up by then or not: the node is the same.
            assert_eq!(store.bytes(vec![1; LONG / 4]).await, Ok(LONG as u64 / 4));
        }
    });
}

/// The KiB of addresses that this program's file takes in each of its processes.
fn program_kib() -> u64 {
    let program = std::env::current_exe().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let own = maps.lines().filter(|line| line.ends_with(program.to_str().unwrap()));
    let bytes = own.map(|line| {
        let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let address = |text| u64::from_str_radix(text, 16).unwrap();
        address(to) - address(from)
    });
    bytes.sum::<u64>() / 1024
}

/// An operator limits the addresses of a process: here to those of the program, the libraries, a node and its session's
/// budget, and to too few for the longest message.
#[test]
fn a_server_under_ulimit_survives() {
    let _watchdog = Watchdog::new("ulimit");
    let mut command = Command::new("sh");
    let limit = program_kib() + 40_000;
    command.args(["-c", &format!("ulimit -v {limit}; exec \"$0\" \"$@\"")]);
    let stand = Stand::under(Kind::Shared, USUAL, USUAL, Some(command));
    stand.node.block_on(async {
        let store = stand.client().await;
        for _ in 0..3 {
            for result in every_form(&store).await {
                result.inspect_err(is_no_memory).ok();
            }
            is_no_memory(&store.bytes(vec![1; TAKEN_BYTES_MAX - 8]).await.unwrap_err());
            assert_eq!(store.bytes(vec![1; 1000]).await, Ok(1000));
        }
    });
}

/// Calls for results for which there is no memory here.
fn call(name: &str, place: &Path) {
    end_with_input();
    let node = USUAL.node("client/limited", place);
    let short = LONG as u64 / 2;
    node.block_on(async {
        let store: StoreClient = node.connect(name).await.unwrap();
        for left in [LONG as u64 + short, short] {
            limit(Some(left));
            let refused = |error: CallError| {
                assert!(matches!(error, CallError::ResultNoMemory { .. }), "{error:?}");
                assert!(error.may_have_run());
            };
            refused(store.blob(LONG as u64).await.map(drop).unwrap_err());
            refused(store.record_of(LONG as u64).await.map(drop).unwrap_err());
            assert_eq!(store.bytes(vec![1]).await, Ok(1));
            limit(None);
        }
        assert_eq!(store.blob(short).await.map(|blob| blob.len() as u64), Ok(short));
    });
    say("done");
}

#[test]
fn results_without_memory_fail_their_calls_alone() {
    let _watchdog = Watchdog::new("no memory for results");
    let stand = Stand::new(Kind::Shared, USUAL, USUAL);
    let (part, place) = (format!("store-call {}", stand.name), stand.directory.path());
    let mut other = Other::start_under(with_one_heap(), &part, &place);
    other.expect("done");
}
