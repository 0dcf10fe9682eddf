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
    /// Instructions.
    Instructions,
    /// So many times another figure.
    Times,
}

impl Unit {
    /// Returns the unit of [`Printed::value`], for programs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Unit::Ms | Unit::Us => "ns",
            Unit::Percent => "percent",
            Unit::Bytes => "bytes",
            Unit::Instructions => "instructions",
            Unit::Times => "times",
        }
    }
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

/// References to a variable of another machine, by its bytes; the paper's 1 Mb/s network is 14 to 59% busy.
pub(crate) const STARMOD_REFERENCES: Printed = Printed {
    system: "StarMod",
    paper: STARMOD,
    table: "figure 5-1, remote variable references",
    unit: Unit::Us,
    rows: &[
        ("2 bytes", 880.0),
        ("4 bytes", 977.0),
        ("8 bytes", 1028.0),
        ("16 bytes", 1122.0),
        ("32 bytes", 1324.0),
        ("64 bytes", 1730.0),
        ("128 bytes", 2547.0),
        ("256 bytes", 4178.0),
        ("512 bytes", 7439.0),
        ("1024 bytes", 13_963.0),
    ],
};

/// References whose values are sent from where they are, without a copy into the packet.
pub(crate) const STARMOD_REFERENCES_COPY_LESS: Printed = Printed {
    system: "StarMod",
    paper: STARMOD,
    table: "figure 5-3, without copy",
    unit: Unit::Us,
    rows: &[
        ("2 bytes", 880.0),
        ("4 bytes", 899.0),
        ("8 bytes", 931.0),
        ("16 bytes", 995.0),
        ("32 bytes", 1128.0),
        ("64 bytes", 1391.0),
        ("128 bytes", 1915.0),
        ("256 bytes", 2966.0),
        ("512 bytes", 5066.0),
        ("1024 bytes", 9301.0),
    ],
};

/// The instructions of a reference, without those that the size adds: two for each unit of it.
pub(crate) const STARMOD_INSTRUCTIONS: Printed = Printed {
    system: "StarMod",
    paper: STARMOD,
    table: "figure 5-2, instructions of a reference",
    unit: Unit::Instructions,
    rows: &[
        ("reader: push arguments", 4.0),
        ("reader: procedure setup", 10.0),
        ("reader: setup request", 30.0),
        ("reader: await completion of it", 3.0),
        ("reader: setup read request", 7.0),
        ("reader: await completion", 3.0),
        ("owner: handle interrupt", 35.0),
        ("owner: process switch", 36.0),
        ("owner: setup response", 32.0),
        ("owner: copy reply data", 10.0),
        ("owner: send reply", 33.0),
        ("reader: cleanup", 16.0),
        ("reader: procedure exit", 10.0),
        ("reader: pop arguments", 1.0),
    ],
};

/// The time that one level of qualification, and synchronisation, add to a reference of 2 bytes: both are estimates.
pub(crate) const STARMOD_EFFECTS: Printed = Printed {
    system: "StarMod",
    paper: STARMOD,
    table: "sections 5.4.4.4 and 5.4.4.5, more than a plain reference",
    unit: Unit::Percent,
    rows: &[("one level of qualification", 10.0), ("synchronisation", 6.0)],
};

/// Each primitive with 2 bytes of arguments, between two machines.
pub(crate) const STARMOD_REMOTE: Printed = Printed {
    system: "StarMod",
    paper: STARMOD,
    table: "figure 6-1, remote",
    unit: Unit::Us,
    rows: &[
        ("Asynchronous Port Call", 11_110.0),
        ("Synchronous Port Call", 20_730.0),
        ("Memory Reference", 880.0),
        ("Procedure Call", 20_130.0),
    ],
};

/// The same on one machine.
pub(crate) const STARMOD_LOCAL: Printed = Printed {
    system: "StarMod",
    paper: STARMOD,
    table: "figure 6-1, local",
    unit: Unit::Us,
    rows: &[
        ("Asynchronous Port Call", 3600.0),
        ("Synchronous Port Call", 4760.0),
        ("Memory Reference", 4.27),
        ("Procedure Call", 84.0),
    ],
};

/// The ratio of the two, as printed.
pub(crate) const STARMOD_RATIOS: Printed = Printed {
    system: "StarMod",
    paper: STARMOD,
    table: "figure 6-1, ratio of remote to local",
    unit: Unit::Times,
    rows: &[
        ("Asynchronous Port Call", 3.1),
        ("Synchronous Port Call", 4.4),
        ("Memory Reference", 206.0),
        ("Procedure Call", 240.0),
    ],
};

/// The instructions per second that a program loses to references of which 1% are remote. The paper computes both.
pub(crate) const STARMOD_PROGRAM: Printed = Printed {
    system: "StarMod",
    paper: STARMOD,
    table: "sections 5.5 and 6.2.1.1, degradation of a program",
    unit: Unit::Percent,
    rows: &[("1% of references are remote", 59.3), ("1% of the remote ones fail", 64.0)],
};

/// The factor by which a reference that fails, and is issued again as a message, takes longer.
pub(crate) const STARMOD_FAILED: Printed = Printed {
    system: "StarMod",
    paper: STARMOD,
    table: "section 6.2.1.1, a reference that fails",
    unit: Unit::Times,
    rows: &[("a reference that fails", 23.0)],
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
    /// Returns the figure of a row: nanoseconds, or what the unit says.
    pub(crate) fn value(&self, row: &str) -> Option<f64> {
        let (_, value) = self.rows.iter().find(|(name, _)| *name == row)?;
        Some(match self.unit {
            Unit::Ms => value * 1e6,
            Unit::Us => value * 1e3,
            Unit::Percent | Unit::Bytes | Unit::Instructions | Unit::Times => *value,
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
        &STARMOD_REFERENCES,
        &STARMOD_REFERENCES_COPY_LESS,
        &STARMOD_INSTRUCTIONS,
        &STARMOD_EFFECTS,
        &STARMOD_REMOTE,
        &STARMOD_LOCAL,
        &STARMOD_RATIOS,
        &STARMOD_PROGRAM,
        &STARMOD_FAILED,
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

    #[test]
    fn what_starmod_computes_follows_from_what_it_measures() {
        for (row, ratio) in STARMOD_RATIOS.rows {
            let (remote, local) = (STARMOD_REMOTE.value(row), STARMOD_LOCAL.value(row));
            let found = remote.unwrap() / local.unwrap();
            assert!((found / ratio - 1.0).abs() < 0.02, "{row}: {found}");
        }
        // An instruction of the paper's machine takes 6 us on average.
        let (local, remote) = (6e3, STARMOD_REFERENCES.value("2 bytes").unwrap());
        let failed = remote * STARMOD_FAILED.rows[0].1;
        let degradation = |other: f64| 100.0 * (1.0 - local / (0.99 * local + 0.01 * other));
        let found = [degradation(remote), degradation(0.99 * remote + 0.01 * failed)];
        for (found, (row, printed)) in found.into_iter().zip(STARMOD_PROGRAM.rows) {
            assert!((found - printed).abs() < 0.2, "{row}: {found}");
        }
        let (reader, owner) =
            (STARMOD_INSTRUCTIONS.sum(&["reader"]), STARMOD_INSTRUCTIONS.sum(&["owner"]));
        assert_eq!((reader, owner), (84.0, 146.0));
    }
}
