//! The figures of the paper on Optimistic Active Messages.

use super::{Absent, Entry, Measured, Printed, Unit};

/// The paper.
pub(crate) const PAPER: &str = "D. A. Wallach et al.: Optimistic Active Messages: A Mechanism for Scheduling Communication with Computation, PPoPP 1995";

/// The round trip of a call that increments a variable, with a server's thread that waits on a
/// condition, and with one that polls and yields.
pub(crate) const NULL: Printed = Printed {
    system: "Optimistic Active Messages",
    paper: PAPER,
    table: "table 1, null remote procedure call",
    unit: Unit::Us,
    then: "between two processors of a CM-5; the server's thread waits on a condition, or polls and yields",
    today: Measured {
        bench: "execution",
        condition: "a null call between two processes in shared memory, both polling, to a server whose own future waits on a condition (`idle`) or polls and yields (`busy`)",
        absent: &[],
    },
    rows: &[
        ("TRPC, no thread running", 21.0),
        ("TRPC, some thread running", 74.0),
        ("ORPC, no thread running", 14.0),
        ("ORPC, some thread running", 14.0),
        ("AM, no thread running", 13.0),
    ],
};

/// The costs of an abort.
pub(crate) const ABORT: Printed = Printed {
    system: "Optimistic Active Messages",
    paper: PAPER,
    table: "section 4.1.1, an abort",
    unit: Unit::Us,
    then: "between two processors of a CM-5; the handler goes on as a thread",
    today: Measured {
        bench: "execution",
        condition: "a call whose bet is lost less one whose bet is won (`orpc/idle`): by continuation after one yield, by rerun, and by nack, whose caller waits for 10 to 20 us before it sends again",
        absent: &[(
            "continuation, with a context switch",
            "a task here has no stack of its own, so that there is one kind of abort by continuation",
        )],
    },
    rows: &[("continuation, live stack", 7.0), ("continuation, with a context switch", 60.0)],
};

/// Calls by the bytes of their arguments.
pub(crate) const BULK: Absent = Absent {
    system: "Optimistic Active Messages",
    paper: PAPER,
    table: "section 4.1.2, bulk data transfer",
    unit: Unit::Us,
    then: "text without values: the difference of the three systems stays as the data grows",
    why: "the paper prints no values; the same measurement is `cargo run --release -p bench -- arguments`",
    columns: &[],
    rows: &[],
};

/// The triangle puzzle.
pub(crate) const TRIANGLE: Absent = Absent {
    system: "Optimistic Active Messages",
    paper: PAPER,
    table: "section 4.2.1 and figure 1, triangle puzzle",
    unit: Unit::Times,
    then: "a CM-5 with up to 128 processors; 6 holes on a side, 688,348 calls of 16 bytes; the curves of the figure have no values in the text",
    why: "the application is not built",
    columns: &["faster than TRPC"],
    rows: &[("ORPC", &[2.9]), ("AM", &[3.2])],
};

/// The travelling salesman.
pub(crate) const TSP: Absent = Absent {
    system: "Optimistic Active Messages",
    paper: PAPER,
    table: "table 2 and figure 2, travelling salesman",
    unit: Unit::Percent,
    then: "a CM-5; 12 cities, 7,920 partial routes; the curves of the figure have no values in the text",
    why: "the application is not built",
    columns: &["calls that succeed"],
    rows: &[
        ("1 slave", &[100.0]),
        ("2 slaves", &[100.0]),
        ("4 slaves", &[99.9]),
        ("8 slaves", &[99.9]),
        ("16 slaves", &[99.8]),
        ("32 slaves", &[99.5]),
        ("64 slaves", &[99.1]),
        ("127 slaves", &[0.0]),
    ],
};

/// Successive overrelaxation.
pub(crate) const SOR: Absent = Absent {
    system: "Optimistic Active Messages",
    paper: PAPER,
    table: "section 4.2.3 and figure 3, overrelaxation",
    unit: Unit::Percent,
    then: "a CM-5 with 128 processors; 482 x 80 points, 100 iterations; the curves of the figure have no values in the text",
    why: "the application is not built",
    columns: &["faster than TRPC"],
    rows: &[("ORPC", &[8.0])],
};

/// Water.
pub(crate) const WATER: Absent = Absent {
    system: "Optimistic Active Messages",
    paper: PAPER,
    table: "table 3 and figure 4, Water",
    unit: Unit::Percent,
    then: "a CM-5; 512 molecules, no barriers; the curves of the figure have no values in the text",
    why: "the application is not built",
    columns: &["calls that succeed"],
    rows: &[
        ("2 processors", &[100.0]),
        ("4 processors", &[100.0]),
        ("8 processors", &[100.0]),
        ("16 processors", &[100.0]),
        ("32 processors", &[99.8]),
        ("64 processors", &[99.7]),
        ("128 processors", &[99.6]),
    ],
};

/// All of them, in the order of the paper.
pub(super) const ALL: &[Entry] = &[
    Entry::Held(&NULL),
    Entry::Held(&ABORT),
    Entry::Absent(&BULK),
    Entry::Absent(&TRIANGLE),
    Entry::Absent(&TSP),
    Entry::Absent(&SOR),
    Entry::Absent(&WATER),
];
