//! A connection whose bytes pass through the test.

use super::common::secure;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::OwnedFd;
use upbeat_transport::carrier::Connection;
use upbeat_transport::tls::{HandshakeState, TlsStream};

/// A relay that passes a limited number of bytes each way.
pub(crate) struct Wire {
    sockets: [OwnedFd; 2],
    /// The bytes that may still go from each side.
    left: [usize; 2],
    /// The bytes from each side that the other side's socket did not take.
    waiting: [Vec<u8>; 2],
}

impl Wire {
    /// Returns a wire, and the connections of both sides.
    pub(crate) fn new(budget: [usize; 2], tls: bool) -> (Wire, [Connection; 2]) {
        let ((one, first), (other, second)) = (secure::pair(), secure::pair());
        let left = [usize::MAX; 2];
        let mut wire = Wire { sockets: [first, second], left, waiting: Default::default() };
        let connections = match tls {
            false => [one.into(), other.into()],
            true => secured(one, other, &mut wire),
        };
        wire.left = budget;
        (wire, connections)
    }

    /// Passes on the bytes that have come. Returns whether one direction has used its budget.
    pub(crate) fn forward(&mut self) -> bool {
        let mut bytes = [0; 16 << 10];
        for from in 0..2 {
            while self.waiting[from].is_empty() && self.left[from] != 0 {
                let most = self.left[from].min(bytes.len());
                let flags = RecvFlags::DONTWAIT;
                match rustix::net::recv(&self.sockets[from], &mut bytes[..most], flags) {
                    Ok((0, _)) | Err(_) => break,
                    Ok((came, _)) => {
                        self.left[from] -= came;
                        self.waiting[from].extend_from_slice(&bytes[..came]);
                        self.flush(from);
                    }
                }
            }
            self.flush(from);
        }
        (0..2).any(|from| self.left[from] == 0 && self.waiting[from].is_empty())
    }

    fn flush(&mut self, from: usize) {
        let to = 1 - from;
        while !self.waiting[from].is_empty() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.sockets[to], &self.waiting[from], flags) {
                Ok(bytes) => drop(self.waiting[from].drain(..bytes)),
                Err(Errno::AGAIN) => return,
                // This side is gone.
                Err(_) => self.waiting[from].clear(),
            }
        }
    }

    /// Sends bytes to a side in the name of the other.
    pub(crate) fn say(&mut self, to: usize, bytes: &[u8]) {
        self.waiting[1 - to].extend_from_slice(bytes);
        self.flush(1 - to);
    }
}

fn secured(one: OwnedFd, other: OwnedFd, wire: &mut Wire) -> [Connection; 2] {
    let identity = secure::of_program("test");
    let client = TlsStream::client(one, &identity).unwrap();
    let server = TlsStream::server(other, &identity).unwrap();
    for _ in 0..20 {
        let shaken = [client.handshake().unwrap(), server.handshake().unwrap()];
        wire.forward();
        if shaken == [HandshakeState::Done; 2] {
            return [client.into(), server.into()];
        }
    }
    panic!("the TLS handshake failed");
}

/// A generator of numbers that follow from a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % bound.max(1)
    }
}
