//! How calls end that layers have seen.

use std::fmt;

/// Why a [`Layer`](crate::Layer) does not let a call through.
///
/// ```
/// assert_eq!(upbeat::Refusal::new("not on Sundays").text(), "not on Sundays");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    text: Box<str>,
}

impl Refusal {
    /// Makes a refusal for a reason that the caller gets, up to 1,024 bytes of it.
    ///
    /// See [`Refusal`] for an example.
    pub fn new(text: impl Into<Box<str>>) -> Refusal {
        Refusal { text: text.into() }
    }

    /// Returns the reason.
    ///
    /// See [`Refusal`] for an example.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}

/// How a call ended that a [`Layer`](crate::Layer) has seen.
///
/// ```
/// assert_eq!(upbeat::Outcome::Failed.to_string(), "the method returned an error");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The method has returned, and not an error of its own.
    Replied,
    /// The method has returned an error: the `Err` of its `Result`.
    Failed,
    /// This layer, or a layer behind it, has refused the call. The method has not begun.
    Refused,
    /// This layer, or a layer behind it, has ended the method, which had begun and was not done.
    Aborted,
    /// The method has panicked, or a layer has.
    Panicked,
    /// The handler was ended: its caller has given up or is lost, its deadline has passed, its node has closed, or its
    /// node did not let it wait: the call was sent back or ended, or the handler would have been one task too many.
    Cancelled,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Replied => "the method replied",
            Outcome::Failed => "the method returned an error",
            Outcome::Refused => "the call was refused",
            Outcome::Aborted => "a layer ended the method",
            Outcome::Panicked => "the handler panicked",
            Outcome::Cancelled => "the handler was ended",
        })
    }
}
