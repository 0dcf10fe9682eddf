//! Calls through a handle, from a thread that has no node.

use crate::bench::echo::EchoHandle;
use crate::bench::error::BenchError;
use crate::bench::hosts::{self, Policy, refused};
use crate::bench::timing::{Round, Work};
use std::path::{Path, PathBuf};
use upbeat::CallError;

/// How the thread waits for its replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// The thread blocks in the call.
    Blocking,
    /// A task of the thread's tokio runtime awaits the call.
    InTokio,
}

/// A handle to a polling node of the second process.
pub(super) struct HandleCalls {
    scratch: PathBuf,
    peer: String,
    waits: Waits,
    handle: Option<EchoHandle>,
}

impl HandleCalls {
    /// Creates the calls. The handle connects in the first round.
    pub(super) fn new(scratch: &Path, peer: String, waits: Waits) -> HandleCalls {
        HandleCalls { scratch: scratch.to_owned(), peer, waits, handle: None }
    }

    /// Does a round of calls, one after another, on a separate thread.
    pub(super) fn round(&mut self, work: Work) -> Result<Round, BenchError> {
        let handle = match self.handle.take() {
            Some(handle) => handle,
            None => hosts::handle(&self.peer, &self.scratch, Policy::Polling)?,
        };
        let (waits, handle) = (self.waits, self.handle.insert(handle));
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || match waits {
                Waits::Blocking => block(handle, work),
                Waits::InTokio => in_tokio(handle, work),
            });
            thread.join().map_err(|_| BenchError::protocol("the thread that calls panicked"))?
        })
    }
}

fn block(handle: &EchoHandle, work: Work) -> Result<Round, BenchError> {
    let blocking = handle.blocking();
    let round = work.try_run(|| blocking.null()).map_err(refused("a call"))?;
    blocking.rest().map_err(refused("a call"))?;
    Ok(round)
}

fn in_tokio(handle: &EchoHandle, work: Work) -> Result<Round, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| BenchError::protocol(format!("tokio: {error}")))?;
    let handle = handle.clone();
    let task = runtime.spawn(async move {
        let mut laps = work.laps();
        for calls in laps.by_ref() {
            for _ in 0..calls {
                handle.null().await?;
            }
        }
        handle.rest().await?;
        Ok::<Round, CallError>(laps.round())
    });
    let ended = runtime.block_on(task);
    let ended = ended.map_err(|_| BenchError::protocol("the task that calls panicked"))?;
    ended.map_err(refused("a call"))
}
