//! The comparison of two recordings.

use crate::bill::recording::{Recording, Subject};
use serde::Serialize;

/// A subject that both recordings have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Compared {
    /// The service and method.
    pub(crate) title: String,
    /// The calling node in the new recording.
    pub(crate) from: String,
    /// The called node in the new recording.
    pub(crate) to: String,
    /// The figures of both recordings.
    pub(crate) rows: Vec<Row>,
}

/// A figure of both recordings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// The name of an item, or `mean`, `p50`, `p99`, `p99.9` for the whole time.
    pub(crate) name: &'static str,
    /// The name of the item's leg.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) leg: Option<&'static str>,
    /// The nanoseconds in the old recording.
    pub(crate) before: f64,
    /// The nanoseconds in the new recording.
    pub(crate) now: f64,
}

impl Row {
    /// Returns the change in percent, unless the old figure is zero.
    pub(crate) fn change(&self) -> Option<f64> {
        (self.before > 0.0).then(|| 100.0 * (self.now - self.before) / self.before)
    }
}

/// Compares the subjects that both recordings have, in the order of the new one.
pub(crate) fn compare(now: &Recording, before: &Recording) -> Vec<Compared> {
    now.subjects.iter().filter_map(|one| Some(of(one, partner(one, before)?))).collect()
}

/// Finds a subject in the old recording. The name of a client often contains its process number, so if no nodes
/// match, the method alone decides.
fn partner<'a>(subject: &Subject, before: &'a Recording) -> Option<&'a Subject> {
    let same = |one: &&Subject| {
        one.way == subject.way && one.service == subject.service && one.method == subject.method
    };
    let nodes = |one: &&Subject| one.from == subject.from && one.to == subject.to;
    let all = || before.subjects.iter().filter(same);
    all().find(nodes).or_else(|| all().next())
}

fn of(now: &Subject, before: &Subject) -> Compared {
    let whole = |name, of: fn(&Subject) -> Option<f64>| {
        Some(Row { name, leg: None, before: of(before)?, now: of(now)? })
    };
    // A percentile is compared only if both recordings have enough samples for it.
    let rows = [
        whole("mean", |one| Some(one.whole.mean)),
        whole("p50", |one| Some(one.whole.p50)),
        whole("p99", |one| one.whole.p99),
        whole("p99.9", |one| one.whole.p999),
    ];
    let mut rows: Vec<Row> = rows.into_iter().flatten().collect();
    for line in &now.lines {
        let old = before.lines.iter().find(|one| (one.item, one.leg) == (line.item, line.leg));
        let old = old.map_or(0.0, |one| one.ns.mean);
        if old != 0.0 || line.ns.mean != 0.0 {
            let (name, leg) = (line.item.name(), Some(line.leg.name()));
            rows.push(Row { name, leg, before: old, now: line.ns.mean });
        }
    }
    Compared { title: now.title(), from: now.from.clone(), to: now.to.clone(), rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::example;

    #[test]
    fn common_subjects_are_compared_line_by_line() {
        let before = example::recording();
        let mut now = before.clone();
        now.subjects.pop();
        now.subjects[0].from = "client/4711".into();
        now.subjects[0].whole.p50 *= 2.0;
        let compared = compare(&now, &before);
        assert_eq!(compared.len(), now.subjects.len());
        assert_eq!(compared[0].from, "client/4711");
        let row = |name| compared[0].rows.iter().find(|row| row.name == name).unwrap();
        let change = row("p50").change().unwrap();
        assert!((change - 100.0).abs() < 1e-9, "{change}");
        assert_eq!(row("mean").change(), Some(0.0));
        assert_eq!(row("wire").leg, Some("out"));
    }

    #[test]
    fn a_change_from_zero_has_no_percentage() {
        let row = Row { name: "lock", leg: None, before: 0.0, now: 5.0 };
        assert_eq!(row.change(), None);
    }
}
