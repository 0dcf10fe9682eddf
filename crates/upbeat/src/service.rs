//! Services: the code that runs requests.
//!
//! A method is an `async fn`. Its future is built in a slot that is kept for it and polled once,
//! with no task and no queue: an active message. Should it have to wait, the slot becomes the task
//! and the method takes another; nothing is moved and nothing runs twice. A handler that must be run in
//! another way belongs to another kind of method (`ruled`), so that the common path has no test for it.
//!
//! Invariant: an accepted call gets one reply: the method's result, or the reason
//! why there is none.

mod rules;

mod outcome;

mod layers;

mod caller;

mod waiting;

mod slot;

mod promoted;

mod ruled;

mod counted;

pub(crate) use caller::{Caller, WithCaller};
pub use layers::{CallInfo, Layer, Layered, Next};
pub use outcome::{Outcome, Refusal};
pub use rules::{Needs, Rule, Rules, Series, Turn, needs};

use crate::dispatch::{Dispatcher, Entry, Handed, Method, NodeSession, Offer, Request};
use crate::execution::Execution;
use crate::sample::{Names, Sample, Stamps, Unsampled};
use crate::session::Session;
use crate::statistics::{Collected, MethodCounts};
use crate::warning::{Problem, warn_of};
use crate::wire::{
    AnyContent, Attaching, Incoming, Input, MessageContext, Wire, WireError, signature,
};
use counted::Tallied;
use layers::Answer;
use ruled::{Ruled, Ruling};
use slot::{Beside, Spare, vacant};
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Poll};
use upbeat_core::bill::Counter;
use upbeat_core::bill::way::Point;
use upbeat_core::frame::{CallNumber, FailCode, Kind};
use upbeat_core::limits::HANDLER_BUDGET_NS;
use upbeat_core::orphan::is_too_late;
use upbeat_memory::future_slot::FilledSlot;
use upbeat_memory::ticks::Ticks;

/// A service that a node can serve. `#[upbeat::service]` implements it for the server of a trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what a node serves",
    label = "write `…Server::new(…)`, the server that `#[upbeat::service]` has made of its trait"
)]
pub trait Serve {
    /// The name of the service.
    const SERVICE: &'static str;

    /// Enters every method.
    fn methods<W: Wraps>(self, methods: &mut Methods<'_, W>);
}

/// Decides whether methods are entered with layers around them. It is a type, so that a program
/// without layers has no code for them.
#[doc(hidden)]
pub trait Wraps: Sized {
    /// Enters a method, with its layers.
    fn enter<A, R, F, const ONEWAY: bool>(
        methods: &mut Methods<'_, Self>,
        name: &'static str,
        rule: Rule,
        make: impl Fn(A) -> F + 'static,
    ) where
        A: Incoming,
        R: Wire,
        F: Future<Output = R> + 'static;
}

/// No layers around the methods.
#[doc(hidden)]
pub struct Bare;

/// A service enters its methods here.
pub struct Methods<'a, W = Bare> {
    pub(crate) service: &'static str,
    pub(crate) enter: &'a mut dyn FnMut(Entry),
    pub(crate) node: &'a Dispatcher,
    /// How handlers are run whose methods do not say so.
    pub(crate) execution: Execution,
    /// The statistics in which calls are counted.
    pub(crate) statistics: &'a Collected,
    /// The layers around the methods.
    pub(crate) wraps: W,
}

impl<W: Wraps> Methods<'_, W> {
    /// Enters a method that is called.
    pub fn call<A, R, F>(&mut self, name: &'static str, rule: Rule, make: impl Fn(A) -> F + 'static)
    where
        A: Incoming,
        R: Wire,
        F: Future<Output = R> + 'static,
    {
        W::enter::<A, R, F, false>(self, name, rule, make);
    }

    /// Enters a one-way method.
    pub fn oneway<A, F>(&mut self, name: &'static str, rule: Rule, make: impl Fn(A) -> F + 'static)
    where
        A: Incoming,
        F: Future<Output = ()> + 'static,
    {
        W::enter::<A, (), F, true>(self, name, rule, make);
    }

    /// Returns the queue of handlers that run one after another.
    pub fn series(&self) -> Rc<Series> {
        Series::new(self.service, 1)
    }

    fn enter_as<A, R, F, M, const ONEWAY: bool>(&mut self, name: &'static str, rule: Rule, make: M)
    where
        A: Incoming,
        R: Answer + 'static,
        M: Fn(From<'_>, A) -> F + 'static,
        F: Future<Output = R> + 'static,
    {
        let tally = self.statistics.enter((self.service, name));
        let served = Served::<A, R, _, F, ONEWAY> {
            make,
            kept: Rc::new(Kept {
                spare: Spare::new(vacant(self.node)),
                names: (self.service, name),
                budget: Ticks::from_nanoseconds(rule.budget_ns.unwrap_or(HANDLER_BUDGET_NS)).0,
                outlives_ns: rule.outlives_ns,
                longest: rule.max_bytes.unwrap_or(usize::MAX),
                tally: tally.clone(),
            }),
            arguments: A::Kept::default(),
            result: std::marker::PhantomData,
        };
        let execution = rule.execution.unwrap_or(self.execution);
        let bounded = rule.needs || rule.budget_ns.is_some() || rule.max_bytes.is_some();
        let is_plain = execution == Execution::Orpc && !bounded;
        let method: Box<dyn Method> = match is_plain {
            true => Box::new(served),
            false => {
                let budget = rule.budget_ns.map(|_| served.kept.budget);
                Box::new(Ruled { served, ruling: Ruling::new(execution, budget) })
            }
        };
        let method = match tally {
            None => method,
            Some(tally) => Box::new(Tallied { method, tally }),
        };
        let service = self.service;
        let signature = signature::<A::Owned, R::Value>(service, name, ONEWAY, rule.arguments);
        (self.enter)(Entry { offer: Box::new(Offer { service, name, signature }), method });
    }
}

/// A method of a served service. Its type says whether it is one-way.
struct Served<A: Incoming, R, M, F, const ONEWAY: bool> {
    make: M,
    kept: Rc<Kept<F>>,
    /// The memory for arguments by reference.
    arguments: A::Kept,
    result: std::marker::PhantomData<fn() -> R>,
}

/// The parts that a method keeps for its handlers.
struct Kept<F> {
    /// A slot without a handler.
    spare: Spare<F>,
    names: Names,
    /// The ticks that a handler may run without a pause.
    budget: u64,
    /// The nanoseconds that a handler may continue after its caller is gone, if it may.
    outlives_ns: Option<u64>,
    /// The bytes of the longest arguments that the method accepts. With such a bound, the method is `Ruled`.
    longest: usize,
    /// The counts of the method's calls, if they are counted.
    tally: Option<Rc<MethodCounts>>,
}

impl<F> Kept<F> {
    fn count(&self, counter: Counter) {
        self.tally.iter().for_each(|tally| tally.count(counter));
    }
}

impl<A, R, M, F, const ONEWAY: bool> Method for Served<A, R, M, F, ONEWAY>
where
    A: Incoming,
    R: Answer + 'static,
    M: Fn(From<'_>, A) -> F,
    F: Future<Output = R> + 'static,
{
    fn call(&self, node: &Rc<Dispatcher>, session: &Rc<Session>, call: CallNumber, len: u32) {
        let Some((from, arguments)) = self.plain(node, session, call, len) else { return };
        self.run(from, arguments, &mut Unsampled, None, |lost| self.promote(lost));
    }

    fn arrive(&self, node: &Rc<Dispatcher>, session: &Rc<Session>, request: Request<'_>) {
        self.enter((node, session), request, None, &mut Unsampled);
    }

    fn sampled(
        &self,
        node: &Rc<Dispatcher>,
        session: &Rc<Session>,
        request: Request<'_>,
        sample: &mut Sample,
    ) {
        self.enter((node, session), request, None, sample);
    }

    fn budget(&self) -> u64 {
        self.kept.budget
    }
}

/// The origin of a request.
#[derive(Clone, Copy)]
struct From<'a> {
    node: &'a Rc<Dispatcher>,
    session: &'a Rc<Session>,
    /// The number of the call, or `CallNumber::NONE` for a one-way message.
    call: CallNumber,
    /// The deadline by the node's clock, if the caller has set one.
    end: Option<u64>,
    /// The lease by which the deadline may be extended, and the values that the caller has sent along.
    handed: Handed<'a>,
    /// How often the call was refused, if it may be refused again.
    refusals: Option<u64>,
    /// The bytes of the payload.
    bytes: usize,
    /// The memory of the arguments, as far as it was counted.
    memory: usize,
}

impl From<'_> {
    /// Returns whether the handler has a deadline or a context that it passes on.
    #[inline(always)]
    fn is_bound(&self) -> bool {
        self.end.is_some() || self.handed.context.is_some()
    }
}

/// A handler that has to wait, and its message.
struct Lost<'a, F> {
    from: From<'a>,
    slot: FilledSlot<F, Beside<F>>,
    sample: Option<Box<Sample>>,
}

const IS_ONEWAY: &str = "the method is one-way";
const IS_CALLED: &str = "the method is called, not one-way";

/// The node, the session and the call of a message.
type Way<'a> = (&'a Rc<Dispatcher>, &'a Rc<Session>, CallNumber);

#[inline(always)]
fn read<A: Incoming>(input: &mut Input<'_>, kept: &A::Kept, way: Way<'_>) -> Result<A, WireError> {
    let arguments = match A::STREAMS {
        false => A::receive(input, kept)?,
        true => receive_attached(input, kept, way)?,
    };
    input.finish()?;
    Ok(arguments)
}

#[inline(never)]
fn receive_attached<A: Incoming>(
    input: &mut Input<'_>,
    kept: &A::Kept,
    (node, session, call): Way<'_>,
) -> Result<A, WireError> {
    let at = NodeSession::new(node, session);
    input.within(&MessageContext::callee(&at, call), |input| A::receive(input, kept))
}

/// Replies to a call.
#[inline(always)]
fn reply<R: Answer>(way: Way<'_>, result: &R, stamps: &mut impl Stamps) {
    let (_, session, call) = way;
    match result.value() {
        Ok(value) if !<R::Value as Wire>::STREAMS => session.reply(call, value, stamps),
        Ok(value) => reply_attached(way, value, stamps),
        Err(none) => session.fail(call, none.code, none.refusal.text()),
    }
}

#[inline(never)]
fn reply_attached<R: Wire>(way: Way<'_>, result: &R, stamps: &mut dyn Stamps) {
    let (node, session, call) = way;
    let at = NodeSession::new(node, session);
    let context = MessageContext::callee(&at, call);
    session.reply_any(call, AnyContent::of(&Attaching { content: result, context }), stamps);
}

/// Returns the arguments that were read. If they could not be read in time, tells the caller and returns `None`.
#[inline(always)]
fn accepted<A>(
    from: From<'_>,
    names: Names,
    arguments: Result<A, WireError>,
) -> Option<(From<'_>, A)> {
    match arguments {
        Ok(_) if from.is_late() => None,
        Ok(arguments) => Some((from, arguments)),
        Err(error) => {
            refuse_value(from.session, from.call, names, &error);
            None
        }
    }
}

/// Refuses a call whose arguments cannot be read. A one-way message is dropped, which a line on standard error reports.
#[cold]
fn refuse_value(session: &Session, call: CallNumber, names: Names, error: &WireError) {
    let (code, text) = match error {
        WireError::TooLarge { .. } => {
            let to_do = "raise `max_message_bytes` of its node, or `max_bytes` of the method";
            (FailCode::ArgumentsTooLarge, format!("{error}: {to_do}"))
        }
        WireError::NoMemory { .. } => (FailCode::NoMemory, error.to_string()),
        error => (FailCode::BadArguments, error.to_string()),
    };
    if call != CallNumber::NONE {
        session.fail(call, code, &text);
    } else {
        let ((service, method), peer) = (names, session.peer_text());
        let what = format_args!("a one-way message for {service}.{method} from {peer}");
        warn_of(names, Problem::Dropped, format_args!("{what} was dropped: {text}"));
    }
}

/// Refuses a call. A one-way message, whose number is `CallNumber::NONE`, is dropped.
#[cold]
fn refuse(session: &Session, call: CallNumber, text: &str) {
    if call != CallNumber::NONE {
        session.fail(call, FailCode::BadArguments, text);
    }
}

impl<A, R, M, F, const ONEWAY: bool> Served<A, R, M, F, ONEWAY>
where
    A: Incoming,
    R: Answer + 'static,
    M: Fn(From<'_>, A) -> F,
    F: Future<Output = R> + 'static,
{
    /// Returns the arguments of a plain call or plain one-way message that lies open, or `None` if it is refused.
    #[inline(always)]
    fn plain<'a>(
        &self,
        node: &'a Rc<Dispatcher>,
        session: &'a Rc<Session>,
        call: CallNumber,
        len: u32,
    ) -> Option<(From<'a>, A)> {
        if ONEWAY != (call == CallNumber::NONE) {
            refuse(session, call, if ONEWAY { IS_ONEWAY } else { IS_CALLED });
            return None;
        }
        let (end, handed, refusals, bytes) = (None, Handed::default(), None, len as usize);
        let mut payload = session.plain_payload(len);
        if R::Value::TOLERANT {
            session.note_form(call, payload.is_tolerant());
        }
        let arguments = read::<A>(&mut payload, &self.arguments, (node, session, call));
        let memory = payload.charged();
        let from = From { node, session, call, end, handed, refusals, bytes, memory };
        accepted(from, self.kept.names, arguments)
    }

    /// Returns the arguments of any call or one-way message, or `None` if it is refused.
    #[inline(always)]
    fn take<'a>(
        &self,
        node: &'a Rc<Dispatcher>,
        session: &'a Rc<Session>,
        request: Request<'_>,
        handed: Handed<'a>,
        stamps: &mut impl Stamps,
    ) -> Option<(From<'a>, A)> {
        let Request { kind, call, deadline_us, refusals, mut payload, .. } = request;
        match (kind, ONEWAY) {
            (Kind::Call | Kind::Operation, false) | (Kind::Oneway, true) => {}
            (_, true) => {
                refuse(session, call, IS_ONEWAY);
                return None;
            }
            (_, false) => return None,
        }
        if is_too_late(deadline_us) && !ONEWAY {
            session.fail(call, FailCode::Deadline, "");
            return None;
        }
        let bytes = payload.remaining();
        if self.is_too_long(session, call, bytes) {
            return None;
        }
        if R::Value::TOLERANT {
            session.note_form(call, payload.is_tolerant());
        }
        let end = deadline_us.map(|left| node.end_of(left));
        let arguments = read::<A>(&mut payload, &self.arguments, (node, session, call));
        stamps.at(Point::Decoded);
        let memory = payload.charged();
        let from = From { node, session, call, end, handed, refusals, bytes, memory };
        accepted(from, self.kept.names, arguments)
    }

    /// Returns whether arguments are longer than the method accepts, and refuses them in that case.
    #[inline(always)]
    fn is_too_long(&self, session: &Session, call: CallNumber, bytes: usize) -> bool {
        let Kept { longest: most, names, .. } = &*self.kept;
        if bytes > *most {
            refuse_value(session, call, *names, &WireError::TooLarge { bytes, most: *most });
        }
        bytes > *most
    }

    /// Returns a slot with the handler of these arguments.
    #[inline(always)]
    fn fill(&self, from: From<'_>, arguments: A) -> FilledSlot<F, Beside<F>> {
        let slot = self.kept.spare.take().unwrap_or_else(|| vacant(from.node));
        slot.take((self.make)(from, arguments))
    }

    /// Runs a handler where its message lies, and checks its time if it has a budget. A handler that has
    /// to wait is passed to `lost`.
    #[inline(always)]
    fn run<'a>(
        &self,
        from: From<'a>,
        arguments: A,
        stamps: &mut impl Stamps,
        budget: Option<u64>,
        lost: impl FnOnce(Lost<'a, F>),
    ) {
        let From { node, session, call, .. } = from;
        let mut slot = self.fill(from, arguments);
        let (running, Beside { waker, reserved, .. }) = slot.parts();
        match budget {
            None => node.polls(),
            Some(budget) => node.polls_within(budget),
        }
        if from.is_bound() {
            node.bound_by(from.end, from.handed);
        }
        node.polls_first(reserved.current());
        let polled = running.poll(&mut Context::from_waker(waker));
        node.has_polled_first();
        stamps.at(Point::Ran);
        if from.is_bound() {
            node.unbound();
        }
        if budget.is_some() {
            let (ran, is_blamed) = node.has_polled(&self.kept.names);
            stamps
                .sample()
                .filter(|_| is_blamed)
                .into_iter()
                .for_each(|sample| sample.over_ran(ran));
        } else if let Some(sample) = stamps.sample() {
            node.has_polled_sampled(&self.kept.names, sample);
        }
        match polled {
            Poll::Ready(result) => {
                stamps.at(Point::Finished);
                if !ONEWAY {
                    reply((node, session, call), &result, stamps);
                }
                node.count(Counter::HandlersInline);
                self.kept.spare.keep(slot.vacate());
                if let Some(sample) = stamps.sample() {
                    node.served(session, call, self.kept.names, sample);
                }
                node.drop_result(result);
            }
            Poll::Pending => {
                let sample = stamps.sample().map(|sample| Box::new(sample.clone()));
                lost(Lost { from, slot, sample });
            }
        }
    }
}
