//! Collects a recording from the pages of running programs, for a time.
//!
//! Invariant: without being asked for more, a recording has only what the nodes recorded while they were observed.

use crate::bill::collect::{Collector, Source, node};
use crate::bill::error::BillError;
use crate::bill::find::{Found, find, shows};
use crate::bill::recording::{Node, Recording, cleaned};
use signal_hook::consts::SIGINT;
use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use upbeat_memory::counters::CountersView;

/// The time between two reads of the pages. A page holds more samples than a node takes in this time.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The time between two searches for new nodes.
const FIND_EVERY: Duration = Duration::from_millis(200);

/// The pages from which samples are read.
#[derive(Default)]
struct Watched {
    sources: Vec<Source>,
    sampled: HashSet<(u64, String)>,
    counted: Vec<Counted>,
}

/// The part of what a page has already that a recording includes.
#[derive(Clone, Copy)]
enum Part {
    /// Nothing.
    Nothing,
    /// All of it, although it is older.
    Older,
    /// All of it, since the node has begun while others were observed.
    New,
}

/// The counters of a node.
struct Counted {
    pid: u32,
    view: CountersView,
    /// The values when the node was found; none if they count from the beginning of the node.
    before: Vec<u64>,
}

impl Watched {
    /// Adds the pages that are not known yet, with this part of what they have already.
    fn add(&mut self, found: Vec<Found>, part: Part) {
        for one in found {
            for view in one.samples {
                if self.sampled.insert((view.incarnation(), view.node())) {
                    self.sources.push(match part {
                        Part::Nothing => Source::from_now(view),
                        Part::Older => Source::new(view),
                        Part::New => Source::of_new_node(view),
                    });
                }
            }
            for view in one.counters {
                let known = |one: &Counted| {
                    one.view.incarnation() == view.incarnation() && one.view.node() == view.node()
                };
                if !self.counted.iter().any(known) {
                    let before = match part {
                        Part::Nothing => view.values().collect(),
                        Part::Older | Part::New => Vec::new(),
                    };
                    self.counted.push(Counted { pid: one.pid, view, before });
                }
            }
        }
    }

    fn names(&self) -> Vec<String> {
        let counted = self.counted.iter().map(|one| one.view.node());
        let mut names: Vec<String> =
            counted.chain(self.sampled.iter().map(|(_, name)| name.clone())).collect();
        names.sort();
        names.dedup();
        names.iter().map(|name| cleaned(name)).collect()
    }
}

/// The request of a user.
pub(crate) struct Wish<'w> {
    /// Processes by number and nodes by name; none for all.
    pub(crate) targets: &'w [String],
    /// The program of the nodes, if only one is wanted.
    pub(crate) program: Option<&'w str>,
    /// How long to collect.
    pub(crate) lasts: Duration,
    /// Whether what the nodes recorded before is included.
    pub(crate) before: bool,
}

/// Collects samples from running programs until the time is over or the user presses ctrl-c.
pub(crate) fn collect(wish: &Wish<'_>) -> Result<Recording, BillError> {
    let (mut watched, mut collector) = (Watched::default(), Collector::default());
    let stop = Arc::new(AtomicBool::new(false));
    // A second ctrl-c ends the command at once. Where the signal cannot be caught, the first one does.
    let _ = signal_hook::flag::register_conditional_default(SIGINT, Arc::clone(&stop));
    let _ = signal_hook::flag::register(SIGINT, Arc::clone(&stop));
    let part = if wish.before { Part::Older } else { Part::Nothing };
    watched.add(find(wish.targets, wish.program)?, part);
    let start = Instant::now();
    let mut searched = start;
    let progress = io::stderr().is_terminal();
    loop {
        for source in &mut watched.sources {
            collector.look(source);
        }
        if start.elapsed() >= wish.lasts || stop.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(LOOK_EVERY.min(wish.lasts.saturating_sub(start.elapsed())));
        if searched.elapsed() >= FIND_EVERY {
            searched = Instant::now();
            // All that a new node has recorded is of this time. A node that has ended leaves its samples in its page.
            watched.add(find(wish.targets, wish.program).unwrap_or_default(), Part::New);
            if progress {
                shown(start.elapsed(), wish.lasts, collector.samples());
            }
        }
    }
    if progress {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    let seconds = start.elapsed().as_secs_f64();
    let older = watched.sources.iter().map(Source::older).sum();
    if collector.is_empty() {
        let (nodes, unusable) = (watched.names(), collector.missed().unusable);
        return Err(match watched.sources.len() {
            0 => BillError::NotSampling(nodes),
            _ => BillError::NoSamples { nodes, seconds, unusable, older },
        });
    }
    collector.includes(wish.before, older);
    let taken = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut recording = collector.recording(taken, seconds);
    let told = |one: &Counted| Node {
        samples: watched.sampled.contains(&(one.view.incarnation(), one.view.node())),
        ended: !shows(one.pid, &one.view),
        ..node(one.pid, &one.view, &one.before)
    };
    recording.nodes = watched.counted.iter().map(told).collect();
    Ok(recording)
}

fn shown(since: Duration, lasts: Duration, samples: u64) {
    let part = (since.as_secs_f64() / lasts.as_secs_f64()).min(1.0);
    let full = (part * 24.0) as usize;
    let bar = format!("{}{}", "#".repeat(full), "-".repeat(24 - full));
    let percent = part * 100.0;
    // A failure to draw the progress bar does not stop the collection.
    let _ = write!(io::stderr(), "\r\x1b[Kbill [{bar}] {percent:>3.0}% {samples} samples");
}
