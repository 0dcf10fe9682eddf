//! The bill: the cost of a message, item by item, and the counters of a node.
//!
//! Items and counters are declared here once, each with its sentence. A [`Bill`] is an amount for every item, and
//! can be added, subtracted, compared and printed. [`way`] has the phases of each primitive's messages, [`event`]
//! what else is recorded, [`taken`]
//! combines the stamps of both sides of one message, [`collected`] turns samples into a bill, [`timeline`] draws one
//! message, [`bet`] lists the bets with their counters, and [`clock`] estimates the offset between the clocks of two
//! hosts. Other modules take the stamps, store them and show them. Invariant: this is the only list of items and of counters, and the
//! position of a variant is its index in every array.

pub mod bet;
pub mod clock;
pub mod way;
pub mod event;
pub mod taken;
pub mod collected;
pub mod timeline;

use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub};

/// Declares an enum whose variants have a name and a sentence, which is also their documentation.
macro_rules! listed {
    ($(#[$doc:meta])* $list:ident { $($variant:ident $name:literal $sentence:literal)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        #[non_exhaustive]
        pub enum $list {
            $(#[doc = $sentence] $variant,)*
        }

        impl $list {
            /// All variants, in the order of their indexes.
            pub const ALL: &[$list] = &[$($list::$variant),*];

            /// The number of variants.
            pub const COUNT: usize = $list::ALL.len();

            /// Returns the index in an array of all variants.
            #[inline]
            pub const fn index(self) -> usize {
                self as usize
            }

            /// Returns the name, in one word or a few.
            pub const fn name(self) -> &'static str {
                match self { $($list::$variant => $name,)* }
            }

            /// Returns a sentence that describes the variant.
            pub const fn sentence(self) -> &'static str {
                match self { $($list::$variant => $sentence,)* }
            }
        }

        impl core::fmt::Display for $list {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

listed! {
    /// An item of the bill of a message.
    ///
    /// ```
    /// use upbeat_core::bill::Item;
    ///
    /// assert!(Item::Marshal.is_time() && !Item::Wakes.is_time());
    /// assert_eq!(Item::CacheLines.name(), "cache lines");
    /// ```
    Item {
        Room "room" "Waiting until the peer has made room in a full lane."
        FlowControl "flow control" "Deciding whether the message may be sent, and under which number."
        Claim "claim" "Taking room for the message in a lane or a buffer."
        Marshal "marshal" "Writing arguments or results as bytes."
        Copy "copy" "Moving payload from one place in memory to another."
        Publish "publish" "Storing the head that makes the message visible to its reader; between hosts, all work before the write."
        Encrypt "encrypt" "Encrypting what is sent with the message."
        Write "write" "Giving the message to the socket: system calls, and waiting for room there."
        Wake "wake" "Ringing the doorbell of a sleeping node, until that node polls its lanes."
        Wire "wire" "The time between publishing, or writing, and the reader's first view of the message."
        Read "read" "Reading the message from the socket: the system call that brought its end, decrypting, and taking it into the lane."
        Notice "notice" "Waiting in the lane while the reader's node was busy with something else."
        Check "check" "Checking the head and its numbers against the rules."
        Dispatch "dispatch" "Finding the handler of the method, or the waiter of the call."
        Decode "decode" "Reading arguments or results from bytes."
        Execute "execute" "Running the handler until it is done or waits."
        Promote "promote" "Turning a handler that has to wait into a task."
        Lock "lock" "Waiting, as a task, for a lock."
        Wait "wait" "Waiting, as a task, for something else: a call, a timer, an event."
        Queue "queue" "Waiting in the ready queue while the node ran other tasks."
        Reply "reply" "Writing and publishing the reply."
        Deliver "deliver" "Passing the reply to the caller, and polling the caller."
        Watch "watch" "Polling sockets for doorbells and for the death of peers."
        Stamps "stamps" "Taking the time stamps of the bill itself."
        CacheLines "cache lines" "Cache lines that go from one core to another."
        Bytes "bytes" "Bytes of payload sent."
        Copies "copies" "Passes that move payload from one place in memory to another."
        Allocations "allocations" "Calls to the allocator for memory."
        SystemCalls "system calls" "Calls into the kernel."
        Wakes "wakes" "Sleeping nodes whose doorbell was rung."
    }
}

impl Item {
    /// Returns whether the item is measured in nanoseconds; other items are counted and can be quoted.
    pub const fn is_time(self) -> bool {
        self as usize <= Item::Stamps as usize
    }
}

listed! {
    /// A counter of a node. No counter ever decreases.
    ///
    /// ```
    /// use upbeat_core::bill::Counter;
    ///
    /// let mut counters = [0_u64; Counter::COUNT];
    /// counters[Counter::CallsSent.index()] += 1;
    /// ```
    Counter {
        CallsSent "calls sent" "Calls that were written into a lane."
        OnewaysSent "one-ways sent" "One-way messages that were written into a lane."
        RepliesInPlace "replies in place" "Results that the caller read in place, in the lane."
        RepliesStashed "replies stashed" "Results that were copied out because the caller was busy."
        HandlersInline "handlers inline" "Requests whose handler finished in its first poll: bets won."
        PromotedByLock "promoted by lock" "Handlers that became tasks because a lock was held: bets lost."
        PromotedByCondition "promoted by condition" "Handlers that became tasks because they waited for a condition or a signal."
        PromotedByFull "promoted by full" "Handlers that became tasks because a peer had no room for what they sent."
        PromotedByBudget "promoted by budget" "Handlers that became tasks because their time was used up."
        PromotedByCall "promoted by call" "Handlers that became tasks because they called and waited."
        PromotedByTimer "promoted by timer" "Handlers that became tasks because they slept."
        PromotedByOther "promoted by other" "Handlers that became tasks because they waited for something else."
        StartedAsTasks "started as tasks" "Requests that were run as tasks at once, without a bet."
        HandlersRefused "handlers refused" "Calls that were refused for a retry, because a precondition of their handlers did not hold: bets lost."
        HandlersEnded "handlers ended" "Handlers that had to wait although their methods must not: errors to their callers."
        OverRuns "over-runs" "Polls of handlers that took longer than their budget without a pause, as far as this was measured."
        TaskOverRuns "over-runs of tasks" "Polls of tasks of the application, or of the main future, that took longer than a handler's budget, as far as this was measured."
        Blocked "blocked" "Over-runs, of both kinds, in which the thread of the node slept in a system call."
        Sweeps "sweeps" "Polls of every lane, for notes that were lost."
        Sleeps "sleeps" "Times the node went to sleep."
        Wakes "wakes" "Sleeps that ended because of a doorbell, a timer or another thread."
        BellsSent "bells sent" "Doorbells of sleeping peers that were rung."
        Watches "watches" "Polls of the sockets while the node polled its lanes."
        SessionsOpened "sessions opened" "Sessions whose handshake was finished."
        SessionsRemote "sessions between hosts" "Sessions that were opened over a network: to another host, or to this one where no memory could be shared."
        SessionsLost "sessions lost" "Sessions that have ended."
        SessionsSuspended "sessions suspended" "Times a session between hosts lost its connection and waited for another."
        SessionsResumed "sessions resumed" "Times such a session continued over another connection."
        CancelsSent "cancels sent" "Calls whose future was dropped before the reply."
        CancelsHonoured "cancels honoured" "Calls of peers that were ended because they were cancelled."
        OrphansEnded "orphans ended" "Handlers that were dropped, as tasks, because their caller gave up or was lost."
        OrphansExpired "orphans expired" "Handlers that were dropped, as tasks, because their time was over."
        OrphansLeft "orphans left" "Handlers that continued, as tasks, although their caller gave up or their peer was lost."
        OrphanTime "orphan time" "Nanoseconds that orphaned handlers had run as tasks without use."
        Panics "panics" "Panics of handlers, tasks and wakers, including those of their values when they were dropped."
        LaneFull "lane full" "Times a message had to wait because its lane was full."
        LaneGrown "lane grown" "Times a lane continued in a larger segment."
        PeerFaults "peer faults" "Sessions that were ended because the peer broke a rule."
        SamplesTaken "samples taken" "Messages that were sampled, with a record of where their time went."
        SamplesLost "samples lost" "Sampled messages without a record, because a stamp or room for it was missing."
        MessagesPolled "messages polled" "Messages that the node found by polling: while idle, behind other messages, or at poll points."
        MessagesWoken "messages woken for" "Messages that had to wake the node before it took them: upcalls."
        SweepsFound "sweeps that found" "Sweeps over every lane that found a message without a note."
        Computations "computations" "Closures that were begun on another thread."
        RoomAsked "room asked" "Requests that asked for room first, because they were long or too many were on their way."
        Refused "refused" "Requests longer than a slot that a peer had no room for: bets lost."
        RefusedHere "refused here" "Requests of peers for which this node had no room, and requests behind those."
        AcceptedLater "accepted later" "Requests of peers that were refused here and accepted since."
        ProtocolFrames "protocol frames" "Frames of peers that carry no message, but credit or the place of a payload."
        TasksInKeptSlots "tasks in kept slots" "Spawned tasks that started in the slot of an ended task."
        TasksInNewSlots "tasks in new slots" "Spawned tasks that started in a new slot."
        TasksRefused "tasks refused" "Tasks that were not begun because the node had too many."
        CallersTurnedAway "callers turned away" "Connections of other hosts that were refused or gave way: too many from one address, or too slow a handshake."
        ReadsMeetingUpdates "reads meeting updates" "Attempts to read an export of another node in memory that met an update of its owner."
        ReadsByCall "reads by call" "Reads of exports of other nodes that became calls."
        RemoteBytesDeclined "remote bytes declined" "Times a peer on another host got no more memory here, because the node holds as much as it may."
    }
}

impl Counter {
    /// A number that stands for the names of all counters in their order. Observers compare it before they read
    /// counters by their positions.
    pub const NAMES: u64 = {
        // FNV-1a over the names, each with a byte behind it.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut at = 0;
        while at < Counter::COUNT {
            let name = Counter::ALL[at].name().as_bytes();
            let mut byte = 0;
            while byte <= name.len() {
                let value = if byte < name.len() { name[byte] } else { 0 };
                hash = (hash ^ value as u64).wrapping_mul(0x0100_0000_01b3);
                byte += 1;
            }
            at += 1;
        }
        hash
    };
}

/// An amount for every item: nanoseconds for times, and numbers for counts.
///
/// ```
/// use upbeat_core::bill::{Bill, Item};
///
/// let mut call = Bill::default();
/// call[Item::Marshal] = 3.0;
/// call[Item::Wire] = 90.0;
/// let two = call + call;
/// assert_eq!((two.time(), two[Item::Wire]), (186.0, 180.0));
/// assert_eq!((two - call)[Item::Marshal], 3.0);
/// assert!(call.to_string().contains("wire"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bill {
    amounts: [f64; Item::COUNT],
}

impl Bill {
    /// Returns the sum of all times, in nanoseconds.
    pub fn time(&self) -> f64 {
        self.items().filter(|(item, _)| item.is_time()).map(|(_, amount)| amount).sum()
    }

    /// Iterates over the items and their amounts.
    pub fn items(&self) -> impl Iterator<Item = (Item, f64)> + '_ {
        Item::ALL.iter().map(|item| (*item, self[*item]))
    }

    /// Compares this bill with an earlier one, item by item.
    ///
    /// ```
    /// use upbeat_core::bill::{Bill, Item};
    ///
    /// let (mut before, mut after) = (Bill::default(), Bill::default());
    /// before[Item::Lock] = 100.0;
    /// after[Item::Lock] = 50.0;
    /// let text = after.compare(&before).to_string();
    /// assert!(text.contains("lock") && text.contains("-50.0%"), "{text}");
    /// ```
    pub fn compare<'a>(&'a self, before: &'a Bill) -> Comparison<'a> {
        Comparison { before, after: self }
    }
}

impl Default for Bill {
    fn default() -> Bill {
        Bill { amounts: [0.0; Item::COUNT] }
    }
}

impl core::ops::Index<Item> for Bill {
    type Output = f64;

    fn index(&self, item: Item) -> &f64 {
        &self.amounts[item.index()]
    }
}

impl core::ops::IndexMut<Item> for Bill {
    fn index_mut(&mut self, item: Item) -> &mut f64 {
        &mut self.amounts[item.index()]
    }
}

impl Add for Bill {
    type Output = Bill;

    fn add(mut self, other: Bill) -> Bill {
        self += other;
        self
    }
}

impl AddAssign for Bill {
    fn add_assign(&mut self, other: Bill) {
        for (amount, more) in self.amounts.iter_mut().zip(other.amounts) {
            *amount += more;
        }
    }
}

impl Sub for Bill {
    type Output = Bill;

    fn sub(self, other: Bill) -> Bill {
        self + other * -1.0
    }
}

impl Mul<f64> for Bill {
    type Output = Bill;

    fn mul(mut self, factor: f64) -> Bill {
        self.amounts.iter_mut().for_each(|amount| *amount *= factor);
        self
    }
}

/// Prints a line for each item that is not 0; times have their share of the sum.
impl fmt::Display for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.time();
        for (item, amount) in self.items().filter(|(_, amount)| *amount != 0.0) {
            if item.is_time() {
                let part = if time == 0.0 { 0.0 } else { 100.0 * amount / time };
                writeln!(f, "{item:<14}{amount:>12.1} ns{part:>7.1}%")?;
            } else {
                writeln!(f, "{item:<14}{amount:>12.1}")?;
            }
        }
        writeln!(f, "{:<14}{time:>12.1} ns", "sum")
    }
}

/// Two bills side by side.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    before: &'a Bill,
    after: &'a Bill,
}

/// Prints a line for each item that either bill has: before, after, and the change in percent.
impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items =
            Item::ALL.iter().map(|item| (item.name(), self.before[*item], self.after[*item]));
        let sum = ("sum", self.before.time(), self.after.time());
        for (name, before, after) in items.chain([sum]) {
            if before == 0.0 && after == 0.0 {
                continue;
            }
            write!(f, "{name:<14}{before:>12.1}{after:>12.1}")?;
            if before == 0.0 {
                writeln!(f, "{:>9}", "new")?;
            } else {
                writeln!(f, "{:>+8.1}%", 100.0 * (after - before) / before)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn indexes_are_positions_and_names_differ() {
        for (at, item) in Item::ALL.iter().enumerate() {
            assert_eq!(item.index(), at);
        }
        for (at, counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(counter.index(), at);
        }
        let items: HashSet<_> = Item::ALL.iter().map(|item| item.name()).collect();
        let counters: HashSet<_> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        assert_eq!((items.len(), counters.len()), (Item::COUNT, Counter::COUNT));
    }

    #[test]
    fn every_sentence_is_a_sentence() {
        let items = Item::ALL.iter().map(|item| item.sentence());
        let counters = Counter::ALL.iter().map(|counter| counter.sentence());
        assert!(items.chain(counters).all(|text| text.ends_with('.') && text.len() > 10));
    }

    #[test]
    fn times_come_first() {
        let times = Item::ALL.iter().take_while(|item| item.is_time()).count();
        assert_eq!((times, Item::COUNT - times), (24, 6));
    }
}
