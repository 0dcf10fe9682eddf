//! A message of any number of bytes, for benchmarks that go by size.
//!
//! The frame carries just these bytes: a `Vec<u8>` has eight more, its length. Who sends keeps his
//! bytes and may send them again; who receives has a vector of his own. So a message is copied once
//! into the lane and once out of it, and nothing else is.

use std::rc::Rc;
use upbeat::InPlace;
use upbeat::wire::{Describe, Input, Output, Wire, WireError};

/// A message.
#[derive(Clone)]
pub enum Message {
    /// Bytes that are sent.
    Kept(Rc<[u8]>),
    /// Bytes that have come.
    Come(Vec<u8>),
}

impl Message {
    /// One of so many bytes, no two runs of which are alike.
    pub fn of(bytes: usize) -> Message {
        let pattern = |at: usize| (at ^ (at >> 8) ^ (at >> 16)) as u8;
        Message::Kept((0..bytes).map(pattern).collect())
    }

    /// Its bytes.
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
        // As a vector's elements are taken: the bytes are written once.
        input.items(input.remaining()).map(Message::Come)
    }
}

/// The same, read where its sender wrote it: on the wire an `InPlace<u8>`, whose count is in the
/// frame's bytes, so that both are of one length.
#[derive(Clone)]
pub enum Lying {
    /// Bytes that are sent.
    Kept(Rc<[u8]>),
    /// Bytes that lie with their sender.
    Come(Rc<InPlace<u8>>),
}

/// Bytes of the count before the bytes.
const COUNT_BYTES: usize = size_of::<u64>();

impl Lying {
    /// A message whose frame is as long as that of another.
    pub fn of(message: &Message) -> Lying {
        Lying::Kept(message.bytes().iter().skip(COUNT_BYTES).copied().collect())
    }

    /// The sum of its words, if it lies with its sender.
    pub fn sum_there(&self) -> Option<u64> {
        let Lying::Come(bytes) = self else { return None };
        let mut sum = 0;
        bytes.for_each_piece(|piece| sum = add_up(sum, piece));
        bytes.is_lent().then_some(sum)
    }

    /// Copies its bytes into a buffer, if they lie with their sender.
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

/// Adds the words of some bytes, and what is left over behind them, to a sum.
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
    fn what_lies_is_as_long_and_added_up_whole() {
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
    fn a_message_is_not_the_same_everywhere() {
        let message = Message::of(70_000);
        let pages: Vec<&[u8]> = message.bytes().chunks_exact(4096).collect();
        assert!(pages.windows(2).all(|two| two[0] != two[1]));
    }
}
