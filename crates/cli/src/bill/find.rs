//! Finds the programs to read: their processes, by process number or by the names of their nodes.
//!
//! The search reads `/proc` and the pages themselves. A child process inherits descriptors, so several
//! processes may have the page of one node; the page is then read once.

use crate::bill::error::BillError;
use rustix::process::geteuid;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use upbeat_memory::counters::{self, CountersView};
use upbeat_memory::observe::ObserveError;
use upbeat_memory::samples::{self, SamplesView};

/// The pages of a process.
pub(crate) struct Found {
    pub(crate) pid: u32,
    pub(crate) samples: Vec<SamplesView>,
    pub(crate) counters: Vec<CountersView>,
}

impl Found {
    /// Returns the names of the nodes of the process.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> + '_ {
        let counted = self.counters.iter().map(CountersView::node);
        counted.chain(self.samples.iter().map(SamplesView::node))
    }

    fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.counters.is_empty()
    }
}

/// Finds the pages of processes and nodes. A target is a process number or a node's name; no target means all.
pub(crate) fn find(targets: &[String], program: Option<&str>) -> Result<Vec<Found>, BillError> {
    let (mut found, mut names) = (Vec::new(), Vec::new());
    for target in targets {
        match target.parse() {
            Ok(pid) => found.push(of_process(pid)?),
            Err(_) => names.push(target),
        }
    }
    if targets.is_empty() || !names.is_empty() {
        let all = all_processes();
        for name in &names {
            if !all.iter().any(|one| one.names().any(|node| node == **name)) {
                let seen: HashSet<String> = all.iter().flat_map(Found::names).collect();
                let mut seen: Vec<String> = seen.into_iter().collect();
                seen.sort();
                return Err(BillError::NoSuchNode { name: (*name).clone(), seen });
            }
        }
        let wanted = |name: &str| names.is_empty() || names.iter().any(|one| *one == name);
        found.extend(all.into_iter().map(|one| Found {
            pid: one.pid,
            samples: one.samples.into_iter().filter(|view| wanted(&view.node())).collect(),
            counters: one.counters.into_iter().filter(|view| wanted(&view.node())).collect(),
        }));
    }
    let mut found = deduplicated(found);
    if found.is_empty() {
        return Err(BillError::NoNodes);
    }
    if let Some(program) = program {
        let seen = programs(&found);
        for one in &mut found {
            one.samples.retain(|view| view.program() == program);
            one.counters.retain(|view| view.program() == program);
        }
        found.retain(|one| !one.is_empty());
        if found.is_empty() {
            return Err(BillError::NoSuchProgram { program: program.into(), seen });
        }
    }
    Ok(found)
}

/// Returns the programs of all nodes, each once.
fn programs(found: &[Found]) -> Vec<String> {
    let counted = found.iter().flat_map(|one| &one.counters).map(CountersView::program);
    let sampled = found.iter().flat_map(|one| &one.samples).map(SamplesView::program);
    let mut programs: Vec<String> = counted.chain(sampled).filter(|one| !one.is_empty()).collect();
    programs.sort();
    programs.dedup();
    programs
}

/// Returns whether a process still shows these counters.
pub(crate) fn shows(pid: u32, view: &CountersView) -> bool {
    let same = |one: &CountersView| one.incarnation() == view.incarnation();
    counters::observe(pid).is_ok_and(|all| all.iter().any(same))
}

fn of_process(pid: u32) -> Result<Found, BillError> {
    let wrong = |error: ObserveError| match error {
        ObserveError::Gone { pid } => BillError::NoProcess(pid),
        ObserveError::Refused { pid, error } => {
            BillError::Refused { pid, error: error.to_string() }
        }
        error => BillError::Unreadable { pid, error },
    };
    let counters = counters::observe(pid).map_err(wrong)?;
    let found = Found { pid, counters, samples: samples::observe(pid).map_err(wrong)? };
    if found.is_empty() { Err(BillError::NoNode(pid)) } else { Ok(found) }
}

/// Returns all processes that this user may read and that have a node. Errors are ignored, because the user
/// did not name these processes.
fn all_processes() -> Vec<Found> {
    let us = geteuid();
    let ours = |entry: &std::fs::DirEntry| {
        us.is_root() || entry.metadata().is_ok_and(|data| data.uid() == us.as_raw())
    };
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut pids: Vec<u32> = entries
        .filter_map(Result::ok)
        .filter(ours)
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    let pages = |pid| Found {
        pid,
        samples: samples::observe(pid).unwrap_or_default(),
        counters: counters::observe(pid).unwrap_or_default(),
    };
    pids.into_iter().map(pages).filter(|found| !found.is_empty()).collect()
}

/// Removes duplicate pages: an owner's page comes before the one that a child has inherited. The nodes of a
/// process are sorted by name, because the order of their file descriptors is accidental.
fn deduplicated(mut found: Vec<Found>) -> Vec<Found> {
    let foreign = |one: &Found| {
        let owner = one.counters.first().map(CountersView::pid);
        owner.or(one.samples.first().map(SamplesView::pid)) != Some(u64::from(one.pid))
    };
    found.sort_by_key(foreign);
    let (mut sampled, mut counted) = (HashSet::new(), HashSet::new());
    for one in &mut found {
        one.samples.retain(|view| sampled.insert((view.incarnation(), view.node())));
        one.counters.retain(|view| counted.insert((view.incarnation(), view.node())));
        one.samples.sort_by_key(SamplesView::node);
        one.counters.sort_by_key(CountersView::node);
    }
    found.retain(|one| !one.is_empty());
    found
}
