//! A finding of a check about one place in the tree.

use std::fmt;

/// One problem, or a note.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, relative to the root of the repository.
    pub(crate) path: String,
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// Whether it fails the run.
    pub(crate) weight: Weight,
    /// The problem.
    pub(crate) what: String,
    /// The way to mend the problem.
    pub(crate) remedy: String,
}

/// Whether a finding fails the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    /// The finding fails the run.
    Error,
    /// The finding is only reported.
    Note,
}

impl Finding {
    pub(crate) fn error(
        path: &str,
        line: usize,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        let (what, remedy) = (what.into(), remedy.into());
        Finding { path: path.into(), line, weight: Weight::Error, what, remedy }
    }

    pub(crate) fn note(
        path: &str,
        line: usize,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding { weight: Weight::Note, ..Finding::error(path, line, what, remedy) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}\n    {}", self.path, self.line, self.what, self.remedy)
    }
}
