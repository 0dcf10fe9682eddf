//! Authorities and identities of tests, and connections under TLS over a socket pair.

#![allow(dead_code)]

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, SanType, date_time_ymd,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::fs::Permissions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};
use upbeat_environment::time::calendar;
use upbeat_transport::identity::Identity;
use upbeat_transport::tls::{HandshakeState, TlsError, TlsStream};

pub(crate) const HOUR: i64 = 3600;
pub(crate) const MONTH: i64 = 30 * 24 * HOUR;

/// A directory for one test, which is removed with this value.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("upbeat-tls-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// Writes a file with this mode.
    pub(crate) fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Loads an identity from these sections.
    pub(crate) fn identity(&self, text: &str) -> Identity {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{}.pem", COUNT.fetch_add(1, Ordering::Relaxed));
        Identity::load(self.write(&name, text, 0o600)).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A certificate with its key.
pub(crate) struct Issued {
    pub(crate) certificate: rcgen::Certificate,
    pub(crate) key: KeyPair,
    /// The certificates that are shown behind this one.
    pub(crate) others: Vec<Vec<u8>>,
}

/// An authority.
pub(crate) struct Authority(pub(crate) CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Authority {
        Authority::of(KeyPair::generate().unwrap())
    }

    fn of(key: KeyPair) -> Authority {
        let mut params = params(&[], -HOUR, MONTH);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the authority of tests");
        Authority(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// Issues a certificate that is valid from `from` seconds before now until `until` seconds after now.
    pub(crate) fn issue(&self, uris: &[&str], from: i64, until: i64) -> Issued {
        self.issue_for(KeyPair::generate().unwrap(), uris, from, until)
    }

    fn issue_for(&self, key: KeyPair, uris: &[&str], from: i64, until: i64) -> Issued {
        let certificate = params(uris, from, until).signed_by(&key, &self.0).unwrap();
        Issued { certificate, key, others: Vec::new() }
    }

    /// Returns its certificate.
    pub(crate) fn der(&self) -> Vec<u8> {
        self.0.der().to_vec()
    }

    /// Returns the text of an identity for these names.
    pub(crate) fn text(&self, uris: &[&str]) -> String {
        self.text_of(self.issue(uris, -HOUR, HOUR))
    }

    /// Returns the text of an identity for these names that is valid for so long that no node warns of its expiry.
    pub(crate) fn lasting(&self, uris: &[&str]) -> String {
        self.text_of(self.issue(uris, -HOUR, MONTH))
    }

    fn text_of(&self, Issued { certificate, key, .. }: Issued) -> String {
        [self.0.pem(), certificate.pem(), key.serialize_pem()].concat()
    }
}

/// Returns a certificate that its own key has signed.
pub(crate) fn self_signed(uris: &[&str]) -> Issued {
    let key = KeyPair::generate().unwrap();
    let certificate = params(uris, -HOUR, HOUR).self_signed(&key).unwrap();
    Issued { certificate, key, others: Vec::new() }
}

fn params(uris: &[&str], from: i64, until: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    let uri = |uri: &&str| SanType::URI((*uri).try_into().unwrap());
    params.subject_alt_names = uris.iter().map(uri).collect();
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    let now = calendar().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let at = |offset: i64| {
        date_time_ymd(1970, 1, 1) + Duration::from_secs(now.checked_add_signed(offset).unwrap())
    };
    (params.not_before, params.not_after) = (at(from), at(until));
    params
}

/// Returns an identity for every node and handle of a program, valid until `until` seconds after now. Its signatures all have
/// one length, so that the lengths of its handshakes do not differ.
pub(crate) fn of_one_length(scratch: &Scratch, program: &str, until: i64) -> Identity {
    let key = || KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let authority = Authority::of(key());
    let issued = authority.issue_for(key(), &[&format!("upbeat://{program}/*")], -HOUR, until);
    scratch.identity(&authority.text_of(issued))
}

/// Returns an identity for every node and handle of a program, by an authority of its own.
pub(crate) fn of_program(program: &str) -> Identity {
    let scratch = Scratch::new();
    scratch.identity(&Authority::new().text(&[&format!("upbeat://{program}/*")]))
}

pub(crate) fn pair() -> (OwnedFd, OwnedFd) {
    socket_pair(SocketType::STREAM)
}

/// Returns a pair of sockets that preserve message boundaries.
pub(crate) fn packets() -> (OwnedFd, OwnedFd) {
    socket_pair(SocketType::SEQPACKET)
}

fn socket_pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).unwrap()
}

/// Returns a pair of sockets with small buffers.
pub(crate) fn tight_pair() -> (OwnedFd, OwnedFd) {
    let (one, other) = pair();
    for socket in [&one, &other] {
        sockopt::set_socket_send_buffer_size(socket, 1).unwrap();
    }
    (one, other)
}

/// Returns a client and a server before their handshake.
pub(crate) fn strangers(client: &Identity, server: &Identity) -> (TlsStream, TlsStream) {
    let (one, other) = pair();
    (TlsStream::client(one, client).unwrap(), TlsStream::server(other, server).unwrap())
}

/// Advances both handshakes until each has ended or waits for the other.
pub(crate) fn shake(
    client: &TlsStream,
    server: &TlsStream,
) -> [Result<HandshakeState, TlsError>; 2] {
    let mut last = [client.handshake(), server.handshake()];
    for _ in 0..100 {
        let next = [client.handshake(), server.handshake()];
        if next == last && !next.contains(&Ok(HandshakeState::WantsWrite)) {
            return next;
        }
        last = next;
    }
    panic!("the handshake does not end: {last:?}");
}

/// Returns two nodes of one program after their handshake: `counter` and a handle.
pub(crate) fn connected() -> (TlsStream, TlsStream) {
    let (scratch, authority) = (Scratch::new(), Authority::new());
    let server = scratch.identity(&authority.text(&["upbeat://demo/counter"]));
    let client = scratch.identity(&authority.text(&["upbeat://demo"]));
    let (client, server) = strangers(&client, &server);
    assert_eq!(shake(&client, &server), [Ok(HandshakeState::Done), Ok(HandshakeState::Done)]);
    (client, server)
}
