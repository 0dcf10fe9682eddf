//! What a command of this tool is: a name, two texts for `--help`, and a function.

/// One command. It is a constant of the file that implements it.
pub(crate) struct Command {
    /// The word on the command line.
    pub(crate) name: &'static str,
    /// One sentence for the list of commands.
    pub(crate) about: &'static str,
    /// Everything else that `cargo xtask <name> --help` prints; ends with a newline.
    pub(crate) usage: &'static str,
    /// Does the work. Gets the arguments after the name; an `Err` is a wrong use or a broken
    /// machine, not a check that found something.
    pub(crate) run: fn(&[String]) -> Result<Outcome, String>,
}

/// How a command that could do its work ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing to complain about.
    Passed,
    /// The command has printed what is wrong.
    Failed,
}
