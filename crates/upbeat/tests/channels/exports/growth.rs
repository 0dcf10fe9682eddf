//! Exports that move because they grow.

use crate::common::{Directory, SOON, Signal, Watchdog, node, over_streams, shares_memory, soon};
use crate::exports::{Row, containers::Shop};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use upbeat::export::{ExportError, FixedMap, FixedVec, ReadError};
use upbeat::{Counter, Node, Shared, Waiting};

#[derive(Clone, Debug, PartialEq, Shared)]
struct Log {
    count: u64,
    lines: Vec<Line>,
    groups: Vec<Vec<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Shared)]
struct Line {
    number: u64,
    twice: u64,
}

impl Line {
    fn of(number: u64) -> Line {
        Line { number, twice: 2 * number }
    }
}

const EMPTY: Log = Log { count: 0, lines: Vec::new(), groups: Vec::new() };

/// An owner in this process.
fn owner(name: &str) -> (Node, Directory) {
    let directory = Directory::new();
    (node(&format!("owner/{name}"), &directory.path(), Waiting::Adaptive), directory)
}

/// The memory that a reader has mapped stays as it was, and a read that must know more asks the owner.
#[test]
fn a_reader_follows_an_export_that_moves() {
    let _watchdog = Watchdog::new("an export that moves");
    let directory = Directory::new();
    let place = directory.path();
    let owner = node("owner/moves", &place, Waiting::Adaptive);
    let log = owner.export("log", EMPTY).unwrap();
    // The owner is a little ahead of the reader, so that the export moves while it is read.
    let seen = std::sync::Arc::new(AtomicU64::new(0));
    let reader = std::thread::spawn({
        let (place, seen) = (place.clone(), std::sync::Arc::clone(&seen));
        move || {
            let node = node("reader/moves", &place, Waiting::Adaptive);
            node.block_on(async {
                let log = node.import::<Log>("owner/moves/log").await.unwrap();
                let mut last = 0;
                let (mut in_memory, mut moved) = (0, 0);
                while last < 20_000 {
                    let count = match log.count().try_read() {
                        Ok(count) => count,
                        Err(ReadError::Busy) => {
                            moved += 1;
                            soon(log.count().read()).await.unwrap()
                        }
                        Err(error) => panic!("{error}"),
                    };
                    assert!(count >= last, "{count} after {last}");
                    if count > 0 {
                        // The line was there when it was counted.
                        let line = log.lines().index(count as usize - 1);
                        match line.try_read() {
                            Ok(line) => {
                                in_memory += 1;
                                assert_eq!(line, Line::of(count - 1));
                            }
                            Err(ReadError::Busy) => {
                                assert_eq!(soon(line.read()).await, Ok(Line::of(count - 1)));
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                    last = count;
                    seen.store(count, Ordering::Relaxed);
                }
                let is_shared = shares_memory("reads in memory from which an export moves");
                assert!(!is_shared || in_memory > 0, "{moved} calls");
                assert!(moved > 0, "{in_memory} reads in memory");
            });
            node.shut_down(SOON);
        }
    });
    owner.block_on(async {
        let mut number = 0;
        while !reader.is_finished() {
            if number < 20_000.min(seen.load(Ordering::Relaxed) + 500) {
                log.lines().push(Line::of(number)).unwrap();
                number += 1;
                log.count().set(number);
            }
            upbeat::yield_now().await;
        }
    });
    reader.join().unwrap();
}

#[test]
fn a_value_that_is_set_grows_and_shrinks() {
    let (owner, _directory) = owner("set");
    let log = owner.export("log", EMPTY).unwrap();
    for len in [0, 1, 9, 1000, 3, 40_000, 0, 12] {
        let value = Log {
            count: len,
            lines: (0..len).map(Line::of).collect(),
            groups: (0..len % 50).map(|group| (0..group * 10).collect()).collect(),
        };
        log.whole().set(value.clone());
        assert_eq!(log.whole().get(), value, "{len}");
        assert_eq!(log.lines().get(), value.lines);
    }
    assert_eq!(log.lines().pop(), Some(Line::of(11)));
    log.lines().push(Line::of(5)).unwrap();
    log.groups().push(vec![1, 2]).unwrap();
    log.groups().index(12).push(3).unwrap();
    assert_eq!(log.groups().index(12).get(), [1, 2, 3]);
    assert_eq!(log.lines().index(11).get(), Line::of(5));
}

/// A change that is under way goes on in the memory to which the export has moved.
#[test]
fn an_export_moves_within_an_update() {
    let _watchdog = Watchdog::new("an update that moves");
    let (owner, directory) = owner("update");
    let log = owner.export("log", EMPTY).unwrap();
    log.whole().update(|log| {
        for number in 0..10_000 {
            log.lines().push(Line::of(number)).unwrap();
        }
        log.count().set(10_000);
    });
    let place = directory.path();
    let thread = std::thread::spawn(move || {
        let reader = node("reader/update", &place, Waiting::Adaptive);
        reader.block_on(async {
            let log = soon(reader.import::<Log>("owner/update/log")).await.unwrap();
            assert_eq!(soon(log.count().read()).await, Ok(10_000), "the update is over");
            assert_eq!(soon(log.lines().index(9_999).read()).await, Ok(Line::of(9_999)));
            if shares_memory("a read without a call after a move") {
                assert_eq!(log.count().try_read(), Ok(10_000));
                assert_eq!(log.lines().index(9_999).try_read(), Ok(Line::of(9_999)));
            }
        });
    });
    owner.block_on(async {
        while !thread.is_finished() {
            upbeat::yield_now().await;
        }
    });
    thread.join().unwrap();
}

#[derive(Clone, Debug, PartialEq, Shared)]
struct Sheet {
    last: Option<u64>,
    lines: Vec<u64>,
    best: u64,
    bids: [u64; 3],
}

/// The steps of a path in a snapshot begin where the export is now, and not where it was imported.
#[test]
fn a_snapshot_of_an_export_that_has_moved_has_its_values() {
    let _watchdog = Watchdog::new("a snapshot behind a move");
    let (owner, directory) = owner("snapshot");
    let value = Sheet { last: Some(7), lines: vec![3], best: 2, bids: [3, 4, 5] };
    let sheet = owner.export("sheet", value).unwrap();
    let (place, imported) = (directory.path(), Signal::default());
    let (moved, thread) = (Signal::default(), imported.clone());
    let thread = std::thread::spawn({
        let moved = moved.clone();
        move || {
            let reader = node("reader/snapshot", &place, Waiting::Adaptive);
            reader.block_on(async {
                let sheet = soon(reader.import::<Sheet>("owner/snapshot/sheet")).await.unwrap();
                assert_eq!(soon(sheet.last().some().read()).await, Ok(7));
                thread.give();
                moved.await;
                assert_eq!(soon(sheet.lines().length().read()).await, Ok(301));
                let found = sheet.snapshot(async |of| {
                    let (last, line) = (of.last().some(), of.lines().index(300));
                    let (bids, best) = (of.bids(), of.best());
                    let bid = bids.index_at(&best).read().await?;
                    Ok((last.read().await?, line.read().await?, bid))
                });
                assert_eq!(soon(found).await, Ok((7, 299, 5)));
                let expected = if over_streams() { Err(ReadError::Busy) } else { Ok(7) };
                assert_eq!(sheet.try_snapshot(|of| of.last().some().try_read()), expected);
            });
        }
    });
    owner.block_on(async {
        imported.await;
        (0..300).for_each(|line| sheet.lines().push(line).unwrap());
        moved.give();
        while !thread.is_finished() {
            upbeat::yield_now().await;
        }
    });
    thread.join().unwrap();
}

/// A reader that did not follow an export learns its end from the owner, and remembers it.
#[test]
fn an_export_that_has_moved_and_ended_is_known_to_have_ended() {
    let _watchdog = Watchdog::new("an export that has moved and ended");
    let (owner, directory) = owner("ended");
    let sheet = Sheet { last: None, lines: vec![3], best: 2, bids: [3, 4, 5] };
    let sheet = owner.export("sheet", sheet).unwrap();
    let (place, imported, ended) = (directory.path(), Signal::default(), Signal::default());
    let (has_imported, has_ended) = (imported.clone(), ended.clone());
    let thread = std::thread::spawn(move || {
        let reader = node("reader/ended", &place, Waiting::Adaptive);
        reader.block_on(async {
            let sheet = soon(reader.import::<Sheet>("owner/ended/sheet")).await.unwrap();
            assert_eq!(soon(sheet.best().read()).await, Ok(2));
            has_imported.give();
            has_ended.await;
            assert_eq!(soon(sheet.best().read()).await, Err(ReadError::Ended));
            if !over_streams() {
                assert_eq!(sheet.best().try_read(), Err(ReadError::Ended));
            }
        });
    });
    owner.block_on(async {
        imported.await;
        (0..300).for_each(|line| sheet.lines().push(line).unwrap());
        drop(sheet);
        ended.give();
        while !thread.is_finished() {
            upbeat::yield_now().await;
        }
    });
    thread.join().unwrap();
}

/// All of them find out at once that it has moved, and each asks the owner for its memory, which comes with a descriptor.
#[test]
fn many_tasks_that_read_an_export_when_it_moves_cost_no_session() {
    const READERS: usize = 400;
    const ROUNDS: u64 = 5;
    let _watchdog = Watchdog::new("readers of an export that moves");
    let (owner, directory) = owner("many");
    let log = owner.export("log", EMPTY).unwrap();
    let (place, rounds) = (directory.path(), std::sync::Arc::new(AtomicU64::new(0)));
    let passed = std::sync::Arc::clone(&rounds);
    let reader = std::thread::spawn(move || {
        let reader = node("reader/many", &place, Waiting::Adaptive);
        reader.block_on(async {
            let log = soon(reader.import::<Log>("owner/many/log")).await.unwrap();
            let mut count = log.count().watch();
            for round in 1..=ROUNDS {
                while soon(count.changed()).await.unwrap() < round {}
                let reads: Vec<_> = (0..READERS)
                    .map(|number| {
                        let log = log.clone();
                        reader.spawn(async move { log.lines().index(number).read().await })
                    })
                    .collect();
                for (read, number) in reads.into_iter().zip(0..) {
                    assert_eq!(soon(read).await.unwrap(), Ok(Line::of(number)), "{round}");
                }
                let last = log.lines().index(0).try_read();
                assert_eq!(
                    last,
                    if over_streams() { Err(ReadError::Busy) } else { Ok(Line::of(0)) }
                );
                passed.store(round, Ordering::Relaxed);
            }
        });
        reader.counted(Counter::SessionsLost)
    });
    owner.block_on(async {
        let mut lines = 0;
        for round in 1..=ROUNDS {
            // Each round has twice as many lines as the one before, so that the export moves.
            (lines..1000 << round).for_each(|line| log.lines().push(Line::of(line)).unwrap());
            lines = 1000 << round;
            log.count().set(round);
            while rounds.load(Ordering::Relaxed) < round && !reader.is_finished() {
                upbeat::yield_now().await;
            }
        }
    });
    assert_eq!(reader.join().unwrap(), 0);
}

/// The two copies of a guarded export grow together, and what is discarded gives its room back.
#[test]
fn a_guarded_export_grows() {
    let _watchdog = Watchdog::new("a guarded export that grows");
    let (owner, _directory) = owner("guarded");
    let log = owner.export_guarded("log", EMPTY).unwrap();
    owner.block_on(async {
        for round in 0..40_u64 {
            let guard = log.lock().await;
            assert_eq!(guard.count().get(), 100 * round);
            for number in 100 * round..100 * (round + 1) {
                guard.lines().push(Line::of(number)).unwrap();
            }
            if round % 3 == 1 {
                // The discarded lines are pushed again in the next step.
                guard.discard();
                let guard = log.lock().await;
                assert_eq!(guard.lines().length().get(), 100 * round);
                for number in 100 * round..100 * (round + 1) {
                    guard.lines().push(Line::of(number)).unwrap();
                }
                guard.count().set(100 * (round + 1));
                continue;
            }
            guard.count().set(100 * (round + 1));
        }
        let guard = log.lock().await;
        assert_eq!(guard.lines().get(), (0..4000).map(Line::of).collect::<Vec<_>>());
    });
}

/// A guarded export moves to the same place of another segment between two reads of a snapshot: the second one does not
/// look there for the copy that the first one saw.
#[test]
fn a_guarded_snapshot_during_which_its_export_moves_has_one_moment() {
    const LINES: u64 = 10_000;
    let _watchdog = Watchdog::new("a move within a snapshot");
    let (owner, _directory) = owner("within");
    owner.block_on(async {
        // The snapshot begins in either copy.
        for (name, copy) in [("log", 0), ("next", 1)] {
            let lines = (0..LINES).map(Line::of).collect();
            let log = Log { count: 1, lines, groups: Vec::new() };
            let log = owner.export_guarded(name, log).unwrap();
            for _ in 0..copy {
                log.lock().await.count().set(1);
            }
            let address = format!("owner/within/{name}");
            let import = soon(owner.import::<Log>(&address)).await.unwrap();
            let (other, runs) = (import.clone(), Cell::new(0));
            let found = import.snapshot(async |of| {
                runs.set(runs.get() + 1);
                let first = of.count().read().await?;
                if runs.get() == 1 {
                    let guard = log.lock().await;
                    (LINES..4 * LINES).for_each(|line| guard.lines().push(Line::of(line)).unwrap());
                    guard.count().set(2);
                    drop(guard);
                    // The reader follows the export.
                    assert_eq!(soon(other.count().read()).await, Ok(2));
                }
                Ok((first, of.count().read().await?))
            });
            let found = soon(found).await;
            assert!(matches!(found, Ok((1, 1) | (2, 2))), "{found:?} from copy {copy}");
        }
    });
}

/// Both copies of a guarded export get the elements of a vector that is set, which lie elsewhere than its head.
#[test]
fn a_guarded_vector_that_is_set_is_the_same_in_the_next_update() {
    let (owner, _directory) = owner("guarded/set");
    let log = owner.export_guarded("log", EMPTY).unwrap();
    let of = |first: u64| (first..first + 20).map(Line::of).collect::<Vec<_>>();
    let groups = |first: u64| vec![vec![first; 9], vec![first + 1; 3]];
    owner.block_on(async {
        for round in [1, 2, 3, 4] {
            let guard = log.lock().await;
            guard.lines().set(of(round));
            guard.groups().set(groups(round));
            drop(guard);
            for count in [1, 2, 3] {
                let guard = log.lock().await;
                assert_eq!(guard.lines().get(), of(round), "round {round}, update {count}");
                assert_eq!(guard.groups().get(), groups(round), "round {round}, update {count}");
                guard.count().set(count);
            }
            let guard = log.lock().await;
            guard.whole().set(Log { count: 9, lines: of(round + 50), groups: groups(50) });
            drop(guard);
            assert_eq!(log.lock().await.lines().get(), of(round + 50), "round {round}");
            assert_eq!(log.lock().await.groups().get(), groups(50), "round {round}");
        }
    });
}

#[test]
fn an_export_does_not_grow_beyond_its_limit() {
    let (owner, _directory) = owner("limit");
    let log = owner.export("log", EMPTY).unwrap();
    // A line has three words, and an export 8 Mi of them, in chunks that double.
    let mut number = 2_090_000;
    log.lines().set((0..number).map(Line::of).collect());
    let error = loop {
        match log.lines().push(Line::of(number)) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ExportError::Full), "{error}");
    assert_eq!(log.lines().length().get(), number, "it is as it was");
    assert_eq!(log.lines().index(number as usize - 1).get(), Line::of(number - 1));
}

#[derive(Shared)]
struct Groups {
    by_key: FixedMap<u32, Vec<u64>, 2>,
    in_order: FixedVec<Vec<u64>, 2>,
}

#[test]
fn a_value_for_which_there_is_no_room_leaves_its_container_as_it_was() {
    let (owner, _directory) = owner("no/room");
    let groups = Groups { by_key: FixedMap::new(), in_order: FixedVec::new() };
    let groups = owner.export("groups", groups).unwrap();
    groups.by_key().insert(&1, vec![7]).unwrap();
    assert!(groups.by_key().remove(&1));
    let large = || vec![0_u64; 9 << 20];
    let insert = AssertUnwindSafe(|| groups.by_key().insert(&1, large()));
    catch_unwind(insert).unwrap_err();
    assert!(!groups.by_key().has(&1));
    assert_eq!(groups.by_key().length().get(), 0);
    let push = AssertUnwindSafe(|| groups.in_order().push(large()));
    catch_unwind(push).unwrap_err();
    assert_eq!(groups.in_order().length().get(), 0);
    groups.by_key().insert(&1, vec![8]).unwrap();
    groups.in_order().push(vec![9, 10]).unwrap();
    assert_eq!(groups.by_key().entry(&1).get(), [8]);
    assert_eq!(groups.in_order().index(0).get(), [9, 10]);
}

#[test]
#[should_panic(expected = "the index 3 is out of range")]
fn an_owner_that_writes_what_is_not_there_is_told() {
    let (owner, _directory) = owner("panics");
    let shop = owner.export("shop", Shop::new()).unwrap();
    shop.rows().index(3).set(Row::of(1));
}

#[test]
#[should_panic(expected = "the path leads to nothing")]
fn an_owner_that_writes_into_nothing_is_told() {
    let (owner, _directory) = owner("nothing");
    let shop = owner.export("shop", Shop::new()).unwrap();
    shop.best().some().bid().set(1.0);
}
