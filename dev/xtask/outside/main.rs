//! A client and a server that take turns, one look each, and a reader, for `cargo xtask instructions`:
//! `outside <way> <side>`.
//!
//! | way | sides | what is counted |
//! |---|---|---|
//! | `local`, `shared` | `client`, `server` | turns of one side of a null call |
//! | `block_on` | `client`, `idle` | null calls that the node's main future awaits; the same without the calls |
//! | `oneway` | `client`, `server` | turns of one side of one-way messages of 8 bytes, 16 a turn |
//! | `nested` | `relay` | turns of a node whose handler makes a null call |
//! | `read` | `number`, `element`, `struct` | reads of a part of what another process exports |
//!
//! This process runs the side that is named, and calls [`measured_turn`] for the turns that count, [`measured_calls`] for
//! calls, or a function of [`reads`]; callgrind collects in there and nowhere else. The other side is a second node of
//! this thread, or a child process that turns when it is told to over a pipe. Turns are counted in windows between two
//! ticks of the node, so that nothing depends on the clock; a turn of many messages, which may bring a check, is a window
//! of its own. The last line of the output is the number of calls or reads that were made in them.
#![forbid(unsafe_code)]

mod reads;

use std::cell::{Cell, RefCell};
use std::env;
use std::error::Error;
use std::future::Future;
use std::hint::black_box;
use std::io::{Read, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;
use upbeat::{CallError, Counter, Export, Node};

/// Calls before the first window. They allocate everything that is made on first use, and grow what grows.
const WARM_CALLS: u64 = 2000;
const WINDOWS: u64 = 4;
/// Turns of a window: twice around the ring of 120 slots, and less than the 256 turns between two ticks.
const TURNS: u64 = 240;
/// The calls that a main future makes in one drive, which ends before a millisecond is over.
const CALLS: u64 = 30;
/// One-way messages that are sent in a turn.
const MESSAGES: u64 = 16;
/// A pause after which the next turn is a tick: there the node checks its sockets, which it counts.
const PAUSE: Duration = Duration::from_millis(3);
/// Turns within which every awaited reply has arrived.
const TURNS_MAX: u64 = 1_000_000;

const PROGRAM: &str = "instructions";

type Outcome<T> = Result<T, Box<dyn Error>>;

#[upbeat::service]
trait Null {
    async fn null(&self);

    #[oneway]
    async fn note(&self, number: u64);
}

struct Nothing;

impl Null for Nothing {
    async fn null(&self) {}

    async fn note(&self, number: u64) {
        black_box(number);
    }
}

#[upbeat::service]
trait Relay {
    async fn relay(&self);
}

/// A service whose method calls the server in each call.
struct Relaying(Rc<NullClient>);

impl Relay for Relaying {
    async fn relay(&self) {
        self.0.null().await.expect("a reply");
    }
}

fn main() {
    if let Err(error) = run() {
        give_up(&*error);
    }
}

fn run() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["local", side @ ("client" | "server")] => local(side, Work::Calls),
        ["oneway", side @ ("client" | "server")] => local(side, Work::Messages),
        ["shared", side @ ("client" | "server")] => shared(side),
        ["block_on", side @ ("client" | "idle")] => block_on(side == "client"),
        ["nested", "relay"] => nested(),
        ["read", part @ ("number" | "element" | "struct")] => reads::measure(part),
        ["child", side, directory] => obey(side, Path::new(directory)),
        _ => Err("usage: outside <way> <side>: the beginning of its source says which".into()),
    }
}

/// The client's task, which calls for ever.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    Calls,
    Messages,
}

fn local(side: &str, work: Work) -> Outcome<()> {
    let (client, server) = (Side::client(None, work)?, Side::server(None)?);
    let (own, other) = if side == "client" { (client, server) } else { (server, client) };
    let window = match work {
        Work::Calls => WINDOW,
        Work::Messages => Window { calls: TURNS * MESSAGES, each_behind_a_tick: true, ..WINDOW },
    };
    measure(&own, &mut Others::Here(vec![other]), window)
}

fn shared(side: &str) -> Outcome<()> {
    let directory = Directory::new()?;
    let own = Side::named(side, Some(&directory.0))?;
    let other = if side == "client" { "server" } else { "client" };
    let remote = Remote::new(other, &directory.0)?;
    measure(&own, &mut Others::There(remote), WINDOW)
}

/// A client, a relay, and a server. The relay has two turns for each call.
fn nested() -> Outcome<()> {
    let server = Side::server(None)?;
    let relay = Side::new("relay", None)?;
    let mut others = Others::Here(vec![server]);
    let relaying = Relaying(connected(&relay, &mut others)?);
    relay.node.serve(RelayServer::new(relaying))?;
    let client = Side::new("client", None)?;
    let (node, done) = (client.node.clone(), Rc::clone(&client.done));
    drop(client.node.spawn(async move {
        let relay: RelayClient = node.connect("relay").await.expect("a relay");
        loop {
            relay.relay().await.expect("a reply");
            done.set(done.get() + 1);
        }
    }));
    if let Others::Here(others) = &mut others {
        others.push(client);
    }
    // A node with several sessions may check its sockets after 64 messages.
    measure(&relay, &mut others, Window { turns: 60, calls: 30, ..WINDOW })
}

/// Connects a node to the server, which turns beside it.
fn connected(own: &Side, others: &mut Others) -> Outcome<Rc<NullClient>> {
    let client = Rc::new(RefCell::new(None));
    let (node, place) = (own.node.clone(), Rc::clone(&client));
    drop(own.node.spawn(async move {
        let connected: Result<NullClient, _> = node.connect("server").await;
        *place.borrow_mut() = Some(connected);
    }));
    for _ in 0..TURNS_MAX {
        own.node.turn();
        others.turn()?;
        if let Some(client) = client.borrow_mut().take() {
            return Ok(Rc::new(client?));
        }
    }
    Err(format!("no connection in {TURNS_MAX} rounds of turns").into())
}

/// Turns that are measured together.
struct Window {
    turns: u64,
    /// The calls that are made in them.
    calls: u64,
    /// Whether each of them stands behind a tick of its own, because it may bring one.
    each_behind_a_tick: bool,
}

const WINDOW: Window = Window { turns: TURNS, calls: TURNS, each_behind_a_tick: false };

/// Measures turns, in windows that begin behind a tick and end before the next.
fn measure(own: &Side, others: &mut Others, window: Window) -> Outcome<()> {
    let Window { turns, calls, each_behind_a_tick } = window;
    let windows = WINDOWS * TURNS / turns;
    let mut done = 0;
    for _ in 0..TURNS_MAX {
        own.node.turn();
        done += others.turn()? + own.done();
        if done >= WARM_CALLS {
            break;
        }
    }
    if done < WARM_CALLS {
        return Err(format!("only {done} calls in {TURNS_MAX} rounds of turns").into());
    }
    for _ in 0..windows {
        pass_a_tick(own, others)?;
        let watches = own.node.counted(Counter::Watches);
        let mut done = 0;
        for _ in 0..turns {
            if each_behind_a_tick {
                pass_a_tick(own, others)?;
            }
            measured_turn(&own.node);
            done += others.turn()? + own.done();
        }
        if done != calls {
            return Err(format!("{done} calls in {turns} rounds of turns, not {calls}").into());
        }
        if !each_behind_a_tick && own.node.counted(Counter::Watches) != watches {
            return Err(format!("the node ticks more often than every {turns} turns").into());
        }
    }
    println!("{}", windows * calls);
    Ok(())
}

/// Runs the turns that count.
#[inline(never)]
fn measured_turn(node: &Node) {
    black_box(node.turn());
}

fn pass_a_tick(own: &Side, others: &mut Others) -> Outcome<()> {
    thread::sleep(PAUSE);
    let watches = own.node.counted(Counter::Watches);
    for _ in 0..TURNS_MAX {
        own.node.turn();
        others.turn()?;
        own.done();
        if own.node.counted(Counter::Watches) != watches {
            return Ok(());
        }
    }
    Err(format!("no tick of the node in {TURNS_MAX} turns").into())
}

/// Makes calls that the main future of a node awaits. The server turns while the future is polled, which counts:
/// without `calls`, only the server's turns are made.
fn block_on(calls: bool) -> Outcome<()> {
    let directory = Directory::new()?;
    let own = Side::new("client", Some(&directory.0))?;
    let mut server = Others::There(Remote::new("server", &directory.0)?);
    let client = connected(&own, &mut server)?;
    let server = RefCell::new(server);
    let call = async |count: u64| -> Outcome<()> {
        for _ in 0..count {
            if calls {
                Lockstep { call: pin!(client.null()), server: &server }.await?;
            } else {
                server.borrow_mut().turn()?;
            }
        }
        Ok(())
    };
    own.node.block_on(call(WARM_CALLS))?;
    for _ in 0..WINDOWS * TURNS / CALLS {
        // The first turn behind a pause is a tick, and sockets may be checked a millisecond later.
        thread::sleep(PAUSE);
        own.node.block_on(call(1))?;
        measured_calls(|| own.node.block_on(call(CALLS)))?;
    }
    println!("{}", WINDOWS * TURNS);
    Ok(())
}

/// Makes the calls that count.
#[inline(never)]
fn measured_calls(calls: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
    black_box(calls())
}

/// Makes a call, and has the server make the turn that the call waits for.
struct Lockstep<'r, F> {
    call: F,
    server: &'r RefCell<Others>,
}

impl<F: Future<Output = Result<(), CallError>> + Unpin> Future for Lockstep<'_, F> {
    type Output = Outcome<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<()>> {
        let polled = Pin::new(&mut self.call).poll(context)?;
        if polled.is_pending() {
            self.server.borrow_mut().turn()?;
        }
        polled.map(Ok)
    }
}

/// One node and its work.
struct Side {
    node: Node,
    /// Calls that the client's task has made since the counter was last read.
    done: Rc<Cell<u64>>,
    /// The owner's export, which ends when it is dropped.
    _table: Option<Export<reads::Table>>,
}

impl Side {
    fn new(name: &str, directory: Option<&Path>) -> Outcome<Side> {
        let builder = Node::builder(name).program(PROGRAM);
        let builder = match directory {
            Some(directory) => builder.directory(directory),
            None => builder.local_only(),
        };
        Ok(Side { node: builder.build()?, done: Rc::default(), _table: None })
    }

    fn named(name: &str, directory: Option<&Path>) -> Outcome<Side> {
        match name {
            "client" => Side::client(directory, Work::Calls),
            "owner" => Side::owner(directory),
            _ => Side::server(directory),
        }
    }

    fn server(directory: Option<&Path>) -> Outcome<Side> {
        let side = Side::new("server", directory)?;
        side.node.serve(NullServer::new(Nothing))?;
        Ok(side)
    }

    fn owner(directory: Option<&Path>) -> Outcome<Side> {
        let side = Side::new("owner", directory)?;
        let table = reads::export(&side)?;
        Ok(Side { _table: Some(table), ..side })
    }

    fn client(directory: Option<&Path>, work: Work) -> Outcome<Side> {
        let side = Side::new("client", directory)?;
        let (node, done) = (side.node.clone(), Rc::clone(&side.done));
        match work {
            Work::Calls => drop(side.node.spawn(async move {
                if let Err(error) = call(&node, &done).await {
                    give_up(&*error);
                }
            })),
            Work::Messages => drop(side.node.spawn(async move {
                if let Err(error) = send(&node, &done).await {
                    give_up(&*error);
                }
            })),
        }
        Ok(side)
    }

    fn done(&self) -> u64 {
        self.done.take()
    }
}

fn give_up(error: &dyn Error) -> ! {
    eprintln!("outside: {error}");
    std::process::exit(1);
}

async fn call(node: &Node, done: &Cell<u64>) -> Outcome<()> {
    let client: NullClient = node.connect("server").await?;
    loop {
        client.null().await?;
        done.set(done.get() + 1);
    }
}

async fn send(node: &Node, done: &Cell<u64>) -> Outcome<()> {
    let client: NullClient = node.connect("server").await?;
    loop {
        for number in 0..MESSAGES {
            client.note(number).await?;
        }
        done.set(done.get() + MESSAGES);
        upbeat::yield_now().await;
    }
}

/// The sides that are not measured.
enum Others {
    Here(Vec<Side>),
    There(Remote),
}

impl Others {
    /// Turns each side once. Returns the number of calls that were done.
    fn turn(&mut self) -> Outcome<u64> {
        match self {
            Others::Here(sides) => Ok(sides
                .iter()
                .map(|side| {
                    side.node.turn();
                    side.done()
                })
                .sum()),
            Others::There(remote) => remote.turn(),
        }
    }
}

/// The other side in a process of its own. A byte tells it to turn, a byte says how many calls it has done;
/// it ends when the pipe does.
struct Remote {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
}

impl Remote {
    fn new(side: &str, directory: &Path) -> Outcome<Remote> {
        let mut child = Command::new(env::current_exe()?)
            .args(["child", side])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(to), Some(from)) = pipes else { return Err("the child has no pipes".into()) };
        let mut remote = Remote { child, to, from };
        // The first byte tells the parent that the child is ready.
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
        // The child has reported its failure itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the child.
fn obey(side: &str, directory: &Path) -> Outcome<()> {
    let own = Side::named(side, Some(directory))?;
    let (mut from, mut to) = (stdin().lock(), stdout().lock());
    let mut done = 0;
    loop {
        to.write_all(&[u8::try_from(done)?])?;
        to.flush()?;
        if from.read(&mut [0])? == 0 {
            return Ok(());
        }
        own.node.turn();
        done = own.done();
    }
}

/// The directory of the sockets, for the time of the run.
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
        // The directory is a temporary one: the system removes later what cannot be removed now.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
