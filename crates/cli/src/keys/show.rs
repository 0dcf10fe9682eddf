//! `upbeat keys show` prints what the file of an identity or of an authority contains, trusted or not.

use super::error::KeysError;
use crate::exit;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::time::SystemTime;
use upbeat_transport::identity::{Bundle, Certificate, IdentityFlaw, Moment};

const DAY_SECONDS: u64 = 86_400;

/// Runs `upbeat keys show`.
pub(crate) fn show(path: &Path, as_json: bool) -> Result<(), KeysError> {
    let bundle = Bundle::read(path).map_err(KeysError::read(path))?;
    let parsed = bundle.certificates.iter().map(|der| Certificate::parse(der));
    let certificates: Vec<Certificate> = parsed
        .collect::<Result<_, _>>()
        .map_err(|reason| KeysError::read(path)(IdentityFlaw::Certificate { reason }))?;
    if certificates.is_empty() {
        return Err(KeysError::read(path)(IdentityFlaw::NoCertificate));
    }
    let (authorities, chain): (Vec<_>, Vec<_>) =
        certificates.into_iter().partition(Certificate::is_authority);
    let now = SystemTime::now();
    let shown = match as_json {
        true => {
            let object = object(chain.first(), &authorities, bundle.keys.len(), now);
            format!("{object}\n")
        }
        false => text(path, chain.first(), &authorities, now),
    };
    exit::print(&shown).map_err(KeysError::Output)
}

fn object(
    node: Option<&Certificate>,
    authorities: &[Certificate],
    keys: usize,
    now: SystemTime,
) -> Value {
    let mut object = match node.or(authorities.first()) {
        Some(certificate) => described(certificate, now),
        None => json!({}),
    };
    object["kind"] = if node.is_some() { "identity" } else { "authority" }.into();
    object["private_keys"] = keys.into();
    object["authorities"] = authorities.iter().map(|one| described(one, now)).collect();
    object
}

fn described(certificate: &Certificate, now: SystemTime) -> Value {
    let valid = certificate.valid();
    let names = certificate.names();
    json!({
        "program": names.map(|names| names.program().to_string()).ok(),
        "nodes": names.map(nodes).unwrap_or_default(),
        "flaw": names.err().map(ToString::to_string),
        "fingerprint_sha256": certificate.fingerprint(),
        "valid_from": valid.start.as_secs(),
        "valid_until": valid.end.as_secs(),
        "valid": valid.contains(&Moment::from(now)),
        "expires_in_seconds": valid.end.since(now).as_secs(),
    })
}

fn nodes(names: &upbeat_transport::identity::Names) -> Vec<String> {
    names.nodes().iter().map(ToString::to_string).collect()
}

fn text(
    path: &Path,
    node: Option<&Certificate>,
    authorities: &[Certificate],
    now: SystemTime,
) -> String {
    let mut text = String::new();
    let mut line = |label: &str, said: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{label:<12}{said}");
    };
    line("file", &path.display().to_string());
    if let Some(node) = node {
        line("kind", "identity");
        match node.names() {
            Ok(names) => {
                line("program", names.program().as_str());
                let nodes = nodes(names);
                let handles = ["none: for handles".to_owned()];
                let nodes = if nodes.is_empty() { &handles[..] } else { &nodes };
                line("nodes", &nodes.join(", "));
            }
            Err(error) => line("names", &error.to_string()),
        }
        line("valid", &validity(node, now));
    } else {
        line("kind", "authority");
    }
    for authority in authorities {
        if node.is_none() {
            let program = authority.names().map(|names| names.program().to_string());
            line("program", &program.unwrap_or_else(|error| error.to_string()));
        }
        line("authority", &format!("SHA-256 {}", authority.fingerprint()));
        line("", &validity(authority, now));
    }
    text
}

/// Describes when a certificate is valid, and whether it is valid now.
fn validity(certificate: &Certificate, now: SystemTime) -> String {
    let valid = certificate.valid();
    let left = valid.end.since(now).as_secs();
    let means = match left {
        0 => "expired".to_owned(),
        _ if Moment::from(now) < valid.start => "not valid yet".to_owned(),
        1..DAY_SECONDS => format!("{} hours left", left / 3600),
        _ => format!("{} days left", left / DAY_SECONDS),
    };
    format!("{} to {} ({means})", valid.start, valid.end)
}
