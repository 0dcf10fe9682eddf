//! The figures of README.md.

use super::stored::{Row, Run};
use crate::error::Error;
use std::fmt::Write;
use upbeat_cli::bench::report::short;
use upbeat_core::bill::timeline::time;

/// The counts of `cargo xtask instructions`, which its `--check` holds against new ones.
const COUNTED: &str = include_str!("../../../xtask/instructions.gate");

/// How a figure is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Show {
    /// A time, in round trips of a cache line.
    Lines,
    /// A time, in round trips of two eventfds.
    Eventfds,
    /// A time.
    Time,
    /// A ratio to the case that it is compared with, which these words name.
    Baseline(&'static str),
    /// The same, and the memory of a session.
    Sessions(&'static str),
    /// A rate.
    Rate(&'static str),
}

/// A figure of README.md.
pub(super) struct Figure {
    what: &'static str,
    /// The case of `upbeat bench`.
    pub(super) case: &'static str,
    show: Show,
}

/// All figures that are measured, in their order.
pub(super) const FIGURES: &[Figure] = &[
    Figure {
        what: "null call between two polling processes",
        case: "call/null/shared/polling",
        show: Show::Lines,
    },
    Figure {
        what: "null call from a blocking handle",
        case: "call/null/shared/handle",
        show: Show::Baseline("the call between nodes"),
    },
    Figure {
        what: "null call, 64 calls in flight",
        case: "call/null/shared/polling/64",
        show: Show::Time,
    },
    Figure {
        what: "1 KiB each way, as an array by value",
        case: "call/1KiB/shared/polling",
        show: Show::Lines,
    },
    Figure {
        what: "1 KiB each way, as a `Vec<u8>`",
        case: "call/1KiB-vec/shared/polling",
        show: Show::Lines,
    },
    Figure {
        what: "null call to a sleeping node",
        case: "call/null/shared/sleeping",
        show: Show::Eventfds,
    },
    Figure {
        what: "null call to a node with 1,000 idle sessions",
        case: "call/null/shared/idle1000",
        show: Show::Sessions("that to a node with none"),
    },
    Figure {
        what: "8 sleeping nodes in a ring on 2 CPUs, a call",
        case: "call/ring8/shared/sleeping",
        show: Show::Baseline("a call in a ring of 2 nodes"),
    },
    Figure {
        what: "one-way messages of 8 bytes",
        case: "oneway/8B/shared/polling",
        show: Show::Rate("messages"),
    },
    Figure {
        what: "items of 8 bytes of a stream that is a result",
        case: "oneway/8B/shared/results",
        show: Show::Rate("items"),
    },
    Figure {
        what: "items of 8 bytes of a stream that is an argument",
        case: "oneway/8B/shared/arguments",
        show: Show::Rate("items"),
    },
    Figure {
        what: "a single one-way message, answered by a write to a cache line",
        case: "oneway/8B/shared/lone",
        show: Show::Lines,
    },
    Figure {
        what: "null call over TCP on this host, both polling",
        case: "tcp/null/tcp/polling",
        show: Show::Baseline("a round trip of 8 bytes over a bare connection"),
    },
    Figure {
        what: "null call over TLS on this host, both polling",
        case: "tcp/null/tls/polling",
        show: Show::Baseline("a round trip of 8 bytes over a bare connection of rustls"),
    },
];

/// Returns the cases that have no row with their figure yet.
pub(super) fn missing(rows: &[Row]) -> Vec<&'static str> {
    let usual = usual(rows);
    let is_missing = |figure: &&Figure| {
        row(rows, figure.case, usual).is_none_or(|row| shown(figure.show, row).is_none())
    };
    FIGURES.iter().filter(is_missing).map(|figure| figure.case).collect()
}

/// Returns the placement of most rounds.
fn usual(rows: &[Row]) -> &str {
    let rounds = |placement: &str| -> u64 {
        rows.iter().filter(|row| row.placement == placement).map(|row| row.rounds).sum()
    };
    rows.iter().map(|row| row.placement.as_str()).max_by_key(|one| rounds(one)).unwrap_or("")
}

/// Returns the row of a case, the last one that was measured: in the usual placement if there is one.
fn row<'r>(rows: &'r [Row], case: &str, usual: &str) -> Option<&'r Row> {
    let of_case = || rows.iter().rev().filter(|row| row.path() == case);
    of_case().find(|row| row.placement == usual).or_else(|| of_case().next())
}

/// Returns the figure as a text, if the row has it.
fn shown(show: Show, row: &Row) -> Option<String> {
    let took = time(row.p50_ns);
    let of_baseline = |words: &str| {
        let ratio = row.ratio_to_baseline?;
        Some(format!("{took}, {ratio:.2} times {words}"))
    };
    match show {
        Show::Lines => {
            let ratio = row.ratio_to_line?;
            Some(format!("{took}, {ratio:.2} times the round trip of a cache line"))
        }
        Show::Eventfds => {
            let ratio = row.ratio_to_eventfd?;
            Some(format!("{took}, {ratio:.2} times the round trip of two eventfds"))
        }
        Show::Time => Some(took),
        Show::Baseline(words) => of_baseline(words),
        Show::Sessions(words) => {
            let memory = row.bytes_per_session?;
            Some(format!("{}; {:.0} KiB a session", of_baseline(words)?, memory / 1024.0))
        }
        Show::Rate(what) => Some(format!("{} {what} a second", short(row.per_second?))),
    }
}

/// Returns the text between the marks.
pub(super) fn text(run: &Run) -> Result<String, Error> {
    let usual = usual(&run.rows);
    let mut to = String::from("\n\n| what | figure | command |\n|---|---|---|\n");
    for Figure { what, case, show } in FIGURES {
        let row = row(&run.rows, case, usual);
        let figure = row.and_then(|row| Some((row, shown(*show, row)?)));
        let (row, figure) = figure
            .ok_or_else(|| Error::Figures { text: format!("the stored run has no `{case}`") })?;
        let placement = match row.placement == usual {
            true => String::new(),
            false => format!(" ({})", row.placement),
        };
        let command = format!("`cargo run --release -- bench {case}`");
        let _ = writeln!(to, "| {what} | {figure}{placement} | {command} |");
    }
    let counted = COUNTED.lines().find_map(|line| line.strip_prefix("null/shared "));
    let counted = counted.unwrap_or("unknown");
    let _ = writeln!(
        to,
        "| instructions of a null call, client and server together | {counted} | `cargo xtask instructions` |"
    );
    let _ = writeln!(to, "\n{}\n", origin(run));
    Ok(to)
}

/// Returns the machine, the placement, the date and the commit, in sentences.
pub(super) fn origin(run: &Run) -> String {
    let origin = &run.origin;
    let usual = usual(&run.rows);
    let quick = if origin.quick { " --quick" } else { "" };
    let line = row(&run.rows, FIGURES[0].case, usual)
        .and_then(|row| Some(row.p50_ns / row.ratio_to_line?))
        .map_or(String::new(), |ns| format!("\nThe round trip of a cache line took {}.", time(ns)));
    format!(
        "Medians of one run of `cargo xtask figures{quick}` on {}, at commit {}:\n\
         {}, of which the run used two CPUs of {}, placed in {usual}.{line}",
        origin.date, origin.commit, origin.processor, origin.cpus
    )
}

#[cfg(test)]
mod tests {
    use super::{FIGURES, Row, Run, missing, text};
    use crate::figures::origin::Origin;

    fn row(case: &str, placement: &str) -> Row {
        let (bench, case) = case.split_once('/').unwrap();
        Row {
            bench: bench.to_owned(),
            case: case.to_owned(),
            placement: placement.to_owned(),
            rounds: 9,
            p50_ns: 150.0,
            ratio_to_line: Some(1.5),
            ratio_to_eventfd: Some(1.1),
            ratio_to_baseline: Some(1.01),
            per_second: Some(24e6),
            bytes_per_session: Some(30_720.0),
            ..Row::default()
        }
    }

    fn origin() -> Origin {
        Origin {
            processor: "a processor".into(),
            cpus: 2,
            date: "2026-11-26".into(),
            commit: "142189e".into(),
            quick: true,
        }
    }

    #[test]
    fn each_figure_is_shown_and_a_missing_one_is_named() {
        let mut rows: Vec<Row> = FIGURES.iter().map(|one| row(one.case, "one L3")).collect();
        rows[1].placement = "two L3s".into();
        assert!(missing(&rows).is_empty());
        let run = Run { origin: origin(), rows: rows.clone(), papers: Vec::new() };
        let told = text(&run).unwrap();
        assert_eq!(told.lines().filter(|line| line.starts_with("| ")).count(), FIGURES.len() + 2);
        assert!(told.contains("150.0 ns, 1.50 times the round trip of a cache line"), "{told}");
        assert!(told.contains("1.01 times the call between nodes (two L3s)"), "{told}");
        assert!(told.contains("30 KiB a session") && told.contains("24.0 M messages"), "{told}");
        assert!(told.contains("142189e") && told.contains("cache line took 100.0 ns"), "{told}");
        rows[3].ratio_to_line = None;
        assert_eq!(missing(&rows), [FIGURES[3].case]);
        let run = Run { rows, ..run };
        assert!(text(&run).unwrap_err().to_string().contains(FIGURES[3].case));
    }
}
