//! The figures of the paper on LYNX.

use super::{Absent, Entry, Measured, Printed, Unit};

/// The paper.
pub(crate) const PAPER: &str =
    "M. L. Scott, A. L. Cox: An Empirical Study of Message-Passing Overhead, Rochester 1986";

/// The four revisions of a process that sends to itself.
pub(crate) const OPTIMISATIONS: Absent = Absent {
    system: "LYNX",
    paper: PAPER,
    table: "section 4, revisions",
    unit: Unit::Ms,
    then: "a process that sends null operations to itself, after each revision",
    why: "a history of LYNX, of which nothing can be measured again",
    columns: &["round trip"],
    rows: &[
        ("at first", &[5.9]),
        ("optimised and without debugging support", &[4.0]),
        ("after the last revision", &[2.78]),
    ],
};

/// The three protocols, by explicit receipt.
pub(crate) const PROTOCOLS: Absent = Absent {
    system: "LYNX",
    paper: PAPER,
    table: "section 4 and figure 2, explicit receipt",
    unit: Unit::Ms,
    then: "two processes of a Butterfly with 8 MHz 68000 processors; a thread accepts each request",
    why: "explicit receipt (`accept`) is not built",
    columns: &[
        "nullop, different nodes",
        "nullop, same node",
        "bigop, different nodes",
        "bigop, same node",
    ],
    rows: &[
        ("acknowledgments of requests and replies", &[2.16, 3.55, 3.79, 5.19]),
        ("no request acknowledgments", &[2.22, 3.26, 3.67, 4.9]),
        ("no request or reply acknowledgments", &[1.96, 2.82, 3.59, 4.42]),
    ],
};

/// The share of each category of work in an operation.
pub(crate) const SHARES: Absent = Absent {
    system: "LYNX",
    paper: PAPER,
    table: "figure 3, cost breakdown",
    unit: Unit::Percent,
    then: "instructions of a process that sends null operations to itself",
    why: "the shares of a call are counted and not timed, by `cargo xtask instructions --categories`, which prints them beside these",
    columns: &["of all work"],
    rows: &[
        ("threads", &[22.4]),
        ("threads: queue management", &[4.8]),
        ("threads: context switches", &[6.4]),
        ("threads: buffer acquisition", &[1.3]),
        ("threads: queue searching (dispatcher)", &[3.1]),
        ("threads: cactus stack", &[6.8]),
        ("checking", &[18.1]),
        ("checking: are connect and accept links valid?", &[1.6]),
        ("checking: is notice link valid?", &[1.6]),
        ("checking: run-time type checking", &[0.8]),
        ("checking: general overhead for LYNX exceptions", &[0.6]),
        ("checking: establishment of LYNX exception handlers", &[4.4]),
        ("checking: establishment of Chrysalis exception handler", &[9.2]),
        ("miscellaneous", &[22.2]),
        ("miscellaneous: client and server for loops", &[0.6]),
        ("miscellaneous: dispatcher while loop, switch", &[1.4]),
        ("miscellaneous: procedure-call overhead", &[14.7]),
        ("miscellaneous: loading of registers", &[5.6]),
        ("bookkeeping", &[10.6]),
        ("communication", &[20.6]),
        ("communication: set, clear flags", &[12.4]),
        ("communication: enqueue, dequeue notices", &[7.3]),
        ("communication: find addresses of buffers", &[1.0]),
        ("options", &[6.4]),
        ("options: link movement", &[2.0]),
        ("options: background threads", &[1.0]),
        ("options: premature requests", &[1.6]),
        ("options: optional acknowledgments", &[1.8]),
    ],
};

/// The length of the timeline, and the time with which section 5.2 compares it: the time of nullop on
/// separate nodes without acknowledgments, by explicit receipt.
pub(crate) const TIMELINE: Printed = Printed {
    system: "LYNX",
    paper: PAPER,
    table: "figure 4 and section 4, explicit receipt",
    unit: Unit::Ms,
    then: "two processes of a Butterfly with 8 MHz 68000 processors; a null operation by explicit receipt, estimated from the parts, and as measured",
    today: Measured {
        bench: "papers",
        condition: "a null call between two processes, or threads, that poll, by its bill; its handler runs where its message lies, since explicit receipt is not built",
        absent: &[],
    },
    rows: &[("sum of the timeline", 2.00), ("measured", 1.96)],
};

/// The difference between the two: "just over two percent".
pub(crate) const DIFFERENCE: Printed = Printed {
    system: "LYNX",
    paper: PAPER,
    table: "section 5.2",
    unit: Unit::Percent,
    then: "the timeline beside the measured operation",
    today: Measured {
        bench: "papers",
        condition: "the sum of the bill beside the same calls without samples",
        absent: &[],
    },
    rows: &[("difference", 2.0)],
};

/// The costs of threads and movable links.
pub(crate) const MARGINAL: Absent = Absent {
    system: "LYNX",
    paper: PAPER,
    table: "section 6.1, marginal costs",
    unit: Unit::Percent,
    then: "from the instructions of figure 3",
    why: "links that move are not built, and a null call makes no task",
    columns: &["of an operation"],
    rows: &[("threads", &[22.4]), ("movable links", &[9.0])],
};

/// The last times by explicit receipt.
pub(crate) const EXPLICIT: Absent = Absent {
    system: "LYNX",
    paper: PAPER,
    table: "section 7, explicit receipt",
    unit: Unit::Ms,
    then: "two processes of a Butterfly with 8 MHz 68000 processors; a thread accepts each request",
    why: "explicit receipt (`accept`) is not built",
    columns: &["different nodes", "same node"],
    rows: &[("nullop", &[1.8, 2.58]), ("bigop", &[3.45, 4.21])],
};

/// Remote operations with nothing and with 1000 bytes each way, by a thread made for each.
pub(crate) const TIMES: Printed = Printed {
    system: "LYNX",
    paper: PAPER,
    table: "section 7, implicit receipt",
    unit: Unit::Ms,
    then: "two processes of a Butterfly with 8 MHz 68000 processors; a thread is made for each request; nothing and 1,000 bytes each way",
    today: Measured {
        bench: "papers",
        condition: "two processes in shared memory, each on a CPU of its own (`different nodes`, polling and sleeping) or both on one (`same node`, sleeping); a task is made for each request (`trpc`)",
        absent: &[],
    },
    rows: &[
        ("nullop, different nodes", 2.04),
        ("nullop, same node", 2.76),
        ("bigop, different nodes", 3.72),
        ("bigop, same node", 4.42),
    ],
};

/// All of them, in the order of the paper.
pub(super) const ALL: &[Entry] = &[
    Entry::Absent(&OPTIMISATIONS),
    Entry::Absent(&PROTOCOLS),
    Entry::Absent(&SHARES),
    Entry::Held(&TIMELINE),
    Entry::Held(&DIFFERENCE),
    Entry::Absent(&MARGINAL),
    Entry::Absent(&EXPLICIT),
    Entry::Held(&TIMES),
];
