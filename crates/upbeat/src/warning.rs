//! What the application should know and no call tells: a line on standard error.
//!
//! Invariant: whoever warns does so once for each thing that is wrong, so that nothing is written in a
//! loop.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Warns in one line.
#[cold]
pub(crate) fn warn(text: Arguments<'_>) {
    // Where nobody hears it, nothing is lost that the counters do not tell.
    let _ = writeln!(io::stderr().lock(), "upbeat: {text}");
}
