//! UCX, measured by its own `ucx_perftest` (Debian's ucx-utils), since UCX has no maintained interface for
//! Rust: active messages over shared memory, polling. A round is one run of the program,
//! pinned like all others. `ucp` is the layer that UCX recommends to its users, `uct` the layer
//! below. A call without a payload has 8 bytes here, and the program does not compare payloads.
//!
//! Reads are gets of the upper layer, which a program of ours measures. UCX does not tell whether the bytes are whole.

mod gets;

use crate::case::{Call, Fault, Mode, Op, Open, Place, Way, fault, unknown};
use gets::Gets;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use upbeat_cli::bench::pin::Cpus;
use upbeat_cli::bench::timing::{Round, Work};

const PROGRAM: &str = "ucx_perftest";

/// The seconds after which a run is taken to hang.
const PATIENCE: &str = "20";

const NOT_BUILT: &[(Op, &str)] = &[(Op::Read, NO_HEADERS), (Op::ReadKiB1, NO_HEADERS)];
const NO_HEADERS: &str = "`cc` or UCX's headers (libucx-dev) were not there when it was built";
const NO_GETS: &[(Op, &str)] = &[(Op::Read, UPPER), (Op::ReadKiB1, UPPER)];
const UPPER: &str = "the reads of the upper layer are measured, which UCX recommends";

/// Returns the ways of UCX's two layers.
pub(super) fn ways() -> Vec<Way> {
    let gets = if gets::PROGRAM.is_some() { &[] } else { NOT_BUILT };
    let way = |carrier, about, absent| Way {
        peer: "ucx",
        carrier,
        mode: Mode::Polling,
        about,
        absent,
        burst: 20_000,
        open: Open::Told(call),
    };
    vec![
        way("ucp", "active messages of the upper layer, by its own ucx_perftest; gets", gets),
        way("uct", "active messages of the lower layer, by its own ucx_perftest", NO_GETS),
    ]
}

/// Returns whether `ucx_perftest` is installed.
pub(super) fn is_there() -> bool {
    let mut probe = Command::new(PROGRAM);
    probe.arg("-h").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok()
}

struct Perftest {
    cpus: Cpus,
    lower: bool,
    /// The processes for reads, from the first round of reads on.
    gets: Option<Gets>,
}

fn call(place: &Place<'_>) -> Result<Box<dyn Call>, Fault> {
    Ok(Box::new(Perftest { cpus: place.cpus, lower: place.carrier == "uct", gets: None }))
}

impl Perftest {
    /// Returns the arguments that name the test of an operation.
    fn test(&self, op: Op) -> Result<&'static [&'static str], Fault> {
        Ok(match (self.lower, op) {
            (false, Op::Null) => &["-t", "ucp_am_lat", "-s", "8"],
            (false, Op::KiB1) => &["-t", "ucp_am_lat", "-s", "1024"],
            (false, Op::Stream) => &["-t", "ucp_am_bw", "-s", "8"],
            (true, Op::Null) => &["-t", "am_lat", "-D", "short", "-s", "8"],
            (true, Op::KiB1) => &["-t", "am_lat", "-D", "bcopy", "-s", "1024"],
            (true, Op::Stream) => &["-t", "am_bw", "-D", "short", "-s", "8"],
            (_, Op::Read | Op::ReadKiB1) => return Err(unknown(op)),
        })
    }

    /// One side of a run.
    fn side(&self, cpu: usize, port: u16) -> Command {
        // The program ends by itself. If it does not, `timeout` ends it.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=1", PATIENCE, PROGRAM]);
        command.args(["-p", &port.to_string(), "-c", &cpu.to_string(), "-f", "-v"]);
        command.env("UCX_TLS", "posix,self").env("UCX_LOG_LEVEL", "error");
        if self.lower {
            command.args(["-d", "memory", "-x", "posix"]);
        }
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        command
    }
}

/// A side that ends when this process does.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Killing a process that has ended by itself fails, and that is no error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Call for Perftest {
    fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault> {
        if op.is_read() && !self.lower {
            let gets = match &mut self.gets {
                Some(gets) => gets,
                None => self.gets.insert(Gets::new(self.cpus)?),
            };
            return gets.round(op, work);
        }
        let (test, port) = (self.test(op)?, free_port()?);
        let (count, warm) = (work.batches * work.size, work.warm);
        let mut server = self.side(self.cpus.server, port);
        let _server =
            Running(server.stdout(Stdio::null()).spawn().map_err(fault("starting its server"))?);
        await_listener(port)?;
        let mut client = self.side(self.cpus.client, port);
        client.arg("127.0.0.1").args(test);
        client.args(["-n", &count.to_string(), "-w", &warm.to_string()]);
        let output = client.output().map_err(fault("starting its client"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let nanoseconds = figure(&said, op, count).ok_or_else(|| {
            let why = String::from_utf8_lossy(&output.stderr);
            let why = format!("{}: {} {}", output.status, said.trim(), why.trim());
            Fault::new(format!("`{PROGRAM}` says no figure: {why}"))
        })?;
        Ok(Round::told(work.size, nanoseconds))
    }
}

/// Waits until a process listens at a port, without connecting: the server would take that connection for
/// the client.
fn await_listener(port: u16) -> Result<(), Fault> {
    let (start, entry) = (Instant::now(), format!(":{port:04X} 00000000:0000 0A "));
    while start.elapsed() < Duration::from_secs(5) {
        let all = std::fs::read_to_string("/proc/net/tcp").map_err(fault("looking at ports"))?;
        if all.contains(&entry) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Err(Fault::new(format!("`{PROGRAM}` does not listen, which it should within 5 s")))
}

/// Returns a port of the loopback device that was free just now.
fn free_port() -> Result<u16, Fault> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    Ok(bound.map_err(fault("finding a free port"))?.port())
}

/// Returns the nanoseconds of an operation, from a line of numbers: iterations, the median, average and
/// overall half round trip in microseconds, two of bytes, average and overall messages a second.
fn figure(said: &str, op: Op, count: u32) -> Option<f64> {
    let last = said.lines().last()?;
    let numbers: Vec<f64> = last.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
    let &[iterations, median_us, _, _, _, _, _, overall_rate] = numbers.as_slice() else {
        return None;
    };
    let nanoseconds = match op {
        Op::Null | Op::KiB1 => 2.0 * median_us * 1e3,
        Op::Stream => 1e9 / overall_rate,
        Op::Read | Op::ReadKiB1 => return None,
    };
    let whole = iterations == f64::from(count);
    (whole && nanoseconds.is_finite() && nanoseconds > 0.0).then_some(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::{Op, figure};

    #[test]
    fn what_it_says_is_read() {
        let said = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,\
                    overall_mr\n20000,0.120,0.767,0.767,9.95,9.95,1304199,2000000\n";
        assert_eq!(figure(said, Op::Null, 20_000), Some(240.0));
        assert_eq!(figure(said, Op::Stream, 20_000), Some(500.0));
        assert_eq!(figure(said, Op::Null, 30_000), None, "not all of it was done");
        assert_eq!(figure("", Op::Null, 1), None);
        assert_eq!(figure("iterations,overall", Op::Null, 1), None);
    }
}
