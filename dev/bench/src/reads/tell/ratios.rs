//! Figure 6-1: the ratio of remote to local execution of each primitive.

use crate::beside::Line;
use crate::papers::figures::Printed;
use crate::papers::figures::starmod::{LOCAL, RATIOS, REMOTE};
use crate::reads::BENCH;
use std::io::{self, Write};
use upbeat_cli::bench::report::Row;
use upbeat_core::bill::timeline::time;

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

/// The name under which stand what is measured in place of a primitive that is absent.
const IN_PLACE_OF_PORTS: &str = "a one-way message or an item, where ports are absent";

/// Returns the times and the ratios.
pub(super) fn lines(rows: &[&Row]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (name, cases) in PRIMITIVES {
        let name = if name.contains("Port") { IN_PLACE_OF_PORTS } else { name };
        for (remote, local) in cases.iter().filter_map(|case| pair(rows, case)) {
            lines.push(Line::new(BENCH, &REMOTE, name, remote.p50_ns, remote));
            lines.push(Line::new(BENCH, &LOCAL, name, local.p50_ns, local));
            if let Some(ratio) = remote.compared.ratio_to_baseline {
                lines.push(Line::new(BENCH, &RATIOS, name, ratio, remote));
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
    writeln!(to, "  {:<38} {:>30}  {:>30}", RATIOS.table, "paper", "today")?;
    write!(to, "    {:<36}", "")?;
    let heads = ["remote", "local", "ratio", " remote", "local", "ratio"];
    heads.iter().try_for_each(|head| write!(to, " {head:>10}"))?;
    writeln!(to)?;
    for (name, cases) in PRIMITIVES {
        let then = |figure: &Printed| super::told(figure.value(name), time);
        let ratio = super::told(RATIOS.value(name), super::times);
        write!(to, "    {name:<36} {:>10} {:>10} {ratio:>10}", then(&REMOTE), then(&LOCAL))?;
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
