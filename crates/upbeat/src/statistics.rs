//! Statistics of each method of a node: its calls and their outcomes, if the application has asked for them.
//!
//! The counters of the bill count once more for each method. Without statistics, methods are entered that count
//! nothing. Invariant: a request is counted once as called, and at most once by the outcome of its first poll.

use crate::dispatch::OverRun;
use std::cell::{Cell, RefCell};
use std::fmt::{self, Write};
use std::rc::Rc;
use std::time::Duration;
use upbeat_core::bill::Counter;
use upbeat_memory::ticks::Ticks;

/// The reasons why handlers became tasks.
const REASONS: [(Counter, &str); 8] = [
    (Counter::PromotedByLock, "lock"),
    (Counter::PromotedByCondition, "condition"),
    (Counter::PromotedByFull, "full"),
    (Counter::PromotedByBudget, "budget"),
    (Counter::PromotedByCall, "call"),
    (Counter::PromotedByTimer, "timer"),
    (Counter::PromotedByOther, "other"),
    (Counter::StartedAsTasks, "at once"),
];

/// The counts of one method.
pub(crate) struct MethodCounts {
    names: (&'static str, &'static str),
    calls: Cell<u64>,
    counts: [Cell<u64>; Counter::COUNT],
    /// The ticks for which its handlers ran as tasks, the number of these handlers, and the longest run.
    ran: Cell<(u64, u64, u64)>,
}

impl MethodCounts {
    #[inline]
    pub(crate) fn called(&self) {
        self.calls.set(self.calls.get() + 1);
    }

    #[inline]
    pub(crate) fn count(&self, counter: Counter) {
        let count = &self.counts[counter as usize];
        count.set(count.get() + 1);
    }

    /// Counts a handler that has ended after running as a task for this many ticks.
    pub(crate) fn ran(&self, ticks: u64) {
        let (all, tasks, longest) = self.ran.get();
        self.ran.set((all + ticks, tasks + 1, longest.max(ticks)));
    }
}

/// The use of statistics when their node ends.
pub(crate) enum Report {
    Text,
    Json,
    Call(Box<dyn Fn(&Statistics)>),
}

/// The statistics of a node, if there are any.
pub(crate) struct Collected {
    report: Option<Report>,
    tallies: RefCell<Vec<Rc<MethodCounts>>>,
    reported: Cell<bool>,
}

impl Collected {
    pub(crate) fn new(report: Option<Report>) -> Collected {
        Collected { report, tallies: RefCell::default(), reported: Cell::new(false) }
    }

    /// Adds a method, and returns its counts if statistics are collected.
    pub(crate) fn enter(&self, names: (&'static str, &'static str)) -> Option<Rc<MethodCounts>> {
        self.report.as_ref()?;
        let counts = [const { Cell::new(0) }; Counter::COUNT];
        let (calls, ran) = (Cell::new(0), Cell::default());
        let tally = Rc::new(MethodCounts { names, calls, counts, ran });
        self.tallies.borrow_mut().push(Rc::clone(&tally));
        Some(tally)
    }

    /// Forgets the methods of a service that is not served after all.
    pub(crate) fn leave(&self, service: &str) {
        self.tallies.borrow_mut().retain(|tally| tally.names.0 != service);
    }

    pub(crate) fn read(&self, node: String, over_runs: &[OverRun]) -> Statistics {
        let tallies = self.tallies.borrow();
        let methods = tallies.iter().map(|tally| {
            let (service, method) = tally.names;
            let (ran, tasks, longest) = tally.ran.get();
            let over = over_runs.iter().find(|over| (over.service, over.method) == tally.names);
            let mean = Duration::from(Ticks(ran.checked_div(tasks).unwrap_or(0)));
            let mut counts = tally.counts.each_ref().map(Cell::get);
            counts[Counter::OverRuns as usize] = over.map_or(0, |over| over.count);
            counts[Counter::Blocked as usize] = over.map_or(0, |over| over.blocked);
            let longest = Duration::from(Ticks(longest));
            MethodStatistics { service, method, calls: tally.calls.get(), mean, longest, counts }
        });
        Statistics { node, methods: methods.collect() }
    }

    /// Reports the statistics once, when the node ends.
    pub(crate) fn report(&self, read: impl FnOnce() -> Statistics) {
        let Some(report) = &self.report else { return };
        if self.tallies.borrow().is_empty() || self.reported.replace(true) {
            return;
        }
        match report {
            Report::Text => eprint!("{}", read()),
            Report::Json => eprintln!("{}", read().to_json()),
            Report::Call(call) => call(&read()),
        }
    }
}

/// The statistics of a node's methods: see [`Node::statistics`](crate::Node::statistics). `Display` prints a table.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// The name of the node.
    pub node: String,
    /// The statistics of the methods, in the order in which they were entered.
    pub methods: Vec<MethodStatistics>,
}

/// The statistics of one method.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use upbeat::Counter;
///
/// let node = upbeat::Node::builder("doc/method-statistics").local_only().statistics(true).build()?;
/// for method in node.statistics().methods {
///     let slept = method.counted(Counter::PromotedByTimer);
///     println!("{}: {} calls, {} became tasks, {slept} since they slept", method.method, method.calls,
///         method.became_tasks());
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct MethodStatistics {
    /// The service.
    pub service: &'static str,
    /// The method.
    pub method: &'static str,
    /// The number of calls and one-way messages that came.
    pub calls: u64,
    /// The mean time for which its handlers ran as tasks, of those that became tasks and have ended.
    pub mean: Duration,
    /// The longest of these times.
    pub longest: Duration,
    counts: [u64; Counter::COUNT],
}

impl MethodStatistics {
    /// Returns the value of a counter about handlers for this method; 0 for other counters.
    #[must_use]
    pub fn counted(&self, counter: Counter) -> u64 {
        self.counts[counter as usize]
    }

    /// Returns the number of handlers that were done when first polled.
    #[must_use]
    pub fn inline(&self) -> u64 {
        self.counted(Counter::HandlersInline)
    }

    /// Returns the number of handlers that became tasks, or started as tasks.
    #[must_use]
    pub fn became_tasks(&self) -> u64 {
        REASONS.iter().map(|(counter, _)| self.counted(*counter)).sum()
    }

    /// Returns the reasons why handlers became tasks, with their numbers.
    fn reasons(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counted = REASONS.iter().map(|(counter, name)| (*name, self.counted(*counter)));
        counted.filter(|(_, count)| *count != 0)
    }

    /// Returns the number of calls that were sent back, and of calls whose handlers were not allowed to wait.
    fn refused(&self) -> u64 {
        self.counted(Counter::HandlersRefused) + self.counted(Counter::HandlersEnded)
    }

    /// Returns the number of handlers that were ended as tasks: canceled, without a caller, or late.
    fn ended(&self) -> u64 {
        self.counted(Counter::OrphansEnded) + self.counted(Counter::OrphansExpired)
    }
}

const COLUMNS: [&str; 10] = [
    "calls",
    "inline",
    "tasks",
    "refused",
    "panics",
    "ended",
    "long polls",
    "blocked",
    "mean",
    "longest",
];

/// Prints a line for each method: the number of its calls, their outcomes, the times of its tasks, and the reasons
/// why they became tasks.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.methods.iter().map(|of| format!("{}.{}", of.service, of.method));
        let named: Vec<String> = named.collect();
        let width = named.iter().map(String::len).max().unwrap_or(0).max(6);
        writeln!(f, "upbeat: what was called at `{}`", self.node)?;
        write!(f, "{:width$}", "method")?;
        COLUMNS.iter().try_for_each(|column| write!(f, " {column:>10}"))?;
        writeln!(f, "  tasks by")?;
        for (of, name) in self.methods.iter().zip(&named) {
            write!(f, "{name:width$}")?;
            let (panics, over) = (of.counted(Counter::Panics), of.counted(Counter::OverRuns));
            let counts = [of.calls, of.inline(), of.became_tasks(), of.refused(), panics];
            let blocked = of.counted(Counter::Blocked);
            for count in counts.into_iter().chain([of.ended(), over, blocked]) {
                write!(f, " {count:>10}")?;
            }
            for time in [of.mean, of.longest] {
                write!(f, " {:>10}", format!("{time:.1?}"))?;
            }
            let reasons: Vec<_> =
                of.reasons().map(|(reason, count)| format!("{reason} {count}")).collect();
            writeln!(f, "  {}", reasons.join(", "))?;
        }
        Ok(())
    }
}

impl Statistics {
    /// Returns the statistics as JSON for programs: an object with the node and a list of methods, in one line.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/json").local_only().statistics(true).build()?;
    /// assert_eq!(node.statistics().to_json(), r#"{"node":"doc/json","methods":[]}"#);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        // Names of methods are identifiers, and names of nodes have no character that must be escaped.
        let mut text = format!("{{\"node\":\"{}\",\"methods\":[", self.node);
        for (at, of) in self.methods.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let tasks: Vec<_> =
                of.reasons().map(|(reason, count)| format!("\"{reason}\":{count}")).collect();
            // Writing to a string never fails.
            let _ = write!(
                text,
                "{comma}{{\"service\":\"{}\",\"method\":\"{}\",\"calls\":{},\"inline\":{},\
                 \"tasks\":{},\"tasks_by\":{{{}}},\"refused\":{},\"panics\":{},\"ended\":{},\
                 \"over_runs\":{},\"blocked\":{},\"mean_ns\":{},\"longest_ns\":{}}}",
                of.service,
                of.method,
                of.calls,
                of.inline(),
                of.became_tasks(),
                tasks.join(","),
                of.refused(),
                of.counted(Counter::Panics),
                of.ended(),
                of.counted(Counter::OverRuns),
                of.counted(Counter::Blocked),
                of.mean.as_nanos(),
                of.longest.as_nanos(),
            );
        }
        text.push_str("]}");
        text
    }
}
