use super::*;
use crate::export::segments::Lodger;
use crate::export::watchers::Waiting;
use crate::export::{FixedMap, FixedVec, Ref, Shape};
use proptest::prelude::*;
use std::pin::Pin;
use std::task::{Context, Waker};
use upbeat_core::channel::export::Nameless;

#[derive(Clone, Copy, Debug, PartialEq, crate::Shared)]
struct Job {
    number: u64,
    sizes: [u16; 3],
}

#[derive(Clone, Debug, PartialEq, crate::Shared)]
struct Desk {
    count: u64,
    best: Option<Job>,
    jobs: [Job; 3],
    many: [Job; 40],
    head: Ref<Job>,
    line: FixedVec<Job, 3>,
    table: FixedMap<u64, Job, 3>,
    grown: Vec<Job>,
    lists: Vec<Vec<u64>>,
}

const KEYS: u64 = 5;
const INDEXES: u64 = 6;

fn job(number: u64) -> Job {
    Job { number, sizes: [number as u16; 3] }
}

fn desk(number: u64) -> Desk {
    let (mut line, mut table) = (FixedVec::new(), FixedMap::new());
    (0..number % 4).for_each(|item| line.push(job(item)).unwrap());
    (0..number % 4).for_each(|key| table.insert((key + number) % KEYS, job(key)).unwrap());
    Desk {
        count: number,
        best: number.is_multiple_of(2).then(|| job(number)),
        jobs: [job(number); 3],
        many: [job(number); 40],
        head: Ref::null(),
        line,
        table,
        grown: vec![job(number); number as usize % 5],
        lists: vec![vec![number]; number as usize % 3],
    }
}

/// A question of a watch: a route on the wire, a part behind it, and whether the part is a unit.
type Question = (Vec<u64>, Part, bool);

/// Adds the questions for all parts of a value of this shape, at word `at` behind a route.
fn ask(whole: &Shape, shape: &Shape, route: &[u64], at: u32, questions: &mut Vec<Question>) {
    let part = Part { at, words: shape.words() as u32 };
    questions.push((route.to_vec(), part, shape.is_unit()));
    let mut behind = |kind: u64, arguments: &[u64], of: &Shape| {
        let step = kind | (arguments.len() as u64) << 8 | u64::from(at) << 32;
        let route = [route, &[step], arguments].concat();
        ask(whole, of, &route, 0, questions);
    };
    match shape {
        Shape::Scalar(_) | Shape::Packed { .. } | Shape::Text { .. } => {}
        Shape::Option { of } => behind(2, &[0], of),
        Shape::FixedVec { of, .. } | Shape::Vec { of } => {
            (0..INDEXES).for_each(|index| behind(2, &[index], of));
        }
        Shape::FixedMap { value, .. } => (0..KEYS).for_each(|key| behind(4, &[key], value)),
        Shape::Ref { to } => behind(5, &[], whole.named(to).unwrap()),
        Shape::Array { of, len } => {
            let words = of.words() as u32;
            (0..*len).for_each(|index| ask(whole, of, route, at + index * words, questions));
        }
        Shape::Struct { fields, .. } => {
            let mut at = at + 1;
            for field in fields {
                ask(whole, &field.shape, route, at, questions);
                at += field.shape.words() as u32;
            }
        }
    }
}

/// Makes a change, or several within an update.
fn act(desk: &Export<Desk>, act: u8, number: u64) {
    let (index, key) = (number as usize % 3, number % KEYS);
    let row = desk.jobs().index(index);
    match act {
        0 => desk.count().set(number),
        1 => desk.best().set(number.is_multiple_of(2).then(|| job(number))),
        2 => row.set(job(number)),
        3 => row.sizes().index(index).set(number as u16),
        4 => row.number().set(number),
        5 => desk.many().index(number as usize % 40).number().set(number),
        6 => desk.head().point_to(&row),
        7 => desk.head().clear(),
        8 => _ = desk.line().push(job(number)),
        9 => _ = desk.line().pop(),
        10 => _ = desk.table().insert(&key, job(number)),
        11 => _ = desk.table().remove(&key),
        12 => desk.grown().push(job(number)).unwrap(),
        13 => _ = desk.grown().pop(),
        14 => desk.lists().push(vec![number; number as usize]).unwrap(),
        15 => desk.lists().clear(),
        16 => desk.whole().set(self::desk(number)),
        17 => desk.jobs().set([job(number); 3]),
        18 => desk.jobs().set_each(|index| job(number + index as u64)),
        19 => desk.head().point_to(&desk.many().index(number as usize % 40)),
        20 => desk.owner.move_elsewhere().unwrap(),
        _ => desk.whole().update(|_| {
            self::act(desk, (number % 20) as u8, number / 2);
            self::act(desk, (number / 3 % 20) as u8, number / 5);
        }),
    }
}

/// Returns the version of a part, and a task that waits for its change.
fn watch<'o>(
    exports: &Exports,
    owner: &'o Owner,
    (route, part, is_unit): &Question,
) -> (Result<u64, NotRead>, bool, Option<Waiting<'o>>) {
    match exports.version(owner.number(), (route, *part, *is_unit), &Nameless) {
        Ok((Version { number, units }, _)) => {
            (Ok(number), units.is_some(), Some(owner.watchers().change(units)))
        }
        Err(error) => (Err(error), false, None),
    }
}

fn is_over(waiting: &mut Waiting<'_>) -> bool {
    Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Asks for all parts of a value, and changes the value at random.
    #[test]
    fn a_watch_is_woken_if_its_part_has_changed(acts in proptest::collection::vec((0_u8..24, 0_u64..200), 1..30)) {
        let exports = Rc::new(Exports::new(0));
        let export = exports.export("desk", &desk(0), Consistency::Cell, Readers::everybody());
        let export = export.unwrap();
        let owner = &*export.owner;
        let (shape, mut questions) = (<Desk as crate::Shared>::shape(), Vec::new());
        ask(&shape, &shape, &[], 0, &mut questions);
        let mut watches: Vec<_> =
            questions.iter().map(|question| watch(&exports, owner, question)).collect();
        for (number, (what, with)) in acts.into_iter().enumerate() {
            act(&export, what, with);
            for (question, watch) in questions.iter().zip(&mut watches) {
                let now = self::watch(&exports, owner, question);
                let (before, has_units, waiting) = watch;
                if let Some(waiting) = waiting {
                    let (is_over, is_changed) = (is_over(waiting), now.0 != *before);
                    prop_assert!(is_over || !is_changed, "{number} {what}: {question:?} sleeps");
                    prop_assert!(!is_over || is_changed || !*has_units, "{number} {what}: {question:?} was woken");
                }
                *watch = now;
            }
        }
    }
}
