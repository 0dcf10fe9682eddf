//! The figures of the papers: each once, in its printed unit, with its paper, its
//! table and its row.

/// The unit of a paper's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Percent.
    Percent,
    /// Bytes.
    Bytes,
}

/// A table of a paper, or those of its rows that have a figure of today.
#[derive(Debug)]
pub(crate) struct Printed {
    /// The system that was measured.
    pub(crate) system: &'static str,
    /// The paper.
    pub(crate) paper: &'static str,
    /// The place in the paper.
    pub(crate) table: &'static str,
    /// The unit of all rows.
    pub(crate) unit: Unit,
    /// The name and the figure of each row.
    pub(crate) rows: &'static [(&'static str, f64)],
}

const LYNX: &str =
    "M. L. Scott, A. L. Cox: An Empirical Study of Message-Passing Overhead, Rochester 1986";
const NECTAR: &str = "P. Steenkiste: Analyzing Communication Latency using the Nectar \
                      Communication Processor, SIGCOMM 1992";

const STARMOD: &str = "T. J. LeBlanc: The Design and Performance of High-Level Language Primitives \
                       for Distributed Programming, Madison 1982";

const EXPRESS: &str = "J. W. Lee: Performance of User-Level Communication on Distributed-Memory \
                       Multiprocessors with an Optimistic Protocol, Seattle 1993";

/// Remote operations with nothing and with 1000 bytes each way, by a thread made for each.
pub(crate) const LYNX_TIMES: Printed = Printed {
    system: "LYNX",
    paper: LYNX,
    table: "section 7, implicit receipt",
    unit: Unit::Ms,
    rows: &[
        ("nullop, different nodes", 2.04),
        ("nullop, same node", 2.76),
        ("bigop, different nodes", 3.72),
        ("bigop, same node", 4.42),
    ],
};

/// The length of the timeline, and the time with which section 5.2 compares it: the time of nullop on
/// separate nodes without acknowledgments, by explicit receipt.
pub(crate) const LYNX_TIMELINE: Printed = Printed {
    system: "LYNX",
    paper: LYNX,
    table: "figure 4 and section 4, explicit receipt",
    unit: Unit::Ms,
    rows: &[("sum of the timeline", 2.00), ("measured", 1.96)],
};

/// The difference between the two: "just over two percent".
pub(crate) const LYNX_DIFFERENCE: Printed = Printed {
    system: "LYNX",
    paper: LYNX,
    table: "section 5.2",
    unit: Unit::Percent,
    rows: &[("difference", 2.0)],
};

/// Half of a round trip by the request-response protocol, between two CABs.
pub(crate) const NECTAR_BREAKUP: Printed = Printed {
    system: "Nectar",
    paper: NECTAR,
    table: "table 3-1, RR",
    unit: Unit::Us,
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

/// The times of the breakdown by purpose.
pub(crate) const NECTAR_SUMMARY: Printed = Printed {
    system: "Nectar",
    paper: NECTAR,
    table: "table 3-4, RR",
    unit: Unit::Percent,
    rows: &[
        ("datalink protocol", 23.0),
        ("transport protocol", 16.0),
        ("mailbox", 34.0),
        ("context switching", 27.0),
    ],
};

/// The round trip of a call that increments a variable, with a server's thread that waits on a
/// condition, and with one that polls and yields.
pub(crate) const OAM_NULL: Printed = Printed {
    system: "Optimistic Active Messages",
    paper: "D. A. Wallach et al.: Optimistic Active Messages: A Mechanism for Scheduling \
            Communication with Computation, PPoPP 1995",
    table: "table 1, null remote procedure call",
    unit: Unit::Us,
    rows: &[
        ("TRPC, no thread running", 21.0),
        ("TRPC, some thread running", 74.0),
        ("ORPC, no thread running", 14.0),
        ("ORPC, some thread running", 14.0),
        ("AM, no thread running", 13.0),
    ],
};

/// The longest message that the native library, and the conservative protocol, send without
/// reserving room.
pub(crate) const EXPRESS_SHORT: Printed = Printed {
    system: "Express Messages",
    paper: EXPRESS,
    table: "section 5.1 and figure 2",
    unit: Unit::Bytes,
    rows: &[("short message", 100.0)],
};

/// The one-way latency with an upcall, less the latency with polling.
pub(crate) const EXPRESS_UPCALL: Printed = Printed {
    system: "Express Messages",
    paper: EXPRESS,
    table: "section 5.1 and figure 2",
    unit: Unit::Us,
    rows: &[("upcall beside polling", 27.0)],
};

/// The times of the kernel's primitives on a PDP 11/23.
pub(crate) const STARMOD_OPERATIONS: Printed = Printed {
    system: "StarMod",
    paper: STARMOD,
    table: "appendix, page 111",
    unit: Unit::Us,
    rows: &[
        ("StarMod procedure call", 83.6),
        ("Interface procedure call", 247.7),
        ("Process creation/termination", 274.7),
        ("Process switch", 220.4),
        ("Send a signal", 190.0),
        ("Wait for a signal", 236.0),
    ],
};

/// Remote procedure calls without a body, by the bytes of their arguments; a process is made for each.
pub(crate) const STARMOD_CALLS: Printed = Printed {
    system: "StarMod",
    paper: STARMOD,
    table: "figure 4-5, remote procedure calls",
    unit: Unit::Ms,
    rows: &[
        ("2 bytes", 20.13),
        ("4 bytes", 20.17),
        ("8 bytes", 20.22),
        ("16 bytes", 20.36),
        ("32 bytes", 20.60),
        ("64 bytes", 21.09),
        ("128 bytes", 22.08),
        ("256 bytes", 24.05),
        ("512 bytes", 28.00),
        ("1024 bytes", 35.88),
    ],
};

/// Remote procedure calls whose arguments are read straight into the stack of the process to be made.
pub(crate) const STARMOD_CALLS_COPY_LESS: Printed = Printed {
    system: "StarMod",
    paper: STARMOD,
    table: "figure 4-6, without argument copy",
    unit: Unit::Ms,
    rows: &[
        ("2 bytes", 20.06),
        ("4 bytes", 20.08),
        ("8 bytes", 20.13),
        ("16 bytes", 20.22),
        ("32 bytes", 20.41),
        ("64 bytes", 20.80),
        ("128 bytes", 21.54),
        ("256 bytes", 23.04),
        ("512 bytes", 26.03),
        ("1024 bytes", 32.02),
    ],
};

/// One-way messages of 500 bytes to a polling receiver, each kind in percent of all messages.
pub(crate) const EXPRESS_500: Printed = Printed {
    system: "Express Messages",
    paper: EXPRESS,
    table: "section 5.1, throughput at 500 bytes",
    unit: Unit::Percent,
    rows: &[
        ("sent optimistically", 88.0),
        ("failed", 0.0),
        ("protocol messages", 24.0),
        ("protocol messages of the native library", 200.0),
    ],
};

/// The part of the messages that were polled.
pub(crate) const EXPRESS_POLLED: Printed = Printed {
    system: "Express Messages",
    paper: EXPRESS,
    table: "table 4, messages polled",
    unit: Unit::Percent,
    rows: &[("Red/Black SOR", 94.0), ("LocusRoute", 83.0)],
};

/// The loss of speed where messages are only polled.
pub(crate) const EXPRESS_DEGRADATION: Printed = Printed {
    system: "Express Messages",
    paper: EXPRESS,
    table: "table 5, degradation without the contract",
    unit: Unit::Percent,
    rows: &[("Red/Black SOR", 0.0), ("LocusRoute", 39.0)],
};

impl Printed {
    /// Returns the figure of a row: nanoseconds, percent or bytes.
    pub(crate) fn value(&self, row: &str) -> Option<f64> {
        let (_, value) = self.rows.iter().find(|(name, _)| *name == row)?;
        Some(match self.unit {
            Unit::Ms => value * 1e6,
            Unit::Us => value * 1e3,
            Unit::Percent | Unit::Bytes => *value,
        })
    }

    /// Returns the sum of the rows whose names begin with one of these, in nanoseconds or percent.
    pub(crate) fn sum(&self, begin: &[&str]) -> f64 {
        let names = self.rows.iter().map(|(name, _)| *name);
        let named = names.filter(|name| begin.iter().any(|begin| name.starts_with(begin)));
        named.filter_map(|name| self.value(name)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[&Printed] = &[
        &LYNX_TIMES,
        &LYNX_TIMELINE,
        &LYNX_DIFFERENCE,
        &NECTAR_BREAKUP,
        &NECTAR_SUMMARY,
        &OAM_NULL,
        &EXPRESS_SHORT,
        &EXPRESS_UPCALL,
        &EXPRESS_500,
        &EXPRESS_POLLED,
        &EXPRESS_DEGRADATION,
        &STARMOD_OPERATIONS,
        &STARMOD_CALLS,
        &STARMOD_CALLS_COPY_LESS,
    ];

    #[test]
    fn every_figure_names_its_source() {
        for printed in ALL {
            assert!(printed.paper.ends_with(|last: char| last.is_ascii_digit()), "the year");
            assert!(printed.table.contains(|one: char| one.is_ascii_digit()), "the place");
            assert!(!printed.rows.is_empty());
            for (at, (row, _)) in printed.rows.iter().enumerate() {
                assert!(printed.rows[..at].iter().all(|(other, _)| other != row), "{row} twice");
            }
        }
    }

    #[test]
    fn what_the_papers_add_up_adds_up() {
        let parts = NECTAR_BREAKUP.sum(&["send", "receive"]);
        assert_eq!(Some(parts), NECTAR_BREAKUP.value("total"));
        assert_eq!(NECTAR_SUMMARY.sum(&[""]), 100.0);
        let datalink = NECTAR_BREAKUP.sum(&["send: datalink", "receive: datalink"]);
        assert_eq!((100.0 * datalink / parts).round(), 23.0);
        let sum = LYNX_TIMELINE.value("sum of the timeline").unwrap();
        let measured = LYNX_TIMELINE.value("measured").unwrap();
        let difference = LYNX_DIFFERENCE.value("difference").unwrap();
        assert!((100.0 * (sum / measured - 1.0) - difference).abs() < 0.5);
        assert_eq!(LYNX_TIMES.value("nullop, same node"), Some(2.76e6));
        assert_eq!(LYNX_TIMES.value("nullop, explicit receipt"), None);
    }
}
