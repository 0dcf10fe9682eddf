//! A byte stream under TLS 1.3: both sides show a certificate of the program's authority.
//!
//! [`Secured`] stands between a non-blocking stream socket and its owner, who reads and writes plaintext. The owner
//! first calls [`Secured::handshake`] whenever the socket is ready, until it is done; then [`Secured::check`]
//! says whether the peer may be the node that it claims to be, and [`Secured::send`] and
//! [`Secured::receive`] take the place of the socket's. A long payload is sent from a region and received
//! into one: beside rustls's own copies there is one each way.
//!
//! rustls verifies the peer's certificate while the handshake goes on. A client is done before the server
//! has seen its certificate: a refusal comes with the first bytes that it receives. Invariant: nothing here
//! waits, no plaintext is given out before the peer's certificate was verified, and a hostile peer cannot have more
//! than a few records kept here.

mod error;

mod socket;

mod engine;

pub use error::{Distrust, TlsError};

use crate::identity::{Certificate, Identity, Names, PROTOCOL, Untrusted};
use engine::{Engine, RECORD_BYTES, Room};
use rustix::io::Errno;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};
use socket::{SCRATCH_BYTES, Scratch};
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use upbeat_core::name::{NodeName, ProgramName};
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::socket::Span;
use upbeat_memory::ticks::ticks;

/// Plaintext that is encrypted at once, before it is sent.
const BATCH_BYTES: usize = 4 * RECORD_BYTES;
/// The fewest bytes that are received at once: a record, with what surrounds it.
const RECEIVE_BYTES_MIN: usize = RECORD_BYTES + 512;
/// Reads of the input of a refused peer: a socket that is closed with unread input drops the alert.
const LAST_READS: usize = 16;

/// The alert that a node sends which speaks plaintext, when its peer speaks TLS: nothing else goes to that peer. The
/// peer's handshake then fails with [`TlsError::PlaintextPeer`].
pub const PLAINTEXT_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 71];

/// The alert that a node sends which speaks TLS, when its peer speaks plaintext: [`plaintext_meets`] knows it.
const TLS_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 10];

/// The alert that a listener sends to a caller whose handshake gives way to others (`user_canceled`): the caller's
/// handshake then fails with [`TlsError::GaveWay`].
const GAVE_WAY_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 90];

/// Returns the error of a node that speaks plaintext and whose peer began with these bytes, if they are TLS.
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

/// How far a handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shake {
    /// The connection stands.
    Done,
    /// It goes on when the socket is readable.
    WantsRead,
    /// It goes on when the socket is writable.
    WantsWrite,
}

/// A connected stream socket under TLS.
pub struct Secured {
    socket: OwnedFd,
    engine: RefCell<Engine>,
    /// What the peer's certificate names, once the handshake is done.
    names: RefCell<Option<Names>>,
}

impl Secured {
    /// Begins TLS as the side that has connected.
    ///
    /// # Errors
    /// If rustls refuses what the identity told it.
    pub fn client(socket: OwnedFd, identity: &Identity) -> Result<Secured, TlsError> {
        // Certificates name nodes and no hosts: this name is neither sent nor looked at.
        let name = ServerName::try_from("node.invalid").expect("a name of a host");
        let tls = ClientConnection::new(identity.current().client.clone(), name)?;
        Ok(Secured::new(socket, tls.into()))
    }

    /// Begins TLS as the side that was connected to.
    ///
    /// # Errors
    /// If rustls refuses what the identity told it.
    pub fn server(socket: OwnedFd, identity: &Identity) -> Result<Secured, TlsError> {
        let tls = ServerConnection::new(identity.current().server.clone())?;
        Ok(Secured::new(socket, tls.into()))
    }

    fn new(socket: OwnedFd, tls: Connection) -> Secured {
        let engine = RefCell::new(Engine::new(tls));
        Secured { socket, engine, names: RefCell::new(None) }
    }

    /// Goes on with the handshake, as far as that is possible now.
    ///
    /// # Errors
    /// If the peer is not trusted or does not trust this side, speaks no TLS 1.3, or breaks a rule. The peer
    /// is told why, as far as the socket takes it.
    pub fn handshake(&self) -> Result<Shake, TlsError> {
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

    fn shake(&self, engine: &mut Engine) -> Result<Shake, TlsError> {
        let mut scratch = Scratch::take();
        loop {
            match engine.flush(self.as_fd()) {
                Ok(false) => return Ok(Shake::WantsWrite),
                Ok(true) if !engine.tls.is_handshaking() => {
                    self.agree(engine)?;
                    return Ok(Shake::Done);
                }
                // The peer has closed the connection; its alert may have come before.
                Ok(true) | Err(_) => {}
            }
            match socket::receive(self.as_fd(), &mut scratch) {
                Ok(0) | Err(Errno::CONNRESET) => return Err(engine.fail(TlsError::Closed)),
                Ok(bytes) => engine.decrypt(&scratch[..bytes], &mut Room::new(None, &mut []))?,
                Err(Errno::AGAIN) if engine.deaf => return Err(engine.fail(TlsError::Closed)),
                Err(Errno::AGAIN) => return Ok(Shake::WantsRead),
                Err(error) => {
                    return Err(engine.fail(TlsError::System { act: "receiving", error }));
                }
            }
        }
    }

    /// Ends a handshake that is not done, for others wait. The peer is told if its hello was not answered yet: it takes
    /// no alert in plaintext behind that answer, and only the end of the connection says anything to it.
    pub(crate) fn give_way(&self) {
        let mut engine = self.engine.borrow_mut();
        if engine.fault.is_none() && engine.tls.protocol_version().is_none() {
            engine.fault = Some(TlsError::GaveWay);
            self.part(&mut engine);
        }
    }

    /// Sees that the peer speaks Upbeat, and notes what its certificate names.
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

    /// Sends the alert that says why this side gives up, and reads the peer's input: a socket that is closed with
    /// unread input drops what it has sent.
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

    /// Returns what the peer's certificate names, once the handshake is done.
    pub fn peer_names(&self) -> Option<Names> {
        self.names.borrow().clone()
    }

    /// Returns whether the peer's certificate is for this program and, if it says that it is a node and not
    /// a handle, for that node.
    ///
    /// # Errors
    /// The names that the certificate is for instead; [`Untrusted::Missing`] before the handshake is done.
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

    /// Sends bytes, and bytes of a region behind them: how many were taken, which is fewer than all only if
    /// the socket takes no more. What was taken may still have to be sent: [`Secured::has_output`].
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if none are taken now, [`Errno::NOTCONN`] before the handshake is done, and what the
    /// system says of a broken connection: what the peer has sent before can still be received.
    ///
    /// # Panics
    /// When the bytes are outside of the region.
    pub fn send(&self, first: &[u8], then: Option<Span<'_>>) -> Result<usize, Errno> {
        self.send_timed(first, then, None)
    }

    /// The same, and adds the ticks that encrypting took.
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
            // What is left over beyond a batch is not worth a write of its own.
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

    /// Sends what was taken and waits for the socket. False if some of it still waits.
    ///
    /// # Errors
    /// What the system says of a broken connection.
    pub fn flush(&self) -> Result<bool, Errno> {
        self.engine.borrow_mut().flush(self.as_fd())
    }

    /// Returns whether something that was taken waits until the socket is writable: then
    /// [`Secured::flush`] is due.
    pub fn has_output(&self) -> bool {
        let engine = self.engine.borrow();
        engine.fault.is_none() && !engine.deaf && engine.tls.wants_write()
    }

    /// Returns whether [`Secured::receive`] has bytes to give though the socket may have none: the room of
    /// the last call was too small.
    pub fn has_input(&self) -> bool {
        self.engine.borrow_mut().has_plaintext()
    }

    /// Receives bytes into a region, and what does not fit there into `rest`: how many, which is fewer than
    /// there is room for only if no more has come; 0 if the peer has ended the connection.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if nothing has come, [`Errno::NOTCONN`] before the handshake is done, [`Errno::CONNRESET`] if the connection ended without the peer's
    /// word, [`Errno::ACCESS`] if the peer has refused this side's certificate, [`Errno::PROTO`] if it has
    /// broken TLS: [`Secured::fault`] says more. What came before that was given out first.
    ///
    /// # Panics
    /// When the bytes are outside of the region, or it is read-only.
    pub fn receive(&self, into: Option<Span<'_>>, rest: &mut [u8]) -> Result<usize, Errno> {
        let mut engine = self.engine.borrow_mut();
        let mut room = Room::new(into, rest);
        let read = self.fill(&mut engine, &mut room);
        match (room.filled, read) {
            // The bytes before an error are good; the next call returns the error.
            (1.., _) => Ok(room.filled),
            (0, Ok(())) if engine.closed => Ok(0),
            (0, Ok(())) => Err(Errno::AGAIN),
            (0, Err(error)) => Err(error.errno()),
        }
    }

    /// Fills `room` with what lies here and what the socket has.
    fn fill(&self, engine: &mut Engine, room: &mut Room<'_>) -> Result<(), TlsError> {
        if let Some(fault) = engine.fault.clone() {
            // Plaintext from before the error is still good.
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
                // The records that came before the reset are good.
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
            // Less than was asked for is all that there is, unless it was no whole record.
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

    /// Ends the connection for both sides, whoever else holds the socket. What was taken before still
    /// arrives if the socket takes it at once, and then the word that it was all.
    pub fn close(&self) {
        let mut engine = self.engine.borrow_mut();
        if engine.fault.is_none() {
            engine.tls.send_close_notify();
            let _ = engine.flush(self.as_fd());
        }
        // A socket that is not connected any more is closed already.
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
    // One record at a time: the copy is still in the first cache when it is encrypted.
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

/// Copies bytes of a region out that may begin within a word.
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

impl AsFd for Secured {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
