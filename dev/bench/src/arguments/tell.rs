//! Output of calls by the size of their arguments: a table, the figures of both papers beside it, and a plot.

use super::{BENCH, Way};
use crate::beside::{self, Line};
use crate::papers::figures::Printed;
use crate::papers::figures::starmod::{CALLS, CALLS_COPY_LESS};
use crate::plot::{self, Series};
use crate::sizes::Sizes;
use std::io::{self, Write};
use upbeat_cli::bench::report::{Placement, Row, placements};
use upbeat_core::bill::timeline::time;

/// The size with which the papers compare the others.
const LEAST: u64 = 2;

/// Prints rows and lines: as text, or one JSON object a line.
pub(crate) fn tell(rows: &[Row], json: bool, to: &mut impl Write) -> io::Result<()> {
    beside::tell_as(rows, lines, |rows, _, to| tables(rows, to), NOTES, json, to)
}

/// Draws the rows.
pub(crate) fn plot(rows: &[Row]) -> String {
    let usual = placements(rows).first().copied().unwrap_or(Placement::Unsettled);
    let sizes = Sizes::of(rows, usual);
    let line = |name, class, way: Way| {
        let points = sizes.points(&way.word(), |row| Some(row.p50_ns));
        Series { name, class, points }
    };
    let series = [
        line("as a task (TRPC)", "sleeping", Way::TRPC),
        line("active message", "polling", Way::AM),
        line("optimistic (ORPC)", "ours", Way::ORPC),
        line("read in place", "ours dashed", Way::InPlace),
    ];
    plot::by_size("a call of nothing, by the bytes of its arguments", &series, plot::round_time)
}

/// Returns the row of a figure for this size.
fn printed(figure: &Printed, bytes: u64) -> Option<&'static str> {
    let is_it =
        |name: &str| name.strip_suffix(" bytes").and_then(|n| n.parse().ok()) == Some(bytes);
    figure.rows.iter().map(|(name, _)| *name).find(|name| is_it(name))
}

/// Returns the figures' lines for rows of one placement. StarMod makes a process for a call.
pub(crate) fn lines(rows: &[&Row]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (figure, way) in [(&CALLS, Way::TRPC), (&CALLS_COPY_LESS, Way::InPlace)] {
        let word = format!("/{}", way.word());
        for row in rows.iter().filter(|row| row.case.ends_with(&word)) {
            if let Some(name) = row.sizes.bytes.and_then(|bytes| printed(figure, bytes)) {
                lines.push(Line::new(BENCH, figure, name, row.p50_ns, row));
            }
        }
    }
    lines
}

fn tables(rows: &[&Row], to: &mut impl Write) -> io::Result<()> {
    let sizes = Sizes { rows: rows.to_vec() };
    executions(&sizes, to)?;
    starmod(&sizes, to)
}

/// Formats a number, if there is one.
fn told(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value.map_or("-".to_owned(), text)
}

/// Returns by how much a way takes longer than another, at one size.
fn more(sizes: &Sizes<'_>, bytes: u64, way: Way, than: Way) -> Option<f64> {
    let p50 = |way: Way| sizes.find(bytes, &way.word()).map(|row| row.p50_ns);
    Some(p50(way)? - p50(than)?)
}

/// Section 4.1.2: the difference remains, and its share of the whole shrinks.
fn executions(sizes: &Sizes<'_>, to: &mut impl Write) -> io::Result<()> {
    let Some(first) = sizes.rows.first() else { return Ok(()) };
    let [client, server] = first.cpus;
    writeln!(to, "arguments on CPUs {client} and {server}: {}", first.placement)?;
    let heads = ["AM", "ORPC", "/ AM", "TRPC", "/ AM", "- AM", "in place", "/ ORPC"];
    write!(to, "  {:>8}", "bytes")?;
    heads.iter().try_for_each(|head| write!(to, " {head:>9}"))?;
    writeln!(to)?;
    for bytes in sizes.all() {
        let [am, orpc, trpc, in_place] = Way::ALL.map(|way| sizes.find(bytes, &way.word()));
        let p50 = |row: Option<&Row>| told(row.map(|row| row.p50_ns), time);
        let ratio = |row: Option<&Row>| {
            told(row.and_then(|row| row.compared.ratio_to_baseline), |ratio| format!("{ratio:.2}"))
        };
        let cells = [
            p50(am),
            p50(orpc),
            ratio(orpc),
            p50(trpc),
            ratio(trpc),
            told(more(sizes, bytes, Way::TRPC, Way::AM), |ns| format!("{ns:.0} ns")),
            p50(in_place),
            ratio(in_place),
        ];
        write!(to, "  {bytes:>8}")?;
        cells.iter().try_for_each(|cell| write!(to, " {cell:>9}"))?;
        writeln!(to)?;
    }
    writeln!(to)
}

/// Both figures: the time of a call by its size, and the share that one copy less saves.
fn starmod(sizes: &Sizes<'_>, to: &mut impl Write) -> io::Result<()> {
    let (whole, less) = (&CALLS, &CALLS_COPY_LESS);
    let of = |figure: &Printed, bytes| printed(figure, bytes).and_then(|row| figure.value(row));
    let today = |bytes, way: Way| sizes.find(bytes, &way.word()).map(|row| row.p50_ns);
    if !sizes.all().into_iter().any(|bytes| printed(whole, bytes).is_some()) {
        return Ok(());
    }
    writeln!(to, "{}, {}", whole.system, whole.paper)?;
    writeln!(to, "  {:>8}  {:<26} {:<26}", "", whole.table, less.table)?;
    write!(to, "  {:>8}", "bytes")?;
    let heads = ["paper", "/ 2 B", "today", "/ 2 B", "paper", "today"];
    heads.iter().try_for_each(|head| write!(to, " {head:>9}"))?;
    writeln!(to)?;
    for bytes in sizes.all() {
        let Some(then) = of(whole, bytes) else { continue };
        let in_two = |value: Option<f64>, least: Option<f64>| {
            told(value.zip(least).map(|(value, least)| value / least), |ratio| {
                format!("{ratio:.2}")
            })
        };
        let now = today(bytes, Way::TRPC);
        let in_place = sizes.find(bytes, &Way::InPlace.word());
        let percent = |ratio: f64| format!("{:+.1}%", 100.0 * (ratio - 1.0));
        let cells = [
            time(then),
            in_two(Some(then), of(whole, LEAST)),
            told(now, time),
            in_two(now, today(LEAST, Way::TRPC)),
            told(of(less, bytes).map(|less| less / then), percent),
            told(in_place.and_then(|row| row.compared.ratio_to_baseline), percent),
        ];
        write!(to, "  {bytes:>8}")?;
        cells.iter().try_for_each(|cell| write!(to, " {cell:>9}"))?;
        writeln!(to)?;
    }
    writeln!(to)
}

const NOTES: &str = "\
All nodes poll, and the server's own future waits. Bytes are those of a frame's payload; the handler
reads them all. StarMod makes a process for each call: today's figure beside figure 4-5 is of a task for each. What
a copy less takes is told against the same with the copy; of today it is of an optimistic call.
Section 4.1.2 of the paper on Optimistic Active Messages says that the difference of the three stays as
the data grows, and becomes a smaller part; its values are in no text.
";

#[cfg(test)]
mod tests {
    use super::{lines, plot, tell};
    use upbeat_cli::bench::report::{Placement, Row};

    fn row(case: &str, bytes: u64, ns: f64, baseline: Option<f64>) -> Row {
        let mut row = Row::alike("arguments", case, Placement::OneL3, ns);
        row.sizes.bytes = Some(bytes);
        row.compared.ratio_to_baseline = baseline;
        row
    }

    #[test]
    fn both_papers_stand_beside_it() {
        let rows = [
            row("2B/am", 2, 180.0, None),
            row("2B/orpc", 2, 181.0, Some(1.006)),
            row("2B/trpc", 2, 290.0, Some(1.61)),
            row("1024B/trpc", 1024, 435.0, Some(1.4)),
            row("1024B/in-place", 1024, 190.0, Some(0.75)),
            row("4KiB/trpc", 4096, 900.0, None),
        ];
        let of: Vec<&Row> = rows.iter().collect();
        let told: Vec<_> =
            lines(&of).iter().map(|line| (line.then.map(f64::round), line.today)).collect();
        assert_eq!(told, [(Some(20.13e6), 290.0), (Some(35.88e6), 435.0), (Some(32.02e6), 190.0)]);
        let mut text = Vec::new();
        tell(&rows, false, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let last = text.lines().find(|line| line.contains("35.88 ms")).unwrap();
        let cells: Vec<&str> = last.split_whitespace().collect();
        assert_eq!(cells[2..], ["ms", "1.78", "435.0", "ns", "1.50", "-10.8%", "-25.0%"], "{text}");
        assert!(text.contains("110 ns"), "{text}");
        let drawn = plot(&rows);
        assert!(drawn.contains("line ours dashed") && drawn.contains("line sleeping"), "{drawn}");
    }
}
