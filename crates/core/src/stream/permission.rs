//! The permission of a sender to announce a segment in a byte stream: its questions, and the receiver's answers.
//!
//! A segment of the sender takes memory of the receiver, which may have no room. A sender therefore sends a
//! [`SegmentRequest`] first, and announces the segment when the wish is granted. If the wish is declined, the sender
//! continues with the memory that it has. [`Asking`] is the sender's side. [`Granting`] is the receiver's side: it
//! takes the bytes from its session's share of the node's [`Quota`] when it grants a wish, and passes the charge
//! on with the segment. One wish is open at a time, and a newer wish replaces one that was granted and not used. A
//! wish without an answer is sent again over another connection. Other modules have the sizes and the memory of
//! segments. Invariant: a receiver holds the charge of at most one wish whose segment has not come.

use crate::quota::{Charge, Quota, Share};

/// A segment that a sender wishes to announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRequest {
    /// The bytes of a buffer, or of the ring in which the sender's lane is to continue.
    pub each: u32,
    /// The number of buffers, or 0 for a ring.
    pub count: u32,
}

impl SegmentRequest {
    /// The wish of a sender that gives up what it was granted.
    pub const NONE: SegmentRequest = SegmentRequest { each: 0, count: 0 };

    /// Returns the wish for a ring of `bytes` bytes.
    pub const fn ring(bytes: u32) -> SegmentRequest {
        SegmentRequest { each: bytes, count: 0 }
    }

    /// Returns the wish of a word on the wire.
    pub const fn from_u64(word: u64) -> SegmentRequest {
        SegmentRequest { each: word as u32, count: (word >> 32) as u32 }
    }

    /// Returns the word on the wire.
    pub const fn as_u64(self) -> u64 {
        self.each as u64 | (self.count as u64) << 32
    }
}

/// The answer to a sender that wants to announce a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The segment may be announced now.
    Granted,
    /// The peer has no room for it now.
    Declined,
    /// The peer has not answered.
    Awaited,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// The wish must be sent.
    Wanted(SegmentRequest),
    Shown(SegmentRequest),
    /// The wish is granted or declined, and others have asked this many times since.
    Answered {
        wish: SegmentRequest,
        granted: bool,
        passed: u32,
    },
}

/// How often others may ask before an answer is given up for them, since its sender may be about to hear it.
const PASSED_MAX: u32 = 8;

/// The sender's wishes. [`Asking::permission`] returns whether a segment may be announced, and asks if it may not.
/// [`Asking::announced`] follows the announcement, [`Asking::show`] returns the wish to be sent,
/// [`Asking::answered`] takes the answer, and [`Asking::again`] is called for another connection.
///
/// ```
/// use upbeat_core::stream::{Asking, Permission, SegmentRequest};
///
/// let (mut asking, wish) = (Asking::default(), SegmentRequest::ring(65_536));
/// assert_eq!(asking.permission(wish), Permission::Awaited);
/// assert_eq!(asking.show(), Some(wish));
/// asking.answered(true);
/// assert_eq!(asking.permission(wish), Permission::Granted);
/// asking.announced();
/// assert_eq!(asking.permission(wish), Permission::Awaited, "each segment needs an answer");
/// ```
#[derive(Debug, Default)]
pub struct Asking {
    state: State,
    /// Whether an answer came that no waiter has seen.
    news: bool,
    /// Whether an asker was put off for the asker of an older answer.
    put_off: bool,
}

impl Asking {
    /// Returns whether a segment may be announced, and asks the peer if that is not known. A declined wish is
    /// reported once; the next call asks again.
    pub fn permission(&mut self, wish: SegmentRequest) -> Permission {
        match self.state {
            State::Answered { wish: answered, granted, .. } if answered == wish => {
                if granted {
                    return Permission::Granted;
                }
                self.state = State::Idle;
                return Permission::Declined;
            }
            State::Answered { wish: other, granted, passed } if passed < PASSED_MAX => {
                self.state = State::Answered { wish: other, granted, passed: passed + 1 };
                // The sender that asks now waits for news, and tries again when there are some.
                self.news = true;
                self.put_off = true;
            }
            // The sender asks for this one after the open wish is answered.
            State::Wanted(_) | State::Shown(_) => {}
            State::Idle | State::Answered { .. } => self.state = State::Wanted(wish),
        }
        Permission::Awaited
    }

    /// Records that the granted segment is announced.
    pub fn announced(&mut self) {
        if let State::Answered { granted: true, .. } = self.state {
            self.state = State::Idle;
        }
    }

    /// Gives up a grant that was not used, which the peer is told.
    pub fn withdraw(&mut self) {
        if let State::Answered { granted: true, .. } = self.state {
            self.state = State::Wanted(SegmentRequest::NONE);
        }
    }

    /// Returns whether there is a wish to send.
    pub const fn is_due(&self) -> bool {
        matches!(self.state, State::Wanted(_))
    }

    /// Returns the wish that must be sent now, if there is one.
    pub fn show(&mut self) -> Option<SegmentRequest> {
        let State::Wanted(wish) = self.state else { return None };
        self.state = if wish == SegmentRequest::NONE { State::Idle } else { State::Shown(wish) };
        Some(wish)
    }

    /// Handles the peer's answer. An answer without a wish is ignored.
    pub fn answered(&mut self, granted: bool) {
        if let State::Shown(wish) = self.state {
            self.state = State::Answered { wish, granted, passed: 0 };
            self.news = true;
        }
    }

    /// Returns whether an answer came since [`Asking::was_heard`].
    pub const fn has_news(&self) -> bool {
        self.news
    }

    /// Returns whether an asker was put off since the last call. The owner has it try again before it sleeps: the answer
    /// that it waits for may be one that nobody will hear.
    pub fn was_put_off(&mut self) -> bool {
        core::mem::take(&mut self.put_off)
    }

    /// Records that the waiters of the answer were woken.
    pub fn was_heard(&mut self) {
        self.news = false;
    }

    /// Handles another connection: a wish without an answer is sent again.
    pub fn again(&mut self) {
        if let State::Shown(wish) = self.state {
            self.state = State::Wanted(wish);
        }
    }
}

/// The receiver's answers to the sender's wishes, and the charge of the granted wish.
#[derive(Debug, Default)]
pub struct Granting {
    /// The session's share of the node's quota, or none if no quota bounds the session.
    share: Option<Share>,
    granted: Option<(SegmentRequest, Option<Charge>)>,
    answer: Option<bool>,
}

/// The error of a segment for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Granting {
    /// Sets the quota from which later grants are taken.
    pub fn set_quota(&mut self, quota: &Quota) {
        self.share = Some(quota.share());
    }

    /// Takes `bytes` bytes for something that the peer need not ask for.
    pub fn take(&mut self, bytes: u64) -> Result<Option<Charge>, NoRoom> {
        match &mut self.share {
            None => Ok(None),
            Some(share) => share.take(bytes).map(Some).ok_or(NoRoom),
        }
    }

    /// Handles the peer's wish to announce a segment of `bytes` bytes, or of more than its session may have
    /// (none). An earlier grant that was not used is released.
    pub fn asked(&mut self, wish: SegmentRequest, bytes: Option<u64>) {
        self.granted = None;
        if wish == SegmentRequest::NONE {
            self.answer = None;
            return;
        }
        let taken = bytes.ok_or(NoRoom).and_then(|bytes| self.take(bytes));
        self.answer = Some(taken.is_ok());
        self.granted = taken.ok().map(|charge| (wish, charge));
    }

    /// Returns the answer that must be sent, once.
    pub fn answer(&mut self) -> Option<bool> {
        self.answer.take()
    }

    /// Handles the announcement of a segment of `bytes` bytes. Returns its charge, from the grant or, if the peer
    /// has not asked, from the quota now.
    pub fn announced(
        &mut self,
        wish: SegmentRequest,
        bytes: u64,
    ) -> Result<Option<Charge>, NoRoom> {
        match self.granted.take_if(|(granted, _)| *granted == wish) {
            Some((_, charge)) => Ok(charge),
            None => self.take(bytes),
        }
    }

    /// Handles the loss of the connection: an answer that was not sent is not due any more. A grant stays, since
    /// the segment may be announced again.
    pub fn forget(&mut self) {
        self.answer = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: SegmentRequest = SegmentRequest::ring(65_536);
    const SLAB: SegmentRequest = SegmentRequest { each: 512, count: 8 };

    fn granting(most: u64) -> (Granting, Quota) {
        let (mut granting, quota) = (Granting::default(), Quota::new(most));
        granting.set_quota(&quota);
        (granting, quota)
    }

    #[test]
    fn a_wish_is_sent_once_and_answered_once() {
        let mut asking = Asking::default();
        assert_eq!(asking.permission(RING), Permission::Awaited);
        assert_eq!(asking.permission(SLAB), Permission::Awaited, "one wish is open at a time");
        assert_eq!((asking.show(), asking.show()), (Some(RING), None));
        assert_eq!(asking.permission(RING), Permission::Awaited);
        assert!(!asking.is_due() && !asking.has_news());
        asking.answered(false);
        assert!(asking.has_news());
        asking.was_heard();
        assert_eq!(asking.permission(RING), Permission::Declined);
        assert_eq!(asking.permission(RING), Permission::Awaited, "there may be room by now");
        assert_eq!(asking.show(), Some(RING));
        asking.answered(true);
        asking.answered(false);
        assert_eq!(asking.permission(RING), Permission::Granted, "the second answer is ignored");
    }

    #[test]
    fn an_answer_waits_some_time_for_its_sender() {
        for (granted, answer) in [(true, Permission::Granted), (false, Permission::Declined)] {
            let mut asking = Asking::default();
            asking.permission(RING);
            asking.show();
            asking.answered(granted);
            asking.was_heard();
            for _ in 0..PASSED_MAX {
                assert_eq!(asking.permission(SLAB), Permission::Awaited);
                assert!(
                    asking.has_news() && !asking.is_due(),
                    "the waiter tries again, and no wish is sent"
                );
                assert!(asking.was_put_off() && !asking.was_put_off());
            }
            assert_eq!(asking.permission(RING), answer);
            assert_eq!(asking.permission(SLAB), Permission::Awaited);
            assert!(!asking.was_put_off());
            assert_eq!(asking.show(), Some(SLAB));
        }
    }

    #[test]
    fn an_unused_answer_is_given_up_and_a_grant_is_withdrawn() {
        let mut asking = Asking::default();
        for granted in [true, false] {
            asking.permission(RING);
            asking.show();
            asking.answered(granted);
            for _ in 0..=PASSED_MAX {
                assert_eq!(asking.permission(SLAB), Permission::Awaited);
            }
            assert_eq!(asking.show(), Some(SLAB));
            asking.answered(false);
            assert_eq!(asking.permission(SLAB), Permission::Declined);
        }
        asking.permission(SLAB);
        asking.show();
        asking.answered(true);
        asking.withdraw();
        assert_eq!((asking.show(), asking.show()), (Some(SegmentRequest::NONE), None));
        assert_eq!(asking.permission(SLAB), Permission::Awaited);
    }

    #[test]
    fn another_connection_repeats_a_wish_without_an_answer() {
        let mut asking = Asking::default();
        asking.permission(SLAB);
        asking.show();
        asking.again();
        assert_eq!(asking.show(), Some(SLAB));
        asking.answered(true);
        asking.again();
        assert_eq!((asking.show(), asking.permission(SLAB)), (None, Permission::Granted));
    }

    #[test]
    fn a_grant_is_charged_once_and_goes_with_its_segment() {
        let (mut granting, quota) = granting(200);
        granting.asked(RING, Some(60));
        assert_eq!((granting.answer(), granting.answer(), quota.held()), (Some(true), None, 60));
        // The answer was lost with the connection, and the peer asks again.
        granting.forget();
        granting.asked(RING, Some(60));
        assert_eq!((granting.answer(), quota.held()), (Some(true), 60));
        granting.forget();
        let charge = granting.announced(RING, 60).unwrap();
        assert_eq!(quota.held(), 60);
        granting.asked(SLAB, Some(60));
        assert_eq!((granting.answer(), quota.held()), (Some(false), 60));
        drop(charge);
        assert_eq!(quota.held(), 0);
    }

    #[test]
    fn a_newer_wish_and_no_wish_release_the_older_grant() {
        let (mut granting, quota) = granting(200);
        granting.asked(RING, Some(60));
        granting.asked(SLAB, Some(70));
        assert_eq!((granting.answer(), quota.held()), (Some(true), 70));
        granting.asked(SegmentRequest::NONE, None);
        assert_eq!((granting.answer(), quota.held()), (None, 0));
        granting.asked(SLAB, None);
        assert_eq!((granting.answer(), quota.held()), (Some(false), 0), "more than it may have");
        granting.asked(SLAB, Some(70));
        drop(granting);
        assert_eq!(quota.held(), 0, "the session has ended");
    }

    #[test]
    fn a_segment_without_a_wish_is_charged_if_there_is_room() {
        let (mut granting, quota) = granting(200);
        granting.asked(RING, Some(60));
        assert_eq!(granting.announced(SLAB, 50).err(), Some(NoRoom));
        let charge = granting.announced(SLAB, 40).unwrap();
        assert_eq!((quota.held(), charge.map(|charge| charge.bytes())), (100, Some(40)));
        let unbounded = Granting::default().announced(RING, u64::MAX);
        assert!(unbounded.is_ok_and(|charge| charge.is_none()));
    }
}
