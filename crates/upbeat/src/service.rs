//! Services: what a request runs.
//!
//! A method is an `async fn`. Its future is built in a slot that is kept for it and polled once,
//! with no task and no queue: an active message. Should it have to wait, the slot becomes the task
//! and the method takes another; nothing is moved and nothing runs twice.
//!
//! Invariant: a call that was accepted is answered once: by the method's result, or by the reason
//! why there is none.

use crate::dispatch::{Charge, Dispatcher, Entry, Method, Request};
use crate::sample::{Sample, Stamps, Timed, Unsampled};
use crate::session::Session;
use crate::task::{Caller, Cancelled, Task};
use crate::wake::{Roster, Wakeup};
use crate::wire::{Input, Wire, WireError, signature_text};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use upbeat_core::bill::Counter;
use upbeat_core::bill::way::Point;
use upbeat_core::flow::Budget;
use upbeat_core::frame::{CallNumber, FailCode, Kind};

/// A service that a node can serve: what `#[upbeat::service]` makes of a trait.
pub trait Serve {
    /// The name of the service.
    const SERVICE: &'static str;

    /// Enters every method.
    fn methods(self, methods: &mut Methods<'_>);
}

/// Where a service enters its methods.
pub struct Methods<'a> {
    pub(crate) service: &'static str,
    pub(crate) enter: &'a mut dyn FnMut(Entry),
    pub(crate) roster: &'a Arc<Roster>,
}

impl Methods<'_> {
    /// Enters a method that is called.
    pub fn call<A, R, F>(&mut self, name: &'static str, make: impl Fn(A) -> F + 'static)
    where
        A: Wire,
        R: Wire,
        F: Future<Output = R> + 'static,
    {
        self.enter::<A, R, F>(name, make, false);
    }

    /// Enters a one-way method.
    pub fn oneway<A, F>(&mut self, name: &'static str, make: impl Fn(A) -> F + 'static)
    where
        A: Wire,
        F: Future<Output = ()> + 'static,
    {
        self.enter::<A, (), F>(name, make, true);
    }

    fn enter<A, R, F>(&mut self, name: &'static str, make: impl Fn(A) -> F + 'static, oneway: bool)
    where
        A: Wire,
        R: Wire,
        F: Future<Output = R> + 'static,
    {
        let method = Box::new(Served {
            make,
            oneway,
            names: (self.service, name),
            spare: Rc::new(Cell::new(Some(Slot::new(self.roster)))),
            arguments: std::marker::PhantomData,
        });
        let service = self.service;
        let text = signature_text::<A, R>(service, name, oneway);
        (self.enter)(Entry { service, name, text, method });
    }
}

/// A method of a service that is served.
struct Served<A, R, M, F> {
    make: M,
    oneway: bool,
    /// Of the service and the method.
    names: (&'static str, &'static str),
    spare: Spare<F>,
    arguments: std::marker::PhantomData<fn(A) -> R>,
}

/// The kept slot of a method, while no handler is in it.
type Spare<F> = Rc<Cell<Option<Box<Slot<F>>>>>;

/// Room for a handler's future, pinned for ever, and its waker.
struct Slot<F> {
    future: Pin<Box<Option<F>>>,
    wakeup: Arc<Wakeup>,
    waker: Waker,
}

impl<F> Slot<F> {
    fn new(roster: &Arc<Roster>) -> Box<Slot<F>> {
        let wakeup = Wakeup::unnamed(roster);
        let waker = wakeup.waker();
        Box::new(Slot { future: Box::pin(None), wakeup, waker })
    }
}

impl<F: Future> Slot<F> {
    #[inline]
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        match self.future.as_mut().as_pin_mut() {
            Some(future) => future.poll(context),
            None => Poll::Pending,
        }
    }
}

impl<A, R, M, F> Method for Served<A, R, M, F>
where
    A: Wire,
    R: Wire,
    M: Fn(A) -> F,
    F: Future<Output = R> + 'static,
{
    fn call(&self, node: &Rc<Dispatcher>, session: &Rc<Session>, call: CallNumber, len: u32) {
        if self.oneway != (call == CallNumber::NONE) {
            return refuse(session, call, if self.oneway { ONEWAY } else { CALLED });
        }
        let arguments = read::<A>(&mut session.plain_payload(len));
        let from = From { node, session, call, deadline_us: None, bytes: len as usize };
        self.run(from, arguments, &mut Unsampled);
    }

    fn arrive(&self, node: &Rc<Dispatcher>, session: &Rc<Session>, request: Request<'_>) {
        self.arrive_with(node, session, request, &mut Unsampled);
    }

    fn sampled(
        &self,
        node: &Rc<Dispatcher>,
        session: &Rc<Session>,
        request: Request<'_>,
        sample: &mut Sample,
    ) {
        self.arrive_with(node, session, request, sample);
    }
}

/// Where a request comes from.
#[derive(Clone, Copy)]
struct From<'a> {
    node: &'a Rc<Dispatcher>,
    session: &'a Rc<Session>,
    /// None of a one-way message.
    call: CallNumber,
    deadline_us: Option<u64>,
    /// Of its payload.
    bytes: usize,
}

const ONEWAY: &str = "the method is one-way";
const CALLED: &str = "the method is called, not one-way";

#[inline(always)]
fn read<A: Wire>(input: &mut Input<'_>) -> Result<A, WireError> {
    let arguments = A::take(input)?;
    input.finish()?;
    Ok(arguments)
}

/// Refuses a call, or forgets a one-way message, whose number is none.
#[cold]
fn refuse(session: &Session, call: CallNumber, text: &str) {
    if call != CallNumber::NONE {
        session.fail(call, FailCode::BadArguments, text);
    }
}

impl<A, R, M, F> Served<A, R, M, F>
where
    A: Wire,
    R: Wire,
    M: Fn(A) -> F,
    F: Future<Output = R> + 'static,
{
    #[inline(always)]
    fn arrive_with(
        &self,
        node: &Rc<Dispatcher>,
        session: &Rc<Session>,
        request: Request<'_>,
        stamps: &mut impl Stamps,
    ) {
        let Request { kind, call, deadline_us, mut payload } = request;
        match (kind, self.oneway) {
            (Kind::Call, false) | (Kind::Oneway, true) => {}
            (_, true) => return refuse(session, call, ONEWAY),
            (_, false) => return refuse(session, CallNumber::NONE, CALLED),
        }
        if deadline_us == Some(0) && !self.oneway {
            return session.fail(call, FailCode::Deadline, "");
        }
        let bytes = payload.remaining();
        let arguments = read::<A>(&mut payload);
        stamps.at(Point::Decoded);
        self.run(From { node, session, call, deadline_us, bytes }, arguments, stamps);
    }

    #[inline(always)]
    fn run(&self, from: From<'_>, arguments: Result<A, WireError>, stamps: &mut impl Stamps) {
        let From { node, session, call, .. } = from;
        let arguments = match arguments {
            Ok(arguments) => arguments,
            Err(error) => return refuse(session, call, &error.to_string()),
        };
        let mut slot = self.spare.take().unwrap_or_else(|| Slot::new(node.roster()));
        slot.future.set(Some((self.make)(arguments)));
        let Slot { future, waker, .. } = &mut *slot;
        let Some(running) = future.as_mut().as_pin_mut() else { return };
        node.polls_handler();
        let polled = running.poll(&mut Context::from_waker(waker));
        stamps.at(Point::Ran);
        match polled {
            Poll::Ready(result) => {
                stamps.at(Point::Finished);
                if !self.oneway {
                    session.reply(call, &result, stamps);
                }
                node.count(Counter::HandlersInline);
                slot.future.set(None);
                self.spare.set(Some(slot));
                if let Some(sample) = stamps.sample() {
                    node.served(session, call, self.names, sample);
                }
            }
            Poll::Pending => {
                let sample = stamps.sample().map(|sample| Box::new(sample.clone()));
                self.promote(from, slot, sample);
            }
        }
    }

    /// The bet is lost: the slot becomes the task.
    #[cold]
    #[inline(never)]
    fn promote(&self, from: From<'_>, slot: Box<Slot<F>>, sample: Option<Box<Sample>>) {
        let From { node, session, call, deadline_us, bytes } = from;
        let charge = node.charge(session, Budget::price(bytes));
        let (spare, session) = (Rc::clone(&self.spare), Rc::clone(session));
        let call = if self.oneway { None } else { Some(call) };
        let (reason, lock) = node.waited_for();
        let billed = sample.map(|sample| {
            slot.wakeup.ask();
            let timed = Timed::new(sample, (reason, lock));
            Box::new(Billed { names: self.names, timed })
        });
        let task = Promoted {
            slot,
            spare,
            session: Rc::clone(&session),
            call,
            charge,
            node: Rc::clone(node),
            billed,
        };
        node.promote(&session, Box::new(task), deadline_us, reason);
    }
}

/// A handler that has become a task.
struct Promoted<F> {
    slot: Box<Slot<F>>,
    spare: Spare<F>,
    session: Rc<Session>,
    /// None for a one-way message.
    call: Option<CallNumber>,
    charge: Charge,
    node: Rc<Dispatcher>,
    /// What is to be billed, if its message is sampled.
    billed: Option<Box<Billed>>,
}

/// A sampled handler's time, and whose it is.
struct Billed {
    names: (&'static str, &'static str),
    timed: Timed,
}

impl<F> Promoted<F> {
    /// The handler is done.
    #[inline]
    fn end<R: Wire>(&self, result: &R, stamps: &mut impl Stamps) {
        let Some(call) = self.call else { return self.session.end_oneway() };
        self.session.serving.borrow_mut().remove(call);
        self.session.reply(call, result, stamps);
    }
}

impl<R: Wire, F: Future<Output = R> + 'static> Task for Promoted<F> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(billed) = &mut self.billed {
            billed.timed.resumed(self.slot.wakeup.woken());
        }
        self.node.polls_handler();
        let Poll::Ready(result) = self.slot.poll(context) else {
            self.node.charge_again(&mut self.charge);
            if let Some(billed) = &mut self.billed {
                billed.timed.paused(self.node.waited_for());
                self.slot.wakeup.ask();
            }
            return Poll::Pending;
        };
        match self.billed.take() {
            None => self.end(&result, &mut Unsampled),
            Some(billed) => {
                let Billed { names, timed } = *billed;
                let mut sample = timed.finished();
                self.end(&result, &mut *sample);
                let call = self.call.unwrap_or(CallNumber::NONE);
                self.node.served(&self.session, call, names, &mut sample);
            }
        }
        Poll::Ready(())
    }

    fn wakeup(&self) -> &Arc<Wakeup> {
        &self.slot.wakeup
    }

    fn caller(&self) -> Option<Caller> {
        Some(Caller { session: self.session.key.get(), call: self.call })
    }

    fn cancel(mut self: Box<Self>, why: Cancelled) {
        self.slot.future.set(None);
        let Some(call) = self.call else { return self.session.end_oneway() };
        self.session.serving.borrow_mut().remove(call);
        match why {
            Cancelled::ByCaller => self.session.fail(call, FailCode::Cancelled, ""),
            Cancelled::Deadline => self.session.fail(call, FailCode::Deadline, ""),
            Cancelled::NoRoom => self.session.fail(call, FailCode::Overloaded, ""),
            Cancelled::Lost => {}
        }
    }

    fn done(mut self: Box<Self>) {
        self.slot.future.set(None);
        self.slot.wakeup.unname();
        // The slot serves again, unless another stands ready.
        let Promoted { slot, spare, .. } = *self;
        let other = spare.take();
        spare.set(other.or(Some(slot)));
    }
}
