//! Output of round trips by size: a table, the paper's statements beside it, and a plot.

use super::{BENCH, Flow, Nodes};
use crate::beside::Line;
use crate::papers::figures::express::{SHORT, UPCALL};
use crate::plot::{self, Series};
use crate::sizes::{self, Sizes};
use std::io::{self, Write};
use upbeat_cli::bench::report::{Placement, Row, placements};
use upbeat_core::bill::timeline::time;
use upbeat_core::limits::SHORT_BYTES;

/// Prints the measurements.
pub(crate) fn tell(rows: &[Row], as_json: bool, to: &mut impl Write) -> io::Result<()> {
    sizes::tell(rows, as_json, to, table, paper)
}

/// Draws the measurements.
pub(crate) fn plot(rows: &[Row]) -> String {
    let usual = placements(rows).first().copied().unwrap_or(Placement::Unsettled);
    let sizes = Sizes::of(rows, usual);
    let line = |name, class, nodes: Nodes| {
        let points = sizes.points(nodes.word(), |row| Some(row.p50_ns));
        Series { name, class, points }
    };
    let series = [
        line("optimistic", "ours", Nodes::Polling(Flow::Optimistic)),
        line("conservative", "polling", Nodes::Polling(Flow::Conservative)),
        line("both asleep", "sleeping", Nodes::Asleep),
    ];
    plot::by_size("a round trip, by the size of the message", &series, plot::round_time)
}

fn table(sizes: &Sizes<'_>, to: &mut impl Write) -> io::Result<()> {
    let Some(first) = sizes.rows.first() else { return Ok(()) };
    let [client, server] = first.cpus;
    writeln!(to, "size on CPUs {client} and {server}: {}", first.placement)?;
    writeln!(
        to,
        "  {:>9}  {:>10} {:>10} {:>7}  {:>12} {:>10} {:>7} {:>9}  {:>10}",
        "bytes",
        "optimistic",
        "p99",
        "/ line",
        "conservative",
        "p99",
        "/ line",
        "/ optim.",
        "asleep"
    )?;
    for bytes in sizes.all() {
        let found = Nodes::ALL.map(|nodes| sizes.find(bytes, nodes.word()));
        let [optimistic, conservative, asleep] = found;
        let p50 = |row: Option<&Row>| row.map_or("-".into(), |row| time(row.p50_ns));
        let p99 = |row: Option<&Row>| row.map_or("-".into(), |row| time(row.p99_ns));
        let ratio = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
        let line = |row: Option<&Row>| ratio(row.and_then(|row| row.compared.ratio_to_line));
        let against = ratio(conservative.and_then(|row| row.compared.ratio_to_baseline));
        let text = format!(
            "  {bytes:>9}  {:>10} {:>10} {:>7}  {:>12} {:>10} {:>7} {against:>9}  {:>10}",
            p50(optimistic),
            p99(optimistic),
            line(optimistic),
            p50(conservative),
            p99(conservative),
            line(conservative),
            asleep.map_or(String::new(), |row| time(row.p50_ns)),
        );
        writeln!(to, "{}", text.trim_end())?;
    }
    writeln!(to)
}

/// Returns the cost of a round trip at one size, as a multiple of its cost at another.
fn step(sizes: &Sizes<'_>, from: u64, to: u64, nodes: Nodes) -> Option<f64> {
    let p50 = |bytes| sizes.find(bytes, nodes.word()).map(|row| row.p50_ns);
    Some(p50(to)? / p50(from)?)
}

/// Returns the longest short message, if one of about its size was measured.
pub(crate) fn lines(rows: &[&Row]) -> Vec<Line> {
    let short = Nodes::Polling(Flow::Optimistic).word();
    let row = rows.iter().find(|row| row.case.ends_with(short) && row.sizes.bytes == Some(100));
    let line = |row: &&Row| Line::new(BENCH, &SHORT, "short message", SHORT_BYTES as f64, row);
    row.map(line).into_iter().collect()
}

/// Prints what the paper says in words, and the same of today.
fn paper(sizes: &Sizes<'_>, to: &mut impl Write) -> io::Result<()> {
    writeln!(to, "{}, {}", SHORT.system, SHORT.table)?;
    writeln!(to, "  {}", SHORT.paper)?;
    write!(to, "{THEN}")?;
    let (short, longer) = (100, 200);
    for flow in Flow::BOTH {
        if let Some(step) = step(sizes, short, longer, Nodes::Polling(flow)) {
            let word = flow.word();
            writeln!(to, "  Today, {word}: {longer} bytes take {step:.2} of what {short} take.")?;
        }
    }
    let zero = |nodes: Nodes| sizes.find(0, nodes.word()).map(|row| row.p50_ns);
    let polled = zero(Nodes::Polling(Flow::Optimistic));
    if let Some((asleep, polled)) = zero(Nodes::Asleep).zip(polled) {
        // Half of a round trip, as in the paper.
        let more = time((asleep - polled) / 2.0);
        let then = time(UPCALL.value("upcall beside polling").unwrap_or(0.0));
        writeln!(to, "  An upcall cost {then} more than polling, one way; a wake costs {more}.")?;
    }
    write!(to, "{NOTES}")
}

const THEN: &str = "  The latency of iPSC/2 messages rose dramatically at 100 bytes, that of Express Messages gradually
  up to the page of about 4 KiB, beyond which the figure does not go. Its values are in no text.
";

const NOTES: &str = "
A message goes there and comes back; the paper's latency is of one way. Bytes are those of a frame's
payload: a `Vec<u8>` has 8 more, its length. `/ optim.` is of rounds by turns. p99 is of messages
that were timed one by one.
";

#[cfg(test)]
mod tests {
    use super::{plot, tell};
    use upbeat_cli::bench::report::{Placement, Row};

    fn row(case: &str, bytes: u64, ns: f64) -> Row {
        let mut row = Row::alike("size", case, Placement::OneL3, ns);
        row.sizes.bytes = Some(bytes);
        row
    }

    #[test]
    fn what_the_paper_says_stands_beside_it() {
        let rows = [
            row("0B/optimistic", 0, 200.0),
            row("0B/asleep", 0, 40_200.0),
            row("100B/optimistic", 100, 220.0),
            row("200B/optimistic", 200, 330.0),
        ];
        let mut text = Vec::new();
        tell(&rows, false, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("optimistic: 200 bytes take 1.5"), "{text}");
        assert!(
            text.contains("cost 27.00 us more than polling, one way; a wake costs 20."),
            "{text}"
        );
        assert!(!text.contains("conservative: 200"), "{text}");
        let drawn = plot(&rows);
        assert!(drawn.contains("line ours") && !drawn.contains("line polling"), "{drawn}");
    }
}
