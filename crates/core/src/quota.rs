//! The bytes that peers of other hosts make a node hold, and the bound over all of them.
//!
//! A session between hosts holds replicas of its peer's rings and buffers, and how large these are is the peer's
//! choice. A [`Quota`] bounds what all sessions of a node hold together. Whoever makes such memory takes a
//! [`Charge`] for it first and keeps both together; the bytes are free again when the charge is dropped, on
//! whichever thread. Making the memory, and telling the peer that there is no room, is left to others. The
//! invariant: the bytes held are the sum of the charges that exist, and never more than the bound.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// A bound over bytes, and what is held of it. Clones share both.
///
/// ```
/// use upbeat_core::quota::Quota;
///
/// let quota = Quota::new(100);
/// let charge = quota.take(70).unwrap();
/// assert!(quota.take(31).is_none());
/// assert_eq!((quota.held(), quota.take_declined()), (70, 1));
/// drop(charge);
/// assert!(quota.take(100).is_some());
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
    /// Returns a quota of which nothing is held.
    pub fn new(most: u64) -> Quota {
        Quota { most, counts: Arc::default() }
    }

    /// Takes so many bytes, or none where fewer are left: then that is counted.
    pub fn take(&self, bytes: u64) -> Option<Charge> {
        let fits = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= self.most);
        let held = &self.counts.held;
        // Nothing is read or written on the strength of the count.
        if held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            self.counts.declined.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Charge { counts: Arc::clone(&self.counts), bytes })
    }

    /// Returns the bound.
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// Returns the bytes that are held.
    pub fn held(&self) -> u64 {
        self.counts.held.load(Ordering::Relaxed)
    }

    /// Returns how often there was no room for what was asked for, since this was last asked.
    pub fn take_declined(&self) -> u64 {
        self.counts.declined.swap(0, Ordering::Relaxed)
    }
}

/// Bytes that were taken of a [`Quota`]. They are given back when this is dropped.
#[derive(Debug)]
pub struct Charge {
    counts: Arc<Counts>,
    bytes: u64,
}

impl Charge {
    /// Returns how many bytes were taken.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.counts.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn bytes_that_do_not_fit_change_nothing_but_the_count() {
        let quota = Quota::new(10);
        let _charge = quota.take(4).unwrap();
        assert!(quota.take(7).is_none() && quota.take(u64::MAX).is_none());
        assert_eq!((quota.held(), quota.take_declined(), quota.most()), (4, 2, 10));
        assert!(quota.take(0).is_some());
    }

    proptest! {
        /// Whatever is taken and dropped, what is held is the sum of the charges, and within the bound.
        #[test]
        fn what_is_held_is_the_sum_of_the_charges(
            acts in prop::collection::vec((0_u64..80, any::<bool>(), any::<prop::sample::Index>()), 0..80),
        ) {
            let quota = Quota::new(200);
            let mut charges: Vec<Charge> = Vec::new();
            let mut declined = 0;
            for (bytes, takes, which) in acts {
                let held: u64 = charges.iter().map(Charge::bytes).sum();
                if takes {
                    match quota.clone().take(bytes) {
                        Some(charge) => charges.push(charge),
                        None => {
                            prop_assert!(held + bytes > 200);
                            declined += 1;
                        }
                    }
                } else if !charges.is_empty() {
                    charges.swap_remove(which.index(charges.len()));
                }
                prop_assert_eq!(quota.held(), charges.iter().map(Charge::bytes).sum::<u64>());
                prop_assert!(quota.held() <= 200);
            }
            prop_assert_eq!(quota.take_declined(), declined);
            drop(charges);
            prop_assert_eq!(quota.held(), 0);
        }
    }
}
