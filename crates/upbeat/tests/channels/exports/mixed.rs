//! Readers beside an owner that changes options, vectors, maps and pointers at full speed find no torn value.

use crate::common::{Directory, SOON, Watchdog, node, setting, shares_memory, soon};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use upbeat::export::{Export, FixedMap, FixedVec, ReadError, Ref};
use upbeat::{Import, Node, Shared, Waiting};

const KEYS: u64 = 8;
const LINES: u64 = 4;

/// The elements of the vector that grows, before it begins anew.
const GROWN: u64 = 3000;

#[derive(Shared)]
struct Mixed {
    some: Option<Line>,
    few: FixedVec<Line, 4>,
    numbers: FixedVec<u64, 4>,
    entries: FixedMap<u64, Line, { KEYS as usize }>,
    grown: Vec<Line>,
    head: Ref<Line>,
    lines: [Line; LINES as usize],
    best: u32,
}

/// A struct whose parts follow from a number.
#[derive(Clone, Copy, Debug, Shared)]
struct Line {
    number: u64,
    twice: u64,
    inverse: u64,
}

impl Line {
    fn of(number: u64) -> Line {
        Line { number, twice: 2 * number, inverse: !number }
    }

    /// Checks that the parts belong together, and to the place `place` of `places`.
    fn check(&self, what: &str, place: u64, places: u64) {
        let is_whole = self.twice == 2 * self.number && self.inverse == !self.number;
        assert!(is_whole && self.number % places == place, "a torn {what}: {self:?}");
    }
}

fn update(of: &Export<Mixed>, number: u64) {
    let line = Line::of(number);
    of.some().set((!number.is_multiple_of(3)).then_some(line));
    if of.few().push(line).is_err() {
        of.few().clear();
        of.numbers().clear();
    }
    of.numbers().push(number).ok();
    let key = number % KEYS;
    match number % 5 {
        0 => drop(of.entries().remove(&key)),
        _ => of.entries().insert(&key, line).unwrap(),
    }
    let place = number % LINES;
    of.lines().index(place as usize).set(line);
    of.head().point_to(&of.lines().index(place as usize));
    of.best().set(place as u32);
    let len = of.grown().length().get();
    if len == GROWN {
        return of.grown().clear();
    }
    of.grown().push(Line::of(len + GROWN * (number % 1000))).unwrap();
    let index = number % (len + 1);
    of.grown().index(index as usize).set(Line::of(index + GROWN * (number % 1000)));
}

/// Counts the reads that found a value, nothing, or an update at each attempt.
#[derive(Default)]
struct Counts {
    found: u64,
    nothing: u64,
    busy: u64,
}

impl Counts {
    fn count<T>(&mut self, read: Result<T, ReadError>, check: impl FnOnce(T)) {
        match read {
            Ok(value) => {
                self.found += 1;
                check(value);
            }
            Err(ReadError::Nothing | ReadError::Index { .. }) => self.nothing += 1,
            Err(ReadError::Busy) => self.busy += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

fn read(of: &Import<Mixed>, round: u64, counts: &mut Counts) {
    counts.count(of.some().some().try_read(), |line| line.check("option", 0, 1));
    counts.count(of.some().try_read(), |some| {
        some.iter().for_each(|line| {
            line.check("option", 0, 1);
            assert!(!line.number.is_multiple_of(3), "a value that the option did not have");
        });
    });
    counts.count(of.few().try_read(), |few| {
        few.windows(2).for_each(|two| assert_eq!(two[0].number + 1, two[1].number, "torn"));
        few.iter().for_each(|line| line.check("vector", 0, 1));
    });
    counts.count(of.few().index(round as usize % 4).try_read(), |line| line.check("element", 0, 1));
    counts.count(of.numbers().try_read(), |numbers| {
        numbers.windows(2).for_each(|two| assert_eq!(two[0] + 1, two[1], "torn numbers"));
    });
    let key = round % KEYS;
    counts.count(of.entries().entry(&key).try_read(), |line| line.check("entry", key, KEYS));
    counts.count(of.entries().try_read(), |entries| {
        entries.iter().for_each(|(key, line)| line.check("map", *key, KEYS));
    });
    counts.count(of.head().try_read(), |line| line.check("target", 0, 1));
    counts.count(of.lines().index_at(&of.best()).try_read(), |line| line.check("choice", 0, 1));
    let both = of.try_snapshot(|of| {
        Ok((
            of.best().try_read()?,
            of.head().try_read()?,
            of.lines().index_at(&of.best()).try_read()?,
        ))
    });
    // The pointer is moved before the index is.
    counts.count(both, |(best, head, chosen)| {
        chosen.check("choice in a snapshot", best.into(), LINES);
        assert!([0, 1].contains(&(head.number - chosen.number)), "{head:?} {chosen:?}");
    });
    let index = round % GROWN;
    counts.count(of.grown().index(index as usize).try_read(), |line| {
        line.check("element of a growing vector", index, GROWN);
    });
}

#[test]
fn no_torn_value_is_found_behind_a_step() {
    if !shares_memory("a value that a call reads is never torn") {
        return;
    }
    let _watchdog = Watchdog::new("torn values behind steps");
    let directory = Directory::new();
    let owner = node("owner/mixed", &directory.path(), Waiting::Adaptive);
    let mixed = owner.export(
        "mixed",
        Mixed {
            some: None,
            few: FixedVec::new(),
            numbers: FixedVec::new(),
            entries: FixedMap::new(),
            grown: Vec::new(),
            head: Ref::null(),
            lines: std::array::from_fn(|place| Line::of(place as u64)),
            best: 0,
        },
    );
    let (mixed, ends) = (mixed.unwrap(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let node: Node = node("reader/mixed", &directory.path(), Waiting::Adaptive);
            let mut counts = Counts::default();
            node.block_on(async {
                let mixed = soon(node.import::<Mixed>("owner/mixed/mixed")).await.unwrap();
                let until = Instant::now() + Duration::from_millis(setting("UPBEAT_TORN_MS", 500));
                let mut round = 0;
                while counts.found == 0 || Instant::now() < until {
                    for _ in 0..100 {
                        read(&mixed, round, &mut counts);
                        round += 1;
                    }
                    // The export moves while it grows, and a read by a call tells where to.
                    let line = soon(mixed.lines().index(0).read()).await.unwrap();
                    line.check("line", 0, LINES);
                }
            });
            ends.store(true, Ordering::Relaxed);
            node.shut_down(SOON);
            counts
        });
        owner.block_on(async {
            let mut number = 1;
            while !ends.load(Ordering::Relaxed) && !reader.is_finished() {
                for _ in 0..100 {
                    update(&mixed, number);
                    number += 1;
                }
                upbeat::yield_now().await;
            }
            println!("{number} updates");
        });
        let Counts { found, nothing, busy } = reader.join().unwrap();
        println!("{found} values, {nothing} times nothing, {busy} times an update at each attempt");
        assert!(found > 0 && nothing > 0);
    });
}
