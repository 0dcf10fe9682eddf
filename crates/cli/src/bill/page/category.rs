//! The categories of items. Items of one category have one colour; waiting is striped, and work is not.

use upbeat_core::bill::Item;
use upbeat_core::bill::timeline::Leg;

/// A category of items, which has one colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Category {
    /// The CSS class of the colour.
    pub(super) class: &'static str,
    /// A word for a narrow label.
    pub(super) word: &'static str,
    /// A description for the legend.
    pub(super) sentence: &'static str,
}

/// All categories: work first, then waiting.
pub(super) const CATEGORIES: [Category; 10] = [
    Category { class: "caller", word: "caller", sentence: "steps of the caller" },
    Category { class: "wire", word: "wire", sentence: "between the nodes" },
    Category { class: "callee", word: "callee", sentence: "steps of the callee" },
    Category { class: "run", word: "handler", sentence: "the handler runs" },
    Category { class: "room", word: "room", sentence: "waits for room in a full lane" },
    Category { class: "wake", word: "wake", sentence: "wakes a sleeping node" },
    Category { class: "busy", word: "busy", sentence: "waits for a busy node" },
    Category { class: "lock", word: "lock", sentence: "waits for a lock" },
    Category { class: "wait", word: "wait", sentence: "waits for a call, a timer, an event" },
    Category { class: "queue", word: "queue", sentence: "is ready while other tasks run" },
];

/// The time below which a phase of waiting counts as an ordinary step.
const WAITED_NS: f64 = 1_000.0;

/// Returns the category of an item that took `ns` nanoseconds.
pub(super) fn category(item: Item, leg: Leg, ns: f64) -> Category {
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
    CATEGORIES[place]
}
