//! Exports: nodes export values, change and withdraw them, and die in the middle of an update; readers load from their
//! delayed memory, or ask the owners' directories by calls. `upbeat_core::channel::export` decides what they are answered.
//!
//! Exports draw from random numbers of their own. The liar neither exports nor reads.

mod form;
mod containers;
mod memory;
mod owner;
mod loads;
mod questions;
mod folding;
mod reader;
mod routes;
mod answers;
mod hostile;
mod serve;

use std::rc::Rc;

use upbeat_core::channel::export::{Consistency, Directory, Nameless, Readers, Refusal};

use super::{Fault, World};
use crate::check::{Id, violated};
use crate::plan::Plan;
use crate::random::Random;
use form::Type;
use owner::{Exported, Left};
use questions::Query;
use reader::Reader;
use serve::Waiting;

/// The names of exports.
const NAMES: [&str; 2] = ["a", "b"];

/// Names that no export may have.
const NO_NAMES: [&str; 4] = ["", "a/b", "a b", "é!"];

/// The exports of a history.
pub(super) struct Exports {
    random: Random,
    /// Whether words are visible late.
    is_late: bool,
    types: Vec<Rc<Type>>,
    /// The directory of each node, with the indexes of its exports.
    directories: Vec<Directory<usize>>,
    all: Vec<Exported>,
    readers: Vec<Reader>,
    queries: Vec<Query>,
    /// The watches that wait at their owners.
    waiting: Vec<Waiting>,
}

impl Exports {
    /// Draws the types and the readers of a history. Most histories have none.
    pub(super) fn new(seed: u64, plan: &Plan) -> Exports {
        let mut random = Random::new(!seed);
        let is_on = random.permille(300);
        let is_late = random.permille(700);
        let types = (0..2).map(|_| Rc::new(Type::draw(&mut random))).collect();
        let directories = (0..plan.nodes).map(|_| Directory::new(random.next() as u32)).collect();
        let honest: Vec<_> =
            (0..plan.nodes).filter(|node| plan.liar != Some(*node) && is_on).collect();
        let many = if honest.len() > 1 { random.within(1, 2) } else { 0 };
        let readers =
            honest.iter().flat_map(|node| (0..many).map(|_| Reader::new(*node))).collect();
        let (all, queries, waiting) = (Vec::new(), Vec::new(), Vec::new());
        Exports { random, is_late, types, directories, all, readers, queries, waiting }
    }

    /// Returns whether the history has exports.
    fn is_on(&self) -> bool {
        !self.readers.is_empty()
    }

    /// Returns an export of a node that stands.
    fn any_of(&mut self, node: usize) -> Option<usize> {
        let of = |(_, it): &(usize, &Exported)| it.node == node && it.stands;
        let standing: Vec<_> =
            self.all.iter().enumerate().filter(of).map(|(export, _)| export).collect();
        (!standing.is_empty()).then(|| self.random.pick(&standing))
    }
}

impl World {
    /// Has the owner and the readers of a node go on.
    pub(super) fn poll_exports(&mut self, node: usize) -> Result<(), Fault> {
        if !self.exports.is_on() || self.plan.liar == Some(node) {
            return Ok(());
        }
        if self.healing {
            self.end_updates(node);
        } else if self.exports.random.permille(400) {
            self.own(node)?;
        }
        self.poll_watches(node)?;
        for reader in 0..self.exports.readers.len() {
            let is_here = self.exports.readers[reader].node == node;
            if is_here && (self.healing || self.exports.random.permille(500)) {
                self.read_some(reader)?;
            }
        }
        Ok(())
    }

    /// The owner makes, changes or ends an export.
    fn own(&mut self, node: usize) -> Result<(), Fault> {
        let export = self.exports.any_of(node);
        match (self.exports.random.below(100), export) {
            (0..8, _) => self.export_badly(node),
            (8..20, _) | (_, None) => self.export(node),
            (20..27, Some(export)) => {
                let number = self.exports.all[export].number;
                if self.exports.directories[node].withdraw(number) != Some(export) {
                    return violated(format!("export {export} is withdrawn, and did not stand"))?;
                }
                self.note(|| format!("{node} withdraws export {export}"));
                self.exports.all[export].withdraw();
                self.check.exports.withdrawn(export);
                Ok(())
            }
            (_, Some(export)) => {
                // Several changes between two reads, so that a route meets some of them.
                let has_doors = !self.exports.all[export].of.doors.is_empty();
                let many = if has_doors { self.exports.random.within(1, 6) } else { 1 };
                (0..many).for_each(|_| self.change(export));
                Ok(())
            }
        }
    }

    /// Exports a value under a name, which may be taken.
    fn export(&mut self, node: usize) -> Result<(), Fault> {
        let random = &mut self.exports.random;
        let (name, of) = (random.pick(&NAMES), random.index(self.exports.types.len()));
        let of = Rc::clone(&self.exports.types[of]);
        let consistency = match random.below(10) {
            0..=2 => Consistency::Guarded,
            3 => Consistency::Raw,
            _ => Consistency::Cell,
        };
        let tree = of.form.invent(random);
        let export = self.exports.all.len();
        let (shape, readers) = (of.shape.clone(), Readers::everybody());
        let directory = &mut self.exports.directories[node];
        let made = directory.number(name, &shape).and_then(|number| {
            directory.export(number, name, shape, readers, export)?;
            Ok(number)
        });
        match made {
            Ok(number) => {
                self.counts.exports += 1;
                self.note(|| format!("{node} exports {export} as {name}, number {number}: {tree}"));
                self.check.exports.exported(node, name, &of.text, tree.clone())?;
                let exported = Exported::new((node, name, number), of, consistency, tree);
                self.exports.all.push(exported);
                Ok(())
            }
            Err(Refusal::Taken { .. }) => Ok(self.check.exports.name_taken(node, name)?),
            Err(refusal) => violated(format!("{node} does not export {name}: {refusal}"))?,
        }
    }

    /// Exports a value under a name that none may have.
    fn export_badly(&mut self, node: usize) -> Result<(), Fault> {
        let name = self.exports.random.pick(&NO_NAMES);
        match self.exports.directories[node].number(name, &self.exports.types[0].shape) {
            Err(Refusal::Name(_) | Refusal::Segments { .. }) => Ok(()),
            made => violated(format!("{node} exports a value as {name:?}: {made:?}"))?,
        }
    }

    /// The owner changes a part of a value, or goes on under a guard.
    fn change(&mut self, export: usize) {
        let Exports { all, random, .. } = &mut self.exports;
        let exported = &mut all[export];
        let left = match exported.consistency {
            Consistency::Guarded if !exported.is_locked() => {
                exported.lock();
                Vec::new()
            }
            Consistency::Guarded if random.permille(500) => {
                exported.set_any(random);
                Vec::new()
            }
            Consistency::Guarded => Vec::from_iter(exported.unlock(random.permille(700))),
            _ if random.permille(500) => vec![exported.set_any(random)],
            _ => exported.update_any(random),
        };
        self.left(export, left);
    }

    /// Reports values that an owner has left.
    fn left(&mut self, export: usize, left: Vec<Left>) {
        for (tree, within) in left {
            self.counts.updates += 1;
            self.note(|| format!("export {export} is {tree}, within updates of {within:?}"));
            self.check.exports.left(export, tree, within);
        }
    }

    /// Publishes the changes under guards, and changes each part for which a watch waits, so that the watch ends.
    fn end_updates(&mut self, node: usize) {
        for export in 0..self.exports.all.len() {
            if self.exports.all[export].node == node && self.exports.all[export].is_locked() {
                let left = self.exports.all[export].unlock(true);
                self.left(export, Vec::from_iter(left));
                self.moved = true;
            }
        }
        for at in 0..self.exports.waiting.len() {
            let Exports { all, random, waiting, .. } = &mut self.exports;
            let Waiting { node: of, export, path, is_served, .. } = &mut waiting[at];
            let (export, exported) = (*export, &mut all[*export]);
            if *of != node || std::mem::replace(is_served, true) || !exported.stands {
                continue;
            }
            let is_guarded = exported.consistency == Consistency::Guarded;
            if is_guarded {
                exported.lock();
            }
            let path = path.clone();
            let left = exported.set_within(&path, random);
            let left = if is_guarded { exported.unlock(true) } else { Some(left) };
            self.left(export, Vec::from_iter(left));
            self.moved = true;
        }
    }

    /// A node dies: its exports, perhaps in the middle of an update, and its readers.
    pub(super) fn exports_died(&mut self, node: usize) {
        for export in 0..self.exports.all.len() {
            let Exports { all, random, .. } = &mut self.exports;
            if all[export].node != node || !all[export].stands {
                continue;
            }
            all[export].stands = false;
            if random.permille(600) {
                let left = all[export].die(random);
                self.left(export, left);
            }
        }
        self.check.exports.died(node);
        self.exports.waiting.retain(|waiting| waiting.node != node);
        for reader in self.exports.readers.iter_mut().filter(|reader| reader.node == node) {
            *reader = Reader::new(node);
        }
        let random = self.exports.random.next() as u32;
        self.exports.directories[node] = Directory::new(random);
    }

    /// Checks, once nothing moves any more, that no reader waits, and that each directory lists the exports that stand.
    pub(super) fn exports_settled(&self) -> Result<(), Fault> {
        for (node, directory) in self.exports.directories.iter().enumerate() {
            let standing = self.exports.all.iter().filter(|it| it.node == node && it.stands);
            let mut standing: Vec<_> =
                standing.map(|it| (it.number, it.name.to_owned(), it.of.text.clone())).collect();
            standing.sort_unstable();
            let listed = directory.list(&Nameless);
            if listed != standing {
                return violated(format!("{node} lists {listed:?}: {standing:?}"))?;
            }
        }
        match self.exports.readers.iter().position(|reader| !reader.is_done()) {
            Some(reader) => violated(format!("nothing moves, and reader {reader} is not done"))?,
            None => Ok(()),
        }
    }

    /// Notes that a handler has ended that answers a question.
    pub(super) fn leave_query(&mut self, node: usize, at: usize) {
        self.exports.waiting.retain(|waiting| (waiting.node, waiting.at) != (node, at));
    }

    /// Returns the reader's question that a request brings.
    fn query_of(&self, id: Id) -> usize {
        self.asks[id as usize].flow
    }
}
