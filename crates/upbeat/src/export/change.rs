//! The owner's changes of units: their versions, and the tasks that are told.
//!
//! The owner takes the versions from a count of its own, and does not load those in the export: a reader at full speed
//! keeps the line of a version at its own processor, and a load would wait for the line, while a store does not.
//! Invariant: no unit has the same version twice.

use super::home::{Here, Home};
use super::shared::{NOWHERE, Shared};
use super::watchers::Watchers;
use std::cell::Cell;
use upbeat_memory::unit;

/// The changes of an export.
pub(super) struct Changes {
    /// The last version that any unit was given. It is even.
    last: Cell<u64>,
    /// The word with the version of the unit that is being changed, the innermost one if there are several, or [`NOWHERE`].
    open: Cell<usize>,
    watchers: Watchers,
}

impl Default for Changes {
    fn default() -> Changes {
        Changes { last: Cell::default(), open: Cell::new(NOWHERE), watchers: Watchers::default() }
    }
}

impl Changes {
    pub(super) fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    /// Returns whether a unit is being changed.
    pub(super) fn is_open(&self) -> bool {
        self.open.get() != NOWHERE
    }

    /// Begins to change the unit whose version is at word `at`. Returns `None` within another change of this unit, which
    /// ends with that one.
    #[inline(always)]
    pub(super) fn begin<'o>(&'o self, home: &'o Home, at: usize) -> Option<Change<'o>> {
        let around = self.open.get();
        let now = home.now();
        let there = at.wrapping_add(home.distance(&now));
        if around == at || (around != NOWHERE && unit::is_updated(&now.memory.0, there)) {
            return None;
        }
        let update = unit::open(&now.memory.0, there, self.next());
        self.open.set(at);
        Some(Change { changes: self, home, at, update: Some(update), around })
    }

    /// Begins to change the units inside of a value at word `at` of its memory, whose own unit has its version at word
    /// `version`: readers of the units inside look at their versions alone.
    #[inline(always)]
    pub(super) fn begin_inner<'o, T: Shared>(
        &self,
        home: &'o Here,
        at: usize,
        version: usize,
    ) -> Option<Vec<unit::Update<'o>>> {
        // The compiler decides, so that a value without units inside costs nothing.
        (T::UNITS > usize::from(T::IS_UNIT) || T::GROWS).then(|| {
            let mut updates = Vec::with_capacity(T::UNITS);
            T::versions_now(&home.memory, (home.location.value(), at), &mut |at| {
                if at != version && !unit::is_updated(&home.memory.0, at) {
                    self.watchers.touch(at.wrapping_sub(home.location.value()));
                    updates.push(unit::begin(&home.memory.0, at, self.next()));
                }
            });
            updates
        })
    }

    /// Counts an update, which takes the two versions behind the returned one.
    #[inline(always)]
    fn next(&self) -> u64 {
        let last = self.last.get();
        self.last.set(last.wrapping_add(2));
        last
    }
}

/// A change of a unit, until it is dropped. Changes begin and end in the order of the closures that make them.
pub(super) struct Change<'o> {
    changes: &'o Changes,
    home: &'o Home,
    /// The word with the version of the unit.
    at: usize,
    /// The update of the unit, which ends before the watchers are told.
    update: Option<unit::Opened>,
    /// The unit that was being changed when this change began, or [`NOWHERE`].
    around: usize,
}

impl Drop for Change<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.home.is_here() {
            return;
        }
        if let Some(update) = self.update.take() {
            let now = self.home.now();
            // The export may have moved meanwhile, with the version of the unit that is being changed.
            update.end(&now.memory.0, self.at.wrapping_add(self.home.distance(&now)));
        }
        self.changes.open.set(self.around);
        self.changes.watchers.touch(self.at.wrapping_sub(self.home.first().value()));
        if self.around == NOWHERE {
            self.changes.watchers.tell();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Changes, Home};
    use crate::export::home::Here;
    use crate::export::location::Location;
    use crate::export::segments::Segments;
    use crate::export::watchers::Waiting;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::Pin;
    use std::rc::Rc;
    use std::task::{Context, Waker};
    use upbeat_core::channel::export::{Consistency, Readers};
    use upbeat_memory::fork::in_child;

    const OUTER: usize = 40;
    const INNER: usize = 44;

    fn home() -> Home {
        let wanted = Location::nowhere(8, Consistency::Cell);
        let taken = Rc::<Segments>::default().take(wanted, &Readers::everybody());
        Home::new(Here::new(taken.unwrap(), 0))
    }

    fn versions(home: &Home) -> [u64; 2] {
        [OUTER, INNER].map(|at| home.now().memory.load(at))
    }

    fn is_over(waiting: &mut Waiting<'_>) -> bool {
        Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn no_unit_has_the_same_version_twice() {
        let (changes, memory) = (Changes::default(), home());
        let mut seen = vec![versions(&memory)];
        for _ in 0..3 {
            let outer = changes.begin(&memory, OUTER);
            for _ in 0..2 {
                drop(changes.begin(&memory, INNER));
                seen.push(versions(&memory));
            }
            drop(outer);
            drop(changes.begin(&memory, INNER));
            seen.push(versions(&memory));
        }
        let mut inner: Vec<u64> = seen.iter().map(|[_, inner]| *inner).collect();
        assert!(inner.iter().all(|version| version % 2 == 0), "{seen:?}");
        inner.dedup();
        assert_eq!(inner.len(), seen.len(), "{seen:?}");
        assert!(seen.is_sorted(), "{seen:?}");
    }

    #[test]
    fn a_change_within_another_of_the_same_unit_is_a_part_of_it() {
        let (changes, memory) = (Changes::default(), home());
        let mut told = changes.watchers().change(None);
        let outer = changes.begin(&memory, OUTER);
        let inner = changes.begin(&memory, INNER);
        assert!(changes.begin(&memory, INNER).is_none());
        assert!(changes.begin(&memory, OUTER).is_none(), "it is not the innermost one");
        assert!(versions(&memory).iter().all(|version| version % 2 == 1));
        drop(inner);
        assert!(!is_over(&mut told), "the change around is not over");
        drop(outer);
        assert!(versions(&memory).iter().all(|version| version % 2 == 0));
        assert!(is_over(&mut told));
    }

    #[test]
    fn a_forked_child_leaves_a_change_of_its_parent_open() {
        let (changes, memory) = (Changes::default(), home());
        let mut told = changes.watchers().change(None);
        let mut change = changes.begin(&memory, OUTER);
        let code = in_child(|| {
            drop(change.take());
            7
        });
        assert_eq!(code, Some(7));
        drop(change);
        assert!(is_over(&mut told));
    }

    #[test]
    fn a_change_that_panics_is_ended() {
        let (changes, memory) = (Changes::default(), home());
        let mut told = changes.watchers().change(None);
        let change = AssertUnwindSafe(|| {
            let _outer = changes.begin(&memory, OUTER);
            let _inner = changes.begin(&memory, INNER);
            panic!("within the change");
        });
        catch_unwind(change).unwrap_err();
        assert!(versions(&memory).iter().all(|version| version % 2 == 0));
        assert!(is_over(&mut told));
        assert!(changes.begin(&memory, INNER).is_some());
    }
}
