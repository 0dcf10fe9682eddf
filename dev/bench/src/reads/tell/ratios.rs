//! Figure 6-1: the ratio of remote to local execution of each primitive.

use crate::beside::Line;
use crate::papers::figures::{STARMOD_LOCAL, STARMOD_RATIOS, STARMOD_REMOTE};
use crate::reads::BENCH;
use std::io::{self, Write};
use upbeat_cli::bench::report::{Row, time};

/// The paper's primitives, and the cases that correspond to them or stand in their place.
const PRIMITIVES: [(&str, &[&str]); 4] = [
    ("Asynchronous Port Call", &["oneway/shared", "oneway/stream", "item/shared", "item/stream"]),
    ("Synchronous Port Call", &[]),
    ("Memory Reference", &["2B/shared", "awaited", "chain/shared", "2B/stream"]),
    ("Procedure Call", &["call/shared", "call/stream"]),
];

/// Returns the row of a remote case, with the row of its local counterpart.
fn pair<'r>(rows: &[&'r Row], case: &str) -> Option<(&'r Row, &'r Row)> {
    let remote = super::find(rows, case)?;
    let local = super::find(rows, remote.compared.baseline.as_deref()?)?;
    Some((remote, local))
}

/// Returns the ratios.
pub(super) fn lines(rows: &[&Row]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (name, cases) in PRIMITIVES {
        for row in cases.iter().filter_map(|case| super::find(rows, case)) {
            if let Some(ratio) = row.compared.ratio_to_baseline {
                lines.push(Line::new(BENCH, &STARMOD_RATIOS, name, ratio, row));
            }
        }
    }
    lines
}

/// Prints the times and the ratios.
pub(super) fn table(rows: &[&Row], to: &mut impl Write) -> io::Result<()> {
    let mut is_measured = PRIMITIVES.iter().flat_map(|(_, cases)| cases.iter());
    if !is_measured.any(|case| pair(rows, case).is_some()) {
        return Ok(());
    }
    writeln!(to, "  {:<38} {:>30}  {:>30}", STARMOD_RATIOS.table, "paper", "today")?;
    write!(to, "    {:<36}", "")?;
    let heads = ["remote", "local", "ratio", " remote", "local", "ratio"];
    heads.iter().try_for_each(|head| write!(to, " {head:>10}"))?;
    writeln!(to)?;
    for (name, cases) in PRIMITIVES {
        let then = |figure: &crate::papers::figures::Printed| super::told(figure.value(name), time);
        let ratio = super::told(STARMOD_RATIOS.value(name), super::times);
        write!(
            to,
            "    {name:<36} {:>10} {:>10} {ratio:>10}",
            then(&STARMOD_REMOTE),
            then(&STARMOD_LOCAL)
        )?;
        if cases.is_empty() {
            write!(to, " {:>10}", "-")?;
        }
        writeln!(to)?;
        for (remote, local) in cases.iter().filter_map(|case| pair(rows, case)) {
            let ratio = super::told(remote.compared.ratio_to_baseline, super::times);
            let (here, there) = (time(local.p50_ns), time(remote.p50_ns));
            writeln!(to, "      {:<67} {there:>10} {here:>10} {ratio:>10}", remote.case)?;
        }
    }
    Ok(())
}
