//! The errors of TLS, in words for the user.

use crate::identity::{Untrusted, from_rustls};
use rustix::io::Errno;
use rustls::{AlertDescription, Error, PeerIncompatible};
use std::fmt;

/// The reason why a connection under TLS was not made, or broke.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsError {
    /// This side does not trust the peer's certificate.
    Untrusted(Untrusted),
    /// The peer does not trust this side's certificate.
    Distrusted(Distrust),
    /// The peer speaks no TLS 1.3, only an older version.
    OldVersion,
    /// The peer speaks plaintext, and this side TLS.
    PlaintextPeer,
    /// The peer speaks TLS, and this side plaintext.
    TlsPeer,
    /// The peer speaks another protocol under TLS.
    OtherProtocol,
    /// The peer sent bytes that are not TLS, are damaged, or came out of order.
    Broken {
        /// The error of the bytes.
        reason: String,
    },
    /// The peer refused for another reason.
    Refused {
        /// The alert that the peer sent.
        alert: String,
    },
    /// The peer's listener ended a slow handshake in favour of other callers. A retry may succeed.
    GaveWay,
    /// The connection ended before the handshake was done.
    Closed,
    /// The connection ended without the peer's notice: its last bytes may be missing.
    Cut,
    /// A system call failed.
    System {
        /// The step that failed.
        act: &'static str,
        /// The error of the system.
        error: Errno,
    },
}

/// The reason why a peer does not trust this side's certificate, as far as it said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Distrust {
    /// The peer's identity does not have the authority that signed the certificate.
    OtherAuthority,
    /// The certificate is not valid at this time, by the peer's clock.
    NotValidNow,
    /// The peer has received no certificate.
    Missing,
    /// The certificate is signed by its own key, has no names, or cannot be used.
    Unusable,
}

impl TlsError {
    /// Returns the error as a caller that reads and writes sees it.
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

/// Returns the meaning of a peer's alert.
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
                "the peer speaks no TLS 1.3, the only version that Upbeat uses: it is no node of \
                 Upbeat, or a device between the hosts changes the data"
            ),
            TlsError::PlaintextPeer => write!(
                f,
                "the peer speaks plaintext, but this node speaks TLS: start both with an identity, \
                 or both with `insecure_plaintext()`"
            ),
            TlsError::TlsPeer => write!(
                f,
                "the peer speaks TLS, but this node speaks plaintext: start both with an identity, \
                 or both with `insecure_plaintext()`"
            ),
            TlsError::OtherProtocol => write!(
                f,
                "the peer does not speak Upbeat under TLS: check that the address belongs to a node \
                 of the same version"
            ),
            TlsError::Broken { reason } => write!(f, "the peer broke a rule of TLS: {reason}"),
            TlsError::Refused { alert } => write!(f, "the peer refused with the TLS alert {alert}"),
            TlsError::GaveWay => write!(
                f,
                "the peer already opens as many connections as it may, and this one was not ready \
                 soon enough: try again"
            ),
            TlsError::Closed => write!(
                f,
                "the peer closed the connection during the TLS handshake: it may have died, be full, \
                 or not be a node"
            ),
            TlsError::Cut => {
                write!(f, "the connection broke: the peer did not announce its end")
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
