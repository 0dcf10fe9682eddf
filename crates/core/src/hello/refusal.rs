//! The refusal: the last record of a failed handshake.
//!
//! The transport decides when to refuse, and the module above has the record around it. Invariant: the text is
//! bounded, and the part that a peer wrote is shown escaped.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::fault::Rule;
use crate::limits::ERROR_TEXT_BYTES_MAX;
use crate::record::{Fields, push_text};

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RefusalCode {
    /// The sides belong to different programs.
    WrongProgram = 1,
    /// The sides have no common version of the protocol.
    WrongVersion = 2,
    /// The listener is not the wanted node.
    NoSuchNode = 3,
    /// The listener has as many sessions as it may have.
    TooManySessions = 4,
    /// The listener has no descriptors left.
    TooManyDescriptors = 5,
    /// The listener is closing.
    Closing = 6,
    /// A record, or something passed beside it, broke a rule.
    Malformed = 7,
    /// The handshake took too long.
    TooSlow = 8,
    /// The sides belong to different users.
    WrongUser = 9,
    /// The listener lacks memory or another resource for the session.
    NoResources = 10,
    /// The caller's certificate does not fit the caller's claims.
    NotTrusted = 11,
    /// The listener has as many sessions with callers of this address as it may have.
    TooManyOfAddress = 12,
    /// The listener does not have the session that the caller wants to resume.
    NoSuchSession = 13,
}

impl RefusalCode {
    /// All codes.
    pub const ALL: [RefusalCode; 13] = [
        RefusalCode::WrongProgram,
        RefusalCode::WrongVersion,
        RefusalCode::NoSuchNode,
        RefusalCode::TooManySessions,
        RefusalCode::TooManyDescriptors,
        RefusalCode::Closing,
        RefusalCode::Malformed,
        RefusalCode::TooSlow,
        RefusalCode::WrongUser,
        RefusalCode::NoResources,
        RefusalCode::NotTrusted,
        RefusalCode::TooManyOfAddress,
        RefusalCode::NoSuchSession,
    ];

    /// Returns the code of a byte, if there is one.
    pub fn from_byte(byte: u8) -> Option<RefusalCode> {
        RefusalCode::ALL.into_iter().find(|code| *code as u8 == byte)
    }

    /// Returns the reason in words.
    pub const fn text(self) -> &'static str {
        match self {
            RefusalCode::WrongProgram => "it belongs to another program",
            RefusalCode::WrongVersion => "it supports no common version of the protocol",
            RefusalCode::NoSuchNode => "it is not the wanted node",
            RefusalCode::TooManySessions => "it has as many sessions as it may have",
            RefusalCode::TooManyDescriptors => "its table of descriptors is full",
            RefusalCode::Closing => "it is closing",
            RefusalCode::Malformed => "it could not read the handshake",
            RefusalCode::TooSlow => "the handshake took too long",
            RefusalCode::WrongUser => "it belongs to another user",
            RefusalCode::NoResources => "it lacks a resource",
            RefusalCode::NotTrusted => "it does not trust this side",
            RefusalCode::TooManyOfAddress => {
                "it has too many sessions with callers of this address"
            }
            RefusalCode::NoSuchSession => "it has no such session any more",
        }
    }
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The record of a side that refuses the session, after which the socket is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    code: RefusalCode,
    text: Box<str>,
}

impl Refusal {
    /// Creates a refusal. Text beyond [`ERROR_TEXT_BYTES_MAX`] is cut after a whole character.
    pub fn new(code: RefusalCode, text: &str) -> Refusal {
        let end = text.floor_char_boundary(ERROR_TEXT_BYTES_MAX);
        Refusal { code, text: text[..end].into() }
    }

    /// Returns the reason of the refusal.
    pub fn code(&self) -> RefusalCode {
        self.code
    }

    /// Returns the text that the refusing side adds, with names and numbers, which may be empty.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.code as u8);
        push_text(out, &self.text);
    }

    pub(super) fn parse(mut fields: Fields<'_>) -> Result<Refusal, Rule> {
        let field = "code of a refusal";
        let code = RefusalCode::from_byte(fields.u8(field)?).ok_or(Rule::RecordField { field })?;
        let text = fields.text("text of a refusal", ERROR_TEXT_BYTES_MAX)?;
        fields.end()?;
        Ok(Refusal { code, text: text.into() })
    }
}

impl fmt::Display for Refusal {
    /// Prints the peer's text escaped, since it may contain anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code.text())?;
        if self.text.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.text.escape_debug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_printed_escaped() {
        let refusal = Refusal::new(RefusalCode::WrongUser, "\x1b[2J");
        assert_eq!(refusal.to_string(), "it belongs to another user: \\u{1b}[2J");
    }

    #[test]
    fn codes_have_one_byte_each() {
        for code in RefusalCode::ALL {
            assert_eq!(RefusalCode::from_byte(code as u8), Some(code));
        }
        assert_eq!(RefusalCode::from_byte(0), None);
    }
}
