//! The payload of a call and the check of its reply, which are the same for Upbeat and for every peer.

use crate::case::Fault;

/// The bytes of a call with a payload, each way.
pub(crate) const KIB: usize = 1024;

/// A payload that differs from call to call.
pub(crate) struct Payload {
    bytes: [u8; KIB],
    turn: u64,
}

impl Payload {
    pub(crate) fn new() -> Payload {
        let mut bytes = [0; KIB];
        bytes.iter_mut().zip((0..=255u8).cycle()).for_each(|(byte, value)| *byte = value);
        Payload { bytes, turn: 0 }
    }

    /// Returns the next payload.
    #[inline]
    pub(crate) fn next(&mut self) -> &[u8; KIB] {
        self.turn += 1;
        self.bytes[..8].copy_from_slice(&self.turn.to_le_bytes());
        &self.bytes
    }

    /// Returns whether these bytes are the payload that was sent last.
    #[inline]
    pub(crate) fn check(&self, came: &[u8]) -> Result<(), Fault> {
        if came == self.bytes { Ok(()) } else { Err(self.differs(came)) }
    }

    #[cold]
    fn differs(&self, came: &[u8]) -> Fault {
        Fault::new(format!("call {} brought back {} other bytes", self.turn, came.len()))
    }
}

/// The count and sum that the receiver of a stream reports: the messages are 0, 1, 2 and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) sum: u64,
}

impl Tally {
    /// Counts a message.
    #[inline]
    pub(crate) fn add(&mut self, message: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(message);
    }

    /// Checks that the tally is that of so many messages.
    pub(crate) fn check(self, messages: u32) -> Result<(), Fault> {
        let count = u64::from(messages);
        let sum = (count * count.saturating_sub(1)) / 2;
        if self == (Tally { count, sum }) {
            return Ok(());
        }
        let Tally { count: came, sum: added } = self;
        Err(Fault::new(format!(
            "of {count} messages {came} came, and they add up to {added} instead of {sum}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::{Payload, Tally};

    #[test]
    fn what_comes_back_is_compared() {
        let mut payload = Payload::new();
        let first = *payload.next();
        payload.check(&first).unwrap();
        payload.next();
        assert!(payload.check(&first).unwrap_err().to_string().contains("call 2"));
        assert!(payload.check(&[]).is_err());
    }

    #[test]
    fn messages_are_counted_and_added_up() {
        let mut tally = Tally::default();
        (0..10).for_each(|n| tally.add(n));
        tally.check(10).unwrap();
        assert!(tally.check(11).is_err());
        tally.add(7);
        let said = tally.check(11).unwrap_err().to_string();
        assert!(said.contains("52 instead of 55"), "{said}");
        Tally::default().check(0).unwrap();
    }
}
