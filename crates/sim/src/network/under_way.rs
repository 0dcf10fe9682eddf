//! The bytes that are under way in one direction of a connection.

use super::Way;
use crate::random::Random;
use rustix::io::{Errno, Result, read, write};
use rustix::net::{Shutdown, shutdown};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// The most bytes that are under way in one direction.
const UNDER_WAY_MAX: usize = 1 << 20;
/// One of so many arrivals comes in two parts.
const WHOLE: usize = 4;

/// The bytes under way, and how their direction ends.
#[derive(Default)]
pub(super) struct UnderWay {
    pub(super) parts: VecDeque<(u64, Part)>,
    bytes: usize,
    /// The next bytes are damaged.
    pub(super) is_damaged: bool,
    /// The sender has sent the last part.
    pub(super) is_last_sent: bool,
    /// Nothing more arrives.
    pub(super) has_ended: bool,
}

pub(super) enum Part {
    Bytes(Vec<u8>),
    End,
    /// The sender has given the connection up.
    Reset,
}

impl UnderWay {
    pub(super) fn send(&mut self, part: Part, due_ns: u64) {
        if self.has_ended {
            return;
        }
        let last_ns = self.parts.back().map_or(0, |(due_ns, _)| *due_ns);
        match &part {
            Part::Bytes(bytes) => self.bytes += bytes.len(),
            Part::End | Part::Reset => self.is_last_sent = true,
        }
        self.parts.push_back((due_ns.max(last_ns), part));
    }

    /// Loses all that is under way, and what follows.
    pub(super) fn end(&mut self) {
        self.parts.clear();
        self.bytes = 0;
        self.has_ended = true;
    }

    /// Takes what an end has sent.
    pub(super) fn take_from(&mut self, end: &OwnedFd, way: &Way, now_ns: u64, random: &mut Random) {
        let mut came = Vec::new();
        let mut last = None;
        let mut buffer = [0; 1 << 14];
        while !self.is_last_sent && last.is_none() && self.bytes + came.len() < UNDER_WAY_MAX {
            match read(end, &mut buffer) {
                Ok(0) => last = Some(Part::End),
                Ok(read) => came.extend_from_slice(&buffer[..read]),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => last = Some(Part::Reset),
            }
        }
        if !came.is_empty() {
            if std::mem::take(&mut self.is_damaged) {
                let (at, bit) = (random.below(came.len()), random.below(8));
                came[at] ^= 1 << bit;
            }
            let is_whole = random.below(WHOLE) != 0;
            let rest = came.split_off(if is_whole { came.len() } else { random.below(came.len()) });
            for part in [came, rest].into_iter().filter(|part| !part.is_empty()) {
                self.send(Part::Bytes(part), now_ns + way.delay(random));
            }
        }
        if let Some(last) = last {
            self.send(last, now_ns + way.delay(random));
        }
    }

    /// Loses all that is under way but its first bytes.
    pub(super) fn lose(&mut self, random: &mut Random) {
        let mut left = random.below(self.bytes + 1);
        self.bytes = left;
        self.parts.retain_mut(|(_, part)| {
            let Part::Bytes(bytes) = part else { return false };
            bytes.truncate(left);
            left -= bytes.len();
            !bytes.is_empty()
        });
    }

    /// Has what is due arrive at an end, as far as that has room. Returns whether the end learns that the connection is
    /// broken. The error is that of an end that its process has closed.
    pub(super) fn arrive_at(&mut self, end: &OwnedFd, now_ns: u64) -> Result<bool> {
        while let Some((due_ns, part)) = self.parts.front_mut()
            && *due_ns <= now_ns
        {
            match part {
                Part::Bytes(bytes) => match write(end, bytes) {
                    Ok(written) => {
                        self.bytes -= written;
                        bytes.drain(..written);
                        if !bytes.is_empty() {
                            continue;
                        }
                    }
                    Err(Errno::AGAIN) => return Ok(false),
                    Err(Errno::INTR) => continue,
                    Err(error) => return Err(error),
                },
                Part::End => {
                    self.has_ended = true;
                    // The other side may have closed its end.
                    let _ = shutdown(end, Shutdown::Write);
                }
                Part::Reset => {
                    self.end();
                    return Ok(true);
                }
            }
            self.parts.pop_front();
        }
        Ok(false)
    }
}
