//! `upbeat completions` prints a script with which a shell completes the words of the command.

use crate::exit::{self, Failure};
use clap::{Args, Command};
use clap_complete::Shell;
use std::fmt;
use std::io;

const EXAMPLES: &str = "\
Examples:
  upbeat completions bash > ~/.local/share/bash-completion/completions/upbeat
  upbeat completions zsh > ~/.zfunc/_upbeat          with `fpath+=~/.zfunc` before `compinit`
  upbeat completions fish > ~/.config/fish/completions/upbeat.fish";

/// The arguments of `upbeat completions`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The shell that reads the script
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// The script cannot be written.
#[derive(Debug)]
pub(crate) struct CompletionsError(io::Error);

impl fmt::Display for CompletionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the completions cannot be written: {}", self.0)
    }
}

impl std::error::Error for CompletionsError {}

impl Failure for CompletionsError {
    fn code(&self) -> u8 {
        exit::of_output(&self.0)
    }
}

/// Runs `upbeat completions` for `command`.
pub(crate) fn run(arguments: &Arguments, command: Command) -> Result<(), CompletionsError> {
    exit::print(&script(arguments.shell, command)).map_err(CompletionsError)
}

/// Returns the script that completes the visible subcommands of `command`.
fn script(shell: Shell, command: Command) -> String {
    let visible = command.get_subcommands().filter(|one| !one.is_hide_set()).cloned();
    let mut shown = Command::new("upbeat").version(env!("CARGO_PKG_VERSION")).subcommands(visible);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown, "upbeat", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
