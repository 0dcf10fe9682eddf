//! Options, vectors, maps and pointers of simulated exports: how their owner changes them, and the paths through them.

use upbeat_core::channel::export::Scalar;

use super::form::{Form, Type, map_words, slots_of};
use crate::random::Random;
use crate::value::{Path, Slot, Step, Tree};

/// The keys of maps are less: a map is often full.
const KEYS: u64 = 3;

impl Type {
    /// Draws a path to a value whose place the memory decides. Each value in which such paths begin is as frequent.
    pub(super) fn any_route(&self, random: &mut Random) -> Path {
        let begins = |door: &&Path| self.routes.iter().any(|path| path.starts_with(door));
        let doors: Vec<_> = self.doors.iter().filter(begins).collect();
        let door = doors[random.index(doors.len())];
        let routes: Vec<_> = self.routes.iter().filter(|path| path.starts_with(door)).collect();
        routes[random.index(routes.len())].clone()
    }
}

impl Form {
    /// Returns a type with a field of this one, and with others whose values the memory decides.
    pub(super) fn with_others(self, random: &mut Random) -> Form {
        let word = || Form::Scalar(Scalar::U64);
        let name = |at: usize| format!("f{at}");
        let row = Form::Struct("R".to_owned(), vec![(name(0), word()), (name(1), word())]);
        let any = |random: &mut Random| match random.below(3) {
            0 => row.clone(),
            1 => Form::Scalar(Scalar::U16),
            _ => Form::Option(word().into()),
        };
        let mut forms = vec![self, Form::Array(row.clone().into(), 2)];
        forms.push(Form::Ref("R".to_owned(), Vec::new()));
        let (option, vec, map) = (any(random), any(random), any(random));
        forms.push(Form::Option(option.into()));
        forms.push(Form::Vec(vec.into(), random.within(2, 3) as u32));
        forms.push(Form::Map(map.into(), random.within(1, 2) as u32));
        let fields = forms.into_iter().enumerate().map(|(at, form)| (name(at), form));
        let mut whole = Form::Struct("Others".to_owned(), fields.collect());
        let rows = [0, 1].map(|index| vec![Step::Field(1), Step::Index(index)]);
        let rows = rows.map(|path| (whole.place(&path).at, path));
        if let Form::Struct(_, fields) = &mut whole {
            fields[2].1 = Form::Ref("R".to_owned(), rows.to_vec());
        }
        whole
    }

    /// Returns whether a route leads through such a value, or to it.
    pub(super) fn is_door(&self) -> bool {
        match self {
            Form::Option(_) | Form::Vec(..) | Form::Map(..) | Form::Ref(..) => true,
            Form::Struct(name, _) => name == "R",
            Form::Scalar(_) | Form::Text(_) | Form::Array(..) => false,
        }
    }

    /// Adds the paths to values whose place the memory decides. `whole` is the exported type.
    pub(super) fn add_routes(
        &self,
        whole: &Form,
        path: &mut Path,
        is_routed: bool,
        found: &mut Vec<Path>,
    ) {
        if self.words() == 0 {
            return;
        }
        found.extend(is_routed.then(|| path.clone()));
        let indexes = |len: u32| (0..len as usize).map(Step::Index);
        let (is_step, inner): (bool, Vec<(Step, &Form)>) = match self {
            Form::Scalar(_) | Form::Text(_) => return,
            Form::Array(of, len) => (false, indexes(*len).map(|step| (step, &**of)).collect()),
            Form::Struct(_, fields) => {
                let fields = fields.iter().enumerate();
                (false, fields.map(|(at, field)| (Step::Field(at), &field.1)).collect())
            }
            Form::Option(of) => (true, vec![(Step::Some, of)]),
            Form::Vec(of, len) => (true, indexes(*len).map(|step| (step, &**of)).collect()),
            Form::Map(of, _) => (true, (0..KEYS).map(|key| (Step::Key(key), &**of)).collect()),
            Form::Ref(_, targets) => (true, vec![(Step::Target, whole.place(&targets[0].1).form)]),
        };
        for (step, form) in inner {
            path.push(step);
            form.add_routes(whole, path, is_routed || is_step, found);
            path.pop();
        }
    }

    /// Returns a value in place of another: one that is invented, or the other with an element or an entry more or less.
    pub(super) fn change(&self, old: Option<&Tree>, random: &mut Random) -> Tree {
        match (self, old) {
            (Form::Vec(of, len), Some(Tree::Array(items))) if random.permille(700) => {
                let mut items = items.clone();
                if items.len() < *len as usize && random.permille(500) {
                    items.push(of.invent(random));
                } else {
                    items.pop();
                }
                Tree::Array(items)
            }
            (Form::Map(of, len), Some(Tree::Map(slots))) => {
                let mut slots = slots.clone();
                // Often, an entry gets the slot of another one in the same update.
                let first = slots.iter().find_map(|slot| match slot {
                    Slot::Entry(key, _) => Some(*key),
                    Slot::Free | Slot::Removed => None,
                });
                if let Some(first) = first.filter(|_| random.permille(600)) {
                    slots = with_entry(of, *len, slots, first, None);
                }
                let value = random.permille(850).then(|| of.invent(random));
                Tree::Map(with_entry(of, *len, slots, random.below(KEYS), value))
            }
            _ => self.invent(random),
        }
    }
}

/// Inserts the value of a key, if there is room, or removes it.
fn with_entry(
    of: &Form,
    len: u32,
    mut slots: Vec<Slot>,
    key: u64,
    value: Option<Tree>,
) -> Vec<Slot> {
    let at = slots_of(of, len);
    let words = map_words(of, len, &slots);
    let mut load = |at: usize| words.iter().find(|word| word.0 == at).map_or(0, |word| word.1);
    let found = at.find(&[key], &mut load);
    match (value, found) {
        (Some(value), found) => {
            if let Some(slot) = found.or_else(|| at.room(&[key], &mut load)) {
                slots[slot] = Slot::Entry(key, value);
            }
        }
        (None, Some(slot)) => at.remove(slot, &mut load, &mut |word, left| {
            let slot = (0..slots.len()).find(|slot| at.slot(*slot) == word);
            let slot = slot.expect("a word of a slot is changed");
            slots[slot] = if left == 0 { Slot::Free } else { Slot::Removed };
        }),
        (None, None) => {}
    }
    slots
}
