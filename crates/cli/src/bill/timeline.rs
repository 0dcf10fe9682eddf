//! A message as text, with a line for each phase and a bar that shows its place in time.

use crate::bench::report::time;
use crate::bill::grid::grid;
use crate::bill::recording::{Leg, MessageTimes, Recording, Subject};
use std::io::{self, Write};

/// The width of a bar, in characters.
const WIDTH: usize = 48;

/// A phase of one message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) item: upbeat_core::bill::Item,
    pub(crate) leg: Leg,
    /// The beginning of the phase, in nanoseconds after the beginning of the message.
    pub(crate) from: f64,
    /// The duration of the phase, in nanoseconds.
    pub(crate) took: f64,
}

/// The shortest phase that is shown. The time of stamps is already subtracted.
const TOLD_NS: f64 = 0.05;

/// Returns the phases that are long enough to be shown, in order.
pub(crate) fn steps(subject: &Subject, told: &MessageTimes) -> Vec<Step> {
    let mut from = 0.0;
    let phases = subject.way.phases.iter().zip(Leg::of(subject.way)).zip(&told.phases);
    let step = |((phase, leg), took): ((&upbeat_core::bill::way::Phase, Leg), &f64)| {
        let step = Step { item: phase.item, leg, from, took: *took };
        from += took;
        step
    };
    phases.map(step).filter(|step| step.took >= TOLD_NS).collect()
}

/// Writes the typical and the slow message of each subject.
pub(crate) fn write(recording: &Recording, to: &mut impl Write) -> io::Result<()> {
    for subject in &recording.subjects {
        let messages =
            [("typical".to_owned(), subject.typical()), { (subject.slow_name(), subject.slow()) }];
        for (name, told) in messages {
            if let Some(told) = told {
                one(subject, &name, told, to)?;
            }
        }
    }
    Ok(())
}

fn one(subject: &Subject, name: &str, told: &MessageTimes, to: &mut impl Write) -> io::Result<()> {
    let Subject { from, to: callee, .. } = subject;
    let total = told.total();
    write!(to, "{} of {}: {}", name, subject.title(), time(total))?;
    let events: Vec<&str> = told.events().collect();
    let named = told.named().map(|(word, name)| format!("{word} `{name}`"));
    let events: Vec<&str> = events.into_iter().chain(named.as_deref()).collect();
    if !events.is_empty() {
        write!(to, " ({})", events.join(", "))?;
    }
    writeln!(to, "\n  from `{from}` (#) over the wire (~) to `{callee}` (=)")?;
    let row = |step: &Step| {
        let node = subject.node_of(step.leg).unwrap_or("wire").to_owned();
        let bar = bar(step, total);
        vec![time(step.from), time(step.took), node, step.item.name().into(), bar]
    };
    let rows: Vec<Vec<String>> = steps(subject, told).iter().map(row).collect();
    let scale = format!("|0{:>1$}|", time(total), WIDTH - 1);
    grid(&[">at", ">took", "where", "item", &scale], &rows, "  ", to)?;
    writeln!(to)
}

fn bar(step: &Step, total: f64) -> String {
    let place = |at: f64| ((at / total.max(f64::MIN_POSITIVE)) * WIDTH as f64).round() as usize;
    let begin = place(step.from).min(WIDTH - 1);
    let end = place(step.from + step.took).clamp(begin + 1, WIDTH);
    let fill = match step.leg {
        Leg::Caller => "#",
        Leg::Out | Leg::Back => "~",
        Leg::Callee => "=",
    };
    format!("|{}{}{}|", " ".repeat(begin), fill.repeat(end - begin), " ".repeat(WIDTH - end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::example;

    #[test]
    fn a_message_is_drawn_over_its_two_nodes() {
        let mut text = Vec::new();
        write(&example::recording(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("typical of Bank.transfer: "), "{text}");
        assert!(text.contains("(promoted, lock `accounts`)"), "{text}");
        let lines: Vec<&str> = text.lines().filter(|line| line.ends_with('|')).collect();
        let widths = lines.iter().map(|line| line.rsplit('|').nth(1).unwrap().chars().count());
        assert!(widths.clone().all(|width| width == WIDTH), "{text}");
        let lock = lines.iter().find(|line| line.contains(" lock ")).unwrap();
        assert!(lock.contains("bank") && lock.matches('=').count() > WIDTH / 2, "{lock}");
    }

    #[test]
    fn steps_follow_each_other() {
        for subject in &example::recording().subjects {
            for told in &subject.told {
                let steps = steps(subject, told);
                let ends =
                    steps.windows(2).all(|pair| pair[0].from + pair[0].took <= pair[1].from + 1e-6);
                assert!(ends, "{steps:?}");
            }
        }
    }
}
