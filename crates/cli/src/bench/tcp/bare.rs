//! Bare connections over TCP, plain or under rustls: the cost of moving bytes.

use crate::bench::error::BenchError;
use crate::bench::hosts::{Policy, refused};
use crate::bench::message::add_up;
use crate::bench::socket::repeat;
use crate::bench::timing::{Round, Work};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::hint::black_box;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The name in the certificate.
const NAME: &str = "bench.invalid";
/// The largest number of bytes in a read or write of ciphertext or of packed messages.
const AT_ONCE: usize = 64 << 10;
/// The size of the answer to a burst.
const ANSWER: usize = 8;

/// The direction and packing of messages on a bare connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// Messages in both directions, one after another.
    RoundTrip,
    /// Messages in one direction, with an answer after each burst.
    OneWay,
    /// Messages in one direction, with many messages in a write.
    Packed,
}

/// One end of a connection.
pub(super) struct Connection {
    socket: OwnedFd,
    tls: Option<Box<rustls::Connection>>,
    /// The buffer for received plaintext.
    buffer: Vec<u8>,
    ciphertext: Ciphertext,
}

impl Connection {
    /// Creates an end of plain TCP.
    pub(super) fn plain(socket: OwnedFd) -> Connection {
        let ciphertext = Ciphertext { bytes: vec![0; AT_ONCE], part: 0..0 };
        Connection { socket, tls: None, buffer: Vec::new(), ciphertext }
    }

    /// Creates the end under TLS that has a certificate, and returns the certificate.
    pub(super) fn server(socket: OwnedFd) -> Result<(Connection, Vec<u8>), BenchError> {
        let failed = "making a certificate";
        let made =
            rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(refused(failed))?;
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der());
        let config = ServerConfig::builder().with_no_client_auth();
        let chain = vec![certificate.clone()];
        let mut config = config
            .with_single_cert(chain, key.map_err(refused(failed))?)
            .map_err(refused("TLS"))?;
        config.send_tls13_tickets = 0;
        let tls = ServerConnection::new(Arc::new(config)).map_err(refused("TLS"))?;
        Ok((Connection::secured(socket, tls.into()), certificate.to_vec()))
    }

    /// Creates the end under TLS that trusts this certificate.
    pub(super) fn client(socket: OwnedFd, certificate: Vec<u8>) -> Result<Connection, BenchError> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(certificate)).map_err(refused("TLS"))?;
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(NAME).map_err(refused("TLS"))?;
        let tls = ClientConnection::new(Arc::new(config), name).map_err(refused("TLS"))?;
        Ok(Connection::secured(socket, tls.into()))
    }

    fn secured(socket: OwnedFd, mut tls: rustls::Connection) -> Connection {
        tls.set_buffer_limit(None);
        Connection { tls: Some(Box::new(tls)), ..Connection::plain(socket) }
    }

    /// Does the first process's side of a round.
    pub(super) fn ask(
        &mut self,
        traffic: Traffic,
        message: &[u8],
        policy: Policy,
        work: Work,
    ) -> Result<Round, BenchError> {
        self.shake(policy)?;
        let mut packed = vec![0; AT_ONCE];
        match traffic {
            Traffic::RoundTrip => work.try_run(|| {
                self.send(message, policy)?;
                self.receive(message.len(), policy)
            }),
            Traffic::OneWay => work.try_bursts(|messages| {
                (0..messages).try_for_each(|_| self.send(message, policy))?;
                self.receive(ANSWER, policy)
            }),
            Traffic::Packed => work.try_bursts(|messages| {
                let mut left = messages as usize;
                while left != 0 {
                    let some = left.min(AT_ONCE / message.len());
                    let bytes = &mut packed[..some * message.len()];
                    for to in bytes.chunks_exact_mut(message.len()) {
                        to.copy_from_slice(black_box(message));
                    }
                    self.send(bytes, policy)?;
                    left -= some;
                }
                self.receive(ANSWER, policy)
            }),
        }
    }

    /// Does the other side, which receives messages of the given size.
    pub(super) fn answer(
        &mut self,
        traffic: Traffic,
        bytes: usize,
        policy: Policy,
        work: Work,
    ) -> Result<(), BenchError> {
        self.shake(policy)?;
        if traffic == Traffic::RoundTrip {
            return repeat(work, || {
                self.receive(bytes, policy)?;
                let message = std::mem::take(&mut self.buffer);
                let sent = self.send(&message[..bytes], policy);
                self.buffer = message;
                sent
            });
        }
        let most = if traffic == Traffic::Packed { AT_ONCE } else { bytes };
        for messages in work.laps() {
            let mut left = messages as usize * bytes;
            while left != 0 {
                let some = left.min(most);
                self.receive(some, policy)?;
                black_box(add_up(0, &self.buffer[..some]));
                left -= some;
            }
            self.send(&[7; ANSWER], policy)?;
        }
        Ok(())
    }

    /// Does the handshake of TLS, if it was not done yet.
    fn shake(&mut self, policy: Policy) -> Result<(), BenchError> {
        let mut socket = Socket { socket: &self.socket, policy };
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.is_handshaking() || tls.wants_write() {
            match tls.complete_io(&mut socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(refused("a handshake of TLS")(error)),
            }
        }
        Ok(())
    }

    /// Sends all of these bytes.
    fn send(&mut self, bytes: &[u8], policy: Policy) -> Result<(), BenchError> {
        let mut socket = Socket { socket: &self.socket, policy };
        let Some(tls) = &mut self.tls else {
            return socket.write_whole(bytes).map_err(refused("send"));
        };
        for some in bytes.chunks(AT_ONCE) {
            tls.writer().write_all(some).map_err(refused("encrypting"))?;
            while tls.wants_write() {
                match tls.write_tls(&mut socket) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(refused("send")(error)),
                }
            }
        }
        Ok(())
    }

    /// Receives exactly `bytes` bytes into the buffer.
    fn receive(&mut self, bytes: usize, policy: Policy) -> Result<(), BenchError> {
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        let mut socket = Socket { socket: &self.socket, policy };
        let mut have = 0;
        while have < bytes {
            let to = &mut self.buffer[have..bytes];
            let read = match &mut self.tls {
                None => socket.read(to),
                Some(tls) => receive_tls(tls, &mut socket, &mut self.ciphertext, to),
            };
            match read {
                Ok(0) => return Err(BenchError::PeerGone),
                Ok(more) => have += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(refused("recv")(error)),
            }
        }
        Ok(())
    }
}

/// Ciphertext that was received. `part` is the range of `bytes` that rustls has not read yet.
struct Ciphertext {
    bytes: Vec<u8>,
    part: Range<usize>,
}

/// Receives some bytes of plaintext.
fn receive_tls(
    tls: &mut rustls::Connection,
    socket: &mut Socket<'_>,
    ciphertext: &mut Ciphertext,
    to: &mut [u8],
) -> io::Result<usize> {
    loop {
        match tls.reader().read(to) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read,
        }
        let Ciphertext { bytes, part } = ciphertext;
        if part.start == part.end {
            *part = 0..socket.read(bytes)?;
        }
        let mut come = &bytes[part.clone()];
        if tls.read_tls(&mut come)? == 0 {
            return Ok(0);
        }
        part.start = part.end - come.len();
        tls.process_new_packets().map_err(io::Error::other)?;
    }
}

/// A socket that blocks if nodes sleep, and does not block if they poll.
struct Socket<'a> {
    socket: &'a OwnedFd,
    policy: Policy,
}

impl Socket<'_> {
    fn blocks(&self) -> bool {
        self.policy == Policy::Sleeping
    }

    fn write_whole(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(some) => bytes = &bytes[some..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Read for Socket<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let flags = if self.blocks() { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        again(|| rustix::net::recv(self.socket, &mut *to, flags).map(|(bytes, _)| bytes))
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wait = if self.blocks() { SendFlags::empty() } else { SendFlags::DONTWAIT };
        again(|| rustix::net::send(self.socket, bytes, wait | SendFlags::NOSIGNAL))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn again(mut act: impl FnMut() -> Result<usize, Errno>) -> io::Result<usize> {
    loop {
        match act() {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}
