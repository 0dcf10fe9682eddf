//! The addresses at which a session connects again that has lost its connection.
//!
//! The host's name is looked up again, but no attempt waits for that: the name server may be as unreachable as the host.
//! Until there is an answer, the last known address is tried. Invariant: at most one lookup of a session is under way, and
//! none of a host that was given as an address.

use super::lookup::LookedUp;
use crate::error::Why;
use std::net::SocketAddr;
use upbeat_core::address::Address;
use upbeat_core::hello::RefusalCode;
use upbeat_core::resume::{Attempt, Link};
use upbeat_transport::error::OpenError;

/// The time from the answer to a lookup to the next one.
const LOOKUP_EVERY_NS: u64 = 1_000_000_000;

/// The reason why a session ends that its listener does not know any more.
const FORGOTTEN: &str = "the node has no such session any more: it was started anew, or has given the session up; \
                         the next call opens another one";

/// The addresses of a host, as far as they are known.
pub(crate) struct Addresses {
    known: Vec<SocketAddr>,
    lookup: Option<LookedUp>,
    next_ns: u64,
    /// Whether the name was looked up since the connection was lost, or is an address.
    is_fresh: bool,
}

/// The address of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) at: SocketAddr,
    /// The index of the address among those of the host, which does not depend on the order of their names' lookup.
    pub(crate) index: usize,
    /// The number of addresses of the host at which the session may be.
    pub(crate) of: usize,
}

impl Place {
    /// Notes in `link` that an attempt to connect again has failed here. Returns why the session ends if another attempt
    /// is useless; else another follows.
    pub(crate) fn failed(
        &self,
        link: &mut Link,
        attempt: &Attempt,
        error: &OpenError,
        (now_ns, random): (u64, u64),
    ) -> Option<Why> {
        let is_unknown =
            matches!(error, OpenError::Refused { code, .. } if *code == RefusalCode::NoSuchSession);
        if is_unknown && link.unknown_at(self.index, self.of) {
            return Some(Why::Unreachable { text: FORGOTTEN.to_owned() });
        }
        link.failed(attempt, now_ns, random);
        None
    }
}

impl Addresses {
    /// Returns the addresses of a host to which the last connection went at `last`.
    pub(crate) fn new(last: SocketAddr) -> Addresses {
        Addresses { known: vec![last], lookup: None, next_ns: 0, is_fresh: false }
    }

    /// Returns the address of the attempt of this number. Begins to look the host up, if that is due.
    pub(crate) fn next(&mut self, address: &Address, nth: u64, now_ns: u64) -> Place {
        self.refresh(address, now_ns);
        let at = self.known[nth as usize % self.known.len()];
        let index = self.known.iter().filter(|other| **other < at).count();
        // As long as the host was not looked up, it may have another address.
        Place { at, index, of: self.known.len() + usize::from(!self.is_fresh) }
    }

    fn refresh(&mut self, address: &Address, now_ns: u64) {
        if address.ip().is_some() {
            self.is_fresh = true;
            return;
        }
        match self.lookup.as_ref().map(LookedUp::take) {
            Some(None) => return,
            Some(Some(found)) => {
                self.lookup = None;
                self.next_ns = now_ns.saturating_add(LOOKUP_EVERY_NS);
                // Without an answer the known addresses are as good as before.
                if let Ok(found) = found {
                    (self.known, self.is_fresh) = (found, true);
                }
            }
            None => {}
        }
        if self.next_ns <= now_ns {
            self.lookup = LookedUp::begin(address).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use upbeat_core::hello::Ticket;
    use upbeat_core::resume::{Agreed, Due, Role};
    use upbeat_transport::error::{PeerIdentity, Unreached};

    fn socket(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_are_tried_in_turn_and_known_by_their_order() {
        let (one, other) = (socket("10.0.0.1:7"), socket("10.0.0.2:7"));
        let address = Address::new("10.0.0.2:7").unwrap();
        let mut addresses = Addresses::new(other);
        assert_eq!(addresses.next(&address, 5, 0), Place { at: other, index: 0, of: 1 });
        addresses.known = vec![other, one];
        let places = [0, 1, 2].map(|nth| addresses.next(&address, nth, 0));
        assert_eq!(places.map(|place| (place.at, place.index)), [(other, 1), (one, 0), (other, 1)]);
    }

    /// A host has two addresses. The node at one of them does not know the session, and the other one is down for a
    /// while: the session goes on trying until its time is over, or until both nodes have said so.
    #[test]
    fn a_session_ends_at_once_only_if_no_address_of_its_host_knows_it() {
        let refused = OpenError::Refused {
            peer: PeerIdentity::default(),
            code: RefusalCode::NoSuchSession,
            text: String::new(),
        };
        let down = OpenError::Unreached { at: String::new(), why: Unreached::Refused };
        let ticket = Ticket { session: 1, incarnation: 2, key: [3; 16] };
        let within_ms = 5_000;
        for returns in [true, false] {
            let agreed = Agreed::new(Role::Caller, ticket, [within_ms; 2]).unwrap();
            let (mut link, mut now) = (Link::new(agreed), 0);
            assert!(link.broke(now));
            let mut tried = [0; 2];
            let end = loop {
                now = link.next_ns().unwrap();
                let attempt = match link.due(now) {
                    Some(Due::Connect(attempt)) => attempt,
                    Some(Due::GiveUp) => break None,
                    None => panic!("it is due"),
                };
                let index = (attempt.nth % 2) as usize;
                tried[index] += 1;
                let place = Place { at: socket("10.0.0.1:7"), index, of: 2 };
                let is_back = returns && now > 1_000_000_000;
                let error = if index == 0 || is_back { &refused } else { &down };
                if let Some(why) = place.failed(&mut link, &attempt, error, (now, 7)) {
                    break Some(why);
                }
            };
            assert_eq!(end.is_some(), returns, "{end:?}");
            assert!(tried[0] > 2 && tried[1] > 2, "{tried:?}");
            assert!(returns || now == u64::from(within_ms) * 1_000_000);
        }
    }

    /// A name server that does not answer holds up no attempt, and a session is not given up before it has answered.
    #[test]
    fn no_attempt_waits_for_the_lookup_of_a_name() {
        let (address, last) = (Address::new("localhost:7").unwrap(), socket("127.9.9.9:7"));
        let mut addresses = Addresses::new(last);
        let first = addresses.next(&address, 0, 0);
        assert_eq!(first, Place { at: last, index: 0, of: 2 });
        let began = std::time::Instant::now();
        while addresses.next(&address, 1, 0).at == last {
            assert!(began.elapsed().as_secs() < 20, "`localhost` is not found");
            std::thread::yield_now();
        }
        assert!(addresses.is_fresh && addresses.lookup.is_none());
        // The next lookup follows when its time has come, one at a time.
        addresses.next(&address, 2, LOOKUP_EVERY_NS - 1);
        assert!(addresses.lookup.is_none());
        addresses.next(&address, 3, LOOKUP_EVERY_NS);
        assert!(addresses.lookup.is_some());
    }
}
