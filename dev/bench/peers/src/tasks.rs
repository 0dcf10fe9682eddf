//! The runtime of the peers that run on tokio: one thread for each side, which is
//! the fastest choice where a process has one CPU.

use crate::case::{Fault, Op, Serve, fault};
use std::fmt::Display;
use std::future::Future;
use tokio::runtime::{Builder, Runtime};
use upbeat_cli::bench::timing::{Round, Work};

/// Returns a runtime on the calling thread.
pub(crate) fn runtime() -> Result<Runtime, Fault> {
    Builder::new_current_thread().enable_all().build().map_err(fault("starting tokio"))
}

/// Does the calls of a round one after another.
pub(crate) async fn each(
    work: Work,
    mut call: impl AsyncFnMut() -> Result<(), Fault>,
) -> Result<Round, Fault> {
    let mut laps = work.laps();
    for calls in laps.by_ref() {
        for _ in 0..calls {
            call().await?;
        }
    }
    Ok(laps.round())
}

/// Does the bursts of a round one after another.
pub(crate) async fn bursts(
    work: Work,
    mut burst: impl AsyncFnMut(u32) -> Result<(), Fault>,
) -> Result<Round, Fault> {
    let mut laps = work.laps();
    for messages in laps.by_ref() {
        burst(messages).await?;
    }
    Ok(laps.round())
}

/// A server on a thread of its own, where it sleeps between rounds.
pub(crate) struct OnThread;

impl OnThread {
    /// Starts the server. It must serve as long as the process lives; if the server ends, so does the process.
    pub(crate) fn start<F, E>(
        peer: &'static str,
        serve: impl FnOnce() -> F + Send + 'static,
    ) -> Result<OnThread, Fault>
    where
        F: Future<Output = Result<(), E>>,
        E: Display,
    {
        let run = move || {
            let ended = runtime().and_then(|runtime| {
                let local = tokio::task::LocalSet::new();
                // Sockets that are made in here find their runtime.
                local.block_on(&runtime, async { serve().await.map_err(fault("serving")) })
            });
            let why = ended.map_or_else(|error| error.to_string(), |()| "it ended".to_owned());
            eprintln!("upbeat: the server of {peer}: {why}");
            std::process::exit(1);
        };
        std::thread::Builder::new().name(peer.to_owned()).spawn(run).map_err(fault("a thread"))?;
        Ok(OnThread)
    }
}

impl Serve for OnThread {
    fn round(&mut self, _: Op, _: Work) -> Result<(), Fault> {
        Ok(())
    }
}
