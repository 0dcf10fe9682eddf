//! The use of rustls for a connection: ciphertext in, plaintext out, and the handling of errors.
//!
//! Invariant: ciphertext that is not sent, and input that is not taken, are bounded by a few records.

use super::error::TlsError;
use super::socket::Raw;
use crate::pieces::Pieces;
use rustix::io::Errno;
use rustls::server::{Accepted, Acceptor};
use rustls::{Connection, ServerConfig};
use std::io::{BufRead, Write};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use upbeat_memory::socket::Span;

/// The bytes of the longest plaintext in a record of TLS.
pub(super) const RECORD_BYTES: usize = 16 << 10;

/// The type of a record with an alert.
pub(super) const ALERT: u8 = 21;
/// The types of the records with which a peer may begin: an alert, and the handshake.
const BEGINNINGS: [u8; 2] = [ALERT, 22];
/// The first byte of a version in a record, of all versions of TLS.
const VERSION: u8 = 3;

/// The space for plaintext: bytes of a region, and behind them a slice of this side.
pub(super) struct Room<'a> {
    into: Option<Span<'a>>,
    rest: &'a mut [u8],
    pub(super) filled: usize,
}

impl<'a> Room<'a> {
    pub(super) fn new(into: Option<Span<'a>>, rest: &'a mut [u8]) -> Room<'a> {
        Room { into, rest, filled: 0 }
    }

    /// Returns the number of bytes that still fit.
    pub(super) fn left(&self) -> usize {
        self.into.map_or(0, |into| into.bytes) + self.rest.len() - self.filled
    }

    /// Takes as many of the bytes as fit, and returns their number.
    fn put(&mut self, bytes: &[u8]) -> usize {
        let bytes = &bytes[..bytes.len().min(self.left())];
        let (mut at, mut left) = (self.filled, bytes);
        if let Some(Span { region, at: start, bytes }) = self.into {
            let (first, rest) = left.split_at(left.len().min(bytes.saturating_sub(at)));
            if !first.is_empty() {
                region.write(start + at, first);
            }
            at = (at + first.len()).saturating_sub(bytes);
            left = rest;
        }
        self.rest[at..at + left.len()].copy_from_slice(left);
        self.filled += bytes.len();
        bytes.len()
    }
}

/// A client's first message: a part of it, or the whole.
pub(super) struct Greeting {
    pub(super) config: Arc<ServerConfig>,
    pub(super) acceptor: Acceptor,
    pub(super) whole: Option<Accepted>,
}

impl Greeting {
    pub(super) fn new(config: Arc<ServerConfig>) -> Greeting {
        Greeting { config, acceptor: Acceptor::default(), whole: None }
    }
}

/// A connection of rustls, with its input.
pub(super) struct Engine {
    pub(super) tls: Connection,
    /// Ciphertext that waits until the owner has taken the plaintext before it.
    undecrypted: Vec<u8>,
    /// The client's first message, until a server answers it. The connection has seen nothing until then.
    pub(super) greeting: Option<Box<Greeting>>,
    pub(super) beginning: Beginning,
    /// The pieces of the peer's handshake.
    pieces: Pieces,
    /// The reason why the connection cannot continue.
    pub(super) fault: Option<TlsError>,
    /// Whether the socket takes no more output. Input of the peer can still be read.
    pub(super) deaf: bool,
    /// Whether the socket has no more input.
    pub(super) ended: bool,
    /// Whether the peer has announced the end of the connection.
    pub(super) closed: bool,
}

impl Engine {
    pub(super) fn new(mut tls: Connection) -> Engine {
        // `TlsStream::send` bounds the bytes that it gives to rustls.
        tls.set_buffer_limit(None);
        Engine {
            tls,
            undecrypted: Vec::new(),
            greeting: None,
            beginning: Beginning::default(),
            pieces: Pieces::default(),
            fault: None,
            deaf: false,
            ended: false,
            closed: false,
        }
    }

    /// Sends ciphertext that waits, as far as the socket takes it. Returns false if some still waits.
    pub(super) fn flush(&mut self, socket: BorrowedFd<'_>) -> Result<bool, Errno> {
        while self.tls.wants_write() {
            if self.deaf {
                return Err(Errno::PIPE);
            }
            if let Err(error) = self.tls.write_tls(&mut Raw(socket)) {
                match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
                    Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM => return Ok(false),
                    error => {
                        self.deaf = true;
                        return Err(error);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Encrypts plaintext.
    pub(super) fn encrypt(&mut self, plaintext: &[u8]) -> Result<(), TlsError> {
        match self.tls.writer().write(plaintext) {
            Ok(bytes) if bytes == plaintext.len() => Ok(()),
            // The key is used up, and the peer has not answered the update.
            _ => {
                Err(self
                    .fail(TlsError::Broken { reason: "the connection takes no more data".into() }))
            }
        }
    }

    /// Decrypts input, and moves the plaintext to `room`. Input for which `room` is too small is kept.
    pub(super) fn decrypt(&mut self, mut come: &[u8], room: &mut Room<'_>) -> Result<(), TlsError> {
        self.look(come)?;
        while !come.is_empty() {
            match self.tls.read_tls(&mut come) {
                // Input behind the peer's close_notify is dropped.
                Ok(0) => return Ok(()),
                Ok(_) => {}
                // rustls takes no more input before its plaintext is taken.
                Err(_) if self.give(room) => continue,
                Err(_) if self.has_plaintext() => break,
                Err(error) => {
                    return Err(self.fail(TlsError::Broken { reason: error.to_string() }));
                }
            }
            if let Err(error) = self.tls.process_new_packets() {
                self.give(room);
                return Err(self.fail(error.into()));
            }
            self.give(room);
        }
        self.undecrypted.extend_from_slice(come);
        Ok(())
    }

    /// Moves plaintext to `room`, and decrypts input that was kept because the last room was too small.
    pub(super) fn take(&mut self, room: &mut Room<'_>) -> Result<(), TlsError> {
        self.give(room);
        if !self.undecrypted.is_empty() && room.left() != 0 {
            let come = std::mem::take(&mut self.undecrypted);
            self.decrypt(&come, room)?;
        }
        Ok(())
    }

    /// Returns whether there is something for the owner without the socket: input, the end, or an error.
    pub(super) fn has_input(&mut self) -> bool {
        let has_ended = self.fault.is_some() || self.ended || self.closed;
        // The reader has no error if there is plaintext, or the peer's close_notify.
        has_ended || !self.undecrypted.is_empty() || self.tls.reader().fill_buf().is_ok()
    }

    /// Returns whether there is plaintext that the owner has not taken.
    fn has_plaintext(&mut self) -> bool {
        self.tls.reader().fill_buf().is_ok_and(|chunk| !chunk.is_empty())
    }

    /// Moves plaintext to `room`. Returns whether any was moved.
    fn give(&mut self, room: &mut Room<'_>) -> bool {
        let before = room.filled;
        let mut reader = self.tls.reader();
        while room.left() != 0 {
            match reader.fill_buf() {
                Ok([]) => {
                    self.closed = true;
                    break;
                }
                Ok(chunk) => {
                    let bytes = room.put(chunk);
                    reader.consume(bytes);
                }
                Err(_) => break,
            }
        }
        room.filled != before
    }

    /// Checks the first two bytes: a peer that speaks plaintext gets an error of its own.
    pub(super) fn look(&mut self, come: &[u8]) -> Result<(), TlsError> {
        match self.beginning.is_tls(come) {
            true => Ok(()),
            false => Err(self.fail(TlsError::PlaintextPeer)),
        }
    }

    /// Notes that so many bytes of the handshake have come: a peer that is not known yet may send no more than a
    /// handshake needs.
    pub(super) fn admit(&mut self, bytes: usize) -> Result<(), TlsError> {
        match self.pieces.admit(bytes) {
            true => Ok(()),
            false => {
                Err(self.fail(TlsError::Broken { reason: "the handshake is too long".into() }))
            }
        }
    }

    /// Stores the reason why the connection cannot continue. The first reason is kept.
    pub(super) fn fail(&mut self, error: TlsError) -> TlsError {
        self.fault.get_or_insert(error).clone()
    }
}

/// The first two bytes of a peer, which say whether it speaks TLS.
#[derive(Default)]
pub(super) struct Beginning {
    /// The number of those that have come.
    seen: usize,
}

impl Beginning {
    /// Returns whether bytes that have come may be those of a peer that speaks TLS.
    pub(super) fn is_tls(&mut self, come: &[u8]) -> bool {
        let is_tls = match (self.seen, come) {
            (0, [kind, VERSION, ..] | [kind]) => BEGINNINGS.contains(kind),
            (0, [_, ..]) => false,
            (1, [version, ..]) => *version == VERSION,
            _ => true,
        };
        self.seen = (self.seen + come.len()).min(2);
        is_tls
    }
}

/// Returns whether these are the first bytes of a peer that speaks TLS.
pub(super) fn is_tls(first: &[u8]) -> bool {
    matches!(first, [kind, VERSION, ..] if BEGINNINGS.contains(kind))
}
