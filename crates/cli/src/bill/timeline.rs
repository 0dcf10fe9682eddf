//! The typical and the slow message of each method, drawn over their two nodes.

use crate::bill::recording::{MessageTimes, Recording, Subject};
use std::io::{self, Write};
use upbeat_core::bill::timeline::{Timeline, steps};
use upbeat_core::bill::way::MessageEvents;

/// Writes the typical and the slow message of each subject.
pub(crate) fn write(recording: &Recording, to: &mut impl Write) -> io::Result<()> {
    for subject in &recording.subjects {
        let messages =
            [("typical".to_owned(), subject.typical()), { (subject.slow_name(), subject.slow()) }];
        for (name, told) in messages {
            if let Some(told) = told {
                writeln!(to, "{name} of {}\n", timeline(subject, told))?;
            }
        }
    }
    Ok(())
}

fn timeline(subject: &Subject, told: &MessageTimes) -> Timeline {
    Timeline {
        title: subject.title(),
        from: subject.from.clone(),
        to: subject.to.clone(),
        took: told.total(),
        happened: MessageEvents(told.happened).words(told.lock.as_deref()),
        steps: steps(subject.way, &told.phases),
    }
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
        let mut widths = lines.iter().map(|line| line.rsplit('|').nth(1).unwrap().chars().count());
        assert!(widths.all(|width| width == 48), "{text}");
        let lock = lines.iter().find(|line| line.contains(" lock ")).unwrap();
        assert!(lock.contains("bank") && lock.matches('=').count() > 24, "{lock}");
    }

    #[test]
    fn steps_follow_each_other() {
        for subject in &example::recording().subjects {
            for told in &subject.told {
                let steps = steps(subject.way, &told.phases);
                let ends =
                    steps.windows(2).all(|pair| pair[0].from + pair[0].took <= pair[1].from + 1e-6);
                assert!(ends, "{steps:?}");
            }
        }
    }
}
