//! `cargo xtask instructions`: how many instructions a null call takes, by function.
//!
//! A program outside of the workspace is built and run under callgrind, once for each side of a
//! call and each carrier. What is collected are the turns of one node between two of its ticks:
//! neither start-up nor the clock is in the figures, and two runs give the same. Reads of another process's
//! variables are counted in the same program.

mod callgrind;
mod figures;
mod outside;
mod gate;
mod inlined;
mod categories;

use crate::command::{Command, Outcome, print};
use crate::repository;
use categories::{Recipe, Shares};
use figures::{Counted, Figures};
use gate::{Gate, Verdict};
use outside::{Billed, Lines, Program};
use std::path::Path;

pub(crate) const COMMAND: Command = Command {
    name: "instructions",
    about: "Counts the instructions of calls, messages and reads: client, server, both, by function.",
    usage: "usage: cargo xtask instructions [--json] [--all] [--check | --write-gate]\n       \
            cargo xtask instructions --categories [--json]\n\n  \
            --json          print one JSON object a line: a case with its functions\n  \
            --all           list functions of less than one instruction a call as well\n  \
            --check         fail if a case takes over 3% more than dev/xtask/instructions.gate says, a null\n                  \
                            call by turns over 0.5%, or the bill, while it samples nothing, over 1%, or a read of a\n                  \
                            number over 40 instructions\n  \
            --write-gate    write down there what was counted now\n  \
            --categories    say instead what they are for, in percent of all work, beside the figures of\n                  \
                            a paper; dev/xtask/instructions.categories is the recipe\n\n\
            Client and server take turns in one thread, one look each, in the default release\n\
            profile. Between processes (`null/shared`) each side is counted in its own. What a\n\
            node does at a tick, once in 256 turns and by the clock, is left out. `null/block_on`:\n\
            a main future makes 30 calls at a time. `oneway/8B`: a message, of 16 a turn. `nested/relay`: the node\n\
            between, whose handler makes a null call and waits for it. `read/…`: a function that\n\
            reads a number, an element of an array or a struct of three numbers of another process.\n",
    run,
};

/// The arguments of the command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    json: bool,
    all: bool,
    check: bool,
    write_gate: bool,
    categories: bool,
}

impl Wish {
    fn read(arguments: &[String]) -> Result<Wish, String> {
        let mut wish = Wish::default();
        for argument in arguments {
            let flag = match argument.as_str() {
                "--json" => &mut wish.json,
                "--all" => &mut wish.all,
                "--check" => &mut wish.check,
                "--write-gate" => &mut wish.write_gate,
                "--categories" => &mut wish.categories,
                unknown => {
                    return Err(format!(
                        "instructions does not know `{unknown}`; see `cargo xtask instructions \
                         --help`"
                    ));
                }
            };
            *flag = true;
        }
        if wish.check && wish.write_gate {
            return Err("--check and --write-gate exclude each other".into());
        }
        if wish.categories && (wish.all || wish.check || wish.write_gate) {
            return Err("with --categories goes --json alone".into());
        }
        Ok(wish)
    }
}

fn run(arguments: &[String]) -> Result<Outcome, String> {
    let wish = Wish::read(arguments)?;
    let root = repository::root();
    if wish.categories {
        return say_categories(&root, wish.json);
    }
    let gate = if wish.check { Some(Gate::read(&root)?) } else { None };
    outside::find_valgrind()?;
    let mut all = Vec::new();
    for (billed, name) in [(Billed::Yes, ""), (Billed::No, "/unbilled")] {
        let program = outside::build(&root, billed, Lines::No)?;
        for carrier in ["local", "shared"] {
            let client = program.count(carrier, "client")?;
            let server = program.count(carrier, "server")?;
            all.push(Figures::new(format!("null/{carrier}{name}"), &client, &server));
        }
        if billed == Billed::Yes {
            all.extend(other_forms(&program)?);
            all.extend(reads(&program)?);
        }
    }
    for figures in &all {
        if wish.json {
            print(&format!("{}\n", figures.json()))?;
        } else {
            print(&figures.table(wish.all))?;
        }
    }
    if wish.write_gate {
        Gate::of(&all).write(&root)?;
        eprintln!("instructions: {} says what was counted now", gate::PATH);
    }
    match gate {
        Some(gate) => {
            gate.covers(&all)?;
            let outcomes = [judge(&gate, &all)?, judge_bill(&all)?, judge_read(&all)?];
            let all_pass = outcomes.iter().all(|outcome| *outcome == Outcome::Passed);
            Ok(if all_pass { Outcome::Passed } else { Outcome::Failed })
        }
        None => Ok(Outcome::Passed),
    }
}

/// Counts calls in other forms than one of a task, by turns, to a server.
fn other_forms(program: &Program) -> Result<[Figures; 3], String> {
    // A main future has the server turn while the future is polled; those instructions are subtracted.
    let (calls, idle) = (program.count("block_on", "client")?, program.count("block_on", "idle")?);
    let server = program.count("shared", "server")?;
    let block_on = Figures::new("null/block_on".into(), &calls.less(&idle), &server);
    let (client, server) = (program.count("oneway", "client")?, program.count("oneway", "server")?);
    let oneway = Figures::new("oneway/8B".into(), &client, &server);
    // The relay is a server first and a client next.
    let relay = program.count("nested", "relay")?;
    let nested = Figures::new("nested/relay".into(), &Counted::nothing(), &relay);
    Ok([block_on, oneway, nested])
}

/// The case of a read of 8 bytes.
const READ: &str = "read/number";

/// Counts reads of parts of another process's variable, of which the owner knows nothing.
fn reads(program: &Program) -> Result<[Figures; 3], String> {
    let read = |case: &str, part| {
        let reader = program.count("read", part)?;
        Ok::<_, String>(Figures::new(case.into(), &reader, &Counted::nothing()))
    };
    Ok([read(READ, "number")?, read("read/element", "element")?, read("read/struct", "struct")?])
}

/// Prints the share of each category in the instructions.
fn say_categories(root: &Path, json: bool) -> Result<Outcome, String> {
    let recipe = Recipe::read(root)?;
    outside::find_valgrind()?;
    let plain = outside::build(root, Billed::Yes, Lines::No)?;
    let lined = outside::build(root, Billed::Yes, Lines::Yes)?;
    let mut all = Vec::new();
    for carrier in ["local", "shared"] {
        let mut shares = Shares::new(format!("null/{carrier}"), &recipe);
        for side in ["client", "server"] {
            let (counted, usual) = (lined.count(carrier, side)?, plain.count(carrier, side)?);
            if counted.profile.total != usual.profile.total {
                return Err(format!(
                    "with lines the {side} of null/{carrier} takes {} instructions and without {}: \
                     it is not the same program",
                    counted.profile.total, usual.profile.total
                ));
            }
            let addresses = counted.profile.addresses.keys().copied();
            let frames = inlined::frames(&lined.binary, &[&lined.directory, root], addresses)?;
            shares.add(&recipe, &counted, &frames);
        }
        all.push(shares);
    }
    let text = if json { categories::json } else { categories::table };
    print(&text(&recipe, &all))?;
    Ok(Outcome::Passed)
}

/// The most that a call may take for the bill while nothing is sampled, in parts of what it takes
/// without.
const BILL_MAX: f64 = 0.01;

/// Compares each case with the same case without the bill.
fn judge_bill(all: &[Figures]) -> Result<Outcome, String> {
    let (mut outcome, mut compared) = (Outcome::Passed, 0);
    for with in all {
        let unbilled = format!("{}/unbilled", with.case);
        let Some(without) = all.iter().find(|figures| figures.case == unbilled) else { continue };
        compared += 1;
        let more = with.all.both() / without.all.both() - 1.0;
        let percent = 100.0 * more;
        eprintln!("instructions: {} takes {percent:+.2}% for the bill", with.case);
        if more > BILL_MAX {
            eprintln!("instructions: at most {}% are allowed", 100.0 * BILL_MAX);
            outcome = Outcome::Failed;
        }
    }
    if compared == 0 {
        Err("no case was counted with the bill and without".into())
    } else {
        Ok(outcome)
    }
}

/// The most instructions that a read of 8 bytes in shared memory may take.
const READ_MAX: f64 = 40.0;

/// Compares the read of a number with the most that it may take.
fn judge_read(all: &[Figures]) -> Result<Outcome, String> {
    let Some(read) = all.iter().find(|figures| figures.case == READ) else {
        return Err(format!("{READ} was not counted"));
    };
    let taken = read.all.both();
    if taken > READ_MAX {
        eprintln!("instructions: {READ} takes {taken:.1}, and at most {READ_MAX} are allowed");
        return Ok(Outcome::Failed);
    }
    Ok(Outcome::Passed)
}

/// Prints the gate's findings on stderr, so that the output for programs holds figures alone.
fn judge(gate: &Gate, all: &[Figures]) -> Result<Outcome, String> {
    let mut outcome = Outcome::Passed;
    for figures in all {
        let verdict = gate.judge(figures)?;
        eprintln!("instructions: {verdict}");
        if !matches!(verdict, Verdict::Within { .. }) {
            outcome = Outcome::Failed;
        }
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Wish, String> {
        Wish::read(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn flags_come_in_any_order() {
        let wish = Wish { json: true, check: true, ..Wish::default() };
        assert_eq!(read("--check --json"), Ok(wish));
        assert_eq!(read(""), Ok(Wish::default()));
    }

    #[test]
    fn a_read_that_takes_too_much_is_refused() {
        let read = |client| Figures::of_sides(READ, figures::Sides { client, server: 0.0 });
        assert_eq!(judge_read(&[read(READ_MAX)]), Ok(Outcome::Passed));
        assert_eq!(judge_read(&[read(READ_MAX + 1.0)]), Ok(Outcome::Failed));
        assert!(judge_read(&[]).unwrap_err().contains(READ));
    }

    #[test]
    fn a_bill_that_takes_too_much_or_was_not_counted_is_refused() {
        let of = |case, client| Figures::of_sides(case, figures::Sides { client, server: 0.0 });
        let both = |with| [of("null/local", with), of("null/local/unbilled", 100.0)];
        assert_eq!(judge_bill(&both(100.5)), Ok(Outcome::Passed));
        assert_eq!(judge_bill(&both(101.5)), Ok(Outcome::Failed));
        assert!(judge_bill(&both(100.5)[..1]).is_err());
    }

    #[test]
    fn a_case_outside_of_the_tolerance_is_refused_on_both_sides() {
        let of = |client| [Figures::of_sides("null/local", figures::Sides { client, server: 0.0 })];
        let gate = Gate::of(&of(100.0));
        for (now, outcome) in [
            (100.4, Outcome::Passed),
            (99.6, Outcome::Passed),
            (100.6, Outcome::Failed),
            (99.4, Outcome::Failed),
        ] {
            assert_eq!(judge(&gate, &of(now)), Ok(outcome), "{now}");
        }
    }

    #[test]
    fn wrong_flags_are_refused() {
        assert!(read("--jsno").unwrap_err().contains("`--jsno`"));
        assert!(read("--check --write-gate").is_err());
        assert!(read("--categories --check").is_err());
        assert!(read("--categories --json").is_ok_and(|wish| wish.categories && wish.json));
    }
}
