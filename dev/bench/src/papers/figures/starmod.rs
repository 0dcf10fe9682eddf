//! The figures of the paper on StarMod, except those that nothing of today stands beside.

use super::{Measured, Printed, Unit};

/// The paper.
pub(crate) const PAPER: &str = "T. J. LeBlanc: The Design and Performance of High-Level Language Primitives for Distributed Programming, Madison 1982";

const IN_PLACE: &str = "bytes that are read in place begin with their count, which takes eight";

/// Remote procedure calls without a body, by the bytes of their arguments; a process is made for each.
pub(crate) const CALLS: Printed = Printed {
    system: "StarMod",
    paper: PAPER,
    table: "figure 4-5, remote procedure calls",
    unit: Unit::Ms,
    then: "two PDP 11/23 processors on a network of 1 Mb/s; a process is made for each call, whose body does nothing",
    today: Measured {
        bench: "arguments",
        condition: "a call between two polling processes in shared memory; a task is made for each (`trpc`), and reads every byte",
        absent: &[],
    },
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
pub(crate) const CALLS_COPY_LESS: Printed = Printed {
    system: "StarMod",
    paper: PAPER,
    table: "figure 4-6, without argument copy",
    unit: Unit::Ms,
    then: "two PDP 11/23 processors on a network of 1 Mb/s; arguments are received into the stack of the process to be made",
    today: Measured {
        bench: "arguments",
        condition: "the same call, whose handler reads the bytes where they lie, optimistically, and reads every byte",
        absent: &[("2 bytes", IN_PLACE), ("4 bytes", IN_PLACE)],
    },
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
pub(crate) const REFERENCES: Printed = Printed {
    system: "StarMod",
    paper: PAPER,
    table: "figure 5-1, remote variable references",
    unit: Unit::Us,
    then: "two PDP 11/23 processors on a network of 1 Mb/s, whose owner answers in an interrupt",
    today: Measured {
        bench: "reads",
        condition: "`shared`: `try_read()` of another process's memory, whose owner does nothing; `stream`: a call to the owner over a Unix socket, both polling",
        absent: &[],
    },
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

/// The instructions of a reference, without those that the size adds: two for each unit of it.
pub(crate) const INSTRUCTIONS: Printed = Printed {
    system: "StarMod",
    paper: PAPER,
    table: "figure 5-2, instructions of a reference",
    unit: Unit::Instructions,
    then: "two PDP 11/23 processors on a network of 1 Mb/s; plus two instructions for each word at the owner",
    today: Measured {
        bench: "reads",
        condition: "instructions under callgrind, from dev/xtask/instructions.gate; the owner executes none",
        absent: &[(
            "",
            "not counted by parts: the reader's are `reader: all`, and the owner executes none",
        )],
    },
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

/// References whose values are sent from where they are, without a copy into the packet.
pub(crate) const REFERENCES_COPY_LESS: Printed = Printed {
    system: "StarMod",
    paper: PAPER,
    table: "figure 5-3, without copy",
    unit: Unit::Us,
    then: "two PDP 11/23 processors on a network of 1 Mb/s; the value is sent from where it is",
    today: Measured {
        bench: "reads",
        condition: "`try_read_into` a variable of the reader, in shared memory; over a stream there is no such read",
        absent: &[],
    },
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

/// The time that one level of qualification, and synchronisation, add to a reference of 2 bytes: both are estimates.
pub(crate) const EFFECTS: Printed = Printed {
    system: "StarMod",
    paper: PAPER,
    table: "sections 5.4.4.4 and 5.4.4.5, more than a plain reference",
    unit: Unit::Percent,
    then: "two PDP 11/23 processors on a network of 1 Mb/s; estimated",
    today: Measured {
        bench: "reads",
        condition: "over a Unix socket, both polling; qualification: an element whose index is another number of the export, looked up at the owner; synchronisation: an element of a guarded export, whose lock is free",
        absent: &[],
    },
    rows: &[("one level of qualification", 10.0), ("synchronisation", 6.0)],
};

/// The instructions per second that a program loses to references of which 1% are remote. The paper computes both.
pub(crate) const PROGRAM: Printed = Printed {
    system: "StarMod",
    paper: PAPER,
    table: "sections 5.5 and 6.2.1.1, degradation of a program",
    unit: Unit::Percent,
    then: "two PDP 11/23 processors on a network of 1 Mb/s; computed from 6 us an instruction",
    today: Measured {
        bench: "reads",
        condition: "a pass over 10,000 elements, each with the index of the next; remote elements in shared memory (`shared`) or by calls (`stream`); a failing reference loses its bet in memory, because the owner is changing the value, and becomes a call",
        absent: &[],
    },
    rows: &[("1% of references are remote", 59.3), ("1% of the remote ones fail", 64.0)],
};

/// The factor by which a reference that fails, and is issued again as a message, takes longer.
pub(crate) const FAILED: Printed = Printed {
    system: "StarMod",
    paper: PAPER,
    table: "section 6.2.1.1, a reference that fails",
    unit: Unit::Times,
    then: "two PDP 11/23 processors on a network of 1 Mb/s; issued again as a message",
    today: Measured {
        bench: "reads",
        condition: "reads of a value that its owner changes again and again; each loses its bet and becomes a call",
        absent: &[],
    },
    rows: &[("a reference that fails", 23.0)],
};

/// Each primitive with 2 bytes of arguments, between two machines.
pub(crate) const REMOTE: Printed = Printed {
    system: "StarMod",
    paper: PAPER,
    table: "figure 6-1, remote",
    unit: Unit::Us,
    then: "two PDP 11/23 processors on a network of 1 Mb/s",
    today: Measured {
        bench: "reads",
        condition: "2 bytes between two processes: a read of shared memory, and a call that polls on both sides",
        absent: &[
            ("Asynchronous Port Call", "ports are not built"),
            ("Synchronous Port Call", "ports are not built"),
        ],
    },
    rows: &[
        ("Asynchronous Port Call", 11_110.0),
        ("Synchronous Port Call", 20_730.0),
        ("Memory Reference", 880.0),
        ("Procedure Call", 20_130.0),
    ],
};

/// The same on one machine.
pub(crate) const LOCAL: Printed = Printed {
    system: "StarMod",
    paper: PAPER,
    table: "figure 6-1, local",
    unit: Unit::Us,
    then: "one PDP 11/23",
    today: Measured {
        bench: "reads",
        condition: "2 bytes within a process: a copy of a variable, and a procedure",
        absent: &[
            ("Asynchronous Port Call", "ports are not built"),
            ("Synchronous Port Call", "ports are not built"),
        ],
    },
    rows: &[
        ("Asynchronous Port Call", 3600.0),
        ("Synchronous Port Call", 4760.0),
        ("Memory Reference", 4.27),
        ("Procedure Call", 84.0),
    ],
};

/// The ratio of the two, as printed.
pub(crate) const RATIOS: Printed = Printed {
    system: "StarMod",
    paper: PAPER,
    table: "figure 6-1, ratio of remote to local",
    unit: Unit::Times,
    then: "two PDP 11/23 processors on a network of 1 Mb/s",
    today: Measured {
        bench: "reads",
        condition: "the medians of pairwise ratios of the two",
        absent: &[
            (
                "Asynchronous Port Call",
                "ports are not built; one-way messages and items of streams stand beside it",
            ),
            ("Synchronous Port Call", "ports are not built"),
        ],
    },
    rows: &[
        ("Asynchronous Port Call", 3.1),
        ("Synchronous Port Call", 4.4),
        ("Memory Reference", 206.0),
        ("Procedure Call", 240.0),
    ],
};

/// The times of the kernel's primitives on a PDP 11/23.
pub(crate) const OPERATIONS: Printed = Printed {
    system: "StarMod",
    paper: PAPER,
    table: "appendix, page 111",
    unit: Unit::Us,
    then: "a PDP 11/23, whose processes have stacks",
    today: Measured {
        bench: "tasks",
        condition: "tasks of one node, on one CPU",
        absent: &[
            ("Send a signal", "in `Send a signal, wait for a signal`"),
            ("Wait for a signal", "in `Send a signal, wait for a signal`"),
        ],
    },
    rows: &[
        ("StarMod procedure call", 83.6),
        ("Interface procedure call", 247.7),
        ("Process creation/termination", 274.7),
        ("Process switch", 220.4),
        ("Send a signal", 190.0),
        ("Wait for a signal", 236.0),
    ],
};

#[cfg(test)]
mod tests {
    use super::{FAILED, INSTRUCTIONS, LOCAL, PROGRAM, RATIOS, REFERENCES, REMOTE};

    #[test]
    fn what_starmod_computes_follows_from_what_it_measures() {
        for (row, ratio) in RATIOS.rows {
            let (remote, local) = (REMOTE.value(row), LOCAL.value(row));
            let found = remote.unwrap() / local.unwrap();
            assert!((found / ratio - 1.0).abs() < 0.02, "{row}: {found}");
        }
        // An instruction of the paper's machine takes 6 us on average.
        let (local, remote) = (6e3, REFERENCES.value("2 bytes").unwrap());
        let failed = remote * FAILED.rows[0].1;
        let degradation = |other: f64| 100.0 * (1.0 - local / (0.99 * local + 0.01 * other));
        let found = [degradation(remote), degradation(0.99 * remote + 0.01 * failed)];
        for (found, (row, printed)) in found.into_iter().zip(PROGRAM.rows) {
            assert!((found - printed).abs() < 0.2, "{row}: {found}");
        }
        let (reader, owner) = (INSTRUCTIONS.sum(&["reader"]), INSTRUCTIONS.sum(&["owner"]));
        assert_eq!((reader, owner), (84.0, 146.0));
    }
}
