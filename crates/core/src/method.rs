//! The signatures of methods and their stable hashes.
//!
//! A higher crate defines which types a method may have and how their schemas are written. Here a signature is a
//! text such as `Counter.add(u64) -> u64`, including the schemas. Two sides agree on a method if the hashes of their
//! texts are equal, and no argument of a method with several has the name of another argument of the other side.
//! Invariant: a hash depends only on the whole text, in every build and on every host.
//!
//! Structs may have gained or lost fields with a default, and enums with an `other` variant may have gained or lost
//! variants. [`Tolerance`] says which changes of that kind two sides endure: the text without these fields and variants
//! is equal, and so is each of them that both sides have.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::limits::{
    DEFAULT_FIELDS_MAX, IDENT_BYTES_MAX, METHODS_PER_SESSION_MAX, SIGNATURE_BYTES_MAX,
};

/// The bit of a method's number in a request that is written in the tolerant form.
pub const TOLERANT: u16 = 1 << 15;

const _: () = assert!(METHODS_PER_SESSION_MAX <= TOLERANT as usize);

/// The hash of a method's signature.
///
/// ```
/// use upbeat_core::method::MethodHash;
///
/// const ADD: MethodHash = MethodHash::of("Counter.add(n: u64) -> u64");
/// assert_eq!(ADD, MethodHash::of("Counter.add(").and("n: u64) -> u64"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodHash(u64);

impl MethodHash {
    /// Returns the hash of a text (FNV-1a).
    pub const fn of(text: &str) -> MethodHash {
        MethodHash(0xcbf2_9ce4_8422_2325).and(text)
    }

    /// Returns the hash of the text so far, followed by `text`.
    #[must_use]
    pub const fn and(self, text: &str) -> MethodHash {
        let bytes = text.as_bytes();
        let mut hash = self.0;
        let mut at = 0;
        while at < bytes.len() {
            hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
            at += 1;
        }
        MethodHash(hash)
    }

    /// Returns the hash of a word on the wire.
    pub const fn from_u64(hash: u64) -> MethodHash {
        MethodHash(hash)
    }

    /// Returns the word on the wire.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for MethodHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The signature of a method.
///
/// ```
/// use upbeat_core::method::Signature;
///
/// let add = Signature::new("Counter", "add", "Counter.add(n: u64) -> u64").unwrap();
/// assert_eq!((add.service(), add.name()), ("Counter", "add"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    service: Box<str>,
    name: Box<str>,
    text: Box<str>,
    hash: MethodHash,
    tolerance: Tolerance,
}

impl Signature {
    /// Creates the signature with this text. The hash covers all of it; of a text beyond [`SIGNATURE_BYTES_MAX`]
    /// only the beginning is kept, to be shown.
    pub fn new(service: &str, name: &str, text: &str) -> Result<Signature, IdentError> {
        check_ident(service)?;
        check_ident(name)?;
        let hash = MethodHash::of(text);
        let text = &text[..text.floor_char_boundary(SIGNATURE_BYTES_MAX)];
        let tolerance = Tolerance { base: hash, fields: Box::default() };
        Ok(Signature {
            service: service.into(),
            name: name.into(),
            text: text.into(),
            hash,
            tolerance,
        })
    }

    /// Returns the signature with these fields that the other side may lack.
    #[must_use]
    pub fn with_tolerance(self, tolerance: Tolerance) -> Signature {
        Signature { tolerance, ..self }
    }

    /// Returns the name of the service.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Returns the method's name within its service.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text, or the beginning of a long one.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the hash of the whole text.
    pub fn hash(&self) -> MethodHash {
        self.hash
    }

    /// Returns which differences the method endures.
    pub fn tolerance(&self) -> &Tolerance {
        &self.tolerance
    }
}

/// The part of a signature that both sides must share if they differ in fields with a default, or in variants of enums
/// that have an `other` variant.
///
/// ```
/// use upbeat_core::method::{DefaultField, MethodHash, Tolerance};
///
/// let base = MethodHash::of("Shop.order(Order{id: u64})");
/// let field = DefaultField { place: MethodHash::of("Order 0"), content: MethodHash::of("note: String") };
/// let (old, new) = (Tolerance::new(base, Vec::new()), Tolerance::new(base, vec![field]));
/// assert!(old.endures(&new) && new.endures(&old));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tolerance {
    base: MethodHash,
    fields: Box<[DefaultField]>,
}

/// A field with a default in the types of a method, a variant of an enum that has an `other` variant, or an argument of a
/// method with several: the place of an argument is its name, so that two sides may name it differently and not swap two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultField {
    /// The hash of the place of the field in the signature, or of the enum and of the number of the variant.
    pub place: MethodHash,
    /// The hash of the name and of the schema; of an argument its position, which is below [`DEFAULT_FIELDS_MAX`].
    pub content: MethodHash,
}

impl DefaultField {
    /// Returns the entry of an argument with this name, at this position among several.
    pub fn argument(name: &str, at: usize) -> DefaultField {
        let place = MethodHash::of("argument ").and(name);
        DefaultField { place, content: MethodHash::from_u64(at as u64) }
    }

    fn is_argument(&self) -> bool {
        self.content.as_u64() < DEFAULT_FIELDS_MAX as u64
    }
}

impl Tolerance {
    /// Creates the tolerance of a method: the hash of its text without the parts that the other side may lack, and these
    /// parts. A method has at most [`DEFAULT_FIELDS_MAX`] such parts.
    pub fn new(base: MethodHash, mut fields: Vec<DefaultField>) -> Tolerance {
        assert!(fields.len() <= DEFAULT_FIELDS_MAX);
        fields.sort_unstable_by_key(|field| field.place);
        Tolerance { base, fields: fields.into() }
    }

    /// Returns the hash of the text without the parts that the other side may lack.
    pub fn base(&self) -> MethodHash {
        self.base
    }

    /// Returns the parts that the other side may lack, in the order of their places.
    pub fn fields(&self) -> &[DefaultField] {
        &self.fields
    }

    /// Returns the entries of the arguments.
    pub(crate) fn arguments(&self) -> Vec<DefaultField> {
        self.fields.iter().filter(|field| field.is_argument()).copied().collect()
    }

    /// Returns whether two sides understand each other, one of which has this tolerance: they differ in nothing but
    /// parts that one of them lacks, and parts in the same place are equal.
    pub fn endures(&self, other: &Tolerance) -> bool {
        self.base == other.base && !other.fields.iter().any(|theirs| self.contradicts(theirs))
    }

    /// Returns whether an argument of one side has the name of another argument of the other side.
    pub fn swaps(&self, other: &Tolerance) -> bool {
        other.fields.iter().any(|theirs| theirs.is_argument() && self.contradicts(theirs))
    }

    /// Returns whether another part stands here in the place of a part of the other side.
    fn contradicts(&self, theirs: &DefaultField) -> bool {
        let ours = self.fields.binary_search_by_key(&theirs.place, |ours| ours.place);
        ours.is_ok_and(|at| self.fields[at].content != theirs.content)
    }
}

/// A name of a service or of a method that is empty or too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentError {
    bytes: usize,
}

impl core::error::Error for IdentError {}

impl fmt::Display for IdentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the name of a service or method has {} bytes; 1 to {IDENT_BYTES_MAX} are allowed",
            self.bytes
        )
    }
}

/// Checks whether a text may name a service or a method.
pub(crate) fn check_ident(ident: &str) -> Result<(), IdentError> {
    match ident.len() {
        1..=IDENT_BYTES_MAX => Ok(()),
        bytes => Err(IdentError { bytes }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_hash_in_parts_is_the_hash_of_the_whole(a in ".{0,20}", b in ".{0,20}") {
            prop_assert_eq!(MethodHash::of(&a).and(&b), MethodHash::of(&format!("{a}{b}")));
        }
    }

    #[test]
    fn hashes_never_change() {
        // The published values of FNV-1a.
        assert_eq!(MethodHash::of("").as_u64(), 0xcbf2_9ce4_8422_2325);
        assert_eq!(MethodHash::of("foobar").as_u64(), 0x8594_4171_f739_67e8);
        assert_eq!(MethodHash::of("a").to_string(), "af63dc4c8601ec8c");
    }

    #[test]
    fn the_hash_covers_the_part_that_is_cut() {
        let long = "é".repeat(SIGNATURE_BYTES_MAX);
        let one = Signature::new("S", "m", &format!("{long}1")).unwrap();
        let two = Signature::new("S", "m", &format!("{long}2")).unwrap();
        assert_eq!(one.text(), two.text());
        assert_ne!(one.hash(), two.hash());
    }

    #[test]
    fn names_have_bounds() {
        assert!(Signature::new("", "m", "").is_err());
        let error = Signature::new("S", &"m".repeat(129), "").unwrap_err();
        assert!(error.to_string().contains("129"));
    }
}
