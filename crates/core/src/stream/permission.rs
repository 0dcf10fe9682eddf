//! Whether a sender may announce a segment in a byte stream: what it has to ask, and what the receiver answers.
//!
//! A segment of the sender's is memory of the receiver's, which may have no room. So a sender shows a [`Wish`],
//! and announces the segment when that was granted; where it was declined, it goes on with the memory that it has. An [`Asking`]
//! is the sender's side. A [`Granting`] is the receiver's: it takes the bytes of its session's share of the node's [`Quota`] when it
//! grants a wish, and hands the charge over with the segment. One wish is open at a time, and a newer one
//! takes the place of one that was granted and not used. Over another connection a wish that has no answer is
//! shown again. What a segment weighs, and its memory, are left to others. The invariant: a receiver holds the
//! charge of one wish at most for which no segment has come.

use crate::quota::{Charge, Quota, Share};

/// The segment that a sender would announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Bytes of a buffer; of the ring, where the sender's lane is to go on.
    pub each: u32,
    /// Buffers; 0 of a ring.
    pub count: u32,
}

impl Wish {
    /// The sender has no use any more for what it was granted.
    pub const NONE: Wish = Wish { each: 0, count: 0 };

    /// Returns the wish for a ring of so many bytes.
    pub const fn ring(bytes: u32) -> Wish {
        Wish { each: bytes, count: 0 }
    }

    /// Returns the wish that a word says.
    pub const fn from_u64(word: u64) -> Wish {
        Wish { each: word as u32, count: (word >> 32) as u32 }
    }

    /// Returns the word that says it.
    pub const fn as_u64(self) -> u64 {
        self.each as u64 | (self.count as u64) << 32
    }
}

/// Whether the peer lets a sender announce the segment that it wishes for.
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
    /// To be shown.
    Wanted(Wish),
    Shown(Wish),
    /// With how often others asked since.
    Granted(Wish, u32),
    Declined(Wish),
}

/// Others ask so often before what was granted is given up for them: whoever it is for may be about to use it.
const PASSED_MAX: u32 = 8;

/// The sender's wishes. [`Asking::permission`] says whether a segment may be announced and asks where it may
/// not, [`Asking::announced`] follows the announcement, [`Asking::show`] gives what is to be shown,
/// [`Asking::answered`] takes the answer, and [`Asking::again`] comes with another connection.
///
/// ```
/// use upbeat_core::stream::{Asking, Permission, Wish};
///
/// let (mut asking, wish) = (Asking::default(), Wish::ring(65_536));
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
    /// An answer came that nobody has looked at.
    news: bool,
}

impl Asking {
    /// Returns whether a segment may be announced; has the peer asked where that is not known. That a wish was
    /// declined is said once: then it is asked anew.
    pub fn permission(&mut self, wish: Wish) -> Permission {
        match self.state {
            State::Granted(granted, _) if granted == wish => return Permission::Granted,
            State::Granted(granted, passed) if passed < PASSED_MAX => {
                self.state = State::Granted(granted, passed + 1);
                // The sender that asks now waits for news, and tries again when it hears of them.
                self.news = true;
            }
            State::Declined(declined) if declined == wish => {
                self.state = State::Idle;
                return Permission::Declined;
            }
            // Another one is asked for when that was answered.
            State::Wanted(_) | State::Shown(_) => {}
            State::Idle | State::Granted(..) | State::Declined(_) => {
                self.state = State::Wanted(wish);
            }
        }
        Permission::Awaited
    }

    /// The segment that was granted is announced.
    pub fn announced(&mut self) {
        if let State::Granted(..) = self.state {
            self.state = State::Idle;
        }
    }

    /// Gives up a grant that nobody has used: the peer is told.
    pub fn withdraw(&mut self) {
        if let State::Granted(..) = self.state {
            self.state = State::Wanted(Wish::NONE);
        }
    }

    /// Returns whether there is something to show.
    pub const fn is_due(&self) -> bool {
        matches!(self.state, State::Wanted(_))
    }

    /// Returns the wish that is shown now, if one is to be.
    pub fn show(&mut self) -> Option<Wish> {
        let State::Wanted(wish) = self.state else { return None };
        self.state = if wish == Wish::NONE { State::Idle } else { State::Shown(wish) };
        Some(wish)
    }

    /// The peer has answered. An answer to nothing is none.
    pub fn answered(&mut self, granted: bool) {
        if let State::Shown(wish) = self.state {
            self.state = if granted { State::Granted(wish, 0) } else { State::Declined(wish) };
            self.news = true;
        }
    }

    /// Returns whether an answer came since [`Asking::was_heard`].
    pub const fn has_news(&self) -> bool {
        self.news
    }

    /// Those who wait for an answer were told.
    pub fn was_heard(&mut self) {
        self.news = false;
    }

    /// The session goes on over another connection: what has no answer is shown again.
    pub fn again(&mut self) {
        if let State::Shown(wish) = self.state {
            self.state = State::Wanted(wish);
        }
    }
}

/// The receiver's answers to the sender's wishes, and the charge of the wish that it has granted.
#[derive(Debug, Default)]
pub struct Granting {
    /// The session's share of the node's quota; none if no quota bounds the session.
    share: Option<Share>,
    granted: Option<(Wish, Option<Charge>)>,
    answer: Option<bool>,
}

/// There is no room for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Granting {
    /// Has what is granted from now on taken of a share of a quota.
    pub fn set_quota(&mut self, quota: &Quota) {
        self.share = Some(quota.share());
    }

    /// Takes so many bytes for something that the peer need not ask for.
    pub fn take(&mut self, bytes: u64) -> Result<Option<Charge>, NoRoom> {
        match &mut self.share {
            None => Ok(None),
            Some(share) => share.take(bytes).map(Some).ok_or(NoRoom),
        }
    }

    /// The peer wishes to announce a segment of so many bytes, or of more than its session may have. What it was
    /// granted before and has not used is free again.
    pub fn asked(&mut self, wish: Wish, bytes: Option<u64>) {
        self.granted = None;
        if wish == Wish::NONE {
            self.answer = None;
            return;
        }
        let taken = bytes.ok_or(NoRoom).and_then(|bytes| self.take(bytes));
        self.answer = Some(taken.is_ok());
        self.granted = taken.ok().map(|charge| (wish, charge));
    }

    /// Returns the answer that is to be shown, once.
    pub fn answer(&mut self) -> Option<bool> {
        self.answer.take()
    }

    /// A segment has come, of so many bytes. Returns what it is charged with: by what was granted, or, for a peer
    /// that has not asked, now.
    pub fn announced(&mut self, wish: Wish, bytes: u64) -> Result<Option<Charge>, NoRoom> {
        match self.granted.take_if(|(granted, _)| *granted == wish) {
            Some((_, charge)) => Ok(charge),
            None => self.take(bytes),
        }
    }

    /// The connection is gone: an answer that was not shown is not due any more. What was granted stays so, for
    /// the segment may be announced again.
    pub fn forget(&mut self) {
        self.answer = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: Wish = Wish::ring(65_536);
    const SLAB: Wish = Wish { each: 512, count: 8 };

    fn granting(most: u64) -> (Granting, Quota) {
        let (mut granting, quota) = (Granting::default(), Quota::new(most));
        granting.set_quota(&quota);
        (granting, quota)
    }

    #[test]
    fn a_wish_is_shown_once_and_answered_once() {
        let mut asking = Asking::default();
        assert_eq!(asking.permission(RING), Permission::Awaited);
        assert_eq!(asking.permission(SLAB), Permission::Awaited, "one at a time");
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
        assert_eq!(asking.permission(RING), Permission::Granted, "the second answers nothing");
    }

    #[test]
    fn what_was_granted_and_not_used_makes_way_in_the_end() {
        let mut asking = Asking::default();
        asking.permission(RING);
        asking.show();
        asking.answered(true);
        asking.was_heard();
        for _ in 0..PASSED_MAX {
            assert_eq!(asking.permission(SLAB), Permission::Awaited);
            assert!(asking.has_news() && !asking.is_due(), "it is tried again, and nothing asked");
        }
        assert_eq!(asking.permission(RING), Permission::Granted);
        assert_eq!(asking.permission(SLAB), Permission::Awaited);
        assert_eq!(asking.show(), Some(SLAB));
        asking.answered(true);
        asking.withdraw();
        assert_eq!((asking.show(), asking.show()), (Some(Wish::NONE), None));
        assert_eq!(asking.permission(SLAB), Permission::Awaited);
    }

    #[test]
    fn another_connection_asks_again_what_has_no_answer() {
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
    fn a_newer_wish_and_none_give_the_older_ones_bytes_back() {
        let (mut granting, quota) = granting(200);
        granting.asked(RING, Some(60));
        granting.asked(SLAB, Some(70));
        assert_eq!((granting.answer(), quota.held()), (Some(true), 70));
        granting.asked(Wish::NONE, None);
        assert_eq!((granting.answer(), quota.held()), (None, 0));
        granting.asked(SLAB, None);
        assert_eq!((granting.answer(), quota.held()), (Some(false), 0), "more than it may have");
        granting.asked(SLAB, Some(70));
        drop(granting);
        assert_eq!(quota.held(), 0, "the session has ended");
    }

    #[test]
    fn who_has_not_asked_gets_what_is_left() {
        let (mut granting, quota) = granting(200);
        granting.asked(RING, Some(60));
        assert_eq!(granting.announced(SLAB, 50).err(), Some(NoRoom));
        let charge = granting.announced(SLAB, 40).unwrap();
        assert_eq!((quota.held(), charge.map(|charge| charge.bytes())), (100, Some(40)));
        let unbounded = Granting::default().announced(RING, u64::MAX);
        assert!(unbounded.is_ok_and(|charge| charge.is_none()));
    }
}
