//! Parts of a recording that are no times of messages: calls that ended without a result, futures that kept their
//! thread, and what is included of the time before.

use super::text::clean;
use serde::{Deserialize, Serialize};

/// The part of a recording that is older than the time of collecting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Before {
    /// Whether older samples, and counters since the nodes began, are included.
    pub(crate) included: bool,
    /// The older samples: how many the recording includes, or how many it leaves out.
    pub(crate) samples: u64,
    /// The age of the oldest included sample at the end, in seconds.
    pub(crate) oldest_s: f64,
}

/// Sampled calls of a method that ended in one way without a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) service: String,
    pub(crate) method: String,
    /// The way in which they ended: `given-up`, `failed` or `lost`.
    pub(crate) how: String,
    pub(crate) calls: u64,
    /// The median of the nanoseconds after which they ended.
    pub(crate) p50: f64,
    pub(crate) max: f64,
}

/// A method, or the tasks of a node, that kept the thread of the node from everything else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptThread {
    pub(crate) node: String,
    /// The service; empty for a task of the application or the main future.
    pub(crate) service: String,
    pub(crate) method: String,
    /// How often since the node began, and how often of these the thread slept.
    pub(crate) count: u64,
    pub(crate) blocked: u64,
    /// The longest time in nanoseconds since the node began, and the budget.
    pub(crate) longest: f64,
    pub(crate) budget: f64,
}

impl Ended {
    pub(super) fn clean(&mut self) {
        let Ended { from, to, service, method, how, .. } = self;
        [from, to, service, method, how].into_iter().for_each(clean);
    }
}

impl KeptThread {
    /// Returns the words for what kept the thread.
    pub(crate) fn title(&self) -> String {
        match self.service.as_str() {
            "" if self.method == "task" => "A task of the application".into(),
            "" => format!("The {}", self.method),
            service => format!("The handler of {service}.{}", self.method),
        }
    }

    pub(super) fn clean(&mut self) {
        [&mut self.node, &mut self.service, &mut self.method].into_iter().for_each(clean);
    }
}
