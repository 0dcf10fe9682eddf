//! Reads of values whose place the memory decides: by loads, or by questions.

use std::rc::Rc;

use upbeat_core::channel::export::{Missing, NotRead, Route, Selection};

use super::super::{Fault, World};
use super::questions::{Answer, Question, Said};
use super::reader::Doing;
use crate::check::{Found, Source, violated};
use crate::value::Path;

/// The words at the end of a route and the first bit of the value there, or the reason why there is none.
type Reached = Result<(Vec<u64>, u8), Missing>;

impl World {
    /// Reads the value at the end of a path.
    pub(super) fn read_route(&mut self, reader: usize, path: Path) -> Result<(), Fault> {
        let opened = self.opened(reader)?;
        let (export, to, number) = (opened.export, opened.to, opened.number);
        let of = Rc::clone(&opened.of);
        let selection = self.selection(reader, &path)?;
        let Selection { route, part, shape, .. } = &selection;
        let decoded = match Route::decode(route, &of.shape) {
            Ok(decoded) => decoded,
            Err(rule) => return violated(format!("{path:?} of {}: {rule:?}", of.text))?,
        };
        let asked = (*part, shape.is_unit());
        let found = self.load(reader, |attempt| match attempt.is_raw() {
            true => None,
            false => attempt.follow(&decoded, asked),
        });
        self.counts.routes += 1;
        match found {
            Some(Ok(reached)) => self.reached(reader, (export, &path), reached, Source::Loaded),
            Some(Err(_)) => self.has_ended(reader, export),
            None => {
                let question = Question::Follow(number, route.clone(), *part);
                self.exports.readers[reader].doing = Doing::Following(path);
                self.ask_owner(reader, to, question)
            }
        }
    }

    /// Returns what a path selects in the export of a reader.
    fn selection(&self, reader: usize, path: &Path) -> Result<Selection, Fault> {
        let of = &self.opened(reader)?.of;
        let text = of.form.path_text(path);
        match of.shape.resolve(&text) {
            Ok(selection) => Ok(selection),
            Err(error) => violated(format!("{text} of {}: {error}", of.text))?,
        }
    }

    /// The answer to a question for a value behind a route comes.
    pub(super) fn route_came(
        &mut self,
        reader: usize,
        path: &Path,
        answer: Answer,
        source: Source,
    ) -> Result<(), Fault> {
        let export = self.opened(reader)?.export;
        let reached = match answer.said {
            Said::Followed(words, shift) => Ok((words, shift)),
            Said::NotRead(NotRead::Missing(missing)) => Err(missing),
            said => return self.was_refused(reader, &said),
        };
        self.reached(reader, (export, path), reached, source)
    }

    /// Reports the value at the end of a path, or that there is none.
    fn reached(
        &mut self,
        reader: usize,
        (export, path): (usize, &Path),
        reached: Reached,
        source: Source,
    ) -> Result<(), Fault> {
        let text = match reached {
            Ok((words, shift)) => {
                let selection = self.selection(reader, path)?;
                let shift = selection.shift + shift;
                match (Selection { shift, ..selection }).value(&words) {
                    Ok(value) => value.to_string(),
                    Err(rule) => {
                        return violated(format!("{words:x?} are no value at {path:?}: {rule:?}"))?;
                    }
                }
            }
            Err(missing) => {
                self.counts.missing += 1;
                format!("{missing:?}")
            }
        };
        let found = Found { path: path.clone(), text, is_word: false };
        Ok(self.check.exports.found(reader, export, &[found], source)?)
    }
}
