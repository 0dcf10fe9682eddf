//! The processes of the demo's other nodes, from both ends.
//!
//! The first process starts its own program again for each node and waits until that says that it
//! can be called. Whichever way the first process ends, the others end too: they are asked to,
//! killed if they do not, and killed by the system should the first process be killed.

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
/// The program that all nodes of the demo belong to.
const PROGRAM: &str = "upbeat-demo";
/// How long a node may take until it can be called.
const START: Duration = Duration::from_secs(5);
/// How long a node may take to end when it is asked to.
const END: Duration = Duration::from_secs(1);
/// What a node's process says when its node can be called.
const READY: u8 = b'!';

/// Makes a node of the demo.
pub(crate) fn node(name: &str, directory: &Path) -> Result<Node, DemoError> {
    let builder = Node::builder(name).program(PROGRAM).directory(directory);
    builder.build().map_err(DemoError::runtime("making a node"))
}

/// Another node's process.
pub(crate) struct Process {
    node: &'static str,
    child: Child,
}

impl Process {
    /// Starts a node's process, kept on a CPU if one is given, and waits until it can be called.
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
        // In a group of its own: ctrl-c at the terminal is for the first process to deal with.
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

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // It is a child that was not waited for, so the number is still its own.
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

/// What the process of a node is told.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The node: `shop` or `stock`.
    pub(super) node: String,
    /// Where the sockets are.
    #[arg(long)]
    directory: PathBuf,
    /// The first process.
    #[arg(long)]
    parent: u32,
    /// The CPU to run on.
    #[arg(long)]
    cpu: Option<usize>,
}

/// The process of a node.
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

/// Has the system kill this process when its parent dies.
fn end_with(parent: u32) -> Result<(), DemoError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(DemoError::runtime("prctl"))?;
    let now = rustix::process::getppid().map(|pid| pid.as_raw_pid().unsigned_abs());
    if now == Some(parent) { Ok(()) } else { Err(DemoError::Interrupted) }
}
