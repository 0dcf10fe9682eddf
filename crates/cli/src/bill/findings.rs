//! The findings: sentences about a recording, the worst first.
//!
//! For each method one sentence says how long a slow message took and which steps took longest. Other
//! sentences name other causes of delays, bets that are lost too often, and missing samples. Every number
//! in a sentence comes from the figures of the recording.

use crate::bill::bets::Row;
use crate::bill::delay::cause_in;
use crate::bill::grid::{brief as time, capital, counted, grouped, percent};
use crate::bill::recording::{
    Cause, Delay, Ended, KeptThread, MessageTimes, Node, Recording, Subject,
};
use serde::Serialize;
use upbeat_core::bill::bet::{BETS, Bet};
use upbeat_core::bill::event::BadEnd;
use upbeat_core::bill::timeline::Leg;
use upbeat_core::bill::way::MessageEvents;
use upbeat_core::bill::{Counter, Item};

/// A slow message takes at least this many times the median.
const SLOW_TIMES: f64 = 2.0;
/// The second part of a message is named when it is at least this share of the message.
const SECOND_PART: f64 = 0.2;
/// The largest number of further delays of a method that become findings.
const OTHERS: usize = 2;
/// A delay becomes a finding when at least one message in `ONE_IN`, and at least `SOME` messages, had it.
const ONE_IN: u64 = 1_000;
const SOME: u64 = 3;
/// The delay must also be this share of a slow message, or more frequent than single outliers are.
const OTHER_PART: f64 = 0.25;
const ONE_IN_MANY: u64 = 250;
const MUCH_MORE: f64 = 0.5;
/// A bet becomes a finding when this share of it is lost, and it was taken at least `TAKEN_LEAST` times.
const LOST_PART: f64 = 0.01;
const TAKEN_LEAST: u64 = 100;

/// The importance of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Messages were late.
    Late,
    /// A note.
    Note,
    /// No message was late.
    Calm,
}

/// A statement about a recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// The index of the subject in the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<usize>,
    /// The statement, as a sentence.
    pub(crate) title: String,
    /// The frequency of the problem, and the usual value.
    pub(crate) detail: String,
    /// The nanoseconds by which findings of one level are sorted.
    #[serde(skip)]
    weight: f64,
}

/// Returns all findings, the worst first.
pub(crate) fn findings(recording: &Recording) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, subject) in recording.subjects.iter().enumerate() {
        let headline = headline(subject);
        let told: Vec<Cause> = headline.iter().flat_map(|(_, told)| told.clone()).collect();
        found.extend(headline.map(|(finding, _)| Finding { subject: Some(at), ..finding }));
        let mut others: Vec<&Delay> = subject
            .causes
            .iter()
            .filter(|delay| !told.contains(&delay.cause) && is_told(subject, delay))
            .collect();
        // The headline already names the slowest message. Causes in the program come before causes in the
        // machine, and frequent ones before rare ones.
        let machines =
            |one: &Delay| matches!(one.cause, Cause::Pause | Cause::CalleeBusy | Cause::CallerBusy);
        others.sort_by(|one, other| {
            let many = other.stories.cmp(&one.stories);
            machines(one).cmp(&machines(other)).then(many).then(other.max.total_cmp(&one.max))
        });
        let others = others.into_iter().take(OTHERS);
        found.extend(others.map(|delay| Finding { subject: Some(at), ..other(subject, delay) }));
    }
    for node in &recording.nodes {
        found.extend(BETS.iter().filter_map(|bet| lost(recording, node, bet)));
    }
    found.extend(events(recording));
    found.extend(missed(recording));
    found.sort_by(|one, other| {
        one.level.cmp(&other.level).then(other.weight.total_cmp(&one.weight))
    });
    found
}

/// Returns the parts of a message as item, leg and nanoseconds, the slowest first.
pub(crate) fn parts(subject: &Subject, told: &MessageTimes) -> Vec<(Item, Leg, f64)> {
    let mut parts: Vec<(Item, Leg, f64)> = Vec::new();
    let phases = subject.way.phases.iter().zip(Leg::of(subject.way)).zip(&told.phases);
    for ((phase, leg), took) in phases {
        match parts.iter_mut().find(|(item, at, _)| (*item, *at) == (phase.item, leg)) {
            Some((_, _, sum)) => *sum += took,
            None => parts.push((phase.item, leg, *took)),
        }
    }
    parts.sort_by(|one, other| other.2.total_cmp(&one.2));
    parts
}

/// Describes a slow message and its slowest parts. Returns also the causes that the sentence names.
fn headline(subject: &Subject) -> Option<(Finding, Vec<Cause>)> {
    let slow = subject.slow()?;
    let (total, median) = (slow.total(), subject.whole.p50);
    let mut parts = parts(subject, slow).into_iter();
    let (item, leg, most) = parts.next()?;
    let mut title = format!(
        "{} of {}: {}, of which {} {}",
        slow_title(subject),
        subject.title(),
        time(total),
        time(most),
        doing(subject, item, leg, slow),
    );
    let cause = |item, leg| cause_in(MessageEvents(slow.happened), item, leg);
    let mut told = vec![cause(item, leg)];
    if let Some((item, leg, took)) = parts.next().filter(|part| part.2 >= SECOND_PART * total) {
        let doing = doing(subject, item, leg, slow);
        title += &format!(", and {} {doing}", time(took));
        told.push(cause(item, leg));
    }
    let named = slow.named().filter(|(word, _)| match told[0] {
        Cause::Lock => *word == "lock",
        Cause::Wait => *word == "condition",
        Cause::Call => *word == "node",
        _ => false,
    });
    let delay = subject.causes.iter().find(|delay| {
        let same_name = delay.name.as_deref() == named.map(|(_, name)| name);
        delay.cause == told[0] && (same_name || told[0] == Cause::Pause)
    });
    let late = total >= SLOW_TIMES * median || delay.is_some_and(|one| one.cause != Cause::Pause);
    let mut detail = format!(
        "The median of {} from `{}` to `{}` is {}.",
        messages(subject),
        subject.from,
        subject.to,
        time(median)
    );
    if let Some(delay) = delay {
        detail += &format!(" {}", how_often(subject, delay));
    }
    if told[0] == Cause::Pause && late {
        let line = subject.lines.iter().find(|line| (line.item, line.leg) == (item, leg));
        let usual = line.map_or(0.0, |line| line.ns.p50);
        let why = match item {
            Item::Write => "; either its socket was full, or the",
            _ => " and does not block, so most likely the",
        };
        detail += &format!(
            " `{item}` takes {} at the median{why} kernel ran another process on the CPU.",
            time(usual)
        );
    }
    let level = if late { Level::Late } else { Level::Calm };
    Some((Finding { level, subject: None, title, detail, weight: total }, told))
}

/// Describes a part of a message, as the end of a sentence.
fn doing(subject: &Subject, item: Item, leg: Leg, told: &MessageTimes) -> String {
    let Subject { from, to, .. } = subject;
    let named = told.named();
    match (cause_in(MessageEvents(told.happened), item, leg), named) {
        (Cause::Room, _) => format!("waiting for room in a full lane to `{to}`"),
        (Cause::CalleeSlept, _) => format!("waking `{to}`, which slept"),
        (Cause::CallerSlept, _) => format!("waking `{from}`, which slept when the reply came"),
        (Cause::CalleeBusy, _) => {
            format!("waiting for `{to}`, which was busy or had no CPU")
        }
        (Cause::CallerBusy, _) => {
            format!("the reply waiting for `{from}`, which was busy or had no CPU")
        }
        // The time of a handler that waits is that of all its runs.
        (Cause::Budget, _) => match told.run() {
            None => "running the handler".into(),
            Some(run) => format!(
                "running the handler, up to {} without a pause and beyond its budget",
                time(run)
            ),
        },
        (Cause::Lock, Some(("lock", name))) => format!("waiting for the lock `{name}`"),
        (Cause::Lock, _) => "waiting for a lock".into(),
        (Cause::Call, Some((_, name))) => format!("the handler waiting for a reply of `{name}`"),
        (Cause::Call, None) => "the handler waiting for a reply".into(),
        (Cause::Wait, Some(("condition", name))) => {
            format!("the handler waiting for the condition `{name}`")
        }
        (Cause::Wait, _) => "the handler waiting for a call, a timer or an event".into(),
        (Cause::Queue, _) => format!("the handler being ready while `{to}` ran other tasks"),
        (Cause::Pause, _) => match leg {
            Leg::Caller => format!("in `{item}` at `{from}`"),
            Leg::Callee => format!("in `{item}` at `{to}`"),
            Leg::Out => format!("in `{item}` to `{to}`"),
            Leg::Back => format!("in `{item}` back to `{from}`"),
        },
    }
}

/// Returns the name of p99.9 for the beginning of a sentence.
fn slow_title(subject: &Subject) -> String {
    let name = subject.slow_name();
    if name.starts_with('p') { name } else { capital(&name) }
}

fn messages(subject: &Subject) -> &'static str {
    if subject.way.is_answered() { "calls" } else { "messages" }
}

/// Describes how many messages had a delay, and how long the delay was.
fn how_often(subject: &Subject, delay: &Delay) -> String {
    let of = format!("{} of {} sampled", grouped(delay.stories), grouped(subject.samples.stories));
    let who = match delay.cause {
        Cause::Budget => "exceeded the budget",
        Cause::Pause => "had this delay",
        _ => "waited for this reason",
    };
    if delay.stories == 1 {
        return format!("{of} {who}: {}.", time(delay.max));
    }
    if time(delay.p50) == time(delay.max) {
        return format!("{of} {who}: {} each.", time(delay.max));
    }
    format!("{of} {who}: {} at the median, {} at most.", time(delay.p50), time(delay.max))
}

fn is_told(subject: &Subject, delay: &Delay) -> bool {
    let often = |one_in: u64| {
        let befell = |one_in: u64| delay.stories.saturating_mul(one_in) >= subject.samples.stories;
        // On a busy machine the pauses of the machine are longer than the delays that the program causes.
        let late = delay.p50 >= MUCH_MORE * subject.whole.p50 && befell(ONE_IN_MANY);
        let much = delay.max >= OTHER_PART * subject.whole.slowest() || late;
        much && delay.stories >= SOME && befell(one_in)
    };
    match delay.cause {
        Cause::Budget => true,
        // Every program has single pauses; their cause is the machine.
        Cause::Pause => often(ONE_IN / 10),
        _ => often(ONE_IN),
    }
}

/// Describes a delay that the headline does not name.
fn other(subject: &Subject, delay: &Delay) -> Finding {
    let Subject { from, to, .. } = subject;
    let (name, most) = (delay.name.as_deref(), time(delay.max));
    let what = match (delay.cause, name) {
        (Cause::Room, _) => {
            format!("the caller waited up to {most} for room in a full lane to `{to}`")
        }
        (Cause::CalleeSlept, _) => format!("`{to}` slept: waking it took up to {most}"),
        (Cause::CallerSlept, _) => {
            format!("`{from}` slept when the reply came: waking it took up to {most}")
        }
        (Cause::CalleeBusy, _) => {
            format!("`{to}` was busy or had no CPU: messages waited for up to {most}")
        }
        (Cause::CallerBusy, _) => {
            format!("`{from}` was busy or had no CPU: replies waited for up to {most}")
        }
        (Cause::Budget, _) => {
            format!("the handler ran for {most} without a pause, beyond its budget")
        }
        (Cause::Lock, Some(name)) => {
            format!("the handler waited up to {most} for the lock `{name}`")
        }
        (Cause::Lock, None) => format!("the handler waited up to {most} for a lock"),
        (Cause::Wait, Some(name)) => {
            format!("the handler waited up to {most} for the condition `{name}`")
        }
        (Cause::Wait, None) => {
            format!("the handler waited up to {most} for a call, a timer or an event")
        }
        (Cause::Call, name) => {
            let of = name.map_or_else(String::new, |name| format!(" of `{name}`"));
            format!("the handler waited up to {most} for a reply{of}")
        }
        (Cause::Queue, _) => {
            format!("the handler was ready for up to {most} while `{to}` ran other tasks")
        }
        (Cause::Pause, name) => format!("`{}` took up to {most}", name.unwrap_or("a step")),
    };
    Finding {
        level: Level::Note,
        subject: None,
        title: format!("{}: {what}", subject.title()),
        detail: how_often(subject, delay),
        weight: delay.max,
    }
}

/// Describes a bet that a node loses too often.
fn lost(recording: &Recording, node: &Node, bet: &'static Bet) -> Option<Finding> {
    let row = Row::of(node, bet);
    let (taken, of_hundred) = (row.taken()?, row.percent()?);
    let part = of_hundred / 100.0;
    if taken < TAKEN_LEAST || part < LOST_PART {
        return None;
    }
    let title = format!(
        "`{}` lost {} of its bets on {}: {}",
        node.name,
        percent(of_hundred),
        bet.name,
        reasons(node, bet)
    );
    let detail = format!(
        "The bet: {} Taken {} times and lost {} times {}.",
        bet.sentence,
        grouped(taken),
        grouped(row.lost),
        since(recording)
    );
    Some(Finding { level: Level::Note, subject: None, title, detail, weight: part })
}

/// Returns the words for the time to which counters refer.
pub(crate) fn since(recording: &Recording) -> &'static str {
    match recording.before.included {
        true => "since the nodes started",
        false => "while they were observed",
    }
}

/// Describes futures that kept the thread of their node, and calls that ended without a result.
fn events(recording: &Recording) -> Vec<Finding> {
    let late = |title, detail, weight| {
        let (level, subject) = (Level::Late, None);
        Finding { level, subject, title, detail, weight }
    };
    let kept = |one: &KeptThread| {
        let (longest, times) = (time(one.longest), counted(one.count, "time", "times"));
        let (title, node) = (one.title(), &one.node);
        match one.blocked {
            0 => late(
                format!("{title} kept the thread of `{node}` for up to {longest} without a pause"),
                format!(
                    "{times} since the node started, beyond its budget of {}. Write `upbeat::compute(move || …).await` \
                     for a long computation, or `upbeat::checkpoint().await` in its loops.",
                    time(one.budget)
                ),
                one.longest,
            ),
            blocked => late(
                format!("{title} blocked the thread of `{node}`, for up to {longest}"),
                format!(
                    "{times} since the node started, of which {} in system calls, while the node served nobody else. \
                     Write `upbeat::sleep(…).await` for `std::thread::sleep`, a type of `upbeat::sync` for one of \
                     `std::sync`, and `upbeat::compute(move || …).await` around work with files and sockets.",
                    grouped(blocked)
                ),
                one.longest,
            ),
        }
    };
    let ended = |one: &Ended| {
        let Ended { from, to, service, method, calls, .. } = one;
        let words = BadEnd::ALL.into_iter().find(|end| end.name() == one.how);
        let words = words.map_or("ended without a result", BadEnd::words);
        let calls = counted(*calls, "sampled call", "sampled calls");
        late(
            format!("{calls} of {service}.{method} from `{from}` to `{to}` {words}"),
            format!(
                "After {} at the median, and {} at most. No other figure includes these calls.",
                time(one.p50),
                time(one.max)
            ),
            one.max,
        )
    };
    recording.kept.iter().map(kept).chain(recording.ended.iter().map(ended)).collect()
}

/// Lists the reasons for which a bet was lost, with their counts, the most frequent first.
pub(crate) fn reasons(node: &Node, bet: &Bet) -> String {
    let mut reasons: Vec<(u64, &str)> =
        bet.lost.iter().map(|(counter, why)| (node.count(*counter), *why)).collect();
    reasons.retain(|(count, _)| *count > 0);
    reasons.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let told: Vec<String> =
        reasons.iter().map(|(count, why)| format!("{why} ({})", grouped(*count))).collect();
    told.join(", ")
}

fn missed(recording: &Recording) -> Vec<Finding> {
    let note = |title, detail: &str| Finding {
        level: Level::Note,
        subject: None,
        title,
        detail: detail.into(),
        weight: 0.0,
    };
    let (missed, samples) = (recording.missed, recording.samples());
    let mut found = Vec::new();
    if missed.overwritten.saturating_mul(10) > samples {
        let samples = counted(missed.overwritten, "sample was", "samples were");
        found.push(note(
            format!("{samples} overwritten before being read"),
            "The figures include only the samples that were read. Sample fewer messages to keep all samples.",
        ));
    }
    if missed.unusable > 0 {
        let samples = counted(missed.unusable, "sample is", "samples are");
        found.push(note(
            format!("{samples} not included: this version cannot read them"),
            "Use the `upbeat` of the version with which the program was built.",
        ));
    }
    if missed.unnamed > 0 {
        let samples = counted(missed.unnamed, "sample has", "samples have");
        found.push(note(
            format!("{samples} no name, and no figure includes them: the table of names of a node is full"),
            "A node has room for 256 names of peers with their methods, and of locks. Restart it to empty the table.",
        ));
    }
    let nodes = recording.nodes.iter();
    for node in nodes {
        let (taken, lost) = (node.count(Counter::SamplesTaken), node.count(Counter::SamplesLost));
        if lost.saturating_mul(10) > taken {
            found.push(note(
                format!("`{}` lost {} {}", node.name, counted(lost, "sample", "samples"), since(recording)),
                "A stamp or the room for it was missing: of messages that were refused at first, of more than 1,024 \
                 sampled calls that were open at once in a session, and where lanes were full. Sample fewer messages.",
            ));
        }
        if node.ended {
            found.push(note(
                format!("`{}` (process {}) has ended while it was observed", node.name, node.pid),
                "The figures include what it recorded until then.",
            ));
        }
        if node.counters.is_none() {
            found.push(note(
                format!(
                    "the counters of `{}` are left out, and its bets with them: it has others",
                    node.name
                ),
                "Use the `upbeat` of the version with which the program was built.",
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests;
