//! Tests of the judgements of looks at exports.

use super::*;
use crate::worlds::history::sights::{OF_EXPORT, Owned, Seen, Sight};
use crate::worlds::plan::Exports;

/// Two values of an export: the second is set later.
fn is_exported(world: &mut History) {
    let owned = Owned { begun: OF_EXPORT + 1, set: vec![2 * MS, 50 * MS], withdrawn: None };
    world.exports.insert((0, OF_EXPORT), owned);
}

fn sees(world: &mut History, (from, at): (u64, u64), sight: Sight) {
    is_exported(world);
    world.seen.push(Seen {
        process: 1,
        server: 0,
        known: Some(MS),
        from: from * MS,
        at: at * MS,
        sight,
    });
}

fn sight(why: Failure) -> Sight {
    Sight::Failed(why, String::new())
}

#[test]
fn readers_are_told_of_changes_and_of_ends_alone() {
    const EXPECTED: &str = "a reader sees what it may not";
    let refused: &[fn(&mut History)] = &[
        // The watch waits behind the change.
        |world| sees(world, (3, 300), Sight::Unchanged(OF_EXPORT)),
        |world| sees(world, (3, 9), sight(Failure::Ended)),
        |world| sees(world, (3, 9), sight(Failure::Absent)),
        |world| sees(world, (3, 9), sight(Failure::Replaced)),
        |world| sees(world, (3, 9), sight(Failure::Unknown)),
        |world| sees(world, (3, 9), sight(Failure::Unreached)),
        |world| sees(world, (3, 9), sight(Failure::Closing)),
        |world| {
            sees(world, (3, 9), sight(Failure::Ended));
            world.exports.get_mut(&(0, OF_EXPORT)).unwrap().withdrawn = Some(10 * MS);
        },
        // The export and the owner had ended before the client has imported it.
        |world| {
            sees(world, (103, 109), sight(Failure::Ended));
            world.seen[0].known = Some(100 * MS);
            world.exports.get_mut(&(0, OF_EXPORT)).unwrap().withdrawn = Some(8 * MS);
        },
        |world| {
            sees(world, (103, 109), sight(Failure::Replaced));
            world.seen[0].known = Some(100 * MS);
            disturbs(world, Disturbance::Down(0), 60, 70);
        },
        // A watch goes back, and one of a guarded export tells of no change.
        |world| sees(world, (3, 60), Sight::Changed(OF_EXPORT + 1, OF_EXPORT)),
    ];
    for change in refused {
        finds(EXPECTED, &violations(change));
    }
    let late = violations(|world| sees(world, (60, 3_000), Sight::Number(OF_EXPORT + 1)));
    finds("a look ends too late", &late);
    let mut guarded = plan();
    guarded.servers[0].exports =
        Some(Exports { is_guarded: true, exports: 1, updates: 1, pause_ms: 1 });
    let is_equal = |world: &mut History| sees(world, (3, 60), Sight::Changed(OF_EXPORT, OF_EXPORT));
    finds(EXPECTED, &violations_of(&guarded, is_equal));
    assert_eq!(violations(is_equal), [""; 0]);
    let allowed: &[fn(&mut History)] = &[
        |world| sees(world, (3, 300), Sight::Unchanged(OF_EXPORT + 1)),
        |world| sees(world, (3, 45), Sight::Unchanged(OF_EXPORT)),
        |world| sees(world, (0, 9), sight(Failure::Absent)),
        |world| {
            sees(world, (3, 9), sight(Failure::Ended));
            world.exports.get_mut(&(0, OF_EXPORT)).unwrap().withdrawn = Some(8 * MS);
        },
        |world| {
            sees(world, (55, 70), sight(Failure::Unknown));
            disturbs(world, Disturbance::Down(0), 60, 70);
            is_told(world, 61);
        },
    ];
    for change in allowed {
        assert_eq!(violations(change), [""; 0]);
    }
}

#[test]
fn a_reader_finds_no_value_that_is_older_than_one_before() {
    let record = Record::new(0);
    for number in [OF_EXPORT, OF_EXPORT + 1] {
        record.updates(0, number);
        record.updated(0, number);
    }
    record.updates(0, OF_EXPORT + 2);
    let reads = |last, number, is_new: bool| {
        let look = record.looks((1, 0), (!is_new).then_some(0), last);
        record.sees(look, Sight::Number(number));
        record.lock().wrong.drain(..).count()
    };
    assert_eq!([OF_EXPORT + 1, OF_EXPORT + 2].map(|number| reads(None, number, true)), [0, 0]);
    assert_eq!(reads(None, OF_EXPORT, false), 1, "a later value was set before");
    assert_eq!(reads(Some(OF_EXPORT + 2), OF_EXPORT + 1, false), 1, "a later value was read");
    assert_eq!(reads(None, OF_EXPORT + 3, false), 1, "nobody has set the value");
    assert_eq!(reads(None, 7, true), 1, "the export is another one");
    assert_eq!(reads(Some(OF_EXPORT + 2), 0, false), 1, "a guard has discarded the value");
}
