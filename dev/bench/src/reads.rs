//! References to variables of another process, as chapters 5 and 6 of the paper on StarMod measure them.
//!
//! The second process exports the variables, and no round that reads memory alone needs it. Reads over a byte stream are
//! calls between two nodes that poll. The cases of the effects are those of `upbeat bench read`. The paper's figures stand
//! in `papers/figures`.

mod variables;
mod owner;
mod reader;
mod primitives;
mod renamed;
mod tell;

pub(crate) use tell::{lines, tell};

use owner::Owner;
use primitives::Primitive;
use reader::{PASS, Program, Reader, Tries, Way};
use renamed::Renamed;
use std::cell::OnceCell;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use upbeat_cli::bench::control::{Control, Job};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::ground::Ground;
use upbeat_cli::bench::pair::{Pair, Server};
use upbeat_cli::bench::read::{self, ReadServer};
use upbeat_cli::bench::report::Row;
use upbeat_cli::bench::rounds::{Floor, Subject};
use upbeat_cli::bench::timing::{Round, Shape, Work};
use variables::{OWNER, OWNER_APART, SIZES};

/// The name of this benchmark.
pub(crate) const BENCH: &str = "reads";

/// The jobs of the second process while the first one imports: in memory, and over a byte stream.
const OPEN: [&str; 2] = ["open", "open/apart"];

/// The two processes, or one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    /// One process.
    Local,
    /// Two processes that share memory.
    Shared,
    /// Two processes and a byte stream.
    Stream,
}

impl Where {
    const ALL: [Where; 3] = [Where::Local, Where::Shared, Where::Stream];

    fn word(self) -> &'static str {
        match self {
            Where::Local => "local",
            Where::Shared => "shared",
            Where::Stream => "stream",
        }
    }
}

/// The measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The paper's timing program without a reference.
    Loop,
    /// The paper's timing program with a variable of so many bytes.
    Reference(usize, Way),
    /// A local element that has the index of the next.
    Chain,
    /// The timing program with a number in memory, by a read that is awaited.
    Awaited,
    /// The timing program with a value whose owner changes it, so that each reference loses its bet.
    Reissued,
    /// Another primitive.
    Primitive(Primitive, Where),
    /// A case of `upbeat bench read`.
    Other(&'static str),
    /// A pass of the program.
    Program(Program, Where),
}

/// A case, and the path of the one that it is compared with.
struct Case {
    path: String,
    about: String,
    kind: Kind,
    baseline: Option<String>,
}

/// Returns all cases. A baseline precedes the cases that are compared with it.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |path: &str, about: &str, kind, baseline: Option<&str>| {
        let (path, about) = (path.to_owned(), about.to_owned());
        cases.push(Case { path, about, kind, baseline: baseline.map(str::to_owned) });
    };
    add("loop", "the timing program of the paper without a reference", Kind::Loop, None);
    for bytes in SIZES {
        for way in Way::ALL {
            let path = |way: Way| format!("{bytes}B/{}", way.word());
            let about = match way {
                Way::Local => format!("a variable of {bytes} bytes of this process is assigned"),
                Way::Shared => format!("one of {bytes} bytes of another process, in memory"),
                Way::Into => format!("{bytes} bytes in memory, read into a variable"),
                Way::Stream => format!("{bytes} bytes over a byte stream, both polling"),
            };
            let baseline = way.baseline().map(path);
            add(&path(way), &about, Kind::Reference(bytes, way), baseline.as_deref());
        }
    }
    add("chain/local", "an element that has the index of the next", Kind::Chain, None);
    let about = "the same of an array of another process, in memory";
    add("chain/shared", about, Kind::Other("8B/quiet"), Some("chain/local"));
    let about = "a number in memory, by a read that is awaited";
    add("awaited", about, Kind::Awaited, Some("8B/local"));
    let about = "a value that is changing, so that each read loses its bet and becomes a call";
    add("reissued", about, Kind::Reissued, Some("awaited"));
    for primitive in Primitive::ALL {
        for at in Where::ALL {
            let path = |at: Where| format!("{}/{}", primitive.word(), at.word());
            let about = match (primitive, at) {
                (Primitive::Call, Where::Local) => "a procedure with 2 bytes",
                (Primitive::Oneway, Where::Local) => "a task with 2 bytes, of 2,048",
                (Primitive::Item, Where::Local) => "an item of 8 bytes of a stream of this node",
                (Primitive::Call, _) => "a call with 2 bytes to another process",
                (Primitive::Oneway, _) => "a one-way message with 2 bytes, of 2,048",
                (Primitive::Item, _) => "an item of 8 bytes of a stream of another process",
            };
            let baseline = (at != Where::Local).then(|| path(Where::Local));
            add(&path(at), about, Kind::Primitive(primitive, at), baseline.as_deref());
        }
    }
    let about = "a null call over a byte stream, both polling";
    add("effect/null", about, Kind::Other("stream/null"), None);
    let about = "a read of a number, which is a whole export";
    add("effect/plain", about, Kind::Other("stream/number"), Some("effect/null"));
    let about = "a read of an element that the owner looks up: one level of qualification";
    add("effect/qualified", about, Kind::Other("stream/routed"), Some("effect/plain"));
    let about = "a read of an element whose place the reader knows";
    add("effect/element", about, Kind::Other("stream/qualified"), Some("effect/plain"));
    let about = "the same of a guarded export";
    add("effect/synchronised", about, Kind::Other("stream/synchronised"), Some("effect/element"));
    let local = Kind::Program(Program::Local, Where::Local);
    add("program/local", "a program of 10,000 references", local, None);
    for (word, about, program, at) in [
        ("shared", "1% of them to another process, in memory", Program::Remote, Where::Shared),
        (
            "failing",
            "1% of those lose their bets and become calls",
            Program::Failing,
            Where::Shared,
        ),
        ("stream", "1% of them to another process by a stream", Program::Remote, Where::Stream),
    ] {
        let kind = Kind::Program(program, at);
        add(&format!("program/{word}"), about, kind, Some("program/local"));
    }
    cases
}

/// Returns the cases and a description of each.
pub(crate) fn list() -> Vec<(String, String)> {
    cases().into_iter().map(|case| (case.path, case.about)).collect()
}

/// Returns the wanted cases, and those that they are compared with.
pub(crate) fn subjects(
    pair: &Pair,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Box<dyn Subject>>, BenchError> {
    let chosen = chosen(wanted);
    let is_other = |name: &str| chosen.iter().any(|case| case.kind.other() == Some(name));
    let mut others = read::subjects(pair, &is_other)?;
    let scratch = pair.scratch().to_owned();
    let stage = Rc::new(Stage { scratch, shared: OnceCell::new(), stream: OnceCell::new() });
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for case in chosen {
        let Some(name) = case.kind.other() else {
            let stage = Rc::clone(&stage);
            subjects.push(Box::new(ReadSubject { case, stage, failed: Tries::default() }));
            continue;
        };
        let at = others.iter().position(|other| other.case() == name);
        let at = at.ok_or_else(|| BenchError::protocol(format!("nobody reads `{name}`")))?;
        let Case { path, baseline, .. } = case;
        subjects.push(Box::new(Renamed { subject: others.swap_remove(at), path, baseline }));
    }
    Ok(subjects)
}

fn chosen(wanted: &dyn Fn(&str) -> bool) -> Vec<Case> {
    let all = cases();
    let of_wanted = all.iter().filter(|case| wanted(&case.path));
    let baselines: Vec<String> = of_wanted.filter_map(|case| case.baseline.clone()).collect();
    let is_chosen = |case: &Case| wanted(&case.path) || baselines.contains(&case.path);
    all.into_iter().filter(is_chosen).collect()
}

impl Kind {
    /// Returns the case of `upbeat bench read`, if it is one.
    fn other(self) -> Option<&'static str> {
        if let Kind::Other(name) = self { Some(name) } else { None }
    }
}

/// The readers of this process, each over one carrier.
struct Stage {
    scratch: PathBuf,
    shared: OnceCell<Reader>,
    stream: OnceCell<Reader>,
}

impl Stage {
    /// Returns a reader, which imports at the first use, while the owner serves.
    fn reader(&self, pair: &mut Pair, at: Where) -> Result<&Reader, BenchError> {
        let is_apart = at == Where::Stream;
        let reader = if is_apart { &self.stream } else { &self.shared };
        if let Some(reader) = reader.get() {
            return Ok(reader);
        }
        let opened =
            pair.round(Job::Case(OPEN[usize::from(is_apart)].to_owned()), Work::of(1, 1), |_| {
                Reader::new(&self.scratch, !is_apart)
            })?;
        Ok(reader.get_or_init(|| opened))
    }
}

/// A case as a subject.
struct ReadSubject {
    case: Case,
    stage: Rc<Stage>,
    /// The references that should lose their bets.
    failed: Tries,
}

impl Subject for ReadSubject {
    fn case(&self) -> &str {
        &self.case.path
    }

    fn shape(&self) -> Shape {
        match self.case.kind {
            Kind::Primitive(primitive, _) => primitive.shape(),
            _ => Shape::Each,
        }
    }

    fn floor(&self) -> Floor {
        Floor::Nothing
    }

    fn baseline(&self) -> Option<&str> {
        self.case.baseline.as_deref()
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let (kind, job) = (self.case.kind, Job::Case(self.case.path.clone()));
        let reader = self.stage.reader(pair, kind.place())?;
        match kind {
            Kind::Reference(bytes, Way::Stream) => {
                pair.round(job, work, |_| reader.refer(bytes, Way::Stream, work))
            }
            Kind::Reference(bytes, way) => reader.refer(bytes, way, work),
            Kind::Chain => reader.chain(work),
            Kind::Awaited => pair.round(job, work, |_| reader.awaited(work)),
            Kind::Reissued => pair.round(job, work, |_| reader.reissued(work, &mut self.failed)),
            Kind::Primitive(primitive, Where::Local) => primitive.local(reader, work),
            Kind::Primitive(primitive, _) => {
                pair.round(job, work, |_| primitive.remote(reader, work))
            }
            Kind::Program(program, _) => {
                pair.round(job, work, |_| reader.program(program, work, &mut self.failed))
            }
            Kind::Loop | Kind::Other(_) => {
                let nothing = 0_u64;
                Ok(work.run(|| _ = black_box(&nothing)))
            }
        }
    }

    fn finish(&mut self, row: &mut Row) {
        if let Kind::Reference(bytes, _) = self.case.kind {
            row.sizes.bytes = Some(bytes as u64);
        }
        row.traffic.called_percent = self.failed.called_percent();
    }
}

impl Kind {
    /// Returns whose reader is used.
    fn place(self) -> Where {
        match self {
            Kind::Reference(_, Way::Stream) => Where::Stream,
            Kind::Primitive(_, at) | Kind::Program(_, at) => at,
            _ => Where::Shared,
        }
    }
}

/// The second process's side.
pub(crate) struct ReadsServer {
    owner: Owner,
    apart: Owner,
    others: ReadServer,
}

/// Creates the second process's side.
pub(crate) fn server(control: &Control, scratch: &Path) -> Result<ReadsServer, BenchError> {
    let (owner, apart) = (Owner::new(OWNER, scratch)?, Owner::new(OWNER_APART, scratch)?);
    // The other side is told last, when everything is ready.
    let others = read::server(control, scratch)?;
    Ok(ReadsServer { owner, apart, others })
}

impl Server for ReadsServer {
    fn round(&mut self, case: &str, work: Work, ground: &mut Ground) -> Result<(), BenchError> {
        let kind = cases().into_iter().find(|one| one.path == case).map(|one| one.kind);
        match kind {
            Some(Kind::Program(Program::Failing, _) | Kind::Reissued) => self.owner.write(),
            Some(kind) if kind.place() == Where::Stream => self.apart.serve(),
            Some(_) => self.owner.serve(),
            None if case == OPEN[0] => self.owner.serve(),
            None if case == OPEN[1] => self.apart.serve(),
            None => return self.others.round(case, work, ground),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, cases, chosen, read};

    #[test]
    fn a_baseline_is_an_earlier_case() {
        let all = cases();
        for (at, case) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other.path != case.path), "{} twice", case.path);
            if let Some(baseline) = &case.baseline {
                assert!(all[..at].iter().any(|other| other.path == *baseline), "{}", case.path);
            }
        }
    }

    #[test]
    fn the_cases_of_another_benchmark_are_there_and_have_other_names() {
        let others: Vec<String> = read::list().into_iter().map(|(case, _)| case).collect();
        for case in cases() {
            assert!(!others.contains(&case.path), "{}", case.path);
            if let Kind::Other(name) = case.kind {
                assert!(others.iter().any(|other| other == name), "{name}");
            }
        }
    }

    #[test]
    fn a_case_is_measured_with_its_baseline() {
        let chosen = chosen(&|path: &str| path == "64B/into" || path == "effect/qualified");
        let paths: Vec<&str> = chosen.iter().map(|case| case.path.as_str()).collect();
        assert_eq!(paths, ["64B/shared", "64B/into", "effect/plain", "effect/qualified"]);
    }
}
