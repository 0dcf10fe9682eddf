//! The two processes of a benchmark.
//!
//! The first starts its own program again as the second, with the control socket as its standard
//! input, and pins it to the other CPU. Then both do rounds in lockstep: an order names the work
//! and its amount, each process does its side, and the second reports the end. Between rounds the
//! second process sleeps.
//!
//! Neither process outlives the other: the system kills the second one with its parent, and if the second
//! ends unexpectedly, a watcher ends the first.

use crate::bench::control::{Control, Done, Job, Order};
use crate::bench::error::BenchError;
use crate::bench::ground::Ground;
use crate::bench::line;
use crate::bench::pin::{self, Cpus, Wanted};
use crate::bench::timing::{Round, Work};
use clap::Args;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::ffi::OsStr;
use std::hint::black_box;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use upbeat_memory::ticks::ticks;

/// The hidden subcommand of the second process.
const SUBCOMMAND: &str = "bench-peer";

/// The arguments of the second process, after the word `bench-peer`.
#[derive(Debug, Args)]
pub struct PeerArguments {
    /// The CPUs of both processes.
    #[arg(long)]
    pub cpus: Wanted,
    /// A directory of the benchmark's own.
    #[arg(long)]
    pub scratch: PathBuf,
    /// The benchmark.
    pub bench: String,
}

/// The first process's view of the second.
pub struct Pair {
    /// The shared memory and eventfds of both.
    pub ground: Ground,
    /// The CPUs of both.
    pub cpus: Cpus,
    /// The peer is declared before the socket, so that its watcher is told to leave before the socket closes.
    peer: Peer,
    control: Control,
    scratch: Scratch,
}

/// The second process.
struct Peer {
    pid: u32,
    handle: OwnedFd,
    leaving: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
}

impl Pair {
    /// Starts the second process for a benchmark, and pins both.
    pub fn start(bench: &str, cpus: Cpus) -> Result<Pair, BenchError> {
        let (control, socket) = Control::pair()?;
        let scratch = Scratch::make().map_err(|error| BenchError::Start { error })?;
        let program = std::env::current_exe().map_err(|error| BenchError::Start { error })?;
        let child = Command::new(program)
            .args([SUBCOMMAND, "--cpus", &cpus.argument(), "--scratch"])
            .args([scratch.path.as_os_str(), OsStr::new(bench)])
            .stdin(Stdio::from(socket))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| BenchError::Start { error })?;
        let peer = Peer::watch(child, scratch.path.clone())?;
        pin::pin(cpus.client)?;
        let ground = Ground::lay(&control)?;
        Ok(Pair { ground, cpus, control, scratch, peer })
    }

    /// Returns a directory for the sockets of both processes.
    pub fn scratch(&self) -> &Path {
        &self.scratch.path
    }

    /// Returns the number of the second process.
    pub fn peer_pid(&self) -> u32 {
        self.peer.pid
    }

    /// Ends the second process, and waits for its end.
    pub fn end(mut self) -> Result<(), BenchError> {
        self.peer.leaving.store(true, Ordering::Relaxed);
        self.control.send(&Order::End)?;
        if let Some(watcher) = self.peer.watcher.take() {
            let _ = watcher.join();
        }
        Ok(())
    }

    /// Returns the socket, by which a benchmark hands over descriptors before its first round.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Does one round: `client` is this process's side, `job` names the other side's work.
    pub fn round<T>(
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

    /// Does a round of two lines.
    pub(crate) fn lines(&mut self, work: Work, pauses: u32) -> Result<Round, BenchError> {
        self.round(Job::Lines { pauses }, work, |ground| line::ping(ground, work, pauses))
    }

    /// Does a round of two eventfds.
    pub(crate) fn eventfds(&mut self, work: Work) -> Result<Round, BenchError> {
        self.round(Job::Eventfds, work, |ground| line::ring(ground, work))
    }
}

impl Peer {
    /// Starts a thread that waits for the end of the second process. If that end is unexpected, the thread ends the
    /// first process too, because nothing that it waits for can arrive.
    fn watch(mut child: Child, scratch: PathBuf) -> Result<Peer, BenchError> {
        let pid = child.id();
        let handle = Pid::from_raw(pid.cast_signed())
            .ok_or(Errno::SRCH)
            .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()))
            .map_err(BenchError::system("pidfd_open"))?;
        let leaving = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&leaving);
        let watcher = std::thread::spawn(move || {
            let ended = child.wait();
            if asked.load(Ordering::Relaxed) {
                return;
            }
            match ended {
                Ok(status) => {
                    eprintln!("upbeat: the second process of the benchmark ended: {status}");
                }
                Err(error) => eprintln!("upbeat: the second process is lost: {error}"),
            }
            let _ = std::fs::remove_dir_all(scratch);
            std::process::exit(1);
        });
        Ok(Peer { pid, handle, leaving, watcher: Some(watcher) })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let Some(watcher) = self.watcher.take() else { return };
        // A round has failed, and the second process may wait for a reply that does not come.
        self.leaving.store(true, Ordering::Relaxed);
        let _ = rustix::process::pidfd_send_signal(&self.handle, Signal::KILL);
        let _ = watcher.join();
    }
}

/// The first part of the names of pairs' directories; the number of their process follows.
const SCRATCH: &str = "upbeat-bench-";

/// The age at which a directory counts as abandoned. No benchmark takes so long, not even one of another
/// container that shares the directory and whose processes are not visible here.
const STALE: Duration = Duration::from_secs(3600);

/// A directory that exists as long as the pair.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn make() -> std::io::Result<Scratch> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let all = std::env::temp_dir();
        Scratch::sweep(&all);
        let path = all.join(format!("{SCRATCH}{}-{count}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Scratch { path })
    }

    /// Removes the directories of interrupted benchmarks. Directories of other users remain.
    fn sweep(all: &Path) {
        let Ok(entries) = std::fs::read_dir(all) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.strip_prefix(SCRATCH)?.split('-').next());
            let gone = pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists());
            let changed = entry.metadata().and_then(|about| about.modified()).ok();
            let old = changed.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > STALE);
            if gone && old {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that cannot be removed contains only empty sockets, among the system's temporary files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The second process's side of a benchmark's own cases.
pub trait Server {
    /// Does the other side of a round of the case.
    fn round(&mut self, case: &str, work: Work, ground: &mut Ground) -> Result<(), BenchError>;
}

/// Runs the second process: pins it, joins the pair, and does rounds until the first process ends it. `open`
/// creates the server once both sides share their memory; orders come only after the server is ready.
pub fn serve<S: Server>(
    cpus: Cpus,
    open: impl FnOnce(&Control, &Ground) -> Result<S, BenchError>,
) -> Result<(), BenchError> {
    let parent = rustix::process::getppid();
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(BenchError::system("prctl"))?;
    if rustix::process::getppid() != parent {
        return Err(BenchError::PeerGone);
    }
    pin::pin(cpus.server)?;
    let control = Control::inherited()?;
    let mut ground = Ground::join(&control)?;
    let mut server = open(&control, &ground)?;
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

/// Returns the ticks of each of `pieces` pieces of arithmetic.
pub(crate) fn arithmetic_pieces(pieces: usize) -> Vec<u64> {
    let piece = |_| {
        let start = ticks();
        arithmetic();
        ticks().saturating_sub(start)
    };
    (0..pieces).map(piece).collect()
}

/// Does arithmetic from the beginning of a round until the other side ends the round.
fn arithmetic_until_told(ground: &mut Ground) {
    use crate::bench::ground::{CLIENT_LINE, SERVER_LINE};
    ground.turn += 1;
    arithmetic();
    ground.ours.publish(SERVER_LINE, ground.turn);
    while ground.theirs.load(CLIENT_LINE) != ground.turn {
        arithmetic();
    }
}

/// Does a piece of arithmetic that uses the units of a core for some ten microseconds.
fn arithmetic() {
    let mut lanes: [u64; 8] = black_box([1, 2, 3, 4, 5, 6, 7, 8]);
    for _ in 0..4_000 {
        for lane in &mut lanes {
            *lane ^= lane.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        }
    }
    black_box(lanes);
}
