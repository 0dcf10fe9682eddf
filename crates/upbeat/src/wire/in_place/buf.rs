//! Bytes that lie in place, as a [`Buf`] of the crate `bytes`.

use super::{InPlace, InPlaceReader};
use bytes::Buf;
use std::io::BufRead;

/// Reads the bytes of an [`InPlace`] as a [`Buf`], for parsers such as those of protocol buffers.
///
/// The buffer copies some 4 KiB at a time, as an [`InPlaceReader`] does.
///
/// ```
/// use bytes::Buf;
/// use upbeat::InPlace;
///
/// let message = InPlace::from(vec![0, 0, 1, 2, 7]);
/// let mut message = message.buf();
/// assert_eq!((message.get_u32(), message.get_u8(), message.remaining()), (258, 7, 0));
/// ```
#[derive(Debug)]
pub struct InPlaceBuf<'a> {
    /// The reader, whose piece is empty only when nothing is left.
    reader: InPlaceReader<'a>,
}

impl InPlace<u8> {
    /// Reads the bytes as a [`Buf`], from the first on.
    #[must_use]
    pub fn buf(&self) -> InPlaceBuf<'_> {
        let mut buf = InPlaceBuf { reader: self.reader() };
        buf.fill();
        buf
    }
}

impl InPlaceBuf<'_> {
    /// Copies the next piece if the last one was read.
    fn fill(&mut self) {
        self.reader.fill_buf().expect("a message that has come is there");
    }
}

impl Buf for InPlaceBuf<'_> {
    fn remaining(&self) -> usize {
        self.reader.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.reader.unread()
    }

    fn advance(&mut self, bytes: usize) {
        let left = self.remaining();
        assert!(bytes <= left, "cannot advance by {bytes} bytes: {left} bytes are left");
        self.reader.skip(bytes);
        self.fill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Chunks and steps of any length give every byte once and in order.
        #[test]
        fn steps_of_any_length_give_every_byte(
            len in 0..40_000_usize,
            steps in proptest::collection::vec(1..9_000_usize, 1..40),
        ) {
            let bytes: Vec<u8> = (0..len).map(|at| ((at * 31) >> 3) as u8).collect();
            let message = InPlace::from(bytes.clone());
            let (mut buf, mut at) = (message.buf(), 0);
            for step in steps.into_iter().cycle() {
                prop_assert_eq!(buf.remaining(), len - at);
                prop_assert_eq!(buf.chunk().is_empty(), at == len);
                prop_assert_eq!(buf.chunk(), &bytes[at..at + buf.chunk().len()]);
                if at == len {
                    break;
                }
                let step = step.min(len - at);
                buf.advance(step);
                at += step;
            }
        }
    }

    #[test]
    fn a_message_is_copied_out_whole() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
        let message = InPlace::from(bytes.clone());
        let mut buf = message.buf();
        assert_eq!(buf.copy_to_bytes(100_000), bytes);
        assert!(!buf.has_remaining());
    }

    #[test]
    #[should_panic(expected = "cannot advance by 3 bytes: 2 bytes are left")]
    fn a_step_beyond_the_end_panics() {
        InPlace::from(vec![1, 2]).buf().advance(3);
    }
}
