//! The results, and the paper's figures beside them.

mod instructions;
mod ratios;

use super::reader::Way;
use super::{BENCH, PASS};
use crate::beside::{self, Line};
use crate::papers::figures::Printed;
use crate::papers::figures::starmod::{EFFECTS, FAILED, PROGRAM, REFERENCES, REFERENCES_COPY_LESS};
use crate::sizes::Sizes;
use std::io::{self, Write};
use upbeat_cli::bench::report::Row;
use upbeat_core::bill::timeline::time;

/// The size with which the paper's figure is compared.
const LEAST: u64 = 2;

/// Prints rows and lines: as text, or one JSON object a line.
pub(crate) fn tell(rows: &[Row], json: bool, to: &mut impl Write) -> io::Result<()> {
    beside::tell_as(rows, lines, tables, NOTES, json, to)
}

/// Returns the lines for rows of one placement.
pub(crate) fn lines(rows: &[&Row]) -> Vec<Line> {
    let mut lines = references(rows);
    lines.extend(instructions::lines(rows));
    lines.extend(effects(rows));
    lines.extend(ratios::lines(rows));
    lines.extend(programs(rows));
    lines
}

fn find<'r>(rows: &[&'r Row], case: &str) -> Option<&'r Row> {
    rows.iter().find(|row| row.case == case).copied()
}

/// Returns the row of a figure for this size.
fn printed(figure: &Printed, bytes: u64) -> Option<&'static str> {
    let name = format!("{bytes} bytes");
    figure.rows.iter().map(|(row, _)| *row).find(|row| *row == name)
}

/// Figures 5-1 and 5-3: the time of a reference by its size.
fn references(rows: &[&Row]) -> Vec<Line> {
    let (whole, less) = (&REFERENCES, &REFERENCES_COPY_LESS);
    let mut lines = Vec::new();
    for (figure, way) in [(whole, Way::Shared), (whole, Way::Stream), (less, Way::Into)] {
        let word = format!("/{}", way.word());
        for row in rows.iter().filter(|row| row.case.ends_with(&word)) {
            if let Some(name) = row.sizes.bytes.and_then(|bytes| printed(figure, bytes)) {
                lines.push(Line::new(BENCH, figure, name, row.p50_ns, row));
            }
        }
    }
    lines
}

/// Returns by how much a case takes longer than its baseline, in percent.
fn longer(row: &Row) -> Option<f64> {
    Some(100.0 * (row.compared.ratio_to_baseline? - 1.0))
}

/// Sections 5.4.4.4 and 5.4.4.5.
fn effects(rows: &[&Row]) -> Vec<Line> {
    let of = [
        ("a plain reference, more than a null call", "effect/plain"),
        ("one level of qualification", "effect/qualified"),
        ("an element whose place the reader knows", "effect/element"),
        ("synchronisation", "effect/synchronised"),
    ];
    let line = |(name, case): (&'static str, &str)| {
        let row = find(rows, case)?;
        Some(Line::new(BENCH, &EFFECTS, name, longer(row)?, row))
    };
    of.into_iter().filter_map(line).collect()
}

/// Returns the speed that a program loses, in percent, if it takes so many times as long.
fn degradation(ratio: f64) -> f64 {
    100.0 * (1.0 - 1.0 / ratio)
}

/// Sections 5.5 and 6.2.1.1: the speed that the program loses, and the time of a reference that fails, in a loop of
/// those and in the program.
fn programs(rows: &[&Row]) -> Vec<Line> {
    let (remote, fails) = (PROGRAM.rows[0].0, PROGRAM.rows[1].0);
    let of = [(remote, "program/shared"), (remote, "program/stream"), (fails, "program/failing")];
    let line = |(name, case)| {
        let row = find(rows, case)?;
        let lost = degradation(row.compared.ratio_to_baseline?);
        Some(Line::new(BENCH, &PROGRAM, name, lost, row))
    };
    let mut lines: Vec<Line> = of.into_iter().filter_map(line).collect();
    let failed = FAILED.rows[0].0;
    if let Some(row) = find(rows, "reissued")
        && let Some(ratio) = row.compared.ratio_to_baseline
    {
        lines.push(Line::new(BENCH, &FAILED, failed, ratio, row));
    }
    let [local, shared, failing] =
        ["local", "shared", "failing"].map(|word| find(rows, &format!("program/{word}")));
    if let (Some(local), Some(shared), Some(failing)) = (local, shared, failing) {
        let factor = failing_factor(local.p50_ns, shared.p50_ns, failing.p50_ns);
        if let Some(factor) = factor {
            lines.push(Line::new(BENCH, &FAILED, failed, factor, failing));
        }
    }
    lines
}

/// Returns how many times as long a reference takes that fails, from the times of three passes: all references local, 100 of
/// them remote, and one of these failing. `None` if the remote ones take no time that is seen.
fn failing_factor(local: f64, shared: f64, failing: f64) -> Option<f64> {
    let each_local = local / PASS as f64;
    let remote = (shared - local) / 100.0 + each_local;
    let factor = (failing - shared) / remote + 1.0;
    (shared > local && factor > 0.0).then_some(factor)
}

fn tables(rows: &[&Row], lines: &[Line], to: &mut impl Write) -> io::Result<()> {
    let Some(first) = rows.first() else { return Ok(()) };
    writeln!(to, "{}, {}", REFERENCES.system, REFERENCES.paper)?;
    writeln!(to, "  CPUs {} and {}: {}", first.cpus[0], first.cpus[1], first.placement)?;
    by_size(&Sizes { rows: rows.to_vec() }, to)?;
    instructions::table(rows, to)?;
    list(&EFFECTS, lines, to)?;
    ratios::table(rows, to)?;
    list(&PROGRAM, lines, to)?;
    list(&FAILED, lines, to)?;
    for case in ["reissued", "program/failing"] {
        if let Some(share) = find(rows, case).and_then(|row| row.traffic.called_percent) {
            writeln!(to, "    {case}: {share:.1}% of the reads of the value lost their bets")?;
        }
    }
    writeln!(to)
}

/// Prints the lines of a figure.
fn list(figure: &Printed, lines: &[Line], to: &mut impl Write) -> io::Result<()> {
    let lines: Vec<&Line> = lines.iter().filter(|line| line.table == figure.table).collect();
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(to, "  {:<62} {:>9} {:>9}", figure.table, "paper", "today")?;
    for line in lines {
        let unit = |value: f64| match line.unit {
            "percent" => format!("{value:.1}%"),
            _ => format!("{value:.1}"),
        };
        let then = told(line.then, unit);
        let name = format!("{} ({})", line.row, line.case);
        writeln!(to, "    {name:<60} {then:>9} {:>9}", unit(line.today))?;
    }
    Ok(())
}

/// Formats a number, if there is one.
fn told(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value.map_or("-".to_owned(), text)
}

/// Formats a ratio.
fn times(ratio: f64) -> String {
    if ratio < 100.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") }
}

/// Prints figures 5-1 and 5-3 beside the same of today.
fn by_size(sizes: &Sizes<'_>, to: &mut impl Write) -> io::Result<()> {
    let (whole, less) = (&REFERENCES, &REFERENCES_COPY_LESS);
    let all: Vec<u64> =
        sizes.all().into_iter().filter(|bytes| printed(whole, *bytes).is_some()).collect();
    if all.is_empty() {
        return Ok(());
    }
    let of = |figure: &Printed, bytes| printed(figure, bytes).and_then(|row| figure.value(row));
    writeln!(to, "  {:<77}  {}", whole.table, less.table)?;
    let heads = ["paper", "/ 2 B", "local", "shared", "/ local", "stream", "/ 2 B"];
    write!(to, "  {:>5}", "bytes")?;
    heads.iter().chain(&["paper", "shared"]).try_for_each(|head| write!(to, " {head:>9}"))?;
    writeln!(to)?;
    for bytes in all {
        let [local, shared, into, stream] = Way::ALL.map(|way| sizes.find(bytes, way.word()));
        let p50 = |row: Option<&Row>| row.map(|row| row.p50_ns);
        let in_two = |value: Option<f64>, least: Option<f64>| {
            told(value.zip(least).map(|(value, least)| value / least), times)
        };
        let against = |row: Option<&Row>| row.and_then(|row| row.compared.ratio_to_baseline);
        let percent = |ratio: f64| format!("{:+.1}%", 100.0 * (ratio - 1.0));
        let then = of(whole, bytes);
        let cells = [
            told(then, time),
            in_two(then, of(whole, LEAST)),
            told(p50(local), time),
            told(p50(shared), time),
            told(against(shared), times),
            told(p50(stream), time),
            in_two(p50(stream), p50(sizes.find(LEAST, Way::Stream.word()))),
            told(of(less, bytes).zip(then).map(|(less, then)| less / then), percent),
            told(against(into), percent),
        ];
        write!(to, "  {bytes:>5}")?;
        cells.iter().try_for_each(|cell| write!(to, " {cell:>9}"))?;
        writeln!(to)?;
    }
    Ok(())
}

const NOTES: &str = "\
A reference is one turn of the paper's timing program, a loop that assigns a remote variable to a local one; `loop` is
the same without a reference, which the paper subtracts and this does not. A processor of today overlaps the turns:
`chain` has references each of which needs the last one's value. `shared` reads the owner's memory, whose process
sleeps, by `try_read()`; `awaited` is `read().await`. `stream` calls the owner over a Unix socket, both polling.
Figure 5-3 is told against the same with the copy: of today, a value that is read into the reader's variable
(`try_read_into`) against one that is returned. Over a stream there is no such read. Nothing is said of the bandwidth
of a network, since there is none. The instructions are those that `cargo xtask instructions` has counted.
`qualified` is an element whose index is another number of the export, which the owner looks up. An `element` whose place
the reader knows has no lookup. The array of `synchronised` is an export under a lock that nobody holds.
There are no ports today. A one-way message to a handler, and an item of a stream, stand in place of the asynchronous
port call; their local counterparts are a task that is begun and ends, and an item of a stream of the same node. Theirs
are times of bursts, in which both processors work at once. Nothing stands in place of the synchronous port call.
The program follows the elements of an array, each of which has the index of the next; a pass is 10,000 references.
`shared` reads every hundredth in the owner's memory by `read().await`. In `failing` one of those hundred is a struct that
the owner updates again and again: a read that loses its bet in each attempt becomes a call, which waits until an update
is over. A read that wins its bet is repeated until one has lost it; the table says how many lost it at once. In `stream`
all remote references are calls. `reissued` is a loop of references that fail as in `failing`.
";

#[cfg(test)]
mod tests;
