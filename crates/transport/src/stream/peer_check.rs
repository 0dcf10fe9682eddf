//! Checks whether the host of a silent peer still answers, while data is under way to it.
//!
//! [`upbeat_core::connection_timeout`] decides what a check means, and this side sets the system's timeout accordingly.
//! Invariant: a side that has sent nothing since the peer acknowledged everything does not check the connection.

use super::pipe::Pipe;
use rustix::net::sockopt::{set_tcp_user_timeout, tcp_user_timeout};
use std::os::fd::AsFd;
use upbeat_core::connection_timeout::{ConnectionTimeout, Sending};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_memory::socket::sending;

/// The state of the checks of one connection.
pub(super) struct PeerCheck {
    patience: ConnectionTimeout,
    /// The slots of our lane that were written when the last check found everything acknowledged.
    calm_at: u64,
    /// Whether the last check found data under way.
    is_pending: bool,
}

impl PeerCheck {
    /// Returns the state for a connection whose peer is lost by the system's own timeout, or None if the system has
    /// no timeout, as for a socket of this host.
    pub(super) fn of(pipe: &Pipe) -> Option<PeerCheck> {
        let timeout_ms = tcp_user_timeout(pipe).ok().filter(|ms| *ms != 0)?;
        Some(PeerCheck {
            patience: ConnectionTimeout::new(timeout_ms),
            calm_at: 0,
            is_pending: false,
        })
    }

    /// Returns in how many nanoseconds the next check is due with `written` slots, if data may be under way.
    pub(super) fn due_in_ns(&self, written: u64, now_ns: u64) -> Option<u64> {
        if self.is_pending {
            Some(self.patience.next_ns().saturating_sub(now_ns))
        } else {
            (written != self.calm_at).then(|| self.patience.interval_ns())
        }
    }

    /// Checks the connection, if a check is due.
    pub(super) fn look(&mut self, pipe: &Pipe, written: u64, now_ns: u64, has_output: bool) {
        if now_ns >= self.patience.next_ns() && (self.is_pending || written != self.calm_at) {
            self.look_now(pipe, written, now_ns, has_output);
        }
    }

    /// Returns whether everything that was written has been acknowledged.
    pub(super) fn is_calm(
        &mut self,
        pipe: &Pipe,
        written: u64,
        now_ns: u64,
        has_output: bool,
    ) -> bool {
        if self.is_pending || written != self.calm_at {
            self.look_now(pipe, written, now_ns, has_output);
        }
        !self.is_pending
    }

    fn look_now(&mut self, pipe: &Pipe, written: u64, now_ns: u64, has_output: bool) {
        // For a connection that has ended the system has no useful answer.
        let Some(seen) = sending(pipe.as_fd()) else { return };
        self.is_pending = has_output || seen.unacked != 0 || seen.unsent != 0;
        if !self.is_pending {
            self.calm_at = written;
        }
        let is_closed = seen.window == 0 && !mutated(Mutant::ClosedWindowOpen);
        let seen = Sending { is_closed, acked: seen.acked, silent_ms: seen.silent_ms };
        if let Some(timeout_ms) = self.patience.look(now_ns, seen) {
            // If this fails, the system ends the connection earlier, as if the host were silent.
            let _ = set_tcp_user_timeout(pipe, timeout_ms);
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    /// The system ends a connection whose window is closed for the timeout, although the peer's host answers its probes.
    #[test]
    fn a_host_whose_program_reads_nothing_is_given_more_time() {
        const TIMEOUT_MS: u32 = 1_000;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _far = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        set_tcp_user_timeout(&near, TIMEOUT_MS).unwrap();
        // The peer's buffer is full, and then that of this side.
        let full = loop {
            if let Err(error) = near.write(&[0; 1 << 16]).map(drop) {
                break error.kind();
            }
        };
        assert_eq!(full, ErrorKind::WouldBlock);
        let pipe = Pipe::Plain(near.into());
        let mut check = PeerCheck::of(&pipe).unwrap();
        let is_extended = (0..200).any(|nth| {
            check.look(&pipe, 1, nth * 100_000_000, true);
            std::thread::sleep(Duration::from_millis(5));
            tcp_user_timeout(&pipe).unwrap() > TIMEOUT_MS
        });
        assert!(is_extended);
    }
}
