//! The repository's own checks and measurements: `cargo xtask <command>`.
//!
//! Each command lives in a file of its own and shows here as one entry of [`COMMANDS`]. This file
//! only finds the command that was asked for and turns its outcome into an exit code.

#![forbid(unsafe_code)]

mod command;
mod repository;
mod instructions;
mod figures;
mod tidy;

use std::process::ExitCode;

use command::{Command, Outcome, print};

/// Every command, in the order in which `--help` lists them.
const COMMANDS: &[Command] = &[tidy::COMMAND, instructions::COMMAND, figures::COMMAND];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(COMMANDS, &arguments) {
        Ok(Outcome::Passed) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}

/// Runs the command that the first argument names with the arguments after it.
fn dispatch(commands: &[Command], arguments: &[String]) -> Result<Outcome, String> {
    let Some((name, rest)) = arguments.split_first() else {
        print(&overview(commands))?;
        return Ok(Outcome::Failed);
    };
    if asks_for_help(name) || name == "help" {
        print(&overview(commands))?;
        return Ok(Outcome::Passed);
    }
    let Some(command) = commands.iter().find(|command| command.name == name) else {
        return Err(format!(
            "there is no command `{name}`; `cargo xtask --help` lists those there are"
        ));
    };
    if rest.iter().any(|argument| asks_for_help(argument)) {
        print(&format!("{}\n\n{}", command.about, command.usage))?;
        return Ok(Outcome::Passed);
    }
    (command.run)(rest)
}

fn asks_for_help(argument: &str) -> bool {
    matches!(argument, "--help" | "-h")
}

fn overview(commands: &[Command]) -> String {
    let mut text = String::from("usage: cargo xtask <command> [--help]\n\n");
    for command in commands {
        text.push_str(&format!("  {:<14} {}\n", command.name, command.about));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHO: Command = Command {
        name: "echo",
        about: "Passes when it is told to.",
        usage: "usage: cargo xtask echo [pass]\n",
        run: |arguments| match arguments {
            [word] if word == "pass" => Ok(Outcome::Passed),
            [] => Ok(Outcome::Failed),
            _ => Err("echo takes one word".into()),
        },
    };

    fn run(line: &str) -> Result<Outcome, String> {
        let arguments: Vec<String> = line.split_whitespace().map(String::from).collect();
        dispatch(&[ECHO], &arguments)
    }

    #[test]
    fn a_command_gets_the_arguments_after_its_name() {
        assert_eq!(run("echo pass"), Ok(Outcome::Passed));
        assert_eq!(run("echo"), Ok(Outcome::Failed));
        assert_eq!(run("echo a b"), Err("echo takes one word".into()));
    }

    #[test]
    fn help_runs_nothing_and_passes() {
        assert_eq!(run("--help"), Ok(Outcome::Passed));
        assert_eq!(run("echo a b --help"), Ok(Outcome::Passed));
    }

    #[test]
    fn an_unknown_command_is_named_in_the_error() {
        assert!(run("ehco pass").unwrap_err().contains("`ehco`"));
        assert_eq!(run(""), Ok(Outcome::Failed));
    }

    #[test]
    fn the_overview_lists_every_command() {
        let text = overview(COMMANDS);
        assert!(COMMANDS.iter().all(|command| text.contains(command.name)));
    }
}
