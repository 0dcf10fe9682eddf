//! Sessions under TLS: refused peers and their errors, and transfers in pieces of any size.

#[path = "tls/liar.rs"]
mod liar;
mod secure;

use liar::{Liar, against};
use rustix::io::Errno;
use secure::{
    Authority, Issued, Scratch, connected, packets, pair, self_signed, shake, strangers, tight_pair,
};
use upbeat_memory::region::Region;
use upbeat_memory::socket::Span;
use upbeat_transport::identity::{Identity, Untrusted};
use upbeat_transport::tls::{
    Distrust, HandshakeState, PLAINTEXT_ALERT, TlsError, TlsStream, plaintext_meets,
};

const HOUR: i64 = 3600;

fn program() -> upbeat_core::name::ProgramName {
    "demo".parse().unwrap()
}

fn node(name: &str) -> Option<upbeat_core::name::NodeName> {
    Some(name.parse().unwrap())
}

/// Receives at least `bytes` bytes, which the other side has sent.
fn receive(at: &TlsStream, bytes: usize) -> Result<Vec<u8>, Errno> {
    let mut came = vec![0; bytes];
    let mut have = 0;
    while have < bytes {
        match at.receive(None, &mut came[have..])? {
            0 => break,
            more => have += more,
        }
    }
    came.truncate(have);
    Ok(came)
}

#[test]
fn nodes_of_one_authority_talk() {
    let (client, server) = connected();
    assert_eq!(server.peer_names().unwrap().nodes(), []);
    assert_eq!(client.check(&program(), node("counter").as_ref()), Ok(()));
    assert_eq!(server.check(&program(), None), Ok(()));
    for (from, to) in [(&client, &server), (&server, &client)] {
        assert_eq!(to.receive(None, &mut [0; 8]), Err(Errno::AGAIN));
        assert_eq!(from.send(b"a word", None), Ok(6));
        assert!(!from.has_output());
        assert_eq!(receive(to, 6).unwrap(), b"a word");
    }
    // The pieces are smaller than the record: the rest needs no socket.
    client.send(b"several words", None).unwrap();
    let mut some = [0; 7];
    assert_eq!(server.receive(None, &mut some), Ok(7));
    assert!(server.has_input());
    assert_eq!(receive(&server, 6).unwrap(), b" words");
    assert!(!server.has_input());
    // So does the end behind the last bytes.
    client.send(b"the end", None).unwrap();
    client.close();
    assert_eq!(server.receive(None, &mut some), Ok(7));
    assert!(server.has_input());
    assert_eq!(server.receive(None, &mut some), Ok(0));
}

#[test]
fn one_send_is_one_write() {
    let (scratch, authority) = (Scratch::new(), Authority::new());
    let identity = scratch.identity(&authority.text(&["upbeat://demo/counter"]));
    // A packet holds the bytes of one write.
    let (near, far) = packets();
    let raw = far.try_clone().unwrap();
    let client = TlsStream::client(near, &identity).unwrap();
    let server = TlsStream::server(far, &identity).unwrap();
    assert_eq!(client.send(b"early", None), Err(Errno::NOTCONN));
    assert_eq!(client.receive(None, &mut [0; 8]), Err(Errno::NOTCONN));
    assert_eq!(shake(&client, &server), [Ok(HandshakeState::Done), Ok(HandshakeState::Done)]);
    let region = Region::heap(8 << 10);
    for bytes in [8, 60_000] {
        let then = Span { region: &region, at: 0, bytes };
        assert_eq!(client.send(b"head", Some(then)), Ok(4 + bytes));
        let mut packet = vec![0; 100_000];
        let packet = rustix::io::read(&raw, &mut packet[..]).unwrap();
        assert!((4 + bytes..bytes + 200).contains(&packet), "{packet}");
        assert_eq!(rustix::io::read(&raw, &mut [0; 8]), Err(Errno::AGAIN), "one write");
    }
}

#[test]
fn a_peers_last_bytes_are_received_after_a_failed_send() {
    let (client, server) = connected();
    server.send(b"last words", None).unwrap();
    server.close();
    drop(server);
    assert!(client.send(b"too late", None).is_err());
    assert!(!client.has_output());
    assert_eq!(receive(&client, 10).unwrap(), b"last words");
    assert_eq!(client.receive(None, &mut [0; 8]), Ok(0));
}

#[test]
fn a_peer_with_other_names_is_refused() {
    let (scratch, authority) = (Scratch::new(), Authority::new());
    let counter = scratch.identity(&authority.text(&["upbeat://demo/counter"]));
    let other = scratch.identity(&authority.text(&["upbeat://other/counter"]));
    let workers = scratch.identity(&authority.text(&["upbeat://demo/worker/*"]));
    let (client, server) = strangers(&other, &counter);
    assert_eq!(
        client.check(&program(), None),
        Err(Untrusted::Missing),
        "before the handshake there are no names"
    );
    assert_eq!(shake(&client, &server), [Ok(HandshakeState::Done), Ok(HandshakeState::Done)]);
    let error = server.check(&program(), None).unwrap_err();
    assert!(matches!(&error, Untrusted::OtherProgram { .. }), "{error}");
    assert!(error.to_string().contains("`other`"), "{error}");
    let (client, server) = strangers(&counter, &workers);
    assert_eq!(shake(&client, &server), [Ok(HandshakeState::Done), Ok(HandshakeState::Done)]);
    assert_eq!(client.check(&program(), node("worker/7").as_ref()), Ok(()));
    let error = client.check(&program(), node("counter").as_ref()).unwrap_err();
    assert!(matches!(&error, Untrusted::OtherName { .. }), "{error}");
    assert!(error.to_string().contains("`worker/*`"), "{error}");
}

#[test]
fn peers_of_two_authorities_refuse_each_other() {
    let scratch = Scratch::new();
    let [ours, theirs] = [Authority::new(), Authority::new()]
        .map(|authority| scratch.identity(&authority.text(&["upbeat://demo/counter"])));
    let (client, server) = strangers(&ours, &theirs);
    let [near, far] = shake(&client, &server);
    assert_eq!(near, Err(TlsError::Untrusted(Untrusted::OtherAuthority)));
    assert_eq!(far, Err(TlsError::Distrusted(Distrust::OtherAuthority)));

    // A client that would trust both authorities is refused by the server, and learns so when it reads.
    let both = {
        let (one, other) = (Authority::new(), Authority::new());
        let server = scratch.identity(&other.text(&["upbeat://demo/counter"]));
        let client = [other.0.pem(), one.text(&["upbeat://demo/desk"])].concat();
        strangers(&scratch.identity(&client), &server)
    };
    let [near, far] = shake(&both.0, &both.1);
    assert_eq!(far, Err(TlsError::Untrusted(Untrusted::OtherAuthority)));
    assert_eq!(near, Ok(HandshakeState::Done));
    let _ = both.0.send(b"hello", None);
    assert_eq!(both.0.receive(None, &mut [0; 8]), Err(Errno::ACCESS));
    assert_eq!(both.0.fault(), Some(TlsError::Distrusted(Distrust::OtherAuthority)));
    assert_eq!(both.1.receive(None, &mut [0; 8]), Err(Errno::ACCESS), "no plaintext is returned");
}

/// Returns the results of a server of ours with a client that shows this certificate, and of a client with such a
/// server.
fn both_ways(scratch: &Identity, issued: &Issued) -> [Result<HandshakeState, TlsError>; 2] {
    let (near, far) = pair();
    let server = TlsStream::server(near, scratch).unwrap();
    let one = against(&server, Liar::client(far, Some(issued), &[b"upbeat/1"]));
    assert_eq!(server.receive(None, &mut [0; 8]), Err(Errno::ACCESS), "no plaintext is returned");
    assert_eq!(server.peer_names(), None);
    let (near, far) = pair();
    let client = TlsStream::client(near, scratch).unwrap();
    let other = against(&client, Liar::server(far, issued));
    assert_eq!(client.send(b"secret", None), Err(Errno::ACCESS));
    [one, other]
}

#[test]
fn each_bad_certificate_has_its_own_error() {
    let (scratch, authority) = (Scratch::new(), Authority::new());
    let ours = scratch.identity(&authority.text(&["upbeat://demo/counter"]));
    let uris = ["upbeat://demo/desk"];
    for result in both_ways(&ours, &authority.issue(&uris, -2 * HOUR, -HOUR)) {
        assert!(
            matches!(result, Err(TlsError::Untrusted(Untrusted::Expired { .. }))),
            "{result:?}"
        );
    }
    for result in both_ways(&ours, &authority.issue(&uris, HOUR, 2 * HOUR)) {
        let early = matches!(result, Err(TlsError::Untrusted(Untrusted::NotYetValid { .. })));
        assert!(early, "{result:?}");
    }
    for result in both_ways(&ours, &self_signed(&uris)) {
        assert_eq!(result, Err(TlsError::Untrusted(Untrusted::SelfSigned)));
    }
    for result in both_ways(&ours, &Authority::new().issue(&uris, -HOUR, HOUR)) {
        assert_eq!(result, Err(TlsError::Untrusted(Untrusted::OtherAuthority)));
    }
    for result in both_ways(&ours, &authority.issue(&["https://example"], -HOUR, HOUR)) {
        let nameless = matches!(result, Err(TlsError::Untrusted(Untrusted::Malformed { .. })));
        assert!(nameless, "{result:?}");
    }
    let (near, far) = pair();
    let server = TlsStream::server(near, &ours).unwrap();
    let result = against(&server, Liar::client(far, None, &[b"upbeat/1"]));
    assert_eq!(result, Err(TlsError::Untrusted(Untrusted::Missing)));
}

/// Certificates of authorities that have the name of the program's, and other keys: each would be tried as the issuer of
/// each other one.
#[test]
fn a_peer_that_shows_many_certificates_is_refused_unread() {
    let (scratch, authority) = (Scratch::new(), Authority::new());
    let ours = scratch.identity(&authority.text(&["upbeat://demo/counter"]));
    let mut issued = authority.issue(&["upbeat://demo/desk"], -HOUR, HOUR);
    issued.others = (0..10).map(|_| Authority::new().der()).collect();
    for result in both_ways(&ours, &issued) {
        let Err(TlsError::Untrusted(Untrusted::Malformed { reason })) = result else {
            panic!("{result:?}");
        };
        assert!(reason.contains("11 certificates, and 2 are the most"), "{reason}");
    }
}

#[test]
fn another_protocol_under_tls_is_refused() {
    let (scratch, authority) = (Scratch::new(), Authority::new());
    let ours = scratch.identity(&authority.text(&["upbeat://demo/counter"]));
    let issued = authority.issue(&["upbeat://demo/desk"], -HOUR, HOUR);
    for protocols in [&[][..], &[&b"h2"[..]]] {
        let (near, far) = pair();
        let server = TlsStream::server(near, &ours).unwrap();
        let result = against(&server, Liar::client(far, Some(&issued), protocols));
        assert_eq!(result, Err(TlsError::OtherProtocol));
    }
    let (near, far) = pair();
    let client = TlsStream::client(near, &ours).unwrap();
    assert_eq!(against(&client, Liar::server(far, &issued)), Err(TlsError::OtherProtocol));
}

/// Feeds these bytes to a new side of ours. Returns the result, and the bytes that it answers.
fn hears(is_server: bool, bytes: &[u8]) -> (Result<HandshakeState, TlsError>, Vec<u8>) {
    let (scratch, authority) = (Scratch::new(), Authority::new());
    let ours = scratch.identity(&authority.text(&["upbeat://demo/counter"]));
    let (near, far) = pair();
    let ours = match is_server {
        true => TlsStream::server(near, &ours).unwrap(),
        false => TlsStream::client(near, &ours).unwrap(),
    };
    assert_eq!(ours.handshake(), Ok(HandshakeState::WantsRead));
    let mut said = vec![0; 16 << 10];
    if !is_server {
        let hello = rustix::io::read(&far, &mut said[..]).unwrap();
        assert_eq!(plaintext_meets(&said[..hello]), Some(TlsError::TlsPeer));
    }
    rustix::io::write(&far, bytes).unwrap();
    let result = ours.handshake();
    let answered = rustix::io::read(&far, &mut said[..]).unwrap_or(0);
    said.truncate(answered);
    (result, said)
}

#[test]
fn older_versions_are_refused() {
    // This is a hello of TLS 1.2: a random number, no session, one suite, one compression, two extensions.
    let mut hello = vec![3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0xc0, 0x2f, 1, 0]);
    let extensions =
        [&[0, 10, 0, 4, 0, 2, 0, 29][..], &[0, 13, 0, 4, 0, 2, 4, 3], &[0, 11, 0, 2, 1, 0]];
    let extensions = extensions.concat();
    hello.extend([0, extensions.len() as u8]);
    hello.extend(extensions);
    let mut record = vec![22, 3, 1, 0, hello.len() as u8 + 4, 1, 0, 0, hello.len() as u8];
    record.extend(hello);
    let (result, answer) = hears(true, &record);
    assert_eq!(result, Err(TlsError::OldVersion));
    assert_eq!(answer, [21, 3, 3, 0, 2, 2, 70], "the alert `protocol_version`");

    // These are a server that answers in TLS 1.2, and one that says that it speaks only old versions.
    let mut hello = vec![3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0xc0, 0x2f, 0]);
    let mut record = vec![22, 3, 3, 0, hello.len() as u8 + 4, 2, 0, 0, hello.len() as u8];
    record.extend(hello);
    assert_eq!(hears(false, &record).0, Err(TlsError::OldVersion));
    assert_eq!(hears(false, &[21, 3, 3, 0, 2, 2, 70]).0, Err(TlsError::OldVersion));
}

#[test]
fn plaintext_and_tls_are_told_apart() {
    for is_server in [false, true] {
        let (result, answer) = hears(is_server, b"upbeat\x00\x01 and so on");
        assert_eq!(result, Err(TlsError::PlaintextPeer));
        assert_eq!(plaintext_meets(&answer), Some(TlsError::TlsPeer), "{answer:?}");
        assert_eq!(hears(is_server, b"u").0, Err(TlsError::PlaintextPeer));
        assert_eq!(hears(is_server, &[22, 9]).0, Err(TlsError::PlaintextPeer));
        // This is the alert that a plaintext node sends to a TLS node.
        assert_eq!(hears(is_server, &PLAINTEXT_ALERT).0, Err(TlsError::PlaintextPeer));
        let (result, _) = hears(is_server, &[22, 3, 1, 0, 5, 99, 0, 0, 1, 7]);
        assert!(matches!(result, Err(TlsError::Broken { .. })), "{result:?}");
    }
    assert_eq!(plaintext_meets(b"upbeat\x00\x01"), None);
}

#[test]
fn long_payloads_go_in_pieces_through_a_small_socket() {
    let (scratch, authority) = (Scratch::new(), Authority::new());
    let identity = scratch.identity(&authority.text(&["upbeat://demo/counter"]));
    let (near, far) = tight_pair();
    let client = TlsStream::client(near, &identity).unwrap();
    let server = TlsStream::server(far, &identity).unwrap();
    assert_eq!(shake(&client, &server), [Ok(HandshakeState::Done), Ok(HandshakeState::Done)]);
    const BYTES: usize = 1 << 20;
    let (from, to) = (Region::heap(BYTES / 8 + 1), Region::heap(BYTES / 8 + 1));
    let payload: Vec<u8> = (0..BYTES as u32).map(|n| (n ^ n >> 8).wrapping_mul(31) as u8).collect();
    from.write(5, &payload);
    for (from_side, to_side) in [(&client, &server), (&server, &client)] {
        let (mut sent, mut came, mut partial) = (0, 0, 0);
        let head = b"a head of its own";
        let whole = head.len() + BYTES;
        let mut got_head = [0; 17];
        while came < whole {
            let first = &head[sent.min(head.len())..];
            let done = sent.saturating_sub(head.len());
            let then = Span { region: &from, at: 5 + done, bytes: BYTES - done };
            if sent < whole {
                match from_side.send(first, Some(then)) {
                    Ok(bytes) => sent += bytes,
                    Err(error) => assert_eq!(error, Errno::AGAIN),
                }
                partial += usize::from(from_side.has_output());
            } else {
                from_side.flush().unwrap();
            }
            // The receives alternate between our own bytes and a region, with sizes that fit no record.
            let got = match came.checked_sub(head.len()) {
                None => to_side.receive(None, &mut got_head[came..]),
                Some(at) => {
                    let bytes = (BYTES - at).min(40_009);
                    let into = Span { region: &to, at: 3 + at, bytes };
                    let mut rest = [0; 100];
                    let got = to_side.receive(Some(into), &mut rest);
                    if let Ok(more @ 1..) = got
                        && more > bytes
                    {
                        to.write(3 + at + bytes, &rest[..more - bytes]);
                    }
                    got
                }
            };
            match got {
                Ok(bytes) => came += bytes,
                Err(error) => assert_eq!(error, Errno::AGAIN),
            }
        }
        let mut got = vec![0; 3 + BYTES];
        to.read(0, &mut got);
        assert!(
            got[3..] == payload && &got_head == head,
            "the received bytes differ from the sent ones"
        );
        assert!(partial > 3, "the socket was never full: {partial}");
        assert_eq!((sent, from_side.has_output()), (whole, false));
        to.write(3, &vec![0; BYTES]);
    }
}

#[test]
fn an_end_without_the_peers_notice_is_a_cut() {
    let (client, server) = connected();
    client.send(b"last words", None).unwrap();
    client.close();
    assert_eq!(receive(&server, 16).unwrap(), b"last words");
    assert_eq!(server.receive(None, &mut [0; 8]), Ok(0));
    assert_eq!(server.fault(), None);

    let (client, server) = connected();
    client.send(b"last words", None).unwrap();
    drop(client);
    let mut came = [0; 10];
    assert_eq!(server.receive(None, &mut came), Ok(10));
    assert_eq!(server.receive(None, &mut [0; 8]), Err(Errno::CONNRESET));
    assert_eq!(server.fault(), Some(TlsError::Cut));
    assert_eq!(server.send(b"more", None), Err(Errno::CONNRESET));
}
