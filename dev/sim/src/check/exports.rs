//! The record of exports: the values that each owner has left, and the values that each reader has found.
//!
//! Moments are numbered: each update, and each export that begins or ends, makes a new one. A reader of a part may find any
//! value that the part had at a moment since the reader must know of it, and never an older one than before.

use std::collections::BTreeMap;

use upbeat_core::channel::export::{NotOpened, NotRead, Number, Overflow};
use upbeat_core::limits::EXPORT_PARTS_MAX;

use super::folds::FoldOf;
use super::{Violation, violated};
use crate::value::{Path, Tree};

/// The record of all exports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exports {
    all: Vec<Export>,
    readers: BTreeMap<usize, Reader>,
    now: u64,
}

/// An export, with all its values.
#[derive(Clone, Debug)]
struct Export {
    node: usize,
    name: String,
    text: String,
    states: Vec<State>,
    end: Option<u64>,
}

/// A value that the owner has left.
#[derive(Clone, Debug)]
struct State {
    since: u64,
    tree: Tree,
    /// The parts of which an update was not done.
    within: Vec<Path>,
}

/// The moments of which a reader knows: at least all until the first one, and those of the parts that it has found.
#[derive(Clone, Debug, Default)]
struct Reader {
    since: u64,
    parts: BTreeMap<Path, u64>,
}

/// A value that a reader has found at a part, or the reason why there is none.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) path: Path,
    pub(crate) text: String,
    /// Whether the part is stored at once, so that updates around it do not hide it.
    pub(crate) is_word: bool,
}

/// The words that a hostile question is answered with.
#[derive(Clone, Debug)]
pub(crate) enum Hostile {
    Part(Found),
    /// The length of the vector or the map at a path.
    Length(Path, u64),
    /// Words that are no part.
    Nothing,
}

/// How a reader has found values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// The reader has loaded them.
    Loaded,
    /// The owner was asked at this moment, and has answered from this export.
    Answered(u64, usize),
}

impl Exports {
    /// Returns the number of the moment.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// A node exports a value.
    pub(crate) fn exported(
        &mut self,
        node: usize,
        name: &str,
        text: &str,
        tree: Tree,
    ) -> Result<usize, Violation> {
        if let Some(at) = self.standing(node, name) {
            return violated(format!("{node} exports a value as {name}, and export {at} stands"));
        }
        self.now += 1;
        let states = vec![State { since: self.now, tree, within: Vec::new() }];
        let (name, text) = (name.to_owned(), text.to_owned());
        self.all.push(Export { node, name, text, states, end: None });
        Ok(self.all.len() - 1)
    }

    /// A node refuses to export a value because of this name.
    pub(crate) fn name_taken(&self, node: usize, name: &str) -> Result<(), Violation> {
        match self.standing(node, name) {
            Some(_) => Ok(()),
            None => violated(format!("{node} has no export {name}, and says that it has")),
        }
    }

    /// Returns the export of a node that stands under a name.
    fn standing(&self, node: usize, name: &str) -> Option<usize> {
        let stands = |it: &Export| it.node == node && it.name == name && it.end.is_none();
        self.all.iter().position(stands)
    }

    /// The owner leaves a value, while updates of these parts are not done.
    pub(crate) fn left(&mut self, export: usize, tree: Tree, within: Vec<Path>) {
        self.now += 1;
        self.all[export].states.push(State { since: self.now, tree, within });
    }

    /// The owner withdraws an export.
    pub(crate) fn withdrawn(&mut self, export: usize) {
        self.now += 1;
        self.all[export].end = Some(self.now);
    }

    /// A node dies, and its exports with it.
    pub(crate) fn died(&mut self, node: usize) {
        self.now += 1;
        for export in self.all.iter_mut().filter(|it| it.node == node && it.end.is_none()) {
            export.end = Some(self.now);
        }
    }

    /// A reader that asked at some moment has opened an export.
    pub(crate) fn opened(
        &mut self,
        (reader, asked): (usize, u64),
        node: usize,
        (name, text): (&str, &str),
        export: usize,
    ) -> Result<(), Violation> {
        let it = &self.all[export];
        if (it.node, &*it.name, &*it.text) != (node, name, text) {
            let Export { node: of, name: its, text: types, .. } = it;
            return violated(format!(
                "{name} of {node}, {text}, is opened as {its} of {of}, {types}"
            ));
        }
        if it.end.is_some_and(|end| end <= asked) {
            return violated(format!("export {export} is opened at {asked}, and had ended"));
        }
        self.readers.insert(reader, Reader { since: asked, parts: BTreeMap::new() });
        Ok(())
    }

    /// A reader that asked at some moment has not opened an export.
    pub(crate) fn not_opened(
        &self,
        asked: u64,
        node: usize,
        (name, text): (&str, &str),
        why: &NotOpened,
    ) -> Result<(), Violation> {
        let mut named = self.all.iter().filter(|it| it.node == node && it.name == name);
        let is_right = match why {
            NotOpened::NoExport { .. } => {
                !named.any(|it| it.states[0].since <= asked && it.end.is_none())
            }
            NotOpened::OtherType { exported } => {
                text != exported
                    && named.any(|it| it.text == *exported && it.end.is_none_or(|end| end > asked))
            }
            // The exports of a history are for everybody.
            NotOpened::NotPermitted(_) => false,
        };
        if is_right { Ok(()) } else { violated(format!("{name} of {node} is not opened: {why:?}")) }
    }

    /// Returns the moments of an export that a reader may find now.
    fn span(
        &self,
        reader: usize,
        export: usize,
        paths: &mut dyn Iterator<Item = &Path>,
        source: Source,
    ) -> Result<(u64, u64), Violation> {
        match source {
            Source::Loaded => {
                let known = self.readers.get(&reader);
                let since = known.map_or(0, |known| known.since);
                let parts = paths.filter_map(|path| known?.parts.get(path).copied());
                Ok((parts.fold(since, u64::max), u64::MAX))
            }
            Source::Answered(_, from) if from != export => {
                violated(format!("a reader of export {export} is answered with export {from}"))
            }
            Source::Answered(asked, _) => match self.all[export].end {
                Some(end) if end <= asked => violated(format!(
                    "export {export} has ended at {end}, and a question of {asked} is answered"
                )),
                end => Ok((asked, end.map_or(u64::MAX, |end| end - 1))),
            },
        }
    }

    /// Returns a moment of the span at which the export had such a state.
    fn moment(
        &self,
        export: usize,
        (since, until): (u64, u64),
        is_it: impl Fn(&State) -> bool,
    ) -> Option<u64> {
        let states = &self.all[export].states;
        let first = states.partition_point(|state| state.since <= since).saturating_sub(1);
        let mut states = states[first..].iter().take_while(|state| state.since <= until);
        states.find(|state| is_it(state)).map(|state| state.since.max(since))
    }

    /// A reader has found values as of one moment.
    pub(crate) fn found(
        &mut self,
        reader: usize,
        export: usize,
        found: &[Found],
        source: Source,
    ) -> Result<(), Violation> {
        let span = self.span(reader, export, &mut found.iter().map(|it| &it.path), source)?;
        let moment = self.moment(export, span, |state| {
            found.iter().all(|it| {
                let hides = |update: &Path| !it.is_word && update.starts_with(&it.path);
                !state.within.iter().any(hides) && state.tree.says(&it.path) == it.text
            })
        });
        let Some(moment) = moment else {
            return violated(format!(
                "reader {reader} finds {found:?} in export {export}, which its owner has not left \
                 at any moment of {span:?}: {source:?}"
            ));
        };
        self.learns(reader, source);
        if let Some(reader) = self.readers.get_mut(&reader) {
            reader.parts.extend(found.iter().map(|it| (it.path.clone(), moment)));
        }
        Ok(())
    }

    /// A reader has evaluated an expression, or the owner has.
    pub(crate) fn folded(
        &mut self,
        reader: usize,
        export: usize,
        fold: &FoldOf,
        result: Result<Option<Number>, Overflow>,
        source: Source,
    ) -> Result<(), Violation> {
        let span = self.span(reader, export, &mut std::iter::empty(), source)?;
        let elements = fold.elements();
        let moment = self.moment(export, span, |state| {
            let hides = |update: &Path| elements.iter().any(|of| update.starts_with(of));
            fold.is_result(&state.tree, result) && !state.within.iter().any(hides)
        });
        if moment.is_none() {
            return violated(format!(
                "{fold:?} of export {export} gives {result:?}, which is right at no moment of \
                 {span:?}: {source:?}"
            ));
        }
        self.learns(reader, source);
        Ok(())
    }

    /// Notes that a reader which was answered knows all that the owner has done before it was asked.
    fn learns(&mut self, reader: usize, source: Source) {
        if let (Source::Answered(asked, _), Some(reader)) = (source, self.readers.get_mut(&reader))
        {
            reader.since = reader.since.max(asked);
        }
    }

    /// A reader finds by loads that an export has ended.
    pub(crate) fn ended(&self, export: usize) -> Result<(), Violation> {
        match self.all[export].end {
            Some(_) => Ok(()),
            None => violated(format!("export {export} stands, and a reader finds it ended")),
        }
    }

    /// An honest question about an export is refused.
    pub(crate) fn refused(&self, export: usize, why: NotRead) -> Result<(), Violation> {
        match why {
            NotRead::Ended | NotRead::OtherOwner => self.ended(export),
            why => violated(format!("an honest reader of export {export} is refused: {why:?}")),
        }
    }

    /// The owner does not answer a watch, whose reader has this value.
    pub(crate) fn keeps_waiting(&self, export: usize, found: &Found) -> Result<(), Violation> {
        let it = &self.all[export];
        let last = it.states.last().and_then(|state| state.tree.at(&found.path));
        match last.is_some_and(|last| last.to_string() == found.text) && it.end.is_none() {
            true => Ok(()),
            false => {
                violated(format!("a watch waits with {found:?}, and export {export} has changed"))
            }
        }
    }

    /// A hostile question about an export is answered with something that the owner has had, or has not.
    pub(crate) fn hostile_answered(
        &self,
        export: usize,
        asked: u64,
        found: Hostile,
    ) -> Result<(), Violation> {
        let source = Source::Answered(asked, export);
        let span = self.span(usize::MAX, export, &mut std::iter::empty(), source)?;
        let is_it = |state: &State| match &found {
            Hostile::Part(part) => {
                state.tree.at(&part.path).is_some_and(|tree| tree.to_string() == part.text)
            }
            Hostile::Length(path, length) => {
                state.tree.at(path).and_then(Tree::length) == Some(*length)
            }
            Hostile::Nothing => false,
        };
        match self.moment(export, span, is_it) {
            Some(_) => Ok(()),
            None => violated(format!("a hostile reader of export {export} gets {found:?}")),
        }
    }

    /// Checks the number of parts in a question that was answered.
    pub(crate) fn parts_answered(&self, parts: usize) -> Result<(), Violation> {
        match parts <= EXPORT_PARTS_MAX {
            true => Ok(()),
            false => violated(format!("a question for {parts} parts is answered")),
        }
    }

    /// Returns the last moment at which an export had another value, for a reader who must see all.
    pub(crate) fn must_see_all(&mut self, reader: usize, export: usize) {
        let last = self.all[export].states.last().map(|state| state.since);
        if let (Some(reader), Some(last)) = (self.readers.get_mut(&reader), last) {
            reader.since = reader.since.max(last);
        }
    }
}
