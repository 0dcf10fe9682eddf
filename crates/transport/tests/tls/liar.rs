//! A peer that trusts every certificate and shows an arbitrary one, made of rustls only.

#![allow(dead_code, reason = "no test program uses all of it")]

use crate::secure::Issued;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use upbeat_transport::tls::{HandshakeState, TlsError, TlsStream};

/// A peer that trusts every certificate and shows an arbitrary one, made of rustls only.
pub(crate) struct Liar {
    tls: rustls::Connection,
    socket: std::os::unix::net::UnixStream,
}

#[derive(Debug)]
struct Gullible;

mod gullible {
    use super::Gullible;
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{DigitallySignedStruct, Error, SignatureScheme};

    impl ServerCertVerifier for Gullible {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ECDSA_NISTP256_SHA256]
        }
    }
}

fn shown(issued: &Issued) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let key = PrivateKeyDer::try_from(issued.key.serialize_der()).unwrap();
    let own = issued.certificate.der().clone();
    let others = issued.others.iter().cloned().map(CertificateDer::from);
    (std::iter::once(own).chain(others).collect(), key)
}

fn ring() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Liar {
    pub(crate) fn client(socket: OwnedFd, issued: Option<&Issued>, protocols: &[&[u8]]) -> Liar {
        Liar::client_in_records(socket, issued, protocols, None)
    }

    /// Returns a client whose records have up to so many bytes.
    pub(crate) fn client_in_records(
        socket: OwnedFd,
        issued: Option<&Issued>,
        protocols: &[&[u8]],
        record: Option<usize>,
    ) -> Liar {
        let config = rustls::ClientConfig::builder_with_provider(ring())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Gullible));
        let mut config = match issued.map(shown) {
            Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        config.max_fragment_size = record;
        let name = "node.invalid".try_into().unwrap();
        let tls = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        Liar { tls: tls.into(), socket: socket.into() }
    }

    pub(crate) fn server(socket: OwnedFd, issued: &Issued) -> Liar {
        let (chain, key) = shown(issued);
        let config = rustls::ServerConfig::builder_with_provider(ring())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let tls = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        Liar { tls: tls.into(), socket: socket.into() }
    }

    /// Continues the handshake as long as it can, and sends data afterwards.
    pub(crate) fn step(&mut self) {
        for _ in 0..8 {
            while self.tls.wants_write() && self.tls.write_tls(&mut self.socket).is_ok() {}
            if self.tls.read_tls(&mut self.socket).is_err() {
                return;
            }
            let _ = self.tls.process_new_packets();
        }
    }
}

/// Returns the result of our side against a liar.
pub(crate) fn against(ours: &TlsStream, mut liar: Liar) -> Result<HandshakeState, TlsError> {
    let mut shaken = Ok(HandshakeState::WantsRead);
    for _ in 0..8 {
        shaken = ours.handshake();
        if !matches!(shaken, Ok(HandshakeState::WantsRead | HandshakeState::WantsWrite)) {
            break;
        }
        liar.step();
    }
    shaken
}
