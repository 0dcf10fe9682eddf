//! Computations whose callers are gone: they end, over every hop, and what they say is not heard.

mod asleep;
pub(crate) mod chain;
mod deadlines;
mod ends;
mod extended;
mod handled;
mod knot;
mod left;
mod oneway;
mod restarts;
mod stopped;
