//! Readers: programs that open exports by name and type, and read parts, snapshots, changes and expressions, by loads where
//! they share memory with the owner, and by questions otherwise.

use std::rc::Rc;

use upbeat_core::channel::export::{Consistency, NotRead};

use super::super::{Fault, World};
use super::Exports;
use super::folding::Folding;
use super::form::Type;
use super::loads::{ATTEMPTS, Attempt};
use super::memory::View;
use super::questions::{Asked, Query, Question};
use crate::check::{Found, Source, Violation, violated};
use crate::plan::Ask;
use crate::value::{Path, Step};

/// A reader of exports of other nodes.
pub(super) struct Reader {
    pub(super) node: usize,
    pub(super) opened: Option<Opened>,
    pub(super) doing: Doing,
    /// The question that is not answered.
    pub(super) query: Option<usize>,
    /// Whether the reader reads no more, since all faults have ended.
    pub(super) is_last: bool,
}

/// An export that a reader has opened.
pub(super) struct Opened {
    pub(super) export: usize,
    pub(super) to: usize,
    pub(super) number: u32,
    pub(super) of: Rc<Type>,
    /// The reader's view of the memory, if owner and reader share memory.
    pub(super) view: Option<View>,
}

/// An act of a reader that is not done.
#[derive(Clone, Debug)]
pub(super) enum Doing {
    Nothing,
    Opening(Rc<Type>),
    Reading(Path),
    Snapshot(Snapshot),
    Watching(Watch),
    Folding(Folding),
    /// The reader has asked for a value behind a route.
    Following(Path),
    Hostile,
}

/// A snapshot by questions.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) paths: Vec<Path>,
    /// The runs so far, each of which has found parts of several moments.
    pub(super) runs: u32,
    /// The words that this run has found, with their versions.
    pub(super) found: Vec<(Vec<u64>, u64)>,
    /// The moment at which the run began.
    pub(super) since: u64,
}

/// A watch of a part.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub(super) path: Path,
    /// The value that came last, and its version.
    pub(super) last: Option<(Found, u64)>,
    /// The changes for which the reader still waits.
    pub(super) left: u64,
}

impl Reader {
    /// Creates a reader at a node, which has opened nothing.
    pub(super) fn new(node: usize) -> Reader {
        Reader { node, opened: None, doing: Doing::Nothing, query: None, is_last: false }
    }

    /// Returns whether the reader does nothing and waits for nothing.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.doing, Doing::Nothing) && self.query.is_none()
    }

    /// Returns the export that a reader watches by a question, and the value that it has.
    pub(super) fn watched(&self, query: usize) -> Option<(usize, &Found)> {
        match (&self.doing, &self.opened) {
            (Doing::Watching(Watch { last: Some((found, _)), .. }), Some(opened))
                if self.query == Some(query) =>
            {
                Some((opened.export, found))
            }
            _ => None,
        }
    }
}

impl Opened {
    /// Returns how the reader names a part to the owner.
    fn asked(&self, path: &[Step]) -> Asked {
        let place = self.of.form.place(path);
        Asked { part: place.part(), is_unit: place.form.is_unit() }
    }

    /// Returns the value of the words of a part, for the checker.
    pub(super) fn found(&self, path: &[Step], words: &[u64]) -> Result<Found, Violation> {
        let text = decoded(&self.of, path, words)?;
        Ok(Found { path: path.to_vec(), text, is_word: self.of.form.place(path).is_word() })
    }
}

/// Returns the value that the words of a part are, as text.
pub(super) fn decoded(of: &Type, path: &[Step], words: &[u64]) -> Result<String, Violation> {
    let text = of.form.path_text(path);
    let place = of.form.place(path);
    match of.shape.resolve(&text) {
        Ok(part)
            if part.part == place.part() && u32::from(part.shift) == place.shift.unwrap_or(0) =>
        {
            match part.value(words) {
                Ok(value) => Ok(value.to_string()),
                Err(rule) => violated(format!("{words:x?} are no value of {text}: {rule}")),
            }
        }
        other => violated(format!("{text} of {} leads to {other:?}, not to {place:?}", of.text)),
    }
}

impl Exports {
    /// Draws some paths of a type.
    fn any_paths(&mut self, of: &Type, many: u64) -> Vec<Path> {
        (0..many).map(|_| of.paths[self.random.index(of.paths.len())].clone()).collect()
    }
}

impl World {
    /// Has a reader go on for a while, unless it waits for an answer.
    pub(super) fn read_some(&mut self, reader: usize) -> Result<(), Fault> {
        for _ in 0..self.exports.random.within(1, 4) {
            self.read_on(reader)?;
        }
        Ok(())
    }

    /// Takes the next step of a reader, unless the reader waits for an answer.
    fn read_on(&mut self, reader: usize) -> Result<(), Fault> {
        if self.exports.readers[reader].query.is_some() {
            return Ok(());
        }
        match self.exports.readers[reader].doing.clone() {
            Doing::Nothing if self.healing => self.read_last(reader),
            Doing::Nothing => self.begin_to_read(reader),
            Doing::Snapshot(snapshot) => self.ask_for_snapshot(reader, snapshot),
            Doing::Watching(watch) => self.ask_for_change(reader, &watch),
            doing => violated(format!("reader {reader} waits for nothing: {doing:?}"))?,
        }
    }

    /// A reader that has an export reads its whole value once more, after all faults.
    fn read_last(&mut self, reader: usize) -> Result<(), Fault> {
        let it = &mut self.exports.readers[reader];
        if std::mem::replace(&mut it.is_last, true) {
            return Ok(());
        }
        let Some(opened) = &it.opened else { return Ok(()) };
        self.moved = true;
        if opened.view.is_some() && self.exports.all[opened.export].stands {
            self.check.exports.must_see_all(reader, opened.export);
        }
        self.read_part(reader, Path::new())
    }

    /// Draws the next act of a reader.
    fn begin_to_read(&mut self, reader: usize) -> Result<(), Fault> {
        let Some(opened) = &self.exports.readers[reader].opened else { return self.open(reader) };
        let of = Rc::clone(&opened.of);
        let is_raw = self.exports.all[opened.export].consistency == Consistency::Raw;
        match self.exports.random.below(if of.routes.is_empty() { 100 } else { 400 }) {
            100.. => {
                let path = of.any_route(&mut self.exports.random);
                self.read_route(reader, path)
            }
            0..6 => self.open(reader),
            6..40 => {
                let path = self.exports.any_paths(&of, 1).remove(0);
                self.read_part(reader, path)
            }
            // Parts of a raw export are not read as of one moment.
            40..60 if is_raw => Ok(()),
            40..60 => {
                let many = self.exports.random.within(2, 4);
                let paths = self.exports.any_paths(&of, many);
                self.read_snapshot(reader, paths)
            }
            60..70 => {
                let path = self.exports.any_paths(&of, 1).remove(0);
                let left = self.exports.random.within(1, 3);
                let watch = Watch { path, last: None, left };
                self.exports.readers[reader].doing = Doing::Watching(watch);
                self.read_on(reader)
            }
            70..83 => match Folding::draw(&of, &mut self.exports.random) {
                Some(folding) => self.fold(reader, folding),
                None => Ok(()),
            },
            _ => {
                let to = opened.to;
                let question = self.exports.hostile(to);
                self.counts.hostile += 1;
                self.exports.readers[reader].doing = Doing::Hostile;
                self.ask_owner(reader, to, question)
            }
        }
    }

    /// Opens an export by a name and the text of a type.
    fn open(&mut self, reader: usize) -> Result<(), Fault> {
        let node = self.exports.readers[reader].node;
        let peers: Vec<_> = self.peers(node).filter(|peer| self.plan.liar != Some(*peer)).collect();
        let random = &mut self.exports.random;
        let (mut to, mut name) = (random.pick(&peers), random.pick(&super::NAMES));
        let mut of = Rc::clone(&self.exports.types[random.index(self.exports.types.len())]);
        let standing: Vec<_> =
            self.exports.all.iter().filter(|it| it.stands && it.node != node).collect();
        if !standing.is_empty() && random.permille(800) {
            let exported = standing[random.index(standing.len())];
            (to, name, of) = (exported.node, exported.name, Rc::clone(&exported.of));
        }
        let question = Question::Open { name: name.to_owned(), text: of.text.clone() };
        self.exports.readers[reader].doing = Doing::Opening(of);
        self.ask_owner(reader, to, question)
    }

    /// Attempts to read in memory. `None` if that takes a question.
    pub(super) fn load<T>(
        &mut self,
        reader: usize,
        mut attempt: impl FnMut(&mut Attempt<'_>) -> Option<T>,
    ) -> Option<Result<T, NotRead>> {
        let Exports { all, readers, random, is_late, .. } = &mut self.exports;
        let Opened { export, view, .. } = readers[reader].opened.as_mut()?;
        let view = view.as_mut()?;
        let is_late = *is_late && !self.healing;
        for _ in 0..ATTEMPTS {
            let Some(mut run) = Attempt::begin(&all[*export], view, is_late, random) else {
                return Some(Err(NotRead::Ended));
            };
            if let Some(found) = attempt(&mut run) {
                self.counts.loads += 1;
                return Some(Ok(found));
            }
            self.counts.loads_lost += 1;
        }
        None
    }

    /// A reader finds in memory that the export has ended.
    pub(super) fn has_ended(&mut self, reader: usize, export: usize) -> Result<(), Fault> {
        self.exports.readers[reader].opened = None;
        Ok(self.check.exports.ended(export)?)
    }

    /// Reads a part: in memory, or by a question.
    fn read_part(&mut self, reader: usize, path: Path) -> Result<(), Fault> {
        let Some(opened) = &self.exports.readers[reader].opened else { return Ok(()) };
        let (export, to, number, of) =
            (opened.export, opened.to, opened.number, Rc::clone(&opened.of));
        let place = of.form.place(&path);
        let part = place.part();
        let words = part.at as usize..(part.at + part.words) as usize;
        // A number that has a word of its own needs no version.
        let versions = if place.is_word() { Vec::new() } else { place.versions() };
        let found = self.load(reader, |attempt| {
            if !attempt.may_read(&versions) {
                return None;
            }
            let words = words.clone();
            let found = attempt.read(&versions, |load| words.map(load).collect::<Vec<_>>());
            found.filter(|_| attempt.stands())
        });
        match found {
            Some(Ok(words)) => {
                let found = self.opened(reader)?.found(&path, &words)?;
                Ok(self.check.exports.found(reader, export, &[found], Source::Loaded)?)
            }
            Some(Err(_)) => self.has_ended(reader, export),
            None => {
                self.exports.readers[reader].doing = Doing::Reading(path);
                self.ask_owner(reader, to, Question::Read(number, part))
            }
        }
    }

    /// Reads several parts as of one moment.
    fn read_snapshot(&mut self, reader: usize, paths: Vec<Path>) -> Result<(), Fault> {
        let opened = self.opened(reader)?;
        let (export, of) = (opened.export, Rc::clone(&opened.of));
        let is_shared = opened.view.is_some();
        let found = self.load(reader, |attempt| {
            let read = |path: &Path| {
                let place = of.form.place(path);
                let words = place.at..place.at + place.form.words();
                attempt.read(&place.versions(), |load| words.map(load).collect::<Vec<_>>())
            };
            let found: Option<Vec<_>> = paths.iter().map(read).collect();
            found.filter(|_| attempt.stands())
        });
        match found {
            Some(Ok(words)) => self.found_snapshot(reader, export, &paths, &words, Source::Loaded),
            Some(Err(_)) => self.has_ended(reader, export),
            None => {
                // A reader in memory has made its runs. Another makes them by questions.
                let runs = if is_shared { ATTEMPTS } else { 0 };
                let snapshot = Snapshot { paths, runs, found: Vec::new(), since: 0 };
                self.exports.readers[reader].doing = Doing::Snapshot(snapshot);
                self.read_on(reader)
            }
        }
    }

    /// Reports the parts of a snapshot.
    pub(super) fn found_snapshot(
        &mut self,
        reader: usize,
        export: usize,
        paths: &[Path],
        words: &[Vec<u64>],
        source: Source,
    ) -> Result<(), Fault> {
        if words.len() != paths.len() {
            return violated(format!("{} parts are read, and not {}", words.len(), paths.len()))?;
        }
        self.counts.snapshots += 1;
        let opened = self.opened(reader)?;
        let found = paths.iter().zip(words).map(|(path, words)| opened.found(path, words));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        Ok(self.check.exports.found(reader, export, &found, source)?)
    }

    /// Asks for the next part of a snapshot, whether all parts stand, or for all at once.
    fn ask_for_snapshot(&mut self, reader: usize, mut snapshot: Snapshot) -> Result<(), Fault> {
        let opened = self.opened(reader)?;
        let (to, number) = (opened.to, opened.number);
        let asked = |path: &Path| opened.asked(path);
        let question = match snapshot.paths.get(snapshot.found.len()) {
            _ if snapshot.runs >= ATTEMPTS => {
                let parts = snapshot.paths.iter().map(|path| asked(path).part);
                Question::ReadAll(number, parts.collect())
            }
            Some(path) => Question::Changed(number, asked(path), None),
            None => {
                let parts = snapshot.paths.iter().zip(&snapshot.found);
                let parts = parts.map(|(path, (_, version))| (asked(path), *version));
                Question::Stand(number, parts.collect())
            }
        };
        if snapshot.found.is_empty() {
            snapshot.since = self.check.exports.now();
        }
        self.exports.readers[reader].doing = Doing::Snapshot(snapshot);
        self.ask_owner(reader, to, question)
    }

    /// Asks for the value of a part once it has changed.
    fn ask_for_change(&mut self, reader: usize, watch: &Watch) -> Result<(), Fault> {
        let opened = self.opened(reader)?;
        let (to, number, asked) = (opened.to, opened.number, opened.asked(&watch.path));
        let version = watch.last.as_ref().map(|(_, version)| *version);
        self.ask_owner(reader, to, Question::Changed(number, asked, version))
    }

    /// Evaluates an expression: in memory, or by a question.
    fn fold(&mut self, reader: usize, folding: Folding) -> Result<(), Fault> {
        let opened = self.opened(reader)?;
        let (export, to, number) = (opened.export, opened.to, opened.number);
        let Folding { of, expression, versions } = &folding;
        let found = self.load(reader, |attempt| {
            if attempt.is_raw() {
                return None;
            }
            let found = attempt.read(versions, |load| expression.evaluate(load));
            found.filter(|_| attempt.stands())
        });
        self.counts.expressions += 1;
        match found {
            Some(Ok(found)) => {
                Ok(self.check.exports.folded(reader, export, of, found, Source::Loaded)?)
            }
            Some(Err(_)) => self.has_ended(reader, export),
            None => {
                let question = Question::Evaluate(number, expression.encode());
                self.exports.readers[reader].doing = Doing::Folding(folding);
                self.ask_owner(reader, to, question)
            }
        }
    }

    /// Returns the export that a reader has opened.
    pub(super) fn opened(&self, reader: usize) -> Result<&Opened, Fault> {
        match &self.exports.readers[reader].opened {
            Some(opened) => Ok(opened),
            None => violated(format!("reader {reader} reads, and has opened nothing"))?,
        }
    }

    /// Sends a question to the node of an export.
    pub(super) fn ask_owner(
        &mut self,
        reader: usize,
        to: usize,
        question: Question,
    ) -> Result<(), Fault> {
        self.moved = true;
        self.counts.questions_of_readers += 1;
        let query = self.exports.queries.len();
        self.note(|| format!("reader {reader} asks {query} of {to}: {question:?}"));
        let ask = Ask::query(&mut self.exports.random, to, query);
        let asked = self.check.exports.now();
        let node = self.exports.readers[reader].node;
        self.exports.readers[reader].query = Some(query);
        self.exports.queries.push(Query { reader, to, question, asked, answer: None });
        self.issue(node, ask, None)?;
        Ok(())
    }
}
