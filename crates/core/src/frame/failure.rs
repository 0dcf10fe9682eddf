//! The payload of a failed call: a code and a text.
//!
//! The module above has the frame around it, and the runtime tells the user. Invariant: the payload is bounded,
//! and any bytes give a [`Failure`] or the [`Rule`] that they break.

use alloc::vec::Vec;
use core::fmt;

use crate::fault::Rule;
use crate::limits::ERROR_TEXT_BYTES_MAX;

/// The kind of the frame around the payload, for the rules.
pub(super) const KIND: u8 = 5;

/// The reason why a call has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum FailCode {
    /// The callee has no method of this number.
    NoSuchMethod = 1,
    /// The arguments do not decode.
    BadArguments = 2,
    /// The handler panicked.
    Panicked = 3,
    /// The handler was dropped because the caller cancelled.
    Cancelled = 4,
    /// The deadline passed before the handler was done.
    Deadline = 5,
    /// The callee is closing and accepts no more calls.
    Closing = 6,
    /// The result is longer than a message may be.
    TooLarge = 7,
    /// The callee has no room for another task.
    Overloaded = 8,
    /// The result does not encode.
    BadResult = 9,
    /// A precondition of the handler did not hold, so nothing of the handler has run. The caller, whose call is
    /// refusable, retries.
    Refused = 10,
    /// The handler had to wait although its method must not, and was ended at that point.
    WouldWait = 11,
    /// The arguments are longer than the callee accepts, and nothing has run.
    ArgumentsTooLarge = 12,
    /// The callee has no memory for the arguments, and nothing has run.
    NoMemory = 13,
    /// The callee refused the call for a reason of its own, which the text says, and nothing has run.
    Denied = 14,
    /// The callee has ended the handler after its method had begun, for a reason of its own, which the text says.
    Aborted = 15,
}

impl FailCode {
    /// All codes.
    pub const ALL: [FailCode; 15] = [
        FailCode::NoSuchMethod,
        FailCode::BadArguments,
        FailCode::Panicked,
        FailCode::Cancelled,
        FailCode::Deadline,
        FailCode::Closing,
        FailCode::TooLarge,
        FailCode::Overloaded,
        FailCode::BadResult,
        FailCode::Refused,
        FailCode::WouldWait,
        FailCode::ArgumentsTooLarge,
        FailCode::NoMemory,
        FailCode::Denied,
        FailCode::Aborted,
    ];

    /// Returns the code of a byte, if there is one.
    pub const fn from_byte(byte: u8) -> Option<FailCode> {
        if byte == 0 || byte as usize > FailCode::ALL.len() {
            return None;
        }
        Some(FailCode::ALL[byte as usize - 1])
    }

    /// Returns the byte of the code.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Returns the reason in words.
    pub const fn text(self) -> &'static str {
        match self {
            FailCode::NoSuchMethod => "the callee has no such method",
            FailCode::BadArguments => "the callee could not decode the arguments",
            FailCode::Panicked => "the handler panicked",
            FailCode::Cancelled => "the call was cancelled",
            FailCode::Deadline => "the deadline passed",
            FailCode::Closing => "the callee is closing",
            FailCode::TooLarge => "the result is longer than a message may be",
            FailCode::Overloaded => "the callee has no room for another task",
            FailCode::BadResult => "the callee could not encode the result",
            FailCode::Refused => {
                "a precondition of the handler did not hold, and nothing of it has run"
            }
            FailCode::WouldWait => "the handler had to wait, which its method does not allow",
            FailCode::ArgumentsTooLarge => "the arguments are longer than the callee accepts",
            FailCode::NoMemory => "the callee has no memory for the arguments",
            FailCode::Denied => "the callee refused the call",
            FailCode::Aborted => "the callee ended the handler before its method was done",
        }
    }
}

impl fmt::Display for FailCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The payload of a [`Kind::Failed`](super::Kind::Failed) frame: one byte of code, and then text.
///
/// ```
/// use upbeat_core::frame::{FailCode, Failure};
///
/// let mut bytes = Vec::new();
/// Failure::new(FailCode::Panicked, "index out of bounds").write(&mut bytes);
/// assert_eq!(Failure::parse(&bytes).unwrap().text(), "index out of bounds");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<'a> {
    code: FailCode,
    text: &'a str,
}

impl<'a> Failure<'a> {
    /// Creates a failure. Text beyond [`ERROR_TEXT_BYTES_MAX`] is cut after a whole character.
    pub fn new(code: FailCode, text: &'a str) -> Failure<'a> {
        Failure { code, text: &text[..text.floor_char_boundary(ERROR_TEXT_BYTES_MAX)] }
    }

    /// Returns the reason why the call has no result.
    pub fn code(&self) -> FailCode {
        self.code
    }

    /// Returns the text that the callee adds, which may be empty.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the bytes of the payload.
    #[allow(clippy::len_without_is_empty)] // a failure has at least its code
    pub fn len(&self) -> u32 {
        1 + self.text.len() as u32
    }

    /// Appends the payload.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.code.byte());
        out.extend_from_slice(self.text.as_bytes());
    }

    /// Parses the failure in a payload, behind its extensions, or returns the rule that it breaks.
    pub fn parse(payload: &'a [u8]) -> Result<Failure<'a>, Rule> {
        let kind = KIND;
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let max = 1 + ERROR_TEXT_BYTES_MAX as u32;
        let Some((&code, text)) = payload.split_first() else {
            return Err(Rule::LengthBelowMin { kind, len, min: 1 });
        };
        if len > max {
            return Err(Rule::LengthBeyondMax { len, max });
        }
        let code = FailCode::from_byte(code).ok_or(Rule::UnknownFailCode { code })?;
        let text =
            str::from_utf8(text).map_err(|_| Rule::RecordField { field: "text of a failure" })?;
        Ok(Failure { code, text })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
    #[test]
    fn a_failure_survives(code in 0..FailCode::ALL.len(), text in ".{0,40}") {
        let failure = Failure::new(FailCode::ALL[code], &text);
        let mut bytes = Vec::new();
        failure.write(&mut bytes);
        prop_assert_eq!(bytes.len() as u32, failure.len());
        prop_assert_eq!(Failure::parse(&bytes), Ok(failure));
    }

    #[test]
    fn any_bytes_give_a_failure_or_a_rule(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(failure) = Failure::parse(&bytes) {
            let mut again = Vec::new();
            failure.write(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }
    }

    #[test]
    fn a_code_that_does_not_exist_breaks_a_rule() {
        let known = FailCode::ALL.map(|code| code as u8);
        let unknown = (0..=u8::MAX).filter(|code| !known.contains(code));
        for code in unknown {
            assert_eq!(Failure::parse(&[code]), Err(Rule::UnknownFailCode { code }));
        }
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let text = "é".repeat(ERROR_TEXT_BYTES_MAX);
        let failure = Failure::new(FailCode::Panicked, &text);
        assert_eq!(failure.len() as usize, 1 + ERROR_TEXT_BYTES_MAX);
        assert_eq!(
            Failure::new(FailCode::Panicked, &text[..1022].replace('é', "€")).text().len() % 3,
            0
        );
    }

    #[test]
    fn codes_have_one_byte_each() {
        for byte in 0..=u8::MAX {
            assert_eq!(FailCode::from_byte(byte).map_or(byte, FailCode::byte), byte);
        }
        assert!(FailCode::ALL.iter().all(|&code| FailCode::from_byte(code.byte()) == Some(code)));
    }
}
