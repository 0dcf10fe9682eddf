//! The output: a table for people, or one JSON object per line for programs.

mod row;

use std::io::{self, Write};
use upbeat_core::bill::timeline::time;

pub use row::{
    Billed, BilledItem, BilledPart, Compared, Kept, LeftOut, Placement, Rates, Row, Sizes, Traffic,
    rounded,
};

/// Writes the items of a row for people.
fn items(row: &Row, billed: &Billed, to: &mut impl Write) -> io::Result<()> {
    writeln!(to, "  {}: where its time went", row.case)?;
    for one in &billed.items {
        let BilledItem { item, place, ns, percent } = one;
        writeln!(to, "    {place:<6} {item:<13} {:>10} {percent:>6.1}%", time(*ns))?;
    }
    let Billed {
        sum_ns,
        measured_ns,
        residual_percent,
        stamp_ns,
        sampled_percent,
        mark_ns,
        samples,
        ..
    } = billed;
    let Billed { parts, estimate_ns, estimate_error_percent, .. } = billed;
    writeln!(to, "    {:<20} {:>10}", "sum", time(*sum_ns))?;
    writeln!(to, "    {:<20} {:>10}", "measured", time(*measured_ns))?;
    writeln!(to, "    {:<20} {:>9.1}%", "residual", residual_percent)?;
    writeln!(to, "    {:<20} {:>+9.1}% where one in 1,000 is", "sampled", sampled_percent)?;
    writeln!(to, "    {:<20} {:>10} each, in no item", "stamps", time(*stamp_ns))?;
    writeln!(to, "    {:<20} {:>10} a marked call, in no item", "marks", time(*mark_ns))?;
    writeln!(to, "    from {} samples", short(*samples as f64))?;
    writeln!(to, "    estimated from parts measured alone")?;
    for BilledPart { part, ns, times } in parts {
        writeln!(to, "    {part:<20} {:>10} x {times:>4}", time(*ns))?;
    }
    writeln!(to, "    {:<20} {:>10}", "estimate", time(*estimate_ns))?;
    writeln!(to, "    {:<20} {:>+9.1}%", "error", estimate_error_percent)
}

/// Returns the placements of rows, that of most rounds first.
pub fn placements(rows: &[Row]) -> Vec<Placement> {
    let mut all: Vec<(Placement, u64)> = Vec::new();
    for row in rows {
        match all.iter_mut().find(|(placement, _)| *placement == row.placement) {
            Some((_, rounds)) => *rounds += row.kept.rounds,
            None => all.push((row.placement, row.kept.rounds)),
        }
    }
    all.sort_by_key(|(_, rounds)| std::cmp::Reverse(*rounds));
    all.into_iter().map(|(placement, _)| placement).collect()
}

/// Writes rows for a program.
pub fn json(rows: &[Row], to: &mut impl Write) -> io::Result<()> {
    for row in rows {
        serde_json::to_writer(&mut *to, row)?;
        writeln!(to)?;
    }
    Ok(())
}

/// Writes the cases that were measured and left out, with the reasons.
pub fn left_out(rows: &[LeftOut], json: bool, to: &mut impl Write) -> io::Result<()> {
    for row in rows {
        if json {
            serde_json::to_writer(&mut *to, row)?;
            writeln!(to)?;
        } else {
            let LeftOut { bench, case, placement, left_out, .. } = row;
            writeln!(to, "left out: {bench}/{case} ({placement}): {left_out}")?;
        }
    }
    if !json && !rows.is_empty() {
        writeln!(to)?;
    }
    Ok(())
}

/// Writes rows for people: a table for each placement, without empty columns.
pub fn table(rows: &[Row], to: &mut impl Write) -> io::Result<()> {
    let mut groups: Vec<(&str, Placement)> = Vec::new();
    for row in rows {
        if !groups.contains(&(row.bench, row.placement)) {
            groups.push((row.bench, row.placement));
        }
    }
    for (bench, placement) in groups {
        let of_group = |row: &&Row| row.bench == bench && row.placement == placement;
        let group: Vec<&Row> = rows.iter().filter(of_group).collect();
        let [client, server] = group[0].cpus;
        writeln!(to, "{bench} on CPUs {client} and {server}: {placement}")?;
        grid(&group, to)?;
        for row in group {
            if let Some(billed) = &row.bill {
                items(row, billed, to)?;
            }
        }
        writeln!(to)?;
    }
    Ok(())
}

/// A column: its title, and the text of its cell in a row.
struct Column {
    title: &'static str,
    text: fn(&Row) -> String,
}

const COLUMNS: &[Column] = &[
    Column { title: "case", text: |row| row.case.clone() },
    Column { title: "n", text: |row| short(row.n as f64) },
    Column { title: "min", text: |row| time(row.min_ns) },
    Column { title: "p50", text: |row| time(row.p50_ns) },
    Column { title: "p99", text: |row| tail(row, row.p99_ns) },
    Column { title: "p99.9", text: |row| tail(row, row.p999_ns) },
    Column { title: "/ line", text: |row| ratio(row.compared.ratio_to_line) },
    Column { title: "/ tight", text: |row| ratio(row.compared.ratio_to_tight) },
    Column { title: "/ eventfd", text: |row| ratio(row.compared.ratio_to_eventfd) },
    Column { title: "/ load", text: |row| ratio(row.compared.ratio_to_load) },
    Column { title: "per second", text: |row| row.rates.per_second.map(short).unwrap_or_default() },
    Column { title: "GB/s", text: |row| plain(row.rates.gigabytes_per_second) },
    Column {
        title: "least/s",
        text: |row| row.rates.least_per_second.map(short).unwrap_or_default(),
    },
    Column {
        title: "KiB/session",
        text: |row| plain(row.sizes.bytes_per_session.map(|b| b / 1024.0)),
    },
    Column { title: "polled %", text: |row| plain(row.traffic.polled_percent) },
    Column { title: "sleeps each", text: sleeps },
    Column { title: "compared", text: compared },
];

fn grid(rows: &[&Row], to: &mut impl Write) -> io::Result<()> {
    let cells = |column: &Column| rows.iter().map(|row| (column.text)(row)).collect::<Vec<_>>();
    let columns: Vec<(&str, Vec<String>)> = COLUMNS
        .iter()
        .map(|column| (column.title, cells(column)))
        .filter(|(_, cells)| cells.iter().any(|cell| !cell.is_empty()))
        .collect();
    let width = |(title, cells): &(&str, Vec<String>)| {
        cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0).max(title.len())
    };
    let widths: Vec<usize> = columns.iter().map(width).collect();
    let line = |at: Option<usize>| {
        let mut text = String::from(" ");
        for ((title, cells), width) in columns.iter().zip(&widths) {
            let cell = at.map_or(*title, |at| cells[at].as_str());
            text.push_str(&match *title {
                "case" => format!(" {cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            });
        }
        text.trim_end().to_owned()
    };
    writeln!(to, "{}", line(None))?;
    for at in 0..rows.len() {
        writeln!(to, "{}", line(Some(at)))?;
    }
    Ok(())
}

/// The explanation of the table.
pub const NOTES: &str = "\
min and p50 are the times of batches. p99 and p99.9 are the times of single operations, each with
one reading of the clock, or the times of batches if marked with *. The ratios are medians over
rounds that alternate with rounds of their floor in the same two processes: `line` is the round trip
of two cache lines at the faster of two polling rates, `tight` the round trip without a pause between
polls. `sleeps each` is how often the caller and the callee slept for each operation. A case whose
nodes did not wait as its name says is left out, with the reason.
";

fn compared(row: &Row) -> String {
    match (&row.compared.baseline, row.compared.ratio_to_baseline) {
        (Some(case), Some(ratio)) => format!("{ratio:.2} of {case}"),
        _ => String::new(),
    }
}

/// Returns the sleeps of both sides for each operation, those of the caller first.
fn sleeps(row: &Row) -> String {
    let told = |sleeps: Option<f64>| sleeps.map_or("-".to_owned(), |sleeps| format!("{sleeps:.2}"));
    match row.traffic.callee_sleeps {
        None => String::new(),
        callee => format!("{}, {}", told(row.traffic.caller_sleeps), told(callee)),
    }
}

fn tail(row: &Row, nanoseconds: f64) -> String {
    let mark = if row.kept.tails_of == "operations" { "" } else { "*" };
    format!("{}{mark}", time(nanoseconds))
}

fn ratio(value: Option<f64>) -> String {
    match value {
        None => String::new(),
        Some(value) if value < 10.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.0}"),
    }
}

fn plain(value: Option<f64>) -> String {
    value.map(|value| format!("{value:.1}")).unwrap_or_default()
}

/// Formats a count in thousands, millions or billions.
pub fn short(count: f64) -> String {
    match count {
        count if count < 9_999.5 => format!("{count:.0}"),
        count if count < 999_500.0 => format!("{:.0} k", count / 1e3),
        count if count < 999_500_000.0 => format!("{:.1} M", count / 1e6),
        count => format!("{:.2} G", count / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::{Placement, Row, json, short, table};
    use crate::bench::stats::{Ratios, Summary};
    use serde_json::Value;

    fn row(case: &str, line: Option<f64>) -> Row {
        let said = Summary {
            n: 12_345,
            rounds: 7,
            batch: 50,
            single_tails: line.is_some(),
            min_ns: 90.123_456,
            p50_ns: 101.0,
            p99_ns: 1_500.0,
            p999_ns: 2_500_000.0,
            least_per_second: None,
            ratios: Ratios { line, ..Ratios::default() },
            waits: None,
        };
        Row { cpus: [3, 1], ..Row::new("call", case, Placement::OneL3, &said) }
    }

    #[test]
    fn json_has_one_object_per_line_with_the_documented_fields() {
        let mut text = Vec::new();
        json(&[row("null/shared/polling", Some(1.06)), row("b", None)], &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        let first = &lines[0];
        assert_eq!(first["bench"], "call");
        assert_eq!(first["case"], "null/shared/polling");
        assert_eq!(first["placement"], "one L3");
        assert_eq!(first["n"], 12_345);
        assert_eq!(first["min_ns"], 90.123);
        assert_eq!(first["p50_ns"], 101.0);
        assert_eq!(first["p99_ns"], 1500.0);
        assert_eq!(first["p999_ns"], 2_500_000.0);
        assert_eq!(first["ratio_to_line"], 1.06);
        assert_eq!(first["tails_of"], "operations");
        assert!(first.get("per_second").is_none(), "absent, not null");
        assert!(lines[1].get("ratio_to_line").is_none());
        assert_eq!(lines[1]["tails_of"], "batches");
    }

    #[test]
    fn a_table_is_aligned_and_has_no_empty_columns() {
        let mut text = Vec::new();
        let other = Row { placement: Placement::OneCore, ..row("elsewhere", None) };
        let rows = [row("null/shared/polling", Some(1.06)), row("b", None), other];
        table(&rows, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "call on CPUs 3 and 1: one L3");
        assert!(lines[1].contains("/ line") && !lines[1].contains("GB/s"));
        let at = lines[1].find("p50").unwrap() + 3;
        assert!(lines[2][..at].ends_with("101.0 ns") && lines[3][..at].ends_with("101.0 ns"));
        assert!(lines[3].contains("1.50 us*"));
        assert_eq!(lines[5], "call on CPUs 3 and 1: one core");
    }

    #[test]
    fn units_suit_their_numbers() {
        assert_eq!(short(9_999.0), "9999");
        assert_eq!(short(123_456.0), "123 k");
        assert_eq!(short(91.26e6), "91.3 M");
        assert_eq!(short(1.5e9), "1.50 G");
    }
}
