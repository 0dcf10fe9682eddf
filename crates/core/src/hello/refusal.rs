//! Why there is no session: the last record of a handshake that fails.
//!
//! When to refuse is the transport's, the record around it is the module's above. The invariant:
//! the text is bounded, and what a peer wrote there is shown escaped.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::fault::Rule;
use crate::limits::ERROR_TEXT_BYTES_MAX;
use crate::record::{Fields, push_text};

/// Why there is no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RefusalCode {
    /// The two belong to different programs.
    WrongProgram = 1,
    /// They have no version of the protocol in common.
    WrongVersion = 2,
    /// The listener is not the node that is wanted.
    NoSuchNode = 3,
    /// The listener has as many sessions as it may have.
    TooManySessions = 4,
    /// The listener has no descriptors left.
    TooManyDescriptors = 5,
    /// The listener is closing.
    Closing = 6,
    /// A record or what came beside it broke a rule.
    Malformed = 7,
    /// The handshake took longer than it may.
    TooSlow = 8,
    /// The two belong to different users.
    WrongUser = 9,
    /// The listener lacks memory or another resource for the session.
    NoResources = 10,
    /// The caller's certificate is not for what it says to be.
    NotTrusted = 11,
    /// The listener has as many sessions with callers of this address as it may have.
    TooManyOfAddress = 12,
    /// The listener has no such session to go on with.
    NoSuchSession = 13,
}

impl RefusalCode {
    /// Every code.
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

    /// The code of a byte, if there is one.
    pub fn from_byte(byte: u8) -> Option<RefusalCode> {
        RefusalCode::ALL.into_iter().find(|code| *code as u8 == byte)
    }

    /// What happened, in words.
    pub const fn text(self) -> &'static str {
        match self {
            RefusalCode::WrongProgram => "it belongs to another program",
            RefusalCode::WrongVersion => "it speaks no common version of the protocol",
            RefusalCode::NoSuchNode => "it is not the node that is wanted",
            RefusalCode::TooManySessions => "it has as many sessions as it may have",
            RefusalCode::TooManyDescriptors => "its table of descriptors is full",
            RefusalCode::Closing => "it is closing",
            RefusalCode::Malformed => "it could not take what was sent",
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

/// The answer of a side that does not want the session; the socket ends behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    code: RefusalCode,
    text: Box<str>,
}

impl Refusal {
    /// A refusal; text beyond [`ERROR_TEXT_BYTES_MAX`] is cut at a character's end.
    pub fn new(code: RefusalCode, text: &str) -> Refusal {
        let end = text.floor_char_boundary(ERROR_TEXT_BYTES_MAX);
        Refusal { code, text: text[..end].into() }
    }

    /// Why there is no session.
    pub fn code(&self) -> RefusalCode {
        self.code
    }

    /// What the refusing side adds, with names and numbers; may be empty.
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
    /// The peer's text is shown escaped: it may hold anything.
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
    fn a_refusal_cannot_write_to_a_terminal() {
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
