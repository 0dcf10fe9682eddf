//! The benchmarks, with their plots, their flow control, and their slow cases.

use crate::papers::report::Beside;
use crate::{arguments, bill, contract, execution, papers, reads, size, sizes, tasks, throughput};
use upbeat_cli::bench::pair;
use upbeat_cli::bench::report::{self, Row};
use upbeat_cli::bench::suite::{Bench, Suite, tell_rows};

/// All benchmarks except those with arguments of their own: `incast` and `peers`.
pub(crate) const SUITE: Suite = Suite {
    command: "cargo run --release -p bench --",
    benches: &[
        Bench {
            name: bill::BENCH,
            about: "where the time of a call goes, item by item, and what the items do not say",
            list: bill::list,
            subjects: bill::subjects,
            serve: |cpus, scratch| {
                pair::serve(cpus, |control, ground| bill::server(control, ground, scratch))
            },
            full: Bench::schedule(12, 30_000),
            quick: Bench::schedule(6, 6_000),
            tell: tell_rows,
            notes: report::NOTES,
        },
        Bench {
            name: papers::BENCH,
            about: "the tables of the papers, and today's figures beside them",
            list: papers::list,
            subjects: papers::subjects,
            serve: |cpus, scratch| {
                pair::serve(cpus, |control, ground| papers::server(control, ground, scratch, cpus))
            },
            full: Bench::schedule(12, 30_000),
            quick: Bench::schedule(6, 8_000),
            tell: |rows, wanted, json, to| papers::tell(rows, wanted, json, to),
            notes: "",
        },
        Bench {
            name: size::BENCH,
            about: "round trips by the size of the message, optimistic and conservative",
            list: size::list,
            subjects: size::subjects,
            serve: |cpus, scratch| {
                pair::serve(cpus, |control, ground| size::server(control, ground, scratch))
            },
            full: Bench::schedule(6, 40_000),
            quick: Bench::schedule(2, 5_000),
            tell: |rows, _, json, to| size::tell(rows, json, to),
            notes: "",
        },
        Bench {
            name: throughput::BENCH,
            about: "one-way messages by their size, optimistic and conservative, beside bare rings",
            list: throughput::list,
            subjects: throughput::subjects,
            serve: |cpus, scratch| {
                pair::serve(cpus, |control, ground| throughput::server(control, ground, scratch))
            },
            full: Bench::schedule(8, 40_000),
            quick: Bench::schedule(3, 5_000),
            tell: |rows, _, json, to| throughput::tell(rows, json, to),
            notes: "",
        },
        Bench {
            name: contract::BENCH,
            about: "what an upcall costs, and what it is worth to programs that compute",
            list: contract::list,
            subjects: contract::subjects,
            serve: |cpus, scratch| {
                pair::serve(cpus, |control, _| contract::server(control, scratch))
            },
            full: Bench::schedule(12, 30_000),
            quick: Bench::schedule(6, 8_000),
            tell: |rows, _, json, to| contract::tell(rows, json, to),
            notes: report::NOTES,
        },
        Bench {
            name: tasks::BENCH,
            about: "what tasks cost: to begin, to make way, to wait for each other",
            list: tasks::list,
            subjects: tasks::subjects,
            serve: |cpus, _| pair::serve(cpus, |_, _| Ok(tasks::Nobody)),
            full: Bench::schedule(6, 20_000),
            quick: Bench::schedule(2, 3_000),
            tell: |rows, _, json, to| tasks::tell(rows, json, to),
            notes: "",
        },
        Bench {
            name: execution::BENCH,
            about: "handlers as active messages, optimistically, as tasks, and as it pays",
            list: execution::list,
            subjects: execution::subjects,
            serve: |cpus, scratch| {
                pair::serve(cpus, |control, _| execution::server(control, scratch))
            },
            full: Bench::schedule(6, 40_000),
            quick: Bench::schedule(2, 8_000),
            tell: |rows, _, json, to| execution::tell(rows, json, to),
            notes: report::NOTES,
        },
        Bench {
            name: arguments::BENCH,
            about: "calls of nothing by the size of their arguments, by execution, and read in place",
            list: arguments::list,
            subjects: arguments::subjects,
            serve: |cpus, scratch| {
                pair::serve(cpus, |control, _| arguments::server(control, scratch))
            },
            full: Bench::schedule(6, 40_000),
            quick: Bench::schedule(2, 6_000),
            tell: |rows, _, json, to| arguments::tell(rows, json, to),
            notes: "",
        },
        Bench {
            name: reads::BENCH,
            about: "references to variables of another process, and programs that make them",
            list: reads::list,
            subjects: reads::subjects,
            serve: |cpus, scratch| pair::serve(cpus, |control, _| reads::server(control, scratch)),
            full: Bench::schedule(6, 40_000),
            quick: Bench::schedule(2, 3_000),
            tell: |rows, _, json, to| reads::tell(rows, json, to),
            notes: "",
        },
    ],
};

/// Returns the function that draws the rows of a benchmark, if there is one.
pub(crate) fn plot(bench: &str) -> Option<fn(&[Row]) -> String> {
    match bench {
        size::BENCH => Some(size::plot),
        throughput::BENCH => Some(throughput::plot),
        arguments::BENCH => Some(arguments::plot),
        _ => None,
    }
}

/// Returns the figures of papers, and those of today, for rows of a benchmark and of one placement.
pub(crate) fn lines(bench: &str, rows: &[&Row]) -> Vec<Beside> {
    let lines = match bench {
        papers::BENCH => return papers::lines(rows),
        size::BENCH => size::lines(rows),
        throughput::BENCH => throughput::lines(rows),
        contract::BENCH => contract::lines(rows),
        tasks::BENCH => tasks::lines(rows),
        execution::BENCH => execution::paper_lines(rows),
        arguments::BENCH => arguments::lines(rows),
        reads::BENCH => reads::lines(rows),
        _ => Vec::new(),
    };
    lines.into_iter().map(Beside::from).collect()
}

/// Returns whether a benchmark sends messages of every size, optimistically and conservatively.
fn is_by_size(bench: &str) -> bool {
    [size::BENCH, throughput::BENCH].contains(&bench)
}

/// Returns whether a case takes seconds, so that a quick run that names only the benchmark leaves it out.
pub(crate) fn is_slow(bench: &str, case: &str) -> bool {
    is_by_size(bench) && sizes::is_slow(case)
}

/// Returns whether a case of a benchmark with flow control is sent optimistically.
pub(crate) fn is_bet(bench: &str, case: &str) -> bool {
    is_by_size(bench) && ["/optimistic", "/in-place", "/kept"].iter().any(|bet| case.ends_with(bet))
}

#[cfg(test)]
mod tests {
    use super::SUITE;
    use std::time::Duration;

    #[test]
    fn quick_is_quick() {
        let total: Duration = SUITE.benches.iter().map(|bench| bench.quick.total).sum();
        assert!(
            total <= Duration::from_secs(52),
            "the rest of a minute is for starting and ending"
        );
    }
}
