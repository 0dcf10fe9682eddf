//! The sides of a session between hosts, and the ticket by which the session outlives its connection.
//!
//! [`resume`](crate::resume) and the runtime decide which caller may resume which session. Invariant: a parsed
//! record is written as the same bytes.

use crate::bill::clock::Timestamps;
use crate::fault::Rule;
use crate::record::Fields;
use alloc::vec::Vec;
use core::fmt;
use core::hint::black_box;

/// The ticket that a caller shows to a listener to resume their session over another connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The listener's number of the session.
    pub session: u64,
    /// The incarnation of the listener in which the session began.
    pub incarnation: u64,
    /// The random number that the listener gave the caller when the session began.
    pub key: [u8; 16],
}

impl Ticket {
    /// Returns whether both tickets are equal, in a time that does not depend on the keys.
    ///
    /// ```
    /// use upbeat_core::hello::Ticket;
    ///
    /// let ticket = Ticket { session: 3, incarnation: 9, key: [7; 16] };
    /// assert!(ticket.fits(&ticket.clone()));
    /// assert!(!ticket.fits(&Ticket { key: [8; 16], ..ticket }));
    /// ```
    pub fn fits(&self, other: &Ticket) -> bool {
        let differ = self.key.iter().zip(other.key).fold(0, |bits, (a, b)| black_box(bits | a ^ b));
        differ == 0 && self.session == other.session && self.incarnation == other.incarnation
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.session.to_le_bytes());
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.key);
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Ticket, Rule> {
        let session = fields.u64("session of a ticket")?;
        let incarnation = fields.u64("incarnation of a ticket")?;
        let key = fields.u128("key of a ticket")?.to_le_bytes();
        Ok(Ticket { session, incarnation, key })
    }
}

impl fmt::Debug for Ticket {
    /// Prints the ticket without its key, which is a secret where messages are encrypted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ticket { session, incarnation, .. } = self;
        write!(f, "Ticket({session} of {incarnation:x})")
    }
}

/// The sender's side of a session between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Networked {
    /// The sender's number of the session.
    pub session: u64,
    /// The slots of the receiver's lane that the sender has received, which is 0 in a new session.
    pub position: u64,
    /// The number of the caller's attempt to resume the session, or 0 in a new session. A listener accepts no attempt
    /// with a smaller number than one that it has accepted.
    pub attempt: u64,
    /// The milliseconds for which the sender keeps the session after its connection is lost, or 0 if it does not
    /// keep it.
    pub resume_ms: u32,
    /// The rate of the sender's counter, in ticks per second.
    pub pace: u64,
    /// The sender's time stamps, from which the receiver bounds the offset of the two clocks.
    pub stamps: Timestamps,
    /// The ticket: a caller names the session that continues over this connection, and a listener gives the caller
    /// the ticket for later. Without a ticket the session ends with its connection.
    pub ticket: Option<Ticket>,
}

impl Networked {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.session.to_le_bytes());
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(&self.attempt.to_le_bytes());
        out.extend_from_slice(&self.resume_ms.to_le_bytes());
        let Timestamps { sent, echo, heard } = self.stamps;
        for word in [self.pace, sent, echo, heard] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.push(u8::from(self.ticket.is_some()));
        if let Some(ticket) = &self.ticket {
            ticket.write(out);
        }
    }

    pub(super) fn parse(mut fields: Fields<'_>) -> Result<Networked, Rule> {
        let session = fields.u64("number of the session")?;
        let position = fields.u64("position")?;
        let attempt = fields.u64("number of an attempt")?;
        let resume_ms = fields.u32("milliseconds of a break")?;
        let pace = fields.u64("pace of a counter")?;
        let mut stamp = || fields.u64("time stamp");
        let stamps = Timestamps { sent: stamp()?, echo: stamp()?, heard: stamp()? };
        let field = "ticket";
        let ticket = match fields.u8(field)? {
            0 => None,
            1 => Some(Ticket::parse(&mut fields)?),
            _ => return Err(Rule::RecordField { field }),
        };
        fields.end()?;
        Ok(Networked { session, position, attempt, resume_ms, pace, stamps, ticket })
    }
}
