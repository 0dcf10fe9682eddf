//! One read of the pipe: as much as there is space for, with a long payload directly into its final place.

use super::{Filling, Incoming, READ_BEHIND_BYTES, READ_BYTES, READ_BYTES_MAX, STRAIGHT_BYTES};
use crate::stream::pipe::Pipe;
use crate::transfers;
use rustix::io::Errno;
use upbeat_memory::socket::Span;

/// The result of one read.
pub(super) enum Read {
    Nothing,
    End,
    Came {
        /// Whether all space was filled, so that more data may wait.
        all: bool,
    },
}

impl Incoming {
    /// Reads once, as much as there is space for.
    pub(super) fn read(&mut self, pipe: &Pipe) -> Result<Read, Errno> {
        self.make_room();
        let straight = self.filling.as_ref().filter(|filling| filling.left >= STRAIGHT_BYTES);
        let into = straight.and_then(|filling| {
            let Filling { region, at, left, .. } = filling;
            Some(Span { region: region.as_ref()?, at: *at, bytes: *left })
        });
        let into = into.filter(|_| self.start == self.end);
        let filled = into.map_or(0, |into| into.bytes);
        let at_once = if into.is_some() { READ_BEHIND_BYTES } else { self.at_once };
        let end = self.buffer.len().min(self.end + at_once);
        let rest = &mut self.buffer[self.end..end];
        let room = filled + rest.len();
        let bytes = match pipe.receive(into, rest) {
            Err(Errno::AGAIN) => return Ok(Read::Nothing),
            Ok(0) | Err(Errno::CONNRESET) => return Ok(Read::End),
            other => other?,
        };
        transfers::moved(bytes);
        let filled = bytes.min(filled);
        if let Some(filling) = self.filling.as_mut().filter(|_| filled != 0) {
            filling.at += filled;
            filling.left -= filled;
        }
        self.end += bytes - filled;
        Ok(Read::Came { all: bytes == room })
    }

    /// Makes space behind the received bytes, and lengthens the buffer if all of it was filled.
    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.end == 0 && self.buffer.len() < self.at_once {
            self.lengthen(self.at_once.max(READ_BYTES));
        }
        if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            // The longest frame fits into a buffer of twice this length.
            if self.end > self.buffer.len() / 2 && self.buffer.len() < 2 * READ_BYTES_MAX {
                self.lengthen(2 * self.buffer.len());
            }
        }
    }
}
