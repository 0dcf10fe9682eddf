//! The future that connects a client.
//!
//! Nothing happens before the first poll. Dropping the future gives the connection up.

use super::{Node, Whom};
use crate::call::{Bound, Connecting, Reconnector};
use crate::client::{self, Client, LEAVING_MAX};
use crate::dispatch::{Destination, Dispatcher};
use crate::error::ConnectError;
use crate::time::Sleep;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use upbeat_core::backoff::Retry;
use upbeat_core::bind::BindRequest;
use upbeat_core::method::Signature;
use upbeat_memory::local::Local;
use upbeat_memory::ticks::nanoseconds;

/// Connects a client to a node: see [`Node::connect`] and [`ServiceRef::connect`](crate::ServiceRef::connect).
///
/// ```no_run
/// # #[upbeat::service]
/// # pub trait Counter {
/// #     async fn add(&self, n: u64) -> u64;
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let node = upbeat::Node::client()?;
/// node.block_on(async {
///     let connect = node.connect::<CounterClient>("counter");
///     let counter = connect.wait_for(Duration::from_secs(10)).await?;
///     println!("{}", counter.add(1).await?);
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?;
/// # Ok(()) }
/// ```
#[must_use = "a connection is not made until it is awaited"]
pub struct Connect<'n, C> {
    node: &'n Node,
    wait_for: Option<Duration>,
    state: State<'n>,
    service: &'static str,
    signatures: fn() -> &'static [Signature],
    from_bound: fn(Bound) -> C,
}

/// The attempts to connect, under way.
type FirstConnecting<'n> = Pin<Box<dyn Future<Output = Result<Bound, ConnectError>> + 'n>>;

enum State<'n> {
    New(Result<Whom, ConnectError>),
    Connecting(Local<FirstConnecting<'n>>),
    Over,
}

// A type that is no client is reported once, where the application connects: nothing below needs a client again.
impl<'n, C> Connect<'n, C> {
    pub(crate) fn new(node: &'n Node, whom: Result<Whom, ConnectError>) -> Connect<'n, C>
    where
        C: Client,
    {
        Connect {
            node,
            wait_for: None,
            state: State::New(whom),
            service: C::SERVICE,
            signatures: C::signatures,
            from_bound: C::from_bound,
        }
    }

    /// Waits for so long at most if the node does not exist yet, if it starts or shuts down, if its host cannot be
    /// reached, or if it does not serve the service yet. The client tries again after 1 to 2 ms, then less and
    /// less often, up to some ten times a second. When the time is over, [`ConnectError::NotInTime`] has the
    /// error of the last attempt; an attempt that is under way then is finished first. Errors that waiting cannot mend,
    /// such as an invalid name or a service whose methods all have other signatures, end the wait at once.
    ///
    /// The calls of the client wait for so long too, after its peer was lost: see [`Node::connect`].
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let node = upbeat::Node::builder("doc/wait-for").local_only().build()?;
    /// let connect = node.connect::<CounterClient>("nobody").wait_for(Duration::from_millis(20));
    /// let error = node.block_on(connect).err().expect("nobody is there");
    /// assert!(error.to_string().ends_with("it was waited for during 20ms"));
    /// # Ok(()) }
    /// ```
    pub fn wait_for(mut self, time: Duration) -> Self {
        self.wait_for = Some(time);
        self
    }

    /// Begins to connect.
    fn begin(&self, whom: Whom) -> Result<State<'n>, ConnectError> {
        let request = client::request(self.service, (self.signatures)())?;
        let connecting = connect(self.node, whom, request, self.service, self.wait_for);
        let connecting: FirstConnecting<'n> = Box::pin(connecting);
        Ok(State::Connecting(connecting.into()))
    }
}

impl<C> Future for Connect<'_, C> {
    type Output = Result<C, ConnectError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::New(_) = self.state
            && let State::New(whom) = std::mem::replace(&mut self.state, State::Over)
        {
            self.state = self.begin(whom?)?;
        }
        let State::Connecting(connecting) = &mut self.state else {
            panic!("a connection that was made is polled again")
        };
        let bound = ready!(connecting.as_mut().poll(context));
        self.state = State::Over;
        Poll::Ready(bound.map(self.from_bound))
    }
}

/// Connects, and tries again for so long if the node is not there. The client's calls reconnect on the same terms.
async fn connect(
    node: &Node,
    whom: Whom,
    request: BindRequest,
    service: &'static str,
    wait_for: Option<Duration>,
) -> Result<Bound, ConnectError> {
    let inner = &node.inner;
    let until = |time| Retry::until(inner.now_ns().saturating_add(nanoseconds(time)));
    let mut waits = wait_for.map(|time| (time, until(time)));
    loop {
        let error = match attempt(inner, &whom, &request, service).await {
            Ok(bound) => {
                let reconnector = Some(Rc::new(reconnector(whom, request, service, wait_for)));
                return Ok(Bound { reconnector: reconnector.into(), ..bound });
            }
            Err(error) => error,
        };
        let Some((time, retry)) = waits.as_mut().filter(|_| error.may_pass()) else {
            return Err(error);
        };
        let Some(delay) = retry.failed(inner.now_ns(), inner.random()) else {
            return Err(error.after(*time));
        };
        Sleep::new(inner, Duration::from_nanos(delay)).await;
    }
}

/// Tries to connect once, and again at once where the node that was met is about to end.
async fn attempt(
    node: &Rc<Dispatcher>,
    whom: &Whom,
    request: &BindRequest,
    service: &'static str,
) -> Result<Bound, ConnectError> {
    let mut left = LEAVING_MAX;
    loop {
        match node.connect_service(whom, request, service).await {
            Err(error) if left > 0 && client::has_met_leaving(&error) => left -= 1,
            bound => return bound,
        }
    }
}

/// Returns how the calls of a client reconnect.
fn reconnector(
    whom: Whom,
    request: BindRequest,
    service: &'static str,
    wait_for: Option<Duration>,
) -> Reconnector {
    let incarnation = whom.origin.map_or(0, |origin| origin.incarnation);
    let to = Destination { to: whom.to.to_string(), incarnation, request: request.encode() };
    let wanted = Rc::new((whom, request.clone()));
    let connect = move |node: Rc<Dispatcher>| -> Connecting {
        let wanted = Rc::clone(&wanted);
        Box::pin(async move { attempt(&node, &wanted.0, &wanted.1, service).await })
    };
    Reconnector::new(to, request, wait_for, Rc::new(connect))
}
