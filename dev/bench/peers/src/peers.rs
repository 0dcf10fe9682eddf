//! Upbeat and the peers, a module for each.

mod ours;
mod load;
mod iceoryx2;
mod ipc_channel;
mod tarpc;
#[cfg(has_protoc)]
mod tonic;
#[cfg(has_capnp)]
mod capnp;
#[cfg(feature = "zmq")]
mod zmq;
#[cfg(feature = "lamellar")]
pub(crate) mod lamellar;
mod ucx;

use crate::case::Way;
use crate::names::is_wanted;

/// A peer or a case that was left out, and why.
pub(crate) struct LeftOut {
    pub(crate) what: String,
    pub(crate) why: String,
}

/// Returns all ways that this machine has. Upbeat's come first, because the others are compared with them.
pub(crate) fn ways() -> Vec<Way> {
    let mut ways = ours::ways();
    ways.extend(load::ways());
    ways.extend(iceoryx2::ways());
    ways.extend(ipc_channel::ways());
    ways.extend(tarpc::ways());
    #[cfg(has_protoc)]
    ways.extend(tonic::ways());
    #[cfg(has_capnp)]
    ways.extend(capnp::ways());
    #[cfg(feature = "zmq")]
    ways.extend(zmq::ways());
    #[cfg(feature = "lamellar")]
    ways.extend(lamellar::ways());
    if ucx::is_there() {
        ways.extend(ucx::ways());
    }
    ways
}

/// Returns the peers that are missing.
fn missing() -> Vec<LeftOut> {
    let mut missing = Vec::new();
    let mut without = |what: &str, why: &str| {
        let why = format!("{why}; run dev/bench/peers/prepare and try again");
        missing.push(LeftOut { what: what.to_owned(), why });
    };
    if cfg!(not(has_protoc)) {
        without("tonic", "`protoc` was not there when it was built");
    }
    if cfg!(not(has_capnp)) {
        without("capnp-rpc", "`capnp` or its stream.capnp was not there when it was built");
    }
    if cfg!(not(feature = "zmq")) {
        without("zeromq", "built without the feature `zmq`, for `c++` was not there");
    }
    if cfg!(not(feature = "lamellar")) {
        without("lamellar", "built without the feature `lamellar`");
    }
    if !ucx::is_there() {
        without("ucx", "`ucx_perftest` is not installed");
    }
    missing
}

/// Returns the peers that are missing, and the chosen cases that a peer does not have. Cases of one peer with the same
/// reason are one item.
pub(crate) fn left_out(ways: &[Way], names: &[String]) -> Vec<LeftOut> {
    let mut all: Vec<LeftOut> =
        missing().into_iter().filter(|one| is_wanted(names, &one.what)).collect();
    for way in ways {
        for &(op, why) in way.absent.iter().filter(|(op, _)| is_wanted(names, &way.path(*op))) {
            let peer = format!("{}/", way.peer);
            match all.iter_mut().find(|one| one.what.starts_with(&peer) && one.why == why) {
                Some(one) => one.what = format!("{}, {}", one.what, way.path(op)),
                None => all.push(LeftOut { what: way.path(op), why: why.to_owned() }),
            }
        }
    }
    all
}
