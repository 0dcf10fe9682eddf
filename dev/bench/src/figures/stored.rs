//! A run as it is stored.

use super::origin::Origin;
use crate::error::Error;
use crate::papers::report::Beside;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::Path;
use upbeat_cli::bench::report;

/// The path of the stored run from the repository's root.
pub(super) const PATH: &str = "docs/figures.json";

/// The figures of a case in a placement. The names are those of `upbeat bench --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) bench: String,
    pub(super) case: String,
    pub(super) placement: String,
    /// The number of rounds.
    pub(super) rounds: u64,
    pub(super) p50_ns: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ratio_to_line: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ratio_to_eventfd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) baseline: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ratio_to_baseline: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) per_second: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bytes_per_session: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) caller_sleeps: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) callee_sleeps: Option<f64>,
}

impl Row {
    /// Returns the name of the case on a command line.
    pub(super) fn path(&self) -> String {
        format!("{}/{}", self.bench, self.case)
    }
}

/// Returns a measured row as it is stored.
pub(super) fn again(row: &report::Row) -> Result<Row, Error> {
    let value = serde_json::to_value(row).map_err(unreadable)?;
    serde_json::from_value(value).map_err(unreadable)
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) origin: Origin,
    /// The figures of README.md, and those that they are compared with.
    pub(super) rows: Vec<Row>,
    /// The measurements beside the papers.
    pub(super) papers: Vec<Beside>,
}

impl Run {
    /// Reads the stored run, if there is one.
    pub(super) fn read(root: &Path) -> Result<Option<Run>, Error> {
        match std::fs::read_to_string(root.join(PATH)) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(unreadable),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::document(PATH)(error)),
        }
    }

    /// Stores the run, a figure in each line.
    pub(super) fn write(&self, root: &Path) -> Result<(), Error> {
        let mut text = String::from("{\n\"origin\": ");
        text.push_str(&json(&self.origin)?);
        text.push_str(",\n\"rows\": [\n");
        lines(&self.rows, &mut text)?;
        text.push_str("],\n\"papers\": [\n");
        lines(&self.papers, &mut text)?;
        text.push_str("]\n}\n");
        std::fs::write(root.join(PATH), text).map_err(Error::document(PATH))
    }
}

fn lines<T: Serialize>(all: &[T], to: &mut String) -> Result<(), Error> {
    for (at, one) in all.iter().enumerate() {
        let comma = if at + 1 < all.len() { "," } else { "" };
        let _ = writeln!(to, "{}{comma}", json(one)?);
    }
    Ok(())
}

fn json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::Figures { text: format!("{PATH} cannot be read or written: {error}") }
}
