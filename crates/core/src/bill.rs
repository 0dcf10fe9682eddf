//! The items of a bill and the counters of a node, each declared once with its sentence.
//!
//! Who takes the stamps, where counters lie and how they are shown is left to others. The
//! invariant: this is the only list of either; the place of a variant in it is its index wherever
//! items or counters stand in an array, so new ones go to the end.

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

            /// What it is, in a sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $($list::$variant => $sentence,)* }
            }
        }

        impl std::fmt::Display for $list {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
        Marshal "marshal" "Writing arguments or results as bytes."
        FlowControl "flow control" "Deciding whether the message may go, and under which number."
        Claim "claim" "Taking room for the message in a lane or a buffer."
        Copy "copy" "Moving payload from one place in memory to another."
        Publish "publish" "Storing the head that makes the message visible to its reader."
        Wire "wire" "The way between publishing and the reader's first sight of it."
        Notice "notice" "Looking at lanes until the one with the message is found."
        Check "check" "Holding the head and its numbers against the rules."
        Dispatch "dispatch" "Finding the handler of the method, or the waiter of the call."
        Decode "decode" "Reading arguments or results from bytes."
        Execute "execute" "Running the handler until it is done or waits."
        Promote "promote" "Making a handler that waits a task, and running it to its end."
        Reply "reply" "Writing and publishing the answer."
        Deliver "deliver" "Handing the answer to the caller and going on there."
        Wake "wake" "Ringing a sleeper's bell, and its way back to its lanes."
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
        HandlersPromoted "handlers promoted" "Requests whose handler had to wait and became a task: bets lost."
        Sweeps "sweeps" "Looks at every lane, for notes that were lost."
        Sleeps "sleeps" "Times the node went to sleep."
        Wakes "wakes" "Sleeps that something ended: a bell, a timer, another thread."
        BellsSent "bells sent" "Bells rung at peers that slept."
        Watches "watches" "Looks at sockets while polling."
        SessionsOpened "sessions opened" "Sessions whose handshake was finished."
        SessionsLost "sessions lost" "Sessions that have ended."
        CancelsSent "cancels sent" "Calls whose future was dropped before their answer."
        CancelsHonoured "cancels honoured" "Calls of peers that were ended because they were cancelled."
        Panics "panics" "Handlers and tasks that panicked."
        LaneFull "lane full" "Times a message had to wait because its lane was full."
        LaneGrown "lane grown" "Times a lane went on in a bigger segment."
        PeerFaults "peer faults" "Sessions that were ended because the peer broke a rule."
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
        assert_eq!((times, Item::COUNT - times), (17, 6));
    }
}
