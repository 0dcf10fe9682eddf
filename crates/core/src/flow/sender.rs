//! The sending side: the number of sent and accepted requests, and the requests in a special state.

use super::{SendMode, stray_place};
use crate::fault::Rule;
use crate::frame::Kind;
use crate::limits::{OPTIMISM, PLACES_RESERVED, SHORT_BYTES};
use crate::mutant::{Mutant, mutated};
use alloc::collections::VecDeque;

/// The sending side of one direction of a session.
///
/// ```
/// use upbeat_core::flow::{Sender, SendMode};
///
/// let mut sender = Sender::new(true);
/// assert_eq!(sender.way(1 << 20), SendMode::Go);
/// assert_eq!(Sender::new(false).way(1 << 20), SendMode::Reserve);
/// assert_eq!(sender.sent(), 0);
/// sender.handle_progress(1)?;
/// assert!(sender.handle_progress(2).is_err(), "only one request was sent");
/// # Ok::<(), upbeat_core::fault::Rule>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sender {
    /// The number of the next request.
    out: u64,
    /// The number up to which requests are known to be accepted.
    safe: u64,
    /// The number of open requests up to which a request may be sent without asking.
    optimism: u64,
    /// The number of open requests up to which a request may be sent at all.
    window: u64,
    /// The requests that were refused or that asked for room.
    special: VecDeque<(u64, RequestState)>,
}

/// The state of a request that was refused or that asked for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestState {
    Refused,
    Reserved,
    Granted,
    Transferred,
    Withdrawn,
}

impl Sender {
    /// Creates a direction in which nothing was sent. Without optimism every request that is not short asks first,
    /// as in the protocol with which the paper compares its own.
    pub const fn new(optimistic: bool) -> Sender {
        Sender::with_window(if optimistic { OPTIMISM } else { 0 }, PLACES_RESERVED)
    }

    /// Creates a direction with other bounds than those of [`limits`](crate::limits). Both sides must know the
    /// bounds: the receiver keeps as many places as the sum of both.
    pub const fn with_window(optimism: usize, reserved: usize) -> Sender {
        let window = (optimism + reserved) as u64;
        Sender { out: 0, safe: 0, optimism: optimism as u64, window, special: VecDeque::new() }
    }

    /// Returns the number of requests that are not known to be accepted.
    #[inline]
    pub const fn open(&self) -> u64 {
        self.out - self.safe
    }

    /// Returns the number of the next request.
    #[inline]
    pub const fn out(&self) -> u64 {
        self.out
    }

    /// Returns the number up to which requests are known to be accepted.
    #[inline]
    pub const fn safe(&self) -> u64 {
        self.safe
    }

    /// Returns the number of requests in a special state, which is at most that of the open ones.
    #[inline]
    pub fn special(&self) -> usize {
        self.special.len()
    }

    /// Returns how a request with this many bytes of payload may be sent.
    #[inline]
    pub fn way(&self, bytes: usize) -> SendMode {
        let open = self.open();
        match bytes <= SHORT_BYTES {
            _ if open >= self.window => SendMode::Wait,
            true => SendMode::Go,
            false if open < self.optimism => SendMode::Go,
            false => SendMode::Reserve,
        }
    }

    /// Counts a request that is sent, and returns its number.
    #[inline]
    pub fn sent(&mut self) -> u64 {
        self.out += if mutated(Mutant::NumberSkipped) && self.out == 5 { 2 } else { 1 };
        self.out - 1
    }

    /// Returns how many short requests may be sent, including those that go into reserved room.
    #[inline]
    pub const fn window_left(&self) -> u64 {
        self.window.saturating_sub(self.open())
    }

    /// Returns whether no request is known to be refused and not yet accepted.
    pub fn is_calm(&self) -> bool {
        !self.special.iter().any(|(_, special)| *special == RequestState::Refused)
    }

    /// Counts `requests` requests that were sent.
    pub fn went(&mut self, requests: u64) {
        debug_assert!(
            requests <= self.window_left(),
            "more requests were sent than the window allows"
        );
        self.out += requests;
    }

    /// Counts a request that asks for room, and returns its number.
    pub fn reserved(&mut self) -> u64 {
        let number = self.sent();
        if !mutated(Mutant::ReserveForgotten) {
            self.special.push_back((number, RequestState::Reserved));
        }
        number
    }

    /// Handles the receiver's report that it has accepted all requests before number `accepted`. Returns whether
    /// the report is new. The receiver cannot have accepted a request that asked for room and was not sent.
    pub fn handle_progress(&mut self, accepted: u64) -> Result<bool, Rule> {
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
        let passed = self.special.partition_point(|(number, _)| *number < accepted);
        let waits = |special| matches!(special, RequestState::Reserved | RequestState::Granted);
        let mut passing = self.special.range(..passed);
        if let Some(&(number, _)) = passing.find(|&&(_, special)| waits(special))
            && !mutated(Mutant::ReservedUnchecked)
        {
            return Err(Rule::CreditAhead { seen: accepted, out: number });
        }
        if !mutated(Mutant::SpecialStays) {
            self.special.drain(..passed);
        }
        self.safe = accepted;
        if mutated(Mutant::SafeBeyond) && accepted < self.out {
            self.safe += 1;
        }
        Ok(true)
    }

    /// Handles the refusal of a request. The receiver's progress may be seen before the frame with the refusal;
    /// the request has then been accepted since.
    pub fn refused(&mut self, number: u64) -> Result<(), Rule> {
        if self.is_past(Kind::Nack, number)? {
            return match mutated(Mutant::NackStray) {
                true => Err(stray_place(Kind::Nack, number)),
                false => Ok(()),
            };
        }
        match self.find(number) {
            Ok(_) => Err(stray_place(Kind::Nack, number)),
            Err(at) => {
                self.special.insert(at, (number, RequestState::Refused));
                Ok(())
            }
        }
    }

    /// Handles the grant of room to a request that asked for it. Returns whether the request is still wanted; the
    /// caller then sends it and calls [`Sender::transferred`]. The receiver's progress may be seen before the
    /// grant; the request was then withdrawn and passed over.
    pub fn granted(&mut self, number: u64) -> Result<bool, Rule> {
        if self.is_past(Kind::Grant, number)? || mutated(Mutant::GrantIgnored) {
            return Ok(false);
        }
        match self.special_mut(number) {
            Some(RequestState::Withdrawn) => Ok(false),
            Some(special @ RequestState::Reserved) => {
                *special = RequestState::Granted;
                Ok(true)
            }
            // A refused request needs no grant, since the receiver fetches it.
            _ => Err(stray_place(Kind::Grant, number)),
        }
    }

    /// Records that a granted request is sent.
    pub fn transferred(&mut self, number: u64) {
        let special = self.special_mut(number);
        debug_assert_eq!(
            special,
            Some(&mut RequestState::Granted),
            "request {number} was not granted"
        );
        if let Some(special) = special
            && !mutated(Mutant::TransferForgotten)
        {
            *special = RequestState::Transferred;
        }
    }

    /// Withdraws a request that asked for room and was not sent. Returns whether the receiver must be told. A
    /// refused request waits at the receiver, and a cancel withdraws it.
    pub fn withdraw(&mut self, number: u64) -> bool {
        match self.special_mut(number) {
            Some(special @ (RequestState::Reserved | RequestState::Granted)) => {
                *special = RequestState::Withdrawn;
                !mutated(Mutant::WithdrawUntold)
            }
            _ => false,
        }
    }

    /// Returns the index of a special request, or the index at which it would be inserted.
    fn find(&self, number: u64) -> Result<usize, usize> {
        self.special.binary_search_by_key(&number, |(number, _)| *number)
    }

    fn special_mut(&mut self, number: u64) -> Option<&mut RequestState> {
        let at = self.find(number).ok()?;
        self.special.get_mut(at).map(|(_, special)| special)
    }

    /// Returns whether the request that a frame of this kind names is known to be accepted or passed over. Returns
    /// a rule if the request was never sent.
    fn is_past(&self, kind: Kind, number: u64) -> Result<bool, Rule> {
        if number >= self.out { Err(stray_place(kind, number)) } else { Ok(number < self.safe) }
    }
}
