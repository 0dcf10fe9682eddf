//! Bytes that lie in place, read as a stream.

use super::{InPlace, PIECE_BYTES};
use std::io::{self, BufRead, Read, Seek, SeekFrom};

/// Reads the bytes of an [`InPlace`] one behind the other, for parsers that take [`Read`], [`BufRead`] or [`Seek`].
///
/// The reader copies some 4 KiB at a time: a parser sees bytes that their sender cannot change any more.
///
/// ```
/// use std::io::BufRead;
/// use upbeat::InPlace;
///
/// let rows = InPlace::from(b"one\ntwo\n".to_vec());
/// let rows: Vec<String> = rows.reader().lines().collect::<Result<_, _>>()?;
/// assert_eq!(rows, ["one", "two"]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct InPlaceReader<'a> {
    bytes: &'a InPlace<u8>,
    /// The piece that was copied last.
    piece: Vec<u8>,
    /// The byte at which the piece begins.
    begin: usize,
    /// Bytes of the piece that were read.
    read: usize,
}

impl InPlace<u8> {
    /// Reads the bytes as a stream, from the first on.
    #[must_use]
    pub fn reader(&self) -> InPlaceReader<'_> {
        InPlaceReader { bytes: self, piece: Vec::new(), begin: 0, read: 0 }
    }
}

impl InPlaceReader<'_> {
    /// Returns the number of bytes that are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.position())
    }

    /// Returns the number of bytes that were read or skipped.
    fn position(&self) -> usize {
        self.begin + self.read
    }

    /// Returns the bytes of the piece that were not read.
    #[cfg(feature = "bytes")]
    pub(super) fn unread(&self) -> &[u8] {
        &self.piece[self.read..]
    }

    /// Skips bytes, in the piece or behind it.
    #[cfg(feature = "bytes")]
    pub(super) fn skip(&mut self, bytes: usize) {
        match self.read + bytes {
            read if read <= self.piece.len() => self.read = read,
            read => self.go_to(self.begin + read),
        }
    }

    /// Goes on at a position, with no piece.
    fn go_to(&mut self, position: usize) {
        (self.begin, self.read) = (position, 0);
        self.piece.clear();
    }
}

impl Read for InPlaceReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() && to.len() >= PIECE_BYTES {
            // A long read needs no copy in between.
            let position = self.position();
            let bytes = self.bytes.read_into(position, to);
            self.go_to(position + bytes);
            return Ok(bytes);
        }
        let bytes = self.fill_buf()?.read(to)?;
        self.consume(bytes);
        Ok(bytes)
    }
}

impl BufRead for InPlaceReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.read == self.piece.len() {
            self.go_to(self.position());
            self.piece.resize(PIECE_BYTES.min(self.remaining()), 0);
            self.bytes.read_into(self.begin, &mut self.piece);
        }
        Ok(&self.piece[self.read..])
    }

    fn consume(&mut self, bytes: usize) {
        self.read = (self.read + bytes).min(self.piece.len());
    }
}

impl Seek for InPlaceReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => (self.position() as u64).checked_add_signed(by),
            SeekFrom::End(by) => (self.bytes.len() as u64).checked_add_signed(by),
        };
        let position = position.and_then(|at| usize::try_from(at).ok()).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "a seek to a position before the first byte",
            )
        })?;
        self.go_to(position);
        Ok(position as u64)
    }
}
