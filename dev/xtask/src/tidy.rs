//! `cargo xtask tidy`: the checks of the repository's own shape.

mod finding;
mod code;
mod manifest;
mod tree;
mod modules;
mod checks;

use std::time::Instant;

use crate::command::{Command, Outcome, print};
use crate::repository;
use checks::{CHECKS, Check};
use finding::{Finding, Weight};
use tree::Tree;

pub(crate) const COMMAND: Command = Command {
    name: "tidy",
    about: "Checks the shape of the repository: floors, lengths, unsafe code, links.",
    usage: "usage: cargo xtask tidy [--list]\n\n  \
            --list    say what is checked and check nothing\n\n\
            Prints what is wrong as path:line, and ends with 1 if anything is. What is only\n\
            long is listed as a note and fails nothing.\n",
    run,
};

fn run(arguments: &[String]) -> Result<Outcome, String> {
    match arguments {
        [] => {}
        [list] if list == "--list" => {
            for check in CHECKS {
                print(&format!("{:<14} {}\n", check.name, check.about))?;
            }
            return Ok(Outcome::Passed);
        }
        [unknown, ..] => {
            return Err(format!("tidy does not know `{unknown}`; see `cargo xtask tidy --help`"));
        }
    }
    let start = Instant::now();
    let root = repository::root();
    let tree = Tree::read(&root, repository::files(&root)?)?;
    let mut errors = 0;
    let mut notes = 0;
    for check in CHECKS {
        for finding in (check.run)(&tree) {
            match finding.weight {
                Weight::Error => errors += 1,
                Weight::Note => notes += 1,
            }
            print(&line(check, &finding))?;
        }
    }
    print(&format!(
        "tidy: {} checks over {} files: {errors} wrong, {notes} worth a look ({:.1} s)\n",
        CHECKS.len(),
        tree.texts.len(),
        start.elapsed().as_secs_f64()
    ))?;
    Ok(if errors == 0 { Outcome::Passed } else { Outcome::Failed })
}

fn line(check: &Check, finding: &Finding) -> String {
    let weight = match finding.weight {
        Weight::Error => "error",
        Weight::Note => "note",
    };
    format!("{weight}[{}] {finding}\n", check.name)
}
