//! How the run of a program has ended.

use std::any::Any;
use std::fmt;
use std::time::Duration;

/// The result of a run.
#[derive(Debug)]
pub struct Outcome<R> {
    /// The end of the program.
    pub ended: Result<R, Ended>,
    /// The simulated time that has passed.
    pub passed: Duration,
    /// A digest of the run: two runs of a seed have the same one, if the program follows from its seed.
    pub history: u64,
    /// How often a turn has ended: a thread has waited or ended, or [`Sim::interleave`](crate::Sim::interleave) has cut it.
    pub steps: u64,
}

/// The time, the order and the steps of a run.
#[derive(Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) passed: Duration,
    pub(crate) history: u64,
    pub(crate) steps: u64,
}

/// The cause for which a program has not ended by itself.
#[derive(Debug)]
pub enum Ended {
    /// A thread has panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
    /// All threads wait, and nothing can happen any more: the text says what each one waits for. Or a thread looks at the
    /// clock again and again, and never waits, or a thread outside of the world has woken one.
    Stuck(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ended::Stuck(text) => text,
            Ended::Panicked(payload) => {
                let text = payload.downcast_ref::<&str>().copied();
                text.or_else(|| payload.downcast_ref().map(String::as_str)).unwrap_or("a panic")
            }
        })
    }
}
