//! Counters of the events of histories.

macro_rules! counts {
    ($($name:ident, $what:literal;)*) => {
        /// How often each fault and each rare event occurred.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Counts {
            $(pub(crate) $name: u64,)*
        }

        impl Counts {
            pub(crate) const fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)*
            }

            /// Returns each count with the name of its event.
            pub(crate) fn each(&self) -> Vec<(&'static str, u64)> {
                vec![$(($what, self.$name)),*]
            }
        }
    };
}

counts! {
    requests, "requests asked";
    replies, "calls that ended with a reply";
    failures, "calls that ended with an error of the callee's";
    deadlines, "calls that ended at their deadline";
    drops, "calls that were dropped";
    unknown, "calls whose fate is unknown";
    unsent, "calls that were not sent";
    hints_lost, "hints lost";
    hints_doubled, "hints doubled";
    full, "frames that found no room in a wire";
    no_buffer, "requests that found no buffer";
    no_answer_buffer, "times that an answer found no buffer";
    kept, "requests that were refused and kept a place";
    nacks, "bets lost: nacks heard";
    reserves, "requests that asked for room";
    grants, "grants heard";
    withdrawals, "requests withdrawn";
    unused, "of those, because their grants were not used in time";
    passed, "senders that had lost their turns";
    waits, "senders that waited for progress";
    breaks, "connections that broke";
    deferred, "frames that were deferred over ordered bytes";
    passing, "frames that passed those";
    given_up, "calls that were given up while they were deferred";
    deferred_cut, "connections that broke while frames were deferred";
    nested, "calls of handlers";
    overloaded, "replies that failed because too many waited";
    unread, "replies dropped because too many were unread";
    lacking, "handlers that waited for what they need, and then began";
    refused, "calls that were sent back";
    again, "calls that came again";
    would_wait, "handlers ended that would have had to wait";
    cancelled, "handlers dropped for a cancel";
    expired, "handlers dropped at their deadline or bound";
    bereaved, "handlers dropped because their caller was lost";
    left, "handlers that went on without their callers";
    questions, "questions of handlers for more time";
    questions_above, "of those, handed on to the callers of who was asked";
    extended, "answers to them that grant some";
    not_extended, "answers that grant none";
    late, "answers to calls that were abandoned";
    streams, "streams opened";
    batches, "batches of streams that were read";
    streams_left, "streams left by their readers";
    streams_cut, "streams whose readers heard that no more come";
    exports, "exports made";
    updates, "values that their updates left";
    opened, "exports opened";
    loads, "reads of exports in memory";
    loads_lost, "attempts of those that met updates";
    questions_of_readers, "questions to owners of exports";
    snapshots, "snapshots";
    changes, "changes of which watches heard";
    expressions, "expressions";
    routes, "reads of values whose place the memory decides";
    missing, "of those, that found none";
    hostile, "hostile questions";
    hostile_refused, "of those, refused";
    crashes, "crashes";
    stale, "restarts that were seen before the death";
    jumps, "clock jumps";
    lies, "frames said twice";
    flips, "frames said with bits turned over";
    rules, "sessions ended for a broken rule";
}
