//! The sending side: what has gone, what is known to be accepted, what did not simply go.

use super::{Way, stray};
use crate::fault::Rule;
use crate::frame::Kind;
use crate::limits::{OPTIMISM, PLACES_RESERVED, SHORT_BYTES};
use crate::mutant::{Mutant, mutated};
use alloc::collections::VecDeque;

/// The sending side of one direction.
///
/// ```
/// use upbeat_core::flow::{Sender, Way};
///
/// let mut sender = Sender::new(true);
/// assert_eq!(sender.way(1 << 20), Way::Go);
/// assert_eq!(Sender::new(false).way(1 << 20), Way::Reserve);
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
    special: VecDeque<(u64, Special)>,
}

/// The state of a request that did not simply go, as far as its sender knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    Refused,
    Reserved,
    Granted,
    Transferred,
    Withdrawn,
}

impl Sender {
    /// A direction in which nothing was sent. Without optimism every request that is not short asks
    /// first, as in the protocol that the paper compares itself with.
    pub const fn new(optimistic: bool) -> Sender {
        Sender::with_window(if optimistic { OPTIMISM } else { 0 }, PLACES_RESERVED)
    }

    /// The same with other bounds than those of [`limits`](crate::limits), which both sides must
    /// know: the receiver keeps as many places as both together.
    pub const fn with_window(optimism: usize, reserved: usize) -> Sender {
        let window = (optimism + reserved) as u64;
        Sender { out: 0, safe: 0, optimism: optimism as u64, window, special: VecDeque::new() }
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

    /// Requests of which more is known than that they have gone. They are no more than are open.
    #[inline]
    pub fn special(&self) -> usize {
        self.special.len()
    }

    /// How a request of so many payload bytes may go, by what is known.
    #[inline]
    pub fn way(&self, bytes: usize) -> Way {
        let open = self.open();
        match bytes <= SHORT_BYTES {
            _ if open >= self.window => Way::Wait,
            true => Way::Go,
            false if open < self.optimism => Way::Go,
            false => Way::Reserve,
        }
    }

    /// A request goes; gives its number.
    #[inline]
    pub fn sent(&mut self) -> u64 {
        self.out += if mutated(Mutant::NumberSkipped) && self.out == 5 { 2 } else { 1 };
        self.out - 1
    }

    /// So many short ones may go, those included that go directly into their places.
    #[inline]
    pub const fn window_left(&self) -> u64 {
        self.window.saturating_sub(self.open())
    }

    /// Whether no request is known to be refused and not yet accepted.
    pub fn is_calm(&self) -> bool {
        !self.special.iter().any(|(_, special)| *special == Special::Refused)
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
            self.special.push_back((number, Special::Reserved));
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
        let passed = self.special.partition_point(|(number, _)| *number < accepted);
        let waits = |special| matches!(special, Special::Reserved | Special::Granted);
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

    /// The receiver had no room for a request. Its progress may be seen before the frame that says so:
    /// then the request has been accepted since.
    pub fn refused(&mut self, number: u64) -> Result<(), Rule> {
        if self.is_past(Kind::Nack, number)? {
            return match mutated(Mutant::NackStray) {
                true => Err(stray(Kind::Nack, number)),
                false => Ok(()),
            };
        }
        match self.find(number) {
            Ok(_) => Err(stray(Kind::Nack, number)),
            Err(at) => {
                self.special.insert(at, (number, Special::Refused));
                Ok(())
            }
        }
    }

    /// The receiver keeps room for a request that asked for it: it is to be sent as
    /// [`Sender::transferred`], if it is still wanted, which is the result. The receiver's progress may be
    /// seen first: then the request was withdrawn, and passed over.
    pub fn granted(&mut self, number: u64) -> Result<bool, Rule> {
        if self.is_past(Kind::Grant, number)? || mutated(Mutant::GrantIgnored) {
            return Ok(false);
        }
        match self.special_mut(number) {
            Some(Special::Withdrawn) => Ok(false),
            Some(special @ Special::Reserved) => {
                *special = Special::Granted;
                Ok(true)
            }
            // The receiver fetches what it has refused.
            _ => Err(stray(Kind::Grant, number)),
        }
    }

    /// A granted request goes.
    pub fn transferred(&mut self, number: u64) {
        let special = self.special_mut(number);
        debug_assert_eq!(special, Some(&mut Special::Granted), "request {number} was not granted");
        if let Some(special) = special
            && !mutated(Mutant::TransferForgotten)
        {
            *special = Special::Transferred;
        }
    }

    /// Nobody wants a request any more that was reserved or granted and has not gone. Gives whether
    /// the receiver is to be told. One that was refused waits at the receiver, which a cancel tells.
    pub fn withdraw(&mut self, number: u64) -> bool {
        match self.special_mut(number) {
            Some(special @ (Special::Reserved | Special::Granted)) => {
                *special = Special::Withdrawn;
                !mutated(Mutant::WithdrawUntold)
            }
            _ => false,
        }
    }

    /// Where a request stands that did not simply go, or would stand.
    fn find(&self, number: u64) -> Result<usize, usize> {
        self.special.binary_search_by_key(&number, |(number, _)| *number)
    }

    fn special_mut(&mut self, number: u64) -> Option<&mut Special> {
        let at = self.find(number).ok()?;
        self.special.get_mut(at).map(|(_, special)| special)
    }

    /// Whether a request that a frame of this kind is about is known to be accepted or passed over;
    /// an error if it was never sent.
    fn is_past(&self, kind: Kind, number: u64) -> Result<bool, Rule> {
        if number >= self.out { Err(stray(kind, number)) } else { Ok(number < self.safe) }
    }
}
