//! How long worlds are run, from which seed, and on how many threads.

use clap::Args;
use std::num::NonZero;
use std::time::{SystemTime, UNIX_EPOCH};

/// For how long to run worlds.
#[derive(Args)]
pub(crate) struct Length {
    /// Run worlds for this many seconds
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u64,
    /// Run this many worlds instead
    #[arg(long, conflicts_with = "seconds")]
    pub(crate) worlds: Option<u64>,
    /// The first seed; each world has another. The default is the time of day
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// The number of threads that run worlds
    #[arg(long)]
    pub(crate) threads: Option<usize>,
}

/// Returns a seed that differs from run to run.
pub(crate) fn seed_of_day() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

/// Turns off the printing of panics, which are reported as violations.
pub(crate) fn silence() {
    std::panic::set_hook(Box::new(|_| {}));
}

/// Runs the work on so many threads, or on one for each processor.
pub(crate) fn on_threads(threads: Option<usize>, work: impl Fn() + Sync) {
    let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads.unwrap_or_else(processors) {
            scope.spawn(&work);
        }
    });
}
