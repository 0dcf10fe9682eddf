//! The figures of the paper on Express Messages.

use super::{Absent, Entry, Measured, Printed, Unit};

/// The paper.
pub(crate) const PAPER: &str = "J. W. Lee: Performance of User-Level Communication on Distributed-Memory Multiprocessors with an Optimistic Protocol, Seattle 1993";

/// The longest message that the native library, and the conservative protocol, send without
/// reserving room.
pub(crate) const SHORT: Printed = Printed {
    system: "Express Messages",
    paper: PAPER,
    table: "section 5.1, short messages",
    unit: Unit::Bytes,
    then: "two nodes of an iPSC/2; longer messages of the native library take a reservation",
    today: Measured {
        bench: "size",
        condition: "the longest payload that shares a slot with its head",
        absent: &[],
    },
    rows: &[("short message", 100.0)],
};

/// The latency by size.
pub(crate) const LATENCY: Absent = Absent {
    system: "Express Messages",
    paper: PAPER,
    table: "figure 2, latency by size",
    unit: Unit::Us,
    then: "two nodes of an iPSC/2; curves whose values are not in the text",
    why: "the paper prints no values; the same measurement is `cargo run --release -p bench -- size`",
    columns: &[],
    rows: &[],
};

/// The one-way latency with an upcall, less the latency with polling.
pub(crate) const UPCALL: Printed = Printed {
    system: "Express Messages",
    paper: PAPER,
    table: "section 5.1 and figure 2, upcall",
    unit: Unit::Us,
    then: "two nodes of an iPSC/2 whose thread spins, or has nothing to do",
    today: Measured {
        bench: "contract",
        condition: "half of a round trip of a null call between nodes that compute on another thread, less half of one between nodes that poll; a wake of the system stands in place of the upcall",
        absent: &[],
    },
    rows: &[("upcall beside polling", 27.0)],
};

/// The throughput by size.
pub(crate) const THROUGHPUT: Absent = Absent {
    system: "Express Messages",
    paper: PAPER,
    table: "figure 3, throughput by size",
    unit: Unit::Bytes,
    then: "two nodes of an iPSC/2; curves whose values are not in the text",
    why: "the paper prints no values; the same measurement is `cargo run --release -p bench -- throughput`",
    columns: &[],
    rows: &[],
};

/// One-way messages of 500 bytes to a polling receiver, each kind in percent of all messages.
pub(crate) const AT_500_BYTES: Printed = Printed {
    system: "Express Messages",
    paper: PAPER,
    table: "section 5.1, throughput at 500 bytes",
    unit: Unit::Percent,
    then: "two nodes of an iPSC/2; messages of 500 bytes, one way, to a receiver that polls",
    today: Measured {
        bench: "throughput",
        condition: "one-way messages of 500 bytes in shared memory to a polling process; the native library's row is conservative sending",
        absent: &[],
    },
    rows: &[
        ("sent optimistically", 88.0),
        ("failed", 0.0),
        ("protocol messages", 24.0),
        ("protocol messages of the native library", 200.0),
    ],
};

/// The gain over the native library.
pub(crate) const SPEEDUP: Absent = Absent {
    system: "Express Messages",
    paper: PAPER,
    table: "table 1, gain over the native library",
    unit: Unit::Percent,
    then: "Concord on an iPSC/2: Red/Black SOR on 32 processors, LocusRoute on 16",
    why: "distributed shared memory, LocusRoute and Red/Black SOR on it are not built",
    columns: &["Red/Black SOR", "LocusRoute"],
    rows: &[("performance improvement", &[7.1, 33.0])],
};

/// Messages sent optimistically.
pub(crate) const OPTIMISTIC: Absent = Absent {
    system: "Express Messages",
    paper: PAPER,
    table: "table 2, optimistic messages",
    unit: Unit::Percent,
    then: "Concord on an iPSC/2: Red/Black SOR on 32 processors, LocusRoute on 16",
    why: "distributed shared memory, LocusRoute and Red/Black SOR on it are not built",
    columns: &["Red/Black SOR", "LocusRoute"],
    rows: &[("sent optimistically", &[100.0, 99.9]), ("failed", &[0.0, 0.0])],
};

/// The gain over the conservative protocol.
pub(crate) const GAIN: Absent = Absent {
    system: "Express Messages",
    paper: PAPER,
    table: "table 3, gain over the conservative protocol",
    unit: Unit::Percent,
    then: "Concord on an iPSC/2: Red/Black SOR on 32 processors, LocusRoute on 16",
    why: "distributed shared memory, LocusRoute and Red/Black SOR on it are not built",
    columns: &["Red/Black SOR", "LocusRoute"],
    rows: &[("performance improvement", &[2.5, 11.0])],
};

/// The part of the messages that were polled.
pub(crate) const POLLED: Absent = Absent {
    system: "Express Messages",
    paper: PAPER,
    table: "table 4, messages polled",
    unit: Unit::Percent,
    then: "Concord on an iPSC/2: Red/Black SOR on 32 processors, LocusRoute on 16",
    why: "distributed shared memory, LocusRoute and Red/Black SOR on it are not built; small programs of our own stand in `cargo run --release -p bench -- contract` under their own names",
    columns: &["Red/Black SOR", "LocusRoute"],
    rows: &[("polled", &[94.0, 83.0])],
};

/// The loss of speed where messages are only polled.
pub(crate) const DEGRADATION: Absent = Absent {
    system: "Express Messages",
    paper: PAPER,
    table: "table 5, degradation without the contract",
    unit: Unit::Percent,
    then: "Concord on an iPSC/2: Red/Black SOR on 32 processors, LocusRoute on 16",
    why: "distributed shared memory, LocusRoute and Red/Black SOR on it are not built; small programs of our own stand in `cargo run --release -p bench -- contract` under their own names",
    columns: &["Red/Black SOR", "LocusRoute"],
    rows: &[("performance degradation", &[0.0, 39.0])],
};

/// All of them, in the order of the paper.
pub(super) const ALL: &[Entry] = &[
    Entry::Held(&SHORT),
    Entry::Absent(&LATENCY),
    Entry::Held(&UPCALL),
    Entry::Absent(&THROUGHPUT),
    Entry::Held(&AT_500_BYTES),
    Entry::Absent(&SPEEDUP),
    Entry::Absent(&OPTIMISTIC),
    Entry::Absent(&GAIN),
    Entry::Absent(&POLLED),
    Entry::Absent(&DEGRADATION),
];
