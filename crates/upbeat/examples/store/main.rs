//! A key-value store, two processes that write to it, and one that follows every change. The server is killed and
//! started again meanwhile: its clients connect again, and each change is seen once.
//!
//! The program starts itself again for the server and for each writer. The server appends each change to a file before
//! it answers, so a change outlives the server. Run it with `cargo run --release -p upbeat --example store`.

mod server;

use server::{Change, StoreClient, StoreHandle, Values};
use std::process::{Child, Command};
use std::time::Duration;
use upbeat::{CallError, Late, Node};

type Error = Box<dyn std::error::Error>;

const PATIENCE: Duration = Duration::from_secs(5);
const KEYS: usize = 100;
/// Each of two writers puts all of its keys, and deletes one in ten.
const CHANGES: usize = 2 * (KEYS + KEYS / 10);
const RESTART_AT: usize = CHANGES / 4; // the server is killed after so many changes

/// Repeats a call until a server has answered it. That is right for these calls, which may run twice. A call over a
/// lost connection connects again first.
fn insist(call: impl Fn() -> Result<(), CallError<String>>) -> Result<(), Error> {
    loop {
        match call() {
            Err(CallError::NotSent(_) | CallError::Unknown(_)) => {}
            done => return Ok(done?),
        }
    }
}

fn write(writer: &str) -> Result<(), Error> {
    let store: StoreHandle = upbeat::handle::builder().wait_for(PATIENCE).connect("store")?;
    let store = store.blocking();
    for number in 0..KEYS {
        let (key, value) = (format!("{writer}/{number:02}"), format!("value {number} of {writer}"));
        insist(|| store.put(&key, &value))?;
        if number % 10 == 0 {
            insist(|| store.delete(&key))?;
        }
        // Other work takes a millisecond, so the server is killed in the middle.
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// A process that does not outlive this one.
struct Process {
    command: Command,
    child: Child,
}

impl Process {
    fn start(program: &str, arguments: [&str; 2]) -> std::io::Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).env("UPBEAT_PROGRAM", program);
        let child = command.spawn()?;
        Ok(Process { command, child })
    }

    fn restart(&mut self) -> std::io::Result<()> {
        self.child.kill().and_then(|()| self.child.wait())?;
        self.command.spawn().map(|child| self.child = child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Reads the changes that come after those already seen, until the server is lost or all changes are made.
async fn follow(
    store: &StoreClient,
    server: &mut Process,
    seen: &mut Vec<Change>,
) -> Result<(), Error> {
    let mut changes = store.watch(seen.len()).await?;
    while let Some(change) =
        upbeat::within(PATIENCE, changes.next()).await.map_err(Late::give_up)?
    {
        match change {
            Ok(change) => seen.push(change),
            Err(error) => {
                println!("after {} changes: {error}", seen.len());
                break;
            }
        }
        match seen.len() {
            RESTART_AT => server.restart()?,
            CHANGES => break,
            _ => {}
        }
    }
    Ok(())
}

async fn watch(node: &Node, program: &str, path: &str) -> Result<(), Error> {
    let mut server = Process::start(program, ["serve", path])?;
    let mut writers =
        [Process::start(program, ["write", "ada"])?, Process::start(program, ["write", "bob"])?];
    let store: StoreClient = node.connect("store").wait_for(PATIENCE).await?;
    let mut seen = Vec::new();
    while seen.len() < CHANGES {
        follow(&store, &mut server, &mut seen).await?;
    }
    for writer in &mut writers {
        assert!(writer.child.wait()?.success(), "a writer failed");
    }

    let mut values = Values::new();
    seen.iter().for_each(|change| server::apply(&mut values, change.clone()));
    println!("{} changes were seen, which leave {} keys", seen.len(), values.len());
    let mut found = store.range("a".to_owned().."c".to_owned()).await?;
    let mut kept = Values::new();
    while let Some(pair) = found.next().await {
        kept.extend([pair?]);
    }
    assert_eq!(
        (&kept, kept.len()),
        (&values, 2 * (KEYS - KEYS / 10)),
        "the store and its changes differ"
    );
    assert_eq!(store.get("bob/42").await?.as_deref(), Some("value 42 of bob"));
    assert_eq!(store.get("bob/40").await?, None, "it was deleted");
    Ok(())
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", path] => server::serve(path),
        ["write", writer] => write(writer),
        _ => {
            let program = format!("store-{}", std::process::id());
            let file = std::env::temp_dir().join(&program);
            let node = Node::builder("watcher").program(&program).build()?;
            let result =
                node.block_on(watch(&node, &program, file.to_str().ok_or("a path in UTF-8")?));
            std::fs::remove_file(file)?;
            result
        }
    }
}
