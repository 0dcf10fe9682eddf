//! Ours and the peers, a module for each.

mod ours;
mod tarpc;
#[cfg(has_protoc)]
mod tonic;

use crate::case::Way;

/// Something that was left out, and why.
pub(crate) struct LeftOut {
    pub(crate) what: String,
    pub(crate) why: String,
}

/// All ways that this machine has. Ours come first, for others are compared with them.
pub(crate) fn ways() -> Vec<Way> {
    let mut ways = ours::ways();
    ways.extend(tarpc::ways());
    #[cfg(has_protoc)]
    ways.extend(tonic::ways());
    ways
}

/// The peers that are not here.
pub(crate) fn missing() -> Vec<LeftOut> {
    let mut missing = Vec::new();
    let mut without = |what: &str, why: &str| {
        let why = format!("{why}; run dev/bench/prepare and try again");
        missing.push(LeftOut { what: what.to_owned(), why });
    };
    if cfg!(not(has_protoc)) {
        without("tonic", "`protoc` was not there when it was built");
    }
    missing
}

/// The cases that peers do not have.
pub(crate) fn absent(ways: &[Way]) -> Vec<LeftOut> {
    let absent = |way: &Way| {
        let line = |&(op, why)| LeftOut { what: way.path(op), why: str::to_owned(why) };
        way.absent.iter().map(line).collect::<Vec<_>>()
    };
    ways.iter().flat_map(absent).collect()
}
