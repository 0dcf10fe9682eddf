//! The bill: what a message cost, item by item, and what a node has counted.
//!
//! Items and counters are declared here once, each with its sentence. A [`Bill`] is an amount for
//! every item; it adds, subtracts, compares and prints. Which phases a primitive's way has is said
//! in [`way`], what two sides took of one message is put together in [`taken`], how samples become a bill in [`collected`], what was bet and lost in [`bet`], by how much clocks of two hosts differ in [`clock`]. Who
//! takes the stamps, where they lie and how they are shown is left to others. The invariant: this
//! is the only list of items and of counters; the place of a variant in it is its index wherever
//! they stand in an array.

pub mod bet;
pub mod clock;
pub mod way;
pub mod taken;
pub mod collected;

use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub};

/// Declares an enum whose variants have a name and a sentence, which is their documentation too.
macro_rules! listed {
    ($(#[$doc:meta])* $list:ident { $($variant:ident $name:literal $sentence:literal)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        pub enum $list {
            $(#[doc = $sentence] $variant,)*
        }

        impl $list {
            /// All of them, in the order of their indexes.
            pub const ALL: &[$list] = &[$($list::$variant),*];

            /// How many there are.
            pub const COUNT: usize = $list::ALL.len();

            /// Its place in an array of all.
            #[inline]
            pub const fn index(self) -> usize {
                self as usize
            }

            /// Its name, in one word or a few.
            pub const fn name(self) -> &'static str {
                match self { $($list::$variant => $name,)* }
            }

            /// Returns a sentence that says what the entry is.
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
        FlowControl "flow control" "Deciding whether the message may go, and under which number."
        Claim "claim" "Taking room for the message in a lane or a buffer."
        Marshal "marshal" "Writing arguments or results as bytes."
        Copy "copy" "Moving payload from one place in memory to another."
        Publish "publish" "Storing the head that makes the message visible to its reader; between hosts, all that is done before it is written."
        Encrypt "encrypt" "Encrypting what is sent with the message."
        Write "write" "Giving the message to the socket: system calls, and waiting for room there."
        Wake "wake" "Ringing a sleeper's bell, and its way back to its lanes."
        Wire "wire" "The way between publishing, or writing, and the reader's first sight of it."
        Read "read" "Reading the message from the socket: the system call that brought its end, decrypting, and taking it into the lane."
        Notice "notice" "Lying in the lane while the reader's node was busy with something else."
        Check "check" "Holding the head and its numbers against the rules."
        Dispatch "dispatch" "Finding the handler of the method, or the waiter of the call."
        Decode "decode" "Reading arguments or results from bytes."
        Execute "execute" "Running the handler until it is done or waits."
        Promote "promote" "Making a handler that has to wait a task."
        Lock "lock" "Waiting, as a task, for a lock."
        Wait "wait" "Waiting, as a task, for something else: a call, a timer, an event."
        Queue "queue" "Being ready to go on while the node ran others."
        Reply "reply" "Writing and publishing the answer."
        Deliver "deliver" "Handing the answer to the caller and going on there."
        Watch "watch" "Looking at sockets for bells and for the death of peers."
        Stamps "stamps" "Taking the time stamps of the bill itself."
        CacheLines "cache lines" "Cache lines that go from one core to another."
        Bytes "bytes" "Bytes of payload sent."
        Copies "copies" "Times that payload is moved from one place in memory to another."
        Allocations "allocations" "Pieces of memory asked of the allocator."
        SystemCalls "system calls" "Calls into the kernel."
        Wakes "wakes" "Sleepers whose bell was rung."
    }
}

impl Item {
    /// Whether it is measured in nanoseconds; the others are counted and can be quoted.
    pub const fn is_time(self) -> bool {
        self as usize <= Item::Stamps as usize
    }
}

listed! {
    /// A counter of a node. None ever goes down.
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
        RepliesInPlace "replies in place" "Results that the caller read where they lay in the lane."
        RepliesStashed "replies stashed" "Results that were copied out because the caller was busy."
        HandlersInline "handlers inline" "Requests whose handler was done when first polled: bets won."
        PromotedByLock "promoted by lock" "Handlers that became tasks because a lock was held: bets lost."
        PromotedByCondition "promoted by condition" "Handlers that became tasks because they waited for a condition or a signal."
        PromotedByFull "promoted by full" "Handlers that became tasks because a peer had no room for what they sent."
        PromotedByBudget "promoted by budget" "Handlers that became tasks because their time was used up."
        PromotedByCall "promoted by call" "Handlers that became tasks because they called and waited."
        PromotedByTimer "promoted by timer" "Handlers that became tasks because they slept."
        PromotedByOther "promoted by other" "Handlers that became tasks because they waited for something else."
        StartedAsTasks "started as tasks" "Requests that were run as tasks at once, and no bet was taken."
        HandlersRefused "handlers refused" "Calls that were sent back, since what their handlers need was not there: bets lost."
        HandlersEnded "handlers ended" "Handlers that would have had to wait where they may not: errors to their callers."
        OverRuns "over-runs" "Handlers that ran beyond their budget without a pause, as far as it was looked at."
        Sweeps "sweeps" "Looks at every lane, for notes that were lost."
        Sleeps "sleeps" "Times the node went to sleep."
        Wakes "wakes" "Sleeps that something ended: a bell, a timer, another thread."
        BellsSent "bells sent" "Bells rung at peers that slept."
        Watches "watches" "Looks at sockets while polling."
        SessionsOpened "sessions opened" "Sessions whose handshake was finished."
        SessionsRemote "sessions between hosts" "Sessions that were opened over a network: to another host, or to this one where no memory could be shared."
        SessionsLost "sessions lost" "Sessions that have ended."
        SessionsSuspended "sessions suspended" "Times a session between hosts lost its connection and waited for another."
        SessionsResumed "sessions resumed" "Times such a session went on over another connection."
        CancelsSent "cancels sent" "Calls whose future was dropped before their answer."
        CancelsHonoured "cancels honoured" "Calls of peers that were ended because they were cancelled."
        OrphansEnded "orphans ended" "Handlers that were dropped, as tasks, because their caller gave up or was lost."
        OrphansExpired "orphans expired" "Handlers that were dropped, as tasks, because their time was over."
        OrphansLeft "orphans left" "Handlers that went on, as tasks, though their caller gave up or their peer was lost."
        OrphanTime "orphan time" "Nanoseconds that such handlers had run as tasks, in vain."
        Panics "panics" "Handlers and tasks that panicked, and values of theirs that did when they were dropped."
        LaneFull "lane full" "Times a message had to wait because its lane was full."
        LaneGrown "lane grown" "Times a lane went on in a bigger segment."
        PeerFaults "peer faults" "Sessions that were ended because the peer broke a rule."
        SamplesTaken "samples taken" "Messages of which it was written down where their time went."
        SamplesLost "samples lost" "Sampled messages of which a stamp, or room to write it down, was missing."
        MessagesPolled "messages polled" "Messages that the node took because it looked: while idle, behind others, at poll points."
        MessagesWoken "messages woken for" "Messages that had to wake the node before it took them: upcalls."
        SweepsFound "sweeps that found" "Looks at every lane that found a message of which no note was left."
        Computations "computations" "Closures that were begun on another thread."
        RoomAsked "room asked" "Requests for which room was asked first: too long, or too many on their way."
        Refused "refused" "Requests longer than a slot that a peer had no room for: bets lost."
        RefusedHere "refused here" "Requests of peers that this node had no room for, or that came behind such."
        AcceptedLater "accepted later" "Requests of peers that were refused here and accepted since."
        ProtocolFrames "protocol frames" "Frames of peers that carry no message but say what may be sent, and where it lies."
        TasksInKeptSlots "tasks in kept slots" "Spawned tasks that started in the slot of one that had ended: live stacks."
        TasksInNewSlots "tasks in new slots" "Spawned tasks for which no slot of one that had ended was there."
        TasksRefused "tasks refused" "Tasks that were not begun because the node had too many."
        CallersTurnedAway "callers turned away" "Connections of other hosts that were refused or gave way: too many of their address, or too slow a handshake."
        RemoteBytesDeclined "remote bytes declined" "Times a peer on another host had no more memory here because the node holds as much as it may."
    }
}

/// An amount for every item: nanoseconds for times, numbers for what is counted.
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
    /// The sum of all times, in nanoseconds.
    pub fn time(&self) -> f64 {
        self.items().filter(|(item, _)| item.is_time()).map(|(_, amount)| amount).sum()
    }

    /// Every item and its amount.
    pub fn items(&self) -> impl Iterator<Item = (Item, f64)> + '_ {
        Item::ALL.iter().map(|item| (*item, self[*item]))
    }

    /// This bill held against another: what each item has become.
    ///
    /// ```
    /// use upbeat_core::bill::{Bill, Item};
    ///
    /// let (mut before, mut after) = (Bill::default(), Bill::default());
    /// before[Item::Lock] = 100.0;
    /// after[Item::Lock] = 50.0;
    /// let text = after.against(&before).to_string();
    /// assert!(text.contains("lock") && text.contains("-50.0%"), "{text}");
    /// ```
    pub fn against<'a>(&'a self, before: &'a Bill) -> Against<'a> {
        Against { before, after: self }
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

/// A line for each item that costs anything, times with their part of the whole.
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
pub struct Against<'a> {
    before: &'a Bill,
    after: &'a Bill,
}

/// A line for each item that either bill has: before, after, and the change in percent.
impl fmt::Display for Against<'_> {
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
    fn indexes_are_places_and_names_differ() {
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
    fn every_sentence_is_one() {
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
