//! Records that are no samples of a message's way: messages that ended without a result, and over-runs.
//!
//! Such a record stands in the page of samples. The byte in which a sample has its manner says which event it is; its
//! first two stamps are the beginning and the end. Invariant: no byte is both a manner and an event.

/// The way in which a sampled call ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BadEnd {
    /// Its future was dropped, by a deadline or by the application.
    GivenUp,
    /// The callee answered with a failure: it refused the call, its handler panicked or it denied the call, or the
    /// deadline passed there.
    Failed,
    /// The session ended before the reply came.
    Lost,
}

/// An event that is recorded beside the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// A sampled call ended without a result.
    Ended(BadEnd),
    /// A handler or a task kept the thread beyond its budget, and computed.
    OverRan,
    /// A handler or a task kept the thread beyond its budget, and slept for at least half of the time.
    Blocked,
}

impl BadEnd {
    /// All ways to end badly.
    pub const ALL: [BadEnd; 3] = [BadEnd::GivenUp, BadEnd::Failed, BadEnd::Lost];

    /// Returns the words for the end of a sentence about some calls.
    pub const fn words(self) -> &'static str {
        match self {
            BadEnd::GivenUp => "were given up, by a deadline or because the caller dropped them",
            BadEnd::Failed => "were answered with a failure",
            BadEnd::Lost => "were lost with their session",
        }
    }

    /// Returns the name in one word.
    pub const fn name(self) -> &'static str {
        match self {
            BadEnd::GivenUp => "given-up",
            BadEnd::Failed => "failed",
            BadEnd::Lost => "lost",
        }
    }
}

impl Event {
    /// All events.
    pub const ALL: [Event; 5] = [
        Event::Ended(BadEnd::GivenUp),
        Event::Ended(BadEnd::Failed),
        Event::Ended(BadEnd::Lost),
        Event::OverRan,
        Event::Blocked,
    ];

    /// Returns the byte of the event in a record.
    ///
    /// ```
    /// use upbeat_core::bill::event::Event;
    ///
    /// assert!(Event::ALL.iter().all(|event| Event::from_byte(event.byte()) == Some(*event)));
    /// assert_eq!(Event::from_byte(1), None);
    /// ```
    pub const fn byte(self) -> u8 {
        match self {
            Event::Ended(BadEnd::GivenUp) => 0x80,
            Event::Ended(BadEnd::Failed) => 0x81,
            Event::Ended(BadEnd::Lost) => 0x82,
            Event::OverRan => 0x90,
            Event::Blocked => 0x91,
        }
    }

    /// Returns the event of a byte in a record, or none if the byte is a manner or unknown.
    pub fn from_byte(byte: u8) -> Option<Event> {
        Event::ALL.into_iter().find(|event| event.byte() == byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::way::StampMode;

    #[test]
    fn no_byte_is_both_a_manner_and_an_event() {
        for byte in 0..=u8::MAX {
            assert!(
                StampMode::from_byte(byte).is_none() || Event::from_byte(byte).is_none(),
                "{byte}"
            );
        }
    }
}
