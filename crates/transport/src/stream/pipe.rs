//! What bytes of a stream go through: they arrive in order, in pieces of any size, or not at all.

use crate::identity::Untrusted;
use crate::tls::{Secured, Shake, TlsError};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use upbeat_core::name::{NodeName, ProgramName};
use upbeat_memory::socket::{self, Part, Span};

/// A connected stream socket: bytes go as they are, or under TLS.
pub(crate) enum Pipe {
    Plain(OwnedFd),
    Tls(Box<Secured>),
}

impl Pipe {
    /// Sends bytes: how many went. Never waits.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.send_parts(&[Part { first: bytes, then: None }], None)
    }

    /// Sends these parts in their order, as far as they go: how many bytes went. Adds the ticks that encrypting took.
    /// Never waits.
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

    /// Receives bytes into a region, and what does not fit there into `rest`: how many came, 0 at the end.
    /// Never waits.
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

    /// Goes on with the handshake that comes before all else, if there is one.
    pub(crate) fn shake(&self) -> Result<Shake, TlsError> {
        match self {
            Pipe::Plain(_) => Ok(Shake::Done),
            Pipe::Tls(secured) => secured.handshake(),
        }
    }

    /// Ends the handshake of TLS, if there is one that is not done, for others wait.
    pub(crate) fn give_way(&self) {
        if let Pipe::Tls(secured) = self {
            secured.give_way();
        }
    }

    /// Compares what the peer says to be with its certificate, if it had to show one.
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

    /// Sends what was taken and has not gone. A connection that is broken says so when it is read.
    pub(crate) fn flush(&self) {
        if let Pipe::Tls(secured) = self {
            let _ = secured.flush();
        }
    }

    /// Whether something that was taken has not gone.
    pub(crate) fn has_output(&self) -> bool {
        matches!(self, Pipe::Tls(secured) if secured.has_output())
    }

    /// Whether something has come that its socket does not tell of any more.
    pub(crate) fn has_input(&self) -> bool {
        matches!(self, Pipe::Tls(secured) if secured.has_input())
    }

    /// Why TLS cannot go on, if it cannot.
    pub(crate) fn fault(&self) -> Option<TlsError> {
        match self {
            Pipe::Plain(_) => None,
            Pipe::Tls(secured) => secured.fault(),
        }
    }

    /// Whether bytes go as they are.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Pipe::Plain(_))
    }

    /// Ends it for both sides, whoever else holds the socket.
    pub(crate) fn close(&self) {
        match self {
            // A socket that is not connected any more is closed already.
            Pipe::Plain(socket) => {
                let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
            }
            Pipe::Tls(secured) => secured.close(),
        }
    }
}

/// Sends these parts under TLS, as far as they go.
fn send_secured(
    secured: &Secured,
    parts: &[Part<'_>],
    mut encrypting: Option<&mut u64>,
) -> Result<usize, Errno> {
    let mut sent = 0;
    for part in parts {
        match secured.send_timed(part.first, part.then, encrypting.as_deref_mut()) {
            Ok(bytes) => sent += bytes,
            // What went before it has gone.
            Err(Errno::AGAIN) if sent != 0 => return Ok(sent),
            Err(error) => return Err(error),
        }
        if secured.has_output() {
            break;
        }
    }
    Ok(sent)
}

/// A connection to a peer over which its session may [go on](crate::carrier::Carrier::resume).
pub struct Connection(pub(crate) Pipe);

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A connected stream socket, over which bytes go as they are.
impl From<OwnedFd> for Connection {
    fn from(socket: OwnedFd) -> Connection {
        Connection(Pipe::Plain(socket))
    }
}

/// A connection under TLS, whose handshake is done.
impl From<Secured> for Connection {
    fn from(secured: Secured) -> Connection {
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
