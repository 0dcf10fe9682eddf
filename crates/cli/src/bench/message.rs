//! A message of any number of bytes, for benchmarks that vary the size.
//!
//! The frame carries only these bytes, whereas a `Vec<u8>` has eight more for its length. The sender keeps its
//! bytes and may send them again; the receiver gets a vector. So a message is copied once into the lane
//! and once out of the lane.

use std::rc::Rc;
use upbeat::InPlace;
use upbeat::wire::{Describe, Input, Output, Wire, WireError};

/// A message.
#[derive(Clone)]
pub enum Message {
    /// The bytes of a sender.
    Kept(Rc<[u8]>),
    /// The bytes of a receiver.
    Come(Vec<u8>),
}

impl Message {
    /// Creates a message of `bytes` bytes without repetitions.
    pub fn of(bytes: usize) -> Message {
        let pattern = |at: usize| (at ^ (at >> 8) ^ (at >> 16)) as u8;
        Message::Kept((0..bytes).map(pattern).collect())
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Message::Kept(bytes) => bytes,
            Message::Come(bytes) => bytes,
        }
    }
}

impl Wire for Message {
    fn bytes_likely(&self) -> usize {
        self.bytes().len()
    }

    fn describe(out: &mut Describe) {
        out.text("the rest");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        out.bytes(self.bytes());
        Ok(())
    }

    fn take(input: &mut Input<'_>) -> Result<Message, WireError> {
        // The vector is taken as elements, so that the bytes are written once.
        input.items(input.remaining()).map(Message::Come)
    }
}

/// A message that is read in its sender's memory. On the wire it is an `InPlace<u8>`, whose count is part of
/// the frame, so that both kinds of frames have the same length.
#[derive(Clone)]
pub enum Lying {
    /// The bytes of a sender.
    Kept(Rc<[u8]>),
    /// The bytes in the sender's memory, as the receiver sees them.
    Come(Rc<InPlace<u8>>),
}

/// The size of the count before the bytes.
const COUNT_BYTES: usize = size_of::<u64>();

impl Lying {
    /// Creates a message whose frame is as long as that of another message.
    pub fn of(message: &Message) -> Lying {
        Lying::Kept(message.bytes().iter().skip(COUNT_BYTES).copied().collect())
    }

    /// Returns the sum of the message's words, if the message is in its sender's memory.
    pub fn sum_there(&self) -> Option<u64> {
        let Lying::Come(bytes) = self else { return None };
        let mut sum = 0;
        bytes.for_each_piece(|piece| sum = add_up(sum, piece));
        bytes.is_lent().then_some(sum)
    }

    /// Copies the bytes into a buffer, if the message is in its sender's memory.
    pub fn keep(&self, buffer: &mut Vec<u8>) -> bool {
        let Lying::Come(bytes) = self else { return false };
        if buffer.len() < bytes.len() {
            buffer.resize(bytes.len(), 0);
        }
        bytes.copy_to(0, &mut buffer[..bytes.len()]);
        bytes.is_lent()
    }
}

impl Wire for Lying {
    const IN_PLACE: bool = <InPlace<u8> as Wire>::IN_PLACE;

    fn bytes_likely(&self) -> usize {
        match self {
            Lying::Kept(bytes) => COUNT_BYTES + bytes.len(),
            Lying::Come(bytes) => bytes.bytes_likely(),
        }
    }

    fn describe(out: &mut Describe) {
        InPlace::<u8>::describe(out);
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        match self {
            Lying::Kept(bytes) => {
                (bytes.len() as u64).put(out)?;
                out.bytes(bytes);
                Ok(())
            }
            Lying::Come(bytes) => bytes.put(out),
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Lying, WireError> {
        InPlace::take(input).map(|bytes| Lying::Come(Rc::new(bytes)))
    }
}

/// Adds the words of some bytes, and the bytes after the last whole word, to a sum.
pub fn add_up(sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let words = words.iter().map(|word| u64::from_ne_bytes(*word));
    words.chain(rest.iter().map(|byte| u64::from(*byte))).fold(sum, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::{COUNT_BYTES, Lying, Message, add_up};
    use std::rc::Rc;
    use upbeat::InPlace;

    #[test]
    fn a_message_in_place_is_as_long_and_has_the_same_sum() {
        let message = Message::of(4096);
        let Lying::Kept(bytes) = Lying::of(&message) else { unreachable!("it is ours") };
        assert_eq!(bytes.len() + COUNT_BYTES, message.bytes().len());
        assert_eq!(add_up(1, &[2, 0, 0, 0, 0, 0, 0, 0, 3, 4]), 10);
        let copied = Lying::Come(Rc::new(InPlace::from(vec![1_u8; 9])));
        let mut kept = vec![2; 10];
        assert!(!copied.keep(&mut kept) && kept == [1, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
        assert_eq!(copied.sum_there(), None, "it is no more with its sender");
    }

    #[test]
    fn a_message_does_not_repeat() {
        let message = Message::of(70_000);
        let pages: Vec<&[u8]> = message.bytes().chunks_exact(4096).collect();
        assert!(pages.windows(2).all(|two| two[0] != two[1]));
    }
}
