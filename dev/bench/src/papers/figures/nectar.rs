//! The figures of the paper on Nectar.

use super::{Absent, Entry, Measured, Printed, Unit};

/// The paper.
pub(crate) const PAPER: &str = "P. Steenkiste: Analyzing Communication Latency using the Nectar Communication Processor, SIGCOMM 1992";

/// The latency of each protocol.
pub(crate) const LATENCY: Absent = Absent {
    system: "Nectar",
    paper: PAPER,
    table: "table 2-1, message latency",
    unit: Unit::Us,
    then: "between two communication processors (SPARC), half of a round trip of one word, and between two hosts by them",
    why: "one-way messages have no round trip and no bill, UDP is no carrier, and there is no communication processor; a round trip by request and response stands under table 3-1",
    columns: &["datagram", "RR", "RMP", "UDP"],
    rows: &[
        ("CAB-CAB", &[97.0, 154.0, 127.0, 234.0]),
        ("host-host", &[169.0, 225.0, 213.0, 308.0]),
    ],
};

/// Half of a round trip by the request-response protocol, between two CABs.
pub(crate) const BREAKUP: Printed = Printed {
    system: "Nectar",
    paper: PAPER,
    table: "table 3-1, RR",
    unit: Unit::Us,
    then: "between two communication processors (SPARC), half of a round trip of one word",
    today: Measured {
        bench: "papers",
        condition: "half of a null call, by its bill, between threads and processes that poll or sleep",
        absent: &[
            ("send: other", "nothing is charged to it"),
            ("receive: interrupt handling", "in `receive: context switching`"),
            ("receive: conditions", "in `receive: context switching`"),
            ("receive: thread switch", "in `receive: context switching`"),
            ("receive: register windows", "in `receive: context switching`"),
        ],
    },
    rows: &[
        ("send: datalink protocol", 12.0),
        ("send: transport protocol", 7.0),
        ("send: mailbox put", 8.0),
        ("send: other", 9.0),
        ("receive: interrupt handling", 7.0),
        ("receive: datalink protocol", 24.0),
        ("receive: transport protocol", 18.0),
        ("receive: mailbox put + get", 35.0),
        ("receive: conditions", 10.0),
        ("receive: thread switch", 0.0),
        ("receive: register windows", 24.0),
        ("total", 154.0),
    ],
};

/// The rows of the other protocols.
pub(crate) const BREAKUP_OTHERS: Absent = Absent {
    system: "Nectar",
    paper: PAPER,
    table: "table 3-1, other protocols",
    unit: Unit::Us,
    then: "between two communication processors (SPARC), half of a round trip of one word",
    why: "one-way messages have no bill, and UDP is no carrier",
    columns: &["datagram", "RMP", "UDP"],
    rows: &[
        ("send: datalink protocol", &[14.0, 12.0, 14.0]),
        ("send: transport protocol", &[6.0, 22.0, 23.0]),
        ("send: mailbox put", &[0.0, 0.0, 8.0]),
        ("send: other", &[2.0, 2.0, 0.0]),
        ("receive: interrupt handling", &[7.0, 7.0, 7.0]),
        ("receive: datalink protocol", &[18.0, 44.0, 23.0]),
        ("receive: transport protocol", &[0.0, 9.0, 27.0]),
        ("receive: mailbox put + get", &[28.0, 25.0, 52.0]),
        ("receive: conditions", &[10.0, 0.0, 21.0]),
        ("receive: thread switch", &[0.0, 0.0, 11.0]),
        ("receive: register windows", &[12.0, 6.0, 48.0]),
        ("total", &[97.0, 127.0, 234.0]),
    ],
};

/// The costs of context switches.
pub(crate) const SWITCHES: Absent = Absent {
    system: "Nectar",
    paper: PAPER,
    table: "table 3-2, context switches",
    unit: Unit::Us,
    then: "between two communication processors (SPARC), half of a round trip of one word",
    why: "today's processors have no register windows, and no upcall in an interrupt",
    columns: &["datagram", "RR", "RMP", "UDP"],
    rows: &[
        ("conditions", &[10.0, 10.0, 0.0, 21.0]),
        ("thread switch", &[0.0, 0.0, 0.0, 11.0]),
        ("global state", &[3.0, 3.0, 3.0, 3.0]),
        ("register windows", &[14.3, 26.3, 8.3, 50.3]),
        ("save and restore, in all", &[17.3, 29.3, 11.3, 53.3]),
    ],
};

/// Context switches with 13 register windows.
pub(crate) const SWITCHES_13: Absent = Absent {
    system: "Nectar",
    paper: PAPER,
    table: "table 3-3, context switches with 13 windows",
    unit: Unit::Us,
    then: "between two communication processors (SPARC), half of a round trip of one word, simulated",
    why: "today's processors have no register windows",
    columns: &["datagram", "RR", "RMP", "UDP"],
    rows: &[
        ("conditions", &[10.0, 10.0, 0.0, 21.0]),
        ("thread switch", &[0.0, 0.0, 0.0, 11.0]),
        ("global state", &[3.0, 3.0, 3.0, 3.0]),
        ("register windows", &[2.3, 2.3, 2.3, 50.3]),
        ("save and restore, in all", &[5.3, 5.3, 5.3, 53.3]),
    ],
};

/// The times of the breakdown by purpose.
pub(crate) const SUMMARY: Printed = Printed {
    system: "Nectar",
    paper: PAPER,
    table: "table 3-4, RR",
    unit: Unit::Percent,
    then: "between two communication processors (SPARC), half of a round trip of one word",
    today: Measured {
        bench: "papers",
        condition: "the bill of a null call, both directions",
        absent: &[],
    },
    rows: &[
        ("datalink protocol", 23.0),
        ("transport protocol", 16.0),
        ("mailbox", 34.0),
        ("context switching", 27.0),
    ],
};

/// The rows of the other protocols.
pub(crate) const SUMMARY_OTHERS: Absent = Absent {
    system: "Nectar",
    paper: PAPER,
    table: "table 3-4, other protocols",
    unit: Unit::Us,
    then: "between two communication processors (SPARC), half of a round trip of one word",
    why: "one-way messages have no bill, and UDP is no carrier",
    columns: &["datagram", "RMP", "UDP"],
    rows: &[
        ("datalink protocol", &[32.0, 56.0, 37.0]),
        ("transport protocol", &[6.0, 31.0, 50.0]),
        ("mailbox", &[30.0, 27.0, 60.0]),
        ("context switching", &[29.0, 13.0, 87.0]),
    ],
};

/// The breakup of the latency between hosts.
pub(crate) const HOSTS: Absent = Absent {
    system: "Nectar",
    paper: PAPER,
    table: "table 4-1, host-host latency",
    unit: Unit::Us,
    then: "between two hosts by their communication processors",
    why: "there is no communication processor: nodes run the protocols themselves",
    columns: &["datagram", "RR", "RMP", "UDP"],
    rows: &[
        ("host to CAB", &[52.0, 52.0, 52.0, 52.0]),
        ("send: interrupt handling", &[7.0, 7.0, 7.0, 7.0]),
        ("send: conditions", &[10.0, 10.0, 10.0, 10.0]),
        ("send: datalink protocol", &[14.0, 12.0, 12.0, 14.0]),
        ("send: transport protocol", &[6.0, 7.0, 22.0, 23.0]),
        ("send: mailbox", &[8.0, 8.0, 8.0, 8.0]),
        ("send: register windows", &[0.0, 0.0, 0.0, 24.0]),
        ("send: thread switch", &[0.0, 0.0, 0.0, 6.0]),
        ("receive: interrupt handling", &[7.0, 7.0, 7.0, 7.0]),
        ("receive: conditions", &[0.0, 0.0, 0.0, 10.0]),
        ("receive: datalink protocol", &[18.0, 24.0, 24.0, 23.0]),
        ("receive: transport protocol", &[0.0, 18.0, 7.0, 27.0]),
        ("receive: mailbox put", &[18.0, 25.0, 18.0, 38.0]),
        ("receive: register windows", &[6.0, 18.0, 12.0, 24.0]),
        ("receive: thread switch", &[0.0, 0.0, 0.0, 5.0]),
        ("CAB to host", &[26.0, 26.0, 26.0, 26.0]),
        ("estimate", &[172.0, 214.0, 205.0, 304.0]),
        ("measured", &[169.0, 225.0, 213.0, 308.0]),
    ],
};

/// The estimate for a hardwired engine.
pub(crate) const HARDWIRED: Absent = Absent {
    system: "Nectar",
    paper: PAPER,
    table: "table 4-2, host-host latency with a hardwired engine",
    unit: Unit::Us,
    then: "estimated",
    why: "there is no communication processor: nodes run the protocols themselves",
    columns: &["datagram", "RR", "RMP", "UDP"],
    rows: &[
        ("host to CAB", &[20.0, 20.0, 20.0, 20.0]),
        ("send: interrupt handling", &[2.0, 2.0, 2.0, 2.0]),
        ("send: datalink protocol", &[14.0, 12.0, 12.0, 14.0]),
        ("send: transport protocol", &[6.0, 7.0, 22.0, 23.0]),
        ("send: invoke transport", &[3.0, 3.0, 3.0, 3.0]),
        ("receive: interrupt handling", &[2.0, 2.0, 2.0, 2.0]),
        ("receive: mailbox put", &[10.0, 10.0, 10.0, 10.0]),
        ("receive: datalink protocol", &[18.0, 24.0, 24.0, 23.0]),
        ("receive: transport protocol", &[0.0, 18.0, 7.0, 27.0]),
        ("CAB to host", &[20.0, 20.0, 20.0, 20.0]),
        ("hardwired", &[95.0, 118.0, 131.0, 144.0]),
        ("flexible", &[172.0, 214.0, 205.0, 304.0]),
    ],
};

/// All of them, in the order of the paper.
pub(super) const ALL: &[Entry] = &[
    Entry::Absent(&LATENCY),
    Entry::Held(&BREAKUP),
    Entry::Absent(&BREAKUP_OTHERS),
    Entry::Absent(&SWITCHES),
    Entry::Absent(&SWITCHES_13),
    Entry::Held(&SUMMARY),
    Entry::Absent(&SUMMARY_OTHERS),
    Entry::Absent(&HOSTS),
    Entry::Absent(&HARDWIRED),
];
