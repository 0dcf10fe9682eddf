//! Clients: the types that `#[upbeat::service]` makes of a trait for its callers, and how they are bound.
//!
//! On connecting, the client asks for the numbers of its methods. If the callee lacks a method, or has it with another
//! signature, only a call of that method fails, so methods may be added and changed on either side. The error for
//! another signature names both, and connecting warns of it. Connecting fails only where such methods leave none that can
//! be called.

use crate::call::{Bound, MISSING};
use crate::dispatch::Dispatcher;
use crate::error::{CallError, ConnectError, FailCode, OpenError, Why};
use crate::session::Session;
use crate::warning;
use std::rc::Rc;
use upbeat_core::address::NodeAddress;
use upbeat_core::bind::{BIND, BindReply, BindRequest, Clash};
use upbeat_core::method::{Signature, TOLERANT};
use upbeat_memory::local::Local;

/// A type that belongs to a service, without any bounds, so that a service's own methods can name it.
#[doc(hidden)]
pub trait OfService {
    /// The name of the service.
    const NAME: &'static str;
}

/// A client of a service.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a client of a node's",
    label = "write the `…Client` that `#[upbeat::service]` has made of the trait"
)]
pub trait Client: Sized {
    /// The name of the service.
    const SERVICE: &'static str;

    /// Returns the methods that the client calls, in the order of their indexes, which are described once in a process.
    fn signatures() -> &'static [Signature];

    /// Returns the client for a bound service.
    fn from_bound(bound: Bound) -> Self;
}

/// Returns the request that a client sends on connecting.
pub(crate) fn request(
    service: &'static str,
    signatures: &[Signature],
) -> Result<BindRequest, ConnectError> {
    BindRequest::new(service, signatures)
        .map_err(|error| ConnectError::Service { text: error.to_string() })
}

/// How often a connection is opened again to a name whose node closes meanwhile.
pub(crate) const LEAVING_MAX: u32 = 3;

/// Returns whether a client has met a node that was about to end. Another node may share the name; if none does, the
/// next attempt fails with that error.
pub(crate) fn has_met_leaving(error: &ConnectError) -> bool {
    match error {
        ConnectError::Open(OpenError::Closed { .. })
        | ConnectError::Call(CallError::Failed { code: FailCode::Closing, .. }) => true,
        ConnectError::Call(CallError::NotSent(lost) | CallError::Unknown(lost)) => {
            matches!(lost.why, Why::Closed)
        }
        _ => false,
    }
}

/// The methods of a service as a callee has them.
pub(crate) struct Methods {
    /// The numbers, in the order of the request.
    pub(crate) numbers: Vec<u16>,
    /// The methods that the callee has with other signatures.
    pub(crate) clashes: Vec<Clash>,
}

/// Returns the methods of the node that was connected to by this address, from its reply.
pub(crate) fn methods(
    request: &BindRequest,
    answer: Result<Vec<u8>, CallError>,
    to: &NodeAddress,
    peer: &str,
) -> Result<Methods, ConnectError> {
    let bytes = answer.map_err(ConnectError::Call)?;
    let reply = BindReply::decode(&bytes, request)
        .map_err(|rule| ConnectError::Service { text: rule.to_string() })?;
    if !reply.is_served() {
        return Err(ConnectError::NotServed {
            service: request.service().to_owned(),
            peer: peer.to_owned(),
        });
    }
    let clashes: Vec<_> = reply.clashes(request, peer).collect();
    if reply.is_useless() {
        return Err(ConnectError::Clash(clashes));
    }
    if !clashes.is_empty() {
        warning::methods_clash(&clashes, to, peer);
    }
    let number = |bound: &_| match bound {
        upbeat_core::bind::Bound::Number(number) => *number,
        upbeat_core::bind::Bound::Tolerant(number) => number | TOLERANT,
        _ => MISSING,
    };
    Ok(Methods { numbers: reply.methods().iter().map(number).collect(), clashes })
}

/// Binds a service's methods to a session of this node.
pub(crate) async fn bind(
    node: &Rc<Dispatcher>,
    session: Rc<Session>,
    to: &NodeAddress,
    request: &BindRequest,
    service: &'static str,
) -> Result<Bound, ConnectError> {
    let bind: Rc<[u16]> = Rc::new([BIND]);
    let (node, session) = (Rc::clone(node).into(), session.into());
    let (numbers_of_bind, reconnector) = (bind.into(), Local::default());
    let clashes = Local::default();
    let way = Bound { node, session, service, numbers: numbers_of_bind, clashes, reconnector };
    let answer = way.call::<Vec<u8>, Vec<u8>>(0, "bind", request.encode()).await;
    let Methods { numbers, clashes } = methods(request, answer, to, &way.session.peer_text())?;
    let (numbers, clashes): (Rc<[u16]>, Rc<[Clash]>) = (numbers.into(), clashes.into());
    Ok(Bound { numbers: numbers.into(), clashes: clashes.into(), ..way })
}
