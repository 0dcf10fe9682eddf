//! A message as text, with a line for each phase and a bar that shows its place in time.
//!
//! `upbeat bill --timeline` draws messages of running programs so, and a simulated world those of a program that has
//! failed. Invariant: no drawn phase is outside of its message.

use super::Item;
use super::way::{MessageEvents, Phase, Place, Way};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The width of a bar, in characters.
const WIDTH: usize = 48;
/// The shortest phase that is shown, in nanoseconds. The time of stamps is already subtracted.
const SHOWN_NS: f64 = 0.05;

/// A section of a message's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leg {
    /// The node that calls or sends.
    Caller,
    /// The way from the caller to the callee.
    Out,
    /// The node that receives.
    Callee,
    /// The way from the callee back to the caller.
    Back,
}

impl Leg {
    /// All sections, in order.
    pub const ALL: [Leg; 4] = [Leg::Caller, Leg::Out, Leg::Callee, Leg::Back];

    /// Returns the name of the leg, in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Leg::Caller => "caller",
            Leg::Out => "out",
            Leg::Callee => "callee",
            Leg::Back => "back",
        }
    }

    /// Returns the leg of each phase of a way.
    pub fn of(way: &Way) -> impl Iterator<Item = Leg> + '_ {
        let mut arrived = false;
        way.phases.iter().map(move |phase| {
            arrived |= phase.place == Place::There;
            match phase.place {
                Place::Here => Leg::Caller,
                Place::There => Leg::Callee,
                Place::Wire if arrived => Leg::Back,
                Place::Wire => Leg::Out,
            }
        })
    }
}

/// A phase of one message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The item to which the phase is charged.
    pub item: Item,
    /// The section of the way in which the phase lies.
    pub leg: Leg,
    /// The beginning of the phase, in nanoseconds after the beginning of the message.
    pub from: f64,
    /// The duration of the phase, in nanoseconds.
    pub took: f64,
}

/// Returns the phases that are long enough to be shown, in order, given the nanoseconds of each phase of the way.
pub fn steps(way: &Way, took: &[f64]) -> Vec<Step> {
    let mut from = 0.0;
    let phases = way.phases.iter().zip(Leg::of(way)).zip(took);
    let step = |((phase, leg), took): ((&Phase, Leg), &f64)| {
        let step = Step { item: phase.item, leg, from, took: *took };
        from += took;
        step
    };
    phases.map(step).filter(|step| step.took >= SHOWN_NS).collect()
}

impl MessageEvents {
    /// Returns the names of these events.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let shown = MessageEvents::ALL.into_iter();
        shown.filter(move |(one, _)| self.has(*one)).map(|(_, name)| name)
    }

    /// Returns the kind of what the handler waited for longest: a condition, a node or a lock.
    pub const fn awaited(self) -> &'static str {
        match self {
            _ if self.has(MessageEvents::CONDITION) => "condition",
            _ if self.has(MessageEvents::CALL) => "node",
            _ => "lock",
        }
    }

    /// Returns the names of these events, and behind them the name of what the handler waited for longest.
    pub fn words(self, awaited: Option<&str>) -> Vec<String> {
        let named = awaited.map(|name| format!("{} `{name}`", self.awaited()));
        self.names().map(String::from).chain(named).collect()
    }
}

/// A message, drawn over its two nodes.
///
/// ```
/// use upbeat_core::bill::timeline::{Timeline, steps};
/// use upbeat_core::bill::way::ONEWAY;
///
/// let took = vec![50.0; ONEWAY.phases.len()];
/// let [title, from, to] = ["Log.note", "desk", "sink"].map(String::from);
/// let (took, steps) = (took.iter().sum(), steps(ONEWAY, &took));
/// let text = Timeline { title, from, to, took, happened: Vec::new(), steps }.to_string();
/// assert!(text.starts_with("Log.note: ") && text.contains("from `desk` (#)"), "{text}");
/// ```
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The service and the method.
    pub title: String,
    /// The node that calls or sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// The nanoseconds from beginning to end.
    pub took: f64,
    /// The words for the events of the message.
    pub happened: Vec<String>,
    /// The phases that are shown.
    pub steps: Vec<Step>,
}

/// Prints the lines without an end of the last one.
impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Timeline { title, from, to, .. } = self;
        let took = time(self.took);
        write!(f, "{title}: {took}")?;
        if !self.happened.is_empty() {
            write!(f, " ({})", self.happened.join(", "))?;
        }
        write!(f, "\n  from `{from}` (#) over the wire (~) to `{to}` (=)")?;
        if self.steps.is_empty() {
            return Ok(());
        }
        let node = |leg| match leg {
            Leg::Caller => from,
            Leg::Callee => to,
            Leg::Out | Leg::Back => "wire",
        };
        let nodes = self.steps.iter().map(|step| node(step.leg).chars().count());
        let (where_, wide) = ("where", nodes.max().unwrap_or(0).max("where".len()));
        let scale = WIDTH - 1;
        write!(f, "\n  {:>9}  {:>9}  {where_:<wide$}  {:<12}", "at", "took", "item")?;
        write!(f, "  |0{took:>scale$}|")?;
        for step in &self.steps {
            let (at, took) = (time(step.from), time(step.took));
            write!(f, "\n  {at:>9}  {took:>9}  {:<wide$}  {:<12}", node(step.leg), step.item)?;
            write!(f, "  {}", self.bar(step))?;
        }
        Ok(())
    }
}

impl Timeline {
    /// Returns the bar of a phase.
    fn bar(&self, step: &Step) -> String {
        let whole = self.took.max(f64::MIN_POSITIVE);
        let place = |at: f64| (at / whole * WIDTH as f64 + 0.5) as usize;
        let begin = place(step.from).min(WIDTH - 1);
        let end = place(step.from + step.took).clamp(begin + 1, WIDTH);
        let fill = match step.leg {
            Leg::Caller => "#",
            Leg::Out | Leg::Back => "~",
            Leg::Callee => "=",
        };
        format!("|{}{}{}|", " ".repeat(begin), fill.repeat(end - begin), " ".repeat(WIDTH - end))
    }
}

/// Formats nanoseconds in the unit that suits their number.
pub fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 999.5 => format!("{ns:.1} ns"),
        ns if ns < 999_500.0 => format!("{:.2} us", ns / 1e3),
        ns if ns < 999_500_000.0 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::way::CALL;

    #[test]
    fn a_message_without_phases_has_no_bars() {
        let [title, from, to] = ["Store.put", "desk", "store"].map(String::from);
        let happened = MessageEvents::PROMOTED.with(MessageEvents::CALL).words(Some("bank"));
        let mut message =
            Timeline { title, from, to, took: 2e6, happened, steps: steps(CALL, &[]) };
        let head = "Store.put: 2.00 ms (promoted, node `bank`)\n  from `desk` (#) over the wire (~) to `store` (=)";
        assert_eq!(message.to_string(), head);
        message.steps = steps(CALL, &[0.0, 1e6, 0.01, 1e6]);
        let text = message.to_string();
        let lines: Vec<&str> = text.strip_prefix(head).unwrap().lines().skip(2).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].contains(&format!("|{}{}|", "#".repeat(24), " ".repeat(24))), "{text}");
        assert!(lines[1].contains(&format!("|{}{}|", " ".repeat(24), "#".repeat(24))), "{text}");
        assert!(lines[1].starts_with("    1.00 ms    1.00 ms  desk   marshal "), "{text}");
    }

    #[test]
    fn units_suit_their_numbers() {
        assert_eq!(time(0.2), "0.2 ns");
        assert_eq!(time(999.4), "999.4 ns");
        assert_eq!(time(999.6), "1.00 us");
        assert_eq!(time(31_456.0), "31.46 us");
        assert_eq!(time(4.2e6), "4.20 ms");
        assert_eq!(time(4.2e9), "4.20 s");
    }
}
