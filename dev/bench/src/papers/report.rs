//! Every table and figure of the papers, with what was measured beside it, or the word absent and the reason.

use super::figures::{Absent, Entry, Printed, Unit};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use upbeat_cli::bench::report::short;
use upbeat_core::bill::timeline::time;

/// A figure of today beside one of a paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Beside {
    /// The system that the paper measured.
    pub(crate) system: String,
    /// The place in the paper.
    pub(crate) table: String,
    /// The row, of the paper or of today alone.
    pub(crate) row: String,
    /// The paper's figure, if the row is one of the paper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) then: Option<f64>,
    /// The figure of today.
    pub(crate) today: f64,
    /// The case that was measured.
    pub(crate) case: String,
    /// The placement of the two CPUs.
    pub(crate) placement: String,
}

/// A table or a figure, as it is shown.
#[derive(Debug)]
pub(crate) struct Section {
    /// The place in the paper.
    pub(crate) title: &'static str,
    /// The conditions of the paper and of today, and the command, in sentences.
    pub(crate) conditions: Vec<String>,
    /// The heads of the columns; none if there is no table.
    pub(crate) heads: Vec<&'static str>,
    /// The cells of each row.
    pub(crate) rows: Vec<Vec<String>>,
}

impl Section {
    /// Returns a table or a figure with the figures of today that stand beside it.
    pub(crate) fn of(entry: Entry, today: &[Beside]) -> Section {
        match entry {
            Entry::Held(printed) => held(printed, today),
            Entry::Absent(absent) => absence(absent),
        }
    }
}

/// Returns the figures of today beside a table.
fn beside<'t>(printed: &'t Printed, today: &'t [Beside]) -> impl Iterator<Item = &'t Beside> {
    let is_of = |one: &&Beside| one.system == printed.system && one.table == printed.table;
    today.iter().filter(is_of)
}

/// Returns the rows of a table that have no figure of today, although they should have one.
pub(crate) fn missing(printed: &Printed, today: &[Beside]) -> Vec<&'static str> {
    let is_missing = |row: &&str| {
        printed.absent(row).is_none() && !beside(printed, today).any(|one| one.row == **row)
    };
    printed.rows.iter().map(|(row, _)| *row).filter(is_missing).collect()
}

fn held(printed: &Printed, today: &[Beside]) -> Section {
    let unit = printed.unit;
    let line = |name: &str, then: Option<f64>, one: &Beside| {
        let ratio = then.filter(|_| unit.is_time() && one.today > 0.0);
        vec![
            name.to_owned(),
            then.map_or("-".to_owned(), |then| shown(unit, then)),
            shown(unit, one.today),
            ratio.map_or(String::new(), |then| shown(Unit::Times, then / one.today)),
            format!("`{}`, {}", one.case, one.placement),
        ]
    };
    let mut rows = Vec::new();
    for (name, _) in printed.rows {
        let then = printed.value(name);
        let found: Vec<&Beside> = beside(printed, today).filter(|one| one.row == *name).collect();
        rows.extend(found.iter().map(|one| line(name, then, one)));
        if found.is_empty() {
            let reason = printed.absent(name).unwrap_or("not measured in this run");
            let then = then.map_or("-".to_owned(), |then| shown(unit, then));
            rows.push(vec![
                (*name).to_owned(),
                then,
                "*absent*".to_owned(),
                String::new(),
                reason.to_owned(),
            ]);
        }
    }
    let is_ours = |one: &&Beside| printed.rows.iter().all(|(name, _)| *name != one.row);
    rows.extend(beside(printed, today).filter(is_ours).map(|one| line(&one.row, one.then, one)));
    let conditions = vec![
        format!("Paper: {}.", printed.then),
        format!("Today: {}.", printed.today.condition),
        format!("`cargo run --release -p bench -- {}`", printed.today.bench),
    ];
    let heads = vec!["", "paper", "today", "paper / today", "case and placement"];
    Section { title: printed.table, conditions, heads, rows }
}

fn absence(absent: &'static Absent) -> Section {
    let mut conditions =
        vec![format!("Paper: {}.", absent.then), format!("Today: *absent*: {}.", absent.why)];
    if absent.rows.is_empty() {
        conditions.push("The paper prints no values.".to_owned());
        let (heads, rows) = (Vec::new(), Vec::new());
        return Section { title: absent.table, conditions, heads, rows };
    }
    let mut heads = vec![""];
    heads.extend(absent.columns);
    heads.push("today");
    let row = |(name, figures): &(&str, &[f64])| {
        let mut cells = vec![(*name).to_owned()];
        cells.extend(figures.iter().map(|one| shown(absent.unit, absent.unit.scaled(*one))));
        cells.push("*absent*".to_owned());
        cells
    };
    let rows = absent.rows.iter().map(row).collect();
    Section { title: absent.table, conditions, heads, rows }
}

/// Formats a figure that is scaled.
fn shown(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Ms | Unit::Us => signed(value, time),
        Unit::Percent => format!("{value:.1}%"),
        Unit::Bytes => format!("{value:.0} bytes"),
        Unit::Instructions => format!("{value:.1}"),
        Unit::Times if value < 10.0 => format!("{value:.2}"),
        Unit::Times if value < 1000.0 => format!("{value:.0}"),
        Unit::Times => short(value),
    }
}

/// Formats a time, which may be negative where it is a difference.
fn signed(ns: f64, text: fn(f64) -> String) -> String {
    if ns < 0.0 { format!("-{}", text(-ns)) } else { text(ns) }
}

/// A row of a table for programs.
#[derive(Serialize)]
struct Told<'t> {
    bench: &'static str,
    system: &'static str,
    paper: &'static str,
    table: &'static str,
    row: String,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    then: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    today: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    case: Option<&'t str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<&'t str>,
    /// The reason, if there is no figure of today.
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<&'static str>,
}

/// Prints all of it: as text, or one JSON object a row.
pub(crate) fn tell(
    entries: &[Entry],
    today: &[Beside],
    json: bool,
    to: &mut impl Write,
) -> io::Result<()> {
    let mut paper = "";
    for entry in entries {
        if json {
            objects(*entry, today, to)?;
            continue;
        }
        if entry.paper() != paper {
            paper = entry.paper();
            writeln!(to, "{}: {paper}\n", entry.system())?;
        }
        text(&Section::of(*entry, today), to)?;
    }
    Ok(())
}

fn objects(entry: Entry, today: &[Beside], to: &mut impl Write) -> io::Result<()> {
    let told = |row: String, unit: Unit, then: Option<f64>| Told {
        bench: super::BENCH,
        system: entry.system(),
        paper: entry.paper(),
        table: entry.table(),
        row,
        unit: unit.word(),
        then,
        today: None,
        case: None,
        placement: None,
        absent: None,
    };
    let mut all = Vec::new();
    match entry {
        Entry::Held(printed) => {
            for one in beside(printed, today) {
                let then = printed.value(&one.row).or(one.then);
                all.push(Told {
                    today: Some(one.today),
                    case: Some(&one.case),
                    placement: Some(&one.placement),
                    ..told(one.row.clone(), printed.unit, then)
                });
            }
            for (row, _) in printed.rows {
                if beside(printed, today).all(|one| one.row != *row) {
                    let reason = printed.absent(row).unwrap_or("not measured in this run");
                    let line = told((*row).to_owned(), printed.unit, printed.value(row));
                    all.push(Told { absent: Some(reason), ..line });
                }
            }
        }
        Entry::Absent(absent) => {
            let why = Some(absent.why);
            for (row, figures) in absent.rows {
                for (column, figure) in absent.columns.iter().zip(*figures) {
                    let then = Some(absent.unit.scaled(*figure));
                    let line = told(format!("{row}, {column}"), absent.unit, then);
                    all.push(Told { absent: why, ..line });
                }
            }
            if absent.rows.is_empty() {
                all.push(Told { absent: why, ..told(String::new(), absent.unit, None) });
            }
        }
    }
    for line in &all {
        serde_json::to_writer(&mut *to, line)?;
        writeln!(to)?;
    }
    Ok(())
}

fn text(section: &Section, to: &mut impl Write) -> io::Result<()> {
    writeln!(to, "  {}", section.title)?;
    for condition in &section.conditions {
        writeln!(to, "    {}", plain(condition))?;
    }
    let heads: Vec<String> = section.heads.iter().map(|head| (*head).to_owned()).collect();
    let lines: Vec<&Vec<String>> =
        std::iter::once(&heads).filter(|heads| !heads.is_empty()).chain(&section.rows).collect();
    let width = |at: usize| {
        lines.iter().filter_map(|line| line.get(at)).map(|cell| plain(cell).len()).max()
    };
    for line in &lines {
        write!(to, "   ")?;
        for (at, cell) in line.iter().enumerate() {
            let (cell, width) = (plain(cell), width(at).unwrap_or(0));
            match at {
                0 => write!(to, " {cell:<width$}")?,
                last if last + 1 == line.len() => write!(to, "  {cell}")?,
                _ => write!(to, "  {cell:>width$}")?,
            }
        }
        writeln!(to)?;
    }
    writeln!(to)
}

/// Returns a text without the marks of Markdown.
fn plain(text: &str) -> String {
    text.replace(['*', '`'], "")
}
