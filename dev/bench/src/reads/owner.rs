//! The second process: it exports the variables, serves calls, and writes one of the variables.

use super::variables::{Written, name, of_each_size, value};
use std::any::Any;
use std::path::Path;
use upbeat::{Export, Shared, yield_now};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::hosts::{Host, Policy, refused};
use upbeat_cli::bench::read::layout::{HOPS, QUIET};

/// The pairs of stores in an update of [`Written`], which make it longer than the time until the next update.
const STORES: u64 = 1000;

/// The exports, and the node that serves.
pub(super) struct Owner {
    host: Host,
    written: Export<Written>,
    /// The exports that stay as they are.
    _others: Vec<Box<dyn Any>>,
}

impl Owner {
    /// Exports the variables from a node of this name.
    pub(super) fn new(node: &str, scratch: &Path) -> Result<Owner, BenchError> {
        let host = Host::new(node, Some(scratch), Policy::Polling, None)?;
        let hops: [u64; HOPS] = std::array::from_fn(|at| QUIET.next(at) as u64);
        let mut others = vec![export(&host, "hops", hops)?];
        others.extend(of_each_size!(|SIZE| export(&host, &name(SIZE), value::<SIZE>())?));
        let written = host.node.export("written", Written::default());
        Ok(Owner { written: written.map_err(refused("an export"))?, host, _others: others })
    }

    /// Answers the first process's calls until it ends the round.
    pub(super) fn serve(&self) {
        self.host.round();
    }

    /// Does the same between updates, which take most of the time.
    pub(super) fn write(&self) {
        let mut number = self.written.whole().get().number;
        self.host.node.block_on(async {
            while !self.host.rest.has_begun() {
                self.written.whole().update(|written| {
                    for _ in 0..STORES {
                        number += 1;
                        written.number().set(number);
                        written.again().set(number);
                    }
                });
                yield_now().await;
            }
        });
    }
}

fn export<T: Shared>(host: &Host, name: &str, value: T) -> Result<Box<dyn Any>, BenchError> {
    let export = host.node.export(name, value).map_err(refused("an export"))?;
    Ok(Box::new(export))
}
