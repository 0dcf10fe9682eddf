//! Where the time of a call goes: its bill, held against calls that nobody looked at.
//!
//! Each round has three parts: without samples, with many, and with as few as by default. The first
//! says what a call takes, the second what its items take; what is left between them is the
//! residual. The third says what being sampled costs a program. The samples come out of the page
//! that observers map, so they are those that `upbeat bill` shows. Behind it stands an estimate
//! (`parts`) from what was measured alone, in the same round.

mod parts;

use parts::{Parts, Taken, Tools, estimate};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use upbeat::CallError;
use upbeat::bill::collected::{Charged, Collected};
use upbeat::bill::way::{CALL, Happened, Manner, Phase};
use upbeat_cli::bench::control::{Control, Done, Job};
use upbeat_cli::bench::echo::EchoClient;
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::Ground;
use upbeat_cli::bench::hosts::{Caller, Host, LocalHost, Policy, each, host_name};
use upbeat_cli::bench::pair::{Pair, Server};
use upbeat_cli::bench::pin::Cpus;
use upbeat_cli::bench::report::{Billed, BilledItem, Placement, Row, rounded};
use upbeat_cli::bench::rounds::{Floor, Subject};
use upbeat_cli::bench::timing::{Round, Shape, Work};
use upbeat_memory::samples::{self, Record, SamplesView};
use upbeat_memory::ticks::ticks_per_second;

/// The name of this benchmark.
pub(crate) const BENCH: &str = "bill";

/// One call in so many is sampled where nobody says.
const SAMPLING_DEFAULT: u32 = 1000;

/// One call in so many is sampled in the second part of a round.
const fn sampling(policy: Policy) -> u32 {
    match policy {
        // All: what a sampled call leaves behind is done before the next one wakes anybody.
        Policy::Sleeping => 1,
        // Rarely enough that a sampled call does not meet what the last one left behind.
        Policy::Polling | Policy::Adaptive => 16,
    }
}

/// One in so many stories is left out at either end.
const TRIMMED: usize = 20;

/// A part is measured for this part of the time of the calls.
const PARTS: u32 = 6;

/// Items of less are left out.
const LEAST_NS: f64 = 0.05;

/// What is called, from where.
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

    /// The name of the node that calls.
    fn caller(self) -> String {
        format!("bench-billed/{}", self.path())
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

/// The cases and what each is.
pub(crate) fn list() -> Vec<(String, String)> {
    cases().into_iter().map(|case| (case.path(), case.about())).collect()
}

/// The cases that are wanted.
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

/// What a subject works with, once it has begun.
struct Doing {
    caller: Caller,
    host: Option<LocalHost>,
    page: Option<Page>,
}

/// Where the caller's samples are, and how far they were read.
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
    /// Of rounds whose placement is not known yet.
    fresh: Kept,
    kept: HashMap<Placement, Kept>,
}

/// What is kept of rounds in one placement.
#[derive(Default)]
struct Kept {
    samples: Vec<Record>,
    /// So many of them are of parts with many samples.
    taken: usize,
    /// What a call took in each part without samples.
    measured: Vec<f64>,
    /// How much longer, in percent, it took with as many samples as by default.
    sampled: Vec<f64>,
    parts: Taken,
}

impl BillSubject {
    fn begin(&self) -> Result<Doing, BenchError> {
        let (case, name) = (self.case, self.case.caller());
        let (peer, host, directory) = if case.local {
            let peer = format!("bench-bill/{}", case.policy.word());
            let peer = format!("{peer}/{}", if case.kib { "1KiB" } else { "null" });
            let host = LocalHost::start(peer.clone(), case.policy, self.cpus.server)?;
            (peer, Some(host), None)
        } else {
            (host_name(case.policy), None, Some(self.scratch.as_path()))
        };
        let caller = Caller::new(&name, &peer, directory, case.policy)?;
        Ok(Doing { caller, host, page: None })
    }

    /// One part of a round: so many calls, of which one in `sampling` is sampled.
    fn part(&mut self, pair: &mut Pair, work: Work, sampling: u32) -> Result<Round, BenchError> {
        let doing = match self.doing.take() {
            Some(doing) => doing,
            None => self.begin()?,
        };
        let case = self.case;
        let doing = self.doing.insert(doing);
        doing.caller.node().set_sampling(sampling);
        let calls = || doing.caller.round(async |client| case.calls(client, work).await);
        match &doing.host {
            Some(host) => host.round(calls),
            None => pair.round(Job::Case(self.path.clone()), work, |_| calls()),
        }
    }

    /// Takes in what was sampled.
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

/// The page of a node of this process, if it has taken samples.
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

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let measured = self.part(pair, work, 0)?;
        self.take_samples()?;
        // What the round before has left in the page is of another rate.
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
    /// Leaves out the shortest and the longest stories, as rounds leave out batches.
    fn trim_stories(&mut self) {
        let whole = Manner::Whole.byte();
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
        let mut collected = Collected::new(CALL, ticks_per_second());
        self.trim_stories();
        for Record { rung, stamps, flags, .. } in &self.samples {
            if let Some(manner) = Manner::from_byte(*rung) {
                // One that goes backwards says nothing; there are others.
                let _ = collected.sample(manner, stamps, Happened(*flags), 0);
            }
        }
        let breakdown = collected.breakdown()?;
        let (sum, measured) = (breakdown.whole.mean, median(&mut self.measured));
        let parts = self.parts.parts(policy);
        let estimated = estimate(&parts);
        let phases = CALL.phases.iter().zip(&breakdown.phases);
        let item = |(phase, charged): (&Phase, &Charged)| BilledItem {
            item: phase.item.name(),
            place: phase.place.name(),
            ns: rounded(charged.mean),
            percent: rounded(100.0 * charged.mean / sum),
        };
        let tells = |(_, charged): &(&Phase, &Charged)| charged.mean.abs() >= LEAST_NS;
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
    hosts: HashMap<&'static str, Host>,
    tools: Tools,
}

/// The second process's side.
pub(crate) fn server(
    control: &Control,
    _: &Ground,
    scratch: &Path,
) -> Result<BillServer, BenchError> {
    let mut hosts = HashMap::new();
    for policy in [Policy::Polling, Policy::Sleeping] {
        let host = Host::new(&host_name(policy), Some(scratch), policy, None)?;
        hosts.insert(policy.word(), host);
    }
    control.send(&Done)?;
    Ok(BillServer { hosts, tools: Tools::accept(control)? })
}

impl Server for BillServer {
    fn round(&mut self, case: &str, work: Work, _: &mut Ground) -> Result<(), BenchError> {
        if self.tools.answer(case, work)? {
            return Ok(());
        }
        let unknown = || BenchError::protocol(format!("no bill `{case}` needs a second process"));
        let policy = cases().into_iter().find(|one| one.path() == case).map(|one| one.policy);
        self.hosts.get(policy.ok_or_else(unknown)?.word()).ok_or_else(unknown)?.round();
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
