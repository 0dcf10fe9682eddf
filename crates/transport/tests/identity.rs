//! The file of an identity: its required contents, and its required permissions.

mod secure;

use secure::{Authority, Issued, Scratch, self_signed};
use std::time::{Duration, SystemTime};
use upbeat_transport::identity::{Identity, IdentityError, IdentityFlaw, Untrusted};

const HOUR: i64 = 3600;

fn pem(parts: &[&str]) -> String {
    parts.concat()
}

#[test]
fn an_identity_tells_its_names_and_its_validity() {
    let (scratch, authority) = (Scratch::new(), Authority::new());
    let uris = ["upbeat://demo/counter", "upbeat://demo/worker/*"];
    let identity = scratch.identity(&format!("a note\n{}", authority.text(&uris)));
    assert_eq!(identity.program().as_str(), "demo");
    let names = identity.names();
    assert!(names.covers(Some(&"worker/3".parse().unwrap())) && names.covers(None));
    assert!(!names.covers(Some(&"desk".parse().unwrap())));
    let left = identity.expires_in(SystemTime::now());
    assert!((3_500..=3_600).contains(&left.as_secs()), "{left:?}");
    let later = SystemTime::now() + Duration::from_secs(2 * HOUR as u64);
    assert_eq!(identity.expires_in(later), Duration::ZERO);
    assert!(format!("{identity:?}").contains("counter"));
    fn shared_by_threads<T: Clone + Send + Sync>(_: &T) {}
    shared_by_threads(&identity);
}

#[test]
fn a_file_with_permissions_for_others_is_refused() {
    let (scratch, authority) = (Scratch::new(), Authority::new());
    let text = authority.text(&["upbeat://demo/counter"]);
    for mode in [0o640, 0o604, 0o660, 0o644] {
        let path = scratch.write("open.pem", &text, mode);
        let error = Identity::load(&path).unwrap_err();
        assert!(matches!(error.flaw, IdentityFlaw::Mode { mode: found } if found & 0o777 == mode));
        let shown = error.to_string();
        assert!(shown.contains(&format!("chmod 600 {}", path.display())), "{shown}");
    }
    for mode in [0o600, 0o400] {
        Identity::load(scratch.write("closed.pem", &text, mode)).unwrap();
    }
    let missing = Identity::load(scratch.0.join("missing.pem")).unwrap_err();
    assert!(missing.to_string().contains("missing.pem failed: No such file"), "{missing}");
    assert_eq!(Identity::load(&scratch.0).unwrap_err().flaw, IdentityFlaw::NoFile);
}

#[test]
fn an_incomplete_file_is_refused() {
    let (scratch, authority) = (Scratch::new(), Authority::new());
    let Issued { certificate, key, .. } = authority.issue(&["upbeat://demo/counter"], -HOUR, HOUR);
    let other = Authority::new();
    let (ca, leaf, key) = (authority.0.pem(), certificate.pem(), key.serialize_pem());
    let nameless = authority.issue(&["https://example"], -HOUR, HOUR);
    let expired = authority.issue(&["upbeat://demo/counter"], -2 * HOUR, -HOUR);
    let early = authority.issue(&["upbeat://demo/counter"], HOUR, 2 * HOUR);
    let of = |issued: &Issued| pem(&[&ca, &issued.certificate.pem(), &issued.key.serialize_pem()]);
    let load = |text: &str| {
        let error: IdentityError = Identity::load(scratch.write("a.pem", text, 0o600)).unwrap_err();
        assert!(error.to_string().contains("a.pem"), "{error}");
        error.flaw
    };
    assert_eq!(load(""), IdentityFlaw::NoAuthority);
    assert_eq!(load(&pem(&[&leaf, &key])), IdentityFlaw::NoAuthority);
    assert_eq!(load(&pem(&[&ca, &key])), IdentityFlaw::NoCertificate);
    assert_eq!(load(&pem(&[&ca, &leaf])), IdentityFlaw::Keys { count: 0 });
    assert_eq!(load(&pem(&[&ca, &leaf, &key, &key])), IdentityFlaw::Keys { count: 2 });
    let stranger = expired.key.serialize_pem();
    assert_eq!(load(&pem(&[&ca, &leaf, &stranger])), IdentityFlaw::OtherKey);
    let stranger = IdentityFlaw::Untrusted(Untrusted::OtherAuthority);
    assert_eq!(load(&pem(&[&other.0.pem(), &leaf, &key])), stranger);
    assert!(matches!(load(&of(&nameless)), IdentityFlaw::Names(_)));
    assert!(matches!(load(&of(&expired)), IdentityFlaw::Untrusted(Untrusted::Expired { .. })));
    assert!(matches!(load(&of(&early)), IdentityFlaw::Untrusted(Untrusted::NotYetValid { .. })));
    // A certificate that is signed by its own key counts as an authority's.
    let alone = self_signed(&["upbeat://demo/counter"]);
    let alone = pem(&[&alone.certificate.pem(), &alone.key.serialize_pem()]);
    assert_eq!(load(&alone), IdentityFlaw::NoCertificate);
    let half = &leaf[..leaf.len() / 2];
    assert_eq!(load(&pem(&[&ca, half, "\n", &key])), IdentityFlaw::NoCertificate);
    assert!(matches!(load(&pem(&[&ca, &key, half])), IdentityFlaw::Pem { .. }));
    assert!(matches!(load(&leaf.replacen("MII", "?II", 1)), IdentityFlaw::Pem { .. }));
    let damaged = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n";
    assert!(matches!(load(&pem(&[&ca, damaged, &key])), IdentityFlaw::Certificate { .. }));
    assert!(matches!(load(&"x".repeat(300 << 10)), IdentityFlaw::TooLong { .. }));
    // The parts may come in any order.
    Identity::load(scratch.write("a.pem", &pem(&[&key, &leaf, &ca]), 0o600)).unwrap();
}

#[test]
fn any_bytes_in_a_certificate_are_refused_or_read() {
    let (scratch, authority) = (Scratch::new(), Authority::new());
    let issued = authority.issue(&["upbeat://demo/counter"], -HOUR, HOUR);
    let der = issued.certificate.der().to_vec();
    for at in 0..der.len() {
        let mut damaged = der.clone();
        damaged[at] ^= 0x81;
        // A name, a time or a signature may have changed: the call must not panic.
        let _ = upbeat_transport::identity::Certificate::parse(&damaged);
        let cut = upbeat_transport::identity::Certificate::parse(&der[..at]);
        assert!(cut.is_err(), "cut after {at} bytes");
    }
    drop(scratch);
}

#[test]
fn a_replaced_file_is_loaded_again() {
    let (scratch, authority) = (Scratch::new(), Authority::new());
    let text = authority.text(&["upbeat://demo/counter"]);
    let path = scratch.write("node.pem", &text, 0o600);
    let identity = Identity::load(&path).unwrap();
    let clone = identity.clone();
    assert_eq!(identity.reload(), Ok(false));

    let new = scratch.write("new.pem", &authority.text(&["upbeat://demo/desk"]), 0o600);
    std::fs::rename(new, &path).unwrap();
    assert_eq!(identity.reload(), Ok(true));
    assert!(clone.names().covers(Some(&"desk".parse().unwrap())), "clones share an identity");
    assert_eq!(clone.reload(), Ok(false));

    // A bad file leaves the identity unchanged.
    scratch.write("node.pem", &authority.text(&["upbeat://other/desk"]), 0o600);
    let error = identity.reload().unwrap_err();
    assert!(matches!(error.flaw, IdentityFlaw::OtherProgram { .. }), "{error}");
    scratch.write("node.pem", "nothing", 0o600);
    assert_eq!(identity.reload().unwrap_err().flaw, IdentityFlaw::NoAuthority);
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(identity.reload().unwrap_err().flaw, IdentityFlaw::System { .. }));
    assert_eq!(identity.program().as_str(), "demo");
    assert!(identity.names().covers(Some(&"desk".parse().unwrap())));
}
