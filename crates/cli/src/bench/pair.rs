//! The two processes of a benchmark.
//!
//! The first starts its own program again as the second, with the control socket as its standard
//! input, and pins it to the other CPU. From then on both do rounds in lockstep: an order says
//! what and how much, each does its side, the second says that it is done. Between rounds the
//! second process sleeps.
//!
//! Neither outlives the other: the second process is killed with its parent, and when it ends
//! unasked a watcher ends the first one, whatever that waits for.

use crate::bench::control::{Control, Done, Job, Order};
use crate::bench::error::BenchError;
use crate::bench::ground::Ground;
use crate::bench::line;
use crate::bench::pin::{self, Cpus};
use crate::bench::timing::{Round, Work};
use rustix::process::Signal;
use std::hint::black_box;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use upbeat_memory::ticks::ticks;

/// The hidden subcommand of the second process.
pub(crate) const SUBCOMMAND: &str = "bench-peer";

/// The first process's view of the second.
pub(crate) struct Pair {
    /// What both stand on.
    pub(crate) ground: Ground,
    /// Where they run.
    pub(crate) cpus: Cpus,
    control: Control,
    leaving: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
}

impl Pair {
    /// Starts the second process for a benchmark, and pins both.
    pub(crate) fn start(bench: &str, cpus: Cpus) -> Result<Pair, BenchError> {
        let (control, socket) = Control::pair()?;
        let program = std::env::current_exe().map_err(|error| BenchError::Start { error })?;
        let child = Command::new(program)
            .args([SUBCOMMAND, "--cpu", &cpus.server.to_string(), bench])
            .stdin(Stdio::from(socket))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| BenchError::Start { error })?;
        let leaving = Arc::new(AtomicBool::new(false));
        let watcher = watch(child, Arc::clone(&leaving));
        pin::pin(cpus.client)?;
        let ground = Ground::lay(&control)?;
        Ok(Pair { ground, cpus, control, leaving, watcher: Some(watcher) })
    }

    /// The socket, for what a benchmark has to hand over before its first round.
    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    /// Does one round: `client` is our side of it, `job` names the other.
    pub(crate) fn round<T>(
        &mut self,
        job: Job,
        work: Work,
        client: impl FnOnce(&mut Ground) -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        self.control.send(&Order::Round { job, work })?;
        let measured = client(&mut self.ground)?;
        let Done = self.control.receive()?;
        Ok(measured)
    }

    /// A round of two lines.
    pub(crate) fn lines(&mut self, work: Work, pauses: u32) -> Result<Round, BenchError> {
        self.round(Job::Lines { pauses }, work, |ground| line::ping(ground, work, pauses))
    }

    /// A round of two eventfds.
    pub(crate) fn eventfds(&mut self, work: Work) -> Result<Round, BenchError> {
        self.round(Job::Eventfds, work, |ground| line::ring(ground, work))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.leaving.store(true, Ordering::Relaxed);
        // One that cannot be told sees the end of the socket.
        let _ = self.control.send(&Order::End);
        if std::thread::panicking() {
            return;
        }
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

/// Waits for the second process to end. Should it do so unasked, nothing that the first process
/// waits for will ever come, so that ends too.
fn watch(mut child: Child, leaving: Arc<AtomicBool>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let ended = child.wait();
        if leaving.load(Ordering::Relaxed) {
            return;
        }
        match ended {
            Ok(status) => eprintln!("upbeat: the second process of the benchmark ended: {status}"),
            Err(error) => eprintln!("upbeat: the second process is lost: {error}"),
        }
        std::process::exit(1);
    })
}

/// The second process's side of a benchmark's own cases.
pub(crate) trait Server {
    /// Does the other side of a round of the case.
    fn round(&mut self, case: &str, work: Work, ground: &mut Ground) -> Result<(), BenchError>;
}

/// The second process: pins itself, joins, and does rounds until it is told to leave. `open` makes
/// the server once both stand on their ground.
pub(crate) fn serve<S: Server>(
    cpu: usize,
    open: impl FnOnce(&Control) -> Result<S, BenchError>,
) -> Result<(), BenchError> {
    let parent = rustix::process::getppid();
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(BenchError::system("prctl"))?;
    if rustix::process::getppid() != parent {
        return Err(BenchError::PeerGone);
    }
    pin::pin(cpu)?;
    let control = Control::inherited()?;
    let mut ground = Ground::join(&control)?;
    let mut server = open(&control)?;
    loop {
        match control.receive()? {
            Order::End => return Ok(()),
            Order::Round { job, work } => {
                match job {
                    Job::Lines { pauses } => line::pong(&mut ground, work, pauses)?,
                    Job::Eventfds => line::ring_back(&mut ground, work)?,
                    Job::Dirty => line::write_dirty(&mut ground, work),
                    Job::Arithmetic => arithmetic_until_told(&mut ground),
                    Job::Case(case) => server.round(&case, work, &mut ground)?,
                }
                control.send(&Done)?;
            }
        }
    }
}

/// How long each of so many pieces of arithmetic takes, in ticks.
pub(crate) fn arithmetic_pieces(pieces: usize) -> Vec<u64> {
    let piece = |_| {
        let start = ticks();
        arithmetic();
        ticks().saturating_sub(start)
    };
    (0..pieces).map(piece).collect()
}

/// Does arithmetic from when the other side is told until it has seen enough.
fn arithmetic_until_told(ground: &mut Ground) {
    use crate::bench::ground::{CLIENT_LINE, SERVER_LINE};
    ground.turn += 1;
    arithmetic();
    ground.ours.publish(SERVER_LINE, ground.turn);
    while ground.theirs.load(CLIENT_LINE) != ground.turn {
        arithmetic();
    }
}

/// A piece of arithmetic that keeps the units of a core busy: some ten microseconds of it.
fn arithmetic() {
    let mut lanes: [u64; 8] = black_box([1, 2, 3, 4, 5, 6, 7, 8]);
    for _ in 0..4_000 {
        for lane in &mut lanes {
            *lane ^= lane.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        }
    }
    black_box(lanes);
}
