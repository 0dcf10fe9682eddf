//! Gets of UCX's upper layer from memory that the other process has registered, by a small program of ours: `ucx/get.c`,
//! which the build compiles where UCX's headers are installed. `ucx_perftest` measures gets too, but reads the clock in
//! each and does not look at the bytes.

use crate::case::{Fault, Op, fault};
use crate::payload::KIB;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use upbeat_cli::bench::pin::Cpus;
use upbeat_cli::bench::timing::{Round, Work};
use upbeat_memory::ticks::ticks_per_second;

/// The program, if it was built.
pub(super) const PROGRAM: Option<&str> = option_env!("UPBEAT_UCX_GET");

/// The owner's process and the reader's. Both sleep between rounds, and the owner during rounds too.
pub(super) struct Gets {
    owner: Side,
    reader: Side,
    round: u64,
}

impl Gets {
    /// Starts the processes.
    pub(super) fn new(cpus: Cpus) -> Result<Gets, Fault> {
        let mut owner = Side::new(cpus.server, &["owner"])?;
        let place = owner.hear()?;
        let words: Vec<&str> = std::iter::once("reader").chain(place.split_whitespace()).collect();
        let reader = Side::new(cpus.client, &words)?;
        Ok(Gets { owner, reader, round: 0 })
    }

    /// Runs a round of gets, after the owner has set the values.
    pub(super) fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault> {
        self.round += 1;
        self.owner.say(&self.round.to_string())?;
        self.owner.hear()?;
        let bytes = if op == Op::ReadKiB1 { KIB } else { size_of::<u64>() };
        let Work { warm, batches, size, .. } = work;
        self.reader.say(&format!("{bytes} {} {warm} {batches} {size}", self.round))?;
        times(&self.reader.hear()?, work)
    }
}

/// Returns a round from the nanoseconds of its batches.
fn times(said: &str, work: Work) -> Result<Round, Fault> {
    let per_ns = ticks_per_second() as f64 / 1e9;
    let ticks = |word: &str| word.parse().map(|ns: u64| (ns as f64 * per_ns).round() as u64);
    let took: Vec<u64> = said
        .split_whitespace()
        .map(ticks)
        .collect::<Result<_, _>>()
        .map_err(fault("understanding its times"))?;
    if took.len() as u64 != u64::from(work.batches) {
        let (came, meant) = (took.len(), work.batches);
        return Err(Fault::new(format!("it has measured {came} batches instead of {meant}")));
    }
    Ok(Round::of_batches(work.size, took))
}

/// One of the processes, which ends with its input, or is killed when this value is dropped.
struct Side {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Side {
    fn new(cpu: usize, words: &[&str]) -> Result<Side, Fault> {
        let program = PROGRAM.ok_or_else(|| Fault::new("its program was not built"))?;
        let mut child = Command::new("taskset")
            .args(["-c", &cpu.to_string(), program])
            .args(words)
            .env("UCX_TLS", "posix,self")
            .env("UCX_LOG_LEVEL", "error")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(fault("starting `taskset`"))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(to), Some(from)) => Ok(Side { child, to, from: BufReader::new(from) }),
            _ => Err(Fault::new("its process has no pipes")),
        }
    }

    fn say(&mut self, line: &str) -> Result<(), Fault> {
        writeln!(self.to, "{line}").map_err(fault("ordering its process"))
    }

    fn hear(&mut self) -> Result<String, Fault> {
        let mut line = String::new();
        match self.from.read_line(&mut line).map_err(fault("listening to its process"))? {
            0 => Err(Fault::new("its process has ended, and said above why")),
            _ => Ok(line),
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // Killing a process that has ended by itself fails, and that is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::times;
    use upbeat_cli::bench::timing::Work;

    #[test]
    fn times_are_those_of_all_batches() {
        let work = Work::of(3, 100);
        let round = times("1000 3000 2000 \n", work).unwrap();
        assert!((round.ns_at(0.5) - 20.0).abs() < 0.1);
        assert!(times("1000 3000", work).is_err());
        assert!(times("1000 3000 many", work).is_err());
    }
}
