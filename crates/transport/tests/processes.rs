//! Sessions and names between processes: what a killed process leaves behind, and how its peers learn of its death.
//!
//! The other process is this program again, which the environment tells its part. It reports its progress on standard
//! output, and lives until it is killed or its input ends.

mod common;
mod left_out;
#[path = "processes/names.rs"]
mod names;

use common::{Directory, Raw, alone, frame, home, receive};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::FdFlags;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use upbeat_core::hello::RefusalCode;
use upbeat_transport::carrier::{Carrier, WakeResult};
use upbeat_transport::error::OpenError;
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::opening::{Opening, Step};
use upbeat_transport::shared::{self, Listener};
use upbeat_transport::socket_directory::SocketDirectory;
use upbeat_transport::watch::{Watch, WatchError};

const PART: &str = "UPBEAT_TEST_PART";
const PLACE: &str = "UPBEAT_TEST_PLACE";
const NOBODY: u32 = 65534;

/// The other process.
struct Other {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Other {
    fn start(part: &str, place: &std::path::Path) -> Other {
        Other::start_as(part, place, None)
    }

    fn start_as(part: &str, place: &std::path::Path, uid: Option<u32>) -> Other {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "other", "--nocapture", "--test-threads=1"]);
        command.env(PART, part).env(PLACE, place);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(uid) = uid {
            command.uid(uid);
        }
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Other { child, output }
    }

    /// Waits until the process says `word`, and returns the text behind it.
    fn expect(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(
                self.output.read_line(&mut line).unwrap(),
                0,
                "the other process never said {word}"
            );
            // The test harness writes without an end of line before the first word.
            if let Some((_, rest)) = line.split_once(&format!("@{word}")) {
                return rest.trim().to_owned();
            }
        }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGKILL.
    fn kill(&mut self) {
        self.child.kill().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(words: &str) {
    println!("@{words}");
    std::io::stdout().flush().unwrap();
}

/// Lives until the input ends.
fn linger() {
    let _ = std::io::stdin().read(&mut [0]);
}

/// Waits until a descriptor is readable, for at most a minute.
fn wait(descriptor: BorrowedFd<'_>) {
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut polled, Some(&minute)).unwrap(), 1, "nothing came");
}

fn finish(mut opening: Opening) -> Result<Carrier, OpenError> {
    loop {
        match opening.step(0)? {
            Step::Done(carrier) => return Ok(carrier),
            _ => wait(opening.as_fd()),
        }
    }
}

fn accept(listener: &Listener, home: &LocalNode) -> Result<Carrier, OpenError> {
    loop {
        if let Some(opening) = listener.accept(home, 1, 0)? {
            return finish(opening);
        }
        wait(listener.as_fd());
    }
}

fn connect(place: &SocketDirectory, home: &LocalNode, to: &str) -> Result<Carrier, OpenError> {
    finish(shared::connect(place, home, &to.parse().unwrap(), 1, 0)?)
}

/// Replies to each frame with the next number until the session ends.
fn echo(carrier: &Carrier) {
    loop {
        wait(carrier.socket().unwrap().as_fd());
        let closed = carrier.drain().unwrap().closed;
        while let Some(number) = receive(carrier) {
            frame(carrier, number + 1);
            carrier.ring();
        }
        if closed {
            return;
        }
    }
}

/// Plays the other process's part. Without a part this test does nothing.
#[test]
fn other() {
    let Ok(part) = std::env::var(PART) else { return };
    let path = PathBuf::from(std::env::var_os(PLACE).unwrap());
    match part.as_str() {
        "node" => {
            let (place, home) = (SocketDirectory::at(path).unwrap(), home("node"));
            let _listener = Listener::bind(&place, &home).unwrap();
            say("bound");
            linger();
        }
        "echo" => {
            let (place, home) = (SocketDirectory::at(path).unwrap(), home("node"));
            let listener = Listener::bind(&place, &home).unwrap();
            say("bound");
            echo(&accept(&listener, &home).unwrap());
            say("ended");
            linger();
        }
        "calls for ever" => {
            let (place, home) = (SocketDirectory::at(path).unwrap(), home("caller"));
            say("calling");
            loop {
                drop(connect(&place, &home, "node"));
            }
        }
        "caller with heir" => {
            let (place, home) = (SocketDirectory::at(path).unwrap(), home("caller"));
            let carrier = connect(&place, &home, "node").unwrap();
            rustix::io::fcntl_setfd(carrier.socket().unwrap(), FdFlags::empty()).unwrap();
            heir();
            linger();
        }
        "node with heir" => {
            let (place, home) = (SocketDirectory::at(path).unwrap(), home("node"));
            let listener = Listener::bind(&place, &home).unwrap();
            rustix::io::fcntl_setfd(&listener, FdFlags::empty()).unwrap();
            heir();
            linger();
        }
        "stranger calls" => {
            let raw = Raw::connect(&path);
            say("connected");
            linger();
            assert_eq!(raw.refusal(), RefusalCode::WrongUser);
            say("refused");
        }
        "stranger listens" => {
            let listener = common::raw_listener(&path);
            say("bound");
            linger();
            drop(listener);
        }
        other => panic!("no part {other}"),
    }
}

/// Starts a process that inherits every descriptor that is not closed on exec, and says its number.
#[expect(clippy::zombie_processes, reason = "it is to outlive this process")]
fn heir() {
    let mut sleep = Command::new("sleep");
    let heir = sleep.arg("600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let heir = heir.spawn().unwrap();
    say(&format!("heir {}", heir.id()));
}

fn kill(pid: &str) {
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_node_that_is_killed_in_a_session() {
    let _alone = alone();
    let directory = Directory::new();
    let (place, caller) = (directory.place(), home("caller"));
    let before = common::descriptors();
    let mut other = Other::start("echo", place.directory());
    other.expect("bound");
    let carrier = connect(&place, &caller, "node").unwrap();
    assert_eq!(carrier.peer.pid, Some(other.pid()));
    for number in 0..100 {
        frame(&carrier, number);
        carrier.ring();
        wait(carrier.socket().unwrap().as_fd());
        carrier.drain().unwrap();
        // The wake-up may belong to the frame before; then the next one is on its way.
        while let Some(answer) = receive(&carrier) {
            assert!(answer <= number + 1);
        }
    }
    other.kill();
    loop {
        wait(carrier.socket().unwrap().as_fd());
        if carrier.drain().unwrap().closed {
            break;
        }
    }
    assert_eq!(carrier.ring(), WakeResult::Gone);
    drop((carrier, other));
    assert_eq!(common::descriptors(), before);
}

#[test]
fn callers_that_are_killed_at_any_instant() {
    let _alone = alone();
    let directory = Directory::new();
    let (place, home) = (directory.place(), home("node"));
    let listener = Listener::bind(&place, &home).unwrap();
    let before = common::descriptors();
    let (mut opened, mut failed) = (0, 0);
    for round in 0..40 {
        let mut other = Other::start("calls for ever", place.directory());
        other.expect("calling");
        let (mut calls, last) = (0, 1 + round * 7 % 20);
        loop {
            match listener.accept(&home, 1, 0).map(|caller| caller.map(finish)) {
                Ok(None) if calls >= last => break,
                Ok(None) => {
                    wait(listener.as_fd());
                    continue;
                }
                Ok(Some(Ok(carrier))) => {
                    opened += 1;
                    assert_eq!(carrier.peer.incarnation, carrier.page().incarnation());
                }
                Err(OpenError::Closed { .. }) | Ok(Some(Err(OpenError::Closed { .. }))) => {
                    failed += 1;
                }
                Err(error) | Ok(Some(Err(error))) => panic!("{error}"),
            }
            calls += 1;
            if calls == last {
                other.kill();
                other.child.wait().unwrap();
            }
        }
        drop(other);
        assert_eq!((common::descriptors(), listener.pending()), (before, 0));
    }
    assert!(opened > 40, "{opened} were opened, {failed} have failed");
}

#[test]
fn an_heir_of_the_socket_hides_the_end_and_the_watch_sees_it() {
    let _alone = alone();
    let directory = Directory::new();
    let (place, home) = (directory.place(), home("node"));
    let listener = Listener::bind(&place, &home).unwrap();
    let mut other = Other::start("caller with heir", place.directory());
    let carrier = accept(&listener, &home).unwrap();
    let heir = other.expect("heir");
    assert_eq!(carrier.peer.pid, Some(other.pid()));

    let mut watch = Watch::new();
    assert!(watch.watch(other.pid()).unwrap().is_some());
    other.kill();
    wait(watch.as_fd(other.pid()).unwrap());
    assert!(!carrier.drain().unwrap().closed, "the heir holds the socket");
    assert!(watch.unwatch(other.pid()));

    kill(&heir);
    wait(carrier.socket().unwrap().as_fd());
    assert!(carrier.drain().unwrap().closed);
}

/// The descriptors of this process that watch a process. Threads of the test harness open others for a moment.
fn pidfds() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().contains("pidfd")).count()
}

#[test]
fn sessions_of_one_process_are_watched_by_one_descriptor() {
    let _alone = alone();
    let before = pidfds();
    let ours = std::process::id();
    let mut watch = Watch::new();
    assert!(watch.watch(ours).unwrap().is_some());
    for _ in 1..1000 {
        assert!(watch.watch(ours).unwrap().is_none());
    }
    assert_eq!((pidfds() - before, watch.len()), (1, 1));
    for _ in 1..1000 {
        assert!(!watch.is_last(ours) && !watch.unwatch(ours));
    }
    assert!(watch.is_last(ours) && watch.unwatch(ours));
    assert!(watch.is_empty() && watch.as_fd(ours).is_none() && !watch.unwatch(ours));
    assert_eq!(pidfds(), before);

    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    assert_eq!(watch.watch(child.id()).err(), Some(WatchError::Dead { pid: child.id() }));
    assert_eq!(watch.watch(0).err(), Some(WatchError::NoProcess { pid: 0 }));
}

/// Gives all users permissions that they must not have.
fn open_up(path: &std::path::Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_peer_of_another_user_is_refused() {
    let _alone = alone();
    if !rustix::process::geteuid().is_root() {
        left_out::leave_out("only root can become another user");
        return;
    }
    let directory = Directory::new();
    let (place, home) = (directory.place(), home("node"));
    let listener = Listener::bind(&place, &home).unwrap();
    let sockets = listener.path().parent().unwrap();
    for path in [directory.0.as_path(), place.directory(), sockets] {
        open_up(path, 0o755);
    }
    open_up(listener.path(), 0o777);

    let mut stranger = Other::start_as("stranger calls", listener.path(), Some(NOBODY));
    stranger.expect("connected");
    let error = listener.accept(&home, 1, 0).err().unwrap();
    assert!(matches!(error, OpenError::WrongUser { uid: NOBODY, .. }), "{error}");
    assert!(error.to_string().contains(&stranger.pid().to_string()), "{error}");
    drop(stranger.child.stdin.take());
    stranger.expect("refused");

    open_up(sockets, 0o777);
    let imp = "imp".parse().unwrap();
    let path = place.socket_path(home.program().name(), &imp);
    let mut stranger = Other::start_as("stranger listens", &path, Some(NOBODY));
    stranger.expect("bound");
    let error = connect(&place, &home, "imp").err().unwrap();
    assert!(matches!(error, OpenError::Place(_)), "{error}: others may write there");
    open_up(sockets, 0o755);
    let error = connect(&place, &home, "imp").err().unwrap();
    assert!(matches!(error, OpenError::WrongUser { uid: NOBODY, .. }), "{error}");
}
