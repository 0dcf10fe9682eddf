//! The condition of a case: its name says how the nodes wait, and counters of both nodes show whether they did.
//!
//! Every node that a round drives counts its sleeps, the doorbells that it rings, and the messages that it handles.
//! A round carries the counts of both sides. Invariant: a case whose condition did not hold gives no figure, and the
//! reason is printed instead.

use serde::{Deserialize, Serialize};
use std::ops::AddAssign;
use upbeat::{Counter, Node};

/// The share of the operations before which a node of a sleeping case has to sleep.
const NEARLY_ALL: f64 = 0.9;
/// The operations at the beginning of a round for which a node may still be awake.
const AWAKE: u64 = 2;
/// A polling handle may be woken for one of so many replies.
const SELDOM: u64 = 100;
/// The sleeps of all nodes of a ring for each call, at least: a node that is woken finds several messages.
const RING_SLEEPS: f64 = 0.1;

/// The counts of a node during a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCounts {
    /// Times the node went to sleep.
    pub sleeps: u64,
    /// Doorbells of sleeping peers that the node rang.
    pub bells: u64,
    /// Requests whose handlers finished in their first poll.
    pub handled: u64,
    /// Sessions that were open at the end of the round.
    pub sessions: u64,
}

impl NodeCounts {
    /// Returns the counts of a node since it began.
    pub fn of(node: &Node) -> NodeCounts {
        let counted = |counter| node.counted(counter);
        let ended = counted(Counter::SessionsLost);
        NodeCounts {
            sleeps: counted(Counter::Sleeps),
            bells: counted(Counter::BellsSent),
            handled: counted(Counter::HandlersInline),
            sessions: counted(Counter::SessionsOpened).saturating_sub(ended),
        }
    }

    /// Returns what was counted since `before`.
    pub fn since(self, before: NodeCounts) -> NodeCounts {
        NodeCounts {
            sleeps: self.sleeps - before.sleeps,
            bells: self.bells - before.bells,
            handled: self.handled - before.handled,
            sessions: self.sessions,
        }
    }

    /// Returns the counts as words of shared memory.
    pub(crate) fn words(self) -> [u64; 4] {
        [self.sleeps, self.bells, self.handled, self.sessions]
    }

    /// Returns the counts that such words hold.
    pub(crate) fn of_words([sleeps, bells, handled, sessions]: [u64; 4]) -> NodeCounts {
        NodeCounts { sleeps, bells, handled, sessions }
    }
}

impl AddAssign for NodeCounts {
    fn add_assign(&mut self, other: NodeCounts) {
        self.sleeps += other.sleeps;
        self.bells += other.bells;
        self.handled += other.handled;
        self.sessions = self.sessions.max(other.sessions);
    }
}

/// How the nodes of both sides have waited during some operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// The operations, with those that were not timed.
    pub operations: u64,
    /// The calling node, or `None` where a handle calls, which counts nothing.
    pub caller: Option<NodeCounts>,
    /// The called node.
    pub callee: NodeCounts,
    /// The number of rounds.
    pub rounds: u64,
}

impl Waits {
    /// Returns the sleeps of both sides for each operation, those of the caller first.
    pub fn sleeps_per_operation(&self) -> [Option<f64>; 2] {
        let each = |counts: NodeCounts| counts.sleeps as f64 / self.operations.max(1) as f64;
        [self.caller.map(each), Some(each(self.callee))]
    }
}

impl AddAssign for Waits {
    fn add_assign(&mut self, other: Waits) {
        self.operations += other.operations;
        self.rounds += other.rounds;
        self.callee += other.callee;
        if let Some(more) = other.caller {
            *self.caller.get_or_insert_default() += more;
        }
    }
}

/// The condition that the name of a case states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// The nodes wait as they like, or there are none.
    #[default]
    Any,
    /// Both nodes sleep before nearly every operation.
    Sleeping,
    /// Both nodes are on one CPU, so that at least one of them sleeps in nearly every operation: the system may run the
    /// woken node before the other one has gone to sleep.
    OneCpu,
    /// Neither side sleeps.
    Polling,
    /// The called node never sleeps, and nearly no reply has to wake the thread of the handle.
    Handle,
    /// Neither side sleeps, and the callee has so many other sessions, which send nothing.
    Crowded(u64),
    /// Neither side sleeps, and each message is handled before the next is sent.
    Lone,
    /// The nodes of a ring do not poll: they sleep again and again while they call each other.
    Ring,
}

impl Condition {
    /// Returns why these rounds do not measure what the case is named after, or `None` if they do.
    pub fn broken(self, waits: Option<&Waits>) -> Option<String> {
        if self == Condition::Any {
            return None;
        }
        let Some(waits) = waits else {
            return Some("the nodes counted nothing, so nobody knows how they waited".to_owned());
        };
        let polled = || slept_although_polling(waits);
        match self {
            Condition::Any => None,
            Condition::Sleeping => slept_too_seldom(waits),
            Condition::OneCpu => slept_too_seldom_on_one_cpu(waits),
            Condition::Polling => polled(),
            Condition::Handle => woken_although_polling(waits),
            Condition::Crowded(idle) => polled().or_else(|| not_crowded(waits, idle)),
            Condition::Lone => polled().or_else(|| not_each_alone(waits)),
            Condition::Ring => too_few_sleeps_in_ring(waits),
        }
    }
}

/// Returns the share of the operations at the beginning of a round, when both nodes are awake.
fn began_awake(waits: &Waits) -> f64 {
    (AWAKE * waits.rounds) as f64 / waits.operations.max(1) as f64
}

fn slept_too_seldom_on_one_cpu(waits: &Waits) -> Option<String> {
    let sleeps: f64 = waits.sleeps_per_operation().into_iter().flatten().sum();
    (sleeps < NEARLY_ALL - began_awake(waits)).then(|| {
        format!(
            "both nodes together slept {sleeps:.2} times an operation, where on one CPU one of them should sleep in \
             nearly every operation ({NEARLY_ALL} times or more)"
        )
    })
}

fn slept_too_seldom(waits: &Waits) -> Option<String> {
    let [caller, callee] = waits.sleeps_per_operation().map(Option::unwrap_or_default);
    let is_broken = caller.min(callee) < NEARLY_ALL - began_awake(waits);
    is_broken.then(|| {
        format!(
            "the caller slept {caller:.2} times an operation and the callee {callee:.2} times, where both should sleep \
             in nearly every one ({NEARLY_ALL} times or more)"
        )
    })
}

/// A handle has no counter of its sleeps. The callee rings a bell for each of them.
fn woken_although_polling(waits: &Waits) -> Option<String> {
    let NodeCounts { sleeps, bells, .. } = waits.callee;
    let most = waits.operations / SELDOM;
    (sleeps > 0 || bells > most).then(|| {
        format!(
            "the callee slept {sleeps} times and woke the handle for {bells} of {} replies, where the callee should \
             poll, and the handle for nearly all replies (all but {most})",
            waits.operations
        )
    })
}

fn slept_although_polling(waits: &Waits) -> Option<String> {
    let caller = waits.caller.unwrap_or_default().sleeps;
    let callee = waits.callee.sleeps;
    (caller + callee > 0).then(|| {
        format!(
            "the caller slept {caller} times and the callee {callee} times, where both should poll"
        )
    })
}

fn not_crowded(waits: &Waits, idle: u64) -> Option<String> {
    let NodeCounts { handled, sessions, .. } = waits.callee;
    // The last call of a round tells the callee that the round is over.
    let expected = waits.operations + waits.rounds;
    let is_broken = sessions <= idle || handled != expected;
    is_broken.then(|| {
        format!(
            "the callee had {sessions} sessions and handled {handled} messages, where {idle} idle sessions, one more, \
             and {expected} messages of that one belong"
        )
    })
}

fn not_each_alone(waits: &Waits) -> Option<String> {
    let (handled, expected) = (waits.callee.handled, waits.operations + waits.rounds);
    (handled != expected).then(|| {
        format!("the callee handled {handled} messages at their first poll, and not {expected}")
    })
}

/// A node of a ring that is woken for a request may find its reply as well, so that both need one sleep.
fn too_few_sleeps_in_ring(waits: &Waits) -> Option<String> {
    let sleeps: f64 = waits.sleeps_per_operation().into_iter().flatten().sum();
    (sleeps < RING_SLEEPS).then(|| {
        format!("the nodes slept {sleeps:.2} times a call, where they should sleep {RING_SLEEPS} times or more")
    })
}

#[cfg(test)]
mod tests {
    use super::{Condition, NodeCounts, Waits};

    fn waits(caller: Option<u64>, callee: NodeCounts) -> Waits {
        let caller = caller.map(|sleeps| NodeCounts { sleeps, ..NodeCounts::default() });
        Waits { operations: 100, caller, callee, rounds: 2 }
    }

    fn sleeping(sleeps: u64) -> NodeCounts {
        NodeCounts { sleeps, ..NodeCounts::default() }
    }

    #[test]
    fn a_sleeping_case_needs_sleep_on_both_sides() {
        let broken = |caller, callee| Condition::Sleeping.broken(Some(&waits(caller, callee)));
        assert_eq!(broken(Some(98), sleeping(101)), None);
        let reason = broken(Some(98), sleeping(3)).unwrap();
        assert!(reason.contains("0.98 times") && reason.contains("0.03 times"), "{reason}");
        assert!(broken(Some(0), sleeping(100)).is_some());
        assert!(Condition::Sleeping.broken(None).is_some(), "no counts are no proof");
        let shared = |caller, callee| Condition::OneCpu.broken(Some(&waits(caller, callee)));
        assert_eq!(shared(Some(50), sleeping(45)), None);
        assert!(shared(Some(30), sleeping(45)).is_some());
    }

    #[test]
    fn a_polling_case_allows_no_sleep_and_a_handle_few_bells() {
        let broken = |caller, callee| Condition::Polling.broken(Some(&waits(caller, callee)));
        assert_eq!(broken(Some(0), sleeping(0)), None);
        assert!(broken(Some(1), sleeping(0)).is_some() && broken(Some(0), sleeping(1)).is_some());
        let handle = |callee| Condition::Handle.broken(Some(&waits(None, callee)));
        let woken = |bells| NodeCounts { bells, ..NodeCounts::default() };
        assert!(handle(woken(1)).is_none() && handle(woken(2)).is_some());
        assert!(handle(sleeping(1)).is_some());
        assert_eq!(Condition::Any.broken(None), None);
    }

    #[test]
    fn a_crowd_is_idle_and_a_lone_message_alone() {
        let callee = NodeCounts { handled: 102, sessions: 1001, ..NodeCounts::default() };
        let crowded = Condition::Crowded(1000);
        assert_eq!(crowded.broken(Some(&waits(Some(0), callee))), None);
        let fewer = NodeCounts { sessions: 1000, ..callee };
        assert!(crowded.broken(Some(&waits(Some(0), fewer))).is_some());
        let disturbed = NodeCounts { handled: 103, ..callee };
        assert!(crowded.broken(Some(&waits(Some(0), disturbed))).is_some());
        assert!(Condition::Lone.broken(Some(&waits(Some(0), disturbed))).is_some());
        assert_eq!(Condition::Lone.broken(Some(&waits(Some(0), callee))), None);
        assert!(Condition::Ring.broken(Some(&waits(Some(3), sleeping(3)))).is_some());
        assert_eq!(Condition::Ring.broken(Some(&waits(Some(30), sleeping(30)))), None);
    }

    #[test]
    fn counts_add_up_over_rounds() {
        let mut all = waits(Some(1), sleeping(2));
        all += waits(Some(3), sleeping(4));
        assert_eq!((all.operations, all.rounds, all.callee.sleeps), (200, 4, 6));
        assert_eq!(all.sleeps_per_operation(), [Some(0.02), Some(0.03)]);
    }
}
