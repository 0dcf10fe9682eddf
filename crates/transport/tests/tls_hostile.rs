//! A TLS connection that is cut, or damaged, at any byte.

mod secure;

use rustix::io::Errno;
use secure::{Authority, Scratch, pair};
use std::os::fd::OwnedFd;
use upbeat_transport::identity::Identity;
use upbeat_transport::tls::{HandshakeState, TlsError, TlsStream};

const WORDS: &[u8] = b"what the other side is to know";

/// A relay between two sides, which passes bytes on and changes one of them.
struct Relay {
    from: OwnedFd,
    to: OwnedFd,
    /// The bytes that have come, as they were sent.
    log: Vec<u8>,
    /// The position of the fault, and the change of that byte; None cuts the connection.
    fault: Option<(usize, Option<u8>)>,
    cut: bool,
}

impl Relay {
    fn step(&mut self) {
        let mut bytes = vec![0; 64 << 10];
        while !self.cut {
            let came = match rustix::io::read(&self.from, &mut bytes[..]) {
                Ok(0) | Err(_) => return,
                Ok(came) => came,
            };
            let before = self.log.len();
            self.log.extend_from_slice(&bytes[..came]);
            let mut pass = came;
            let hit = self.fault.filter(|(at, _)| (before..before + came).contains(at));
            match hit {
                Some((at, Some(mask))) => bytes[at - before] ^= mask,
                Some((at, None)) => {
                    pass = at - before;
                    self.cut = true;
                }
                None => {}
            }
            let _ = rustix::io::write(&self.to, &bytes[..pass]);
        }
        let _ = rustix::net::shutdown(&self.to, rustix::net::Shutdown::Both);
    }
}

/// One side, which does the handshake, sends its words, and receives those of the other side.
struct Side {
    tls: TlsStream,
    done: bool,
    heard: Vec<u8>,
    end: Option<Errno>,
    error: Option<TlsError>,
}

impl Side {
    fn new(tls: TlsStream) -> Side {
        Side { tls, done: false, heard: Vec::new(), end: None, error: None }
    }

    fn has_ended(&self) -> bool {
        self.error.is_some() || self.end.is_some() || self.heard.len() == WORDS.len()
    }

    fn step(&mut self) {
        if !self.done {
            match self.tls.handshake() {
                Ok(HandshakeState::Done) => {
                    self.done = true;
                    let _ = self.tls.send(WORDS, None);
                }
                Ok(_) => return,
                Err(error) => {
                    self.error = Some(error);
                    return;
                }
            }
        }
        let mut came = [0; 64];
        match self.tls.receive(None, &mut came) {
            Ok(0) => self.end = Some(Errno::SUCCESS),
            Ok(bytes) => self.heard.extend_from_slice(&came[..bytes]),
            Err(Errno::AGAIN) => {}
            Err(error) => self.end = Some(error),
        }
    }
}

trait Success {
    const SUCCESS: Errno;
}

impl Success for Errno {
    /// The peer's notice that it ends the connection, which no side of these tests sends.
    const SUCCESS: Errno = Errno::ALREADY;
}

/// Runs a conversation with these faults on the way to the server and to the client. Returns both sides and the bytes
/// that each has sent.
fn talk(
    identity: &Identity,
    faults: [Option<(usize, Option<u8>)>; 2],
) -> ([Side; 2], [Vec<u8>; 2]) {
    let ((near, near_end), (far, far_end)) = (pair(), pair());
    let client = TlsStream::client(near, identity).unwrap();
    let server = TlsStream::server(far, identity).unwrap();
    let mut sides = [client, server].map(Side::new);
    let copy = |socket: &OwnedFd| socket.try_clone().unwrap();
    let relay = |from, to, fault| Relay { from, to, log: Vec::new(), fault, cut: false };
    let mut relays =
        [relay(copy(&near_end), copy(&far_end), faults[0]), relay(far_end, near_end, faults[1])];
    for _ in 0..12 {
        sides.iter_mut().filter(|side| !side.has_ended()).for_each(Side::step);
        relays.iter_mut().for_each(Relay::step);
        // When one side gives up, the other side sees it.
        for (side, relay) in sides.iter().zip(&relays) {
            if side.error.is_some() || side.end.is_some() {
                let _ = rustix::net::shutdown(&relay.to, rustix::net::Shutdown::Both);
            }
        }
    }
    (sides, relays.map(|relay| relay.log))
}

/// Returns the distance between two faults: 1 tries every byte.
fn step() -> usize {
    std::env::var("UPBEAT_TLS_STEP").ok().and_then(|text| text.parse().ok()).unwrap_or(11)
}

#[test]
fn data_cut_or_damaged_at_any_byte_is_never_accepted() {
    let (scratch, authority) = (Scratch::new(), Authority::new());
    let identity = scratch.identity(&authority.text(&["upbeat://demo/counter"]));
    let (sides, sent) = talk(&identity, [None, None]);
    assert!(sides.iter().all(|side| side.heard == WORDS), "without a fault all words are received");
    assert!(sent.iter().all(|bytes| bytes.len() > 500));
    let mut ended = 0;
    for (direction, bytes) in sent.iter().map(Vec::len).enumerate() {
        for at in (0..bytes).step_by(step()) {
            for fault in [None, Some(0x01), Some(0x80)] {
                let mut faults = [None, None];
                faults[direction] = Some((at, fault));
                let (sides, sent) = talk(&identity, faults);
                for side in &sides {
                    let what = format!("direction {direction}, byte {at}, {fault:?}");
                    assert!(side.heard.is_empty() || side.heard == WORDS, "{what}");
                    assert_ne!(
                        side.end,
                        Some(Errno::SUCCESS),
                        "{what}: no side ended the connection"
                    );
                    ended += usize::from(side.error.is_some() || side.end.is_some());
                }
                // The side that the fault was on the way to has not received everything.
                let hit = &sides[1 - direction];
                if at >= sent[direction].len() {
                    // Signatures differ in length: this time the fault was behind the end.
                    continue;
                }
                assert!(
                    hit.heard.is_empty() || fault.is_some() && is_constant(at, &sent[direction]),
                    "direction {direction}, byte {at}, {fault:?}: {:?}",
                    hit.error
                );
            }
        }
    }
    assert!(ended > 100, "{ended}");
}

/// Returns whether a change of this byte may change nothing: the outer kind and version of a record, in place of
/// which TLS 1.3 authenticates constants.
fn is_constant(at: usize, sent: &[u8]) -> bool {
    let mut start = 0;
    while let Some(len) = sent.get(start + 3..start + 5) {
        if (start..start + 3).contains(&at) {
            return true;
        }
        start += 5 + usize::from(u16::from_be_bytes([len[0], len[1]]));
    }
    false
}
