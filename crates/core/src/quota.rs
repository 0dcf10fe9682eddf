//! The bytes that peers of other hosts make a node hold, and their bound.
//!
//! A session between hosts holds replicas of its peer's rings and buffers, whose size the peer chooses. A
//! [`Quota`] bounds the bytes of all sessions of a node together, and each session has a [`Share`] of it. The code
//! that allocates such memory first takes a [`Charge`] and keeps both together; the bytes are free again when the
//! charge is dropped, on whichever thread. A share gets more only if it then holds no more than stays free. One
//! session therefore never takes more than half, and another session always finds room. Other modules allocate the
//! memory and tell the peer that there is no room. Invariant: the held bytes are the sum of the existing charges,
//! and never more than the bound.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// A bound on bytes, and the bytes that are held. Clones share both.
///
/// ```
/// use upbeat_core::quota::Quota;
///
/// let quota = Quota::new(100);
/// let (mut first, mut second) = (quota.share(), quota.share());
/// assert!(first.take(51).is_none(), "less than 51 bytes would stay free");
/// let charge = first.take(50).unwrap();
/// assert!(first.take(1).is_none());
/// assert!(second.take(25).is_some());
/// assert_eq!((quota.held(), quota.take_declined()), (50, 2));
/// drop(charge);
/// assert!(first.take(50).is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Quota {
    most: u64,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    held: AtomicU64,
    declined: AtomicU64,
}

impl Quota {
    /// Creates a quota of which nothing is held.
    pub fn new(most: u64) -> Quota {
        Quota { most, counts: Arc::default() }
    }

    /// Creates a share that holds nothing.
    pub fn share(&self) -> Share {
        let taken = Taken { counts: Arc::clone(&self.counts), bytes: AtomicU64::new(0) };
        Share { most: self.most, taken: Arc::new(taken) }
    }

    /// Returns the bound.
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// Returns the held bytes.
    pub fn held(&self) -> u64 {
        self.counts.held.load(Ordering::Relaxed)
    }

    /// Returns how often there was no room since the last call.
    pub fn take_declined(&self) -> u64 {
        self.counts.declined.swap(0, Ordering::Relaxed)
    }
}

/// The share of one session in a [`Quota`], from which the session takes its charges.
#[derive(Debug)]
pub struct Share {
    most: u64,
    taken: Arc<Taken>,
}

/// The bytes that the charges of one share hold.
#[derive(Debug)]
struct Taken {
    counts: Arc<Counts>,
    bytes: AtomicU64,
}

impl Share {
    /// Takes `bytes`. Returns none, and counts the refusal, if the share would then hold more than stays free.
    pub fn take(&mut self, bytes: u64) -> Option<Charge> {
        // Only the owner of this share adds to its bytes; a charge that is dropped on another thread subtracts.
        let own = self.taken.bytes.load(Ordering::Relaxed).checked_add(bytes);
        let fits = |held: u64| {
            let sum = held.checked_add(bytes)?;
            let free = self.most.checked_sub(sum)?;
            own.filter(|own| *own <= free).map(|_| sum)
        };
        let counts = &self.taken.counts;
        // The counts protect no other memory, so relaxed ordering suffices.
        if counts.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            counts.declined.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.taken.bytes.fetch_add(bytes, Ordering::Relaxed);
        Some(Charge { taken: Arc::clone(&self.taken), bytes })
    }
}

/// Bytes that were taken from a [`Share`], and that are released when this is dropped.
#[derive(Debug)]
pub struct Charge {
    taken: Arc<Taken>,
    bytes: u64,
}

impl Charge {
    /// Returns the number of bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.taken.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.taken.counts.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn bytes_that_do_not_fit_change_only_the_count_of_refusals() {
        let quota = Quota::new(10);
        let mut share = quota.share();
        let _charge = share.take(4).unwrap();
        assert!(share.take(2).is_none() && share.take(u64::MAX).is_none());
        assert_eq!((quota.held(), quota.take_declined(), quota.most()), (4, 2, 10));
        assert!(share.take(1).is_some());
    }

    /// Shares that take all they can, byte by byte in turn, get equal amounts, and leave as much for one more.
    #[test]
    fn a_greedy_share_leaves_room_for_others() {
        for many in 1..5 {
            let quota = Quota::new(120);
            let mut shares: Vec<Share> = (0..many).map(|_| quota.share()).collect();
            let mut charges = Vec::new();
            for _ in 0..120 {
                charges.extend(shares.iter_mut().filter_map(|share| share.take(1)));
            }
            assert_eq!(quota.held(), 120 - 120 / (many + 1), "{many} shares");
            assert!(quota.share().take(60 / (many + 1)).is_some());
        }
    }

    proptest! {
        /// For any charges that are taken and dropped: the held bytes are the sum of the charges and within the
        /// bound, and a share gets no more than stays free.
        #[test]
        fn the_held_bytes_are_the_sum_of_the_charges(
            acts in prop::collection::vec(
                (0_u64..80, 0_usize..3, any::<bool>(), any::<prop::sample::Index>()),
                0..80,
            ),
        ) {
            let quota = Quota::new(200);
            let mut shares = [(); 3].map(|()| quota.clone().share());
            let mut charges: Vec<(usize, Charge)> = Vec::new();
            let mut declined = 0;
            for (bytes, whose, takes, which) in acts {
                let held: u64 = charges.iter().map(|(_, charge)| charge.bytes()).sum();
                let own = charges.iter().filter(|(of, _)| *of == whose);
                let own: u64 = own.map(|(_, charge)| charge.bytes()).sum();
                if takes {
                    let charge = shares[whose].take(bytes);
                    prop_assert_eq!(charge.is_some(), own + bytes + held + bytes <= 200);
                    declined += u64::from(charge.is_none());
                    charges.extend(charge.map(|charge| (whose, charge)));
                } else if !charges.is_empty() {
                    charges.swap_remove(which.index(charges.len()));
                }
                let sum: u64 = charges.iter().map(|(_, charge)| charge.bytes()).sum();
                prop_assert_eq!(quota.held(), sum);
                prop_assert!(sum <= 200);
            }
            prop_assert_eq!(quota.take_declined(), declined);
            drop(charges);
            prop_assert_eq!(quota.held(), 0);
        }
    }
}
