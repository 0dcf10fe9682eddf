//! The payload of the open frame, where it lies: all of a reader that a decoder of values sees.
//!
//! Invariant: without an open frame there is no byte to read.

use super::reader::Reader;
use zerocopy::FromBytes;

/// The payload of the open frame, where it lies. The peer may change its bytes at any time: each read loads a word once.
#[derive(Clone, Copy)]
pub struct Payload<'r>(&'r Reader);

impl<'r> Payload<'r> {
    /// Returns the payload of the frame that lies open in a ring.
    #[inline(always)]
    #[must_use]
    pub fn of(reader: &'r Reader) -> Payload<'r> {
        Payload(reader)
    }

    /// Returns the bytes of payload for which the frame's slots have room.
    #[inline(always)]
    #[must_use]
    pub fn room(self) -> usize {
        self.0.room()
    }

    /// Copies bytes from byte `at`, which must begin a word.
    ///
    /// # Panics
    /// Panics when the bytes lie outside of the payload's room, or `at` begins no word.
    #[inline]
    pub fn read(self, at: usize, to: &mut [u8]) {
        self.0.read(at, to);
    }

    /// Loads a value of plain data at byte `at`, which must begin a word.
    ///
    /// # Panics
    /// Panics when the value lies outside of the payload's room, or `at` begins no word.
    #[inline(always)]
    pub fn read_value<T: FromBytes>(self, at: usize) -> T {
        self.0.read_value(at)
    }

    /// Copies items of plain data from byte `at`, which must begin a word. Returns none if there is no memory for them.
    ///
    /// # Panics
    /// Panics when the items lie outside of the payload's room, or `at` begins no word.
    pub fn read_items<T: FromBytes>(self, at: usize, count: usize) -> Option<Vec<T>> {
        self.0.read_items(at, count)
    }

    /// Loads the word at byte `at`, which must begin a word.
    ///
    /// # Panics
    /// Panics when the word lies outside of the payload's room, or `at` begins no word.
    #[inline]
    #[must_use]
    pub fn read_word(self, at: usize) -> u64 {
        self.0.read_word(at)
    }
}
