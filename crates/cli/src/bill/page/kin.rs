//! Items that belong together have one colour. What is waited for is striped, what is done is not.

use crate::bill::recording::Leg;
use upbeat_core::bill::Item;

/// Items of one colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kin {
    /// The class that has the colour.
    pub(super) class: &'static str,
    /// A word for a narrow place.
    pub(super) word: &'static str,
    /// What it is.
    pub(super) sentence: &'static str,
}

/// All of them: work first, then what is waited for.
pub(super) const KINS: [Kin; 10] = [
    Kin { class: "caller", word: "caller", sentence: "steps of the caller" },
    Kin { class: "wire", word: "wire", sentence: "between the nodes" },
    Kin { class: "callee", word: "callee", sentence: "steps of the callee" },
    Kin { class: "run", word: "handler", sentence: "the handler runs" },
    Kin { class: "room", word: "room", sentence: "waits for room in a full lane" },
    Kin { class: "wake", word: "wake", sentence: "wakes a node that sleeps" },
    Kin { class: "busy", word: "busy", sentence: "lies before a busy node" },
    Kin { class: "lock", word: "lock", sentence: "waits for a lock" },
    Kin { class: "wait", word: "wait", sentence: "waits for a call, a timer, an event" },
    Kin { class: "queue", word: "queue", sentence: "is ready while others run" },
];

/// What takes less than this is a step on the way: nobody has waited.
const WAITED_NS: f64 = 1_000.0;

/// The one that so many nanoseconds of an item belong to.
pub(super) fn kin(item: Item, leg: Leg, ns: f64) -> Kin {
    let place = match (item, leg) {
        (Item::Room, _) if ns >= WAITED_NS => 4,
        (Item::Wake, _) if ns >= WAITED_NS => 5,
        (Item::Notice, _) if ns >= WAITED_NS => 6,
        (Item::Lock, _) => 7,
        (Item::Wait, _) => 8,
        (Item::Queue, _) if ns >= WAITED_NS => 9,
        (Item::Execute, _) => 3,
        (_, Leg::Out | Leg::Back) => 1,
        (_, Leg::Caller) => 0,
        (_, Leg::Callee) => 2,
    };
    KINS[place]
}
