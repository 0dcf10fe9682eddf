//! The nodes of a process that share a name, and the callers that wait for one of them.
//!
//! Each way in (the process's registry, a socket, a port) has a [`Group`]. Any of its nodes accepts a caller, the group
//! hands the caller to one of them, and wakes that node. Which node, and when callers are taken back from a node that
//! does not take them, `upbeat_core::balance` decides. Invariant: a caller that was handed over is with exactly one
//! node of the group, and is passed on when that node leaves.

use crate::error::BindError;
use crate::local_node::{LocalNode, NodeInfo};
use crate::member::Member;
use std::cell::Cell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};
use upbeat_core::balance::{Candidate, Watch, next_node};
use upbeat_core::limits::PENDING_HANDSHAKES_MAX;
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_environment::turns::{Mutex, MutexGuard};

/// A caller that a group hands to its nodes.
pub(crate) trait Caller {
    /// Returns whether any node of the group may have the caller.
    fn is_anybodys(&self) -> bool {
        true
    }

    /// Returns whether the caller has come again, and takes the place of the other.
    fn follows(&self, _earlier: &Self) -> bool {
        false
    }
}

/// A socket of another process.
impl Caller for OwnedFd {}

/// The nodes that take callers who come one way, and the callers.
pub(crate) struct Group<T>(Mutex<State<T>>);

struct State<T> {
    entries: Vec<Entry<T>>,
    /// The place of the node that was chosen last.
    last: usize,
    /// Callers that were handed over so far.
    handed: u64,
}

struct Entry<T> {
    info: Arc<NodeInfo>,
    member: Arc<Member>,
    /// The callers that wait for it, numbered.
    callers: VecDeque<(u64, T)>,
}

/// The membership of a node in a group. Dropping it ends the membership: the node accepts no more callers there.
pub(crate) struct Membership<T: Caller> {
    group: Arc<Group<T>>,
    member: Arc<Member>,
    watch: Cell<Watch>,
}

impl<T: Caller> Membership<T> {
    /// Makes a node a member of a group. Returns `None` if it is a member already, or does not match the other members.
    pub(crate) fn take(
        group: &Arc<Group<T>>,
        home: &LocalNode,
    ) -> Result<Option<Membership<T>>, BindError> {
        let (group, member) = (Arc::clone(group), home.member()?);
        let joined = group.join(home.info(), &member);
        Ok(joined.then_some(Membership { group, member, watch: Cell::default() }))
    }

    pub(crate) fn member(&self) -> &Member {
        &self.member
    }

    /// Returns the next caller that waits for this node.
    pub(crate) fn next(&self) -> Option<T> {
        self.group.take(&self.member)
    }

    /// Whether a caller waits for this node.
    pub(crate) fn has_caller(&self) -> bool {
        self.group.has_caller(&self.member)
    }

    /// Hands a caller that this node has accepted to a node of the group; returns it if that is the same.
    pub(crate) fn route(&self, caller: T) -> Option<T> {
        self.group.route(&self.member, caller)
    }

    /// Hands a caller to the node of this incarnation; returns it if that node is gone, or if too many callers wait for
    /// it.
    pub(crate) fn hand_to(&self, incarnation: u64, caller: T) -> Result<(), (NotHanded, T)> {
        self.group.hand_to(incarnation, caller)
    }

    /// Takes callers back from nodes that do not take them. Returns when to look again, if any caller waits for another
    /// node.
    pub(crate) fn look_after(&self, now_ms: u64) -> Option<u64> {
        let mut watch = self.watch.get();
        let oldest = self.group.oldest_elsewhere(&self.member);
        if watch.is_overdue(oldest, now_ms) {
            oldest.into_iter().for_each(|number| self.group.take_back(number));
            let _ = watch.is_overdue(self.group.oldest_elsewhere(&self.member), now_ms);
        }
        self.watch.set(watch);
        watch.ends_ms()
    }
}

impl<T: Caller> Drop for Membership<T> {
    fn drop(&mut self) {
        self.group.leave(&self.member);
    }
}

/// The reason why a caller was handed to no node.
pub(crate) enum NotHanded<E = Infallible> {
    /// No node of the group may have the caller.
    Nobody,
    /// Too many callers wait for each node.
    Full,
    /// The caller could not be created.
    NotMade(E),
}

impl<T: Caller> Group<T> {
    pub(crate) fn new() -> Group<T> {
        Group(Mutex::new(State { entries: Vec::new(), last: usize::MAX, handed: 0 }))
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a node take callers too. False if it does already, or if it does not go with those that do.
    fn join(&self, info: &Arc<NodeInfo>, member: &Arc<Member>) -> bool {
        let mut state = self.state();
        if state.entries.iter().any(|entry| !info.may_share_name_with(&entry.info)) {
            return false;
        }
        let (info, member) = (Arc::clone(info), Arc::clone(member));
        state.entries.push(Entry { info, member, callers: VecDeque::new() });
        true
    }

    /// The node takes no more callers. Those that wait for it are passed on to the others, which look after the rest.
    fn leave(&self, member: &Arc<Member>) {
        let mut state = self.state();
        let Some(place) = state.place_of(member) else { return };
        let left = state.entries.remove(place);
        for (_, caller) in left.callers {
            left.member.waits_no_more();
            if let Some(place) = state.choose(|_| true) {
                state.put(place, caller);
            }
        }
        state.entries.iter().for_each(|entry| entry.member.wake());
    }

    /// Returns the next caller that waits for this node.
    fn take(&self, member: &Arc<Member>) -> Option<T> {
        let mut state = self.state();
        let place = state.place_of(member)?;
        let (_, caller) = state.entries[place].callers.pop_front()?;
        member.waits_no_more();
        member.takes();
        Some(caller)
    }

    /// Whether a caller waits for this node.
    fn has_caller(&self, member: &Arc<Member>) -> bool {
        let state = self.state();
        state.place_of(member).is_some_and(|place| !state.entries[place].callers.is_empty())
    }

    /// Hands a caller that this node has accepted to a node of the group; returns it if that is the same.
    fn route(&self, member: &Arc<Member>, caller: T) -> Option<T> {
        let mut state = self.state();
        let place = state.choose(|_| true).filter(|place| {
            let entry = &state.entries[*place];
            !Arc::ptr_eq(&entry.member, member) && entry.has_room()
        });
        match place {
            Some(place) => {
                state.put(place, caller);
                None
            }
            None => {
                member.takes();
                Some(caller)
            }
        }
    }

    /// Hands a caller to a node that may have it. The other nodes are woken besides, so that they
    /// look after the caller if the node does not take it.
    pub(crate) fn hand<E>(
        &self,
        may: impl Fn(&NodeInfo) -> bool,
        make: impl FnOnce(&NodeInfo) -> Result<T, E>,
    ) -> Result<(), NotHanded<E>> {
        let mut state = self.state();
        let place = state.choose(may).ok_or(NotHanded::Nobody)?;
        let entry = &state.entries[place];
        if !entry.has_room() {
            return Err(NotHanded::Full);
        }
        let caller = make(&entry.info).map_err(NotHanded::NotMade)?;
        state.put(place, caller);
        for (other, entry) in state.entries.iter().enumerate() {
            if other != place {
                entry.member.wake();
            }
        }
        Ok(())
    }

    fn hand_to(&self, incarnation: u64, caller: T) -> Result<(), (NotHanded, T)> {
        let mut state = self.state();
        let is_that = |entry: &Entry<T>| entry.info.incarnation == incarnation;
        let Some(place) = state.entries.iter().position(is_that) else {
            return Err((NotHanded::Nobody, caller));
        };
        let entry = &mut state.entries[place];
        if let Some((_, earlier)) = entry.callers.iter_mut().find(|(_, it)| caller.follows(it)) {
            let earlier = std::mem::replace(earlier, caller);
            drop(state);
            drop(earlier);
            return Ok(());
        }
        if !entry.has_room() {
            return Err((NotHanded::Full, caller));
        }
        state.put(place, caller);
        Ok(())
    }

    /// Returns the number of the caller that waits longest for another node and may be had by any.
    fn oldest_elsewhere(&self, member: &Arc<Member>) -> Option<u64> {
        let state = self.state();
        let others = state.entries.iter().filter(|entry| !Arc::ptr_eq(&entry.member, member));
        others.filter_map(Entry::oldest).min()
    }

    /// Passes on the callers of the node for which the caller of this number waits: the node does not take them.
    fn take_back(&self, number: u64) {
        let mut state = self.state();
        let keeps = |entry: &Entry<T>| entry.oldest() == Some(number);
        let Some(place) = state.entries.iter().position(keeps) else { return };
        let entry = &mut state.entries[place];
        entry.member.is_away();
        let callers = std::mem::take(&mut entry.callers);
        let (back, kept): (VecDeque<_>, _) =
            callers.into_iter().partition(|(_, caller)| caller.is_anybodys());
        entry.callers = kept;
        if !mutated(Mutant::TakenBackCounts) {
            back.iter().for_each(|_| entry.member.waits_no_more());
        }
        for (_, caller) in back {
            if let Some(place) = state.choose(|_| true) {
                state.put(place, caller);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().entries.is_empty()
    }

    /// Whether one of the nodes is such.
    pub(crate) fn any(&self, is: impl Fn(&NodeInfo) -> bool) -> bool {
        self.state().entries.iter().any(|entry| is(&entry.info))
    }
}

impl<T: Caller> State<T> {
    fn place_of(&self, member: &Arc<Member>) -> Option<usize> {
        self.entries.iter().position(|entry| Arc::ptr_eq(&entry.member, member))
    }

    /// Chooses a node for a caller, among those that may have it.
    fn choose(&mut self, may: impl Fn(&NodeInfo) -> bool) -> Option<usize> {
        let places = self.entries.iter().enumerate().filter(|(_, entry)| may(&entry.info));
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        let candidates = places.iter().map(|place| self.entries[*place].candidate());
        let last = places.iter().filter(|place| **place <= self.last).count().checked_sub(1);
        let chosen = next_node(candidates, last.unwrap_or(usize::MAX))?;
        self.last = places[chosen];
        Some(self.last)
    }

    /// Leaves a caller with the node at a place, and wakes the node.
    fn put(&mut self, place: usize, caller: T) {
        self.handed += 1;
        let entry = &mut self.entries[place];
        entry.callers.push_back((self.handed, caller));
        entry.member.waits();
        entry.member.wake();
    }
}

impl<T: Caller> Entry<T> {
    fn has_room(&self) -> bool {
        self.callers.len() < PENDING_HANDSHAKES_MAX
    }

    fn candidate(&self) -> Candidate {
        let takes = self.has_room() && self.member.looks();
        Candidate { sessions: self.member.sessions(), takes }
    }

    /// Returns the number of the first of its callers that may be had by any node.
    fn oldest(&self) -> Option<u64> {
        let caller = self.callers.iter().find(|(_, caller)| caller.is_anybodys());
        caller.map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use upbeat_core::name::ProgramId;

    /// A session, and the attempt to resume it.
    struct Attempt(usize, usize);

    impl Caller for Attempt {
        fn is_anybodys(&self) -> bool {
            false
        }

        fn follows(&self, earlier: &Attempt) -> bool {
            self.0 == earlier.0 && self.1 > earlier.1
        }
    }

    /// A node takes no callers for a while, and a client tries again and again. It takes one place, so that another has one.
    #[test]
    fn the_attempts_of_a_client_wait_in_one_place() {
        let program = ProgramId::named("group".parse().unwrap());
        let home = LocalNode::local(program, Some("stuck".parse().unwrap())).unwrap();
        let group = Arc::new(Group::new());
        let stuck = Membership::take(&group, &home).unwrap().unwrap();
        let of_stuck = home.info().incarnation;
        for nth in 0..2 * PENDING_HANDSHAKES_MAX {
            assert!(stuck.hand_to(of_stuck, Attempt(0, nth)).is_ok());
        }
        for session in 1..PENDING_HANDSHAKES_MAX {
            assert!(stuck.hand_to(of_stuck, Attempt(session, 0)).is_ok());
        }
        assert!(stuck.hand_to(of_stuck, Attempt(PENDING_HANDSHAKES_MAX, 0)).is_err());
        let Attempt(session, nth) = stuck.next().unwrap();
        assert_eq!((session, nth), (0, 2 * PENDING_HANDSHAKES_MAX - 1), "the last attempt");
        assert_eq!(std::iter::from_fn(|| stuck.next()).count(), PENDING_HANDSHAKES_MAX - 1);
    }
}
