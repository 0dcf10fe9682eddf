//! The names of nodes (`worker/3`) and of programs, and the identity of a program.
//!
//! The transport decides who may take a name, and where the socket of a name lies. Invariant: a name is well
//! formed, short enough for a socket's path and safe as a relative path, since parsing is the only way to create
//! one.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::str::FromStr;

use crate::limits::{NAME_BYTES_MAX, PROGRAM_BYTES_MAX};

/// The name of a node: segments of letters, digits, `_`, `-` and `.`, separated by `/`.
///
/// ```
/// use upbeat_core::name::NodeName;
///
/// let name: NodeName = "worker/3".parse().unwrap();
/// assert_eq!(name.segments().last(), Some("3"));
/// assert!("worker/../3".parse::<NodeName>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(Arc<str>);

impl NodeName {
    /// Creates the name, if it is well formed.
    pub fn new(text: &str) -> Result<NodeName, NameError> {
        match flaw(text, NAME_BYTES_MAX, true) {
            None => Ok(NodeName(text.into())),
            Some(flaw) => Err(NameError::new("node", text, flaw)),
        }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the segments between the slashes.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
}

impl FromStr for NodeName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<NodeName, NameError> {
        NodeName::new(text)
    }
}

impl AsRef<str> for NodeName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeName({})", self.0)
    }
}

/// A pattern of node names: one name, all names below a prefix, or all names of the program.
///
/// ```
/// use upbeat_core::name::Pattern;
///
/// let workers: Pattern = "worker/*".parse().unwrap();
/// assert!(workers.covers(&"worker/3".parse().unwrap()));
/// assert!(!workers.covers(&"worker".parse().unwrap()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// One node, for example `counter` or `worker/3`.
    Node(NodeName),
    /// All nodes whose names begin with these segments, for example `worker/*`.
    Below(NodeName),
    /// All nodes, written `*`.
    All,
}

impl Pattern {
    /// Returns whether the pattern matches a node's name.
    pub fn covers(&self, node: &NodeName) -> bool {
        match self {
            Pattern::Node(name) => name == node,
            Pattern::Below(prefix) => {
                let rest = node.as_str().strip_prefix(prefix.as_str());
                rest.is_some_and(|rest| rest.starts_with('/'))
            }
            Pattern::All => true,
        }
    }
}

impl FromStr for Pattern {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Pattern, NameError> {
        match text.strip_suffix("/*") {
            None if text == "*" => Ok(Pattern::All),
            None => text.parse().map(Pattern::Node),
            Some(prefix) => prefix.parse().map(Pattern::Below),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Node(name) => name.fmt(f),
            Pattern::Below(prefix) => write!(f, "{prefix}/*"),
            Pattern::All => f.write_str("*"),
        }
    }
}

/// The name of a program: one segment such as those of a [`NodeName`].
///
/// ```
/// use upbeat_core::name::ProgramName;
///
/// assert_eq!("demo".parse::<ProgramName>().unwrap().as_str(), "demo");
/// assert!("a/b".parse::<ProgramName>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramName(Arc<str>);

impl ProgramName {
    /// Creates the name, if it is well formed.
    pub fn new(text: &str) -> Result<ProgramName, NameError> {
        match flaw(text, PROGRAM_BYTES_MAX, false) {
            None => Ok(ProgramName(text.into())),
            Some(flaw) => Err(NameError::new("program", text, flaw)),
        }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ProgramName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<ProgramName, NameError> {
        ProgramName::new(text)
    }
}

impl AsRef<str> for ProgramName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProgramName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ProgramName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProgramName({})", self.0)
    }
}

/// The identity of a program. Nodes of different programs refuse each other.
///
/// ```
/// use upbeat_core::name::ProgramId;
///
/// let program = ProgramId::named("demo".parse().unwrap());
/// assert_eq!(program, ProgramId::named("demo".parse().unwrap()));
/// assert_ne!(program, ProgramId::new("demo".parse().unwrap(), 7));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProgramId {
    name: ProgramName,
    identity: u128,
}

impl ProgramId {
    /// Creates the identity of a program from its name and a number, such as that of a build or of a run.
    pub fn new(name: ProgramName, identity: u128) -> ProgramId {
        ProgramId { name, identity }
    }

    /// Creates the identity of a program from its name alone.
    pub fn named(name: ProgramName) -> ProgramId {
        let identity = stable_hash(name.as_str());
        ProgramId { name, identity }
    }

    /// Returns the name.
    pub fn name(&self) -> &ProgramName {
        &self.name
    }

    /// Returns the number.
    pub fn identity(&self) -> u128 {
        self.identity
    }
}

impl fmt::Display for ProgramId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:032x})", self.name, self.identity)
    }
}

/// A text that is no name, with the reason and the allowed form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    /// The kind of thing that has the name: `node` or `program`.
    of: &'static str,
    /// The text, cut to a length that can be shown.
    text: Box<str>,
    flaw: Flaw,
}

impl NameError {
    fn new(of: &'static str, text: &str, flaw: Flaw) -> NameError {
        let end = text.floor_char_boundary(NAME_BYTES_MAX);
        NameError { of, text: text[..end].into(), flaw }
    }
}

impl core::error::Error for NameError {}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no name of a {}: ", self.text, self.of)?;
        match self.flaw {
            Flaw::Empty => f.write_str("it is empty")?,
            Flaw::TooLong { bytes, max } => write!(f, "it has {bytes} bytes, {max} are allowed")?,
            Flaw::EmptySegment { at } => {
                write!(f, "the segment at the `/` at byte {at} is empty")?;
            }
            Flaw::DotSegment { at } => {
                write!(f, "the segment at byte {at} would be a directory of its own")?;
            }
            Flaw::Character { character, at } => {
                write!(f, "{character:?} at byte {at} is not allowed")?;
            }
        }
        f.write_str("; write ")?;
        f.write_str(match self.of {
            "node" => "letters, digits, `_`, `-` and `.`, in segments separated by single `/`",
            _ => "letters, digits, `_`, `-` and `.`",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    Empty,
    TooLong { bytes: usize, max: usize },
    EmptySegment { at: usize },
    DotSegment { at: usize },
    Character { character: char, at: usize },
}

/// Returns the first flaw of a name.
fn flaw(text: &str, bytes_max: usize, segmented: bool) -> Option<Flaw> {
    if text.is_empty() {
        return Some(Flaw::Empty);
    }
    if text.len() > bytes_max {
        return Some(Flaw::TooLong { bytes: text.len(), max: bytes_max });
    }
    let allowed = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') || (segmented && c == '/')
    };
    if let Some((at, character)) = text.char_indices().find(|&(_, c)| !allowed(c)) {
        return Some(Flaw::Character { character, at });
    }
    let mut start = 0;
    for segment in text.split('/') {
        match segment {
            "" => return Some(Flaw::EmptySegment { at: start.min(text.len() - 1) }),
            "." | ".." => return Some(Flaw::DotSegment { at: start }),
            _ => start += segment.len() + 1,
        }
    }
    None
}

/// Returns the FNV-1a hash of 128 bits, which is equal in every build and on every host.
const fn stable_hash(text: &str) -> u128 {
    let bytes = text.as_bytes();
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u128).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        at += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_name_that_parses_is_safe_as_a_path(text in "[a-c./_ é-]{0,70}") {
            let Ok(name) = NodeName::new(&text) else { return Ok(()) };
            prop_assert_eq!(name.as_str(), &text);
            prop_assert_eq!(name.to_string().parse::<NodeName>(), Ok(name.clone()));
            prop_assert!(text.len() <= NAME_BYTES_MAX);
            prop_assert!(name.segments().all(|part| !matches!(part, "" | "." | "..")));
        }

        #[test]
        fn any_text_is_a_name_or_an_error_that_can_be_shown(text in ".{0,80}") {
            if let Err(error) = NodeName::new(&text) {
                prop_assert!(error.to_string().contains("write letters"));
            }
            prop_assert_eq!(ProgramName::new(&text).is_ok(),
                NodeName::new(&text).is_ok() && !text.contains('/'));
        }
    }

    #[test]
    fn flaws_are_named() {
        let flaw = |text: &str| NodeName::new(text).unwrap_err().flaw;
        assert_eq!(flaw(""), Flaw::Empty);
        assert_eq!(flaw("a b"), Flaw::Character { character: ' ', at: 1 });
        assert_eq!(flaw("/a"), Flaw::EmptySegment { at: 0 });
        assert_eq!(flaw("a//b"), Flaw::EmptySegment { at: 2 });
        assert_eq!(flaw("a/"), Flaw::EmptySegment { at: 1 });
        assert_eq!(flaw("a/.."), Flaw::DotSegment { at: 2 });
        assert_eq!(flaw(&"a".repeat(65)), Flaw::TooLong { bytes: 65, max: 64 });
        assert!(NodeName::new(&"a".repeat(64)).is_ok());
    }

    #[test]
    fn identities_never_change() {
        let program = ProgramId::named(ProgramName::new("demo").unwrap());
        assert_eq!(program.identity(), stable_hash("demo"));
        // The published value of FNV-1a for one byte.
        assert_eq!(stable_hash("a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
