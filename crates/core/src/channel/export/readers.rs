//! The readers of an export, and the decision about somebody who asks.
//!
//! The runtime knows who asks, and how names are proved. Invariant: an export for named nodes is read by nobody else, and by
//! a node only if it has proved its name.

use crate::name::{NameError, NodeName, Pattern};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// The one who asks for exports.
pub trait Asker {
    /// Returns the name that the asker says it has. A handle has none.
    fn name(&self) -> Option<&NodeName>;

    /// Returns whether the asker has that name for sure. Only a decision that depends on the name asks.
    fn is_proved(&self) -> bool;
}

/// An asker without a name: a handle.
#[derive(Clone, Copy, Debug)]
pub struct Nameless;

impl Asker for Nameless {
    fn name(&self) -> Option<&NodeName> {
        None
    }

    fn is_proved(&self) -> bool {
        false
    }
}

/// The readers of an export: everybody in the program, or named nodes.
///
/// Invariant: two lists that admit nodes by the same names are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Readers(Option<Arc<[Pattern]>>);

impl Readers {
    /// Returns the readers of an export without a limit: all nodes and handles of the program.
    #[must_use]
    pub const fn everybody() -> Readers {
        Readers(None)
    }

    /// Returns the nodes of these names: `risk`, or `worker/*` for all nodes below `worker/`, or `*` for all nodes. Without
    /// a name nobody reads.
    ///
    /// ```
    /// use upbeat_core::channel::export::{Nameless, Readers};
    ///
    /// let readers = Readers::nodes(["risk", "worker/*"]).unwrap();
    /// assert!(readers.admit(&Nameless).is_err());
    /// assert!(Readers::nodes(["risk@host"]).is_err(), "a name has no address");
    /// ```
    pub fn nodes<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Result<Readers, NameError> {
        let patterns = names.into_iter().map(|name| name.as_ref().parse());
        let mut patterns = patterns.collect::<Result<Vec<Pattern>, _>>()?;
        patterns.sort();
        patterns.dedup();
        Ok(Readers(Some(patterns.into())))
    }

    /// Returns whether everybody in the program reads.
    #[must_use]
    pub const fn are_all(&self) -> bool {
        self.0.is_none()
    }

    /// Decides whether somebody may read.
    pub fn admit(&self, asker: &impl Asker) -> Result<(), Denial> {
        let Some(patterns) = &self.0 else { return Ok(()) };
        let name = asker.name().ok_or(Denial::Nameless)?;
        if !patterns.iter().any(|pattern| pattern.covers(name)) {
            return Err(Denial::OtherNode { name: name.to_string() });
        }
        match asker.is_proved() {
            true => Ok(()),
            false => Err(Denial::Unproved { name: name.to_string() }),
        }
    }
}

/// The reason why somebody may not read an export for named nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The reader is a handle, which has no name.
    Nameless,
    /// The reader is another node.
    OtherNode {
        /// The name of the reader.
        name: String,
    },
    /// The reader says that it is one of the nodes, and has not proved it.
    Unproved {
        /// The name of the node.
        name: String,
    },
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denial::Nameless => f.write_str(
                "a handle has no name: import it by a node that its owner has named in `export_for`",
            ),
            Denial::OtherNode { name } => write!(
                f,
                "the reader `{name}` is none of them: add this name to `export_for` at the owner"
            ),
            Denial::Unproved { name } => write!(
                f,
                "the owner cannot tell that the reader is `{name}`: on one host their processes must see each other's \
                 process IDs, and between hosts both nodes need identities"
            ),
        }
    }
}
