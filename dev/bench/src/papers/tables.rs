//! The tables: rows of the papers and today's measurements, side by side.
//!
//! Today's figures are those of the rows of one run; a case that the run has not measured has no
//! line. An item of a bill is charged to one row of each table and to no other.

use super::figures::Printed;
use super::figures::lynx::{self, DIFFERENCE, TIMELINE};
use super::figures::nectar::{BREAKUP, SUMMARY};
use super::report::Beside;
use serde::Serialize;
use upbeat_cli::bench::report::{Billed, BilledItem, Placement, Row, rounded};

/// A row of a paper's table, with today's figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Line {
    pub(super) bench: &'static str,
    pub(super) system: &'static str,
    pub(super) paper: &'static str,
    pub(super) table: &'static str,
    pub(super) row: &'static str,
    /// The unit of all figures: `ns`, `percent` and so on.
    pub(super) unit: &'static str,
    /// The paper's figure, if the paper has such a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) then: Option<f64>,
    /// Today's figure, if the case can be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) today: Option<f64>,
    /// The ratio of the paper's figure to today's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio: Option<f64>,
    /// Today's figure of each direction of a call, where they are separated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<f64>,
    /// In a timeline: the sum of the steps before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) begins: Option<f64>,
    /// In a timeline: `here`, `wire` or `there`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<&'static str>,
    #[serde(flatten)]
    pub(super) measured: Measured,
}

/// The measured case and its placement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Measured {
    pub(super) case: String,
    pub(super) placement: Placement,
    pub(super) cpus: [usize; 2],
}

impl Line {
    fn new(printed: &Printed, row: &Row, name: &'static str, today: Option<f64>) -> Line {
        let then = printed.value(name);
        Line {
            bench: super::BENCH,
            system: printed.system,
            paper: printed.paper,
            table: printed.table,
            row: name,
            unit: printed.unit.word(),
            then,
            today: today.map(rounded),
            ratio: then.zip(today).and_then(ratio),
            request: None,
            answer: None,
            begins: None,
            place: None,
            measured: Measured { case: row.case.clone(), placement: row.placement, cpus: row.cpus },
        }
    }

    /// Returns the line as those of other benchmarks, if it has a figure of today.
    pub(super) fn beside(&self) -> Option<Beside> {
        Some(Beside {
            system: self.system.to_owned(),
            table: self.table.to_owned(),
            row: self.row.to_owned(),
            then: self.then,
            today: self.today?,
            case: self.measured.case.clone(),
            placement: self.measured.placement.to_string(),
        })
    }

    /// Returns the line with another figure of the paper.
    fn with_then(mut self, then: f64) -> Line {
        self.then = Some(then);
        self.ratio = self.today.and_then(|today| ratio((then, today)));
        self
    }
}

/// Smaller values, in nanoseconds or percent, count as nothing.
const LEAST: f64 = 0.2;

fn ratio((then, today): (f64, f64)) -> Option<f64> {
    (today >= LEAST).then(|| rounded(then / today))
}

/// The tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// LYNX's nullop and bigop.
    Times,
    /// LYNX's timeline of one invocation.
    Timeline,
    /// Nectar's breakdown of a latency, and the same in percent.
    Breakdown,
}

/// LYNX's rows and the cases that correspond to them.
const TIMES: &[(&str, &str)] = &[
    ("nullop, different nodes", "nullop/shared/polling"),
    ("nullop, different nodes", "nullop/shared/sleeping"),
    ("nullop, same node", "nullop/shared/one-cpu"),
    ("bigop, different nodes", "bigop/shared/polling"),
    ("bigop, different nodes", "bigop/shared/sleeping"),
    ("bigop, same node", "bigop/shared/one-cpu"),
];

const TIMELINES: &[&str] = &["null/shared/polling", "null/shared/sleeping"];

/// The transports, polling and sleeping.
const TRANSPORTS: &[&str] =
    &["null/shared/polling", "null/local/polling", "null/shared/sleeping", "null/local/sleeping"];

impl Table {
    pub(super) const ALL: [Table; 3] = [Table::Times, Table::Timeline, Table::Breakdown];

    /// Returns the table's path.
    pub(super) fn path(self) -> &'static str {
        match self {
            Table::Times => "lynx/times",
            Table::Timeline => "lynx/timeline",
            Table::Breakdown => "nectar/breakdown",
        }
    }

    /// Returns the table's description.
    pub(super) fn about(self) -> &'static str {
        match self {
            Table::Times => "LYNX's nullop and bigop, with a task for each request",
            Table::Timeline => "a timeline of one call as in LYNX's figure 4, and its sum",
            Table::Breakdown => "Nectar's breakdown of a latency, beside each transport's",
        }
    }

    /// Returns the cases that the table needs.
    pub(super) fn cases(self) -> Vec<&'static str> {
        match self {
            Table::Times => TIMES.iter().map(|(_, case)| *case).collect(),
            Table::Timeline => TIMELINES.to_vec(),
            Table::Breakdown => TRANSPORTS.to_vec(),
        }
    }

    /// Returns the table's lines, in groups that belong together, as far as these rows, which are of one
    /// placement, have the figures.
    pub(super) fn groups(self, rows: &[&Row]) -> Vec<Vec<Line>> {
        let find = |case: &str| rows.iter().find(|row| row.case == case).copied();
        let billed = |case: &&str| find(case).and_then(|row| Some((row, row.bill.as_ref()?)));
        let mut groups: Vec<Vec<Line>> = match self {
            Table::Times => vec![times(&find)],
            Table::Timeline => {
                TIMELINES.iter().filter_map(billed).map(|(row, bill)| timeline(row, bill)).collect()
            }
            Table::Breakdown => {
                let all = TRANSPORTS.iter().filter_map(billed);
                all.flat_map(|(row, bill)| [breakup(row, bill), summary(row, bill)]).collect()
            }
        };
        groups.retain(|lines| !lines.is_empty());
        groups
    }
}

fn times<'a>(find: &dyn Fn(&str) -> Option<&'a Row>) -> Vec<Line> {
    let line = |(name, case): &(&'static str, &str)| {
        find(case).map(|row| Line::new(&lynx::TIMES, row, name, Some(row.p50_ns)))
    };
    TIMES.iter().filter_map(line).collect()
}

/// Returns the items in order, then their sum beside the measured time.
fn timeline(row: &Row, billed: &Billed) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut begins = 0.0;
    for BilledItem { item, place, ns, .. } in &billed.items {
        let line = Line::new(&TIMELINE, row, item, Some(*ns));
        lines.push(Line { begins: Some(rounded(begins)), place: Some(place), ..line });
        begins += ns;
    }
    let (sum, measured) = (billed.sum_ns, billed.measured_ns);
    lines.push(Line::new(&TIMELINE, row, "sum of the timeline", Some(sum)));
    lines.push(Line::new(&TIMELINE, row, "measured", Some(measured)));
    let difference = 100.0 * (sum - measured).abs() / measured;
    lines.push(Line::new(&DIFFERENCE, row, "difference", Some(difference)));
    lines
}

/// The row of Nectar to which an item belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    SendDatalink,
    SendTransport,
    SendMailbox,
    /// The sending of a reply, which is one item.
    SendAnswer,
    Datalink,
    Transport,
    Mailbox,
    Context,
    Handler,
}

/// Returns the row to which an item is charged. Waiting and waking of threads are
/// context switches: Nectar's interrupts, conditions, threads and register windows.
fn part(item: &str) -> Part {
    match item {
        "claim" | "copy" | "publish" => Part::SendDatalink,
        "room" | "flow control" => Part::SendTransport,
        "marshal" => Part::SendMailbox,
        "reply" => Part::SendAnswer,
        "wire" => Part::Datalink,
        "check" | "dispatch" => Part::Transport,
        "notice" | "decode" => Part::Mailbox,
        "execute" => Part::Handler,
        _ => Part::Context,
    }
}

/// Returns the time of the request and of the reply in some parts.
fn directions(billed: &Billed, parts: &[Part]) -> [f64; 2] {
    let mut took = [0.0, 0.0];
    let mut answered = false;
    for BilledItem { item, place, ns, .. } in &billed.items {
        answered |= *item == "reply" || *place == "here" && !is_of_sending(item);
        if parts.contains(&part(item)) {
            took[usize::from(answered)] += ns;
        }
    }
    took
}

fn is_of_sending(item: &str) -> bool {
    matches!(part(item), Part::SendDatalink | Part::SendTransport | Part::SendMailbox)
}

const SENDING: &[Part] =
    &[Part::SendDatalink, Part::SendTransport, Part::SendMailbox, Part::SendAnswer];

/// Nectar's table 3-1: half of a round trip, so that today's figure is the mean of the directions
/// where both are known.
fn breakup(row: &Row, billed: &Billed) -> Vec<Line> {
    let of_request = |name, parts: &[Part]| {
        let [request, _] = directions(billed, parts);
        let line = Line::new(&BREAKUP, row, name, Some(request));
        Line { request: Some(rounded(request)), ..line }
    };
    let of_both = |name, parts: &[Part]| {
        let [request, answer] = directions(billed, parts);
        let line = Line::new(&BREAKUP, row, name, Some((request + answer) / 2.0));
        Line { request: Some(rounded(request)), answer: Some(rounded(answer)), ..line }
    };
    let contexts = ["receive: interrupt", "receive: cond", "receive: thread", "receive: register"];
    vec![
        of_request("send: datalink protocol", &[Part::SendDatalink]),
        of_request("send: transport protocol", &[Part::SendTransport]),
        of_request("send: mailbox put", &[Part::SendMailbox]),
        Line::new(&BREAKUP, row, "send: other", None),
        of_both("send, all of it", SENDING).with_then(BREAKUP.sum(&["send"])),
        of_both("receive: datalink protocol", &[Part::Datalink]),
        of_both("receive: transport protocol", &[Part::Transport]),
        of_both("receive: mailbox put + get", &[Part::Mailbox]),
        of_both("receive: context switching", &[Part::Context]).with_then(BREAKUP.sum(&contexts)),
        of_both("handler", &[Part::Handler]),
        Line::new(&BREAKUP, row, "total", Some(billed.sum_ns / 2.0)),
        Line::new(&BREAKUP, row, "measured", Some(billed.measured_ns / 2.0))
            .with_then(BREAKUP.sum(&["total"])),
    ]
}

/// Nectar's table 3-4: the share of each purpose in the round trip.
fn summary(row: &Row, billed: &Billed) -> Vec<Line> {
    let line = |name, parts: &[Part]| {
        let took: f64 = directions(billed, parts).iter().sum();
        Line::new(&SUMMARY, row, name, Some(100.0 * took / billed.sum_ns))
    };
    vec![
        line("datalink protocol", &[Part::SendDatalink, Part::Datalink]),
        line("transport protocol", &[Part::SendTransport, Part::Transport]),
        line("mailbox", &[Part::SendMailbox, Part::Mailbox]),
        line("context switching", &[Part::Context]),
        line("sending an answer", &[Part::SendAnswer]),
        line("handler", &[Part::Handler]),
    ]
}

#[cfg(test)]
mod tests;
