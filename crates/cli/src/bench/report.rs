//! What is printed: a table for people, one JSON object a line for programs.

use crate::bench::stats::{Ratios, Summary};
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};

/// Where the two CPUs were, as far as caches are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Placement {
    /// Two threads of one core.
    #[serde(rename = "one core")]
    OneCore,
    /// Two cores that share their last cache.
    #[serde(rename = "one L3")]
    OneL3,
    /// Two cores that share none.
    #[serde(rename = "two L3s")]
    TwoL3s,
    /// It changed in every round, so the figures belong to no placement.
    #[serde(rename = "unsettled")]
    Unsettled,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Placement::OneCore => "one core",
            Placement::OneL3 => "one L3",
            Placement::TwoL3s => "two L3s",
            Placement::Unsettled => "unsettled",
        })
    }
}

/// One result: a case in a placement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The group of cases: `limits`, `call`, `oneway`.
    pub bench: &'static str,
    /// What was measured, as a path.
    pub case: String,
    /// Where the two CPUs were.
    pub placement: Placement,
    /// Operations measured.
    pub n: u64,
    /// The fastest batch, for one operation of it.
    pub min_ns: f64,
    /// The median batch, for one operation of it.
    pub p50_ns: f64,
    /// 99 of 100 operations are faster.
    pub p99_ns: f64,
    /// 999 of 1,000 operations are faster.
    pub p999_ns: f64,
    /// The cost in round trips of two cache lines, polled at the better of two paces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_line: Option<f64>,
    /// The cost in round trips of two cache lines, polled without a pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_tight: Option<f64>,
    /// The cost in round trips of two eventfds, both sides sleeping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_eventfd: Option<f64>,
    /// A case that this one is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The cost in operations of that case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_baseline: Option<f64>,
    /// Messages, or calls in all, per second: by the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// 10^9 bytes per second: by the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gigabytes_per_second: Option<f64>,
    /// Calls per second of the node that got the fewest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_per_second: Option<f64>,
    /// Bytes of memory that each idle session takes, in both processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_session: Option<f64>,
    /// Bytes of each message, where cases differ by them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Bytes of the ring that was the best of those tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring_bytes: Option<u64>,
    /// Frames of the protocol's own, of both sides, for each message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_frames_per_message: Option<f64>,
    /// The part of the messages that were sent without reserving room, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimistic_percent: Option<f64>,
    /// The part of the messages that the receiver had no room for at first, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_percent: Option<f64>,
    /// Of the messages that came, the part that was polled and woke nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polled_percent: Option<f64>,
    /// Where the time went, item by item.
    #[serde(flatten)]
    pub bill: Option<Billed>,
    /// Operations in a batch.
    pub batch: u32,
    /// What p99 and p999 are of: `operations` timed one by one, or `batches`.
    pub tails_of: &'static str,
    /// Rounds that were kept.
    pub rounds: u64,
    /// Rounds that were dropped because the placement changed.
    pub rounds_dropped: u64,
    /// The CPUs: of the process that measures, and of the other.
    pub cpus: [usize; 2],
}

impl Row {
    /// A row of a hundred operations that took so long each, for examples of what is said of rows.
    pub fn alike(bench: &'static str, case: &str, placement: Placement, ns: f64) -> Row {
        let said = Summary {
            n: 100,
            rounds: 7,
            batch: 1,
            single_tails: false,
            min_ns: ns,
            p50_ns: ns,
            p99_ns: ns,
            p999_ns: ns,
            least_per_second: None,
            ratios: Ratios::default(),
        };
        Row::new(bench, case, placement, &said)
    }

    /// A row with what every case has.
    pub(crate) fn new(
        bench: &'static str,
        case: &str,
        placement: Placement,
        said: &Summary,
    ) -> Row {
        Row {
            bench,
            case: case.to_owned(),
            placement,
            n: said.n,
            min_ns: rounded(said.min_ns),
            p50_ns: rounded(said.p50_ns),
            p99_ns: rounded(said.p99_ns),
            p999_ns: rounded(said.p999_ns),
            ratio_to_line: said.ratios.line.map(rounded),
            ratio_to_tight: said.ratios.tight.map(rounded),
            ratio_to_eventfd: said.ratios.eventfd.map(rounded),
            baseline: None,
            ratio_to_baseline: said.ratios.baseline.map(rounded),
            per_second: None,
            gigabytes_per_second: None,
            least_per_second: said.least_per_second.map(rounded),
            bytes_per_session: None,
            bytes: None,
            ring_bytes: None,
            protocol_frames_per_message: None,
            optimistic_percent: None,
            refused_percent: None,
            polled_percent: None,
            bill: None,
            batch: said.batch,
            tails_of: if said.single_tails { "operations" } else { "batches" },
            rounds: said.rounds,
            rounds_dropped: 0,
            cpus: [0, 0],
        }
    }
}

/// Where the time of an operation went.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Billed {
    /// What each phase took, in the order in which they come.
    pub items: Vec<BilledItem>,
    /// The sum of all items.
    pub sum_ns: f64,
    /// The round trip of rounds without samples, which alternate with those with samples.
    pub measured_ns: f64,
    /// What the items do not say of that: the median over the rounds.
    pub residual_percent: f64,
    /// How much longer calls take where one in 1,000 is sampled: the median over the rounds.
    pub sampled_percent: f64,
    /// Parts that were each measured alone.
    pub parts: Vec<BilledPart>,
    /// What the parts come to: the sum of each as often as a call has it.
    pub estimate_ns: f64,
    /// By how much that is more than the round trip of rounds without samples.
    pub estimate_error_percent: f64,
    /// What one stamp took. It is in no item.
    pub stamp_ns: f64,
    /// What a sampled call that is marked took longer. It is in no item.
    pub mark_ns: f64,
    /// Samples that the items are made of.
    pub samples: u64,
}

/// An item of a bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BilledItem {
    /// Its name.
    pub item: &'static str,
    /// `here`, `wire` or `there`.
    pub place: &'static str,
    /// Its mean.
    pub ns: f64,
    /// Its part of the sum.
    pub percent: f64,
}

/// A part of an estimate, measured alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BilledPart {
    /// Its name.
    pub part: &'static str,
    /// What it takes once.
    pub ns: f64,
    /// How often a call has it; less than nothing where another part has too much of it.
    pub times: f64,
}

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

/// Three decimals are more than is known.
pub fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// The placements of rows, that of most rounds first.
pub fn placements(rows: &[Row]) -> Vec<Placement> {
    let mut all: Vec<(Placement, u64)> = Vec::new();
    for row in rows {
        match all.iter_mut().find(|(placement, _)| *placement == row.placement) {
            Some((_, rounds)) => *rounds += row.rounds,
            None => all.push((row.placement, row.rounds)),
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

/// Writes rows for people: a table for each placement, with those columns that say something.
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

/// A column: its title and what stands in it for a row.
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
    Column { title: "/ line", text: |row| ratio(row.ratio_to_line) },
    Column { title: "/ tight", text: |row| ratio(row.ratio_to_tight) },
    Column { title: "/ eventfd", text: |row| ratio(row.ratio_to_eventfd) },
    Column { title: "per second", text: |row| row.per_second.map(short).unwrap_or_default() },
    Column { title: "GB/s", text: |row| plain(row.gigabytes_per_second) },
    Column { title: "least/s", text: |row| row.least_per_second.map(short).unwrap_or_default() },
    Column { title: "KiB/session", text: |row| plain(row.bytes_per_session.map(|b| b / 1024.0)) },
    Column { title: "polled %", text: |row| plain(row.polled_percent) },
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

/// What the table does not say by itself.
pub const NOTES: &str = "\
min and p50 are of batches; p99 and p99.9 of operations timed one by one, which adds one reading
of the clock to each, or of batches where marked *. The ratios are medians over rounds that
alternate with their floor in the same two processes: `line` is the round trip of two cache lines
at the better of two paces of polling, `tight` the same without a pause between looks.
";

fn compared(row: &Row) -> String {
    match (&row.baseline, row.ratio_to_baseline) {
        (Some(case), Some(ratio)) => format!("{ratio:.2} of {case}"),
        _ => String::new(),
    }
}

fn tail(row: &Row, nanoseconds: f64) -> String {
    let mark = if row.tails_of == "operations" { "" } else { "*" };
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

/// Nanoseconds with the unit that suits them.
pub fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 999.5 => format!("{ns:.1} ns"),
        ns if ns < 999_500.0 => format!("{:.2} us", ns / 1e3),
        ns if ns < 999_500_000.0 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// A count with thousands, millions or billions named.
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
    use super::{Placement, Row, json, short, table, time};
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
        };
        Row { cpus: [3, 1], ..Row::new("call", case, Placement::OneL3, &said) }
    }

    #[test]
    fn json_is_one_object_a_line_with_the_promised_fields() {
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
    fn a_table_is_aligned_and_leaves_out_what_nobody_has() {
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
        assert_eq!(time(0.2), "0.2 ns");
        assert_eq!(time(999.4), "999.4 ns");
        assert_eq!(time(999.6), "1.00 us");
        assert_eq!(time(31_456.0), "31.46 us");
        assert_eq!(time(4.2e6), "4.20 ms");
        assert_eq!(time(4.2e9), "4.20 s");
        assert_eq!(short(9_999.0), "9999");
        assert_eq!(short(123_456.0), "123 k");
        assert_eq!(short(91.26e6), "91.3 M");
        assert_eq!(short(1.5e9), "1.50 G");
    }
}
