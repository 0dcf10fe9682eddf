//! The report on one-way messages by size: a table, the paper's counts, and a plot.

use super::{BENCH, Copies, Flow, Way};
use crate::beside::Line;
use crate::papers::figures::express::AT_500_BYTES;
use crate::plot::{self, Series};
use crate::sizes::size_word;
use crate::sizes::{self, Sizes};
use std::io::{self, Write};
use upbeat_cli::bench::report::{Placement, Row, placements, short};

/// The size of the messages whose frames the paper counts.
const COUNTED: u64 = 500;

/// Prints the results.
pub(crate) fn tell(rows: &[Row], as_json: bool, to: &mut impl Write) -> io::Result<()> {
    sizes::tell(rows, as_json, to, table, paper)
}

/// Draws the plot.
pub(crate) fn plot(rows: &[Row]) -> String {
    let usual = placements(rows).first().copied().unwrap_or(Placement::Unsettled);
    let sizes = Sizes::of(rows, usual);
    let line = |name, class, way: Way| {
        let rate = |row: &Row| row.rates.gigabytes_per_second.map(|rate| rate * 1e9);
        Series { name, class, points: sizes.points(way.word(), rate) }
    };
    let series = [
        line("optimistic", "ours", Way::Nodes(Flow::Optimistic)),
        line("conservative", "polling", Way::Nodes(Flow::Conservative)),
        line("bare ring, two copies", "floor", Way::Ring(Copies::Two)),
        line("kept by the receiver", "ours dotted", Way::Kept),
        line("read in place", "ours dashed", Way::InPlace),
        line("bare ring, one copy", "floor dashed", Way::Ring(Copies::One)),
        line("the same, messages whole", "floor dotted", Way::Ring(Copies::Whole)),
    ];
    plot::by_size("one-way messages: bytes a second, by their size", &series, rate_name)
}

/// Returns the name of a power of ten of bytes a second.
fn rate_name(rate: f64) -> String {
    match rate {
        rate if rate < 1e9 => format!("{:.0} MB/s", rate / 1e6),
        rate => format!("{:.0} GB/s", rate / 1e9),
    }
}

fn table(sizes: &Sizes<'_>, to: &mut impl Write) -> io::Result<()> {
    let Some(first) = sizes.rows.first() else { return Ok(()) };
    let [client, server] = first.cpus;
    writeln!(to, "throughput on CPUs {client} and {server}: {}", first.placement)?;
    line(HEADS.map(|(_, above, _)| above.to_owned()), to)?;
    line(HEADS.map(|(_, _, name)| name.to_owned()), to)?;
    for bytes in sizes.all() {
        line(cells(sizes, bytes), to)?;
    }
    writeln!(to)
}

/// The columns: how wide each is, and the two lines above it.
const HEADS: [(usize, &str, &str); 16] = [
    (10, "", "bytes"),
    (12, "optimistic", "per second"),
    (9, "", "GB/s"),
    (7, "", "/ two"),
    (14, "conservative", "per second"),
    (9, "", "GB/s"),
    (9, "", "/ optim."),
    (10, "kept", "GB/s"),
    (7, "", "/ two"),
    (10, "in place", "GB/s"),
    (7, "", "/ one"),
    (12, "two copies", "GB/s"),
    (8, "", "ring"),
    (10, "one copy", "GB/s"),
    (8, "", "ring"),
    (8, "whole", "GB/s"),
];

fn line(cells: [String; HEADS.len()], to: &mut impl Write) -> io::Result<()> {
    for (cell, (width, ..)) in cells.iter().zip(HEADS) {
        write!(to, "{cell:>width$}")?;
    }
    writeln!(to)
}

fn cells(sizes: &Sizes<'_>, bytes: u64) -> [String; HEADS.len()] {
    let [two, one, whole, optimistic, conservative, in_place, kept] =
        Way::ALL.map(|way| sizes.find(bytes, way.word()));
    let many = |row: Option<&Row>| row.and_then(|row| row.rates.per_second).map_or(dash(), short);
    let rate = |row: Option<&Row>| {
        let rate = row.and_then(|row| row.rates.gigabytes_per_second);
        rate.map_or(dash(), |rate| format!("{rate:.2}"))
    };
    let ratio = |row: Option<&Row>| {
        let ratio = row.and_then(|row| row.compared.ratio_to_baseline);
        ratio.map_or(dash(), |ratio| format!("{ratio:.2}"))
    };
    let ring = |row: Option<&Row>| {
        let ring = row.and_then(|row| row.sizes.ring_bytes);
        ring.map_or(dash(), |bytes| size_word(bytes as usize))
    };
    [
        bytes.to_string(),
        many(optimistic),
        rate(optimistic),
        ratio(optimistic),
        many(conservative),
        rate(conservative),
        ratio(conservative),
        rate(kept),
        ratio(kept),
        rate(in_place),
        ratio(in_place),
        rate(two),
        ring(two),
        rate(one),
        ring(one),
        rate(whole),
    ]
}

fn dash() -> String {
    "-".to_owned()
}

/// Returns the paper's counts at 500 bytes, and today's.
pub(crate) fn lines(rows: &[&Row]) -> Vec<Line> {
    let sizes = Sizes { rows: rows.to_vec() };
    let [optimistic, conservative] = Flow::BOTH.map(|flow| sizes.find(COUNTED, flow.word()));
    let frames = |row: &Row| Some(100.0 * row.traffic.protocol_frames_per_message?);
    type Count = fn(&Row) -> Option<f64>;
    let counts: [(&'static str, Option<&Row>, Count); 4] = [
        ("sent optimistically", optimistic, |row| row.traffic.optimistic_percent),
        ("failed", optimistic, |row| row.traffic.refused_percent),
        ("protocol messages", optimistic, frames),
        ("protocol messages of the native library", conservative, frames),
    ];
    let line = |(name, row, count): (&'static str, Option<&Row>, Count)| {
        Some(Line::new(BENCH, &AT_500_BYTES, name, count(row?)?, row?))
    };
    counts.into_iter().filter_map(line).collect()
}

/// Prints the paper's counts at 500 bytes, and today's beside them.
fn paper(sizes: &Sizes<'_>, to: &mut impl Write) -> io::Result<()> {
    writeln!(to, "{}, {}", AT_500_BYTES.system, AT_500_BYTES.table)?;
    writeln!(to, "  {}", AT_500_BYTES.paper)?;
    let [optimistic, conservative] = Flow::BOTH.map(|flow| sizes.find(COUNTED, flow.word()));
    let frames = |row: Option<&Row>| row?.traffic.protocol_frames_per_message;
    let said = |value: Option<f64>| value.map_or("not counted".into(), |one| format!("{one:.3}"));
    let then = |name| AT_500_BYTES.value(name).unwrap_or(0.0);
    writeln!(to, "  {:<46} {:>8} {:>12}", "", "paper", "today")?;
    for (name, then, today) in [
        ("protocol frames a message, optimistic", then("protocol messages"), frames(optimistic)),
        (
            "protocol frames a message, conservative",
            then("protocol messages of the native library"),
            frames(conservative),
        ),
    ] {
        writeln!(to, "  {name:<46} {:>8.2} {:>12}", then / 100.0, said(today))?;
    }
    for (name, part) in [
        ("sent optimistically", optimistic.and_then(|row| row.traffic.optimistic_percent)),
        ("failed", optimistic.and_then(|row| row.traffic.refused_percent)),
    ] {
        let part = part.map_or("not counted".into(), |part| format!("{part:.1}%"));
        writeln!(to, "  {name:<46} {:>7.0}% {part:>12}", then(name))?;
    }
    write!(to, "{NOTES}")
}

const NOTES: &str = "
`/ two` is what a message costs in messages through the bare ring with two copies, `/ one` in those
through that with one, `/ optim.` in those sent optimistically, of rounds by turns. The rings move
the same bytes between the same two processes, copied in and out, or copied in and added up where they
lie; of four sizes of the ring the best. A receiver of ours has a vector of its own for each message,
made when it comes, which costs more than the copy where it is long; or it copies what lies with its
sender into a buffer that it keeps; what is read in place it adds up with the loop of the ring, and copies
nothing. `whole` is a ring of one copy that has room for two messages and is not cut: so long ones lie
for who reads them in place.
The paper's conservative figure is that of the native library, at more than 100 bytes.
";

#[cfg(test)]
mod tests {
    use super::{plot, tell};
    use upbeat_cli::bench::report::{Placement, Rates, Row, Sizes};

    fn row(way: &str, bytes: u64, ns: f64) -> Row {
        let case = format!("{bytes}B/{way}");
        let row = Row::alike("throughput", &case, Placement::OneL3, ns);
        let sizes = Sizes { bytes: Some(bytes), ..Sizes::default() };
        let gigabytes_per_second = Some(bytes as f64 / ns);
        Row { sizes, rates: Rates { gigabytes_per_second, ..Rates::default() }, ..row }
    }

    #[test]
    fn what_the_paper_counted_stands_beside_what_was_counted() {
        let mut counted = row("optimistic", 500, 100.0);
        counted.traffic.protocol_frames_per_message = Some(0.03125);
        counted.traffic.optimistic_percent = Some(99.5);
        let mut ring = row("two-copies", 500, 50.0);
        ring.sizes.ring_bytes = Some(256 << 10);
        let rows = [ring, counted, row("conservative", 500, 130.0)];
        let mut text = Vec::new();
        tell(&rows, false, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for wanted in ["0.24        0.031", "2.00  not counted", "88%        99.5%", "256KiB"] {
            assert!(text.contains(wanted), "`{wanted}` is not in {text}");
        }
        let drawn = plot(&rows);
        assert!(drawn.contains("line floor\"") && drawn.contains("GB/s"), "{drawn}");
        assert!(!drawn.contains("one copy") && !drawn.contains("in place"), "{drawn}");
    }
}
