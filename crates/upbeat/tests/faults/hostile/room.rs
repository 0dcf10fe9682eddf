//! Room that is asked for: none of it is lost, for any behaviour of its owner.

use super::lending::{BLOB, LEND};
use super::raw::Raw;
use super::{Attacked, TargetServer, Victim, watchdog};
use crate::common::{Directory, alone, until};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use upbeat::{Counter, Waiting};
use upbeat_core::frame::{CallNumber, Flags, Head, Kind, Placed};
use upbeat_core::limits::{GRANTS_AHEAD, MEDIUM_BYTES_MAX, SESSION_BUDGET_BYTES, SLABS_MAX};
use upbeat_transport::socket_directory::SocketDirectory;

pub(crate) const ADD: u16 = 1;
const BYTES: u16 = 5;
const NOTE: u16 = 9;
/// The first word of a lane's header in which returns are noted.
const RETURNS: usize = 32;

pub(crate) fn connect(place: &SocketDirectory) -> Raw {
    loop {
        // A place may be kept for the session before.
        if let Some(raw) = Raw::connect(place, "victim") {
            return raw;
        }
        std::thread::yield_now();
    }
}

impl Raw {
    /// The next frame of the victim's but those of a lane that grows, whose buffer goes back if it
    /// has one; None if it ends the session. The watchdog bounds it.
    pub(crate) fn next(&self) -> Option<Head> {
        self.next_with_word().map(|(head, _)| head)
    }

    /// Returns the next frame, with the first word of its payload if the payload lies in the lane.
    pub(crate) fn next_with_word(&self) -> Option<(Head, u64)> {
        self.ring();
        loop {
            if let Some(words) = self.lanes.look().unwrap() {
                let head = Head::parse(words).unwrap();
                if let Some(at) = head.flags.offset_of(Flags::PLACED) {
                    let placed = Placed::from_u64(self.lanes.reader().read_value(at as usize));
                    self.lanes.returns_for(placed.slab.into()).toggle(0, 1 << placed.index);
                }
                let word = self.lanes.reader().read_word(0);
                let goes_on = self.advance(&head);
                self.lanes.publish_progress();
                match head.kind {
                    Kind::Switch if goes_on => continue,
                    Kind::Switch => return None,
                    _ => return Some((head, word)),
                }
            }
            if self.is_over() {
                return None;
            }
            std::thread::yield_now();
        }
    }

    fn granted(&self) -> u64 {
        let head = self.next().expect("a grant");
        assert_eq!(head.kind, Kind::Grant, "{head:?}");
        head.call.as_u64()
    }

    /// Calls, and expects that answer and nothing else before it.
    pub(crate) fn add(&self, index: u32) {
        let call = CallNumber::new(index, 1);
        assert!(self.put(Head::call(ADD, call, 16).words(), &[0; 16]));
        let head = self.next().expect("an answer");
        assert_eq!((head.kind, head.call), (Kind::Reply, call));
    }

    fn withdraw(&self, number: u64) {
        assert!(self.put(Head::withdraw(number).words(), &[]));
    }
}

/// How sessions have ended, and how often.
pub(crate) type Ends = BTreeMap<String, u64>;

/// Runs a victim here, and what is done to it in a thread; gives how its sessions ended, and what
/// was noted.
pub(crate) fn against(
    what: &'static str,
    act: impl FnOnce(&SocketDirectory) + Send + 'static,
) -> (Ends, u64) {
    let (_alone, _watchdog) = (alone(), watchdog(what));
    let directory = Directory::new();
    let place = directory.path();
    let victim = Attacked::new("victim", &place, Waiting::Adaptive);
    let target = Rc::new(Victim::default());
    victim.node.serve(TargetServer::shared(Rc::clone(&target))).unwrap();
    let socket = open(&place);
    let acting = std::thread::spawn(move || act(&socket));
    victim.node.block_on(until(|| acting.is_finished()));
    acting.join().unwrap();
    victim.settle(0, None);
    assert_eq!(victim.node.counted(Counter::Panics), 0);
    (victim.ends.take(), target.noted.get())
}

fn open(place: &Path) -> SocketDirectory {
    SocketDirectory::at(place).unwrap()
}

#[test]
fn room_that_was_granted_comes_back() {
    if !crate::common::shares_memory("the peers of this test write into shared lanes") {
        return;
    }
    let share = SESSION_BUDGET_BYTES as usize;
    let (ends, _) = against("room", move |place| {
        for round in 0..12 {
            // Four sessions take all that the node has.
            let greedy = [(); 4].map(|()| connect(place));
            for raw in &greedy {
                assert!(raw.reserve(share));
                assert_eq!(raw.granted(), 0);
            }
            // Long requests of others find none, and go on without.
            let other = connect(place);
            assert!(other.reserve(MEDIUM_BYTES_MAX + 1));
            other.withdraw(0);
            other.add(0);
            assert!(other.reserve(MEDIUM_BYTES_MAX + 1));
            other.ring();
            match round % 3 {
                // The greedy peer dies.
                0 => drop(greedy),
                // The greedy peer withdraws its request for room.
                1 => {
                    greedy.iter().for_each(|raw| raw.withdraw(0));
                    greedy.iter().for_each(|raw| raw.add(0));
                }
                // The greedy peer breaks a rule.
                _ => greedy.iter().for_each(|raw| {
                    raw.withdraw(7);
                    assert!(raw.next().is_none());
                }),
            }
            assert_eq!(other.granted(), 2);
            other.withdraw(2);
            other.add(1);
        }
    });
    assert_eq!(ends.get("StrayPlace"), Some(&16), "{ends:?}");
}

#[test]
fn grants_are_bounded_and_in_their_order() {
    if !crate::common::shares_memory("the peers of this test write into shared lanes") {
        return;
    }
    against("grants", |place| {
        let raw = connect(place);
        (0..10).for_each(|_| assert!(raw.reserve(1000)));
        for number in 0..10 {
            if number >= GRANTS_AHEAD as u64 {
                raw.withdraw(number - GRANTS_AHEAD as u64);
            }
            assert_eq!(raw.granted(), number);
        }
        (6..10).for_each(|number| raw.withdraw(number));
        raw.add(0);
        // The buffer waits behind a reservation, comes back when that is gone, and only then.
        raw.slab(0, 512, 8).store(3 * 512 / 8, 192);
        assert!(raw.reserve(1000));
        assert_eq!(raw.granted(), 11);
        let call = CallNumber::new(1, 1);
        assert!(raw.call_placed(BYTES, call, Placed { slab: 0, index: 3, len: 200 }));
        let nack = raw.next().unwrap();
        assert_eq!((nack.kind, nack.call.as_u64()), (Kind::Nack, 12));
        assert_eq!(raw.lanes.peer_returned(0), 0);
        raw.withdraw(11);
        let reply = raw.next().unwrap();
        assert_eq!((reply.kind, reply.call), (Kind::Reply, call));
        while raw.lanes.peer_returned(0) != 1 << 3 {
            std::thread::yield_now();
        }
    });
}

#[test]
fn a_call_that_waits_can_be_cancelled() {
    if !crate::common::shares_memory("the peers of this test write into shared lanes") {
        return;
    }
    against("cancels", |place| {
        let raw = connect(place);
        assert!(raw.reserve(1000));
        assert_eq!(raw.granted(), 0);
        let call = CallNumber::new(0, 1);
        assert!(raw.put(Head::call(ADD, call, 16).words(), &[0; 16]));
        assert!(raw.put(Head::cancel(call).words(), &[]));
        let failure = raw.next().unwrap();
        assert_eq!((failure.kind, failure.call), (Kind::Failed, call));
        raw.withdraw(0);
        raw.add(1);
    });
}

#[test]
fn one_way_messages_that_wait_are_all_there() {
    if !crate::common::shares_memory("the peers of this test write into shared lanes") {
        return;
    }
    let (_, noted) = against("one-way messages", |place| {
        let raw = connect(place);
        assert!(raw.reserve(1000));
        assert_eq!(raw.granted(), 0);
        for number in [1_u64, 20, 300, 4000, 50_000] {
            assert!(raw.put(Head::oneway(NOTE, 8).words(), &number.to_le_bytes()));
        }
        raw.withdraw(0);
        raw.add(0);
    });
    assert_eq!(noted, 54_321);
}

#[test]
fn long_requests_go_with_and_without_a_grant() {
    if !crate::common::shares_memory("the peers of this test write into shared lanes") {
        return;
    }
    let (ends, _) = against("long requests", |place| {
        for len in [MEDIUM_BYTES_MAX as u32 + 8, 128 << 10] {
            let raw = connect(place);
            raw.slab(0, 128 << 10, 1).store(0, u64::from(len) - 8);
            let call = CallNumber::new(0, 1);
            assert!(raw.call_placed(BYTES, call, Placed { slab: 0, index: 0, len }));
            let slab = raw.next().unwrap();
            assert_eq!(slab.kind, Kind::Slab);
            assert_eq!(raw.next().map(|head| head.kind), Some(Kind::Reply));
            // Longer than was asked for, and as long.
            let raw = connect(place);
            raw.slab(0, 128 << 10, 1).store(0, u64::from(len) - 8);
            assert!(raw.reserve(len as usize - 8));
            let number = raw.granted();
            assert!(raw.call_granted(BYTES, call, Placed { slab: 0, index: 0, len }, number));
            assert!(raw.next().is_none(), "{len} bytes were taken");
            let raw = connect(place);
            raw.slab(0, 128 << 10, 1).store(0, u64::from(len) - 8);
            assert!(raw.reserve(len as usize));
            let number = raw.granted();
            assert!(raw.call_granted(BYTES, call, Placed { slab: 0, index: 0, len }, number));
            let slab = raw.next().unwrap();
            assert_eq!(slab.kind, Kind::Slab);
            assert_eq!(raw.next().map(|head| head.kind), Some(Kind::Reply));
        }
    });
    assert_eq!(ends.get("BeyondReserved"), Some(&2), "{ends:?}");
}

#[test]
fn returns_that_lie_spoil_only_what_they_are_told() {
    if !crate::common::shares_memory("the peers of this test write into shared lanes") {
        return;
    }
    against("returns", |place| {
        let (liar, honest) = (connect(place), connect(place));
        for round in 0..500_u32 {
            // All back, none back, and what is neither.
            let noise = u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let lie = [0, u64::MAX, noise][round as usize % 3];
            (RETURNS..RETURNS + SLABS_MAX).for_each(|word| liar.lane.store(word, lie));
            let call = CallNumber::new(0, 1 + round);
            // Half of the answers in buffers, half in slots.
            let method = [LEND, BLOB][round as usize % 2];
            for raw in [&liar, &honest] {
                assert!(raw.put(Head::call(method, call, 8).words(), &5000_u64.to_le_bytes()));
                raw.ring();
            }
            // Its own answers may wait for ever, or be written over. Those of others do not.
            loop {
                let head = honest.next().expect("an answer");
                if head.kind == Kind::Reply {
                    let is_placed = head.flags.has(Flags::PLACED);
                    break assert_eq!((head.call, is_placed), (call, method == LEND));
                }
            }
            liar.pass();
        }
        assert!(!liar.is_over());
    });
}
