//! Layers around the methods of a service, and the limit on its handlers.
//!
//! A layered method is entered with another future than a plain one: layers and the limit come first, and the
//! method's future is made when they have let the call through. Invariant: a call whose method has run is answered
//! with the method's result, and a refused one with the text of its layer; any other call has no reply yet.

use super::outcome::{Outcome, Refusal};
use super::rules::{Rule, Series};
use super::{Bare, From, Methods, Serve, Wraps};
use crate::contain::contain;
use crate::dispatch::Dispatcher;
use crate::metadata::{self, Context};
use crate::sample::Names;
use crate::session::Session;
use crate::warning::{Problem, warn_of};
use crate::wire::{Incoming, Wire};
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use upbeat_core::context::Context as Entries;
use upbeat_core::frame::FailCode;
#[cfg(upbeat_mutants)]
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_memory::ticks::{Ticks, ticks};

/// Code around all methods of a service: authentication, limits, logging.
///
/// `CounterServer::new(service).layer(one).layer(two)` puts layers around a service; `one` comes first and is the
/// outermost. A layer sees each call and one-way message before its method runs, may wait, and passes it on with
/// [`Next::run`], or refuses it. When a handler is dropped (its caller has cancelled, its deadline has passed), the
/// layer's future is dropped as well. A layer that panics fails only the call around which it runs.
///
/// A service without layers pays nothing for them. With layers, each call takes an allocation for
/// each of them.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use std::time::Duration;
/// use upbeat::{CallError, CallInfo, Layer, Next, Outcome, Refusal};
///
/// #[derive(Serialize, Deserialize, upbeat::Wire)]
/// struct Token(String);
///
/// impl upbeat::Context for Token {
///     const KEY: &'static str = "token";
/// }
///
/// /// Lets callers pass who know the word.
/// struct Auth(&'static str);
///
/// impl Layer for Auth {
///     async fn around(&self, call: &CallInfo, next: Next<'_>) -> Result<(), Refusal> {
///         match call.context::<Token>() {
///             Some(Token(word)) if word == self.0 => next.run().await,
///             _ => Err(Refusal::new("a token is needed")),
///         }
///     }
/// }
///
/// /// Prints the outcome of each call.
/// struct Log;
///
/// impl Layer for Log {
///     fn ended(&self, call: &CallInfo, outcome: Outcome, took: Duration) {
///         println!("{}.{}: {outcome} after {took:?}", call.service(), call.method());
///     }
/// }
///
/// #[upbeat::service]
/// pub trait Counter {
///     async fn add(&self, n: u64) -> u64;
/// }
/// # struct Count;
/// # impl Counter for Count {
/// #     async fn add(&self, n: u64) -> u64 {
/// #         n
/// #     }
/// # }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let node = upbeat::Node::builder("doc/layers").local_only().build()?;
/// node.serve(CounterServer::new(Count).layer(Log).layer(Auth("sesame")))?;
/// node.block_on(async {
///     let counter: CounterClient = node.connect("doc/layers").await?;
///     assert_eq!(counter.add(1).with(&Token("sesame".into())).await, Ok(1));
///     let refused = counter.add(1).await.unwrap_err();
///     assert!(matches!(refused, CallError::Refused { text, .. } if &*text == "a token is needed"));
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })
/// # }
/// ```
pub trait Layer: 'static {
    /// Passes a call on by awaiting [`Next::run`], or refuses it by an error, before its method has begun. The error
    /// reaches the caller as [`CallError::Refused`](crate::CallError::Refused); for a one-way message, a line on
    /// standard error reports it, once for each service.
    ///
    /// A layer that drops the future of [`Next::run`] (a time limit does) ends the method where it waits. If the method
    /// had begun, the caller gets [`FailCode::Aborted`](crate::error::FailCode::Aborted) with the text of the error. An
    /// error after the method is done is ignored.
    fn around(&self, call: &CallInfo, next: Next<'_>) -> impl Future<Output = Result<(), Refusal>> {
        let _ = call;
        next.run()
    }

    /// Reports the outcome of a call that has reached this layer, and the time that it took from there. The reply is
    /// sent only after this.
    fn ended(&self, call: &CallInfo, outcome: Outcome, took: Duration) {
        let _ = (call, outcome, took);
    }
}

/// A call, or a one-way message, as a [`Layer`] sees it.
///
/// ```
/// fn line(call: &upbeat::CallInfo) -> String {
///     let from = call.peer().unwrap_or("a handle");
///     format!("{}.{} from {from}: {} bytes", call.service(), call.method(), call.bytes())
/// }
/// ```
pub struct CallInfo {
    node: Rc<Dispatcher>,
    session: Rc<Session>,
    names: Names,
    is_oneway: bool,
    bytes: usize,
    end: Option<u64>,
    context: Option<Arc<Entries>>,
}

impl CallInfo {
    fn new(from: From<'_>, names: Names, is_oneway: bool) -> CallInfo {
        let From { node, session, end, handed, bytes, .. } = from;
        let (node, session) = (Rc::clone(node), Rc::clone(session));
        CallInfo { node, session, names, is_oneway, bytes, end, context: handed.context.cloned() }
    }

    /// Returns the name of the service.
    ///
    /// See [`CallInfo`] for an example.
    pub fn service(&self) -> &'static str {
        self.names.0
    }

    /// Returns the name of the method.
    ///
    /// See [`CallInfo`] for an example.
    pub fn method(&self) -> &'static str {
        self.names.1
    }

    /// Returns whether the message is a one-way message, whose sender waits for nothing.
    ///
    /// See [`CallInfo`] for an example.
    pub fn is_oneway(&self) -> bool {
        self.is_oneway
    }

    /// Returns the name of the calling node, or `None` if a handle calls, which has no name.
    ///
    /// See [`CallInfo`] for an example.
    pub fn peer(&self) -> Option<&str> {
        self.session.carrier.peer.name.as_ref().map(|name| name.as_str())
    }

    /// Returns how many bytes the arguments have in the message.
    ///
    /// See [`CallInfo`] for an example.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the value of this type that the caller has sent along: see [`context`](crate::context()).
    ///
    /// See [`Layer`] for an example.
    pub fn context<C: Context>(&self) -> Option<C> {
        metadata::read(self.context.as_ref()?)
    }

    /// Returns how much time is left until the caller's deadline when it called, if it has set one.
    ///
    /// See [`CallInfo`] for an example.
    pub fn time_left(&self) -> Option<Duration> {
        let left = self.end?.saturating_sub(self.node.now_ns());
        Some(Duration::from_nanos(left))
    }
}

impl fmt::Debug for CallInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (service, method) = self.names;
        write!(f, "CallInfo({service}.{method} from {})", self.session.peer_text())
    }
}

/// The part of a call behind a [`Layer`]: the other layers, the limit, the method.
///
/// See [`Layer`] for an example.
pub struct Next<'a> {
    layers: &'a [Rc<dyn AnyLayer>],
    call: &'a CallInfo,
    method: Pin<&'a mut (dyn Future<Output = Outcome> + 'a)>,
    /// The outcome of the method once it is done, and before that, from its beginning, [`Outcome::Aborted`].
    outcome: &'a Cell<Option<Outcome>>,
}

impl Next<'_> {
    /// Passes the call on. Ends when the method has ended, or with the refusal of a layer behind this one.
    ///
    /// See [`Layer`] for an example.
    pub async fn run(self) -> Result<(), Refusal> {
        let Next { layers, call, method, outcome } = self;
        match layers.split_first() {
            Some((first, rest)) => {
                first.pass(call, Next { layers: rest, call, method, outcome }).await
            }
            None => {
                outcome.set(Some(method.await));
                Ok(())
            }
        }
    }
}

type Passing<'a> = Pin<Box<dyn Future<Output = Result<(), Refusal>> + 'a>>;

/// A layer of any type.
trait AnyLayer {
    /// Runs a call through the layer.
    fn pass<'a>(&'a self, call: &'a CallInfo, next: Next<'a>) -> Passing<'a>;
}

impl<L: Layer> AnyLayer for L {
    fn pass<'a>(&'a self, call: &'a CallInfo, next: Next<'a>) -> Passing<'a> {
        Box::pin(async move {
            let of_method = next.outcome;
            let mut watch = Watch { layer: self, call, outcome: None, begun: ticks() };
            let passed = self.around(call, next).await;
            watch.outcome = Some(of_method.get().unwrap_or(Outcome::Refused));
            passed
        })
    }
}

/// Reports the outcome of a call to its layer, when it is dropped.
struct Watch<'a, L: Layer> {
    layer: &'a L,
    call: &'a CallInfo,
    outcome: Option<Outcome>,
    begun: u64,
}

impl<L: Layer> Drop for Watch<'_, L> {
    fn drop(&mut self) {
        let ended = if std::thread::panicking() { Outcome::Panicked } else { Outcome::Cancelled };
        let outcome = self.outcome.unwrap_or(ended);
        let took = Duration::from(Ticks(ticks().saturating_sub(self.begun)));
        contain(|| self.layer.ended(self.call, outcome, took));
    }
}

/// A service with layers around it, or a limit: the type of `CounterServer::new(service).layer(…)`.
///
/// See [`Layer`] for an example.
#[doc(hidden)]
pub struct Layered<S> {
    service: S,
    layers: Vec<Rc<dyn AnyLayer>>,
    limit: Option<usize>,
}

impl<S> Layered<S> {
    /// Returns this service, with nothing around it yet.
    #[doc(hidden)]
    pub fn new(service: S) -> Layered<S> {
        Layered { service, layers: Vec::new(), limit: None }
    }

    /// Puts a layer around the service, inside of the layers that it has.
    ///
    /// See [`Layer`] for an example.
    #[must_use = "a node serves what this gives"]
    pub fn layer(mut self, layer: impl Layer) -> Layered<S> {
        self.layers.push(Rc::new(layer));
        self
    }

    /// Lets at most so many handlers of the service run at once, including waiting handlers. Further calls wait in the
    /// order in which the layers have let them through, as tasks: they hold their share of the node's budget, and their
    /// deadlines and their callers end them as they end others. The later one of two limits holds.
    ///
    /// # Panics
    /// When the limit is 0: no handler could ever run.
    ///
    /// ```
    /// #[upbeat::service]
    /// pub trait Images {
    ///     async fn shrink(&self, image: Vec<u8>) -> Vec<u8>;
    /// }
    /// # struct Shop;
    /// # impl Images for Shop {
    /// #     async fn shrink(&self, image: Vec<u8>) -> Vec<u8> {
    /// #         image
    /// #     }
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = upbeat::Node::builder("doc/limit").local_only().build()?;
    /// node.serve(ImagesServer::new(Shop).max_concurrent(64))?;
    /// # Ok(()) }
    /// ```
    #[must_use = "a node serves what this gives"]
    pub fn max_concurrent(mut self, handlers: usize) -> Layered<S> {
        assert!(handlers > 0, "`max_concurrent(0)` would let no handler run: name at least 1");
        self.limit = Some(handlers);
        self
    }
}

impl<S: Serve> Serve for Layered<S> {
    const SERVICE: &'static str = S::SERVICE;

    /// Replaces `W`, which can only be [`Bare`], by the layers of this service.
    fn methods<W: Wraps>(self, methods: &mut Methods<'_, W>) {
        let Layered { service, layers, limit } = self;
        let limit = limit.map(|handlers| Series::new(S::SERVICE, handlers));
        let wraps = Around(Rc::new(Surroundings { layers, limit }));
        let Methods { service: name, enter, node, execution, statistics, .. } = methods;
        let (enter, execution): (&mut dyn FnMut(_), _) = (&mut **enter, *execution);
        service.methods(&mut Methods { service: name, enter, node, execution, statistics, wraps });
    }
}

/// The layers and the limit around each method of a service.
struct Surroundings {
    layers: Vec<Rc<dyn AnyLayer>>,
    limit: Option<Rc<Series>>,
}

/// Enters methods with layers and a limit around them.
struct Around(Rc<Surroundings>);

impl Wraps for Bare {
    fn enter<A, R, F, const ONEWAY: bool>(
        methods: &mut Methods<'_, Bare>,
        name: &'static str,
        rule: Rule,
        make: impl Fn(A) -> F + 'static,
    ) where
        A: Incoming,
        R: Wire,
        F: Future<Output = R> + 'static,
    {
        let make = move |_: From<'_>, arguments: A| make(arguments);
        methods.enter_as::<A, R, F, _, ONEWAY>(name, rule, make);
    }
}

impl Wraps for Around {
    fn enter<A, R, F, const ONEWAY: bool>(
        methods: &mut Methods<'_, Around>,
        name: &'static str,
        rule: Rule,
        make: impl Fn(A) -> F + 'static,
    ) where
        A: Incoming,
        R: Wire,
        F: Future<Output = R> + 'static,
    {
        let (around, make, names) =
            (Rc::clone(&methods.wraps.0), Rc::new(make), (methods.service, name));
        let make = move |from: From<'_>, arguments: A| {
            let (around, make) = (Rc::clone(&around), Rc::clone(&make));
            let call = CallInfo::new(from, names, ONEWAY);
            run(around, call, move || make(arguments))
        };
        methods.enter_as::<A, Answered<R>, _, _, ONEWAY>(name, rule, make);
    }
}

/// The outcome of a handler for its caller.
pub(super) trait Answer {
    type Value: Wire;

    /// Returns the result, or why there is none.
    fn value(&self) -> Result<&Self::Value, &Unanswered>;
}

/// Why the layers of a service let a call end without the result of its method.
pub(super) struct Unanswered {
    pub(super) code: FailCode,
    pub(super) refusal: Refusal,
}

impl<R: Wire> Answer for R {
    type Value = R;

    #[inline(always)]
    fn value(&self) -> Result<&R, &Unanswered> {
        Ok(self)
    }
}

/// The outcome of a handler with layers around it.
struct Answered<R>(Result<R, Unanswered>);

impl<R: Wire> Answer for Answered<R> {
    type Value = R;

    fn value(&self) -> Result<&R, &Unanswered> {
        self.0.as_ref()
    }
}

/// Runs a method inside of its layers and its limit.
async fn run<R: Wire, F: Future<Output = R>>(
    around: Rc<Surroundings>,
    call: CallInfo,
    method: impl FnOnce() -> F,
) -> Answered<R> {
    let Surroundings { layers, limit } = &*around;
    #[cfg(upbeat_mutants)]
    let (limit, _turn) = match mutated(Mutant::LimitBeforeLayers) {
        true => (&None, Some(Series::arrive(limit.as_ref()).come().await)),
        false => (limit, None),
    };
    let (result, outcome) = (Cell::new(None), Cell::new(None));
    let limited = async {
        let _turn = Series::arrive(limit.as_ref()).come().await;
        outcome.set(Some(Outcome::Aborted));
        method().await
    };
    if layers.is_empty() {
        return Answered(Ok(limited.await));
    }
    let method = pin!(async {
        let value = limited.await;
        let outcome = if value.is_error() { Outcome::Failed } else { Outcome::Replied };
        result.set(Some(value));
        outcome
    });
    let next = Next { layers, call: &call, method, outcome: &outcome };
    let passed = next.run().await;
    match result.take() {
        Some(value) => Answered(Ok(value)),
        None => Answered(Err(call.unanswered(passed.err(), outcome.get().is_some()))),
    }
}

impl CallInfo {
    /// Returns why the call has no result. Reports the loss of a one-way message on standard error, because its sender
    /// waits for nothing.
    #[cold]
    fn unanswered(&self, refusal: Option<Refusal>, has_begun: bool) -> Unanswered {
        let (code, ended, silent) = if has_begun {
            (
                FailCode::Aborted,
                "ended",
                "a layer of the service ended the method before it was done",
            )
        } else {
            let silent = "a layer of the service ended the call without running its method";
            (FailCode::Denied, "refused", silent)
        };
        let refusal = refusal.unwrap_or_else(|| Refusal::new(silent));
        if self.is_oneway {
            let ((service, method), peer) = (self.names, self.session.peer_text());
            let what = format_args!("a one-way message for {service}.{method} from {peer}");
            let text = format_args!("{what} was {ended} by a layer of the service: {refusal}");
            warn_of((service, "a layer's refusal"), Problem::Dropped, text);
        }
        Unanswered { code, refusal }
    }
}
