//! The parsers of identities, with certificates, keys and files close to valid ones.
//!
//! `UPBEAT_FUZZ_IDENTITIES` sets the number of inputs. No input makes a parser panic or take long, each refusal gives
//! its reason, and no changed input is taken for an identity with other names.

#[path = "../../core/tests/mutate/mod.rs"]
mod mutate;
mod secure;

use mutate::{Random, mutate, setting};
use secure::{Authority, Issued, Scratch};
use std::time::{Duration, Instant};
use upbeat_transport::identity::{Certificate, Identity};

const HOUR: i64 = 3600;
const URIS: [&str; 2] = ["upbeat://demo/counter", "upbeat://demo/worker/*"];

/// After this time a parser counts as hung.
const HUNG: Duration = Duration::from_secs(30);

/// One in this many inputs is a file.
const FILES: u64 = 100;

/// Returns a section of a PEM file.
fn section(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for (nth, three) in der.chunks(3).enumerate() {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(*three.get(at).unwrap_or(&0)));
        let digit = |at: u32| char::from(DIGITS[(bits >> (18 - 6 * at)) as usize % 64]);
        let digits = three.len() as u32 + 1;
        text.extend((0..4).map(|at| if at < digits { digit(at) } else { '=' }));
        if nth % 16 == 15 {
            text.push('\n');
        }
    }
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

/// The parts of an identity's file: the authority's certificate, the node's certificate, and the key.
struct Parts([(&'static str, Vec<u8>); 3]);

impl Parts {
    fn new() -> Parts {
        let authority = Authority::new();
        let Issued { certificate, key, .. } = authority.issue(&URIS, -HOUR, HOUR);
        Parts([
            ("CERTIFICATE", authority.0.der().to_vec()),
            ("CERTIFICATE", certificate.der().to_vec()),
            ("PRIVATE KEY", key.serialize_der()),
        ])
    }

    fn text(&self) -> String {
        self.0.iter().map(|(label, der)| section(label, der)).collect()
    }

    /// Returns the file with one part changed, or with its text changed.
    fn changed(&self, random: &mut Random) -> Vec<u8> {
        let mut text = self.text().into_bytes();
        match random.below(4) {
            3 => mutate(&mut text, self.text().as_bytes(), random),
            part => {
                let mut parts = self.0.clone();
                mutate(&mut parts[part].1, &self.0[random.below(3)].1, random);
                text = Parts(parts).text().into_bytes();
            }
        }
        text
    }
}

/// Returns whether the bytes are accepted as a certificate.
fn parse_certificate(der: &[u8]) -> bool {
    match Certificate::parse(der) {
        Ok(certificate) => {
            assert_eq!(certificate.fingerprint().len(), 64);
            let said = match certificate.names() {
                Ok(names) => names.to_string(),
                Err(error) => error.to_string(),
            };
            assert!(!said.is_empty());
            let valid = certificate.valid();
            assert!(!valid.start.to_string().is_empty() && !valid.end.to_string().is_empty());
            true
        }
        Err(reason) => {
            assert!(!reason.is_empty());
            false
        }
    }
}

#[test]
fn no_bytes_are_taken_for_another_identity() {
    let inputs = setting("UPBEAT_FUZZ_IDENTITIES", 100_000);
    let seed = setting("UPBEAT_FUZZ_SEED", 1);
    eprintln!("seed {seed}");
    let (scratch, parts) = (Scratch::new(), Parts::new());
    let good = scratch.identity(&parts.text()).names();
    assert_eq!(good.uris().collect::<Vec<_>>(), URIS);
    let path = scratch.write("fuzzed.pem", "", 0o600);
    let mut random = Random::new(seed);
    let (mut certificates, mut identities, mut longest) = (0_u64, 0_u64, Duration::ZERO);
    let begun = Instant::now();
    for input in 0..inputs {
        let began = Instant::now();
        if input % FILES == 0 {
            std::fs::write(&path, parts.changed(&mut random)).unwrap();
            match Identity::load(&path) {
                Ok(identity) => {
                    assert_eq!(identity.names(), good, "seed {seed}, input {input}");
                    identities += 1;
                }
                Err(error) => assert!(error.to_string().contains("fuzzed.pem"), "{error}"),
            }
        } else {
            let mut der = parts.0[random.below(2)].1.clone();
            mutate(&mut der, &parts.0[random.below(3)].1, &mut random);
            certificates += u64::from(parse_certificate(&der));
        }
        longest = longest.max(began.elapsed());
    }
    eprintln!(
        "{inputs} inputs in {:?}, the longest {longest:?}; {certificates} certificates and {identities} \
         identities were taken",
        begun.elapsed()
    );
    assert!(longest < HUNG, "{longest:?}");
    // Without any accepted input, the parsers were tested only on their first bytes.
    assert!(certificates > 0 && identities > 0);
}
