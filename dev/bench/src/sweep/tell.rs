//! The output of a sweep: a table with a line for each carrier, driver and way of waiting, or one JSON object per cell.

use super::cells::{Cell, DRIVERS, PRIMITIVES, Stand, stands, word};
use serde::Serialize;
use std::io::{self, Write};
use upbeat_cli::bench::error::BenchError;

/// How a cell ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Ok,
    Hung,
    Wrong(String),
}

/// A cell that has run.
pub(super) struct Row {
    pub(super) stand: Stand,
    pub(super) cell: Cell,
    pub(super) messages: u64,
    /// The messages that had moved at the end.
    pub(super) sent: u64,
    pub(super) seconds: f64,
    pub(super) outcome: Outcome,
}

impl Row {
    fn rate(&self) -> f64 {
        self.sent as f64 / self.seconds.max(1e-9)
    }

    fn outcome(&self) -> &str {
        match &self.outcome {
            Outcome::Ok => "OK",
            Outcome::Hung => "HUNG",
            Outcome::Wrong(_) => "WRONG",
        }
    }
}

#[derive(Serialize)]
struct Line<'r> {
    bench: &'static str,
    case: String,
    bytes: usize,
    messages: u64,
    sent: u64,
    seconds: f64,
    messages_per_second: f64,
    outcome: &'r str,
    text: Option<&'r str>,
}

pub(super) fn output(error: io::Error) -> BenchError {
    BenchError::protocol(format!("the output cannot be written: {error}"))
}

pub(super) fn list(mut names: impl Iterator<Item = String>) -> io::Result<()> {
    let mut to = io::stdout().lock();
    names.try_for_each(|name| writeln!(to, "{name}"))
}

pub(super) fn json(rows: &[Row], to: &mut impl Write) -> io::Result<()> {
    for row in rows {
        let line = Line {
            bench: "sweep",
            case: row.cell.name(row.stand),
            bytes: row.cell.size,
            messages: row.messages,
            sent: row.sent,
            seconds: row.seconds,
            messages_per_second: row.rate(),
            outcome: row.outcome(),
            text: match &row.outcome {
                Outcome::Wrong(text) => Some(text),
                _ => None,
            },
        };
        serde_json::to_writer(&mut *to, &line)?;
        writeln!(to)?;
    }
    Ok(())
}

/// Prints for each line and primitive the cells that are well, and the rates of the slowest and the fastest size. Then
/// all other cells are named.
pub(super) fn table(rows: &[Row], to: &mut impl Write) -> io::Result<()> {
    writeln!(
        to,
        "sweep: cells that are OK, and messages a second of the slowest and the fastest size"
    )?;
    write!(to, "{:<26}", "carrier/driver/waiting")?;
    for primitive in PRIMITIVES {
        write!(to, " {:>20}", word(primitive))?;
    }
    writeln!(to)?;
    for stand in stands() {
        for driver in DRIVERS {
            let of_line = |row: &&Row| row.stand == stand && row.cell.driver == driver;
            let line: Vec<&Row> = rows.iter().filter(of_line).collect();
            if line.is_empty() {
                continue;
            }
            let (carrier, waiting) = (word(stand.carrier), word(stand.waiting));
            write!(to, "{:<26}", format!("{carrier}/{}/{waiting}", word(driver)))?;
            for primitive in PRIMITIVES {
                let of = line.iter().filter(|row| row.cell.primitive == primitive);
                write!(to, " {:>20}", column(&of.copied().collect::<Vec<_>>()))?;
            }
            writeln!(to)?;
        }
    }
    for row in rows.iter().filter(|row| row.outcome != Outcome::Ok) {
        let text = match &row.outcome {
            Outcome::Wrong(text) => format!(": {text}"),
            _ => String::new(),
        };
        let (name, sent, messages) = (row.cell.name(row.stand), row.sent, row.messages);
        writeln!(to, "{} {name} after {sent} of {messages} messages{text}", row.outcome())?;
    }
    let messages: u64 = rows.iter().map(|row| row.sent).sum();
    let well = rows.iter().filter(|row| row.outcome == Outcome::Ok).count();
    writeln!(to, "{well} of {} cells are OK, {messages} messages", rows.len())
}

fn column(rows: &[&Row]) -> String {
    if rows.is_empty() {
        return "-".to_owned();
    }
    let well: Vec<f64> =
        rows.iter().filter(|row| row.outcome == Outcome::Ok).map(|row| row.rate()).collect();
    let least = well.iter().copied().fold(f64::INFINITY, f64::min);
    let most = well.iter().copied().fold(0.0, f64::max);
    match well.len() {
        0 => format!("0/{}", rows.len()),
        count => format!("{count}/{} {}..{}", rows.len(), short(least), short(most)),
    }
}

fn short(rate: f64) -> String {
    match rate {
        rate if rate >= 1e6 => format!("{:.1}M", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.0}k", rate / 1e3),
        rate => format!("{rate:.0}"),
    }
}
