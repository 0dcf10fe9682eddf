//! The owner's side of an export: its memory, and updates of it by the rules of `upbeat_memory::unit` and `copies`.

use std::rc::Rc;

use upbeat_core::channel::export::{
    Consistency, Expression, Load, Missing, Number, Overflow, Part, Route,
};

use super::form::{Place, Type};
use super::memory::Memory;
use crate::random::Random;
use crate::value::{Path, Step, Tree};

/// The word that says whether the export stands, the word with the version of the whole, and the first word of the value.
pub(super) const HEAD: usize = 0;
pub(super) const VERSION: usize = 1;
pub(super) const VALUE: usize = 2;

/// The states of an export, in its first word.
pub(super) const STANDS: u64 = 1;
const ENDED: u64 = 2;

/// An export, at its owner.
pub(super) struct Exported {
    pub(super) node: usize,
    pub(super) name: &'static str,
    pub(super) number: u32,
    pub(super) of: Rc<Type>,
    pub(super) consistency: Consistency,
    pub(super) memory: Memory,
    /// The value, with the changes of an open guard.
    tree: Tree,
    /// The value before an open guard.
    before: Option<Tree>,
    /// The number of changes so far.
    changes: u64,
    /// The last version that any unit was given. It is even.
    last: u64,
    pub(super) stands: bool,
}

/// An update of a unit: the word of its version, and the version afterwards.
struct Update {
    at: usize,
    after: u64,
}

/// A value that an update has left, and the paths of the updates that were not done then.
pub(super) type Left = (Tree, Vec<Path>);

impl Exported {
    /// Creates an export of a value, in memory of its own.
    pub(super) fn new(
        (node, name, number): (usize, &'static str, u32),
        of: Rc<Type>,
        consistency: Consistency,
        tree: Tree,
    ) -> Exported {
        let words = of.form.words();
        let mut memory = vec![0; VALUE + words * consistency.copies()];
        memory[HEAD] = STANDS;
        for copy in 0..consistency.copies() {
            for (at, word, _) in of.form.place(&[]).stores(&tree) {
                memory[VALUE + copy * words + at] = word;
            }
        }
        let memory = Memory::new(&memory);
        Exported {
            node,
            name,
            number,
            of,
            consistency,
            memory,
            tree,
            before: None,
            changes: 0,
            last: 0,
            stands: true,
        }
    }

    /// Returns the number of the copy that was published last.
    fn copy(&self) -> usize {
        match self.consistency {
            Consistency::Guarded => (self.memory.own(VERSION) >> 1 & 1) as usize,
            Consistency::Cell | Consistency::Raw => 0,
        }
    }

    /// Returns the words of a part, for a reader that asks.
    pub(super) fn words(&self, part: Part) -> Vec<u64> {
        let first = VALUE + self.copy() * self.of.form.words() + part.at as usize;
        (first..first + part.words as usize).map(|at| self.memory.own(at)).collect()
    }

    /// Evaluates an expression, for a reader that asks.
    pub(super) fn evaluate(&self, expression: &Expression) -> Result<Option<Number>, Overflow> {
        let (first, words) = (VALUE + self.copy() * self.of.form.words(), self.of.form.words());
        expression.evaluate(|at| {
            assert!(at < words, "an expression reads word {at} of {words}");
            self.memory.own(first + at)
        })
    }

    /// Returns the words of a part of the value to which a route leads, and the first bit of that value, for a reader that
    /// asks.
    pub(super) fn words_at(&self, route: &Route, part: Part) -> Result<(Vec<u64>, u8), Missing> {
        let words = self.of.form.words();
        let mut own = Own { memory: &self.memory, first: VALUE + self.copy() * words, words };
        let found = route.follow(words, &mut own)?;
        let first = found.at + part.at as usize;
        Ok(((first..first + part.words as usize).map(|at| own.load(at)).collect(), found.shift))
    }

    /// Returns a number that changes whenever a part does, as the owner's node computes it.
    pub(super) fn version_of(&self, part: Part, is_unit: bool) -> u64 {
        match self.consistency {
            Consistency::Guarded => return self.memory.own(VERSION) & !1,
            Consistency::Raw => return self.changes,
            Consistency::Cell => {}
        }
        let mut last = 0;
        part.versions(&self.of.shape, is_unit, &mut |at| {
            let at = at.map_or(VERSION, |at| VALUE + at as usize);
            last = self.memory.own(at).max(last);
        });
        last
    }

    /// Begins an update of a unit, unless the unit is being updated. Returns the update if it has to be ended. As in the
    /// product, versions come from a count of the owner's own.
    fn begin(&mut self, version: Option<usize>) -> Option<Update> {
        let at = word_of(version);
        if self.consistency == Consistency::Raw || self.memory.own(at) % 2 == 1 {
            return None;
        }
        self.memory.store(at, self.last + 1);
        self.memory.release_fence();
        self.last += 2;
        Some(Update { at, after: self.last })
    }

    /// Ends the update of a unit.
    fn end(&mut self, update: &Update) {
        self.memory.publish(update.at, update.after);
    }

    /// Stores the words of a part in one of the copies.
    fn put(&mut self, place: &Place<'_>, tree: &Tree, copy: usize) {
        let first = VALUE + copy * self.of.form.words();
        for (at, word, mask) in place.stores(tree) {
            let others = self.memory.own(first + at) & !mask;
            self.memory.store(first + at, others | word);
        }
    }

    /// Replaces a part, as `set` does.
    pub(super) fn set(&mut self, path: &[Step], tree: Tree) {
        let of = Rc::clone(&self.of);
        let place = of.form.place(path);
        self.tree.replace(path, tree.clone());
        self.changes += 1;
        match self.consistency {
            Consistency::Guarded => return self.put(&place, &tree, 1 - self.copy()),
            Consistency::Raw => return self.put(&place, &tree, 0),
            Consistency::Cell => {}
        }
        // The unit of the part, or the one around it, is updated from before the units inside until after them.
        let updates: Vec<_> =
            place.versions().into_iter().filter_map(|version| self.begin(version)).collect();
        self.put(&place, &tree, 0);
        updates.iter().rev().for_each(|update| self.end(update));
    }

    /// Sets a part to a new value, and returns what readers may find.
    pub(super) fn set_any(&mut self, random: &mut Random) -> Left {
        let path = self.any_path(random);
        self.set_within(&path, random)
    }

    /// Sets a part of this part to a new value, and returns what readers may find.
    pub(super) fn set_within(&mut self, path: &[Step], random: &mut Random) -> Left {
        let of = Rc::clone(&self.of);
        let doors = of.doors.iter().filter(|inner| inner.starts_with(path));
        let mut inner: Vec<_> = if random.permille(600) { doors.collect() } else { Vec::new() };
        if inner.is_empty() {
            inner = of.paths.iter().filter(|inner| inner.starts_with(path)).collect();
        }
        let path = inner[random.index(inner.len())];
        let tree = of.form.place(path).form.change(self.tree.at(path), random);
        self.set(path, tree);
        (self.tree.clone(), Vec::new())
    }

    /// Changes several parts of a part, as `update` does. Returns what readers may find.
    pub(super) fn update_any(&mut self, random: &mut Random) -> Vec<Left> {
        let path = self.any_path(random);
        let of = Rc::clone(&self.of);
        let place = of.form.place(&path);
        if place.is_word() {
            return vec![self.set_any(random)];
        }
        let update = self.begin(place.version);
        let mut left = Vec::new();
        for _ in 0..random.within(1, 3) {
            let (tree, _) = self.set_within(&path, random);
            left.push((tree, vec![path.clone()]));
        }
        if let Some(update) = update {
            self.end(&update);
        }
        left.push((self.tree.clone(), Vec::new()));
        left
    }

    /// Draws a part.
    fn any_path(&self, random: &mut Random) -> Path {
        let Type { paths, doors, .. } = &*self.of;
        let some = if doors.is_empty() || random.permille(400) { paths } else { doors };
        some[random.index(some.len())].clone()
    }

    /// Returns whether the guard is open.
    pub(super) fn is_locked(&self) -> bool {
        self.before.is_some()
    }

    /// Opens the guard: the copy that was not published last may be written.
    pub(super) fn lock(&mut self) {
        let version = self.memory.own(VERSION) & !1;
        self.memory.publish(VERSION, version + 1);
        self.memory.release_fence();
        self.before = Some(self.tree.clone());
        let of = Rc::clone(&self.of);
        let tree = self.tree.clone();
        self.put(&of.form.place(&[]), &tree, 1 - self.copy());
    }

    /// Gives the guard back, and publishes its changes or discards them. Returns the value that readers find from now on.
    pub(super) fn unlock(&mut self, is_published: bool) -> Option<Left> {
        let before = self.before.take()?;
        if !is_published {
            self.tree = before;
            return None;
        }
        let version = self.memory.own(VERSION) & !1;
        self.memory.publish(VERSION, version.wrapping_add(2));
        Some((self.tree.clone(), Vec::new()))
    }

    /// Ends the export.
    pub(super) fn withdraw(&mut self) {
        self.memory.store(HEAD, ENDED);
        self.stands = false;
    }

    /// Dies in the middle of an update. Returns what readers may find then.
    pub(super) fn die(&mut self, random: &mut Random) -> Vec<Left> {
        self.stands = false;
        self.memory.die_after(random.below(12));
        if self.consistency == Consistency::Guarded {
            if !self.is_locked() {
                self.lock();
            }
            self.set_any(random);
            return Vec::new();
        }
        let path = self.any_path(random);
        let mut left = Vec::new();
        let of = Rc::clone(&self.of);
        let place = of.form.place(&path);
        self.begin(place.version);
        for _ in 0..random.within(1, 2) {
            let (tree, _) = self.set_within(&path, random);
            left.push((tree, vec![path.clone()]));
        }
        left
    }
}

/// The value in the owner's own memory.
struct Own<'m> {
    memory: &'m Memory,
    first: usize,
    words: usize,
}

impl Load for Own<'_> {
    fn look(&mut self, _: Option<usize>) {}

    fn load(&mut self, at: usize) -> u64 {
        assert!(at < self.words, "a route leads to word {at} of {}", self.words);
        self.memory.own(self.first + at)
    }
}

/// Returns the word in memory of a version.
pub(super) fn word_of(version: Option<usize>) -> usize {
    version.map_or(VERSION, |at| VALUE + at)
}
