//! The categories of items. Items of one category have one colour; waiting is striped, and work is not.

use crate::bill::recording::Leg;
use upbeat_core::bill::Item;

/// A category of items, which has one colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kin {
    /// The CSS class of the colour.
    pub(super) class: &'static str,
    /// A word for a narrow label.
    pub(super) word: &'static str,
    /// A description for the legend.
    pub(super) sentence: &'static str,
}

/// All categories: work first, then waiting.
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

/// The time below which a phase of waiting counts as an ordinary step.
const WAITED_NS: f64 = 1_000.0;

/// Returns the category of an item that took `ns` nanoseconds.
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
