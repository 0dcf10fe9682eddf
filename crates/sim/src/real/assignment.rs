//! The words by which a test tells a process of its own binary what it is.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A process of a test.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assignment {
    /// The process of the test itself.
    pub(crate) parent: u32,
    /// The number of the check, among those of the test.
    pub(crate) check: u32,
    /// The time at which the test has begun, since 1970.
    pub(crate) began: Duration,
    pub(crate) place: PathBuf,
    /// The name of the process.
    pub(crate) process: String,
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Assignment { parent, check, began, place, process } = self;
        write!(f, "{parent}\n{check}\n{}\n{}\n{process}", began.as_nanos(), place.display())
    }
}

impl Assignment {
    /// Reads what another process has written.
    pub(crate) fn read(text: &str) -> Option<Assignment> {
        let mut lines = text.splitn(5, '\n');
        Some(Assignment {
            parent: lines.next()?.parse().ok()?,
            check: lines.next()?.parse().ok()?,
            began: Duration::from_nanos(lines.next()?.parse().ok()?),
            place: lines.next()?.into(),
            process: lines.next()?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_read_as_it_was_written() {
        let assignment = Assignment {
            parent: 7,
            check: 2,
            began: Duration::from_nanos(1 << 60),
            place: "/tmp/a b".into(),
            process: "store\nof two lines".to_owned(),
        };
        assert_eq!(Assignment::read(&assignment.to_string()), Some(assignment));
        assert_eq!(Assignment::read("7\n2"), None);
    }
}
