//! The private authority of a program: making it, and loading it to sign certificates.

use super::error::{AUTHORITY, KeysError};
use super::target::Target;
use crate::exit;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
    date_time_ymd,
};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use upbeat_core::name::ProgramName;
use upbeat_transport::identity::{Bundle, Certificate, IdentityFlaw, Moment, Names};

/// The time before its issue at which a certificate becomes valid, because the clocks of hosts differ.
const CLOCKS_DIFFER: Duration = Duration::from_secs(3600);
const DAY_SECONDS: u64 = 86_400;

/// An authority that was loaded from its file.
pub(crate) struct Authority {
    pub(crate) issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
    pub(crate) certificate: Certificate,
}

/// Returns the path of a program's authority.
pub(crate) fn path(program: &ProgramName, directory: &Path) -> PathBuf {
    directory.join(format!("{program}{AUTHORITY}"))
}

/// Runs `upbeat keys init` for a directory, and the option that has named it.
pub(crate) fn init(
    program: &ProgramName,
    (directory, option): (&Path, &str),
    days: u32,
    force: bool,
) -> Result<(), KeysError> {
    let certificate = make(program, directory, days, force)?.certificate;
    let text = format!(
        "the authority of program `{program}` is in {}\n\
         valid until {}, SHA-256 {}\n\
         issue an identity: upbeat keys issue --program {program}{option} NODE -o NODE.pem\n",
        path(program, directory).display(),
        certificate.valid().end,
        certificate.fingerprint()
    );
    exit::print(&text).map_err(KeysError::Output)
}

/// Makes an authority in a directory.
pub(crate) fn make(
    program: &ProgramName,
    directory: &Path,
    days: u32,
    force: bool,
) -> Result<Authority, KeysError> {
    let made = DirBuilder::new().mode(0o700).recursive(true).create(directory);
    made.map_err(|error| KeysError::Directory { path: directory.into(), error })?;
    let path = path(program, directory);
    let target = Target::open(&path, force)?;
    let key = KeyPair::generate()?;
    let mut params = params(program)?;
    valid_for(&mut params, days, None);
    let certificate = params.self_signed(&key)?;
    let head = format!(
        "# The private authority of program {program}: keep it where identities are issued, and nowhere \
         else.\n"
    );
    let text = [&*head, &certificate.pem(), &key.serialize_pem()].concat();
    target.write(&text, |unborn| load(unborn, program).map(drop))?;
    load(&path, program)
}

/// Loads an authority to sign with.
pub(crate) fn load(path: &Path, program: &ProgramName) -> Result<Authority, KeysError> {
    let bundle = match Bundle::read(path) {
        Err(IdentityFlaw::System { error: rustix::io::Errno::NOENT, .. }) => {
            return Err(KeysError::NoAuthority { path: path.into(), program: program.to_string() });
        }
        bundle => bundle.map_err(KeysError::read(path))?,
    };
    let wrong = |reason: &str| KeysError::Authority { path: path.into(), reason: reason.into() };
    let ([der], [key]) = (&bundle.certificates[..], &bundle.keys[..]) else {
        return Err(wrong("it should hold one certificate and one private key"));
    };
    let certificate = Certificate::parse(der).map_err(|reason| wrong(&reason))?;
    if certificate.names().ok().map(Names::program) != Some(program) {
        return Err(wrong(&format!("its certificate is not of program `{program}`")));
    }
    let key = KeyPair::try_from(key.secret_der()).map_err(|error| wrong(&error.to_string()))?;
    let params = params(program)?;
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error.to_string()))?;
    let pem = section(&text).ok_or_else(|| wrong("its certificate has no last line"))?.to_owned();
    let now = Moment::from(SystemTime::now());
    let valid = certificate.valid();
    if valid.end <= now {
        return Err(KeysError::Expired { path: path.into(), at: valid.end });
    }
    Ok(Authority { issuer: Issuer::new(params, key), pem, certificate })
}

/// Returns the parameters that the certificates of all authorities of a program share.
fn params(program: &ProgramName) -> Result<CertificateParams, KeysError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("Upbeat authority of {program}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let names = Names::new(program.clone(), Vec::new());
    params.subject_alt_names = alternative(&names)?;
    Ok(params)
}

/// Returns the names as alternative names of a certificate.
pub(crate) fn alternative(names: &Names) -> Result<Vec<SanType>, KeysError> {
    names.uris().map(|uri| Ok(SanType::URI(uri.try_into()?))).collect()
}

/// Makes a certificate valid for a number of days, but not beyond `most`.
pub(crate) fn valid_for(params: &mut CertificateParams, days: u32, most: Option<Moment>) {
    let now = Moment::from(SystemTime::now()).as_secs();
    let until = now + u64::from(days) * DAY_SECONDS;
    let until = most.map_or(until, |most| until.min(most.as_secs()));
    let at = |secs| date_time_ymd(1970, 1, 1) + Duration::from_secs(secs);
    params.not_before = at(now.saturating_sub(CLOCKS_DIFFER.as_secs()));
    params.not_after = at(until);
}

/// Returns the section of the certificate in the text of an authority, if it has one.
fn section(text: &str) -> Option<&str> {
    const END: &str = "-----END CERTIFICATE-----\n";
    let start = text.find("-----BEGIN CERTIFICATE-----")?;
    let bytes = text[start..].find(END)? + END.len();
    Some(&text[start..start + bytes])
}
