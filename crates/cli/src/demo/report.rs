//! The output of the demo: a table and a sentence as text, or one JSON object per line.

use crate::bench::report::{Placement, Row, rounded, short};
use crate::demo::calls::Calls;
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use upbeat_core::bill::timeline::time;

/// The carrier of sessions between processes of one host.
const TRANSPORT: &str = "shared";

const LEGEND: &str = "\
inline: the first poll finished the handler; promoted: the handler had to wait and became a task.
";

/// The results of the demo.
pub(crate) struct Report {
    /// The nodes, and the numbers of their processes.
    pub(crate) nodes: Vec<(&'static str, u32)>,
    /// The calls by kind.
    pub(crate) calls: Vec<Calls>,
    /// The comparison of the null call with the floor, or the reason why there is none.
    pub(crate) line: Result<Compared, String>,
}

/// The null call and the floor, measured alternately.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Compared {
    /// The placement of the two CPUs.
    placement: Placement,
    /// The CPU of the desk, and the CPU of the shop.
    cpus: [usize; 2],
    /// The time of a null call.
    null_ns: f64,
    /// The time of a round trip of two cache lines, at the faster of two polling rates, computed from the ratio.
    line_ns: f64,
    /// The null call in such round trips: the median over rounds that alternate with the floor.
    ratio_to_line: f64,
    /// The null call in round trips without a pause between polls.
    ratio_to_tight: Option<f64>,
}

impl Compared {
    /// Returns the comparison in a row, if the row has one.
    pub(crate) fn of(row: &Row) -> Option<Compared> {
        let ratio = row.compared.ratio_to_line?;
        Some(Compared {
            placement: row.placement,
            cpus: row.cpus,
            null_ns: row.p50_ns,
            line_ns: rounded(row.p50_ns / ratio),
            ratio_to_line: ratio,
            ratio_to_tight: row.compared.ratio_to_tight,
        })
    }
}

/// A kind of call, as JSON.
#[derive(Serialize)]
struct Json<'a> {
    from: &'a str,
    to: &'a str,
    call: &'a str,
    transport: &'a str,
    n: u64,
    p50_ns: f64,
    p99_ns: f64,
    inline: u64,
    promoted: u64,
    ended: &'a str,
}

impl Report {
    /// Prints the report.
    pub(crate) fn print(&self, json: bool) -> io::Result<()> {
        let mut to = BufWriter::new(io::stdout().lock());
        let printed = if json { self.json(&mut to) } else { self.text(&mut to) };
        printed.and_then(|()| to.flush())
    }

    fn json(&self, to: &mut impl Write) -> io::Result<()> {
        for calls in &self.calls {
            let json = Json {
                from: calls.from,
                to: calls.to,
                call: calls.call,
                transport: TRANSPORT,
                n: calls.count,
                p50_ns: rounded(calls.p50_ns),
                p99_ns: rounded(calls.p99_ns),
                inline: calls.count - calls.promoted,
                promoted: calls.promoted,
                ended: &calls.ended,
            };
            serde_json::to_writer(&mut *to, &json)?;
            writeln!(to)?;
        }
        if let Ok(line) = &self.line {
            serde_json::to_writer(&mut *to, line)?;
            writeln!(to)?;
        }
        Ok(())
    }

    fn text(&self, to: &mut impl Write) -> io::Result<()> {
        let nodes: Vec<String> =
            self.nodes.iter().map(|(name, pid)| format!("{name} ({pid})")).collect();
        writeln!(to, "Three nodes in three processes of this host: {}.\n", nodes.join(", "))?;
        grid(&self.calls, to)?;
        writeln!(to, "\n{LEGEND}\n{}", self.sentence())
    }

    /// Returns the sentence that compares the null call with the floor.
    fn sentence(&self) -> String {
        match &self.line {
            Err(why) => format!("The null call was not compared with the floor: {why}."),
            Ok(line) => {
                let place = match line.placement {
                    Placement::OneCore => "two threads of one core",
                    Placement::OneL3 => "two cores with one L3",
                    Placement::TwoL3s => "two cores with an L3 each",
                    Placement::Unsettled => "moved by the host meanwhile",
                };
                format!(
                    "A null call takes {:.2} round trips of a cache line: {} against {} \
                     (CPUs {} and {}: {place}).",
                    line.ratio_to_line,
                    time(line.null_ns),
                    time(line.line_ns),
                    line.cpus[0],
                    line.cpus[1],
                )
            }
        }
    }
}

/// A column: its title, whether it contains numbers, and the text of a cell.
type Column = (&'static str, bool, fn(&Calls) -> String);

const COLUMNS: &[Column] = &[
    ("from", false, |calls| calls.from.into()),
    ("to", false, |calls| calls.to.into()),
    ("call", false, |calls| calls.call.into()),
    ("over", false, |_| TRANSPORT.into()),
    ("calls", true, |calls| short(calls.count as f64)),
    ("median", true, |calls| time(calls.p50_ns)),
    ("p99", true, |calls| time(calls.p99_ns)),
    ("inline", true, |calls| short((calls.count - calls.promoted) as f64)),
    ("promoted", true, |calls| short(calls.promoted as f64)),
    ("ended", false, |calls| calls.ended.clone()),
];

fn grid(calls: &[Calls], to: &mut impl Write) -> io::Result<()> {
    let cells: Vec<Vec<String>> =
        COLUMNS.iter().map(|(_, _, text)| calls.iter().map(text).collect()).collect();
    let line = |at: Option<usize>| {
        let mut line = String::new();
        for ((title, number, _), cells) in COLUMNS.iter().zip(&cells) {
            let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
            let width = width.max(title.len());
            let cell = at.map_or(*title, |at| cells[at].as_str());
            let cell =
                if *number { format!("  {cell:>width$}") } else { format!("  {cell:<width$}") };
            line.push_str(&cell);
        }
        line.trim_end().to_owned()
    };
    writeln!(to, "{}", line(None))?;
    (0..calls.len()).try_for_each(|at| writeln!(to, "{}", line(Some(at))))
}

#[cfg(test)]
mod tests {
    use super::{Calls, Compared, Placement, Report};
    use serde_json::Value;

    fn report() -> Report {
        let calls = Calls {
            from: "desk",
            to: "shop",
            call: "nothing()",
            count: 12_345,
            p50_ns: 101.25,
            p99_ns: 2_500.0,
            promoted: 5,
            ended: "Ok".into(),
        };
        let other = Calls { to: "stock", call: "delivery(1 ms)", count: 5, ..calls.clone() };
        let compared = Compared {
            placement: Placement::OneL3,
            cpus: [3, 1],
            null_ns: 101.25,
            line_ns: 100.0,
            ratio_to_line: 1.0125,
            ratio_to_tight: None,
        };
        Report { nodes: vec![("desk", 7)], calls: vec![calls, other], line: Ok(compared) }
    }

    #[test]
    fn the_table_is_aligned_and_one_line_compares() {
        let mut text = Vec::new();
        report().text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("desk (7)."));
        let at = lines[2].find("median").unwrap() + 6;
        assert!(lines[3][..at].ends_with(" 101.2 ns") && lines[4][..at].ends_with(" 101.2 ns"));
        assert!(lines[8].starts_with("A null call takes 1.01 round trips of a cache line"));
        assert!(lines[8].ends_with("(CPUs 3 and 1: two cores with one L3)."));
    }

    #[test]
    fn json_has_one_object_per_line() {
        let mut text = Vec::new();
        report().json(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!((&lines[0]["n"], &lines[0]["inline"]), (&12_345.into(), &12_340.into()));
        assert_eq!(lines[0]["transport"], "shared");
        assert_eq!(lines[2]["placement"], "one L3");
        assert_eq!(lines[2]["ratio_to_line"], 1.0125);
    }

    #[test]
    fn without_a_floor_the_sentence_gives_the_reason() {
        let report = Report { line: Err("one CPU".into()), ..report() };
        assert_eq!(report.sentence(), "The null call was not compared with the floor: one CPU.");
    }
}
