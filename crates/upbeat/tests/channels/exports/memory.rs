//! The memory of exports: rooms that are used again, segments that are given up, and what readers keep of them.
//!
//! A process of its own counts all segments that it maps, so each test has one.

use crate::common::process::{Other, input_ends, say};
use crate::common::{
    Directory, PROGRAM, Random, SOON, Watchdog, block_on, node, seed, setting, shares_memory, soon,
};
use crate::exports::sharing;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use upbeat::export::{Export, ImportError, OwnerState, ReadError, mapped_memory};
use upbeat::{Import, Node, Shared, Waiting};
use upbeat_memory::fork::in_child;

#[derive(Clone, Debug, PartialEq, Shared)]
pub(crate) struct Log {
    pub(crate) number: u64,
    pub(crate) lines: Vec<[u64; 4]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Shared)]
struct Small {
    number: u64,
    others: [u64; 6],
}

/// A value of a size that an export without vectors has in a segment of its own.
pub(crate) type Large = [u64; 5_000];

/// A value for which a reader has no memory.
type Huge = [u64; 4 << 20];

/// The most bytes that a node has for exports of so many bytes.
fn bound(live: usize) -> usize {
    4 * live + (1 << 20)
}

/// Returns the bytes of segments with exports that this process has mapped, as the system counts them.
fn mapped() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let ours = maps.lines().filter(|line| line.contains("memfd:upbeat-exports"));
    let bytes = ours.map(|line| {
        let (begin, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let of = |text| usize::from_str_radix(text, 16).unwrap();
        of(end) - of(begin)
    });
    bytes.sum()
}

/// Checks that the exports of a node have no more memory than they may have.
fn check(node: &Node) {
    let memory = node.export_memory();
    assert!(memory.held <= bound(memory.live), "{memory:?}");
}

/// Limits the memory of this process to so many bytes more than it has.
fn limit(more: u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let has = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let kib: u64 = has.trim().trim_end_matches(" kB").parse().unwrap();
    let limit = rustix::process::Rlimit { current: Some((kib << 10) + more), maximum: None };
    rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
}

/// Plays the other process of a test here.
pub(crate) fn other(part: &str, place: PathBuf) {
    match part {
        "rounds" => rounds(&place),
        "small" => small(&place),
        "copies" => copies(&place),
        "huge" => huge(&place),
        "unmapped" => unmapped(&place),
        "forked" => forked(&place),
        "shared" => sharing::shared(&place),
        "forked owner" => forked_owner(&place),
        "store" => store(&place),
        part => panic!("the part {part}"),
    }
}

pub(crate) fn played(part: &str) {
    let _watchdog = Watchdog::within("the memory of exports", 600);
    let directory = Directory::new();
    let mut other = Other::start(&format!("memory {part}"), &directory.path());
    other.expect("done");
    other.end();
}

#[test]
fn exports_that_grow_and_end_leave_no_memory_behind() {
    played("rounds");
}

fn rounds(place: &Path) {
    let node = node("owner", place, Waiting::Sleeping);
    limit(64 << 20);
    for round in 0..setting("UPBEAT_EXPORT_ROUNDS", 1_000) {
        let log = Log { number: round, lines: Vec::new() };
        let log = node.export("log", log).expect("there is memory");
        for line in 0..300 {
            log.lines().push([line; 4]).expect("there is memory");
        }
        assert_eq!(log.lines().index(299).get(), [299; 4]);
        check(&node);
        drop(log);
        assert_eq!(node.export_memory().live, 0);
        assert!(node.export_memory().held <= 1 << 20, "{:?}", node.export_memory());
        if round % 100 == 0 {
            assert!(mapped() <= 1 << 20, "{} bytes in round {round}", mapped());
        }
    }
    say("done");
}

#[test]
fn small_exports_leave_no_memory_behind() {
    played("small");
}

fn small(place: &Path) {
    let node = node("owner", place, Waiting::Sleeping);
    limit(64 << 20);
    let for_one = node.export_for(["reader"]).unwrap();
    let kept = node.export("kept", 1_u64).unwrap();
    for round in 0..setting("UPBEAT_EXPORT_SMALL_ROUNDS", 30_000) {
        let value = Small { number: round, others: [round; 6] };
        let export = match round % 8 {
            0 => node.export_raw("small", value),
            1 => for_one.export("small", value),
            _ => node.export("small", value),
        };
        let export = export.expect("there is memory");
        assert_eq!(export.whole().get(), value);
        drop(export);
        if round % 1_000 == 0 {
            check(&node);
            assert!(mapped() <= 1 << 20, "{} bytes in round {round}", mapped());
        }
    }
    assert_eq!(kept.whole().get(), 1);
    say("done");
}

/// Many exports, of which few remain, move together. Their paths stay valid.
#[test]
fn the_last_exports_of_many_move_together() {
    let _watchdog = Watchdog::new("exports that move together");
    let directory = Directory::new();
    let owner = node("owner/few", &directory.path(), Waiting::Sleeping);
    let all: Vec<_> = (0..3_000_u64)
        .map(|number| {
            let log = Log { number, lines: vec![[number; 4]; 3] };
            owner.export(&format!("log{number}"), log).unwrap()
        })
        .collect();
    let many = owner.export_memory();
    check(&owner);
    let mut few = Vec::new();
    for (number, export) in (0_u64..).zip(all) {
        if number % 500 == 7 {
            few.push((number, export));
        }
        check(&owner);
    }
    assert_eq!(few.len(), 6);
    let memory = owner.export_memory();
    assert!(memory.held < many.held / 2, "{memory:?} of {many:?}");
    for (number, log) in &few {
        assert_eq!(log.whole().get().lines, vec![[*number; 4]; 3]);
        log.number().set(1);
        log.lines().push([5; 4]).unwrap();
        assert_eq!(log.lines().index(3).get(), [5; 4]);
    }
}

#[test]
fn a_process_keeps_few_copies_of_exports_that_have_ended() {
    if shares_memory("memory that readers keep mapped") {
        played("copies");
    }
}

fn copies(place: &Path) {
    let reader = node("reader", place, Waiting::Adaptive);
    let mut owner = Other::start("memory store", place);
    owner.expect("serving");
    reader.block_on(async {
        let store: StoreClient = reader.connect("store").await.unwrap();
        let mut imports: Vec<Import<Large>> = Vec::new();
        let error = loop {
            let number = imports.len() as u64;
            assert!(number < 1_000, "{:?}", mapped_memory());
            store.large(Some(number)).await.unwrap();
            match reader.import("store/large").await {
                Ok(import) => imports.push(import),
                Err(error) => break error,
            }
            assert_eq!(imports.last().unwrap().index(3).try_read(), Ok(number));
            store.large(None).await.unwrap();
            let (live, held) = store.memory().await.unwrap();
            assert!(held <= bound(live) as u64, "{held} bytes for {live}");
        };
        let memory = mapped_memory();
        assert!(memory.ended_segments == 256, "{memory:?}");
        assert!(matches!(error, ImportError::Copies { segments: 256, .. }), "{error}");
        assert!(
            error.to_string().contains("drop the imports of exports that have ended"),
            "{error}"
        );
        // The system counts the same bytes.
        assert_eq!(memory.bytes, mapped());
        assert!(imports.iter().all(|import| import.index(3).try_read() == Err(ReadError::Ended)));
        drop(imports);
        assert_eq!(mapped_memory().ended_segments, 0);
        let import: Import<Large> = reader.import("store/large").await.unwrap();
        import.index(3).try_read().unwrap();
        assert_eq!(mapped_memory().segments, 1, "imports share a mapping");
        let again: Import<Large> = reader.import("store/large").await.unwrap();
        assert_eq!(again.index(3).try_read(), import.index(3).try_read());
        assert_eq!(mapped_memory().segments, 1, "imports share a mapping");
        assert_eq!(again.owner().state, OwnerState::Alive);
        store.large(None).await.unwrap();
        assert_eq!(again.owner().state, OwnerState::Unknown, "its owner marks nothing there");
    });
    reader.block_on(async {
        let store: StoreClient = reader.connect("store").await.unwrap();
        store.large(Some(7)).await.unwrap();
        let import: Import<Large> = reader.import("store/large").await.unwrap();
        assert_eq!(mapped_memory().ended_segments, 0);
        owner.kill();
        owner.ended();
        assert_eq!(mapped_memory().ended_segments, 1, "its owner is dead");
        assert_eq!(import.index(3).try_read(), Ok(7));
    });
    say("done");
}

/// Owns an export that is larger than the memory that its reader may have.
fn huge(place: &Path) {
    let node = Node::builder("store").program(PROGRAM).directory(place).build().unwrap();
    let _huge = node.export_with::<Huge>("huge", |huge| huge.index(3).set(7)).unwrap();
    say("serving");
    node.block_on(input_ends());
    node.shut_down(SOON);
}

#[test]
fn an_export_for_which_a_reader_has_no_memory_is_not_imported() {
    if shares_memory("a reader maps the memory of an owner") {
        played("unmapped");
    }
}

fn unmapped(place: &Path) {
    let reader = node("reader", place, Waiting::Adaptive);
    let mut owner = Other::start("memory huge", place);
    owner.expect("serving");
    let import = || reader.block_on(soon(reader.import::<Huge>("store/huge")));
    limit(size_of::<Huge>() as u64 / 2);
    let error = import().err().unwrap();
    assert!(matches!(error, ImportError::Memory { .. }), "{error}");
    assert!(error.to_string().contains("(`ulimit -v`)"), "{error}");
    limit(4 * size_of::<Huge>() as u64);
    assert_eq!(import().unwrap().index(3).try_read(), Ok(7));
    owner.end();
    say("done");
}

/// A forked child reads in the memory that its parent has mapped, and cannot ask the owner.
#[test]
fn a_forked_child_reads_what_its_parent_has_imported() {
    if shares_memory("a child reads in memory") {
        played("forked");
    }
}

fn forked(place: &Path) {
    let reader = node("reader", place, Waiting::Adaptive);
    let mut owner = Other::start("memory store", place);
    owner.expect("serving");
    let store: StoreClient = reader.block_on(reader.connect("store")).unwrap();
    reader.block_on(store.large(Some(7))).unwrap();
    let by_node: Import<Large> = reader.block_on(reader.import("store/large")).unwrap();
    let by_handle = upbeat::handle::builder().program(PROGRAM).directory(place);
    let by_handle: Import<Large> = block_on(by_handle.import("store/large")).unwrap();
    let mut imports = Some([by_node, by_handle]);
    for drops in [false, true] {
        let code = in_child(|| {
            for import in imports.iter().flatten() {
                assert_eq!(import.index(3).try_read(), Ok(7));
                assert_eq!(block_on(import.index(3).read()), Ok(7));
                let count = block_on(import.whole().range(..9).count());
                assert_eq!(count, Ok(9));
                let error = block_on(import.index(3).watch().changed()).unwrap_err();
                assert!(error.to_string().contains("a forked child cannot use"), "{error}");
                assert_eq!(import.owner().state, OwnerState::Unknown);
            }
            if drops {
                drop(imports.take());
                assert_eq!(mapped(), 0);
            }
            // The child may have imports of its own.
            let own = upbeat::handle::builder().program(PROGRAM).directory(place);
            let own: Import<Large> = block_on(own.import("store/large")).unwrap();
            assert_eq!(own.index(3).try_read(), Ok(7));
            assert_eq!(own.owner().state, OwnerState::Alive);
            assert_eq!(mapped_memory().segments, 1);
            7
        });
        assert_eq!(code, Some(7), "drops: {drops}");
    }
    for import in imports.iter().flatten() {
        assert_eq!(import.index(3).try_read(), Ok(7));
        assert_eq!(import.owner().state, OwnerState::Alive);
    }
    owner.end();
    say("done");
}

/// A forked child does not have the memory of its parent's exports. There, using one is an error in words, and dropping one
/// does nothing.
#[test]
fn a_forked_child_does_not_have_its_parents_exports() {
    played("forked owner");
}

fn forked_owner(place: &Path) {
    let value = |number| Small { number, others: [number; 6] };
    let node = node("owner", place, Waiting::Sleeping);
    let for_one = node.export_for(["reader"]).unwrap();
    let mut small = Some(node.export("small", value(1)).unwrap());
    let mut log = Some(for_one.export("log", Log { number: 0, lines: vec![[1; 4]] }).unwrap());
    let mut guarded = Some(node.export_guarded("guarded", value(1)).unwrap());
    let refused = |act: &dyn Fn()| {
        let code = in_child(|| {
            let panic = catch_unwind(AssertUnwindSafe(act)).unwrap_err();
            u8::from(panic.downcast_ref::<String>().unwrap().contains("forked child"))
        });
        assert_eq!(code, Some(1));
    };
    {
        let (small, log) = (small.as_ref().unwrap(), log.as_ref().unwrap());
        let guarded = guarded.as_ref().unwrap();
        refused(&|| assert_eq!(small.whole().get(), value(1)));
        refused(&|| small.number().set(2));
        refused(&|| small.whole().update(|small| small.number().set(2)));
        refused(&|| log.lines().push([2; 4]).unwrap());
        refused(&|| log.lines().index(0).set([2; 4]));
        refused(&|| drop(guarded.try_lock()));
        refused(&|| drop(node.export("new", 1_u64)));
        refused(&|| drop(for_one.export("new", 1_u64)));
        small.whole().update(|small| refused(&|| small.number().set(2)));
        let guard = guarded.try_lock().unwrap();
        refused(&|| guard.number().set(2));
    }
    {
        let mut lock = guarded.as_ref().unwrap().try_lock();
        assert_eq!(in_child(|| lock.take().map_or(0, |_| 7)), Some(7), "the child drops the lock");
    }
    let code = in_child(|| {
        drop((small.take(), log.take(), guarded.take()));
        7
    });
    assert_eq!(code, Some(7), "the child drops the exports");
    let (small, log, guarded) = (small.unwrap(), log.unwrap(), guarded.unwrap());
    small.number().set(2);
    assert_eq!(small.whole().get(), Small { number: 2, ..value(1) });
    log.lines().push([3; 4]).unwrap();
    assert_eq!(log.lines().get(), [[1; 4], [3; 4]]);
    guarded.try_lock().unwrap().number().set(2);
    say("done");
}

/// Tells the owner what to do.
#[upbeat::service]
pub(crate) trait Store {
    /// Exports a value with this number, or ends it.
    async fn large(&self, number: Option<u64>);
    /// Exports a log under a name, pushes so many lines, or ends it.
    async fn log(&self, name: u64, number: u64);
    async fn push(&self, name: u64, lines: u64);
    async fn end(&self, name: u64);
    /// Returns the bytes of the exports, and of their segments.
    async fn memory(&self) -> (usize, u64);
}

struct Exported {
    node: Node,
    large: RefCell<Option<Export<Large>>>,
    logs: RefCell<BTreeMap<u64, Export<Log>>>,
}

impl Store for Exported {
    async fn large(&self, number: Option<u64>) {
        let export = |number| {
            self.node.export_with::<Large>("large", |large| large.set_each(|_| number)).unwrap()
        };
        *self.large.borrow_mut() = number.map(export);
    }

    async fn log(&self, name: u64, number: u64) {
        let log = Log { number, lines: Vec::new() };
        let export = self.node.export(&format!("log{name}"), log).unwrap();
        self.logs.borrow_mut().insert(name, export);
    }

    async fn push(&self, name: u64, lines: u64) {
        let logs = self.logs.borrow();
        let log = &logs[&name];
        (0..lines).for_each(|_| log.lines().push([log.number().get(); 4]).unwrap());
    }

    async fn end(&self, name: u64) {
        self.logs.borrow_mut().remove(&name);
    }

    async fn memory(&self) -> (usize, u64) {
        let memory = self.node.export_memory();
        (memory.live, memory.held as u64)
    }
}

fn store(place: &Path) {
    let node = Node::builder("store").program(PROGRAM).directory(place).build().unwrap();
    let (large, logs) = Default::default();
    node.serve(StoreServer::new(Exported { node: node.clone(), large, logs })).unwrap();
    say("serving");
    node.block_on(input_ends());
    node.shut_down(SOON);
}

/// A log that the reader has imported, its number, and the name under which it stood.
type Held = (Import<Log>, u64, u64);

/// A reader of a log that stands finds it, and one of a log that has ended finds that, or its own last value, but no value
/// of another log.
#[test]
fn readers_of_ended_logs_find_no_other_ones() {
    let _watchdog = Watchdog::new("readers of ended logs");
    let directory = Directory::new();
    let mut owner = Other::start("memory store", &directory.path());
    owner.expect("serving");
    let reader = node("reader/logs", &directory.path(), Waiting::Adaptive);
    let mut random = Random::new(seed(0xe0));
    reader.block_on(async {
        let store: StoreClient = reader.connect("store").await.unwrap();
        let mut standing: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut held: VecDeque<Held> = VecDeque::new();
        for step in 0..setting("UPBEAT_EXPORT_STEPS", 3_000) {
            let name = random.below(12);
            match (random.below(6), standing.get_mut(&name)) {
                (_, None) => {
                    store.log(name, step).await.unwrap();
                    standing.insert(name, (step, 0));
                }
                (0 | 1, Some((_, lines))) => {
                    let more = 1 + random.below(60);
                    *lines += more;
                    store.push(name, more).await.unwrap();
                }
                (2, Some(_)) => {
                    store.end(name).await.unwrap();
                    standing.remove(&name);
                }
                (_, Some((number, lines))) => {
                    let import = soon(reader.import::<Log>(&format!("store/log{name}"))).await;
                    let import = import.unwrap();
                    assert_eq!(soon(import.lines().length().read()).await, Ok(*lines));
                    held.push_back((import, *number, name));
                    if held.len() > 40 {
                        held.pop_front();
                    }
                }
            }
            let (live, bytes) = store.memory().await.unwrap();
            assert!(bytes <= bound(live) as u64, "{bytes} bytes for {live}, step {step}");
            if let Some((import, number, name)) = held.get(random.below(41) as usize) {
                let stands = standing.get(name).is_some_and(|(now, _)| now == number);
                match import.number().try_read() {
                    Ok(found) => assert!(stands && found == *number, "{found} for {number}"),
                    Err(ReadError::Ended) => assert!(!stands, "{number} stands"),
                    Err(ReadError::Busy) => {}
                    Err(error) => panic!("{error}"),
                }
                let wanted = if stands { Ok(*number) } else { Err(ReadError::Ended) };
                assert_eq!(soon(import.number().read()).await, wanted, "step {step}");
                let line = soon(import.lines().index(0).read()).await;
                match standing.get(name).filter(|_| stands) {
                    Some((_, 0)) => assert_eq!(line, Err(ReadError::Index { index: 0 })),
                    Some(_) => assert_eq!(line, Ok([*number; 4])),
                    None => assert_eq!(line, Err(ReadError::Ended)),
                }
            }
        }
    });
    owner.end();
}
