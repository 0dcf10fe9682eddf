//! The identity of a node towards nodes of other hosts: a certificate of the program's own authority, and its key.
//!
//! An identity is one PEM file, which `upbeat keys issue` makes. The file holds the certificate of the program's
//! private authority (or several certificates, while one replaces another), the node's certificate, which the
//! authority has signed, further certificates between the two if there are any, and the node's private key. A
//! certificate that names itself as its issuer is an authority's; the first of the others is the node's. Only the
//! owner may have permissions on the file.
//!
//! The node's certificate names the program and the node in URIs: `upbeat://demo/counter`, `upbeat://demo/worker/*`
//! for all names below `worker/`, `upbeat://demo/*` for all names, or `upbeat://demo` for handles only, which have no
//! name. A handle may use any certificate of its program.
//!
//! Authorities publish no lists of revoked certificates: certificates are short-lived, and [`Identity::reload`]
//! replaces them while the program runs. Invariant: an [`Identity`] was verified with its own authorities when it was
//! loaded, so peers of the same authority trust it too.

mod moment;

mod names;

mod error;

mod bundle;

mod certificate;

mod trust;

pub use bundle::Bundle;
pub use certificate::Certificate;
pub use error::{IdentityError, IdentityFlaw, Untrusted};
pub use moment::Moment;
pub use names::{Names, NamesError};

pub(crate) use trust::from_rustls;

use bundle::Stamp;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, InconsistentKeys, ServerConfig, version};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use trust::{Role, Trust};
use upbeat_core::name::ProgramName;
use upbeat_environment::time::calendar;

/// The protocol under TLS, as both sides name it in the handshake.
pub(crate) const PROTOCOL: &[u8] = b"upbeat/1";

/// The certificate that a node shows to nodes of other hosts, and the authorities that it trusts.
///
/// Clones share one identity: a reload of one clone replaces the certificates of all.
///
/// ```no_run
/// use upbeat_transport::identity::Identity;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let identity = Identity::load("counter.pem")?;
/// assert!(identity.names().covers(Some(&"counter".parse()?)));
/// // Later, perhaps every minute: new connections use the certificate that is in the file then.
/// if identity.reload()? {
///     println!("valid for {:?} more", identity.expires_in(std::time::SystemTime::now()));
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Identity {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    program: ProgramName,
    loaded: RwLock<Arc<Loaded>>,
}

/// The contents of an identity's file at one time.
pub(crate) struct Loaded {
    /// The configuration of the side that connects.
    pub(crate) client: Arc<ClientConfig>,
    /// The configuration of the side that accepts the connection.
    pub(crate) server: Arc<ServerConfig>,
    names: Names,
    not_after: Moment,
    stamp: Stamp,
}

impl Identity {
    /// Loads an identity from its file.
    ///
    /// # Errors
    /// If the file cannot be read, if other users have permissions on it, if it is incomplete or inconsistent, or if
    /// its certificate is not valid at this time.
    pub fn load(path: impl Into<PathBuf>) -> Result<Identity, IdentityError> {
        let path = path.into();
        let loaded = match Loaded::read(&path) {
            Ok(loaded) => loaded,
            Err(flaw) => return Err(IdentityError { path, flaw }),
        };
        let program = loaded.names.program().clone();
        Ok(Identity { shared: Arc::new(Shared { path, program, loaded: share(loaded) }) })
    }

    /// Loads the file again if it was replaced. New connections use its new contents. Returns whether the file was
    /// replaced.
    ///
    /// # Errors
    /// The errors of [`Identity::load`], and an error if the file belongs to another program now. After an error the
    /// identity is unchanged.
    pub fn reload(&self) -> Result<bool, IdentityError> {
        let Shared { path, program, .. } = &*self.shared;
        let failed = |flaw| IdentityError { path: path.clone(), flaw };
        if Stamp::of(path).map_err(failed)? == self.current().stamp {
            return Ok(false);
        }
        let loaded = Loaded::read(path).map_err(failed)?;
        let theirs = loaded.names.program();
        if theirs != program {
            let (ours, theirs) = (program.clone(), theirs.clone());
            return Err(failed(IdentityFlaw::OtherProgram { ours, theirs }));
        }
        let mut current = self.shared.loaded.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(loaded);
        Ok(true)
    }

    /// Returns whether both were loaded from the same path, and from the same version of the file there.
    #[must_use]
    pub fn is_equal(&self, other: &Identity) -> bool {
        self.path() == other.path() && self.current().stamp == other.current().stamp
    }

    /// Returns the path of the identity's file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Returns the program that the certificate names.
    pub fn program(&self) -> &ProgramName {
        &self.shared.program
    }

    /// Returns the names in the certificate.
    pub fn names(&self) -> Names {
        self.current().names.clone()
    }

    /// Returns for how long the certificate is still valid, or zero if it has expired.
    pub fn expires_in(&self, now: SystemTime) -> Duration {
        self.current().not_after.since(now)
    }

    pub(crate) fn current(&self) -> Arc<Loaded> {
        self.shared.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names();
        f.debug_struct("Identity").field("path", &self.path()).field("names", &names).finish()
    }
}

fn share(loaded: Loaded) -> RwLock<Arc<Loaded>> {
    RwLock::new(Arc::new(loaded))
}

impl Loaded {
    fn read(path: &Path) -> Result<Loaded, IdentityFlaw> {
        let bundle = Bundle::read(path)?;
        let stamp = bundle.stamp();
        let (mut authorities, mut chain) = (Vec::new(), Vec::new());
        let mut not_after = Moment::from_secs(u64::MAX);
        let mut names = None;
        for der in bundle.certificates {
            let certificate =
                Certificate::parse(&der).map_err(|reason| IdentityFlaw::Certificate { reason })?;
            if certificate.is_authority() {
                authorities.push(der);
                continue;
            }
            not_after = not_after.min(certificate.valid().end);
            if chain.is_empty() {
                names = Some(
                    certificate
                        .names()
                        .map_err(|error| IdentityFlaw::Names(error.clone()))?
                        .clone(),
                );
            }
            chain.push(der);
        }
        if authorities.is_empty() {
            return Err(IdentityFlaw::NoAuthority);
        }
        let names = names.ok_or(IdentityFlaw::NoCertificate)?;
        let [key] = <[PrivateKeyDer<'_>; 1]>::try_from(bundle.keys)
            .map_err(|keys| IdentityFlaw::Keys { count: keys.len() })?;
        let provider = Arc::new(provider());
        let trust = Trust::new(&authorities, provider.signature_verification_algorithms)
            .map_err(|reason| IdentityFlaw::Certificate { reason })?;
        for role in [Role::Client, Role::Server] {
            let verified = trust.verify(&chain[0], &chain[1..], Calendar::now(), role);
            verified.map_err(IdentityFlaw::Untrusted)?;
        }
        let (client, server) = configurations(provider, trust, &chain, &key)?;
        Ok(Loaded { client: Arc::new(client), server: Arc::new(server), names, not_after, stamp })
    }
}

/// The clock by which certificates are valid.
#[derive(Debug)]
struct Calendar;

impl Calendar {
    fn now() -> UnixTime {
        UnixTime::since_unix_epoch(Moment::from(calendar()).duration())
    }
}

impl TimeProvider for Calendar {
    fn current_time(&self) -> Option<UnixTime> {
        Some(Calendar::now())
    }
}

/// Returns the algorithms of ring, the fastest first.
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        ..default_provider()
    }
}

/// Makes the configurations of rustls: only TLS 1.3, certificates on both sides, and no resumption.
///
/// A ticket for resumption would save the check of a certificate, 0.1 ms in a session that stays open for long, and
/// would trust the peer as it was when the ticket was made.
fn configurations(
    provider: Arc<CryptoProvider>,
    trust: Trust,
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
) -> Result<(ClientConfig, ServerConfig), IdentityFlaw> {
    let trust = Arc::new(trust);
    let versions = &[&version::TLS13];
    let refused = |error| match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => IdentityFlaw::OtherKey,
        error => IdentityFlaw::Key { reason: error.to_string() },
    };
    let mut client = ClientConfig::builder_with_details(provider.clone(), Arc::new(Calendar))
        .with_protocol_versions(versions)
        .map_err(refused)?
        .dangerous()
        .with_custom_certificate_verifier(trust.clone())
        .with_client_auth_cert(chain.to_vec(), key.clone_key())
        .map_err(refused)?;
    client.alpn_protocols = vec![PROTOCOL.to_vec()];
    client.resumption = Resumption::disabled();
    client.enable_sni = false;
    let mut server = ServerConfig::builder_with_details(provider, Arc::new(Calendar))
        .with_protocol_versions(versions)
        .map_err(refused)?
        .with_client_cert_verifier(trust)
        .with_single_cert(chain.to_vec(), key.clone_key())
        .map_err(refused)?;
    server.alpn_protocols = vec![PROTOCOL.to_vec()];
    server.send_tls13_tickets = 0;
    Ok((client, server))
}
