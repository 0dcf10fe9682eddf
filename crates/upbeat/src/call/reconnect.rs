//! How the calls of a client whose peer was lost reach it again.
//!
//! A call that finds its session ended before it was sent waits for one attempt to connect, which it shares with all
//! calls of its node to the same service, and is then sent over the new session. Invariant: a request that a lane has
//! taken is never written into another session.

use super::{Bound, MISSING};
use crate::dispatch::{
    Attempts, Destination, Dispatcher, Duty, Reached, Reconnecting, Since, WaitEnd,
};
use crate::error::{CallError, ConnectError, Lost, Why};
use crate::time::Sleep;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use upbeat_core::backoff::Retry;
use upbeat_core::bind::BindRequest;
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_memory::local::Local;
use upbeat_memory::ticks::nanoseconds;

/// An attempt to connect.
pub(crate) type Connecting = Pin<Box<dyn Future<Output = Result<Bound, ConnectError>>>>;

/// The service of a peer to which a client was connected, and how its calls reach it again.
pub(crate) struct Reconnector {
    to: Rc<Destination>,
    /// The methods, in the order of the client's numbers.
    request: BindRequest,
    /// How long a call waits for the peer, if it waits.
    wait_for: Option<Duration>,
    /// Makes one attempt to connect.
    connect: Rc<dyn Fn(Rc<Dispatcher>) -> Connecting>,
    /// The last attempts.
    attempts: RefCell<Option<Rc<Attempts>>>,
    /// The session that was reached last.
    current: RefCell<Option<Rc<Bound>>>,
}

impl Reconnector {
    pub(crate) fn new(
        to: Destination,
        request: BindRequest,
        wait_for: Option<Duration>,
        connect: Rc<dyn Fn(Rc<Dispatcher>) -> Connecting>,
    ) -> Reconnector {
        let (attempts, current) = (RefCell::default(), RefCell::default());
        Reconnector { to: Rc::new(to), request, wait_for, connect, attempts, current }
    }

    /// Returns the session that was reached last, if it stands.
    fn current(&self, lost: &Bound) -> Option<Rc<Bound>> {
        let stands = |bound: &Rc<Bound>| bound.session.ended().is_none();
        let current = self.current.borrow().clone();
        if let Some(bound) = current.filter(stands) {
            return Some(bound);
        }
        let attempts = self.attempts.borrow().clone();
        self.keep(attempts?.reached()?, lost)
    }

    /// Keeps a session that was reached. None if it has ended since.
    fn keep(&self, reached: &Reached, lost: &Bound) -> Option<Rc<Bound>> {
        let Reached { session, numbers, clashes } = reached;
        if session.ended().is_some() {
            return None;
        }
        let bound = Rc::new(Bound {
            node: lost.node.clone(),
            session: Rc::clone(session).into(),
            service: lost.service,
            numbers: Rc::clone(numbers).into(),
            clashes: Rc::clone(clashes).into(),
            reconnector: Local::default(),
        });
        self.current.replace(Some(Rc::clone(&bound)));
        Some(bound)
    }

    /// Returns until when a call that begins to wait now waits.
    fn until_ns(&self, node: &Dispatcher) -> u64 {
        self.wait_for.map_or(0, |time| node.now_ns().saturating_add(nanoseconds(time)))
    }

    /// Begins attempts to connect, or joins those that are under way.
    fn begin(&self, node: &Rc<Dispatcher>, until_ns: u64, since: Since) -> Reconnect {
        let (attempts, duty) = node.attempts(&self.to);
        let waiter = attempts.wait(until_ns, since);
        self.attempts.replace(Some(attempts));
        if let Some(duty) = duty {
            let connect = Rc::clone(&self.connect);
            duty.spawn(|duty| reach(duty, connect));
        }
        Reconnect::Waits(waiter.into())
    }

    /// Returns the number that a method has at the session of `bound`.
    pub(super) fn number(&self, method: &str, bound: &Bound) -> u16 {
        let at = self.request.methods().position(|(name, _)| name == method);
        at.and_then(|at| bound.numbers.get(at).copied()).unwrap_or(MISSING)
    }
}

/// Connects at once, and then with pauses while a caller waits.
async fn reach(duty: Duty, connect: Rc<dyn Fn(Rc<Dispatcher>) -> Connecting>) {
    let (node, attempts) = (Rc::clone(&duty.node), Rc::clone(&duty.attempts));
    let mut retry = Retry::until(0);
    let outcome = loop {
        attempts.begin();
        let error = match connect(Rc::clone(&node)).await {
            Ok(bound) => break Ok(reached(&bound)),
            Err(error) if !error.may_pass() || mutated(Mutant::PassingIsFinal) => break Err(error),
            Err(error) => error,
        };
        retry.lasts_until(attempts.last_until_ns());
        let Some(pause) = retry.failed(node.now_ns(), node.random()) else { break Err(error) };
        attempts.pause(error);
        Sleep::new(&node, Duration::from_nanos(pause)).await;
    };
    duty.end(outcome);
}

fn reached(Bound { session, numbers, clashes, .. }: &Bound) -> Reached {
    let (session, numbers) = (Rc::clone(session), Rc::clone(numbers));
    Reached { session, numbers, clashes: Rc::clone(clashes) }
}

/// How far a message is whose client has lost its session.
pub(super) enum Reconnect {
    /// The message waits for a session.
    Waits(Local<Reconnecting>),
    /// The message goes, or has gone, over this session.
    Moved(Local<Rc<Bound>>),
}

impl Reconnect {
    /// Returns the session over which the message goes, if it is another than that of its client.
    pub(super) fn moved(&self) -> Option<&Bound> {
        match self {
            Reconnect::Moved(bound) => Some(bound),
            Reconnect::Waits(_) => None,
        }
    }

    pub(super) fn waits(&self) -> bool {
        matches!(self, Reconnect::Waits(_))
    }
}

/// Polls for a session over which the message of a client goes that has lost its own, and which `reconnect` has
/// afterwards. Returns the number of the message's method there.
#[cold]
pub(super) fn poll_reconnect(
    client: &Bound,
    reconnect: &mut Option<Reconnect>,
    method: &str,
    context: &mut Context<'_>,
) -> Poll<Result<u16, CallError>> {
    let node = &client.node;
    let lost = || client.session.lost();
    let Some(reconnector) = &*client.reconnector else { return Poll::Ready(Err(at_loss(lost()))) };
    if node.is_closing() {
        return Poll::Ready(Err(at_loss(Lost::new(&lost().peer, Why::ShutDown))));
    }
    loop {
        match reconnect {
            Some(Reconnect::Moved(bound)) if bound.session.ended().is_none() => {
                let of = if mutated(Mutant::NumberMoved) { client } else { bound };
                return Poll::Ready(Ok(reconnector.number(method, of)));
            }
            Some(Reconnect::Waits(waiter)) => match waiter.poll(node.now_ns(), context.waker()) {
                Poll::Pending => {
                    node.life.drives.is_awaited(context.waker());
                    return Poll::Pending;
                }
                Poll::Ready(WaitEnd::Reached(reached)) => {
                    let kept = reconnector.keep(&reached, client);
                    *reconnect = kept.map(|bound| Reconnect::Moved(bound.into()));
                }
                Poll::Ready(WaitEnd::Failed(error)) => {
                    *reconnect = None;
                    return Poll::Ready(Err(not_reached(error, lost())));
                }
                Poll::Ready(WaitEnd::Missed { until_ns }) => {
                    *reconnect = Some(reconnector.begin(node, until_ns, Since::Earlier));
                }
            },
            Some(Reconnect::Moved(_)) | None => {
                *reconnect = Some(match reconnector.current(client) {
                    Some(bound) => Reconnect::Moved(bound.into()),
                    None => reconnector.begin(node, reconnector.until_ns(node), Since::Now),
                });
            }
        }
    }
}

/// Returns whether a message of this client may go over another session once its own is lost.
pub(super) fn may_reconnect(client: &Bound) -> bool {
    client.reconnector.is_some() && client.session.is_here()
}

fn at_loss(lost: Lost) -> CallError {
    CallError::at_loss(false, lost)
}

/// Returns the error of a message whose peer was lost and not reached again.
fn not_reached(error: ConnectError, lost: Lost) -> CallError {
    match error {
        ConnectError::ShutDown => at_loss(Lost::new(&lost.peer, Why::ShutDown)),
        error => CallError::not_connected(format!("{lost}, and reconnecting failed: {error}")),
    }
}
