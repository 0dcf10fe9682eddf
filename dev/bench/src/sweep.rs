//! `bench sweep`: every way of sending, at every border of the classes of messages, at full speed.
//!
//! A cell is a size, a primitive, a driver, a carrier and a way of waiting. It sends as many messages as fill every
//! buffer on their way ten times, and the receivers check the number, the order and the contents of what arrives. A
//! cell in which nothing moves for a while counts as hung: its server is killed, and the sweep goes on with another.

mod cells;
mod store;
mod server;
mod client;
mod tell;

use cells::{Cell, Stand, cells, stands};
use clap::Args;
use server::{Server, Site};
use std::collections::VecDeque;
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tell::{Outcome, Row};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::progress::Progress;

/// The arguments of `bench sweep`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Arguments {
    /// The cells whose names contain all of these words; all cells without any
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Messages of each cell, fewer where they are long; without it as many as fill every buffer ten times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    messages: Option<u64>,
    /// Seconds without progress after which a cell counts as hung
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    hang: u64,
    /// Cells that run at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: u32,
    /// Print the names of the cells
    #[arg(long)]
    list: bool,
    /// Print one JSON object for each cell, and no table
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
A cell is named CARRIER/DRIVER/WAITING/PRIMITIVE/SIZE. The sizes are those on both sides of each border
at which a message is carried in another way. The command fails if a cell hangs or gets something wrong.

Examples:
  bench sweep                              everything, for an hour or so
  bench sweep tcp blocking oneway          some cells
  bench sweep --messages 200 --jobs 2      each border for a moment
  bench sweep --json > sweep.jsonl         one JSON object per cell, for a program";

/// The parts that all jobs of a sweep share.
struct Sweep<'a> {
    arguments: &'a Arguments,
    site: Site,
    /// The cells that were not begun.
    left: Mutex<VecDeque<(Stand, Vec<Cell>)>>,
    rows: Mutex<Vec<Row>>,
    cells: usize,
    progress: Mutex<Progress>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let left = chosen(arguments);
    let cells = left.iter().map(|(_, cells)| cells.len()).sum();
    if cells == 0 {
        return Err(BenchError::protocol(format!(
            "no cell has a name with {}: see `bench sweep --list`",
            arguments.words.join(" and ")
        )));
    }
    if arguments.list {
        let names =
            left.iter().flat_map(|(stand, cells)| cells.iter().map(|cell| cell.name(*stand)));
        return tell::list(names).map_err(tell::output);
    }
    let sweep = Sweep {
        arguments,
        site: Site::new()?,
        left: Mutex::new(left),
        rows: Mutex::default(),
        cells,
        progress: Mutex::new(Progress::new()),
    };
    let failed = thread::scope(|scope| {
        let jobs: Vec<_> = (0..arguments.jobs).map(|_| scope.spawn(|| sweep.work())).collect();
        jobs.into_iter().find_map(|job| match job.join() {
            Ok(worked) => worked.err(),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    });
    lock(&sweep.progress).end();
    if let Some(error) = failed {
        return Err(error);
    }
    let rows = sweep.rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut to = BufWriter::new(std::io::stdout().lock());
    let told =
        if arguments.json { tell::json(&rows, &mut to) } else { tell::table(&rows, &mut to) };
    told.map_err(tell::output)?;
    drop(to);
    match rows.iter().filter(|row| row.outcome != Outcome::Ok).count() {
        0 => Ok(()),
        bad => Err(BenchError::protocol(format!("{bad} of {cells} cells hang or are wrong"))),
    }
}

/// Returns the chosen cells of each stand.
fn chosen(arguments: &Arguments) -> VecDeque<(Stand, Vec<Cell>)> {
    let mut chosen = VecDeque::new();
    for stand in stands() {
        let wanted = |cell: &Cell| {
            let name = cell.name(stand);
            arguments.words.iter().all(|word| name.split('/').any(|part| part == word))
        };
        let cells: Vec<Cell> = cells().into_iter().filter(wanted).collect();
        if !cells.is_empty() {
            chosen.push_back((stand, cells));
        }
    }
    chosen
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sweep<'_> {
    /// Runs the cells of one stand after another.
    fn work(&self) -> Result<(), BenchError> {
        loop {
            let next = lock(&self.left).pop_front();
            let Some((stand, cells)) = next else { return Ok(()) };
            let mut server = None;
            for cell in cells {
                let at = match server.take() {
                    Some(at) => at,
                    None => Server::start(stand, &self.site)?,
                };
                let row = self.cell(stand, cell, &at);
                // A cell that hangs leaves its server in any state.
                if row.outcome == Outcome::Ok {
                    server = Some(at);
                }
                let mut rows = lock(&self.rows);
                rows.push(row);
                let done = rows.len() as f64 / self.cells as f64;
                lock(&self.progress).show("sweep", done, &cell.name(stand), "at full speed");
            }
        }
    }

    /// Runs a cell in a thread of its own, which is left behind if it hangs.
    fn cell(&self, stand: Stand, cell: Cell, server: &Server) -> Row {
        let messages = cell.messages(self.arguments.messages);
        let moved = Arc::new(AtomicU64::new(0));
        let (tell, told) = channel();
        let (moves, meeting) = (Arc::clone(&moved), server.meeting());
        let began = Instant::now();
        thread::spawn(move || {
            let done = client::run(stand, cell, messages, &meeting, &moves);
            // The sweep may have gone on without this cell.
            let _ = tell.send(done);
        });
        let outcome = self.watch(&told, &moved);
        let seconds = began.elapsed().as_secs_f64();
        let sent = moved.load(Relaxed);
        Row { stand, cell, messages, sent, seconds, outcome }
    }

    /// Waits until a cell is done, or has not moved for too long.
    fn watch(
        &self,
        told: &std::sync::mpsc::Receiver<Result<(), String>>,
        moved: &AtomicU64,
    ) -> Outcome {
        let hang = Duration::from_secs(self.arguments.hang);
        let (mut before, mut since) = (0, Instant::now());
        loop {
            match told.recv_timeout(hang.min(Duration::from_millis(500))) {
                Ok(Ok(())) => return Outcome::Ok,
                Ok(Err(text)) => return Outcome::Wrong(text),
                Err(RecvTimeoutError::Disconnected) => {
                    return Outcome::Wrong("its thread has panicked".to_owned());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = moved.load(Relaxed);
            if now != before {
                (before, since) = (now, Instant::now());
            } else if since.elapsed() >= hang {
                return Outcome::Hung;
            }
        }
    }
}

/// Runs the second process of a sweep, if `bench` names one.
pub(crate) fn serve(bench: &str, scratch: &Path) -> Option<Result<(), BenchError>> {
    server::serve(bench, scratch)
}
