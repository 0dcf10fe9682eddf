//! How often everything has happened.

macro_rules! counts {
    ($($name:ident, $what:literal;)*) => {
        /// Faults and turns of fate of histories.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Counts {
            $(pub(crate) $name: u64,)*
        }

        impl Counts {
            pub(crate) const fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)*
            }

            /// Each count with what it counts.
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
    waits, "senders that waited for progress";
    inquiries, "inquiries";
    nested, "calls of handlers";
    crashes, "crashes";
    stale, "restarts that were seen before the death";
    jumps, "clock jumps";
    lies, "frames said twice";
    flips, "frames said with bits turned over";
    rules, "sessions ended for a broken rule";
}
