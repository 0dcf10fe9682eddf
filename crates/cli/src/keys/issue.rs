//! The identity of nodes: a certificate that the authority signs, and its key.

use super::authority::{Authority, alternative, load, valid_for};
use super::error::KeysError;
use super::target::Target;
use crate::exit;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use std::path::Path;
use std::time::SystemTime;
use upbeat_core::name::{Pattern, ProgramName};
use upbeat_transport::identity::{Identity, Names};

/// The largest size of the names in a certificate, which is far above the need of nodes that share a file.
const NAMES_BYTES_MAX: usize = 8 << 10;
const DAY_SECONDS: u64 = 86_400;

/// Returns the names for an identity.
pub(crate) fn names(program: ProgramName, nodes: &[Pattern]) -> Result<Names, KeysError> {
    let mut nodes = nodes.to_vec();
    nodes.sort();
    nodes.dedup();
    let names = Names::new(program, nodes);
    if names.uris().map(|uri| uri.len()).sum::<usize>() > NAMES_BYTES_MAX {
        let count = names.nodes().len();
        let reason = format!("{count} names are too many for one identity: use `PREFIX/*`");
        return Err(KeysError::Names(reason));
    }
    Ok(names)
}

/// Runs `upbeat keys issue`.
pub(crate) fn issue(
    authority: &Path,
    names: &Names,
    days: u32,
    output: &Path,
    force: bool,
) -> Result<(), KeysError> {
    let (identity, authority) = make(authority, names, days, output, force)?;
    let left = identity.expires_in(SystemTime::now()).as_secs();
    let text = format!(
        "the identity of {names} is in {}\nvalid for {} days, authority {}\n",
        output.display(),
        days_of(left),
        authority.certificate.fingerprint()
    );
    exit::print(&text).map_err(KeysError::Output)
}

/// Makes an identity, and returns it with the authority that signed it.
pub(crate) fn make(
    authority: &Path,
    names: &Names,
    days: u32,
    output: &Path,
    force: bool,
) -> Result<(Identity, Authority), KeysError> {
    let target = Target::open(output, force)?;
    let authority = load(authority, names.program())?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, format!("Upbeat node of {}", names.program()));
    params.subject_alt_names = alternative(names)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    valid_for(&mut params, days, Some(authority.certificate.valid().end));
    let certificate = params.signed_by(&key, &authority.issuer)?;
    let text = format!(
        "# The identity of {names}: its authority, its certificate, its private key.\n{}{}{}",
        authority.pem,
        certificate.pem(),
        key.serialize_pem()
    );
    target.write(&text, |unborn| match Identity::load(unborn) {
        Ok(_) => Ok(()),
        Err(mut error) => {
            error.path = output.into();
            Err(KeysError::Identity(error))
        }
    })?;
    let identity = Identity::load(output).map_err(KeysError::Identity)?;
    Ok((identity, authority))
}

/// Rounds seconds to whole days.
fn days_of(seconds: u64) -> u64 {
    (seconds + DAY_SECONDS / 2) / DAY_SECONDS
}
