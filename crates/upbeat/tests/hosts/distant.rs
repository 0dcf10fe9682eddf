//! Honest callers under TLS whose way is long: the second flight of their handshake comes a round trip after the first.

use crate::common::more_descriptors;
use crate::common::{PROGRAM, Watchdog, alone};
use crate::trust::Authority;
use crate::{Server, identity_of};
use std::thread;
use std::time::{Duration, Instant};
use upbeat_core::name::ProgramId;
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::opening::{Opening, Step};
use upbeat_transport::remote::{RemoteOptions, connect};

/// The callers, which all come from one address. Without optimisation, a handshake takes milliseconds of two processors.
const CALLERS: usize = if cfg!(debug_assertions) { 100 } else { 300 };
/// The time between a caller's two flights.
const ROUND_TRIP: Duration = Duration::from_millis(150);

/// All callers of an address connect again at the same time after an outage. Each waits for the node's answer as long as
/// its way takes. The node has heard them, and ends none of their handshakes.
#[test]
fn a_crowd_of_distant_callers_gets_in() {
    let _alone = alone();
    let _watchdog = Watchdog::new("distant callers");
    more_descriptors();
    let authority = Authority::new();
    let of_node = authority.issue("server.pem", "test/server");
    let own = authority.issue("handle.pem", "test");
    let server = Server::with(PROGRAM, "server", "127.0.0.1:0", &of_node);
    let (at, name) = (server.at.parse().unwrap(), "server".parse().unwrap());
    let home = LocalNode::of_handle(ProgramId::named(PROGRAM.parse().unwrap())).unwrap();
    let terms = RemoteOptions {
        identity: Some(identity_of(&own)),
        peer_timeout_ms: 10_000,
        resume_within_ms: 0,
    };
    let began = Instant::now();
    let now_ms = || began.elapsed().as_millis() as u64;
    let mut callers: Vec<Opening> = (0..CALLERS)
        .map(|session| {
            let times = [now_ms(), now_ms() + 30_000];
            connect(&home, &name, at, session, times, &terms).unwrap()
        })
        .collect();
    let mut sessions = Vec::new();
    let mut step_all = || {
        callers.retain_mut(|caller| match caller.step(now_ms()) {
            Ok(Step::Done(session)) => {
                sessions.push(session);
                false
            }
            Ok(Step::Waiting) => true,
            Ok(_) => panic!("a new session is wanted"),
            Err(error) => panic!("{error}, after {} sessions", sessions.len()),
        });
        !callers.is_empty()
    };
    // The connections stand, and the first flights of all that have no answer yet are on their way.
    step_all();
    thread::sleep(ROUND_TRIP);
    while step_all() {
        thread::yield_now();
    }
    assert_eq!(sessions.len(), CALLERS);
}
