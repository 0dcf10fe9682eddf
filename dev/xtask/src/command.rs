//! A command of this tool: a name, two texts for `--help`, and a function.

use std::io::{ErrorKind, Write};

/// One command. It is a constant of the file that implements it.
pub(crate) struct Command {
    /// The word on the command line.
    pub(crate) name: &'static str,
    /// One sentence for the list of commands.
    pub(crate) about: &'static str,
    /// Everything else that `cargo xtask <name> --help` prints; ends with a newline.
    pub(crate) usage: &'static str,
    /// Does the work. The arguments are those after the name; an `Err` is a wrong use or a broken
    /// machine, not a check that found something.
    pub(crate) run: fn(&[String]) -> Result<Outcome, String>,
}

/// How a command ended that could do its work.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The command found nothing to complain about.
    Passed,
    /// The command has printed what is wrong.
    Failed,
}

/// Prints a text. A reader that closes the pipe early, like `head`, is not an error.
pub(crate) fn print(text: &str) -> Result<(), String> {
    let mut to = std::io::stdout().lock();
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("the output cannot be written: {error}"))
        }
        _ => Ok(()),
    }
}
