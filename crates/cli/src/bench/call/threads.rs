//! Calls from a thread that has no node, through a blocking handle.

use crate::bench::echo::EchoHandle;
use crate::bench::error::BenchError;
use crate::bench::hosts::{self, Policy, host_name, refused};
use crate::bench::timing::{Round, Work};
use std::path::{Path, PathBuf};

/// A handle to the polling node of the second process.
pub(super) struct HandleCalls {
    scratch: PathBuf,
    handle: Option<EchoHandle>,
}

impl HandleCalls {
    /// Connects in the first round.
    pub(super) fn new(scratch: &Path) -> HandleCalls {
        HandleCalls { scratch: scratch.to_owned(), handle: None }
    }

    /// A round of calls, one after another, by a thread of its own.
    pub(super) fn round(&mut self, work: Work) -> Result<Round, BenchError> {
        let handle = match self.handle.take() {
            Some(handle) => handle,
            None => hosts::handle(&host_name(Policy::Polling), &self.scratch, Policy::Polling)?,
        };
        let handle = self.handle.insert(handle);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let blocking = handle.blocking();
                let round = work.try_run(|| blocking.null()).map_err(refused("a call"))?;
                blocking.rest().map_err(refused("a call"))?;
                Ok(round)
            });
            thread.join().map_err(|_| BenchError::protocol("the thread that calls panicked"))?
        })
    }
}
