//! Reads a certificate: its names, its validity, and whether it names itself as its issuer.
//!
//! rustls's parser of certificates does not return the validity, so the few fields before it are read here.
//! Invariant: any bytes give a [`Certificate`] or the reason why they are none.

use super::moment::Moment;
use super::names::{Names, NamesError};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls_pki_types::CertificateDer;
use std::fmt::Write;
use std::ops::Range;
use webpki::EndEntityCert;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The contents of a certificate. Whether they are true depends on the authority that signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    names: Result<Names, NamesError>,
    valid: Range<Moment>,
    authority: bool,
    fingerprint: String,
}

impl Certificate {
    /// Reads a certificate from its DER form.
    ///
    /// # Errors
    /// The reason why the bytes are no certificate that can be used.
    pub fn parse(der: &[u8]) -> Result<Certificate, String> {
        let der = CertificateDer::from(der);
        let parsed = EndEntityCert::try_from(&der).map_err(|error| error.to_string())?;
        let valid = validity(&der).ok_or("its validity cannot be read")?;
        Ok(Certificate {
            names: Names::from_uris(parsed.valid_uri_names()),
            valid,
            authority: parsed.issuer() == parsed.subject(),
            fingerprint: fingerprint(&der),
        })
    }

    /// Returns the names in the certificate.
    ///
    /// # Errors
    /// If it has no name of Upbeat, or contradictory names.
    pub fn names(&self) -> Result<&Names, &NamesError> {
        self.names.as_ref()
    }

    /// Returns the range of time in which the certificate is valid.
    pub fn valid(&self) -> Range<Moment> {
        self.valid.clone()
    }

    /// Returns whether the certificate names itself as its issuer, as an authority's does.
    pub fn is_authority(&self) -> bool {
        self.authority
    }

    /// Returns the fingerprint: SHA-256 of the DER form, in hexadecimal digits.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

fn fingerprint(der: &[u8]) -> String {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().expect("a suite of TLS 1.3");
    let hash = suite.common.hash_provider.hash(der);
    hash.as_ref().iter().fold(String::new(), |mut text, byte| {
        // Writing to a string never fails.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the range of time in which a certificate is valid.
fn validity(der: &[u8]) -> Option<Range<Moment>> {
    let mut certificate = Elements(Elements(der).of(SEQUENCE)?);
    let mut signed = Elements(certificate.of(SEQUENCE)?);
    if signed.0.first() == Some(&VERSION) {
        signed.of(VERSION)?;
    }
    // These are the serial number, the algorithm of the signature, and the issuer.
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        signed.of(tag)?;
    }
    let mut times = Elements(signed.of(SEQUENCE)?);
    let mut time = || match times.next()? {
        (UTC_TIME, text) if text.len() == 13 => Moment::parse(text),
        (GENERALIZED_TIME, text) if text.len() == 15 => Moment::parse(text),
        _ => None,
    };
    Some(time()?..time()?)
}

/// Elements in DER form: each has a tag, a length, and its content.
struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// Returns the content of the next element if it has this tag.
    fn of(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().and_then(|(found, content)| (found == tag).then_some(content))
    }

    /// Returns the tag and the content of the next element.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, short], rest) = self.0.split_first_chunk()?;
        let (len, rest) = match short {
            ..=0x7f => (usize::from(short), rest),
            0x81..=0x83 => {
                let (digits, rest) = rest.split_at_checked(usize::from(short & 3))?;
                (digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, content))
    }
}
