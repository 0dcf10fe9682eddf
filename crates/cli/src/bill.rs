//! `upbeat bill` shows where the messages of a running program spend their time.
//!
//! The command maps the pages that nodes keep for observers and reads them; the program does
//! nothing for it. The samples make a [`Recording`], and every output shows a recording.

mod error;
pub(crate) mod grid;
mod histogram;
mod recording;
mod delay;
mod collect;
mod find;
mod collection;
#[cfg(test)]
mod example;
mod bets;
mod findings;
mod compare;
mod timeline;
mod trace;
mod report;
mod page;

use crate::exit;
use clap::Args;
use collection::{Wish, collect};
use compare::{Compared, compare};
pub(crate) use error::BillError;
use findings::{Finding, findings};
use recording::Recording;
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest time that a user can ask for, in seconds.
const SECONDS_MAX: f64 = 86_400.0;

const EXAMPLES: &str = "\
Examples:
  upbeat bill                              all nodes of this user, for a second
  upbeat bill shop --seconds 10            the node `shop`, or all nodes of a process by its number
  upbeat bill --program shop               the nodes of one program
  upbeat bill shop --all                   with what it recorded before
  upbeat bill --method Bank.transfer       one method
  upbeat bill --html bill.html             one HTML page
  upbeat bill shop --save before.json      save the recording
  upbeat bill shop --compare before.json   what has changed since then
  upbeat bill --load before.json --json    a saved recording, for a program";

/// The arguments of `upbeat bill`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The processes by number, or the nodes by name [default: all that this user may observe]
    #[arg(value_name = "PID|NAME", conflicts_with = "load")]
    targets: Vec<String>,

    /// Show only the nodes and handles of this program
    #[arg(long, value_name = "NAME", conflicts_with = "load")]
    program: Option<String>,

    /// Collect for this many seconds; ctrl-c ends it earlier, and shows what was collected until then
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,

    /// Include what the nodes recorded before: older samples, and counters since the nodes began
    #[arg(long, conflicts_with = "load")]
    all: bool,

    /// Show only methods with this text in `Service.method`
    #[arg(long, value_name = "TEXT")]
    method: Option<String>,

    /// Save the recording in a file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Show a saved recording instead of collecting
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,

    /// Compare the recording with an earlier one that was saved
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,

    /// Write the bill as one HTML page that loads nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write the single messages of the recording as a trace for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Draw a typical and a slow call of each method over their two nodes
    #[arg(long, conflicts_with = "json")]
    timeline: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=SECONDS_MAX).contains(&seconds) => Ok(seconds),
        _ => Err(format!("seconds are a number from 0 to {SECONDS_MAX}")),
    }
}

/// The JSON output: a recording, its findings, and a comparison.
#[derive(Serialize)]
struct Bill {
    #[serde(flatten)]
    recording: Recording,
    findings: Vec<Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<Vec<Compared>>,
}

/// Runs `upbeat bill`.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BillError> {
    // Files are checked first, so that the user does not wait for samples that cannot be used.
    for path in [&arguments.save, &arguments.html, &arguments.trace].into_iter().flatten() {
        exit::check_writable(path).map_err(|error| unwritable(path, error))?;
    }
    let before = arguments.compare.as_deref().map(Recording::load).transpose()?;
    let mut recording = match &arguments.load {
        Some(path) => Recording::load(path)?,
        None => collect(&Wish {
            targets: &arguments.targets,
            program: arguments.program.as_deref(),
            lasts: Duration::from_secs_f64(arguments.seconds),
            before: arguments.all,
        })?,
    };
    if let Some(path) = &arguments.save {
        written(path, &recording.text()?)?;
    }
    if let Some(text) = &arguments.method {
        recording.keep(text)?;
    }
    let findings = findings(&recording);
    let compared = before.map(|before| compare(&recording, &before));
    let bill = Bill { recording, findings, compared };
    if let Some(path) = &arguments.html {
        let page = page::page(&bill.recording, &bill.findings, bill.compared.as_deref());
        written(path, &page)?;
    }
    if let Some(path) = &arguments.trace {
        written(path, &trace::trace(&bill.recording).to_string())?;
    }
    let mut to = BufWriter::new(io::stdout().lock());
    let printed = match arguments {
        Arguments { json: true, .. } => serde_json::to_writer(&mut to, &bill)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(to)),
        Arguments { timeline: true, .. } => timeline::write(&bill.recording, &mut to),
        _ => {
            let compared = bill.compared.as_deref();
            report::write(&bill.recording, &bill.findings, compared, &mut to)
        }
    };
    printed.and_then(|()| to.flush()).map_err(BillError::Output)
}

/// Writes a file, and reports it on standard error.
fn written(path: &Path, text: &str) -> Result<(), BillError> {
    std::fs::write(path, text).map_err(|error| unwritable(path, error))?;
    exit::report(format_args!("wrote {}", path.display()));
    Ok(())
}

fn unwritable(path: &Path, error: io::Error) -> BillError {
    BillError::File { act: "written", path: path.into(), error }
}
