//! Why a file gives no identity, and why a peer's certificate is not trusted, in words for the user.

use super::moment::Moment;
use super::names::{Names, NamesError};
use rustix::io::Errno;
use std::fmt;
use std::path::PathBuf;
use upbeat_core::name::{NodeName, ProgramName};

/// A file gives no identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub flaw: Flaw,
}

/// What is wrong with the file of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The system refused.
    System {
        /// What was asked of it.
        act: &'static str,
        /// What it said.
        error: Errno,
    },
    /// It is no plain file.
    NoFile,
    /// It belongs to another user.
    Owner {
        /// Whose it is.
        uid: u32,
        /// Whose it would have to be.
        ours: u32,
    },
    /// Other users have rights to it.
    Mode {
        /// Its mode.
        mode: u32,
    },
    /// It is longer than such files are.
    TooLong {
        /// The most bytes that it may have.
        max: usize,
    },
    /// A section of it cannot be read.
    Pem {
        /// What the parser said.
        reason: String,
    },
    /// It has no certificate of an authority.
    NoAuthority,
    /// It has no certificate of a node.
    NoCertificate,
    /// It has no private key, or several.
    Keys {
        /// How many it has.
        count: usize,
    },
    /// Its private key cannot be used.
    Key {
        /// What is wrong with it.
        reason: String,
    },
    /// Its private key is not that of its certificate.
    OtherKey,
    /// A certificate of it cannot be used.
    Certificate {
        /// What is wrong with it.
        reason: String,
    },
    /// Its certificate has no names that can be used.
    Names(NamesError),
    /// No peer would trust its certificate.
    Untrusted(Untrusted),
    /// It was replaced by one of another program.
    OtherProgram {
        /// The program of the identity.
        ours: ProgramName,
        /// The program that the file names now.
        theirs: ProgramName,
    },
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.flaw {
            Flaw::System { act, error } => write!(f, "{act} {path} failed: {error}"),
            Flaw::NoFile => write!(f, "{path} is no plain file: name the file of an identity"),
            Flaw::Owner { uid, ours } => write!(
                f,
                "{path} belongs to user {uid} and not to user {ours}, who runs this: only the owner \
                 may have the private key in it"
            ),
            Flaw::Mode { mode } => write!(
                f,
                "{path} has the mode {:04o}, so other users may have the private key in it: run \
                 `chmod 600 {path}`, and issue it anew if others had access",
                mode & 0o7777
            ),
            Flaw::OtherProgram { ours, theirs } => write!(
                f,
                "{path} is of program `{theirs}` now, and this node is of program `{ours}`: issue it \
                 for `{ours}`, or start the node as one of `{theirs}`"
            ),
            flaw => write!(f, "{path} gives no identity: {flaw}; {ISSUE}"),
        }
    }
}

const ISSUE: &str = "make one with `upbeat keys issue`";

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::System { act, error } => write!(f, "{act} failed: {error}"),
            Flaw::NoFile => write!(f, "it is no plain file"),
            Flaw::Owner { uid, .. } => write!(f, "it belongs to user {uid}"),
            Flaw::Mode { mode } => write!(f, "its mode is {:04o}", mode & 0o7777),
            Flaw::TooLong { max } => write!(f, "it is longer than {max} bytes"),
            Flaw::Pem { reason } => write!(f, "it is no PEM file: {reason}"),
            Flaw::NoAuthority => write!(f, "it has no certificate of the program's authority"),
            Flaw::NoCertificate => write!(f, "it has no certificate of a node"),
            Flaw::Keys { count: 0 } => write!(f, "it has no private key"),
            Flaw::Keys { count } => write!(f, "it has {count} private keys"),
            Flaw::Key { reason } => write!(f, "its private key cannot be used: {reason}"),
            Flaw::OtherKey => write!(f, "its private key is not that of its certificate"),
            Flaw::Certificate { reason } => {
                write!(f, "a certificate of it cannot be used: {reason}")
            }
            Flaw::Names(error) => write!(f, "its certificate names no node: {error}"),
            Flaw::Untrusted(untrusted) => write!(f, "its certificate {}", untrusted.reason()),
            Flaw::OtherProgram { theirs, .. } => write!(f, "it is of program `{theirs}`"),
        }
    }
}

impl std::error::Error for IdentityError {}

/// A certificate is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Untrusted {
    /// The peer sent no certificate.
    Missing,
    /// It is signed by its own key.
    SelfSigned,
    /// It is signed by an authority that is not the program's.
    OtherAuthority,
    /// It has expired.
    Expired {
        /// When.
        at: Moment,
    },
    /// It is not valid yet.
    NotYetValid {
        /// From when on it is.
        from: Moment,
    },
    /// It is of another program.
    OtherProgram {
        /// The program that it should name.
        wanted: ProgramName,
        /// What it names.
        names: Names,
    },
    /// It is of another node.
    OtherName {
        /// The node that it should name.
        wanted: NodeName,
        /// What it names.
        names: Names,
    },
    /// It cannot be used.
    Malformed {
        /// What is wrong with it.
        reason: String,
    },
}

impl Untrusted {
    /// What is wrong, as a sentence that goes on from `the certificate`.
    fn reason(&self) -> impl fmt::Display {
        fmt::from_fn(|f| match self {
            Untrusted::Missing => f.write_str("is missing"),
            Untrusted::SelfSigned => f.write_str("is signed by its own key, by no authority"),
            Untrusted::OtherAuthority => {
                f.write_str("is signed by an authority that is not in this node's identity")
            }
            Untrusted::Expired { at } => write!(f, "has expired at {at}"),
            Untrusted::NotYetValid { from } => write!(f, "is not valid before {from}"),
            Untrusted::OtherProgram { wanted, names } => {
                write!(f, "is for {names}, not for program `{wanted}`")
            }
            Untrusted::OtherName { wanted, names } => {
                write!(f, "is for {names}, not for node `{wanted}`")
            }
            Untrusted::Malformed { reason } => write!(f, "cannot be used: {reason}"),
        })
    }

    /// What the user can do.
    fn advice(&self) -> &'static str {
        match self {
            Untrusted::Missing => "start it with an identity",
            Untrusted::SelfSigned | Untrusted::Malformed { .. } => {
                "issue its identity with `upbeat keys issue`"
            }
            Untrusted::OtherAuthority => "issue both identities by one authority",
            Untrusted::Expired { .. } => "issue its identity anew with `upbeat keys issue --force`",
            Untrusted::NotYetValid { .. } => "see that the clocks of both hosts are right",
            Untrusted::OtherProgram { .. } => "start both as one program",
            Untrusted::OtherName { .. } => {
                "see that the address is that node's, or issue its identity for this name"
            }
        }
    }
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the peer's certificate {}: {}", self.reason(), self.advice())
    }
}

impl std::error::Error for Untrusted {}
