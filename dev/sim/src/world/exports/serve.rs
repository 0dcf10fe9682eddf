//! The node of an export answers questions of readers.

use upbeat_core::channel::export::{
    Directory, Expression, Nameless, NotRead, Number, Part, Routed,
};
use upbeat_core::session::Awaits;

use super::super::{Fault, Held, State, World};
use super::Exports;
use super::questions::{Answer, Asked, Query, Question, Said};
use crate::check::{Id, violated};
use crate::value::Path;
use crate::wire::Use;

/// A watch that waits at the owner until a part changes.
pub(super) struct Waiting {
    pub(super) node: usize,
    /// The handler.
    pub(super) at: usize,
    id: Id,
    pub(super) export: usize,
    pub(super) path: Path,
    /// Whether the owner has changed the part since all faults ended.
    pub(super) is_served: bool,
}

impl Exports {
    /// Returns the answer to a question, or the export whose change the answer waits for.
    fn answer(&self, node: usize, question: &Question) -> Result<Answer, usize> {
        let directory = &self.directories[node];
        let (from, said) = match self.said(directory, question) {
            Ok((from, Some(said))) => (from, said),
            Ok((from, None)) => return Err(from),
            Err(error) => (usize::MAX, Said::NotRead(error)),
        };
        let store = self.all.get(from).map_or(0, |exported| exported.memory.last());
        Ok(Answer { said, from, store })
    }

    /// Returns the export that a question is about, and the answer if there is one now.
    fn said(
        &self,
        directory: &Directory<usize>,
        question: &Question,
    ) -> Result<(usize, Option<Said>), NotRead> {
        let part =
            |number: u32, part: Part| directory.part(number, part, &Nameless).map(|(_, at)| *at);
        let words = |number, of| {
            let export = part(number, of)?;
            Ok::<_, NotRead>((export, self.all[export].words(of)))
        };
        let version = |number, asked: Asked| {
            let export = part(number, asked.part)?;
            Ok::<_, NotRead>((export, self.all[export].version_of(asked.part, asked.is_unit)))
        };
        match question {
            Question::Open { name, text } => Ok(match directory.open(name, text, &Nameless) {
                Ok((number, export)) => (*export, Some(Said::Opened(number))),
                Err(error) => (usize::MAX, Some(Said::NotOpened(error))),
            }),
            Question::Read(number, part) => {
                let (export, words) = words(*number, *part)?;
                Ok((export, Some(Said::Words(vec![words]))))
            }
            Question::Follow(number, route, part) => {
                let Routed { route, kept, .. } =
                    directory.routed(*number, route, *part, &Nameless)?;
                let said = match self.all[*kept].words_at(&route, *part) {
                    Ok((words, shift)) => Said::Followed(words, shift),
                    Err(missing) => Said::NotRead(NotRead::Missing(missing)),
                };
                Ok((*kept, Some(said)))
            }
            Question::ReadAll(number, parts) => {
                Directory::<usize>::check_all(parts.iter().copied())?;
                let mut found = (usize::MAX, Vec::new());
                for part in parts {
                    let (export, words) = words(*number, *part)?;
                    found.0 = export;
                    found.1.push(words);
                }
                Ok((found.0, Some(Said::Words(found.1))))
            }
            Question::Changed(number, asked, last) => {
                let (export, now) = version(*number, *asked)?;
                if *last == Some(now) {
                    return Ok((export, None));
                }
                let (_, words) = words(*number, asked.part)?;
                Ok((export, Some(Said::Changed(words, now))))
            }
            Question::Stand(number, parts) => {
                Directory::<usize>::check_all(parts.iter().map(|(asked, _)| asked.part))?;
                let mut found = (usize::MAX, true);
                for (asked, last) in parts {
                    let (export, now) = version(*number, *asked)?;
                    found = (export, found.1 && now == *last);
                }
                Ok((found.0, Some(Said::Stands(found.1))))
            }
            Question::Evaluate(number, words) => {
                let expression = Expression::decode(*words).map_err(|_| NotRead::NoPart)?;
                let export = *directory.expression(*number, &expression, &Nameless)?;
                let found = self.all[export].evaluate(&expression);
                Ok((export, Some(Said::Number(found.map(|number| number.map(Number::bits))))))
            }
        }
    }
}

impl World {
    /// The question of a reader is accepted.
    pub(in super::super) fn start_query(
        &mut self,
        node: usize,
        peer: usize,
        held: Held,
        (id, buffer): (Id, Option<(Use, usize)>),
    ) -> Result<(), Fault> {
        self.give_back(node, peer, buffer);
        self.check.started(id, self.time)?;
        let query = self.query_of(id);
        let export = match self.exports.answer(node, &self.exports.queries[query].question) {
            Ok(answer) => {
                self.answers(query, answer);
                self.check.finished(id, self.time)?;
                if let Some(call) = held.call {
                    self.reply(node, peer, call, id);
                }
                return Ok(());
            }
            Err(export) => export,
        };
        let found = self.waits(query, export)?;
        let at = self.keep(node, peer, held, id, None)?;
        if let Some(task) = &mut self.nodes[node].tasks[at] {
            task.state = State::Streams;
            self.nodes[node].lock.lacking -= 1;
        }
        self.charge(node, at, Awaits::Reply);
        let waiting = Waiting { node, at, id, export, path: found, is_served: false };
        self.exports.waiting.push(waiting);
        Ok(())
    }

    /// Notes the answer to a question, which its reply brings.
    fn answers(&mut self, query: usize, answer: Answer) {
        self.note(|| format!("question {query} is answered: {answer:?}"));
        self.exports.queries[query].answer = Some(answer);
        self.moved = true;
    }

    /// Checks that a watch is right to wait. Returns the path of its part.
    fn waits(&self, query: usize, export: usize) -> Result<Path, Fault> {
        let Query { reader, question, .. } = &self.exports.queries[query];
        if let Some((of, found)) = self.exports.readers[*reader].watched(query)
            && of == export
        {
            self.check.exports.keeps_waiting(export, found)?;
        }
        let Question::Changed(_, asked, _) = question else {
            return violated(format!("{question:?} waits"))?;
        };
        let path = self.exports.all[export].of.path_of(asked.part);
        Ok(path.cloned().unwrap_or_default())
    }

    /// Answers the watches that wait here, if their parts have changed.
    pub(super) fn poll_watches(&mut self, node: usize) -> Result<(), Fault> {
        let mut index = 0;
        while let Some(waiting) = self.exports.waiting.get(index) {
            index += 1;
            if waiting.node != node {
                continue;
            }
            let (at, id, export) = (waiting.at, waiting.id, waiting.export);
            let query = self.query_of(id);
            match self.exports.answer(node, &self.exports.queries[query].question) {
                Ok(answer) => {
                    index -= 1;
                    self.answers(query, answer);
                    // The handler leaves its place among those that wait.
                    self.finish(node, at)?;
                }
                Err(_) => {
                    self.waits(query, export)?;
                }
            }
        }
        Ok(())
    }
}
