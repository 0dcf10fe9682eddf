//! The processes of the demo's other nodes: starting and ending them, and their own code.
//!
//! The first process starts its own program again for each node, and waits until the new process reports
//! that its node is ready. However the first process ends, the others end too: the first process asks them
//! to end, kills them if they do not, and the system kills them if the first process is killed.

use crate::bench::pin;
use crate::demo::error::DemoError;
use crate::demo::services::{Keeper, Shelves, ShopServer, StockServer};
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};
use upbeat::Node;

/// The hidden subcommand of a node's process.
const SUBCOMMAND: &str = "demo-node";
/// The name of the program to which all nodes of the demo belong.
const PROGRAM: &str = "upbeat-demo";
/// The longest time that a node may need until it is ready.
const START: Duration = Duration::from_secs(5);
/// The longest time that a process may need to end.
const END: Duration = Duration::from_secs(1);
/// The byte that a process writes when its node is ready.
const READY: u8 = b'!';

/// Creates a node of the demo.
pub(crate) fn node(name: &str, directory: &Path) -> Result<Node, DemoError> {
    let builder = Node::builder(name).program(PROGRAM).directory(directory);
    builder.build().map_err(DemoError::runtime("making a node"))
}

/// The process of another node.
pub(crate) struct Process {
    node: &'static str,
    child: Child,
}

impl Process {
    /// Starts a node's process, on one CPU if `cpu` is given, and waits until its node is ready.
    pub(crate) fn start(
        node: &'static str,
        directory: &Path,
        cpu: Option<usize>,
    ) -> Result<Process, DemoError> {
        let failed = |error| DemoError::Start { node, error };
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.args([SUBCOMMAND, node, "--parent", &std::process::id().to_string()]);
        command.arg("--directory").arg(directory);
        if let Some(cpu) = cpu {
            command.args(["--cpu", &cpu.to_string()]);
        }
        // The process has its own group, so that only the first process receives ctrl-c from the terminal.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Process { node, child: command.spawn().map_err(failed)? };
        process.await_ready()?;
        Ok(process)
    }

    fn await_ready(&mut self) -> Result<(), DemoError> {
        let node = self.node;
        let Some(mut said) = self.child.stdout.take() else {
            return Err(DemoError::Silent { node, waited: Duration::ZERO });
        };
        let mut descriptors = [PollFd::new(&said, PollFlags::IN)];
        let patience = Timespec { tv_sec: START.as_secs() as i64, tv_nsec: 0 };
        match rustix::io::retry_on_intr(|| poll(&mut descriptors, Some(&patience))) {
            Ok(0) => return Err(DemoError::Silent { node, waited: START }),
            Ok(_) => {}
            Err(error) => return Err(DemoError::Start { node, error: error.into() }),
        }
        let failed = |error| DemoError::Start { node, error };
        let mut byte = [0];
        match said.read(&mut byte).map_err(failed)? {
            1 if byte[0] == READY => Ok(()),
            _ => Err(DemoError::Ended { node, status: self.child.wait().map_err(failed)? }),
        }
    }

    /// Returns the number of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // The child was not waited for yet, so the system has not reused its number.
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if start.elapsed() > END {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The arguments of a node's process.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The name of the node: `shop` or `stock`.
    pub(super) node: String,
    /// The directory of the sockets.
    #[arg(long)]
    directory: PathBuf,
    /// The number of the first process.
    #[arg(long)]
    parent: u32,
    /// The CPU of the process.
    #[arg(long)]
    cpu: Option<usize>,
}

/// Runs the process of a node.
pub(crate) fn run(arguments: &Arguments) -> Result<(), DemoError> {
    end_with(arguments.parent)?;
    if let Some(cpu) = arguments.cpu {
        pin::pin(cpu).map_err(DemoError::runtime("pinning"))?;
    }
    let node = node(&arguments.node, &arguments.directory)?;
    let keeper = Rc::new(Keeper::new(&node));
    let is_shop = arguments.node == "shop";
    let served = match is_shop {
        true => node.serve(ShopServer::shared(Rc::clone(&keeper))),
        false => node.serve(StockServer::new(Shelves::new(&node))),
    };
    served.map_err(DemoError::runtime("serving"))?;
    node.block_on(async {
        if is_shop {
            let stock = node.connect("stock").await;
            let stock = stock.map_err(DemoError::runtime("connecting to the stock"))?;
            let _ = keeper.stock.set(stock);
        }
        let mut to = std::io::stdout();
        to.write_all(&[READY]).and_then(|()| to.flush()).map_err(DemoError::Output)?;
        upbeat::ctrl_c().await.map_err(DemoError::runtime("waiting for the end"))
    })?;
    node.shut_down(Duration::from_millis(100));
    Ok(())
}

/// Asks the system to kill this process when its parent ends.
fn end_with(parent: u32) -> Result<(), DemoError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(DemoError::runtime("prctl"))?;
    let now = rustix::process::getppid().map(|pid| pid.as_raw_pid().unsigned_abs());
    if now == Some(parent) { Ok(()) } else { Err(DemoError::Interrupted) }
}
