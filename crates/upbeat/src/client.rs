//! Clients: the types that `#[upbeat::service]` makes of a trait for its callers, and how they are bound.
//!
//! On connecting, the client asks for the numbers of its methods. If the callee has a method with
//! another signature, connecting fails with an error that names both. If the callee lacks a method, only
//! a call of that method fails, so methods may be added on either side.

use crate::call::{Bound, MISSING};
use crate::dispatch::Dispatcher;
use crate::error::{CallError, ConnectError, FailCode, OpenError, Why};
use crate::session::Session;
use std::rc::Rc;
use upbeat_core::bind::{BIND, BindReply, BindRequest};
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

    /// Returns the methods that the client calls, in the order of their indexes.
    fn signatures() -> Vec<Signature>;

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

/// Returns the numbers of the methods, from the callee's reply.
pub(crate) fn numbers(
    request: &BindRequest,
    answer: Result<Vec<u8>, CallError>,
    peer: &str,
) -> Result<Rc<[u16]>, ConnectError> {
    let bytes = answer.map_err(ConnectError::Call)?;
    let reply = BindReply::decode(&bytes, request)
        .map_err(|rule| ConnectError::Service { text: rule.to_string() })?;
    if !reply.is_served() {
        return Err(ConnectError::NotServed {
            service: request.service().to_owned(),
            peer: peer.to_owned(),
        });
    }
    let clashes: Vec<_> = reply.clashes(request).collect();
    if !clashes.is_empty() {
        return Err(ConnectError::Clash(clashes));
    }
    Ok(reply
        .methods()
        .iter()
        .map(|bound| match bound {
            upbeat_core::bind::Bound::Number(number) => *number,
            upbeat_core::bind::Bound::Tolerant(number) => number | TOLERANT,
            _ => MISSING,
        })
        .collect())
}

/// Binds a service's methods to a session of this node.
pub(crate) async fn bind(
    node: &Rc<Dispatcher>,
    session: Rc<Session>,
    request: &BindRequest,
    service: &'static str,
) -> Result<Bound, ConnectError> {
    let bind: Rc<[u16]> = Rc::new([BIND]);
    let (node, session) = (Rc::clone(node).into(), session.into());
    let (numbers_of_bind, reconnector) = (bind.into(), Local::default());
    let way = Bound { node, session, service, numbers: numbers_of_bind, reconnector };
    let answer = way.call::<Vec<u8>, Vec<u8>>(0, "bind", request.encode()).await;
    let numbers = numbers(request, answer, &way.session.peer_text())?.into();
    Ok(Bound { numbers, ..way })
}
