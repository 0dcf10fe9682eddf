//! The names in a certificate: a program, and the nodes of it that the holder may be.
//!
//! Each name is a URI among the certificate's alternative names. Invariant: [`Names`] name one program.

use std::fmt;
use upbeat_core::name::{NameError, NodeName, Pattern, ProgramName};

/// The beginning of a URI of Upbeat.
const SCHEME: &str = "upbeat://";

/// The names in a certificate.
///
/// ```
/// use upbeat_transport::identity::Names;
///
/// let uris = ["upbeat://demo/counter", "upbeat://demo/worker/*"];
/// let names = Names::from_uris(uris).unwrap();
/// assert!(names.covers(Some(&"worker/3".parse().unwrap())));
/// assert!(names.covers(None), "a handle has no name");
/// assert!(!names.covers(Some(&"desk".parse().unwrap())));
/// assert_eq!(names.uris().collect::<Vec<_>>(), uris);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    program: ProgramName,
    nodes: Vec<Pattern>,
}

impl Names {
    /// Returns the names of nodes of a program. Without any nodes, the names are valid for handles only.
    pub fn new(program: ProgramName, nodes: Vec<Pattern>) -> Names {
        Names { program, nodes }
    }

    /// Reads the names from a certificate's URIs. URIs with another scheme are ignored.
    ///
    /// # Errors
    /// If no URI begins with `upbeat://`, if one is not well formed, or if they name two programs.
    pub fn from_uris<'a>(uris: impl IntoIterator<Item = &'a str>) -> Result<Names, NamesError> {
        let mut names: Option<Names> = None;
        for uri in uris {
            let Some(path) = uri.strip_prefix(SCHEME) else { continue };
            let (program, node) = match path.split_once('/') {
                Some((program, node)) => (program, Some(node)),
                None => (path, None),
            };
            let program: ProgramName = program.parse().map_err(NamesError::Name)?;
            let node = node.map(str::parse).transpose().map_err(NamesError::Name)?;
            let names = names.get_or_insert_with(|| Names::new(program.clone(), Vec::new()));
            if names.program != program {
                return Err(NamesError::Programs(names.program.clone(), program));
            }
            names.nodes.extend(node);
        }
        names.ok_or(NamesError::None)
    }

    /// Returns the URIs of these names, as a certificate holds them.
    pub fn uris(&self) -> impl Iterator<Item = String> {
        let program = self.nodes.is_empty().then(|| format!("{SCHEME}{}", self.program));
        let nodes = self.nodes.iter().map(|node| format!("{SCHEME}{}/{node}", self.program));
        program.into_iter().chain(nodes)
    }

    /// Returns the program.
    pub fn program(&self) -> &ProgramName {
        &self.program
    }

    /// Returns the nodes that the holder may be; none if the holder may only be a handle.
    pub fn nodes(&self) -> &[Pattern] {
        &self.nodes
    }

    /// Returns whether the holder may be this node, or a handle if there is no name: every holder may be a handle.
    pub fn covers(&self, node: Option<&NodeName>) -> bool {
        node.is_none_or(|node| self.nodes.iter().any(|pattern| pattern.covers(node)))
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes.is_empty() {
            return write!(f, "handles of program `{}`", self.program);
        }
        for (nth, node) in self.nodes.iter().enumerate() {
            write!(f, "{}`{node}`", if nth == 0 { "" } else { ", " })?;
        }
        write!(f, " of program `{}`", self.program)
    }
}

/// The error of URIs that are no names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamesError {
    /// No URI begins with `upbeat://`.
    None,
    /// The URIs name two programs.
    Programs(ProgramName, ProgramName),
    /// A name is not well formed.
    Name(NameError),
}

impl fmt::Display for NamesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamesError::None => write!(f, "it has no name of the form {SCHEME}program/node"),
            NamesError::Programs(one, other) => {
                write!(f, "it names two programs, `{one}` and `{other}`")
            }
            NamesError::Name(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NamesError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_that_is_no_name_is_refused() {
        let read = |uris: &[&str]| Names::from_uris(uris.iter().copied());
        assert_eq!(read(&["https://example"]), Err(NamesError::None));
        assert!(matches!(read(&["upbeat://a/b", "upbeat://c/b"]), Err(NamesError::Programs(..))));
        for bad in ["upbeat://", "upbeat:///a", "upbeat://a/", "upbeat://a/*/b", "upbeat://a/b*"] {
            assert!(matches!(read(&[bad]), Err(NamesError::Name(_))), "{bad}");
        }
        let handles = read(&["https://example", "upbeat://a"]).unwrap();
        assert!(handles.covers(None) && !handles.covers(Some(&"b".parse().unwrap())));
        assert_eq!(handles.uris().collect::<Vec<_>>(), ["upbeat://a"]);
    }

    #[test]
    fn a_prefix_matches_whole_segments() {
        let names = Names::from_uris(["upbeat://a/worker/*"]).unwrap();
        let covers = |node: &str| names.covers(Some(&node.parse().unwrap()));
        assert!(covers("worker/1") && covers("worker/1/2"));
        assert!(!covers("worker") && !covers("workers/1") && !covers("work"));
        assert!(Pattern::All.covers(&"any/thing".parse().unwrap()));
    }
}
