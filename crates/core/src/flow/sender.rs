//! The sending side: what has gone, what is known to be accepted, what did not simply go.

use super::{Size, Way, stray};
use crate::fault::Rule;
use crate::frame::Kind;
use crate::limits::{OPTIMISM, PLACES_RESERVED};
use crate::mutant::{Mutant, mutated};
use alloc::collections::VecDeque;

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
    pub(super) special: VecDeque<(u64, Special)>,
    inquired: bool,
}

/// What is known of a request that did not simply go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
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
        let special = VecDeque::new();
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
        if let Some(&(number, _)) = passing.find(|&&(_, special)| waits(special)) {
            return Err(Rule::CreditAhead { seen: accepted, out: number });
        }
        self.special.drain(..passed);
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
        match self.find(number) {
            Ok(_) => Err(stray(Kind::Nack, number)),
            Err(at) => {
                self.special.insert(at, (number, Special::Refused));
                Ok(())
            }
        }
    }

    /// The receiver keeps room for a request: it is to be sent as [`Sender::transferred`]. In memory
    /// the receiver's progress may be seen first: then the request was withdrawn, and passed over.
    pub fn granted(&mut self, number: u64) -> Result<Granted, Rule> {
        if self.is_past(Kind::Grant, number)? || mutated(Mutant::GrantIgnored) {
            return Ok(Granted::Withdrawn);
        }
        match self.special_mut(number) {
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
        let special = self.special_mut(number);
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
