//! The bill of a call, compared with calls that were not sampled.
//!
//! Each round has three parts: without samples, with many, and with as few as by default. The first
//! measures a call, the second its items; the difference between them is the
//! residual. The third measures the cost of sampling. The samples come from the page
//! that observers map, so they are those that `upbeat bill` shows. An estimate
//! (`parts`) from parts that were measured alone, in the same round, follows.

mod parts;

use parts::{Parts, Taken, Tools, estimate};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use upbeat::CallError;
use upbeat::bill::collected::{CollectedSamples, PhaseTime};
use upbeat::bill::way::{CALL, MessageEvents, Phase, StampMode};
use upbeat_cli::bench::control::{Control, Done, Job};
use upbeat_cli::bench::echo::EchoClient;
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::Ground;
use upbeat_cli::bench::hosts::{Caller, Host, LocalHost, Policy, each, watched};
use upbeat_cli::bench::pair::{Pair, Server};
use upbeat_cli::bench::pin::Cpus;
use upbeat_cli::bench::report::{Billed, BilledItem, Placement, Row, rounded};
use upbeat_cli::bench::rounds::{Floor, Subject};
use upbeat_cli::bench::timing::{Round, Shape, Work};
use upbeat_cli::bench::waits::Condition;
use upbeat_memory::samples::{self, Record, SamplesView};
use upbeat_memory::ticks::ticks_per_second;

/// The name of this benchmark.
pub(crate) const BENCH: &str = "bill";

/// One call in this many is sampled by default.
const SAMPLING_DEFAULT: u32 = 1000;

/// Returns the sampling rate of the second part of a round: one call in so many.
const fn sampling(policy: Policy) -> u32 {
    match policy {
        // All calls: the work after a sampled call is done before the next one wakes a sleeper.
        Policy::Sleeping => 1,
        // Few enough that a sampled call does not meet the work after the previous one.
        Policy::Polling | Policy::Adaptive => 16,
    }
}

/// The fraction of the samples that is left out at either end: one in so many.
const TRIMMED: usize = 20;

/// Each part is measured for this fraction of the time of the calls.
const PARTS: u32 = 6;

/// Items below this are left out.
const LEAST_NS: f64 = 0.05;

/// The method and the place of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    kib: bool,
    local: bool,
    policy: Policy,
}

impl Case {
    fn path(self) -> String {
        let size = if self.kib { "1KiB" } else { "null" };
        let carrier = if self.local { "local" } else { "shared" };
        format!("{size}/{carrier}/{}", self.policy.word())
    }

    fn about(self) -> String {
        let what = if self.kib { "call with 1 KiB each way" } else { "call of nothing" };
        let to = if self.local { "another thread" } else { "another process" };
        format!("{what} to {to}, both {}, item by item", self.policy.word())
    }

    async fn calls(self, client: &EchoClient, work: Work) -> Result<Round, CallError> {
        match self.kib {
            false => each(work, || client.null()).await,
            true => each(work, || client.bytes1024([7; 1024])).await,
        }
    }

    /// Returns the name of the calling node.
    fn caller(self) -> String {
        format!("bench-billed/{}", self.path())
    }

    /// Returns the name of the node that serves the case. No two cases share a node.
    fn callee(self) -> String {
        format!("bench-bill/{}", self.path())
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (kib, policies) in
        [(false, &[Policy::Polling, Policy::Sleeping][..]), (true, &[Policy::Polling])]
    {
        for policy in policies {
            for local in [false, true] {
                cases.push(Case { kib, local, policy: *policy });
            }
        }
    }
    cases
}

/// Returns the cases and a description of each.
pub(crate) fn list() -> Vec<(String, String)> {
    cases().into_iter().map(|case| (case.path(), case.about())).collect()
}

/// Returns the wanted cases.
pub(crate) fn subjects(
    pair: &Pair,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Box<dyn Subject>>, BenchError> {
    let Done = pair.control().receive()?;
    let tools = Rc::new(Tools::offer(pair.control())?);
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for case in cases().into_iter().filter(|case| wanted(&case.path())) {
        let (cpus, scratch) = (pair.cpus, pair.scratch().to_owned());
        let (path, doing) = (case.path(), None);
        let (fresh, kept) = (Kept::default(), HashMap::new());
        let parts = Parts::new(case, cpus, &tools)?;
        subjects.push(Box::new(BillSubject {
            case,
            path,
            cpus,
            scratch,
            doing,
            parts,
            fresh,
            kept,
        }));
    }
    Ok(subjects)
}

/// The nodes and pages of a subject that has begun.
struct Doing {
    caller: Caller,
    host: Option<LocalHost>,
    page: Option<Page>,
}

/// The page of the caller's samples, and how far it was read.
struct Page {
    view: SamplesView,
    next: u64,
}

/// A case as a subject.
struct BillSubject {
    case: Case,
    path: String,
    cpus: Cpus,
    scratch: PathBuf,
    doing: Option<Doing>,
    parts: Parts,
    /// The samples of rounds whose placement is not known yet.
    fresh: Kept,
    kept: HashMap<Placement, Kept>,
}

/// The results of rounds in one placement.
#[derive(Default)]
struct Kept {
    samples: Vec<Record>,
    /// The number of samples that are of parts with many samples.
    taken: usize,
    /// The time of a call in each part without samples.
    measured: Vec<f64>,
    /// By how much, in percent, a call took longer with as many samples as by default.
    sampled: Vec<f64>,
    parts: Taken,
}

impl BillSubject {
    fn begin(&self) -> Result<Doing, BenchError> {
        let (case, name) = (self.case, self.case.caller());
        let (peer, host, directory) = if case.local {
            let host = LocalHost::start(&case.callee(), case.policy, self.cpus.server)?;
            (case.callee(), Some(host), None)
        } else {
            (case.callee(), None, Some(self.scratch.as_path()))
        };
        let caller = Caller::new(&name, &peer, directory, case.policy)?;
        Ok(Doing { caller, host, page: None })
    }

    /// Runs one part of a round: calls of which one in `sampling` is sampled.
    fn part(&mut self, pair: &mut Pair, work: Work, sampling: u32) -> Result<Round, BenchError> {
        let doing = match self.doing.take() {
            Some(doing) => doing,
            None => self.begin()?,
        };
        let case = self.case;
        let doing = self.doing.insert(doing);
        let node = doing.caller.node();
        node.set_sampling(sampling);
        let calls = || doing.caller.round(async |client| case.calls(client, work).await);
        match &doing.host {
            Some(host) => host.watched(work, node, calls),
            None => watched(pair, Job::Case(self.path.clone()), work, Some(node), |_| calls()),
        }
    }

    /// Collects the samples of the page.
    fn take_samples(&mut self) -> Result<(), BenchError> {
        let Some(doing) = &mut self.doing else { return Ok(()) };
        if doing.page.is_none() {
            doing.page = find_page(&self.case.caller())?;
        }
        let Some(page) = &mut doing.page else { return Ok(()) };
        let written = page.view.written();
        let samples =
            (page.next.max(page.view.oldest())..written).filter_map(|n| page.view.read(n));
        self.fresh.samples.extend(samples.filter(|sample| sample.kind == CALL.number()));
        page.next = written;
        Ok(())
    }
}

/// Returns the page of a node of this process, if the node has taken samples.
fn find_page(node: &str) -> Result<Option<Page>, BenchError> {
    let views = samples::observe(std::process::id());
    let views = views.map_err(|error| BenchError::protocol(format!("its own samples: {error}")))?;
    let view = views.into_iter().find(|view| view.node() == node);
    Ok(view.map(|view| Page { view, next: 0 }))
}

impl Subject for BillSubject {
    fn case(&self) -> &str {
        &self.path
    }

    fn shape(&self) -> Shape {
        Shape::Each
    }

    fn floor(&self) -> Floor {
        if self.case.policy == Policy::Sleeping { Floor::Eventfds } else { Floor::Lines }
    }

    fn condition(&self) -> Condition {
        self.case.policy.condition()
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let measured = self.part(pair, work, 0)?;
        self.take_samples()?;
        // The samples that the round before has left in the page are of another rate.
        self.fresh.samples.truncate(self.fresh.taken);
        self.part(pair, work, sampling(self.case.policy))?;
        self.take_samples()?;
        self.fresh.taken = self.fresh.samples.len();
        let sampled = self.part(pair, work, SAMPLING_DEFAULT)?;
        let (plain_ns, sampled_ns) = (measured.mean_ns(), sampled.mean_ns());
        self.fresh.measured.push(plain_ns);
        self.fresh.sampled.push(100.0 * (sampled_ns - plain_ns) / plain_ns);
        let lasted = Duration::from_nanos((measured.mean_ns() * work.total() as f64) as u64);
        self.fresh.parts.push(self.parts.round(pair, lasted / PARTS)?);
        Ok(measured)
    }

    fn settle(&mut self, placement: Option<Placement>) {
        let fresh = std::mem::take(&mut self.fresh);
        let Some(placement) = placement else { return };
        let kept = self.kept.entry(placement).or_default();
        kept.samples.extend(fresh.samples);
        kept.measured.extend(fresh.measured);
        kept.sampled.extend(fresh.sampled);
        kept.parts.extend(fresh.parts);
    }

    fn finish(&mut self, row: &mut Row) {
        let policy = self.case.policy;
        row.bill = self.kept.get_mut(&row.placement).and_then(|kept| kept.billed(policy));
    }
}

impl Kept {
    /// Leaves out the shortest and the longest samples, as rounds leave out batches.
    fn trim_stories(&mut self) {
        let whole = StampMode::Whole.byte();
        let lasted = |one: &Record| one.stamps[CALL.phases.len()].saturating_sub(one.stamps[0]);
        let stories = self.samples.iter().filter(|one| one.rung == whole);
        let mut lasts: Vec<u64> = stories.map(lasted).collect();
        lasts.sort_unstable();
        let out = lasts.len() / TRIMMED;
        let Some(middle) = lasts.get(out..lasts.len() - out) else { return };
        let (Some(least), Some(most)) = (middle.first(), middle.last()) else { return };
        self.samples.retain(|one| one.rung != whole || (*least..=*most).contains(&lasted(one)));
    }

    fn billed(&mut self, policy: Policy) -> Option<Billed> {
        let mut collected = CollectedSamples::new(CALL, ticks_per_second());
        self.trim_stories();
        for Record { rung, stamps, flags, .. } in &self.samples {
            if let Some(manner) = StampMode::from_byte(*rung) {
                // A sample whose clock goes backwards is useless; there are others.
                let _ = collected.sample(manner, stamps, MessageEvents(*flags), 0);
            }
        }
        let breakdown = collected.breakdown()?;
        let (sum, measured) = (breakdown.whole.mean, median(&mut self.measured));
        let parts = self.parts.parts(policy);
        let estimated = estimate(&parts);
        let phases = CALL.phases.iter().zip(&breakdown.phases);
        let item = |(phase, charged): (&Phase, &PhaseTime)| BilledItem {
            item: phase.item.name(),
            place: phase.place.name(),
            ns: rounded(charged.mean),
            percent: rounded(100.0 * charged.mean / sum),
        };
        let tells = |(_, charged): &(&Phase, &PhaseTime)| charged.mean.abs() >= LEAST_NS;
        Some(Billed {
            items: phases.filter(tells).map(item).collect(),
            sum_ns: rounded(sum),
            measured_ns: rounded(measured),
            residual_percent: rounded(100.0 * (measured - sum) / measured),
            sampled_percent: rounded(median(&mut self.sampled)),
            estimate_ns: rounded(estimated),
            estimate_error_percent: rounded(100.0 * (estimated - measured) / measured),
            parts,
            stamp_ns: rounded(breakdown.stamp),
            mark_ns: rounded(breakdown.mark),
            samples: self.samples.len() as u64,
        })
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The second process's nodes.
pub(crate) struct BillServer {
    hosts: HashMap<String, Host>,
    tools: Tools,
}

/// The second process's side.
pub(crate) fn server(
    control: &Control,
    _: &Ground,
    scratch: &Path,
) -> Result<BillServer, BenchError> {
    let mut hosts = HashMap::new();
    for case in cases().into_iter().filter(|case| !case.local) {
        let host = Host::new(&case.callee(), Some(scratch), case.policy, None)?;
        hosts.insert(case.path(), host);
    }
    control.send(&Done)?;
    Ok(BillServer { hosts, tools: Tools::accept(control)? })
}

impl Server for BillServer {
    fn round(&mut self, case: &str, work: Work, ground: &mut Ground) -> Result<(), BenchError> {
        if self.tools.answer(case, work)? {
            return Ok(());
        }
        let unknown = || BenchError::protocol(format!("no bill `{case}` needs a second process"));
        self.hosts.get(case).ok_or_else(unknown)?.watched_round(ground);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{cases, median};
    use std::collections::BTreeSet;

    #[test]
    fn what_was_promised_is_there() {
        let all: BTreeSet<String> = cases().into_iter().map(|case| case.path()).collect();
        for waiting in ["polling", "sleeping"] {
            for carrier in ["shared", "local"] {
                assert!(all.contains(&format!("null/{carrier}/{waiting}")));
            }
        }
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut []), 0.0);
    }
}
