//! The receiving side: the number of accepted requests, and the places of the others.

use super::{Budget, Share, stray_place};
use crate::fault::Rule;
use crate::frame::Kind;
use crate::limits::{GRANTS_AHEAD, PLACES_MAX};
use crate::mutant::{Mutant, mutated};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The receiving side of one direction. `P` is a payload that waits here, or a reference to one that waits in its
/// sender's memory.
#[derive(Clone, Debug)]
pub struct Receiver<P> {
    /// The number of the next request to be accepted.
    accepted: u64,
    /// The places of the announced requests that are not accepted, from that number on.
    places: VecDeque<Place<P>>,
    /// The number of places that are granted and not yet filled.
    pub(super) granted: usize,
    places_max: usize,
}

/// The place of an announced request that is not accepted.
#[derive(Clone, Debug)]
enum Place<P> {
    /// The request is here, or can be fetched without its sender.
    Here { request: P, bytes: u64, charged: bool },
    /// The sender has the request, and sends it after a grant.
    Away { bytes: u64, granted: bool },
    /// The request was withdrawn.
    Void,
}

/// The next action for the waiting requests.
#[derive(Debug, PartialEq, Eq)]
pub enum ReceiverAction<P> {
    /// Accept this request: it is its turn.
    Accept {
        /// The request, or a reference to it.
        request: P,
        /// The charge of the request, if it is kept.
        bytes: u64,
    },
    /// Tell the sender that there is room for the request of this number.
    Grant(u64),
}

impl<P> Receiver<P> {
    /// Creates a direction in which nothing has come.
    pub const fn new() -> Receiver<P> {
        Receiver::with_places(PLACES_MAX)
    }

    /// Creates a direction with this many places, which the sender must know:
    /// [`Sender::with_window`](super::Sender::with_window).
    pub const fn with_places(places_max: usize) -> Receiver<P> {
        Receiver { accepted: 0, places: VecDeque::new(), granted: 0, places_max }
    }

    /// Returns the number up to which requests were accepted.
    #[inline]
    pub const fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns the number of announced requests that are not accepted.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.places.len()
    }

    /// Accepts requests that have come while none waited.
    #[inline]
    pub fn accept(&mut self, requests: u64) {
        debug_assert!(
            requests == 0 || self.places.is_empty(),
            "a request overtakes the waiting ones"
        );
        self.accepted += if mutated(Mutant::AcceptUncounted) { 0 } else { requests };
    }

    /// Keeps a place for a request that is here, or that can be fetched when its turn comes.
    pub fn keep(&mut self, request: P, bytes: u64) -> Result<u64, Rule> {
        self.push(Place::Here { request, bytes, charged: false })
    }

    /// Keeps a place for a request that stays at its sender and asks for room.
    pub fn await_grant(&mut self, bytes: u64) -> Result<u64, Rule> {
        self.push(Place::Away { bytes, granted: false })
    }

    fn push(&mut self, place: Place<P>) -> Result<u64, Rule> {
        if self.places.len() >= self.places_max {
            return Err(Rule::TooManyPlaces { max: self.places_max as u32 });
        }
        let number = self.accepted + self.places.len() as u64;
        let place = if mutated(Mutant::PlaceForgotten) { Place::Void } else { place };
        if mutated(Mutant::PlaceInFront) {
            self.places.push_front(place);
            return Ok(number);
        }
        self.places.push_back(place);
        Ok(number)
    }

    /// Handles the arrival of a request to which room was granted.
    pub fn fill(&mut self, number: u64, request: P, len: u64) -> Result<(), Rule> {
        let place = self.place(number).ok_or_else(|| stray_place(Kind::Call, number))?;
        let &mut Place::Away { bytes, granted: true } = place else {
            return Err(stray_place(Kind::Call, number));
        };
        if len > bytes && !mutated(Mutant::FillUnbounded) {
            return Err(Rule::BeyondReserved { len, reserved: bytes });
        }
        *place = Place::Here { request, bytes, charged: !mutated(Mutant::FillUncharged) };
        self.granted -= usize::from(!mutated(Mutant::FillKeepsGrant));
        Ok(())
    }

    /// Handles the withdrawal of a reservation, or the cancel of a request that waits here: its place is passed
    /// over. Returns the request that waited here, for the caller to drop.
    pub fn void(
        &mut self,
        number: u64,
        node: &mut Budget,
        share: &mut Share,
    ) -> Result<Option<P>, Rule> {
        let place = self.place(number).ok_or_else(|| stray_place(Kind::Withdraw, number))?;
        let old = core::mem::replace(place, Place::Void);
        if mutated(Mutant::VoidRemoves) {
            self.places.remove((number - self.accepted) as usize);
        }
        match old {
            Place::Away { bytes, granted } => {
                if granted {
                    self.granted -= 1;
                    if !mutated(Mutant::VoidKeepsCharge) {
                        node.release(share, bytes);
                    }
                    if mutated(Mutant::VoidReleasesTwice) {
                        node.release(share, bytes);
                    }
                }
                Ok(None)
            }
            Place::Here { request, bytes, charged } => {
                if charged {
                    node.release(share, bytes);
                }
                Ok(Some(request))
            }
            Place::Void => Err(stray_place(Kind::Withdraw, number)),
        }
    }

    /// Returns the number of the first waiting request for which `is_it` returns true.
    pub fn find(&self, mut is_it: impl FnMut(&P) -> bool) -> Option<u64> {
        let is_it =
            |place: &Place<P>| matches!(place, Place::Here { request, .. } if is_it(request));
        Some(self.accepted + self.places.iter().position(is_it)? as u64)
    }

    fn place(&mut self, number: u64) -> Option<&mut Place<P>> {
        let index = number.checked_sub(self.accepted)?;
        self.places.get_mut(usize::try_from(index).ok()?)
    }

    /// Returns the next action that is possible now, if there is one.
    pub fn step(&mut self, node: &mut Budget, share: &mut Share) -> Option<ReceiverAction<P>> {
        while let Some(Place::Void) = self.places.front()
            && !mutated(Mutant::VoidStays)
        {
            self.pass();
        }
        if mutated(Mutant::StepPassesFront) && self.places.len() > 1 {
            self.places.swap(0, 1);
        }
        if let Some(&Place::Here { bytes, charged, .. }) = self.places.front()
            && (charged || node.admits(share, bytes) || mutated(Mutant::StepIgnoresBudget))
            && let Some(Place::Here { request, .. }) = self.pass()
        {
            if charged {
                node.release(share, bytes);
            }
            return Some(ReceiverAction::Accept { request, bytes });
        }
        self.grant(node, share).map(ReceiverAction::Grant)
    }

    fn pass(&mut self) -> Option<Place<P>> {
        self.accepted += u64::from(!mutated(Mutant::PassUncounted));
        self.places.pop_front()
    }

    /// Grants room to the first request that waits at its sender, if there is room and its turn is near.
    fn grant(&mut self, node: &mut Budget, share: &mut Share) -> Option<u64> {
        if self.granted >= GRANTS_AHEAD {
            return None;
        }
        for (number, place) in (self.accepted..).zip(&mut self.places).take(GRANTS_AHEAD) {
            match place {
                Place::Away { bytes, granted: granted @ false } => {
                    if !node.admits(share, *bytes) && !mutated(Mutant::GrantIgnoresBudget) {
                        return None;
                    }
                    if !mutated(Mutant::GrantUncharged) {
                        node.charge(share, *bytes);
                    }
                    *granted = !mutated(Mutant::GrantTwice);
                    self.granted += 1;
                    return Some(number);
                }
                // A request that waits here comes before all that follow it, and needs the room first.
                Place::Here { charged: false, .. } if !mutated(Mutant::GrantPassesHere) => {
                    return None;
                }
                _ => {}
            }
        }
        None
    }

    /// Removes all waiting requests because the session ends, and returns those that are here.
    pub fn clear(&mut self, node: &mut Budget, share: &mut Share) -> Vec<P> {
        let mut requests = Vec::new();
        for place in self.places.drain(..) {
            match place {
                Place::Here { request, bytes, charged } => {
                    if charged {
                        node.release(share, bytes);
                    }
                    requests.push(request);
                }
                Place::Away { .. } if mutated(Mutant::ClearKeepsCharge) => {}
                Place::Away { bytes, granted: true } => node.release(share, bytes),
                Place::Away { .. } | Place::Void => {}
            }
        }
        self.granted = 0;
        requests
    }
}

impl<P> Default for Receiver<P> {
    fn default() -> Receiver<P> {
        Receiver::new()
    }
}
