//! The connection that transfers the bytes of a stream: the bytes arrive in order, in pieces of any size, or not at
//! all.

use crate::identity::Untrusted;
use crate::tls::{HandshakeState, TlsError, TlsStream};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use upbeat_core::name::{NodeName, ProgramName};
use upbeat_memory::socket::{self, Part, Span, sending};

/// The bytes that one read discards, and the most reads before other sessions have their turn.
const DISCARD_BYTES: usize = 8 << 10;
const DISCARDS_MAX: usize = 64;

/// A connected stream socket, in plaintext or under TLS.
pub(crate) enum Pipe {
    Plain(OwnedFd),
    Tls(Box<TlsStream>),
}

impl Pipe {
    /// Sends bytes, and returns how many were sent. Never blocks.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.send_parts(&[Part { first: bytes, then: None }], None)
    }

    /// Sends these parts in their order as far as the socket takes them, and returns the number of bytes sent. Adds
    /// the ticks that encrypting took. Never blocks.
    pub(crate) fn send_parts(
        &self,
        parts: &[Part<'_>],
        encrypting: Option<&mut u64>,
    ) -> Result<usize, Errno> {
        let socket = match self {
            Pipe::Plain(socket) => socket,
            Pipe::Tls(secured) => return send_secured(secured, parts, encrypting),
        };
        let [Part { first, then: None }] = parts else {
            return socket::send(socket.as_fd(), parts);
        };
        loop {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(socket, first, flags) {
                Err(Errno::INTR) => {}
                sent => return sent,
            }
        }
    }

    /// Receives bytes into a region, and further bytes into `rest`. Returns the number of bytes, or 0 at the end.
    /// Never blocks.
    pub(crate) fn receive(&self, into: Option<Span<'_>>, rest: &mut [u8]) -> Result<usize, Errno> {
        let socket = match self {
            Pipe::Plain(socket) => socket,
            Pipe::Tls(secured) => return secured.receive(into, rest),
        };
        if let Some(into) = into {
            return socket::receive(socket.as_fd(), into, rest);
        }
        loop {
            match rustix::net::recv(socket, &mut *rest, RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                received => return received.map(|(bytes, _)| bytes),
            }
        }
    }

    /// Reads the first message of a client of TLS. Returns whether it is whole, or TLS is not used.
    pub(crate) fn greet(&self) -> Result<bool, TlsError> {
        match self {
            Pipe::Plain(_) => Ok(true),
            Pipe::Tls(secured) => secured.greet(),
        }
    }

    /// Advances the handshake of TLS, if there is one.
    pub(crate) fn shake(&self) -> Result<HandshakeState, TlsError> {
        match self {
            Pipe::Plain(_) => Ok(HandshakeState::Done),
            Pipe::Tls(secured) => secured.handshake(),
        }
    }

    /// Ends an unfinished handshake of TLS in favour of other callers.
    pub(crate) fn give_way(&self) {
        if let Pipe::Tls(secured) = self {
            secured.give_way();
        }
    }

    /// Compares the peer's name with its certificate, if it had to show one.
    pub(crate) fn check(
        &self,
        program: &ProgramName,
        node: Option<&NodeName>,
    ) -> Result<(), Untrusted> {
        match self {
            Pipe::Plain(_) => Ok(()),
            Pipe::Tls(secured) => secured.check(program, node),
        }
    }

    /// Sends the bytes that were taken and wait. A broken connection is reported by the next read.
    pub(crate) fn flush(&self) {
        if let Pipe::Tls(secured) = self {
            let _ = secured.flush();
        }
    }

    /// Returns whether bytes that were taken wait to be sent.
    pub(crate) fn has_output(&self) -> bool {
        matches!(self, Pipe::Tls(secured) if secured.has_output())
    }

    /// Returns whether data has come that does not make the socket readable any more.
    pub(crate) fn has_input(&self) -> bool {
        matches!(self, Pipe::Tls(secured) if secured.has_input())
    }

    /// Returns why TLS cannot continue, if it cannot.
    pub(crate) fn fault(&self) -> Option<TlsError> {
        match self {
            Pipe::Plain(_) => None,
            Pipe::Tls(secured) => secured.fault(),
        }
    }

    /// Returns whether the bytes go in plaintext.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Pipe::Plain(_))
    }

    /// Says that nothing more is sent. The peer's bytes are still received. Under TLS the record that ends the session
    /// says it, and no notice of TLS follows: it would reset the connection of a peer that has read the record.
    pub(crate) fn finish(&self) {
        // An error means that the socket is no longer connected.
        let _ = rustix::net::shutdown(self, rustix::net::Shutdown::Write);
    }

    /// Receives everything that has come, and drops it unread: a socket that is closed with input drops its output.
    ///
    /// # Errors
    /// If the connection was reset.
    pub(crate) fn discard(&self) -> Result<(), Errno> {
        let mut scratch = [0; DISCARD_BYTES];
        for _ in 0..DISCARDS_MAX {
            match rustix::net::recv(self, &mut scratch, RecvFlags::DONTWAIT) {
                Ok((1.., _)) | Err(Errno::INTR) => {}
                Ok((0, _)) | Err(Errno::AGAIN) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns whether the peer's host has acknowledged everything that was sent. A socket of this host hands bytes
    /// over at once.
    pub(crate) fn is_acknowledged(&self) -> bool {
        sending(self.as_fd()).is_none_or(|seen| seen.unacked == 0 && seen.unsent == 0)
    }

    /// Returns whether a connection between hosts is closed in both directions.
    pub(crate) fn is_closed(&self) -> bool {
        sending(self.as_fd()).is_some_and(|seen| seen.closed)
    }

    /// Ends the connection for both sides, even if another process holds the socket too.
    pub(crate) fn close(&self) {
        match self {
            // An error means that the socket is no longer connected, so it is closed already.
            Pipe::Plain(socket) => {
                let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
            }
            Pipe::Tls(secured) => secured.close(),
        }
    }
}

/// Sends these parts under TLS, as far as the socket takes them.
fn send_secured(
    secured: &TlsStream,
    parts: &[Part<'_>],
    mut encrypting: Option<&mut u64>,
) -> Result<usize, Errno> {
    let mut sent = 0;
    for part in parts {
        match secured.send_timed(part.first, part.then, encrypting.as_deref_mut()) {
            Ok(bytes) => sent += bytes,
            // The parts before this one were sent.
            Err(Errno::AGAIN) if sent != 0 => return Ok(sent),
            Err(error) => return Err(error),
        }
        if secured.has_output() {
            break;
        }
    }
    Ok(sent)
}

/// A connection over which a session may be [resumed](crate::carrier::Carrier::resume).
pub struct Connection(pub(crate) Pipe);

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes a connection in plaintext from a connected stream socket.
impl From<OwnedFd> for Connection {
    fn from(socket: OwnedFd) -> Connection {
        Connection(Pipe::Plain(socket))
    }
}

/// Makes a connection under TLS, whose handshake is done.
impl From<TlsStream> for Connection {
    fn from(secured: TlsStream) -> Connection {
        Connection(Pipe::Tls(Box::new(secured)))
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Pipe::Plain(socket) => socket.as_fd(),
            Pipe::Tls(secured) => secured.as_fd(),
        }
    }
}
