//! The `upbeat` command. `demo` runs a program of three nodes; `bench` measures the costs of this machine
//! and what Upbeat adds to them; `bill` shows where a running program spends its time; `read` prints what its
//! nodes export; `keys` makes the certificates by which nodes of several hosts know each other; `completions`
//! prints a script for a shell.
//!
//! Each subcommand is a module with its arguments and a `run` function; this file only chooses one. The
//! command is a library so that `dev/bench` can use the measuring code of `bench`. Public items are those
//! that `dev/bench` needs; they are no stable interface.

#![forbid(unsafe_code)]

mod exit;
mod keys;
pub mod bench;
mod demo;
mod bill;
mod read;
mod completions;

use clap::{CommandFactory, Parser, Subcommand};
use exit::Failure;
use std::process::ExitCode;

const HELP: &str = "\
Exit codes:
    0  the command did what it was told to do
    1  the command failed; the reason is on standard error
    2  the command line is wrong, and nothing was done
  130  the user interrupted the command with ctrl-c

Examples:
  upbeat demo                    three nodes in three processes, their calls and the costs
  upbeat bench --quick           the costs of this machine and of Upbeat, in half a minute
  upbeat bill                    where the calls of all running programs spend their time
  upbeat read shop prices        what the node `prices` of the program `shop` exports
  upbeat keys init               an authority, for a program on several hosts
  upbeat completions bash        a script that completes these commands";

/// Show Upbeat at work, measure it, find what delays a program, read what it exports, and make the keys of nodes.
#[derive(Debug, Parser)]
#[command(name = "upbeat", version, about, max_term_width = 100, after_help = HELP)]
struct Upbeat {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands of `upbeat`.
#[derive(Debug, Subcommand)]
enum Command {
    /// Start a small program of three nodes, and show its calls and what each costs.
    Demo(demo::Arguments),
    /// Measure the costs of this machine, and the costs of calls and messages above them.
    Bench(bench::Arguments),
    /// Show where the time of a running program's calls and messages went.
    Bill(bill::Arguments),
    /// Print what the nodes of a running program export: their values and types.
    Read(read::Arguments),
    /// Make the certificates by which the nodes of a program on several hosts know each other.
    Keys(keys::Arguments),
    /// Print a script with which a shell completes the words of this command.
    Completions(completions::Arguments),
    /// The second process of `bench`, which `bench` starts itself.
    #[command(hide = true)]
    BenchPeer(bench::pair::PeerArguments),
    /// The processes of `demo`, which it starts itself.
    #[command(hide = true)]
    DemoNode(demo::NodeArguments),
}

/// Runs the command with the arguments of this process, and returns its exit code.
pub fn main() -> ExitCode {
    let done = match Upbeat::parse().command {
        Command::Demo(arguments) => ended(demo::run(&arguments)),
        Command::Bench(arguments) => ended(bench::run(&arguments)),
        Command::Bill(arguments) => ended(bill::run(&arguments)),
        Command::Read(arguments) => ended(read::run(&arguments)),
        Command::Keys(arguments) => ended(keys::run(&arguments)),
        Command::Completions(arguments) => ended(completions::run(&arguments, Upbeat::command())),
        Command::DemoNode(arguments) => ended(demo::run_node(&arguments))
            .map_err(|(code, error)| (code, format!("node `{}`: {error}", arguments.node()))),
        Command::BenchPeer(arguments) => ended(bench::run_peer(&arguments))
            .map_err(|(code, error)| (code, format!("the second process: {error}"))),
    };
    match done {
        Ok(()) | Err((exit::DONE, _)) => ExitCode::SUCCESS,
        Err((code, error)) => {
            exit::report(error);
            ExitCode::from(code)
        }
    }
}

/// Returns the exit code and the text of the error, if a subcommand failed.
fn ended(done: Result<(), impl Failure>) -> Result<(), (u8, String)> {
    done.map_err(|error| (error.code(), error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::Upbeat;
    use clap::{Command, CommandFactory, Parser};

    /// Returns the words of an example without its explanation and without a redirection.
    fn words(example: &str) -> Vec<String> {
        let command = example.trim().split("  ").next().unwrap_or_default();
        let command = command.split(" > ").next().unwrap_or_default();
        command.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect()
    }

    fn check(mut command: Command) {
        let help = command.render_long_help().to_string();
        let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{help}"));
        let examples: Vec<&str> = examples.lines().take_while(|line| !line.is_empty()).collect();
        assert!(!examples.is_empty(), "{help}");
        for example in examples {
            Upbeat::try_parse_from(words(example))
                .unwrap_or_else(|error| panic!("{example}: {error}"));
        }
        command.get_subcommands().filter(|one| !one.is_hide_set()).cloned().for_each(check);
    }

    #[test]
    fn the_help_of_each_command_has_examples_that_the_command_accepts() {
        let mut command = Upbeat::command().disable_help_subcommand(true);
        command.build();
        check(command);
    }
}
