//! A client and a server that take turns, one look each, for `cargo xtask instructions`:
//! `outside <local|shared> <client|server>`.
//!
//! This process runs the side that is named, and calls [`measured_turn`] for the turns that count;
//! callgrind collects in there and nowhere else. The other side is a second node of this thread, or
//! a child process that turns when it is told to over a pipe. Turns are counted in windows between
//! two ticks of the node, so that nothing depends on the clock. The last line of the output is
//! the number of calls that were made in them.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::env;
use std::error::Error;
use std::hint::black_box;
use std::io::{Read, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::Duration;
use upbeat::{Counter, Node};

/// Calls before the first window: what is made on first use is made, what grows has grown.
const WARM_CALLS: u64 = 2000;
const WINDOWS: u64 = 4;
/// Twice around the ring of 120 slots, and less than the 256 turns between two ticks.
const CALLS: u64 = 240;
/// At a tick after such a pause the node looks at its sockets, which it counts.
const PAUSE: Duration = Duration::from_millis(3);
/// Turns in which whatever is waited for must have come.
const TURNS_MAX: u64 = 1_000_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[upbeat::service]
trait Null {
    async fn null(&self);
}

struct Nothing;

impl Null for Nothing {
    async fn null(&self) {}
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Client,
    Server,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::Server => "server",
        }
    }

    fn other(self) -> Role {
        match self {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        }
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("outside: {error}");
        std::process::exit(1);
    }
}

fn run() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [carrier, role, rest @ ..] = &arguments[..] else {
        return Err("usage: outside <local|shared> <client|server>".into());
    };
    let role = match role.as_str() {
        "client" => Role::Client,
        "server" => Role::Server,
        other => return Err(format!("there is no side `{other}`").into()),
    };
    match (carrier.as_str(), rest) {
        ("local", []) => {
            let server = Side::new(Role::Server, None)?;
            let client = Side::new(Role::Client, None)?;
            server.start();
            client.start();
            let (own, other) =
                if role == Role::Client { (client, server) } else { (server, client) };
            measure(&own, &mut Other::Here(other))
        }
        ("shared", []) => {
            let directory = Directory::new()?;
            measure_shared(role, &directory.0)
        }
        ("shared", [directory]) => obey(role, Path::new(directory)),
        (other, _) => Err(format!("there is no carrier `{other}`").into()),
    }
}

fn measure_shared(role: Role, directory: &Path) -> Outcome<()> {
    let own = Side::new(role, Some(directory))?;
    let mut other = Remote::new(role.other(), directory)?;
    own.start();
    measure(&own, &mut Other::There(&mut other))
}

/// Measures in windows that begin behind a tick and end before the next.
fn measure(own: &Side, other: &mut Other) -> Outcome<()> {
    let mut calls = 0;
    for _ in 0..TURNS_MAX {
        own.node.turn();
        calls += other.turn()? + own.answered();
        if calls >= WARM_CALLS {
            break;
        }
    }
    if calls < WARM_CALLS {
        return Err(format!("only {calls} calls in {TURNS_MAX} pairs of turns").into());
    }
    for _ in 0..WINDOWS {
        pass_a_tick(own, other)?;
        let watches = own.node.counted(Counter::Watches);
        let mut calls = 0;
        for _ in 0..CALLS {
            measured_turn(&own.node);
            calls += other.turn()? + own.answered();
        }
        if calls != CALLS {
            return Err(
                format!("{calls} calls in {CALLS} pairs of turns: one each is meant").into()
            );
        }
        if own.node.counted(Counter::Watches) != watches {
            return Err(format!("the node ticks more often than every {CALLS} turns").into());
        }
    }
    println!("{}", WINDOWS * CALLS);
    Ok(())
}

/// The turns that count.
#[inline(never)]
fn measured_turn(node: &Node) {
    black_box(node.turn());
}

fn pass_a_tick(own: &Side, other: &mut Other) -> Outcome<()> {
    thread::sleep(PAUSE);
    let watches = own.node.counted(Counter::Watches);
    for _ in 0..TURNS_MAX {
        own.node.turn();
        other.turn()?;
        own.answered();
        if own.node.counted(Counter::Watches) != watches {
            return Ok(());
        }
    }
    Err(format!("no tick of the node in {TURNS_MAX} turns").into())
}

/// One node, and what it does.
struct Side {
    node: Node,
    role: Role,
    /// Answers that the client's task has got and nobody has asked for yet.
    answers: Rc<Cell<u64>>,
}

impl Side {
    fn new(role: Role, directory: Option<&Path>) -> Outcome<Side> {
        let builder = Node::builder(role.name()).program("instructions");
        let builder = match directory {
            Some(directory) => builder.directory(directory),
            None => builder.local_only(),
        };
        Ok(Side { node: builder.build()?, role, answers: Rc::default() })
    }

    /// Serves, or calls for ever.
    fn start(&self) {
        if self.role == Role::Server {
            self.node.serve(NullServer::new(Nothing));
            return;
        }
        let (node, answers) = (self.node.clone(), Rc::clone(&self.answers));
        drop(self.node.spawn(async move {
            if let Err(error) = call(&node, &answers).await {
                eprintln!("outside: {error}");
                std::process::exit(1);
            }
        }));
    }

    fn answered(&self) -> u64 {
        self.answers.take()
    }
}

async fn call(node: &Node, answers: &Cell<u64>) -> Outcome<()> {
    let client: NullClient = node.connect(Role::Server.name()).await?;
    loop {
        client.null().await?;
        answers.set(answers.get() + 1);
    }
}

/// The side that is not measured.
enum Other<'a> {
    Here(Side),
    There(&'a mut Remote),
}

impl Other<'_> {
    /// Turns once. Gives the number of answers that came.
    fn turn(&mut self) -> Outcome<u64> {
        match self {
            Other::Here(side) => {
                side.node.turn();
                Ok(side.answered())
            }
            Other::There(remote) => remote.turn(),
        }
    }
}

/// The other side in a process of its own. A byte tells it to turn, a byte says how many answers
/// came; it ends when the pipe does.
struct Remote {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
}

impl Remote {
    fn new(role: Role, directory: &Path) -> Outcome<Remote> {
        let mut child = Command::new(env::current_exe()?)
            .args(["shared", role.name()])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(to), Some(from)) = pipes else { return Err("the child has no pipes".into()) };
        let mut remote = Remote { child, to, from };
        // The first byte says that it is there.
        remote.hear()?;
        Ok(remote)
    }

    fn turn(&mut self) -> Outcome<u64> {
        self.to.write_all(&[0])?;
        self.hear()
    }

    fn hear(&mut self) -> Outcome<u64> {
        let mut byte = [0];
        self.from.read_exact(&mut byte)?;
        Ok(byte[0].into())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // What went wrong with it has been reported where it was noticed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the child does.
fn obey(role: Role, directory: &Path) -> Outcome<()> {
    let own = Side::new(role, Some(directory))?;
    own.start();
    let (mut from, mut to) = (stdin().lock(), stdout().lock());
    let mut answers = 0;
    loop {
        to.write_all(&[u8::try_from(answers)?])?;
        to.flush()?;
        if from.read(&mut [0])? == 0 {
            return Ok(());
        }
        own.node.turn();
        answers = own.answered();
    }
}

/// Where the sockets are, for the time of the run.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Outcome<Directory> {
        use std::os::unix::fs::DirBuilderExt;
        let name = format!("upbeat-instructions-{}", std::process::id());
        let path = env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // It lies among what is temporary: what cannot be removed now will be.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
