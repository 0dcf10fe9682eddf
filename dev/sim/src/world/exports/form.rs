//! Types of simulated exports, and their layout, as the code that `#[derive(Shared)]` generates has it.

use upbeat_core::channel::export::map::{Slots, tag};
use upbeat_core::channel::export::{Part, Scalar, Shape};

use crate::random::Random;
use crate::value::{Path, Slot, Step, Tree};

/// The bytes of a word.
const WORD: usize = 8;

/// The word of a vector or a map, behind its version, with its length.
const LENGTH: u32 = 1;

/// The most words of a type that is drawn.
const WORDS_MAX: usize = 80;

/// The type of an export, with all that follows from it.
#[derive(Debug)]
pub(super) struct Type {
    pub(super) form: Form,
    pub(super) shape: Shape,
    /// The description that readers and owner compare.
    pub(super) text: String,
    /// The paths to all parts that have words.
    pub(super) paths: Vec<Path>,
    /// The paths to values whose place the memory decides.
    pub(super) routes: Vec<Path>,
    /// The paths to the options, vectors, maps and pointers, and to the targets of pointers.
    pub(super) doors: Vec<Path>,
}

impl Type {
    /// Draws the type of an export.
    pub(super) fn draw(random: &mut Random) -> Type {
        let mut form = Form::draw(random);
        if random.permille(500) {
            form = form.with_others(random);
        }
        let text = form.text();
        let shape = text.parse().expect("a type of an export has a shape");
        let mut paths = Vec::new();
        form.add_paths(&mut Vec::new(), &mut paths);
        let mut routes = Vec::new();
        form.add_routes(&form, &mut Vec::new(), false, &mut routes);
        let is_door = |path: &&Path| form.place(path).form.is_door();
        let doors = paths.iter().filter(is_door).cloned().collect();
        Type { form, shape, text, paths, routes, doors }
    }

    /// Returns a path to the part that has these words, if a part has them.
    pub(super) fn path_of(&self, part: Part) -> Option<&Path> {
        self.paths.iter().find(|path| self.form.place(path).part() == part)
    }

    /// Returns a path to the vector or the map whose length has these words, if one has.
    pub(super) fn measured_by(&self, part: Part) -> Option<&Path> {
        let is_measured = |place: Place<'_>| {
            let length = Part { at: place.part().at + LENGTH, words: 1 };
            matches!(place.form, Form::Vec(..) | Form::Map(..)) && length == part
        };
        self.paths.iter().find(|path| is_measured(self.form.place(path)))
    }
}

/// The type of a value.
#[derive(Clone, Debug)]
pub(super) enum Form {
    Scalar(Scalar),
    Text(u32),
    Array(Box<Form>, u32),
    Struct(String, Vec<(String, Form)>),
    Option(Box<Form>),
    /// A vector of at most so many elements.
    Vec(Box<Form>, u32),
    /// A map from `u8`, of at most so many entries.
    Map(Box<Form>, u32),
    /// A pointer to a struct of this name: the places and the paths of these structs.
    Ref(String, Vec<(usize, Path)>),
}

/// Where a part of a value lies, from the beginning of the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'f> {
    pub(super) at: usize,
    /// The word with the version of the part, or else of the unit around it. `None` is the version before the value.
    pub(super) version: Option<usize>,
    /// The first bit of an element that shares its word with others.
    pub(super) shift: Option<u32>,
    pub(super) form: &'f Form,
}

impl Place<'_> {
    /// Returns how a reader names the part to the owner.
    pub(super) fn part(&self) -> Part {
        Part { at: self.at as u32, words: self.form.words() as u32 }
    }

    /// Returns the words with the versions that tell whether the part has changed.
    pub(super) fn versions(&self) -> Vec<Option<usize>> {
        let around = (!self.form.is_unit()).then_some(self.version);
        let mut found: Vec<_> = around.into_iter().collect();
        self.form.units(self.at, &mut found);
        found
    }

    /// Returns whether the part is one word, which is stored and loaded at once.
    pub(super) fn is_word(&self) -> bool {
        self.form.words() == 1 && !self.form.has_units()
    }

    /// Returns the words of a value of this part, with the bits of each that belong to it.
    pub(super) fn stores(&self, tree: &Tree) -> Vec<(usize, u64, u64)> {
        let mut words = Vec::new();
        self.form.put(tree, self.at, &mut words);
        let (mask, shift) = match (self.shift, self.form) {
            (Some(shift), Form::Scalar(of)) => (u64::MAX >> (64 - 8 * of.bytes()), shift),
            _ => (u64::MAX, 0),
        };
        words.into_iter().map(|(at, word)| (at, (word & mask) << shift, mask << shift)).collect()
    }
}

impl Form {
    /// Draws a type with some words.
    fn draw(random: &mut Random) -> Form {
        loop {
            let form = Form::draw_within(random, 4, true);
            if (1..=WORDS_MAX).contains(&form.words()) {
                return form;
            }
        }
    }

    /// Draws a type in which values lie in each other `depth` times at most.
    fn draw_within(random: &mut Random, depth: u32, is_whole: bool) -> Form {
        let kind = if is_whole && random.permille(800) { 9 } else { random.below(10) };
        let scalar = |random: &mut Random| {
            let common = [Scalar::U64, Scalar::I64, Scalar::F64, Scalar::U8, Scalar::I16];
            let is_common = random.permille(600);
            random.pick(if is_common { &common } else { &Scalar::ALL[..] })
        };
        match kind {
            _ if depth == 0 => Form::Scalar(scalar(random)),
            0..=4 => Form::Scalar(scalar(random)),
            5 => Form::Text(random.below(14) as u32),
            6 => Form::Array(Form::Scalar(scalar(random)).into(), random.below(13) as u32),
            7 | 8 => {
                let is_struct = random.permille(600);
                let of = Form::draw_within(random, depth - 1, is_struct);
                Form::Array(of.into(), random.below(5) as u32)
            }
            _ => {
                let name = format!("S{}", random.below(3));
                let count = random.pick(&[0, 1, 1, 2, 2, 3, 3, 4]);
                let field =
                    |at| (format!("f{at}"), Form::draw_within(&mut *random, depth - 1, false));
                Form::Struct(name, (0..count).map(field).collect())
            }
        }
    }

    /// Returns the description of the type.
    fn text(&self) -> String {
        match self {
            Form::Scalar(of) => of.name().to_owned(),
            Form::Text(bytes) => format!("text<{bytes}>"),
            Form::Array(of, len) => format!("[{}; {len}]", of.text()),
            Form::Struct(name, fields) => {
                let field = |(name, form): &(String, Form)| format!(" {name}: {}", form.text());
                let fields: Vec<_> = fields.iter().map(field).collect();
                format!("{name} {{{} }}", fields.join(","))
            }
            Form::Option(of) => format!("option<{}>", of.text()),
            Form::Vec(of, len) => format!("vec<{}; {len}>", of.text()),
            Form::Map(of, len) => format!("map<u8, {}; {len}>", of.text()),
            Form::Ref(to, _) => format!("ref<{to}>"),
        }
    }

    /// Returns the words of a value.
    pub(super) fn words(&self) -> usize {
        match self {
            Form::Scalar(_) => 1,
            Form::Text(bytes) => 2 + (*bytes as usize).div_ceil(WORD),
            Form::Array(of, len) => match &**of {
                Form::Scalar(of) => {
                    let bytes = of.bytes() * *len as usize;
                    bytes.div_ceil(WORD) + usize::from(bytes > WORD)
                }
                of => of.words() * *len as usize,
            },
            Form::Struct(_, fields) => {
                1 + fields.iter().map(|field| field.1.words()).sum::<usize>()
            }
            Form::Option(of) => 2 + of.words(),
            Form::Vec(of, len) => match &**of {
                Form::Scalar(of) => 2 + (of.bytes() * *len as usize).div_ceil(WORD),
                of => 2 + of.words() * *len as usize,
            },
            Form::Map(of, len) => 2 + (2 + of.words()) * *len as usize,
            Form::Ref(..) => 1,
        }
    }

    /// Returns whether the first word of a value is a version.
    pub(super) fn is_unit(&self) -> bool {
        match self {
            Form::Scalar(_) | Form::Ref(..) => false,
            Form::Text(_) | Form::Struct(..) => true,
            Form::Option(_) | Form::Vec(..) | Form::Map(..) => true,
            Form::Array(of, len) => {
                matches!(&**of, Form::Scalar(of) if of.bytes() * *len as usize > WORD)
            }
        }
    }

    /// Returns whether a value has a version.
    pub(super) fn has_units(&self) -> bool {
        let mut units = Vec::new();
        self.units(0, &mut units);
        !units.is_empty()
    }

    /// Adds the words with the versions of a value of this type that begins at word `at`.
    fn units(&self, at: usize, found: &mut Vec<Option<usize>>) {
        found.extend(self.is_unit().then_some(Some(at)));
        match self {
            Form::Scalar(_) | Form::Text(_) | Form::Ref(..) => {}
            Form::Option(of) => of.units(at + 2, found),
            Form::Map(of, len) => {
                let each = 2 + of.words();
                (0..*len as usize).for_each(|slot| of.units(at + 4 + slot * each, found));
            }
            Form::Vec(of, len) => {
                (0..*len as usize).for_each(|index| of.units(at + 2 + index * of.words(), found));
            }
            Form::Array(of, len) => {
                let is_packed = matches!(**of, Form::Scalar(_));
                let len = if is_packed { 0 } else { *len as usize };
                (0..len).for_each(|index| of.units(at + index * of.words(), found));
            }
            Form::Struct(_, fields) => {
                let mut at = at + 1;
                for (_, form) in fields {
                    form.units(at, found);
                    at += form.words();
                }
            }
        }
    }

    /// Returns the place of a part.
    pub(super) fn place(&self, path: &[Step]) -> Place<'_> {
        let version = self.is_unit().then_some(0);
        let whole = Place { at: 0, version, shift: None, form: self };
        path.iter().fold(whole, |place, step| {
            let (at, shift, form) = match (place.form, step) {
                (Form::Struct(_, fields), Step::Field(number)) => {
                    let before = fields[..*number].iter().map(|field| field.1.words());
                    (place.at + 1 + before.sum::<usize>(), None, &fields[*number].1)
                }
                (Form::Array(of, _), Step::Index(index)) => match &**of {
                    Form::Scalar(scalar) => {
                        let byte = index * scalar.bytes();
                        let first = place.at + usize::from(place.form.is_unit());
                        (first + byte / WORD, Some(8 * (byte % WORD) as u32), &**of)
                    }
                    of => (place.at + index * of.words(), None, of),
                },
                _ => unreachable!("a path leads through structs and arrays"),
            };
            let version = if form.is_unit() { Some(at) } else { place.version };
            Place { at, version, shift, form }
        })
    }

    /// Adds the paths to all parts that have words.
    fn add_paths(&self, path: &mut Path, found: &mut Vec<Path>) {
        if self.words() == 0 {
            return;
        }
        found.push(path.clone());
        let inner: Vec<(Step, &Form)> = match self {
            Form::Scalar(_) | Form::Text(_) => return,
            // Routes lead to the values inside.
            Form::Option(_) | Form::Vec(..) | Form::Map(..) | Form::Ref(..) => return,
            Form::Array(of, len) => {
                (0..*len as usize).map(|index| (Step::Index(index), &**of)).collect()
            }
            Form::Struct(_, fields) => {
                let fields = fields.iter().enumerate();
                fields.map(|(number, field)| (Step::Field(number), &field.1)).collect()
            }
        };
        for (step, form) in inner {
            path.push(step);
            form.add_paths(path, found);
            path.pop();
        }
    }

    /// Returns a path as text.
    pub(super) fn path_text(&self, path: &[Step]) -> String {
        let mut form = self;
        let mut text = String::new();
        for step in path {
            form = match (form, step) {
                (Form::Struct(_, fields), Step::Field(number)) => {
                    let (name, form) = &fields[*number];
                    text += &format!(".{name}");
                    form
                }
                (Form::Array(of, _) | Form::Vec(of, _), Step::Index(index)) => {
                    text += &format!("[{index}]");
                    of
                }
                (Form::Option(of), Step::Some) => {
                    text += "?";
                    of
                }
                (Form::Map(of, _), Step::Key(key)) => {
                    text += &format!("[{key}]");
                    of
                }
                (Form::Ref(_, targets), Step::Target) => {
                    text += "*";
                    self.place(&targets[0].1).form
                }
                _ => unreachable!("a path leads through the type"),
            };
        }
        text
    }

    /// Invents a value of this type.
    pub(super) fn invent(&self, random: &mut Random) -> Tree {
        match self {
            Form::Scalar(of) => invent_scalar(*of, random),
            Form::Text(bytes) => {
                let text: String = (0..random.below(1 + u64::from(*bytes)))
                    .map(|_| random.pick(&['a', 'b', 'z', '"', '0']))
                    .collect();
                Tree::Text(text)
            }
            Form::Array(of, len) => Tree::Array((0..*len).map(|_| of.invent(random)).collect()),
            Form::Struct(name, fields) => {
                let field = |(name, form): &(String, Form)| (name.clone(), form.invent(random));
                Tree::Struct(name.clone(), fields.iter().map(field).collect())
            }
            Form::Option(of) => {
                let value = random.permille(600).then(|| of.invent(random).into());
                Tree::Option(value)
            }
            Form::Vec(of, len) => {
                let len = random.below(1 + u64::from(*len));
                Tree::Array((0..len).map(|_| of.invent(random)).collect())
            }
            Form::Map(_, len) => Tree::Map(vec![Slot::Free; *len as usize]),
            Form::Ref(_, targets) => Tree::Ref(
                random.permille(850).then(|| targets[random.index(targets.len())].clone()),
            ),
        }
    }

    /// Adds the words of a value that begins at word `at`, except versions.
    pub(super) fn put(&self, tree: &Tree, at: usize, words: &mut Vec<(usize, u64)>) {
        match (self, tree) {
            (Form::Scalar(_), tree) => words.push((at, bits(tree))),
            (Form::Text(_), Tree::Text(text)) => {
                words.push((at + 1, text.len() as u64));
                put_bytes(text.as_bytes(), at + 2, words);
            }
            (Form::Array(of, _), Tree::Array(items)) => {
                if let Form::Scalar(scalar) = **of {
                    let bytes = |item| bits(item).to_le_bytes().into_iter().take(scalar.bytes());
                    let bytes: Vec<u8> = items.iter().flat_map(bytes).collect();
                    return put_bytes(&bytes, at + usize::from(self.is_unit()), words);
                }
                let each = of.words();
                for (index, item) in items.iter().enumerate() {
                    of.put(item, at + index * each, words);
                }
            }
            (Form::Struct(_, forms), Tree::Struct(_, fields)) => {
                let mut at = at + 1;
                for ((_, form), (_, field)) in forms.iter().zip(fields) {
                    form.put(field, at, words);
                    at += form.words();
                }
            }
            (Form::Option(of), Tree::Option(value)) => {
                words.push((at + 1, value.is_some().into()));
                value.iter().for_each(|value| of.put(value, at + 2, words));
            }
            (Form::Vec(of, _), Tree::Array(items)) => {
                words.push((at + 1, items.len() as u64));
                let elements = Form::Array(of.clone(), items.len() as u32);
                elements.put(tree, at + 2 - usize::from(elements.is_unit()), words);
            }
            (Form::Map(of, len), Tree::Map(slots)) => {
                words.extend(
                    map_words(of, *len, slots).into_iter().map(|(to, word)| (at + to, word)),
                );
            }
            (Form::Ref(..), Tree::Ref(target)) => {
                words.push((at, target.as_ref().map_or(0, |(at, _)| 1 + *at as u64)));
            }
            _ => unreachable!("a value has the type of its place"),
        }
    }
}

/// Returns where the slots of a map lie in it.
pub(super) fn slots_of(of: &Form, len: u32) -> Slots {
    Slots { at: 0, len: len as usize, key: 1, value: of.words() }
}

/// Returns the words of a map, except versions.
pub(super) fn map_words(of: &Form, len: u32, slots: &[Slot]) -> Vec<(usize, u64)> {
    let at = slots_of(of, len);
    let entries = slots.iter().filter(|slot| matches!(slot, Slot::Entry(..)));
    let mut words = vec![(1, entries.count() as u64)];
    for (number, slot) in slots.iter().enumerate() {
        match slot {
            Slot::Free => words.push((at.slot(number), 0)),
            Slot::Removed => words.push((at.slot(number), 1)),
            Slot::Entry(key, value) => {
                words.extend([(at.slot(number), tag(&[*key])), (at.key_of(number), *key)]);
                of.put(value, at.value_of(number), &mut words);
            }
        }
    }
    words
}

/// Adds the words of bytes that begin at word `at`.
fn put_bytes(bytes: &[u8], at: usize, words: &mut Vec<(usize, u64)>) {
    for (index, bytes) in bytes.chunks(WORD).enumerate() {
        let mut word = [0; WORD];
        word[..bytes.len()].copy_from_slice(bytes);
        words.push((at + index, u64::from_le_bytes(word)));
    }
}

/// Invents a number. Numbers seldom repeat, as far as their types allow, so that a torn value is no value.
fn invent_scalar(of: Scalar, random: &mut Random) -> Tree {
    let wide = random.next() >> random.pick(&[0, 8, 24, 40]);
    match of {
        Scalar::U8 => Tree::Unsigned(u64::from(wide as u8)),
        Scalar::U16 => Tree::Unsigned(u64::from(wide as u16)),
        Scalar::U32 => Tree::Unsigned(u64::from(wide as u32)),
        Scalar::U64 => Tree::Unsigned(wide),
        Scalar::I8 => Tree::Signed(i64::from(wide as i8)),
        Scalar::I16 => Tree::Signed(i64::from(wide as i16)),
        Scalar::I32 => Tree::Signed(i64::from(wide as i32)),
        Scalar::I64 => Tree::Signed(wide as i64),
        Scalar::F32 if random.permille(50) => Tree::F32(f32::NAN),
        Scalar::F32 => Tree::F32(f32::from(wide as u16) + 0.5),
        Scalar::F64 if random.permille(50) => Tree::F64(f64::NAN),
        Scalar::F64 => Tree::F64(f64::from(wide as u32) + 0.5),
        Scalar::Bool => Tree::Bool(wide % 2 == 1),
        Scalar::Char => Tree::Char(random.pick(&['a', 'é', '\n', '😀'])),
    }
}

/// Returns the low bits of a word with a number.
pub(super) fn bits(tree: &Tree) -> u64 {
    match tree {
        Tree::Unsigned(number) => *number,
        Tree::Signed(number) => *number as u64,
        Tree::F32(number) => u64::from(number.to_bits()),
        Tree::F64(number) => number.to_bits(),
        Tree::Bool(value) => u64::from(*value),
        Tree::Char(one) => u64::from(u32::from(*one)),
        Tree::Text(_) | Tree::Array(_) | Tree::Struct(..) => unreachable!("no number is put here"),
        Tree::Option(_) | Tree::Map(_) | Tree::Ref(_) => unreachable!("no number is put here"),
    }
}
