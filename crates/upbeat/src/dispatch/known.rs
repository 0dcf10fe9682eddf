//! The sessions that stand, by whom they are with.
//!
//! Invariant: a session stands for a name only if this node has opened it as that, or the peer's process holds the
//! name.

use super::Dispatcher;
use super::sessions::Place;
use crate::session::Session;
use std::net::SocketAddr;
use std::rc::Rc;
use upbeat_core::address::NodeAddress;
use upbeat_core::name::NodeName;
use upbeat_transport::carrier::{Carrier, Reach};
use upbeat_transport::{local, shared};

impl Dispatcher {
    /// The open session with a node, if there is one whose peer is that node for sure: this node has opened it
    /// as the same, or the peer's process holds the name now.
    pub(crate) fn session_with(&self, to: &NodeAddress) -> Option<Rc<Session>> {
        let name = to.node();
        let places = self.peers.places.borrow();
        let sessions = || {
            places.iter().filter_map(|place| match place {
                Place::Open(session)
                    if session.carrier.peer.name.as_ref() == Some(name)
                        && !session.ending.goodbye.get() =>
                {
                    Some(session)
                }
                _ => None,
            })
        };
        let ours = |session: &&Rc<Session>| session.noted.opened_as.get() == Some(to);
        let has_it_here = |session: &&Rc<Session>| {
            to.address().is_none() && self.is_known_here(&session.carrier, name)
        };
        sessions().find(ours).or_else(|| sessions().find(has_it_here)).cloned()
    }

    /// The open session in memory with a node of this host that listens at an address, if there is one whose peer is
    /// that node for sure.
    pub(crate) fn session_at(&self, name: &NodeName, at: SocketAddr) -> Option<Rc<Session>> {
        let places = self.peers.places.borrow();
        let is_sure = |session: &Session| {
            session.noted.opened_as.get().is_some() || self.is_known_here(&session.carrier, name)
        };
        let session = places.here().find_map(|place| match place {
            Place::Open(session)
                if session.carrier.peer.name.as_ref() == Some(name)
                    && !session.ending.goodbye.get()
                    && session.carrier.peer.is_reached_at(at)
                    && is_sure(session) =>
            {
                Some(session)
            }
            _ => None,
        });
        session.cloned()
    }

    /// The open session over a network with this incarnation of a node, whichever side has opened it.
    pub(crate) fn session_of(&self, name: &NodeName, incarnation: u64) -> Option<Rc<Session>> {
        let places = self.peers.places.borrow();
        let session = places.iter().find_map(|place| match place {
            Place::Open(session)
                if session.carrier.peer.incarnation == incarnation
                    && session.carrier.peer.name.as_ref() == Some(name)
                    && session.is_remote()
                    && !session.ending.goodbye.get() =>
            {
                Some(session)
            }
            _ => None,
        });
        session.cloned()
    }

    /// Returns whether the peer of a session has proved the name that it says it has: once its process held the lock of
    /// the name, or by its certificate. Over TCP in plaintext nobody proves a name.
    pub(crate) fn has_proved(&self, session: &Session) -> bool {
        let (carrier, proved) = (&session.carrier, &session.noted.proved);
        let Some(name) = &carrier.peer.name else { return false };
        if !proved.get() {
            let by_certificate = carrier.reach() == Reach::Network { certified: true };
            proved.set(by_certificate || self.is_known_here(carrier, name));
        }
        proved.get()
    }

    /// Returns whether the node which has this name on this host is the peer.
    fn is_known_here(&self, carrier: &Carrier, name: &NodeName) -> bool {
        let (peer, program) = (&carrier.peer, self.home.program().name());
        match (carrier.reach(), &self.settings.place) {
            (Reach::Process, _) => local::has_node(program, name, peer.incarnation),
            (Reach::Host, Some(place)) => {
                peer.pid.is_some() && shared::process_of(place, program, name) == peer.pid
            }
            (Reach::Host, None) => false,
            // A node of another host has no name here.
            (Reach::Network { .. }, _) => false,
        }
    }
}
