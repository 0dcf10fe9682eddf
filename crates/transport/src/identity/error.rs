//! The errors of a file that holds no usable identity, and of a peer's certificate that is not trusted, in words for
//! the user.

use super::moment::Moment;
use super::names::{Names, NamesError};
use rustix::io::Errno;
use std::fmt;
use std::path::PathBuf;
use upbeat_core::name::{NodeName, ProgramName};

/// The error of a file that holds no usable identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityError {
    /// The file.
    pub path: PathBuf,
    /// The flaw of the file.
    pub flaw: IdentityFlaw,
}

/// The flaw of an identity's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityFlaw {
    /// A system call failed.
    System {
        /// The step that failed.
        act: &'static str,
        /// The error of the system.
        error: Errno,
    },
    /// The path is no regular file.
    NoFile,
    /// The file belongs to another user.
    Owner {
        /// The user to whom the file belongs.
        uid: u32,
        /// The user to whom the file must belong.
        ours: u32,
    },
    /// Other users have permissions on the file.
    Mode {
        /// The mode of the file.
        mode: u32,
    },
    /// The file is longer than the limit.
    TooLong {
        /// The limit in bytes.
        max: usize,
    },
    /// A section of the file cannot be read.
    Pem {
        /// The message of the parser.
        reason: String,
    },
    /// The file has no certificate of an authority.
    NoAuthority,
    /// The file has no certificate of a node.
    NoCertificate,
    /// The file has no private key, or several.
    Keys {
        /// The number of private keys.
        count: usize,
    },
    /// The private key cannot be used.
    Key {
        /// The reason.
        reason: String,
    },
    /// The private key does not belong to the certificate.
    OtherKey,
    /// A certificate of the file cannot be used.
    Certificate {
        /// The reason.
        reason: String,
    },
    /// The certificate has no names that can be used.
    Names(NamesError),
    /// No peer would trust the certificate.
    Untrusted(Untrusted),
    /// The file was replaced by one of another program.
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
            IdentityFlaw::System { act, error } => write!(f, "{act} {path} failed: {error}"),
            IdentityFlaw::NoFile => {
                write!(f, "{path} is not a regular file: name the file of an identity")
            }
            IdentityFlaw::Owner { uid, ours } => write!(
                f,
                "{path} belongs to user {uid}, but this process runs as user {ours}: only the owner \
                 may have the private key in it"
            ),
            IdentityFlaw::Mode { mode } => write!(
                f,
                "{path} has the mode {:04o}, so other users may have read its private key: run \
                 `chmod 600 {path}`, and issue it anew if others had access",
                mode & 0o7777
            ),
            IdentityFlaw::OtherProgram { ours, theirs } => write!(
                f,
                "{path} belongs to program `{theirs}` now, but this node belongs to program \
                 `{ours}`: issue it for `{ours}`, or start the node as one of `{theirs}`"
            ),
            flaw => write!(f, "{path} holds no usable identity: {flaw}; {ISSUE}"),
        }
    }
}

const ISSUE: &str = "make one with `upbeat keys issue`";

impl fmt::Display for IdentityFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdentityFlaw::System { act, error } => write!(f, "{act} failed: {error}"),
            IdentityFlaw::NoFile => write!(f, "it is not a regular file"),
            IdentityFlaw::Owner { uid, .. } => write!(f, "it belongs to user {uid}"),
            IdentityFlaw::Mode { mode } => write!(f, "its mode is {:04o}", mode & 0o7777),
            IdentityFlaw::TooLong { max } => write!(f, "it is longer than {max} bytes"),
            IdentityFlaw::Pem { reason } => write!(f, "it is not a PEM file: {reason}"),
            IdentityFlaw::NoAuthority => {
                write!(f, "it has no certificate of the program's authority")
            }
            IdentityFlaw::NoCertificate => write!(f, "it has no certificate of a node"),
            IdentityFlaw::Keys { count: 0 } => write!(f, "it has no private key"),
            IdentityFlaw::Keys { count } => write!(f, "it has {count} private keys"),
            IdentityFlaw::Key { reason } => write!(f, "its private key cannot be used: {reason}"),
            IdentityFlaw::OtherKey => {
                write!(f, "its private key does not belong to its certificate")
            }
            IdentityFlaw::Certificate { reason } => {
                write!(f, "a certificate in it cannot be used: {reason}")
            }
            IdentityFlaw::Names(error) => write!(f, "its certificate names no node: {error}"),
            IdentityFlaw::Untrusted(untrusted) => {
                write!(f, "its certificate {}", untrusted.reason())
            }
            IdentityFlaw::OtherProgram { theirs, .. } => {
                write!(f, "it belongs to program `{theirs}`")
            }
        }
    }
}

impl std::error::Error for IdentityError {}

/// The reason why a certificate is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Untrusted {
    /// The peer sent no certificate.
    Missing,
    /// The certificate is signed by its own key.
    SelfSigned,
    /// The certificate is signed by an authority that is not the program's.
    OtherAuthority,
    /// The certificate has expired.
    Expired {
        /// The time at which it expired.
        at: Moment,
    },
    /// The certificate is not valid yet.
    NotYetValid {
        /// The time from which it is valid.
        from: Moment,
    },
    /// The certificate belongs to another program.
    OtherProgram {
        /// The program that it should name.
        wanted: ProgramName,
        /// The names in the certificate.
        names: Names,
    },
    /// The certificate belongs to another node.
    OtherName {
        /// The node that it should name.
        wanted: NodeName,
        /// The names in the certificate.
        names: Names,
    },
    /// The certificate cannot be used.
    Malformed {
        /// The reason.
        reason: String,
    },
}

impl Untrusted {
    /// Returns the reason, as the rest of a sentence that begins with `the certificate`.
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

    /// Returns the advice for the user.
    fn advice(&self) -> &'static str {
        match self {
            Untrusted::Missing => "start it with an identity",
            Untrusted::SelfSigned | Untrusted::Malformed { .. } => {
                "issue its identity with `upbeat keys issue`"
            }
            Untrusted::OtherAuthority => "issue both identities by one authority",
            Untrusted::Expired { .. } => "issue its identity anew with `upbeat keys issue --force`",
            Untrusted::NotYetValid { .. } => "check the clocks of both hosts",
            Untrusted::OtherProgram { .. } => "start both as one program",
            Untrusted::OtherName { .. } => {
                "check that the address belongs to that node, or issue its identity for this name"
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
