//! Why a session under TLS cannot go on, in words for the user.

use crate::identity::{Untrusted, from_rustls};
use rustix::io::Errno;
use rustls::{AlertDescription, Error, PeerIncompatible};
use std::fmt;

/// Why a connection under TLS was not made, or broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsError {
    /// This side does not trust the peer's certificate.
    Untrusted(Untrusted),
    /// The peer does not trust this side's certificate.
    Distrusted(Distrust),
    /// The peer speaks no TLS 1.3, only an older version.
    OldVersion,
    /// The peer speaks plaintext where this side speaks TLS.
    PlaintextPeer,
    /// The peer speaks TLS where this side speaks plaintext.
    TlsPeer,
    /// The peer speaks another protocol under TLS.
    OtherProtocol,
    /// The peer sent what is no TLS, or damaged, or out of its order.
    Broken {
        /// What was wrong.
        reason: String,
    },
    /// The peer refused for a reason that is none of the above.
    Refused {
        /// The alert of TLS that it sent.
        alert: String,
    },
    /// The peer's listener ended the handshake, which took too long while others waited: come again.
    GaveWay,
    /// The connection ended before TLS was agreed on.
    Closed,
    /// The connection ended without the peer's word that it ends it: what it sent last may be missing.
    Cut,
    /// The system refused.
    System {
        /// What was asked of it.
        act: &'static str,
        /// What it said.
        error: Errno,
    },
}

/// Why a peer does not trust this side's certificate, as far as it said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// The peer's identity does not have the authority that signed the certificate.
    OtherAuthority,
    /// By the peer's clock the certificate is not valid now.
    NotValidNow,
    /// The peer has received no certificate.
    Missing,
    /// The certificate is signed by its own key, has no names, or cannot be used.
    Unusable,
}

impl TlsError {
    /// What the error is to a caller that reads and writes.
    pub(super) fn errno(&self) -> Errno {
        match self {
            TlsError::Untrusted(_) | TlsError::Distrusted(_) => Errno::ACCESS,
            TlsError::Closed | TlsError::Cut => Errno::CONNRESET,
            TlsError::System { error, .. } => *error,
            _ => Errno::PROTO,
        }
    }
}

impl From<Error> for TlsError {
    fn from(error: Error) -> TlsError {
        match error {
            Error::InvalidCertificate(error) => TlsError::Untrusted(from_rustls(&error)),
            Error::NoCertificatesPresented => TlsError::Untrusted(Untrusted::Missing),
            Error::AlertReceived(alert) => alerted(alert),
            Error::NoApplicationProtocol => TlsError::OtherProtocol,
            Error::PeerIncompatible(
                PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::Tls13RequiredForQuic
                | PeerIncompatible::SupportedVersionsExtensionRequired
                | PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
            ) => TlsError::OldVersion,
            error => TlsError::Broken { reason: error.to_string() },
        }
    }
}

/// What a peer means by an alert.
fn alerted(alert: AlertDescription) -> TlsError {
    match alert {
        AlertDescription::UnknownCA => TlsError::Distrusted(Distrust::OtherAuthority),
        AlertDescription::CertificateExpired => TlsError::Distrusted(Distrust::NotValidNow),
        AlertDescription::CertificateRequired => TlsError::Distrusted(Distrust::Missing),
        AlertDescription::CertificateUnknown
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied => TlsError::Distrusted(Distrust::Unusable),
        AlertDescription::ProtocolVersion => TlsError::OldVersion,
        AlertDescription::InsufficientSecurity => TlsError::PlaintextPeer,
        AlertDescription::NoApplicationProtocol => TlsError::OtherProtocol,
        AlertDescription::UserCanceled => TlsError::GaveWay,
        alert => TlsError::Refused { alert: format!("{alert:?}") },
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::Untrusted(error) => error.fmt(f),
            TlsError::Distrusted(distrust) => distrust.fmt(f),
            TlsError::OldVersion => write!(
                f,
                "the peer speaks no TLS 1.3, the one version that is used here: it is no node of \
                 Upbeat, or something between changes what is sent"
            ),
            TlsError::PlaintextPeer => write!(
                f,
                "the peer speaks plaintext, and this node TLS: start both with an identity, or both \
                 with `insecure_plaintext()`"
            ),
            TlsError::TlsPeer => write!(
                f,
                "the peer speaks TLS, and this node plaintext: start both with an identity, or both \
                 with `insecure_plaintext()`"
            ),
            TlsError::OtherProtocol => write!(
                f,
                "the peer does not speak Upbeat under TLS: see that the address is a node's, and of \
                 the same version"
            ),
            TlsError::Broken { reason } => write!(f, "the peer broke a rule of TLS: {reason}"),
            TlsError::Refused { alert } => write!(f, "the peer refused with the TLS alert {alert}"),
            TlsError::GaveWay => write!(
                f,
                "the peer has as many connections being opened as it may, and this one was not ready \
                 soon enough: try again"
            ),
            TlsError::Closed => write!(
                f,
                "the peer closed the connection while TLS was agreed on: it may have died, be full, \
                 or be no node"
            ),
            TlsError::Cut => {
                write!(f, "the connection was cut: the peer has not said that it ends it")
            }
            TlsError::System { act, error } => write!(f, "{act} failed: {error}"),
        }
    }
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the peer does not trust this node's certificate: ")?;
        f.write_str(match self {
            Distrust::OtherAuthority => {
                "it is signed by an authority that is not in the peer's identity; issue both \
                 identities by one authority"
            }
            Distrust::NotValidNow => {
                "it is expired, or not valid yet, by the peer's clock; issue it anew with `upbeat \
                 keys issue --force`, and see that the clocks of both hosts are right"
            }
            Distrust::Missing => "it has received none; start this node with an identity",
            Distrust::Unusable => {
                "it is signed by its own key, has no names, or cannot be used; issue the identity \
                 with `upbeat keys issue`"
            }
        })
    }
}

impl std::error::Error for TlsError {}
