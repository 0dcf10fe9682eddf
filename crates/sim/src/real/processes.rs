//! The real processes of a test, as the test itself sees them.

use super::Assignment;
use crate::outcome::Ended;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, ExitStatus, Stdio, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The line behind which the output of a process is that of its closure.
pub(crate) const MARK: &str = "\u{1}upbeat-sim: the closure begins";
/// The time after which a test with real processes has failed.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(120);
/// The time in which a test ends that has failed. Its processes are dead.
const GRACE: Duration = Duration::from_secs(10);
/// The time from one look at the processes to the next.
const LOOK: Duration = Duration::from_millis(1);
/// The time for which the last lines of a process that has ended are waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The last lines of a process that a failure shows.
const LINES_MAX: usize = 40;

/// Panics if something is not as it always has to be.
type Invariant = Box<dyn Fn() + Send + Sync>;

/// The real processes of a test. One thread [supervises](Processes::supervise) them: they die with it.
pub(crate) struct Processes {
    /// The name of the test, as its binary knows it.
    path: String,
    /// The assignment of a process, but for its name.
    first: Assignment,
    all: Mutex<BTreeMap<String, Running>>,
    invariants: Mutex<Vec<Invariant>>,
    failure: Mutex<Option<String>>,
    /// The first thing that the test did besides starting processes. After that the test starts no new process.
    acted: OnceLock<&'static str>,
    left_out: Mutex<BTreeSet<&'static str>>,
    asks: Sender<Ask>,
    asked: Mutex<Option<Receiver<Ask>>>,
    is_over: AtomicBool,
}

/// The name and the host of a process that is to be started, and the place for the result.
type Ask = (String, u32, SyncSender<io::Result<()>>);

/// A process.
struct Running {
    host: u32,
    child: Child,
    /// Its end is known.
    has_ended: bool,
    said: Arc<Said>,
    relays: [JoinHandle<()>; 2],
}

/// The output of a process.
#[derive(Default)]
struct Said {
    has_begun: AtomicBool,
    /// The last lines of its errors.
    last: Mutex<VecDeque<String>>,
}

impl Processes {
    pub(crate) fn new(path: String, first: Assignment) -> Processes {
        let (asks, asked) = channel();
        Processes {
            path,
            first,
            all: Mutex::default(),
            invariants: Mutex::default(),
            failure: Mutex::default(),
            acted: OnceLock::new(),
            left_out: Mutex::default(),
            asks,
            asked: Mutex::new(Some(asked)),
            is_over: AtomicBool::new(false),
        }
    }

    /// Takes note of something that the test does.
    pub(crate) fn acts(&self, what: &'static str) {
        self.acted.get_or_init(|| what);
    }

    /// Takes note of something that cannot be done with real processes.
    pub(crate) fn leave_out(&self, what: &'static str) {
        lock(&self.left_out).insert(what);
    }

    /// Returns what was left out.
    pub(crate) fn left_out(&self) -> Vec<&'static str> {
        lock(&self.left_out).iter().copied().collect()
    }

    /// Has something checked now and then.
    pub(crate) fn always(&self, invariant: impl Fn() + Send + Sync + 'static) {
        lock(&self.invariants).push(Box::new(invariant));
    }

    /// Starts a process for the first time.
    ///
    /// # Panics
    /// If it runs, and if the test has acted before.
    pub(crate) fn start(&self, host: u32, name: &str) {
        if let Some(acted) = self.acted.get() {
            panic!("{}", is_late(name, acted));
        }
        assert!(!self.is_running(name), "a process `{name}` runs already");
        self.begin(host, name);
    }

    /// Starts a process again.
    ///
    /// # Panics
    /// If no process of this name was started, or if it runs.
    pub(crate) fn restart(&self, name: &str) {
        assert!(self.is_over() || !self.is_running(name), "the process `{name}` runs");
        let host = self.with(name, |process| process.host);
        self.begin(host, name);
    }

    fn begin(&self, host: u32, name: &str) {
        let (replies, replied) = sync_channel(1);
        // The thread that starts processes ends with the test.
        let _ = self.asks.send((name.to_owned(), host, replies));
        if let Ok(Err(error)) = replied.recv() {
            panic!("process `{name}` cannot be started: {error}");
        }
    }

    /// Kills a process, and waits for its end.
    pub(crate) fn kill(&self, name: &str) {
        self.with(name, Running::kill);
    }

    /// Stops a process, and waits until it is.
    pub(crate) fn stop(&self, name: &str) {
        self.signal(name, Signal::STOP);
    }

    /// Has a stopped process go on.
    pub(crate) fn go_on(&self, name: &str) {
        self.signal(name, Signal::CONT);
    }

    fn signal(&self, name: &str, signal: Signal) {
        self.with(name, |process| {
            if process.is_running() {
                let pid = Pid::from_child(&process.child);
                let _ = kill_process(pid, signal);
                if signal == Signal::STOP {
                    let ends = WaitIdOptions::STOPPED | WaitIdOptions::EXITED;
                    let _ = waitid(WaitId::Pid(pid), ends | WaitIdOptions::NOWAIT);
                }
            }
        });
    }

    /// Returns whether a process of this name runs.
    pub(crate) fn is_running(&self, name: &str) -> bool {
        lock(&self.all).get_mut(name).is_some_and(Running::is_running)
    }

    /// Returns the names of the processes that run.
    pub(crate) fn running(&self) -> Vec<String> {
        let mut all = lock(&self.all);
        let running = all.iter_mut().filter_map(|(name, process)| {
            let is_running = process.is_running();
            is_running.then(|| name.clone())
        });
        running.collect()
    }

    fn with<R>(&self, name: &str, act: impl FnOnce(&mut Running) -> R) -> R {
        let mut all = lock(&self.all);
        let known = all.get_mut(name).map(act);
        drop(all);
        known.unwrap_or_else(|| panic!("no process `{name}` was started"))
    }

    /// Has the test fail, unless it has before, and kills all its processes.
    pub(crate) fn fail(&self, text: String) {
        lock(&self.failure).get_or_insert(text);
        lock(&self.all).values_mut().for_each(Running::kill);
    }

    /// Returns the text of a failure, if there was one.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// Takes note that the test has returned.
    pub(crate) fn ends(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Returns whether the test has returned.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Starts the processes that are asked for, and looks at all of them until the test returns. Then they are killed.
    pub(crate) fn supervise(&self) {
        let began = Instant::now();
        let mut failed = None;
        let asked = lock(&self.asked).take().expect("one thread supervises the processes");
        loop {
            let ask = asked.recv_timeout(LOOK);
            let is_over = self.is_over();
            self.look();
            if is_over {
                break;
            }
            if began.elapsed() > TIME_MAX {
                self.fail(format!("it has not ended within {TIME_MAX:?}"));
            }
            match (self.failure(), ask) {
                (None, Ok((name, host, replies))) => {
                    let started = self.spawn(&name, host);
                    let started = started.map(|process| {
                        lock(&self.all).insert(name, process);
                    });
                    let _ = replies.send(started);
                }
                (None, Err(RecvTimeoutError::Timeout)) => {}
                (None, Err(RecvTimeoutError::Disconnected)) => break,
                (Some(text), _) => {
                    if failed.get_or_insert_with(Instant::now).elapsed() > GRACE {
                        let goes_on = "its processes are dead, and the test does not end";
                        tell(&format!("{}: {text}\n{goes_on}", self.path));
                        exit(super::FAILED);
                    }
                }
            }
        }
        lock(&self.all).values_mut().for_each(Running::kill);
    }

    /// Looks which processes have ended, and checks the invariants.
    fn look(&self) {
        let mut all = lock(&self.all);
        let ended = all.iter_mut().find_map(|(name, process)| Some((name, process.failure()?)));
        let text = ended.map(|(name, why)| format!("process `{name}` {why}"));
        drop(all);
        if let Some(text) = text {
            self.fail(text);
        }
        if self.failure().is_some() {
            return;
        }
        let checks = AssertUnwindSafe(|| lock(&self.invariants).iter().for_each(|check| check()));
        if let Err(panic) = catch_unwind(checks) {
            self.fail(Ended::Panicked(panic).to_string());
        }
    }

    fn spawn(&self, name: &str, host: u32) -> io::Result<Running> {
        let assignment = Assignment { process: name.to_owned(), ..self.first.clone() };
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--exact", &self.path, "--include-ignored", "--nocapture", "--test-threads=1"])
            .env(super::PROCESS, assignment.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let said = Arc::<Said>::default();
        let relays = [
            said.relay(name, child.stdout.take(), |said, name, line| {
                if said.has_begun.load(Ordering::Acquire) {
                    println!("{name}: {line}");
                }
                said.has_begun.fetch_or(line == MARK, Ordering::Release);
            }),
            said.relay(name, child.stderr.take(), |said, name, line| {
                eprintln!("{name}: {line}");
                let mut last = lock(&said.last);
                last.push_back(line);
                if last.len() > LINES_MAX {
                    last.pop_front();
                }
            }),
        ];
        Ok(Running { host, child, has_ended: false, said, relays })
    }
}

impl Running {
    /// Returns whether the process has not ended.
    fn is_running(&mut self) -> bool {
        !self.has_ended && matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the process, if it has not ended, and waits for its end.
    fn kill(&mut self) {
        if !self.has_ended {
            self.has_ended = true;
            // Both fail if the process is no more.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// Returns how the process has failed, once, if it has ended by itself.
    fn failure(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten().filter(|_| !self.has_ended)?;
        self.has_ended = true;
        // A process that it has started may keep the pipes.
        let began = Instant::now();
        while began.elapsed() < LAST_WORDS && !self.relays.iter().all(JoinHandle::is_finished) {
            std::thread::sleep(LOOK);
        }
        self.said.failure(status)
    }
}

impl Said {
    /// Has a thread take note of the lines of an output.
    fn relay(
        self: &Arc<Said>,
        name: &str,
        from: Option<impl Read + Send + 'static>,
        note: fn(&Said, &str, String),
    ) -> JoinHandle<()> {
        let (said, name) = (Arc::clone(self), name.to_owned());
        std::thread::spawn(move || {
            let lines = from.into_iter().flat_map(|from| BufReader::new(from).split(b'\n'));
            for line in lines.map_while(Result::ok) {
                note(&said, &name, String::from_utf8_lossy(&line).into_owned());
            }
        })
    }

    /// Returns how a process has failed that has ended with a status.
    fn failure(&self, status: ExitStatus) -> Option<String> {
        match (status.success(), self.has_begun.load(Ordering::Acquire)) {
            (true, true) => None,
            (true, false) => Some(
                "was not started: the binary of the test does not run it by its name".to_owned(),
            ),
            (false, _) => {
                let last: Vec<_> = lock(&self.last).iter().cloned().collect();
                Some(format!(
                    "has ended with {status}, and has said last:\n  {}",
                    last.join("\n  ")
                ))
            }
        }
    }
}

/// Returns the text for a process that is started behind an act of the test.
pub(crate) fn is_late(name: &str, acted: &str) -> String {
    format!(
        "process `{name}` is to be started before the test does anything else: it starts once more in the process itself, which \
         would {acted} as well"
    )
}

/// Writes a line on standard error, where the test harness does not catch it.
pub(crate) fn tell(line: &str) {
    // If the write fails, standard error is closed, and no reader misses the line.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
