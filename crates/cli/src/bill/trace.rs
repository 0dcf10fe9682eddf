//! A recording as a trace for Perfetto and chrome://tracing: each message as spans on the tracks of its
//! two nodes, with arrows from node to node.
//!
//! Invariant: spans of one track are nested or do not overlap. Messages that overlap have separate
//! tracks.

use crate::bill::recording::{MessageTimes, Recording, Subject};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use upbeat_core::bill::timeline::{Leg, Step, steps};

/// Returns the trace as JSON.
pub(crate) fn trace(recording: &Recording) -> Value {
    let mut nodes = Nodes::default();
    let mut events = Vec::new();
    let mut told: Vec<(&Subject, &MessageTimes)> = recording
        .subjects
        .iter()
        .flat_map(|subject| subject.told.iter().map(move |told| (subject, told)))
        .collect();
    told.sort_by(|one, other| one.1.began_ns.total_cmp(&other.1.began_ns));
    for (number, (subject, told)) in told.into_iter().enumerate() {
        message(&mut nodes, number + 1, subject, told, &mut events);
    }
    // An outer span comes before the spans that it contains.
    let start = |event: &Value| event["ts"].as_f64().unwrap_or(0.0);
    let length = |event: &Value| event["dur"].as_f64().unwrap_or(0.0);
    events.sort_by(|one, other| {
        start(one).total_cmp(&start(other)).then(length(other).total_cmp(&length(one)))
    });
    let mut all = nodes.names();
    all.append(&mut events);
    json!({"traceEvents": all, "displayTimeUnit": "ns"})
}

/// The number of each node, and the end of the last span on each of its tracks.
#[derive(Default)]
struct Nodes<'a>(BTreeMap<&'a str, (usize, Vec<f64>)>);

impl<'a> Nodes<'a> {
    /// Returns the number of a node and of one of its tracks that is free in this time.
    fn track(&mut self, node: &'a str, (from, to): (f64, f64)) -> (usize, usize) {
        let number = self.0.len() + 1;
        let (number, ends) = self.0.entry(node).or_insert((number, Vec::new()));
        let free = ends.iter().position(|end| *end <= from).unwrap_or_else(|| {
            ends.push(0.0);
            ends.len() - 1
        });
        ends[free] = to;
        (*number, free + 1)
    }

    fn names(&self) -> Vec<Value> {
        let name = |(name, (number, _)): (&&str, &(usize, Vec<f64>))| json!({"ph": "M", "name": "process_name", "pid": number, "tid": 0, "args": {"name": name}});
        self.0.iter().map(name).collect()
    }
}

/// Converts nanoseconds to microseconds with three decimals, so that a span ends where its last part ends.
fn us(ns: f64) -> f64 {
    ns.round() / 1e3
}

fn message<'a>(
    nodes: &mut Nodes<'a>,
    number: usize,
    subject: &'a Subject,
    told: &MessageTimes,
    events: &mut Vec<Value>,
) {
    let began = told.began_ns;
    let steps = steps(subject.way, &told.phases);
    let there: Vec<&Step> = steps.iter().filter(|step| step.leg == Leg::Callee).collect();
    let title = subject.title();
    let (from, to) = (us(began), us(began + told.total()));
    let caller = nodes.track(&subject.from, (from, to));
    let mut happened: Vec<String> = told.events().map(str::to_owned).collect();
    happened.extend(told.named().map(|(word, name)| format!("{word} {name}")));
    let args = json!({"to": subject.to, "way": subject.way.name, "happened": happened.join(", ")});
    events.push(span(caller, &title, "message", (from, to), args));
    let at = |step: &Step| (us(began + step.from), us(began + step.from + step.took));
    for step in steps.iter().filter(|step| step.leg != Leg::Callee) {
        events.push(span(caller, step.item.name(), step.leg.name(), at(step), json!({})));
    }
    let (Some(first), Some(last)) = (there.first(), there.last()) else { return };
    let (came, left) = (at(first).0, at(last).1);
    let callee = nodes.track(&subject.to, (came, left));
    let args = json!({"from": subject.from});
    events.push(span(callee, &title, "handler", (came, left), args));
    for step in &there {
        events.push(span(callee, step.item.name(), step.leg.name(), at(step), json!({})));
    }
    let crossing = |ph: &str, id: String, (pid, tid): (usize, usize), ts: f64| json!({"ph": ph, "bp": "e", "id": id, "name": "message", "cat": "wire", "pid": pid, "tid": tid, "ts": ts});
    // An arrow goes from the step that sends to the step that receives.
    let here = |after: bool| {
        let there = first.from;
        let side = move |step: &&Step| step.leg == Leg::Caller && (step.from > there) == after;
        steps.iter().filter(side)
    };
    let sent = here(false).next_back().map_or(from, |step| at(step).0);
    events.push(crossing("s", format!("{number}o"), caller, sent));
    events.push(crossing("f", format!("{number}o"), callee, came));
    if let Some(taken) = here(true).next() {
        events.push(crossing("s", format!("{number}b"), callee, at(last).0));
        events.push(crossing("f", format!("{number}b"), caller, at(taken).0));
    }
}

fn span(
    (pid, tid): (usize, usize),
    name: &str,
    category: &str,
    (from, to): (f64, f64),
    args: Value,
) -> Value {
    // The unit of a trace is a thousandth of a microsecond.
    let dur = ((to - from) * 1e3).round() / 1e3;
    json!({
        "ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, "ts": from, "dur": dur,
        "args": args,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::example;

    fn events() -> Vec<Value> {
        trace(&example::recording())["traceEvents"].as_array().unwrap().clone()
    }

    #[test]
    fn spans_of_a_track_are_nested_and_in_order() {
        let mut open: BTreeMap<(u64, u64), Vec<f64>> = BTreeMap::new();
        let mut last = 0.0;
        let spans = events();
        let spans: Vec<&Value> = spans.iter().filter(|event| event["ph"] == "X").collect();
        assert!(spans.len() > 1_000, "{}", spans.len());
        for span in spans {
            let (from, dur) = (span["ts"].as_f64().unwrap(), span["dur"].as_f64().unwrap());
            assert!(from >= last && dur >= 0.0, "{span}");
            last = from;
            let track = (span["pid"].as_u64().unwrap(), span["tid"].as_u64().unwrap());
            let open = open.entry(track).or_default();
            open.retain(|end| *end > from + 1e-6);
            assert!(open.iter().all(|end| from + dur <= end + 2e-3), "{span}");
            open.push(from + dur);
        }
    }

    #[test]
    fn nodes_have_names_and_arrows_have_two_ends() {
        let events = events();
        let names = events.iter().filter(|event| event["ph"] == "M");
        let names: Vec<&str> = names.map(|event| event["args"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["bank", "desk", "quotes", "sink"]);
        let ids = |ph: &str| {
            let ends = events.iter().filter(|event| event["ph"] == ph);
            let mut ids: Vec<String> = ends.map(|event| event["id"].to_string()).collect();
            ids.sort();
            ids
        };
        assert!(!ids("s").is_empty());
        assert_eq!(ids("s"), ids("f"));
    }

    #[test]
    fn messages_that_overlap_have_tracks_of_their_own() {
        let mut nodes = Nodes::default();
        assert_eq!(nodes.track("a", (0.0, 10.0)), (1, 1));
        assert_eq!(nodes.track("a", (5.0, 8.0)), (1, 2));
        assert_eq!(nodes.track("b", (5.0, 8.0)), (2, 1));
        assert_eq!(nodes.track("a", (8.0, 9.0)), (1, 2));
        assert_eq!(nodes.track("a", (10.0, 11.0)), (1, 1));
    }
}
