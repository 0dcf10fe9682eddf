//! Optimistic flow control: a request goes first, and room is asked for only when it was refused.
//!
//! One direction of a session has a [`Sender`] and a [`Receiver`]. Requests are numbered in the order
//! in which the receiver hears of them, by both sides for themselves, for carriers keep order. Short
//! and medium requests go without asking while the receiver has not yet accepted less than a
//! threshold of them; past it a short one goes into room that is reserved for such, a longer one
//! asks first, and a long one always does. A receiver without room for a request keeps its *place*:
//! a short one waits there itself, a longer one waits at its sender, in a buffer from which the
//! receiver fetches it (memory) or from which it is sent again when it was granted (byte stream).
//! Requests are accepted in the order of their numbers, so all later ones of the session wait too;
//! replies and control frames pass by all of this. Order is per session: the paper keeps one queue
//! per node, in which a refused sender delays all others.
//!
//! What it leaves to others: payloads, which are a parameter here, frames, and who waits. Invariant:
//! whatever the peer says, a request is accepted at most once and in its turn, places are bounded by
//! [`PLACES_MAX`], and what was charged to a budget is released once.

mod budget;

pub use self::budget::{Budget, Share};

use crate::fault::Rule;
use crate::frame::Kind;
use crate::limits::{
    GRANTS_AHEAD, MEDIUM_BYTES_MAX, OPTIMISM, PLACES_MAX, PLACES_RESERVED, SHORT_BYTES,
};
use crate::mutant::{Mutant, mutated};
use std::collections::{BTreeMap, VecDeque};

/// How flow control sees the length of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// It fits a slot, and a place.
    Short,
    /// It may be refused, and then waits at its sender.
    Medium,
    /// It is never sent without asking.
    Long,
}

impl Size {
    /// The size of a request of so many payload bytes, extensions included.
    #[inline]
    pub const fn of(bytes: usize) -> Size {
        if bytes <= SHORT_BYTES {
            Size::Short
        } else if bytes <= MEDIUM_BYTES_MAX {
            Size::Medium
        } else {
            Size::Long
        }
    }
}

/// How a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// At once, and the receiver may refuse it.
    Optimistic,
    /// At once, into room that is reserved for short requests.
    Direct,
    /// Room is to be asked for first.
    Reserve,
    /// Not now: too many are on their way. Where progress does not come by itself, it is to be
    /// inquired after, once: [`Sender::inquire`].
    Wait,
}

/// The sending side of one direction.
///
/// ```
/// use upbeat_core::flow::{Sender, Size, Way};
///
/// let mut sender = Sender::new(true);
/// assert_eq!(sender.way(Size::Medium), Way::Optimistic);
/// assert_eq!(sender.way(Size::Long), Way::Reserve);
/// assert_eq!(sender.sent(), 0);
/// sender.heard(1)?;
/// assert!(sender.heard(2).is_err(), "only one was sent");
/// # Ok::<(), upbeat_core::fault::Rule>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sender {
    /// The number of the next request.
    out: u64,
    /// All before it have been accepted, as far as is known.
    safe: u64,
    /// Requests beyond `safe` that may go without asking.
    optimism: u64,
    /// Requests beyond `safe` that may be on their way at all.
    window: u64,
    /// Requests that did not simply go.
    special: BTreeMap<u64, Special>,
    inquired: bool,
}

/// What is known of a request that did not simply go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    Refused,
    Reserved,
    Granted,
    Transferred,
    Withdrawn,
}

/// What a grant is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// A reservation: the request goes now.
    Reserved,
    /// A request that was refused: it goes again.
    Refused,
    /// A request that was withdrawn meanwhile; the receiver hears of that, or has heard.
    Withdrawn,
}

impl Sender {
    /// A direction in which nothing was sent. Without optimism every medium request asks first, as
    /// in the protocol that the paper compares itself with.
    pub const fn new(optimistic: bool) -> Sender {
        Sender::with_window(if optimistic { OPTIMISM } else { 0 }, PLACES_RESERVED)
    }

    /// The same with other bounds than those of [`limits`](crate::limits), which both sides must
    /// know: the receiver keeps as many places as both together.
    pub const fn with_window(optimism: usize, reserved: usize) -> Sender {
        let window = (optimism + reserved) as u64;
        let special = BTreeMap::new();
        Sender { out: 0, safe: 0, optimism: optimism as u64, window, special, inquired: false }
    }

    /// Requests that the receiver is not known to have accepted.
    #[inline]
    pub const fn open(&self) -> u64 {
        self.out - self.safe
    }

    /// The number of the next request.
    #[inline]
    pub const fn out(&self) -> u64 {
        self.out
    }

    /// All requests before this one have been accepted, as far as is known.
    #[inline]
    pub const fn safe(&self) -> u64 {
        self.safe
    }

    /// How a request of this size may go, by what is known.
    #[inline]
    pub fn way(&self, size: Size) -> Way {
        let open = self.open();
        match size {
            Size::Long if mutated(Mutant::LongGoes) => Way::Optimistic,
            Size::Short | Size::Medium if open < self.optimism => Way::Optimistic,
            _ if open >= self.window && !mutated(Mutant::WayNeverWaits) => Way::Wait,
            Size::Short => Way::Direct,
            Size::Medium | Size::Long => Way::Reserve,
        }
    }

    /// A request goes; gives its number.
    #[inline]
    pub fn sent(&mut self) -> u64 {
        self.out += if mutated(Mutant::NumberSkipped) && self.out == 5 { 2 } else { 1 };
        self.out - 1
    }

    /// So many requests may go at once by what is known.
    #[inline]
    pub const fn headroom(&self) -> u64 {
        self.optimism.saturating_sub(self.open())
    }

    /// So many short ones may go, those included that go directly into their places.
    #[inline]
    pub const fn window_left(&self) -> u64 {
        self.window.saturating_sub(self.open())
    }

    /// Whether no request is known to be refused and not yet accepted.
    pub fn is_calm(&self) -> bool {
        !self.special.values().any(|special| *special == Special::Refused)
    }

    /// So many of them went.
    pub fn went(&mut self, requests: u64) {
        debug_assert!(requests <= self.window_left(), "more went than might");
        self.out += requests;
    }

    /// Room is asked for; gives the request's number.
    pub fn reserved(&mut self) -> u64 {
        let number = self.sent();
        if !mutated(Mutant::ReserveForgotten) {
            self.special.insert(number, Special::Reserved);
        }
        number
    }

    /// The receiver says that it has accepted all requests before number `accepted`. Gives whether
    /// that was new. It cannot have accepted one for which room was asked and which did not go.
    pub fn heard(&mut self, accepted: u64) -> Result<bool, Rule> {
        if accepted < self.safe || accepted > self.out {
            let (seen, before, out) = (accepted, self.safe, self.out);
            return Err(match seen < before {
                true => Rule::CreditBackwards { seen, before },
                false => Rule::CreditAhead { seen, out },
            });
        }
        if accepted == self.safe {
            return Ok(false);
        }
        if !self.special.is_empty() {
            let waits = |special| matches!(special, Special::Reserved | Special::Granted);
            let mut passed = self.special.range(..accepted);
            if let Some((&number, _)) = passed.find(|&(_, &special)| waits(special)) {
                return Err(Rule::CreditAhead { seen: accepted, out: number });
            }
            self.special = self.special.split_off(&accepted);
        }
        self.safe = accepted;
        if mutated(Mutant::SafeBeyond) && accepted < self.out {
            self.safe += 1;
        }
        self.inquired &= mutated(Mutant::InquiryForgotten);
        Ok(true)
    }

    /// Whether to ask how far the receiver is: once, until something new is heard.
    pub const fn inquire(&mut self) -> bool {
        let ask = !self.inquired && self.open() > 0;
        self.inquired |= ask;
        ask
    }

    /// The receiver had no room for a request. In memory its progress may be seen before the frame
    /// that says so: then the request has been accepted since.
    pub fn refused(&mut self, number: u64) -> Result<(), Rule> {
        if self.is_past(Kind::Nack, number)? {
            return match mutated(Mutant::NackStray) {
                true => Err(stray(Kind::Nack, number)),
                false => Ok(()),
            };
        }
        if self.special.contains_key(&number) {
            return Err(stray(Kind::Nack, number));
        }
        self.special.insert(number, Special::Refused);
        Ok(())
    }

    /// The receiver keeps room for a request: it is to be sent as [`Sender::transferred`]. In memory
    /// the receiver's progress may be seen first: then the request was withdrawn, and passed over.
    pub fn granted(&mut self, number: u64) -> Result<Granted, Rule> {
        if self.is_past(Kind::Grant, number)? || mutated(Mutant::GrantIgnored) {
            return Ok(Granted::Withdrawn);
        }
        match self.special.get_mut(&number) {
            Some(Special::Withdrawn) => Ok(Granted::Withdrawn),
            Some(special @ Special::Reserved) => {
                *special = Special::Granted;
                Ok(Granted::Reserved)
            }
            Some(special @ Special::Refused) => {
                *special = Special::Granted;
                Ok(Granted::Refused)
            }
            Some(Special::Granted | Special::Transferred) | None => Err(stray(Kind::Grant, number)),
        }
    }

    /// A granted request goes.
    pub fn transferred(&mut self, number: u64) {
        let special = self.special.get_mut(&number);
        debug_assert_eq!(special, Some(&mut Special::Granted), "request {number} was not granted");
        if let Some(special) = special
            && !mutated(Mutant::TransferForgotten)
        {
            *special = Special::Transferred;
        }
    }

    /// Nobody wants a request any more that was reserved or granted and has not gone. Gives whether
    /// the receiver is to be told. One that was refused may wait where it was refused: over a byte
    /// stream, where it does not, it is withdrawn when it is granted.
    pub fn withdraw(&mut self, number: u64) -> bool {
        match self.special.get_mut(&number) {
            Some(special @ (Special::Reserved | Special::Granted)) => {
                *special = Special::Withdrawn;
                !mutated(Mutant::WithdrawUntold)
            }
            _ => false,
        }
    }

    /// Whether a request that a frame of this kind is about is known to be accepted or passed over;
    /// an error if it was never sent.
    fn is_past(&self, kind: Kind, number: u64) -> Result<bool, Rule> {
        if number >= self.out { Err(stray(kind, number)) } else { Ok(number < self.safe) }
    }
}

#[cold]
fn stray(kind: Kind, number: u64) -> Rule {
    Rule::StrayPlace { kind: kind.byte(), number }
}

/// The receiving side of one direction. `P` is a payload that waits here, or a hold on one that
/// waits in its sender's memory.
#[derive(Clone, Debug)]
pub struct Receiver<P> {
    /// The number of the next request that is to be accepted.
    accepted: u64,
    /// What was heard of and not accepted, from that number on.
    places: VecDeque<Place<P>>,
    /// Places that are granted and not yet filled.
    granted: usize,
    places_max: usize,
}

/// A request that was heard of and not accepted.
#[derive(Clone, Debug)]
enum Place<P> {
    /// It can be had without its sender.
    Here { request: P, bytes: u64, charged: bool },
    /// Its sender has it, and sends it when it is granted.
    Away { bytes: u64, granted: bool },
    /// Nobody wants it any more.
    Void,
}

/// What is to be done for the requests that wait.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<P> {
    /// This request is accepted: it is its turn.
    Accept {
        /// The request, or a hold on it.
        request: P,
        /// What it is charged with, should it be kept.
        bytes: u64,
    },
    /// Tell the sender that there is room for the request of this number.
    Grant(u64),
}

impl<P> Receiver<P> {
    /// A direction in which nothing has come.
    pub const fn new() -> Receiver<P> {
        Receiver::with_places(PLACES_MAX)
    }

    /// The same with so many places, which the sender must know: [`Sender::with_window`].
    pub const fn with_places(places_max: usize) -> Receiver<P> {
        Receiver { accepted: 0, places: VecDeque::new(), granted: 0, places_max }
    }

    /// All requests before this number have been accepted.
    #[inline]
    pub const fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Requests that were heard of and not accepted.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.places.len()
    }

    /// Accepts requests that have come while none waited.
    #[inline]
    pub fn accept(&mut self, requests: u64) {
        debug_assert!(requests == 0 || self.places.is_empty(), "a request passes those that wait");
        self.accepted += if mutated(Mutant::AcceptUncounted) { 0 } else { requests };
    }

    /// Keeps a place for a request that is here, or that can be fetched when it is its turn.
    pub fn keep(&mut self, request: P, bytes: u64) -> Result<u64, Rule> {
        self.push(Place::Here { request, bytes, charged: false })
    }

    /// Keeps a place for a request that stays at its sender: it asks for room, or was refused.
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

    /// A request has come for which room was granted.
    pub fn fill(&mut self, number: u64, request: P, len: u64) -> Result<(), Rule> {
        let place = self.place(number).ok_or_else(|| stray(Kind::Call, number))?;
        let &mut Place::Away { bytes, granted: true } = place else {
            return Err(stray(Kind::Call, number));
        };
        if len > bytes {
            return Err(Rule::BeyondReserved { len, reserved: bytes });
        }
        *place = Place::Here { request, bytes, charged: !mutated(Mutant::FillUncharged) };
        self.granted -= usize::from(!mutated(Mutant::FillKeepsGrant));
        Ok(())
    }

    /// The sender takes a reservation back, or the request that waits here is cancelled: its place
    /// is passed over. Gives what waited here, to be let go.
    pub fn void(
        &mut self,
        number: u64,
        node: &mut Budget,
        share: &mut Share,
    ) -> Result<Option<P>, Rule> {
        let place = self.place(number).ok_or_else(|| stray(Kind::Withdraw, number))?;
        let old = std::mem::replace(place, Place::Void);
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
            Place::Void => Err(stray(Kind::Withdraw, number)),
        }
    }

    /// The number of the waiting request that is looked for.
    pub fn find(&self, mut is_it: impl FnMut(&P) -> bool) -> Option<u64> {
        let is_it =
            |place: &Place<P>| matches!(place, Place::Here { request, .. } if is_it(request));
        Some(self.accepted + self.places.iter().position(is_it)? as u64)
    }

    fn place(&mut self, number: u64) -> Option<&mut Place<P>> {
        let index = number.checked_sub(self.accepted)?;
        self.places.get_mut(usize::try_from(index).ok()?)
    }

    /// What can be done now, as long as there is anything.
    pub fn step(&mut self, node: &mut Budget, share: &mut Share) -> Option<Step<P>> {
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
            return Some(Step::Accept { request, bytes });
        }
        self.grant(node, share).map(Step::Grant)
    }

    fn pass(&mut self) -> Option<Place<P>> {
        self.accepted += u64::from(!mutated(Mutant::PassUncounted));
        self.places.pop_front()
    }

    /// Grants the first request that waits at its sender, if there is room and it is soon its turn.
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
                // What waits here goes before all that comes behind it, and needs the room first.
                Place::Here { charged: false, .. } if !mutated(Mutant::GrantPassesHere) => {
                    return None;
                }
                _ => {}
            }
        }
        None
    }

    /// Forgets all that waits, because the session ends, and gives what was here.
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

#[cfg(test)]
mod tests;
