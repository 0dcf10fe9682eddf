//! Warnings that no call can report: lines on standard error.
//!
//! Invariant: each problem is reported once, so that nothing is written in a
//! loop.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A service, and a method of it.
type Method = (&'static str, &'static str);

/// The methods about which this process has warned, on any node.
static TOLD: Mutex<Vec<Method>> = Mutex::new(Vec::new());

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

/// Warns about a method, unless the process has warned about it before.
#[cold]
pub(crate) fn warn_of(method: Method, text: Arguments<'_>) {
    let mut told = told();
    if !told.contains(&method) {
        told.push(method);
        drop(told);
        warn(text);
    }
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

fn told() -> MutexGuard<'static, Vec<Method>> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}
