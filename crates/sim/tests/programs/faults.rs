//! Faults that can be put into the product: each is found by one of the programs, under the seed that `faults.txt` names, or
//! by a unit test that stands there. The process that ends the world belongs to the run of a seed.

use crate::{exports, flood, library, mixed, network, quiet, reached, room, streams, terms, turns};
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use upbeat_core::mutant::{Mutant, put};
use upbeat_sim::{Sim, play};

type Program = fn(&Sim);

pub(crate) const PROGRAMS: &[(&str, Program)] = &[
    ("mixed::in_a_process", mixed::in_a_process),
    ("mixed::on_a_host", mixed::on_a_host),
    ("mixed::beyond_a_network", mixed::beyond_a_network),
    ("network::breaks", network::breaks),
    ("network::outlived", network::outlived),
    ("network::not_outlived", network::not_outlived),
    ("network::silence", network::silence),
    ("exports::reads", exports::reads),
    ("exports::lists", exports::lists),
    ("exports::asked", exports::asked),
    ("room::charged", room::charged),
    ("room::unheard", room::unheard),
    ("room::held", room::held),
    ("room::unread", room::unread),
    ("room::inherited", room::inherited),
    ("room::lengths", room::lengths),
    ("room::alone_on_a_host", room::alone_on_a_host),
    ("room::alone_beyond_a_network", room::alone_beyond_a_network),
    ("room::given_up", room::given_up),
    ("streams::on_a_host", streams::on_a_host),
    ("streams::beyond_a_network", streams::beyond_a_network),
    ("streams::of_the_dead", streams::of_the_dead),
    ("flood::on_a_host", flood::on_a_host),
    ("flood::beyond_a_network", flood::beyond_a_network),
    ("flood::broken", flood::broken),
    ("flood::by_handles", flood::by_handles),
    ("reached::crowd_of_a_host", reached::crowd_of_a_host),
    ("reached::crowd_of_another_host", reached::crowd_of_another_host),
    ("reached::anew", reached::anew),
    ("reached::since_then", reached::since_then),
    ("reached::shared_name", reached::shared_name),
    ("reached::idle_handle", reached::idle_handle),
    ("terms::extended", terms::extended),
    ("terms::left", terms::left),
    ("terms::outlived", terms::outlived),
    ("terms::orphaned", terms::orphaned),
    ("terms::sent_back", terms::sent_back),
    ("terms::limited", terms::limited),
    ("terms::closing", terms::closing),
    ("library::tolerant", library::tolerant),
    ("library::admitted", library::admitted),
    ("quiet::deadlines", quiet::deadlines),
    ("quiet::connects", quiet::connects),
    ("quiet::gives_up", quiet::gives_up),
    ("quiet::passed_on", quiet::passed_on),
    ("quiet::unsent", quiet::unsent),
    ("quiet::idle", quiet::idle),
    ("quiet::tidies", quiet::tidies),
    ("quiet::watched", quiet::watched),
    ("turns::mixed_in_a_process", turns::mixed_in_a_process),
    ("turns::mixed_on_a_host", turns::mixed_on_a_host),
];

/// The file with a line for each fault: its name, the program that finds it, a seed under which it does, and a piece of what
/// is said then. A fault that no program finds has a crate there, the unit test of that which finds it, and a piece of what the
/// test says.
const FOUND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/faults.txt");

/// Returns the lines of [`FOUND`].
fn lines() -> Vec<[String; 4]> {
    let words = |line: &str| {
        let words: Vec<_> = line.splitn(4, ' ').map(str::to_owned).collect();
        words.try_into().unwrap_or_else(|words| panic!("four words make a line: {words:?}"))
    };
    fs::read_to_string(FOUND).unwrap().lines().map(words).collect()
}

/// Returns whether a program finds the fault of a line.
fn is_of_a_program([_, finder, ..]: &[String; 4]) -> bool {
    finder.contains("::")
}

/// The longest search for a fault.
const SEARCH: Duration = Duration::from_secs(60);

/// No program takes so long without a fault.
const LONGEST: Duration = Duration::from_secs(400);

/// Returns the program of this name.
fn of(name: &str) -> Program {
    let program = PROGRAMS.iter().find(|(known, _)| *known == name);
    program.unwrap_or_else(|| panic!("there is no program {name}")).1
}

/// Runs a program under a seed with a fault. Returns how it has failed.
fn run(fault: Option<Mutant>, program: Program, seed: u64) -> Option<String> {
    put(fault);
    let outcome = play(seed, |sim| {
        sim.start("ends the world", |sim| -> Result<(), String> {
            sim.pause(LONGEST);
            Err(format!("the program goes on for {LONGEST:?}"))
        });
        program(sim);
    });
    put(None);
    outcome.ended.err().map(|ended| ended.to_string().replace('\n', " "))
}

/// Does work for each of a list, on all processors.
pub(crate) fn for_each<T: Sync>(list: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(one) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(one);
                }
            });
        }
    });
}

/// Does something while no panic is printed.
fn silently(act: impl FnOnce()) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    act();
    std::panic::set_hook(hook);
}

#[test]
fn each_fault_is_found_under_its_seed() {
    let lines = lines();
    let all = Mutant::ALL.iter().map(|(fault, _)| format!("{fault:?}"));
    assert_eq!(lines.iter().map(|line| line[0].clone()).collect::<BTreeSet<_>>(), all.collect());
    let missed = Mutex::new(Vec::new());
    let replay = |(fault, _): &(Mutant, &str)| {
        let (fault, name) = (*fault, format!("{fault:?}"));
        let found = lines.iter().find(|line| line[0] == name && is_of_a_program(line));
        let Some([_, program, seed, says]) = found else { return };
        // Every change of the product moves the ends of turns between accesses: such a fault is found by one of a few seeds.
        let tries = if program.starts_with("turns::") { 30 } else { 1 };
        let (program, seed) = (of(program), seed.parse().unwrap());
        let said = (seed..seed + tries).find_map(|seed| run(Some(fault), program, seed));
        let said = said.unwrap_or_default();
        let without = run(None, program, seed);
        if !said.contains(says.as_str()) || without.is_some() {
            missed.lock().unwrap().push(format!("{name}: `{said}`, without it {without:?}"));
        }
    };
    silently(|| for_each(Mutant::ALL, replay));
    let missed = missed.into_inner().unwrap();
    assert!(
        missed.is_empty(),
        "not found, found by chance, or its program fails without it: {missed:#?}"
    );
}

/// Looks for each fault of a program, or for those whose names contain `UPBEAT_SIM_FAULT`, with all programs under random
/// seeds, or with those whose names contain `UPBEAT_SIM_PROGRAM`. Prints the lines of `faults.txt`, with what was said as the
/// last column, and how long each search took.
#[test]
#[ignore = "takes minutes, and prints what it finds"]
fn each_fault_is_found_under_random_seeds() {
    let [only, with] =
        ["UPBEAT_SIM_FAULT", "UPBEAT_SIM_PROGRAM"].map(|name| env::var(name).unwrap_or_default());
    let programs = || PROGRAMS.iter().filter(|(name, _)| name.contains(&with));
    assert!(programs().next().is_some(), "there is no program {with}");
    let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let (lines, missed, searched) = (lines(), Mutex::new(Vec::new()), AtomicUsize::new(0));
    let search = |(fault, what): &(Mutant, &str)| {
        let (fault, name) = (*fault, format!("{fault:?}"));
        let is_wanted = || lines.iter().any(|line| line[0] == name && is_of_a_program(line));
        if !name.contains(&only) || only.is_empty() && !is_wanted() {
            return;
        }
        let began = Instant::now();
        let mut random = day ^ ((fault as u64) << 32);
        searched.fetch_add(1, Ordering::Relaxed);
        let found = std::iter::repeat_with(programs).flatten().find_map(|(program, run_it)| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let seed = random >> 44;
            let failed = run(Some(fault), *run_it, seed);
            let is_late = began.elapsed() > SEARCH;
            (failed.is_some() || is_late).then(|| failed.map(|text| (*program, seed, text)))
        });
        let took = began.elapsed();
        match found.flatten() {
            Some((program, seed, text)) => {
                let is_sound = run(None, of(program), seed).is_none();
                let why = if is_sound { "" } else { " FAILS WITHOUT A FAULT" };
                println!("{name} {program} {seed} {text} # {took:.1?}{why}");
            }
            None => {
                println!("# {name} is not found in {took:.0?}: {what}");
                missed.lock().unwrap().push(name);
            }
        }
    };
    silently(|| for_each(Mutant::ALL, search));
    assert!(searched.into_inner() > 0, "there is no fault {only}");
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
