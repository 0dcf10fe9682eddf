//! Reads of variables that another process exports, beside bare loads and copies of the same bytes.
//!
//! The second process owns the variables. A read and the bare load beside it are of the same kind of memory, in slices of
//! the same rounds. Each value that is read is used: it is the index of the next, or is compared with the owner's.

pub mod layout;
mod beside;
mod owner;
mod reader;
mod targets;

use crate::bench::control::{Control, Job};
use crate::bench::error::BenchError;
use crate::bench::ground::{self, Ground};
use crate::bench::pair::{Pair, Server};
use crate::bench::rounds::{Floor, Subject};
use crate::bench::timing::{Round, Shape, Work};
use layout::{DIRTY, LARGE, ROWS, Readers, SMALL, bare_bytes};
use owner::{BARE, Owner};
use reader::{Asked, Reader, StreamReader};
use std::cell::OnceCell;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use upbeat_memory::region::Region;

pub(crate) use targets::{NOTES, tell};

/// The name of this benchmark.
pub(crate) const BENCH: &str = "read";

/// The job of the second process while the first one imports.
const SERVE: &str = "serve";

/// The updates that the owner makes in a batch.
const UPDATES: u32 = 512;

/// The reads of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A number that the owner leaves as it is.
    Quiet,
    /// A number that the owner has just written.
    Dirty,
    /// So many bytes as one value.
    Bytes(usize),
    /// A field of a row of an array with so many.
    Field(usize),
    /// The whole array.
    Structure(usize),
    /// The owner's updates beside reading threads, and bare stores beside threads that load.
    Owner(Readers),
    /// A call to the owner over a byte stream.
    Stream(Asked),
}

/// A case: its path, its reads, and the path of the case that it is compared with.
struct Case {
    path: String,
    about: String,
    kind: Kind,
    baseline: Option<&'static str>,
}

/// Returns all cases in the order in which they are measured. A baseline precedes the cases that are compared with it.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |path: &str, about: &str, kind, baseline| {
        cases.push(Case { path: path.to_owned(), about: about.to_owned(), kind, baseline });
    };
    add("8B/quiet", "a number of another process, beside a bare load", Kind::Quiet, None);
    add("8B/dirty", "the same in lines that the owner has just written", Kind::Dirty, None);
    add("1KiB/quiet", "1 KiB as one value, beside a bare copy", Kind::Bytes(SMALL), None);
    add("64KiB/quiet", "64 KiB as one value, beside a bare copy", Kind::Bytes(LARGE), None);
    for rows in ROWS {
        let about = format!("a field of a row of an array of {rows}, beside a bare load");
        add(&format!("a[i].f/{rows}"), &about, Kind::Field(rows), None);
    }
    for rows in ROWS {
        let about = format!("an array of {rows} rows as one value");
        add(&format!("whole/{rows}"), &about, Kind::Structure(rows), Some("a[i].f/10"));
    }
    let alone = Kind::Owner(Readers { threads: 0, is_apart: false });
    add("owner/0-readers", "the owner's update of a row, beside bare stores", alone, None);
    for threads in [1, 100] {
        for (is_apart, rows) in [(false, "the same rows"), (true, "other rows of the export")] {
            let about = format!("the same while threads read {rows}: {threads}");
            let path = format!("owner/{threads}-readers{}", if is_apart { "/apart" } else { "" });
            let kind = Kind::Owner(Readers { threads, is_apart });
            add(&path, &about, kind, Some("owner/0-readers"));
        }
    }
    add(
        "stream/null",
        "a null call over a byte stream, both polling",
        Kind::Stream(Asked::Nothing),
        None,
    );
    let about = "a read of a number over a byte stream, both polling";
    add("stream/number", about, Kind::Stream(Asked::Number), Some("stream/null"));
    let about = "a read of 8 bytes of an array over a byte stream, both polling";
    add("stream/qualified", about, Kind::Stream(Asked::Element), Some("stream/null"));
    let about = "a read of an element whose index is another number there, both polling";
    add("stream/routed", about, Kind::Stream(Asked::Routed), Some("stream/null"));
    let about = "a read of 8 bytes of an array that a lock guards at its owner, both polling";
    let kind = Kind::Stream(Asked::GuardedElement);
    add("stream/synchronised", about, kind, Some("stream/qualified"));
    cases
}

/// Returns the cases and their descriptions.
pub fn list() -> Vec<(String, String)> {
    cases().into_iter().map(|case| (case.path, case.about)).collect()
}

/// Returns the chosen cases, and the cases that they are compared with.
pub fn subjects(
    pair: &Pair,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Box<dyn Subject>>, BenchError> {
    let [bare] = ground::receive(pair.control())?;
    let bare = ground::open(BARE, bare.as_fd(), bare_bytes())?;
    let all = cases();
    let baselines: Vec<&str> =
        all.iter().filter(|case| wanted(&case.path)).filter_map(|case| case.baseline).collect();
    let scratch = pair.scratch().to_owned();
    let stage = Rc::new(Stage { scratch, bare, reader: OnceCell::new(), stream: OnceCell::new() });
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for case in all {
        if wanted(&case.path) || baselines.contains(&case.path.as_str()) {
            subjects.push(Box::new(ReadSubject { case, stage: Rc::clone(&stage) }));
        }
    }
    Ok(subjects)
}

/// The readers of this process.
struct Stage {
    scratch: PathBuf,
    bare: Region,
    reader: OnceCell<Reader>,
    stream: OnceCell<StreamReader>,
}

impl Stage {
    fn reader(&self, pair: &mut Pair) -> Result<&Reader, BenchError> {
        imported(&self.reader, pair, || Reader::new(&self.scratch, &self.bare))
    }

    fn stream(&self, pair: &mut Pair) -> Result<&StreamReader, BenchError> {
        imported(&self.stream, pair, || StreamReader::new(&self.scratch))
    }
}

/// Returns the reader, which imports at the first use, while the owner serves.
fn imported<'s, T>(
    reader: &'s OnceCell<T>,
    pair: &mut Pair,
    open: impl FnOnce() -> Result<T, BenchError>,
) -> Result<&'s T, BenchError> {
    if reader.get().is_none() {
        let opened = pair.round(Job::Case(SERVE.to_owned()), Work::of(1, 1), |_| open())?;
        let _ = reader.set(opened);
    }
    reader.get().ok_or_else(|| BenchError::protocol("a reader is lost"))
}

/// A case as a subject.
struct ReadSubject {
    case: Case,
    stage: Rc<Stage>,
}

impl Subject for ReadSubject {
    fn case(&self) -> &str {
        &self.case.path
    }

    fn shape(&self) -> Shape {
        match self.case.kind {
            Kind::Dirty => Shape::Bursts(DIRTY.len as u32),
            Kind::Owner(_) => Shape::Bursts(UPDATES),
            _ => Shape::Each,
        }
    }

    fn floor(&self) -> Floor {
        match self.case.kind {
            Kind::Stream(_) => Floor::Lines,
            _ => Floor::Nothing,
        }
    }

    fn baseline(&self) -> Option<&str> {
        self.case.baseline
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let job = Job::Case(self.case.path.clone());
        let reader = self.stage.reader(pair)?;
        match self.case.kind {
            Kind::Quiet => reader.quiet(work),
            Kind::Bytes(SMALL) => reader.small(work),
            Kind::Bytes(_) => reader.large(work),
            Kind::Field(rows) => reader.field(rows, work),
            Kind::Owner(readers) => {
                let owner = pair.ground.theirs.clone();
                let rows = reader.updated(&owner);
                rows.read_beside(readers, work, || pair.round(job, work, |_| Ok(())))
            }
            Kind::Dirty => pair.round(job, work, |ground| reader.dirty(work, ground)),
            Kind::Structure(rows) => pair.round(job, work, |_| reader.structure(rows, work)),
            Kind::Stream(asked) => {
                let stream = self.stage.stream(pair)?;
                pair.round(job, work, |_| stream.round(asked, work))
            }
        }
    }
}

/// The second process's side.
pub struct ReadServer {
    owner: Owner,
}

/// Creates the second process's side.
pub fn server(control: &Control, scratch: &Path) -> Result<ReadServer, BenchError> {
    Ok(ReadServer { owner: Owner::new(control, scratch)? })
}

impl Server for ReadServer {
    fn round(&mut self, case: &str, work: Work, ground: &mut Ground) -> Result<(), BenchError> {
        let kind = cases().into_iter().find(|one| one.path == case).map(|one| one.kind);
        match kind {
            Some(Kind::Dirty) => self.owner.write_dirty(work, ground),
            Some(Kind::Owner(_)) => self.owner.update(work, ground),
            Some(Kind::Structure(_) | Kind::Stream(_)) => self.owner.serve(),
            None if case == SERVE => self.owner.serve(),
            _ => {
                let what = format!("no read `{case}` needs a second process");
                return Err(BenchError::protocol(what));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::cases;
    use std::collections::BTreeSet;

    #[test]
    fn all_documented_cases_exist() {
        let all: BTreeSet<String> = cases().into_iter().map(|case| case.path).collect();
        assert_eq!(all.len(), cases().len(), "no path twice");
        for promised in [
            "8B/quiet",
            "8B/dirty",
            "1KiB/quiet",
            "64KiB/quiet",
            "a[i].f/10",
            "a[i].f/10000",
            "whole/10000",
            "owner/1-readers",
            "owner/100-readers",
            "owner/100-readers/apart",
            "stream/null",
            "stream/number",
            "stream/qualified",
            "stream/routed",
            "stream/synchronised",
        ] {
            assert!(all.contains(promised), "{promised}");
        }
    }

    #[test]
    fn a_baseline_precedes_the_cases_that_are_compared_with_it() {
        let all = cases();
        for (at, case) in all.iter().enumerate() {
            if let Some(base) = case.baseline {
                assert!(all[..at].iter().any(|one| one.path == base), "{}", case.path);
            }
        }
    }
}
