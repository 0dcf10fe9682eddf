//! A command of this tool: a name, two texts for `--help`, and a function.

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
