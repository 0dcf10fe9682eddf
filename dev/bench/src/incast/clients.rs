//! The two well-behaved clients: one of the receiver itself, and one of a node of another process
//! that has nothing to do with it. Each makes one call after another and times them one by one.

use super::desk::{DeskClient, NAME};
use super::outcome::Alternated;
use std::path::Path;
use std::time::{Duration, Instant};
use upbeat::{CallError, Node};
use upbeat_cli::bench::control::{Control, Done, Job};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::Ground;
use upbeat_cli::bench::hosts::{Caller, Host, Policy, node, refused};
use upbeat_cli::bench::pair::{self, Pair, Server};
use upbeat_cli::bench::pin::Cpus;
use upbeat_cli::bench::timing::Work;
use upbeat_memory::ticks::ticks;

/// The node that answers beside the crowd.
const QUIET: &str = "bench-incast/neighbour";
/// Calls that are not timed, in which both nodes wake up.
const WARM: usize = 50;

/// Both clients.
pub(super) struct Clients {
    neighbour: Pair,
    caller: Caller,
    node: Node,
    client: DeskClient,
}

impl Clients {
    /// Connects to the neighbour, and to the receiver, whose socket is in `directory`.
    pub(super) fn new(neighbour: Pair, directory: &Path) -> Result<Clients, BenchError> {
        let Done = neighbour.control().receive()?;
        let scratch = Some(neighbour.scratch());
        let caller = Caller::new("bench-incast/caller", QUIET, scratch, Policy::Adaptive)?;
        let node = node("bench-incast/client", Some(directory), Policy::Adaptive)?;
        let client = node.block_on(node.connect(NAME)).map_err(refused("connecting"))?;
        Ok(Clients { neighbour, caller, node, client })
    }

    /// Times calls of both, one client after the other.
    pub(super) fn time(&mut self, window: Duration, to: &mut Alternated) -> Result<(), BenchError> {
        let caller = &self.caller;
        let job = Job::Case(QUIET.to_owned());
        let took = self.neighbour.round(job, Work::of(1, 1), |_| {
            caller.round(async |client| timed(window, async || client.null().await).await)
        })?;
        to.add_neighbour(&took);
        let client = &self.client;
        let took = self.node.block_on(timed(window, async || client.null().await));
        to.add_client(&took.map_err(refused("a call to the receiver"))?);
        Ok(())
    }

    pub(super) fn end(self) -> Result<(), BenchError> {
        self.neighbour.end()
    }
}

/// The ticks of each call in a window of time.
async fn timed(
    window: Duration,
    call: impl AsyncFn() -> Result<(), CallError>,
) -> Result<Vec<u64>, CallError> {
    let start = Instant::now();
    let mut all = Vec::with_capacity(1 << 16);
    for n in 0_usize.. {
        if n > WARM && start.elapsed() >= window {
            break;
        }
        let began = ticks();
        call().await?;
        if n >= WARM {
            all.push(ticks().saturating_sub(began));
        }
    }
    Ok(all)
}

/// Runs the neighbour's process.
pub(super) fn serve(cpus: Cpus, scratch: &Path) -> Result<(), BenchError> {
    pair::serve(cpus, |control: &Control, _| {
        let host = Host::new(QUIET, Some(scratch), Policy::Adaptive, None)?;
        control.send(&Done)?;
        Ok(Neighbour { host })
    })
}

struct Neighbour {
    host: Host,
}

impl Server for Neighbour {
    fn round(&mut self, _: &str, _: Work, _: &mut Ground) -> Result<(), BenchError> {
        self.host.round();
        Ok(())
    }
}
