//! The answers that readers get.

use std::rc::Rc;

use upbeat_core::channel::export::Number;

use super::super::{Fault, World};
use super::form::Type;
use super::memory::View;
use super::questions::{Answer, Query, Question, Said};
use super::reader::{Doing, Opened, Snapshot, Watch};
use crate::check::{Id, Source, violated};

impl World {
    /// A question has ended: with its answer, or without.
    pub(in super::super) fn query_ended(&mut self, id: Id, is_answered: bool) -> Result<(), Fault> {
        let query = self.query_of(id);
        let Query { reader, to, asked, question, answer } = self.exports.queries[query].clone();
        let it = &mut self.exports.readers[reader];
        if it.query != Some(query) {
            return Ok(());
        }
        self.moved = true;
        it.query = None;
        let doing = std::mem::replace(&mut it.doing, Doing::Nothing);
        let Some(answer) = answer.filter(|_| is_answered) else { return Ok(()) };
        let source = Source::Answered(asked, answer.from);
        if let Some(Opened { export, view: Some(view), .. }) = &mut it.opened
            && *export == answer.from
        {
            view.join(answer.store);
        }
        match doing {
            Doing::Nothing => Ok(()),
            Doing::Hostile => self.check_hostile(asked, &question, &answer),
            Doing::Opening(of) => self.was_opened(reader, (to, asked), &of, &question, &answer),
            Doing::Snapshot(snapshot) => self.snapshot_came(reader, snapshot, answer, source),
            Doing::Watching(watch) => self.change_came(reader, watch, answer, source),
            Doing::Following(path) => self.route_came(reader, &path, answer, source),
            Doing::Reading(path) => match answer.said {
                Said::Words(words) => {
                    let opened = self.opened(reader)?;
                    let words = words.first().map_or(&[][..], |words| words);
                    let (export, found) = (opened.export, opened.found(&path, words)?);
                    Ok(self.check.exports.found(reader, export, &[found], source)?)
                }
                said => self.was_refused(reader, &said),
            },
            Doing::Folding(folding) => match answer.said {
                Said::Number(found) => {
                    let export = self.opened(reader)?.export;
                    let number = |bits| folding.expression.result(bits);
                    let found = found.map(|found: Option<u64>| found.map(number));
                    let found: Result<Option<Number>, _> = found;
                    Ok(self.check.exports.folded(reader, export, &folding.of, found, source)?)
                }
                said => self.was_refused(reader, &said),
            },
        }
    }

    /// A question of a reader is refused.
    pub(super) fn was_refused(&mut self, reader: usize, said: &Said) -> Result<(), Fault> {
        let Said::NotRead(why) = said else {
            return violated(format!("reader {reader} is answered {said:?}"))?;
        };
        let export = self.opened(reader)?.export;
        self.check.exports.refused(export, *why)?;
        self.exports.readers[reader].opened = None;
        Ok(())
    }

    /// A reader is told whether it has opened an export.
    fn was_opened(
        &mut self,
        reader: usize,
        (to, asked): (usize, u64),
        of: &Rc<Type>,
        question: &Question,
        answer: &Answer,
    ) -> Result<(), Fault> {
        let Question::Open { name, text } = question else {
            return violated(format!("{question:?} opens nothing"))?;
        };
        match &answer.said {
            Said::Opened(number) => {
                self.counts.opened += 1;
                let (export, number) = (answer.from, *number);
                self.check.exports.opened((reader, asked), to, (name, text), export)?;
                let node = self.exports.readers[reader].node;
                let memory = &self.exports.all[export].memory;
                let view = self.shares_memory(node, to).then(|| View::new(memory, answer.store));
                let opened = Opened { export, to, number, of: Rc::clone(of), view };
                self.exports.readers[reader].opened = Some(opened);
                Ok(())
            }
            Said::NotOpened(why) => {
                Ok(self.check.exports.not_opened(asked, to, (name, text), why)?)
            }
            said => violated(format!("reader {reader} opens an export and is told {said:?}"))?,
        }
    }

    /// The answer to a question of a snapshot comes.
    fn snapshot_came(
        &mut self,
        reader: usize,
        mut snapshot: Snapshot,
        answer: Answer,
        source: Source,
    ) -> Result<(), Fault> {
        let export = self.opened(reader)?.export;
        let Snapshot { paths, runs, found, since } = &mut snapshot;
        match answer.said {
            Said::Words(words) => {
                return self.found_snapshot(reader, export, paths, &words, source);
            }
            Said::Changed(words, version) => found.push((words, version)),
            Said::Stands(true) => {
                let words: Vec<_> = found.iter().map(|(words, _)| words.clone()).collect();
                let source = Source::Answered(*since, answer.from);
                return self.found_snapshot(reader, export, paths, &words, source);
            }
            Said::Stands(false) => {
                *runs += 1;
                found.clear();
            }
            said => return self.was_refused(reader, &said),
        }
        self.exports.readers[reader].doing = Doing::Snapshot(snapshot);
        Ok(())
    }

    /// The answer to a question of a watch comes.
    fn change_came(
        &mut self,
        reader: usize,
        watch: Watch,
        answer: Answer,
        source: Source,
    ) -> Result<(), Fault> {
        let Said::Changed(words, version) = answer.said else {
            return self.was_refused(reader, &answer.said);
        };
        let opened = self.opened(reader)?;
        let (export, found) = (opened.export, opened.found(&watch.path, &words)?);
        let came = std::slice::from_ref(&found);
        self.check.exports.found(reader, export, came, source)?;
        self.counts.changes += 1;
        let Some(left) = watch.left.checked_sub(1) else { return Ok(()) };
        let last = Some((found, version));
        self.exports.readers[reader].doing = Doing::Watching(Watch { last, left, ..watch });
        Ok(())
    }
}
