//! The first message of a client of TLS, before the server answers it.
//!
//! The answer costs the server a key exchange and a signature; reading the message costs next to nothing. Therefore a
//! listener reads first, and decides then when to answer. Invariant: nothing is computed for bytes that are no whole
//! first message, and of those this side keeps as many as rustls does.

use super::engine::{ALERT, Engine, Room};
use super::error::TlsError;
use super::socket::{Raw, Scratch, receive};
use rustix::io::Errno;
use rustls::server::AcceptedAlert;
use std::os::fd::BorrowedFd;

impl Engine {
    /// Reads a client's first message, as far as it has come. Returns whether it is whole, or was answered.
    pub(super) fn greet(&mut self, socket: BorrowedFd<'_>) -> Result<bool, TlsError> {
        let mut scratch = Scratch::take();
        while self.greeting.as_ref().is_some_and(|greeting| greeting.whole.is_none()) {
            match receive(socket, &mut scratch) {
                Ok(0) | Err(Errno::CONNRESET) => return Err(self.fail(TlsError::Closed)),
                Ok(bytes) => {
                    self.admit(bytes)?;
                    self.take_greeting(socket, &scratch[..bytes])?;
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => {
                    return Err(self.fail(TlsError::System { act: "receiving", error }));
                }
            }
        }
        Ok(true)
    }

    fn take_greeting(&mut self, socket: BorrowedFd<'_>, mut come: &[u8]) -> Result<(), TlsError> {
        self.look(come)?;
        let all = come;
        let Some(greeting) = &mut self.greeting else { return Ok(()) };
        while !come.is_empty() && greeting.whole.is_none() {
            if let Err(error) = greeting.acceptor.read_tls(&mut come) {
                return Err(self.fail(TlsError::Broken { reason: error.to_string() }));
            }
            match greeting.acceptor.accept() {
                Ok(whole) => greeting.whole = whole,
                Err(refused) => {
                    if all.first() == Some(&ALERT) {
                        // The connection knows what an alert says, also in the place of a first message.
                        self.decrypt(all, &mut Room::new(None, &mut []))?;
                    }
                    return Err(self.refuse(socket, refused));
                }
            }
        }
        // A client sends nothing behind its first message before that is answered.
        match come {
            [] => Ok(()),
            _ => Err(self.fail(TlsError::Broken { reason: "data before the answer".into() })),
        }
    }

    /// Answers a client's whole first message, once.
    pub(super) fn answer(&mut self, socket: BorrowedFd<'_>) -> Result<(), TlsError> {
        let Some(greeting) = self.greeting.take() else { return Ok(()) };
        let Some(whole) = greeting.whole else { return Ok(()) };
        match whole.into_connection(greeting.config) {
            Ok(tls) => {
                self.tls = tls.into();
                self.tls.set_buffer_limit(None);
                Ok(())
            }
            Err(refused) => Err(self.refuse(socket, refused)),
        }
    }

    /// Tells a client that its first message is refused.
    fn refuse(
        &mut self,
        socket: BorrowedFd<'_>,
        (error, mut alert): (rustls::Error, AcceptedAlert),
    ) -> TlsError {
        // A client that takes no alert sees the end of the connection.
        let _ = alert.write_all(&mut Raw(socket));
        self.fail(error.into())
    }
}
