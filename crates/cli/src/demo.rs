//! `upbeat demo` runs three nodes in three processes of this host, and shows their calls and the costs.
//!
//! The first process is the node `desk`; it starts the processes of `shop` and `stock`. All nodes wait as
//! nodes do by default. The null call is compared with the floor: `desk` and `shop` run on the two CPUs
//! between which the floor is measured, and the two measurements alternate.

mod error;
mod services;
mod process;
mod stop;
mod calls;
mod report;

use crate::bench::yardstick::{self, Yardstick};
use calls::{Calls, Clients, Desk};
use clap::Args;
use error::DemoError;
use process::Process;
use report::{Compared, Report};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

/// The time for which measurements of the null call and the floor alternate.
const COMPARISON: Duration = Duration::from_millis(1_200);

const EXAMPLES: &str = "\
Examples:
  upbeat demo           a table of the calls, and the null call beside its floor
  upbeat demo --json    one JSON object per line, for a program";

/// The arguments of `upbeat demo`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    json: bool,
}

/// The arguments of the process of another node.
#[derive(Debug, Args)]
pub(crate) struct NodeArguments {
    #[command(flatten)]
    process: process::Arguments,
}

impl NodeArguments {
    /// Returns the name of the node.
    pub(crate) fn node(&self) -> &str {
        &self.process.node
    }
}

/// Runs `upbeat demo`.
pub(crate) fn run(arguments: &Arguments) -> Result<(), DemoError> {
    // The directory is created first, so that it is dropped last.
    let scratch = Scratch::make()?;
    let desk = Desk::new(process::node("desk", &scratch.path)?);
    let cpus = yardstick::cpus();
    let stock = Process::start("stock", &scratch.path, None)?;
    let shop_cpu = cpus.as_ref().ok().map(|cpus| cpus.server);
    let shop = Process::start("shop", &scratch.path, shop_cpu)?;
    let clients = desk.connect()?;
    let (null, line) = match cpus {
        Ok(cpus) => {
            let mut yardstick = Yardstick::between(cpus)?;
            let compared = compared(&desk, &clients, &mut yardstick);
            yardstick.end()?;
            let (null, line) = compared?;
            (null, Ok(line))
        }
        Err(error) => (desk.null_calls(&clients)?, Err(error.to_string())),
    };
    let mut calls = vec![null];
    calls.extend(desk.all_others(&clients)?);
    let us = std::process::id();
    let nodes = vec![("desk", us), ("shop", shop.pid()), ("stock", stock.pid())];
    drop((shop, stock));
    Report { nodes, calls, line }.print(arguments.json).map_err(DemoError::Output)
}

/// Runs `upbeat demo-node`.
pub(crate) fn run_node(arguments: &NodeArguments) -> Result<(), DemoError> {
    process::run(&arguments.process)
}

/// Measures null calls and the floor alternately.
fn compared(
    desk: &Desk,
    clients: &Clients,
    yardstick: &mut Yardstick,
) -> Result<(Calls, Compared), DemoError> {
    let before = desk.shop_promoted(clients)?;
    let mut count = 0;
    let rows = yardstick.measure("nothing()", COMPARISON, |work| {
        count += work.total();
        desk.null_round(clients, work)
    });
    if desk.is_stopped() {
        return Err(DemoError::Interrupted);
    }
    let rows = rows?;
    let nothing = || DemoError::Outcome { call: "nothing()", text: "none was measured".into() };
    let row = rows.first().ok_or_else(nothing)?;
    let calls = Calls {
        from: "desk",
        to: "shop",
        call: "nothing()",
        count,
        p50_ns: row.p50_ns,
        p99_ns: row.p99_ns,
        promoted: desk.shop_promoted(clients)? - before,
        ended: "Ok".into(),
    };
    Ok((calls, Compared::of(row).ok_or_else(nothing)?))
}

/// A directory for the sockets, which is removed at the end.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn make() -> Result<Scratch, DemoError> {
        let mut count = 0;
        loop {
            let name = format!("upbeat-demo-{}-{count}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Scratch { path }),
                // A killed process has left its directory behind.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && count < 100 => count += 1,
                Err(error) => return Err(DemoError::Scratch { path, error }),
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that cannot be removed remains among the system's temporary files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
