//! What a check has to say about one place in the tree.

use std::fmt;

/// One thing that is wrong, or worth knowing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, relative to the root of the repository.
    pub(crate) path: String,
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// Whether it fails the run.
    pub(crate) weight: Weight,
    /// What is there.
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) remedy: String,
}

/// Whether a finding fails the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    /// It does.
    Error,
    /// It is only reported.
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
