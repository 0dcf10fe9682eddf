//! Warnings that no call can report: lines on standard error.
//!
//! Invariant: each problem is reported once, so that nothing is written in a
//! loop.

use std::collections::BTreeSet;
use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use upbeat_core::address::NodeAddress;
use upbeat_core::bind::Clash;
use upbeat_environment::turns::{Mutex, MutexGuard};

/// A service, and a method of it.
type Method = (&'static str, &'static str);

/// The most services of peers about whose methods a process warns.
const CLASHING_PEERS_MAX: usize = 256;

/// The most methods that a warning names.
const CLASHES_NAMED_MAX: usize = 8;

/// The problem of a method about which a process warns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// A message or a value was not taken as its sender meant it.
    Dropped,
    /// The thread was kept for a time of this order of magnitude.
    LongPoll(u32),
    /// The thread slept for a time of this order of magnitude.
    Blocks(u32),
}

impl Problem {
    /// Returns whether somebody who knows of this problem has nothing to learn from the other.
    fn includes(self, other: Problem) -> bool {
        match (self, other) {
            (Problem::LongPoll(known), Problem::LongPoll(order))
            | (Problem::Blocks(known), Problem::Blocks(order)) => known >= order,
            (known, other) => known == other,
        }
    }
}

/// The methods about which this process has warned, on any node, with their problems.
static TOLD: Mutex<Vec<(Method, Problem)>> = Mutex::new(Vec::new());

/// Warns in one line.
#[cold]
pub(crate) fn warn(text: Arguments<'_>) {
    // If nobody reads standard error, the counters still have everything.
    let _ = writeln!(io::stderr().lock(), "upbeat: {text}");
}

/// Reserves room to note so many more methods, so that a later warning allocates no memory.
pub(crate) fn may_warn_of(methods: usize) {
    told().reserve(methods);
}

/// Warns about a problem of a method, unless the process has warned about it before.
#[cold]
pub(crate) fn warn_of(method: Method, problem: Problem, text: Arguments<'_>) {
    let mut told = told();
    if !told.iter().any(|(one, known)| *one == method && known.includes(problem)) {
        told.push((method, problem));
        drop(told);
        warn(text);
    }
}

/// Warns of methods that a peer has with other signatures, once for each service and address by which the program
/// connects.
#[cold]
pub(crate) fn methods_clash(clashes: &[Clash], to: &NodeAddress, peer: &str) {
    static TOLD: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());
    let Some(service) = clashes.first().map(Clash::service) else { return };
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    // References of other programs may name any number of addresses.
    if told.len() >= CLASHING_PEERS_MAX || !told.insert((service.to_owned(), to.to_string())) {
        return;
    }
    drop(told);
    let mut methods: Vec<_> = clashes.iter().map(|clash| format!("`{}`", clash.method())).collect();
    if let Some(more @ 1..) = methods.len().checked_sub(CLASHES_NAMED_MAX) {
        methods.truncate(CLASHES_NAMED_MAX);
        methods.push(format!("{more} more"));
    }
    warn(format_args!(
        "{peer} has methods of service `{service}` with other signatures than this program: {}. Calls of these methods \
         fail with an error that shows both signatures, and all others work. Build both sides from the same trait, or \
         give the new form a new name",
        methods.join(", ")
    ));
}

/// Warns that memory cannot be shared, once for the process.
#[cold]
pub(crate) fn memory_is_refused(why: &str) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        warn(format_args!(
            "memory cannot be shared with other processes: {why}; sessions with them go over byte streams, \
             which are slower. Allow memfd_create and mmap, or ask for byte streams \
             (`shared_memory(false)` or UPBEAT_SHARED_MEMORY=0) to have this said no more"
        ));
    }
}

fn told() -> MutexGuard<'static, Vec<(Method, Problem)>> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}
