//! Printing of the tables.

use super::tables::{Line, Table};
use std::io::{self, Write};
use upbeat_cli::bench::report::{Row, placements, short};
use upbeat_core::bill::timeline::time;

/// Prints these tables as far as the rows make them: as text, or one JSON object a line.
pub(super) fn tell(
    tables: &[Table],
    rows: &[Row],
    json: bool,
    to: &mut dyn Write,
) -> io::Result<()> {
    for placement in placements(rows) {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.placement == placement).collect();
        for &table in tables {
            for lines in table.groups(&rows) {
                if json {
                    objects(&lines, to)?;
                } else {
                    grid(table, &lines, to)?;
                }
            }
        }
    }
    if !json {
        write!(to, "{NOTES}")?;
    }
    Ok(())
}

const NOTES: &str = "\
A ratio is the paper's figure in today's. LYNX's nodes are processors: `shared` are two processes,
each on a CPU of its own, `one-cpu` two on one CPU; LYNX makes a thread for each request, and so do these: a task. Half of a round trip is
what Nectar's tables break up; what a call's two directions took stands in brackets. A paper's
figure without one of today stands where nothing is charged to it.
`bench papers` has all tables and figures of the papers, and the word absent where there is nothing.
LYNX's figure 3, the percentages of all work, is counted: cargo xtask instructions --categories
";

fn objects(lines: &[Line], to: &mut dyn Write) -> io::Result<()> {
    for line in lines {
        serde_json::to_writer(&mut *to, line)?;
        writeln!(to)?;
    }
    Ok(())
}

fn grid(table: Table, lines: &[Line], to: &mut dyn Write) -> io::Result<()> {
    let Some(first) = lines.first() else { return Ok(()) };
    let [client, server] = first.measured.cpus;
    let of =
        if table == Table::Times { String::new() } else { format!(": {}", first.measured.case) };
    writeln!(to, "{}, {}{of}", first.system, first.table)?;
    writeln!(to, "  {}", first.paper)?;
    writeln!(to, "  CPUs {client} and {server}: {}", first.measured.placement)?;
    if table == Table::Timeline {
        steps(lines, to)?;
    }
    writeln!(to, "  {:<28} {:>10} {:>10} {:>9}", "", "paper", "today", "ratio")?;
    for line in lines.iter().filter(|line| line.begins.is_none()) {
        let figure = |value: Option<f64>| value.map_or("-".to_owned(), |value| unit(line, value));
        let (then, today) = (figure(line.then), figure(line.today));
        let besides = match (line.request, line.answer) {
            (Some(request), Some(answer)) => format!("({request:.1}, {answer:.1})"),
            (Some(request), None) => format!("({request:.1})"),
            _ if table == Table::Times => line.measured.case.clone(),
            _ => String::new(),
        };
        let ratio = line.ratio.map_or_else(String::new, ratio);
        let text = format!("  {:<28} {then:>10} {today:>10} {ratio:>9}  {besides}", line.row);
        writeln!(to, "{}", text.trim_end())?;
    }
    writeln!(to)
}

/// Prints a timeline as in the paper: down the page, the client on the left and the server on the right.
fn steps(lines: &[Line], to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "  {:>10} {:<24} {:<24} server", "at", "client", "between")?;
    for line in lines {
        let (Some(begins), Some(place), Some(took)) = (line.begins, line.place, line.today) else {
            continue;
        };
        let step = format!("{} {}", line.row, time(took));
        let column = ["here", "wire", "there"].iter().position(|name| *name == place);
        let before = 25 * column.unwrap_or(0);
        writeln!(to, "  {:>10} {:before$}{step}", time(begins), "")?;
    }
    Ok(())
}

fn unit(line: &Line, value: f64) -> String {
    if line.unit == "percent" { format!("{value:.1}%") } else { time(value) }
}

fn ratio(value: f64) -> String {
    match value {
        small if small < 10.0 => format!("{small:.2}"),
        middle if middle < 1000.0 => format!("{middle:.0}"),
        great => short(great),
    }
}
