//! Limits of caches: round trips of lines at several rates of polling, and loads of lines just written.

use super::tools::Limit;
use crate::bench::ground::DIRTY_LINES;
use crate::bench::line;
use crate::bench::rounds::{Floor, Rate};
use crate::bench::timing::Shape;

/// Returns the limit of round trips of two lines with `PAUSES` pauses between two polls.
const fn paced<const PAUSES: u32>(case: &'static str, about: &'static str) -> Limit {
    Limit::round_trip(
        case,
        about,
        |_, ground, work| line::ping(ground, work, PAUSES),
        |_, ground, work| line::pong(ground, work, PAUSES),
    )
}

/// Returns the limit of round trips of one line that both write, with `PAUSES` pauses between two polls.
const fn one_line<const PAUSES: u32>(case: &'static str, about: &'static str) -> Limit {
    Limit::round_trip(
        case,
        about,
        |_, ground, work| Ok(line::ping_both::<PAUSES>(ground, work)),
        |_, ground, work| {
            line::pong_both::<PAUSES>(ground, work);
            Ok(())
        },
    )
}

/// The limits of this module.
pub(super) const LIMITS: &[Limit] = &[
    paced::<0>("line/tight", "round trip of two cache lines with one writer each; the floor"),
    paced::<1>("line/paced", "the same with a PAUSE between looks; the other floor"),
    paced::<2>("line/paced/2", "the same with 2 PAUSEs between looks"),
    paced::<4>("line/paced/4", "the same with 4"),
    paced::<8>("line/paced/8", "the same with 8"),
    paced::<16>("line/paced/16", "the same with 16"),
    paced::<32>("line/paced/32", "the same with 32"),
    one_line::<0>("line/both/tight", "round trip of one cache line that both sides write"),
    one_line::<1>("line/both/paced", "the same with a PAUSE between looks"),
    Limit {
        case: "load/dirty",
        about: "load of a cache line that the other side has just written, of 256 in a row",
        shape: Shape::Bursts(DIRTY_LINES as u32),
        floor: Floor::Nothing,
        rate: Rate::Nothing,
        client: |_, ground, work| Ok(line::load_dirty(ground, work)),
        server: Some(|_, ground, work| {
            line::write_dirty(ground, work);
            Ok(())
        }),
    },
];
