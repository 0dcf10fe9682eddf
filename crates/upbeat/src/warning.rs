//! What the application should know and no call tells: a line on standard error.
//!
//! Invariant: whoever warns does so once for each thing that is wrong, so that nothing is written in a
//! loop.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A service, and a method of it.
type Method = (&'static str, &'static str);

/// The methods of which this process was warned, on whatever node.
static TOLD: Mutex<Vec<Method>> = Mutex::new(Vec::new());

/// Warns in one line.
#[cold]
pub(crate) fn warn(text: Arguments<'_>) {
    // Where nobody hears it, nothing is lost that the counters do not tell.
    let _ = writeln!(io::stderr().lock(), "upbeat: {text}");
}

/// There is room to note so many methods more, so that to warn of one takes no memory.
pub(crate) fn may_warn_of(methods: usize) {
    told().reserve(methods);
}

/// Warns of a method, unless the process was warned of it.
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
