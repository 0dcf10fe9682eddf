//! Verifies certificates: the program's authority has signed them, they are valid now, and they have names.
//!
//! The names are compared with the wanted peer after the handshake. Invariant: a certificate passes only if its whole
//! chain is verified, and rustls learns of every failure.

use super::certificate::Certificate;
use super::error::Untrusted;
use super::moment::Moment;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    PeerIncompatible, SignatureScheme,
};
use std::sync::Arc;
use webpki::{EndEntityCert, Error as ChainError, KeyUsage};

/// The most certificates that a peer shows: its own, and that of its issuer. Each other one would cost its reader
/// signature checks before anything is known of the peer.
const CERTIFICATES_MAX: usize = 2;

/// The authorities of a program, and the algorithms that may be used.
#[derive(Debug)]
pub(super) struct Trust {
    anchors: Vec<TrustAnchor<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The role of a peer in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The peer has connected.
    Client,
    /// The peer has accepted the connection.
    Server,
}

impl Trust {
    /// Returns the trust in certificates that these authorities have signed.
    pub(super) fn new(
        authorities: &[CertificateDer<'_>],
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Result<Trust, String> {
        let anchor = |der| match webpki::anchor_from_trusted_cert(der) {
            Ok(anchor) => Ok(anchor.to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let anchors = authorities.iter().map(anchor).collect::<Result<_, _>>()?;
        Ok(Trust { anchors, algorithms })
    }

    /// Verifies that an authority of the program has signed a certificate, and that the certificate is valid now.
    pub(super) fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
        role: Role,
    ) -> Result<(), Untrusted> {
        let malformed = |error: &dyn ToString| Untrusted::Malformed { reason: error.to_string() };
        let count = 1 + others.len();
        if count > CERTIFICATES_MAX {
            let reason =
                format!("it comes with {count} certificates, and {CERTIFICATES_MAX} are the most");
            return Err(Untrusted::Malformed { reason });
        }
        let parsed = EndEntityCert::try_from(leaf).map_err(|error| malformed(&error))?;
        let usage = match role {
            Role::Client => KeyUsage::client_auth(),
            Role::Server => KeyUsage::server_auth(),
        };
        let algorithms = self.algorithms.all;
        let path =
            parsed.verify_for_usage(algorithms, &self.anchors, others, now, usage, None, None);
        match path {
            Ok(_) => {}
            Err(ChainError::CertExpired { not_after, .. }) => {
                return Err(Untrusted::Expired { at: Moment::from_secs(not_after.as_secs()) });
            }
            Err(ChainError::CertNotValidYet { not_before, .. }) => {
                let from = Moment::from_secs(not_before.as_secs());
                return Err(Untrusted::NotYetValid { from });
            }
            Err(
                ChainError::UnknownIssuer
                | ChainError::CaUsedAsEndEntity
                | ChainError::InvalidSignatureForPublicKey,
            ) if parsed.issuer() == parsed.subject() => return Err(Untrusted::SelfSigned),
            // This error also means that an authority with the same name has another key.
            Err(ChainError::UnknownIssuer | ChainError::InvalidSignatureForPublicKey) => {
                return Err(Untrusted::OtherAuthority);
            }
            Err(error) => return Err(malformed(&error)),
        }
        let certificate = Certificate::parse(leaf).map_err(|reason| malformed(&reason))?;
        certificate.names().map(drop).map_err(|error| malformed(error))
    }

    fn verify_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.verify(leaf, others, now, Role::Server);
        verified.map(|()| ServerCertVerified::assertion()).map_err(|error| into_rustls(error, now))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOfferedOrEnabled.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Trust {
    // A node has one certificate, so a peer needs no hint about the trusted authorities.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.verify(leaf, others, now, Role::Client);
        verified.map(|()| ClientCertVerified::assertion()).map_err(|error| into_rustls(error, now))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOfferedOrEnabled.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Translates an error for rustls, which chooses the alert that the peer gets.
fn into_rustls(error: Untrusted, now: UnixTime) -> Error {
    let time = |moment: Moment| UnixTime::since_unix_epoch(moment.duration());
    Error::InvalidCertificate(match error {
        Untrusted::OtherAuthority => CertificateError::UnknownIssuer,
        Untrusted::Expired { at } => {
            CertificateError::ExpiredContext { time: now, not_after: time(at) }
        }
        Untrusted::NotYetValid { from } => {
            CertificateError::NotValidYetContext { time: now, not_before: time(from) }
        }
        error => CertificateError::Other(OtherError(Arc::new(error))),
    })
}

/// Translates an error back from rustls.
pub(crate) fn from_rustls(error: &CertificateError) -> Untrusted {
    let moment = |time: &UnixTime| Moment::from_secs(time.as_secs());
    match error {
        CertificateError::UnknownIssuer => Untrusted::OtherAuthority,
        CertificateError::ExpiredContext { not_after, .. } => {
            Untrusted::Expired { at: moment(not_after) }
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            Untrusted::NotYetValid { from: moment(not_before) }
        }
        CertificateError::Other(OtherError(error)) if error.is::<Untrusted>() => {
            error.downcast_ref().cloned().unwrap_or(Untrusted::OtherAuthority)
        }
        error => Untrusted::Malformed { reason: error.to_string() },
    }
}
