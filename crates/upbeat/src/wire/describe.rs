//! Schemas: the description of a type as text, which two sides compare.

use super::Wire;
use std::any::TypeId;
use std::collections::HashMap;
use std::ops::Range;
use upbeat_core::limits::{DEFAULT_FIELDS_MAX, SCHEMA_REPEATS_BYTES_MAX};
use upbeat_core::method::{DefaultField, MethodHash, Signature, Tolerance};

/// The text of a schema being written.
///
/// ```
/// use upbeat::wire::Describe;
///
/// let mut schema = Describe::default();
/// schema.of::<Vec<Option<u8>>>();
/// assert_eq!(schema.into_text(), "Vec<Option<u8>>");
/// ```
#[derive(Debug, Default)]
#[doc(hidden)]
pub struct Describe {
    text: String,
    /// The text without the parts that the other side may lack: fields with a default, variants beside an `other` one.
    base: String,
    fields: Vec<DefaultField>,
    /// The number of types around the current one whose parts the other side must not lack.
    exact: u32,
    /// Where the named type that is written begins in `base`, with its arguments.
    begin: usize,
    /// The named types around the current one, each with the place of its arguments and its name in `text`.
    open: Vec<(TypeId, Range<usize>)>,
    /// The numbers of the named types that were begun so far, in the order of their beginnings.
    begun: HashMap<TypeId, usize>,
}

impl Describe {
    /// Writes words of the schema.
    pub fn text(&mut self, text: &str) {
        self.text.push_str(text);
        self.base.push_str(text);
    }

    /// Writes a field with a default, which the other side may lack. `index` counts such fields of the struct, and `name`
    /// is the name of the field with the punctuation around it.
    #[doc(hidden)]
    pub fn default_field(&mut self, index: usize, name: &str, body: impl FnOnce(&mut Describe)) {
        let begin = self.base.len();
        self.text(name);
        body(self);
        if self.exact == 0 {
            let content = MethodHash::of(&self.base[begin..]);
            self.base.truncate(begin);
            self.may_lack(index as u64, content);
        }
    }

    /// Begins the schema of an enum one of whose variants is read for the variants that a side does not know.
    #[doc(hidden)]
    pub fn other(&mut self, name: &str) {
        // Two sides of which one has no such variant, or another, have another base.
        self.base.push_str(" other ");
        self.base.push_str(name);
    }

    /// Writes a variant of an enum with an `other` variant, behind the punctuation in front of the variant. The other
    /// side may lack it, unless it is the `other` one, which has no number.
    #[doc(hidden)]
    pub fn variant(
        &mut self,
        between: &str,
        number: Option<u32>,
        body: impl FnOnce(&mut Describe),
    ) {
        let begin = self.base.len();
        self.text(between);
        let name = self.base.len();
        body(self);
        if self.exact == 0 {
            let content = MethodHash::of(&self.base[name..]);
            self.base.truncate(begin);
            if let Some(number) = number {
                self.may_lack(number.into(), content);
            }
        }
    }

    /// Notes a part of the current type that the other side may lack, by its number in the type.
    fn may_lack(&mut self, number: u64, content: MethodHash) {
        let place = MethodHash::of(&self.base[self.begin..]).and(&format!(" {number}"));
        let field = DefaultField { place, content };
        if !self.fields.contains(&field) {
            self.fields.push(field);
        }
    }

    /// Writes the schema of the elements of a sequence or an array, which says whether there are gaps between elements that
    /// are like plain data.
    pub(super) fn elements<T: Wire>(&mut self) {
        if T::SPACED {
            self.text("spaced ");
        }
        self.of::<T>();
    }

    /// Writes a part of the schema in which fields with a default count like all others: the part of a type that is
    /// written as a whole.
    ///
    /// ```
    /// use upbeat::wire::Describe;
    ///
    /// let mut schema = Describe::default();
    /// schema.exact(|schema| schema.of::<u64>());
    /// assert_eq!(schema.into_text(), "u64");
    /// ```
    pub fn exact(&mut self, body: impl FnOnce(&mut Describe)) {
        // Two sides of which one writes the type field by field have another base.
        self.base.push_str(" whole ");
        self.exact += 1;
        body(self);
        self.exact -= 1;
    }

    /// Writes the schema of the type `T`, which has a name and may have arguments. Inside of the type's own schema, only
    /// the arguments and the name are written. In a long text, a type that was begun before is its name and its number,
    /// since types that use each other twice would double the text at each level.
    pub fn named<T: 'static>(
        &mut self,
        name: &str,
        arguments: impl FnOnce(&mut Describe),
        body: impl FnOnce(&mut Describe),
    ) {
        // Another type may have the same name.
        let id = TypeId::of::<T>();
        let next = self.begun.len();
        let number = *self.begun.entry(id).or_insert(next);
        if number < next && self.is_long() {
            return self.text(&format!("{name}#{number}"));
        }
        let around = std::mem::replace(&mut self.begin, self.base.len());
        let begin = self.text.len();
        arguments(self);
        self.text(name);
        let head = begin..self.text.len();
        match self.open.iter().rposition(|(open, _)| *open == id) {
            Some(at) => {
                let same = |(_, inner): &&(_, Range<usize>)| {
                    self.text[inner.clone()] == self.text[head.clone()]
                };
                let between = self.open[at + 1..].iter().filter(same).count();
                if between > 0 {
                    self.text(&format!("^{between}"));
                }
            }
            None => {
                let is_same = |(_, outer): &(_, Range<usize>)| {
                    self.text[outer.clone()] == self.text[head.clone()]
                };
                let is_shadowing = self.open.iter().any(is_same);
                let end = head.end;
                self.open.push((id, head));
                body(self);
                self.open.pop();
                // A name alone would be the outer type's.
                if is_shadowing && self.text.len() == end {
                    self.text("{}");
                }
            }
        }
        self.begin = around;
    }

    /// Returns whether the text is so long that it does not write types out again.
    fn is_long(&self) -> bool {
        self.text.len() > SCHEMA_REPEATS_BYTES_MAX
    }

    /// Writes the schema of a type.
    pub fn of<T: Wire>(&mut self) {
        T::describe(self);
    }

    /// Returns the schema.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    /// Returns the schema, and the differences that two sides endure in it, of a method whose arguments have these names.
    fn into_parts(self, arguments: &[&str]) -> (String, Tolerance) {
        let is_long = self.is_long();
        let Describe { text, base, mut fields, .. } = self;
        let named = |(at, name): (usize, &&str)| DefaultField::argument(name, at);
        // The only argument cannot be taken for another.
        let several = if arguments.len() > 1 { arguments } else { &[] };
        let named: Vec<_> = several.iter().enumerate().map(named).collect();
        // Fields of two types of one name may share a place: nobody could tell which of them the other side has.
        let shared = |at: usize| fields[..at].iter().any(|field| field.place == fields[at].place);
        let fits = !is_long && fields.len() + named.len() <= DEFAULT_FIELDS_MAX;
        let tolerance = match fits && !(1..fields.len()).any(shared) {
            true => {
                fields.extend(named);
                Tolerance::new(MethodHash::of(&base), fields)
            }
            false => Tolerance::new(MethodHash::of(&text), named),
        };
        (text, tolerance)
    }
}

/// Returns the text that two sides compare for a method: its name, and the schema of its arguments and of its result.
///
/// ```
/// use upbeat::wire::signature_text;
///
/// let text = signature_text::<(u64,), u64>("Counter", "add", false);
/// assert_eq!(text, "Counter.add(u64) -> u64");
/// ```
#[must_use]
#[doc(hidden)]
pub fn signature_text<A: Wire, R: Wire>(service: &str, method: &str, oneway: bool) -> String {
    signature_parts::<A, R>(service, method, oneway, &[]).0
}

/// Returns the text of a signature, and the differences that the method endures, whose arguments have these names.
fn signature_parts<A: Wire, R: Wire>(
    service: &str,
    method: &str,
    oneway: bool,
    arguments: &[&str],
) -> (String, Tolerance) {
    let mut out = Describe::default();
    out.text(service);
    out.text(".");
    out.text(method);
    out.of::<A>();
    if !oneway {
        out.text(" -> ");
        out.of::<R>();
    }
    out.into_parts(arguments)
}

/// Returns the signature of a method whose arguments have these names.
///
/// # Panics
/// When the names are longer than their limit, which the stub compiler rules out.
#[must_use]
#[doc(hidden)]
pub fn signature<A: Wire, R: Wire>(
    service: &str,
    method: &str,
    oneway: bool,
    arguments: &[&str],
) -> Signature {
    let (text, tolerance) = signature_parts::<A, R>(service, method, oneway, arguments);
    let signature = Signature::new(service, method, &text).expect("names are within their limits");
    signature.with_tolerance(tolerance)
}
