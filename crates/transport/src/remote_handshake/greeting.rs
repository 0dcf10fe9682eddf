//! The beginning of a listener's handshake: the caller's first message, and the permission to answer it.
//!
//! The first message is the hello, or under TLS the client's first message, behind which the hello follows. To read it
//! costs little; the answer costs memory, and under TLS a key exchange and a signature. Therefore the owner of the
//! listener can hold each handshake before the answer. Invariant: a held handshake reads nothing, and nothing was
//! computed for it.

use super::{OpenError, RemoteHandshake, Role, State};
use crate::handshake::Side;
use crate::stream::Pipe;
use std::net::SocketAddr;
use std::sync::Arc;
use upbeat_core::hello::Record;
use upbeat_core::name::NodeName;

/// A listener's state before it answers the caller's first message.
#[derive(Default)]
pub(super) struct Greeted {
    /// The whole first message in plaintext.
    plain: Option<Record>,
    /// Whether the handshake waits for its owner before the answer.
    pub(super) is_held: bool,
}

impl RemoteHandshake {
    /// Answers a caller whose connection was accepted.
    pub(crate) fn answer(
        us: Side,
        pipe: Pipe,
        name: &NodeName,
        pending: Arc<()>,
        at: SocketAddr,
        now_ms: u64,
    ) -> RemoteHandshake {
        let role = Role::Listener { name: name.clone(), pending };
        RemoteHandshake::new(us, role, State::Greeting, pipe, at, now_ms)
    }

    /// Stops a listener's handshake once the caller's first message is whole, until [`RemoteHandshake::go_on`].
    pub(crate) fn hold(&mut self) {
        self.greeting.is_held = true;
    }

    /// Returns whether the first message is whole and waits for [`RemoteHandshake::go_on`].
    pub(crate) fn is_held(&self) -> bool {
        self.greeting.is_held && matches!(self.state, State::Greeted)
    }

    /// Lets the next step answer the first message.
    pub(crate) fn go_on(&mut self) {
        self.greeting.is_held = false;
    }

    /// Reads the caller's first message, as far as it has come.
    pub(super) fn greet(&mut self, now_ms: u64) -> Result<Option<State>, OpenError> {
        let is_whole = if self.pipe.is_plain() {
            self.greeting.plain = self.receive(now_ms)?;
            self.greeting.plain.is_some()
        } else {
            self.pipe.greet().map_err(|why| self.no_agreement(why))?
        };
        if is_whole {
            self.heard_ms = Some(now_ms);
        }
        Ok(is_whole.then_some(State::Greeted))
    }

    /// Answers the caller's first message.
    pub(super) fn answer_greeting(&mut self) -> Result<State, OpenError> {
        if let Some(record) = self.greeting.plain.take() {
            self.state = State::Hello;
            return self.take(record);
        }
        Ok(State::Agreement)
    }
}
