//! A byte stream under TLS 1.3: both sides show a certificate of the program's authority.
//!
//! [`TlsStream`] stands between a non-blocking stream socket and the stream's owner, which reads and writes plaintext.
//! The owner first calls [`TlsStream::handshake`] whenever the socket is ready, until it is done. Then
//! [`TlsStream::check`] says whether the peer may use its name, and [`TlsStream::send`] and [`TlsStream::receive`]
//! replace the functions of the socket. A long payload is sent from a region and received into one: besides
//! rustls's own copies there is one copy each way.
//!
//! rustls verifies the peer's certificate during the handshake. A client finishes before the server has seen its
//! certificate: a refusal comes with the first bytes that the client receives. Invariant: no function blocks, no
//! plaintext is returned before the peer's certificate was verified, and a hostile peer makes this side keep at most
//! a few records.

mod error;

mod socket;

mod engine;

mod greeting;

pub use error::{Distrust, TlsError};

use crate::identity::{Certificate, Identity, Names, PROTOCOL, Untrusted};
use engine::{Engine, Greeting, RECORD_BYTES, Room};
use rustix::io::Errno;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection};
use socket::{SCRATCH_BYTES, Scratch};
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use upbeat_core::name::{NodeName, ProgramName};
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::socket::Span;
use upbeat_memory::ticks::ticks;

/// The bytes of plaintext that are encrypted at once, before they are sent.
const BATCH_BYTES: usize = 4 * RECORD_BYTES;
/// The fewest bytes that one receive asks for: a record with its head and tag.
const RECEIVE_BYTES_MIN: usize = RECORD_BYTES + 512;
/// The number of reads of a refused peer's input: a socket that is closed with unread input drops the alert.
const LAST_READS: usize = 16;

/// The alert that a plaintext node sends to a peer that speaks TLS, and the only bytes that the peer gets. The peer's
/// handshake then fails with [`TlsError::PlaintextPeer`].
pub const PLAINTEXT_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 71];

/// The alert that a TLS node sends to a peer that speaks plaintext: [`plaintext_meets`] recognizes it.
const TLS_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 10];

/// The alert with which a listener drops a slow handshake in favour of other callers (`user_canceled`): the caller's
/// handshake then fails with [`TlsError::GaveWay`].
const GAVE_WAY_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 90];

/// Returns the error of a plaintext node whose peer began with these bytes, if the bytes are TLS.
///
/// ```
/// use upbeat_transport::tls::{TlsError, plaintext_meets};
///
/// assert_eq!(plaintext_meets(&[22, 3, 1, 2, 0]), Some(TlsError::TlsPeer));
/// assert_eq!(plaintext_meets(b"upbeat"), None);
/// ```
pub fn plaintext_meets(first: &[u8]) -> Option<TlsError> {
    engine::is_tls(first).then_some(TlsError::TlsPeer)
}

/// The progress of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeState {
    /// The handshake is done.
    Done,
    /// The handshake continues when the socket is readable.
    WantsRead,
    /// The handshake continues when the socket is writable.
    WantsWrite,
}

/// A connected stream socket under TLS.
pub struct TlsStream {
    socket: OwnedFd,
    engine: RefCell<Engine>,
    /// The names in the peer's certificate, once the handshake is done.
    names: RefCell<Option<Names>>,
}

impl TlsStream {
    /// Begins TLS as the side that has connected.
    ///
    /// # Errors
    /// If rustls rejects the identity.
    pub fn client(socket: OwnedFd, identity: &Identity) -> Result<TlsStream, TlsError> {
        // Certificates name nodes and not hosts: this name is neither sent nor checked.
        let name = ServerName::try_from("node.invalid").expect("a name of a host");
        let tls = ClientConnection::new(identity.current().client.clone(), name)?;
        Ok(TlsStream::with(socket, Engine::new(tls.into())))
    }

    /// Begins TLS as the side that has accepted the connection.
    ///
    /// # Errors
    /// If rustls rejects the identity.
    pub fn server(socket: OwnedFd, identity: &Identity) -> Result<TlsStream, TlsError> {
        let config = identity.current().server.clone();
        let mut engine = Engine::new(ServerConnection::new(Arc::clone(&config))?.into());
        engine.greeting = Some(Box::new(Greeting::new(config)));
        Ok(TlsStream::with(socket, engine))
    }

    fn with(socket: OwnedFd, engine: Engine) -> TlsStream {
        TlsStream { socket, engine: RefCell::new(engine), names: RefCell::new(None) }
    }

    /// Reads a client's first message, and computes nothing for it. Returns whether the message is whole: the handshake
    /// then answers it. A client's side has no message to wait for.
    ///
    /// # Errors
    /// As those of [`TlsStream::handshake`].
    pub fn greet(&self) -> Result<bool, TlsError> {
        let mut engine = self.engine.borrow_mut();
        if let Some(fault) = &engine.fault {
            return Err(fault.clone());
        }
        let is_whole = engine.greet(self.as_fd());
        if is_whole.is_err() {
            self.part(&mut engine);
        }
        is_whole
    }

    /// Advances the handshake, as far as that is possible now.
    ///
    /// # Errors
    /// If one side does not trust the other, or the peer speaks no TLS 1.3 or breaks a rule. The peer is told why, as
    /// far as the socket takes it.
    pub fn handshake(&self) -> Result<HandshakeState, TlsError> {
        let mut engine = self.engine.borrow_mut();
        if let Some(fault) = &engine.fault {
            return Err(fault.clone());
        }
        let shaken = self.shake(&mut engine);
        if shaken.is_err() {
            self.part(&mut engine);
        }
        shaken
    }

    fn shake(&self, engine: &mut Engine) -> Result<HandshakeState, TlsError> {
        if !engine.greet(self.as_fd())? {
            return Ok(HandshakeState::WantsRead);
        }
        engine.answer(self.as_fd())?;
        let mut scratch = Scratch::take();
        loop {
            match engine.flush(self.as_fd()) {
                Ok(false) => return Ok(HandshakeState::WantsWrite),
                Ok(true) if !engine.tls.is_handshaking() => {
                    self.agree(engine)?;
                    return Ok(HandshakeState::Done);
                }
                // The peer has closed the connection; its alert may have come before.
                Ok(true) | Err(_) => {}
            }
            match socket::receive(self.as_fd(), &mut scratch) {
                Ok(0) | Err(Errno::CONNRESET) => return Err(engine.fail(TlsError::Closed)),
                Ok(bytes) => {
                    engine.admit(bytes)?;
                    engine.decrypt(&scratch[..bytes], &mut Room::new(None, &mut []))?;
                }
                Err(Errno::AGAIN) if engine.deaf => return Err(engine.fail(TlsError::Closed)),
                Err(Errno::AGAIN) => return Ok(HandshakeState::WantsRead),
                Err(error) => {
                    return Err(engine.fail(TlsError::System { act: "receiving", error }));
                }
            }
        }
    }

    /// Ends an unfinished handshake in favour of other callers. The peer is told only if its hello was not answered
    /// yet: after that answer it takes no alert in plaintext, and sees only the end of the connection.
    pub(crate) fn give_way(&self) {
        let mut engine = self.engine.borrow_mut();
        if engine.fault.is_none() && engine.tls.protocol_version().is_none() {
            engine.fault = Some(TlsError::GaveWay);
            self.part(&mut engine);
        }
    }

    /// Checks that the peer speaks Upbeat, and stores the names in its certificate.
    fn agree(&self, engine: &mut Engine) -> Result<(), TlsError> {
        if engine.tls.alpn_protocol() != Some(PROTOCOL) {
            return Err(engine.fail(TlsError::OtherProtocol));
        }
        let leaf = engine.tls.peer_certificates().and_then(<[_]>::first);
        let names = match leaf.map(|leaf| Certificate::parse(leaf)) {
            None => Err(Untrusted::Missing),
            Some(Err(reason)) => Err(Untrusted::Malformed { reason }),
            Some(Ok(certificate)) => match certificate.names() {
                Ok(names) => Ok(names.clone()),
                Err(error) => Err(Untrusted::Malformed { reason: error.to_string() }),
            },
        };
        match names {
            Ok(names) => *self.names.borrow_mut() = Some(names),
            Err(untrusted) => return Err(engine.fail(TlsError::Untrusted(untrusted))),
        }
        Ok(())
    }

    /// Sends the alert that says why this side gives up, and then reads the peer's input, because a socket that is
    /// closed with unread input drops its output.
    fn part(&self, engine: &mut Engine) {
        let alert = match engine.fault {
            Some(TlsError::PlaintextPeer) => Some(TLS_ALERT),
            Some(TlsError::GaveWay) => Some(GAVE_WAY_ALERT),
            _ => None,
        };
        if let Some(alert) = alert {
            let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
            let _ = rustix::net::send(&self.socket, &alert, flags);
        } else {
            let _ = engine.flush(self.as_fd());
        }
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
        let mut scratch = Scratch::take();
        for _ in 0..LAST_READS {
            if !matches!(socket::receive(self.as_fd(), &mut scratch), Ok(1..)) {
                return;
            }
        }
    }

    /// Returns the names in the peer's certificate, once the handshake is done.
    pub fn peer_names(&self) -> Option<Names> {
        self.names.borrow().clone()
    }

    /// Checks that the peer's certificate is for this program and, if the peer calls itself a node and not a handle,
    /// for that node.
    ///
    /// # Errors
    /// Returns the names that the certificate is for instead, or [`Untrusted::Missing`] before the handshake is done.
    pub fn check(&self, program: &ProgramName, node: Option<&NodeName>) -> Result<(), Untrusted> {
        let names = self.names.borrow();
        let names = names.as_ref().ok_or(Untrusted::Missing)?;
        if names.program() != program {
            let (wanted, names) = (program.clone(), names.clone());
            return Err(Untrusted::OtherProgram { wanted, names });
        }
        match node.filter(|node| !names.covers(Some(node))) {
            None => Ok(()),
            Some(node) => Err(Untrusted::OtherName { wanted: node.clone(), names: names.clone() }),
        }
    }

    /// Sends bytes, and bytes of a region behind them. Returns the number of bytes taken, which is less than all only
    /// if the socket takes no more. Bytes that were taken may still have to be sent: [`TlsStream::has_output`].
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if no bytes are taken now, [`Errno::NOTCONN`] before the handshake is done, and the system's
    /// error for a broken connection: data that the peer has sent before can still be received.
    ///
    /// # Panics
    /// If the bytes are outside of the region.
    pub fn send(&self, first: &[u8], then: Option<Span<'_>>) -> Result<usize, Errno> {
        self.send_timed(first, then, None)
    }

    /// Does what [`TlsStream::send`] does, and adds the ticks that encrypting took.
    pub(crate) fn send_timed(
        &self,
        first: &[u8],
        then: Option<Span<'_>>,
        mut encrypting: Option<&mut u64>,
    ) -> Result<usize, Errno> {
        let mut engine = self.engine.borrow_mut();
        if let Some(fault) = &engine.fault {
            return Err(fault.errno());
        }
        if self.names.borrow().is_none() {
            return Err(Errno::NOTCONN);
        }
        if !engine.flush(self.as_fd())? {
            return Err(Errno::AGAIN);
        }
        let whole = first.len() + then.map_or(0, |then| then.bytes);
        let mut taken = 0;
        while taken < whole {
            // A rest beyond a batch is too small for a write of its own.
            let batch =
                if whole - taken < BATCH_BYTES + RECORD_BYTES { whole } else { BATCH_BYTES };
            let end = whole.min(taken + batch);
            let began = encrypting.as_ref().map(|_| ticks());
            encrypt(&mut engine, first, then, taken..end).map_err(|error| error.errno())?;
            if let (Some(encrypting), Some(began)) = (encrypting.as_deref_mut(), began) {
                *encrypting += ticks().saturating_sub(began);
            }
            taken = end;
            if !engine.flush(self.as_fd())? {
                break;
            }
        }
        Ok(taken)
    }

    /// Sends the bytes that were taken and wait for the socket. Returns false if some of them still wait.
    ///
    /// # Errors
    /// The system's error for a broken connection.
    pub fn flush(&self) -> Result<bool, Errno> {
        self.engine.borrow_mut().flush(self.as_fd())
    }

    /// Returns whether bytes that were taken wait until the socket is writable. Then [`TlsStream::flush`] is due.
    pub fn has_output(&self) -> bool {
        let engine = self.engine.borrow();
        engine.fault.is_none() && !engine.deaf && engine.tls.wants_write()
    }

    /// Returns whether [`TlsStream::receive`] may have bytes, the end or an error to return although the socket has
    /// nothing: the space of the last call was too small, or the end came behind the bytes.
    pub fn has_input(&self) -> bool {
        self.engine.borrow_mut().has_input()
    }

    /// Receives bytes into a region, and further bytes into `rest`. Returns the number of bytes, which is less than
    /// the space only if no more have come, and 0 if the peer has ended the connection.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if nothing has come, [`Errno::NOTCONN`] before the handshake is done, [`Errno::CONNRESET`] if
    /// the connection ended without the peer's notice, [`Errno::ACCESS`] if the peer has refused this side's
    /// certificate, [`Errno::PROTO`] if the peer has broken TLS: [`TlsStream::fault`] says more. Bytes that came before
    /// the error were returned first.
    ///
    /// # Panics
    /// If the bytes are outside of the region, or the region is read-only.
    pub fn receive(&self, into: Option<Span<'_>>, rest: &mut [u8]) -> Result<usize, Errno> {
        let mut engine = self.engine.borrow_mut();
        let mut room = Room::new(into, rest);
        let read = self.fill(&mut engine, &mut room);
        match (room.filled, read) {
            // The bytes before an error are valid; the next call returns the error.
            (1.., _) => Ok(room.filled),
            (0, Ok(())) if engine.closed => Ok(0),
            (0, Ok(())) => Err(Errno::AGAIN),
            (0, Err(error)) => Err(error.errno()),
        }
    }

    /// Fills `room` with bytes that were received before, and with those of the socket.
    fn fill(&self, engine: &mut Engine, room: &mut Room<'_>) -> Result<(), TlsError> {
        if let Some(fault) = engine.fault.clone() {
            // Plaintext from before the error is still valid.
            let _ = engine.take(room);
            return Err(fault);
        }
        if self.names.borrow().is_none() {
            return Err(TlsError::System { act: "receiving", error: Errno::NOTCONN });
        }
        engine.take(room)?;
        while room.left() != 0 && !engine.closed {
            if engine.ended {
                return Err(engine.fail(TlsError::Cut));
            }
            let mut scratch = Scratch::take();
            let most = room.left().clamp(RECEIVE_BYTES_MIN, SCRATCH_BYTES);
            let bytes = match socket::receive(self.as_fd(), &mut scratch[..most]) {
                Ok(bytes) => bytes,
                Err(Errno::AGAIN) => return Ok(()),
                // The records that came before the reset are valid.
                Err(Errno::CONNRESET) => 0,
                Err(error) => {
                    return Err(engine.fail(TlsError::System { act: "receiving", error }));
                }
            };
            engine.ended = bytes == 0;
            if let Err(error) = engine.decrypt(&scratch[..bytes], room) {
                let _ = engine.flush(self.as_fd());
                return Err(error);
            }
            // A short read means that the socket is empty, unless the bytes are no whole record.
            if bytes != 0 && bytes < most && room.filled != 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns why the connection cannot go on, if it cannot.
    pub fn fault(&self) -> Option<TlsError> {
        self.engine.borrow().fault.clone()
    }

    /// Ends the connection for both sides, even if another process holds the socket too. Bytes that were taken
    /// before, and the notice of the end behind them, still arrive if the socket takes them at once.
    pub fn close(&self) {
        let mut engine = self.engine.borrow_mut();
        if engine.fault.is_none() {
            engine.tls.send_close_notify();
            let _ = engine.flush(self.as_fd());
        }
        // An error means that the socket is no longer connected, so it is closed already.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

/// Encrypts a part of `first` and the bytes of a region behind it.
fn encrypt(
    engine: &mut Engine,
    first: &[u8],
    then: Option<Span<'_>>,
    part: std::ops::Range<usize>,
) -> Result<(), TlsError> {
    let Some(then) = then else { return engine.encrypt(&first[part]) };
    // One record is copied at a time, so that the copy is still in the first cache when it is encrypted.
    let mut scratch = Scratch::take();
    let mut at = part.start;
    while at < part.end {
        let bytes = RECORD_BYTES.min(part.end - at);
        let plaintext = &mut scratch[..bytes];
        let head = &first[at.min(first.len())..first.len().min(at + bytes)];
        let (to, rest) = plaintext.split_at_mut(head.len());
        to.copy_from_slice(head);
        if !rest.is_empty() {
            copy_out(then.region, then.at + at + head.len() - first.len(), rest);
        }
        engine.encrypt(plaintext)?;
        at += bytes;
    }
    Ok(())
}

/// Copies bytes out of a region, from an offset that may be within a word.
fn copy_out(region: &Region, at: usize, to: &mut [u8]) {
    let inside = at % WORD;
    let (start, rest) = to.split_at_mut(to.len().min((WORD - inside) % WORD));
    let mut word = [0; WORD];
    if !start.is_empty() {
        region.read(at - inside, &mut word[..inside + start.len()]);
        start.copy_from_slice(&word[inside..inside + start.len()]);
    }
    if !rest.is_empty() {
        region.read(at + start.len(), rest);
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
