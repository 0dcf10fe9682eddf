//! The other process: this program again, told by the environment which part to play. It says how
//! far it is on its standard output and lives until it is killed or its input ends.

use rustix::io::FdFlags;
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process,
    pidfd_getfd, pidfd_open, waitid,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

const PART: &str = "UPBEAT_TEST_PART";
const PLACE: &str = "UPBEAT_TEST_PLACE";

/// Returns the emulator under which Cargo runs the tests of another processor, which the system does not know.
fn emulator() -> Option<Command> {
    let runner = match cfg!(target_arch = "aarch64") {
        true => std::env::var("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER").ok()?,
        false => return None,
    };
    let mut words = runner.split_whitespace();
    let mut command = Command::new(words.next()?);
    command.args(words);
    Some(command)
}

/// Returns the command that runs this program again.
fn this_program() -> Command {
    let program = std::env::current_exe().unwrap();
    match emulator() {
        Some(mut emulator) => {
            emulator.arg(program);
            emulator
        }
        None => Command::new(program),
    }
}

/// Returns the command that runs one test of this program in a process of its own. Its path begins with the program:
/// it is `concat!(module_path!(), "::", …)`.
pub(crate) fn one_test(path: &str) -> Command {
    let mut command = this_program();
    command.args([
        "--exact",
        in_program(path),
        "--include-ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command
}

/// Returns the path of a test without its program, as the test harness knows it.
pub(crate) fn in_program(path: &str) -> &str {
    path.split_once("::").unwrap().1
}

/// Has a test act in a process of its own, in which no other test runs: what a process has is counted there. The path
/// of the test is that of [`one_test`].
pub(crate) fn apart(path: &str, act: impl FnOnce()) {
    const APART: &str = "UPBEAT_TEST_APART";
    if std::env::var_os(APART).is_some() {
        return act();
    }
    let output = one_test(path).env(APART, "1").output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    said.iter().for_each(|said| print!("{said}"));
    assert!(output.status.success() && said[0].contains("1 passed"), "{path}: {}", output.status);
}

/// The other process.
pub(crate) struct Other {
    pub(crate) child: Child,
    output: BufReader<ChildStdout>,
}

impl Other {
    /// Starts it. The test of the name `other` plays the part.
    pub(crate) fn start(part: &str, place: &Path) -> Other {
        Other::spawn(this_program(), part, place)
    }

    /// Starts it under a program that is given it as its last argument.
    pub(crate) fn start_under(mut command: Command, part: &str, place: &Path) -> Other {
        command.arg(std::env::current_exe().unwrap());
        Other::spawn(command, part, place)
    }

    fn spawn(mut command: Command, part: &str, place: &Path) -> Other {
        command.args(["--exact", "other", "--nocapture", "--test-threads=1"]);
        command.env(PART, part).env(PLACE, place);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // If this process ends without another word, the system ends a stopped process of a group that is left behind.
        command.process_group(0);
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Other { child, output }
    }

    /// Waits until it says `word`, and gives what comes behind it.
    pub(crate) fn expect(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it never said {word}");
            // The test harness writes without an end of line before the first word.
            if let Some((_, rest)) = line.split_once(&format!("@{word}")) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Ends its input, so that it ends by itself, and waits for that.
    pub(crate) fn end(&mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    /// Waits until it ends, with its input open: `Child::wait` closes the input, which ends most parts by itself.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let _input = self.child.stdin.take();
        self.child.wait().unwrap()
    }

    /// SIGKILL, and no more.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Sends a signal. After a signal that stops the process, this waits until all its threads stand: on a busy machine
    /// they run on for a while.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).unwrap();
        kill_process(pid, signal).unwrap();
        if signal == Signal::STOP {
            waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).unwrap();
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays the part for which this process was started, if it was: the first player that knows the part does, or the
/// server of `Work`. A test program that starts processes has one test `other`, which calls this.
pub(crate) fn play(players: &[fn(&str, &Path) -> bool]) {
    let Ok(part) = std::env::var(PART) else { return };
    let place = PathBuf::from(std::env::var_os(PLACE).unwrap());
    let played = players.iter().any(|play| play(&part, &place));
    assert!(played || super::server::play(&part, &place), "there is no part {part}");
}

pub(crate) fn say(words: &str) {
    println!("@{words}");
    std::io::stdout().flush().unwrap();
}

/// Has this process end with its input, which is at the latest when the test ends.
pub(crate) fn end_with_input() {
    std::thread::spawn(|| {
        linger();
        std::process::exit(0);
    });
}

/// Is given when the input ends.
pub(crate) fn input_ends() -> super::Signal {
    let ends = super::Signal::default();
    let ended = ends.clone();
    std::thread::spawn(move || {
        linger();
        ended.give();
    });
    ends
}

/// Lives until the input ends.
pub(crate) fn linger() {
    let _ = std::io::stdin().read(&mut [0]);
}

/// Returns duplicates of this process's sockets.
pub(crate) fn own_sockets() -> Vec<OwnedFd> {
    let us = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let mut sockets = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let path = entry.unwrap().path();
        let link = std::fs::read_link(&path).unwrap_or_default();
        if !link.to_string_lossy().starts_with("socket:") {
            continue;
        }
        let number = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        // Another thread may have closed the socket.
        sockets.extend(pidfd_getfd(&us, number, PidfdGetfdFlags::empty()));
    }
    sockets
}

/// Leaves this process's sockets to a child, and returns the child's number. A kill of this process kills
/// the child as well, some time later.
pub(crate) fn leave_sockets() -> u32 {
    let heirlooms = own_sockets();
    for socket in &heirlooms {
        rustix::io::fcntl_setfd(socket, FdFlags::empty()).unwrap();
    }
    #[expect(clippy::zombie_processes, reason = "this process is killed before its child ends")]
    let heir = Command::new("sleep").arg("600").spawn().unwrap();
    heir.id()
}
