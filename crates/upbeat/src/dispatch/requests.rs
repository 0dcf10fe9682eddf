//! Frames off the common path: control, binding, requests that are refused.

use super::streams::Streams;
use super::{Dispatcher, Entry, Request, Running};
use crate::error::ServeError;
use crate::sample::Unsampled;
use crate::session::Session;
use crate::task::Cancelled;
use crate::wire::Wire;
use std::cell::RefCell;
use std::rc::Rc;
use upbeat_core::bill::Counter;
use upbeat_core::bind::{BIND, BindRequest, Bound, Offered, bind};
use upbeat_core::channel::Operation;
use upbeat_core::frame::{CallNumber, FailCode, Head, Kind};
use upbeat_core::limits::METHODS_PER_SESSION_MAX;
use upbeat_core::method::TOLERANT;
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_core::session;
use upbeat_memory::held::Held;

/// The methods that a node serves, and the streams that are open.
#[derive(Default)]
pub(super) struct Served {
    pub(super) methods: Held<Vec<Entry>>,
    /// Methods that a running handler has entered.
    pub(super) offered: RefCell<Vec<Entry>>,
    pub(super) streams: Streams,
}

/// Returns the number and the entry of the method that a request calls, if the peer may write calls of the method in
/// this form. A peer that binds equal types has no reason to pass by a type's own `Deserialize`.
pub(super) fn called<'m>(
    methods: &'m [Entry],
    session: &Session,
    head: &Head,
) -> Option<(u16, &'m Entry)> {
    let number = head.method & !TOLERANT;
    let entry = methods.get(usize::from(number).wrapping_sub(1))?;
    (number == head.method || session.is_bound_tolerantly(number)).then_some((number, entry))
}

impl Dispatcher {
    /// Returns why a service of this name cannot be served, if it cannot.
    pub(crate) fn may_serve(&self, service: &'static str) -> Result<(), ServeError> {
        if self.life.closing.get() {
            return Err(ServeError::ShutDown { service });
        }
        let is_served =
            |entries: &[Entry]| entries.iter().any(|entry| entry.offer.service == service);
        if is_served(&self.entries()) || is_served(&self.served.offered.borrow()) {
            let node = self.home.name().map(ToString::to_string).unwrap_or_default();
            return Err(ServeError::AlreadyServed { service, node });
        }
        Ok(())
    }

    /// Enters the methods of a service. The methods that a running handler offers are entered when it is done.
    pub(crate) fn offer(
        &self,
        service: &'static str,
        mut entries: Vec<Entry>,
    ) -> Result<(), ServeError> {
        let entered = self.entries().len() + self.served.offered.borrow().len();
        let (methods, most) = (entered + entries.len(), METHODS_PER_SESSION_MAX - 1);
        if methods > most {
            return Err(ServeError::TooManyMethods { service, methods, most });
        }
        self.served.offered.borrow_mut().append(&mut entries);
        self.enter_offered();
        Ok(())
    }

    /// Enters the methods that were offered, unless one of those that are entered runs.
    fn enter_offered(&self) {
        if self.served.offered.borrow().is_empty() {
            return;
        }
        let Ok(mut methods) = self.replace_entries(Vec::new()) else { return };
        methods.append(&mut self.served.offered.borrow_mut());
        self.may_over_run(methods.len());
        // The empty table that replaced it meanwhile cannot be held.
        let _empty = self.replace_entries(methods);
    }

    /// A request that the common path does not take.
    #[cold]
    #[inline(never)]
    pub(super) fn request_slowly(
        self: &Rc<Self>,
        session: &Rc<Session>,
        head: &Head,
        request: Request<'_>,
        running: Running,
    ) {
        self.unflushed.sent();
        self.enter_offered();
        self.run.method.set(head.method);
        if self.watch.is_on() {
            let methods = self.entries();
            if let Some(entry) = methods.get(usize::from(head.method).wrapping_sub(1)) {
                return self.request_timed(session, entry, running, request);
            }
        }
        let (code, text) = if self.life.closing.get() {
            if mutated(Mutant::ClosingUntold) {
                return;
            }
            (FailCode::Closing, String::new())
        } else if head.method == BIND && head.kind == Kind::Call {
            return self.bind(session, request);
        } else if head.method & TOLERANT != 0 {
            return self.request_tolerantly(session, head, request, running);
        } else {
            (FailCode::NoSuchMethod, format!("method {}", head.method))
        };
        if head.kind.is_answered() {
            session.fail(head.call, code, &text);
        }
    }

    /// A request that is written in the tolerant form.
    fn request_tolerantly(
        self: &Rc<Self>,
        session: &Rc<Session>,
        head: &Head,
        request: Request<'_>,
        running: Running,
    ) {
        let methods = self.entries();
        let Some((number, entry)) = called(&methods, session, head) else {
            drop(methods);
            if head.kind.is_answered() {
                let text = format!("method {} in the tolerant form", head.method & !TOLERANT);
                session.fail(head.call, FailCode::NoSuchMethod, &text);
            }
            return;
        };
        let request = Request { payload: request.payload.tolerating(), ..request };
        self.run.method.set(number);
        if self.watch.is_on() {
            return self.request_timed(session, entry, running, request);
        }
        self.run.running.set(running);
        entry.method.arrive(self, session, request);
        self.ran();
    }

    /// An operation of a channel other than calls. It runs as a method does, of the dispatcher's own.
    pub(super) fn operation_came(
        self: &Rc<Self>,
        session: &Rc<Session>,
        head: &Head,
        request: Request<'_>,
        running: Running,
    ) {
        self.unflushed.sent();
        let method = match Operation::from_code(head.method) {
            Some(Operation::Stream(operation)) => self.served.streams.method(operation),
            None => None,
        };
        match method {
            _ if self.life.closing.get() => session.fail(head.call, FailCode::Closing, ""),
            Some(method) => {
                self.run.running.set(running);
                self.run.method.set(head.method);
                method.arrive(self, session, request);
                self.ran();
            }
            None => {
                let text = format!("operation {:#x}", head.method);
                session.fail(head.call, FailCode::NoSuchMethod, &text);
            }
        }
    }

    /// Tells a client the numbers of the methods that it wants to call.
    fn bind(self: &Rc<Self>, session: &Rc<Session>, request: Request<'_>) {
        let Request { call, mut payload, .. } = request;
        let bytes = Vec::<u8>::take(&mut payload).map_err(|error| error.to_string());
        let request =
            bytes.and_then(|bytes| BindRequest::decode(&bytes).map_err(|rule| rule.to_string()));
        let request = match request {
            Ok(request) => request,
            Err(text) => return session.fail(call, FailCode::BadArguments, &text),
        };
        let methods = self.entries();
        let offered: Vec<Offered<'_>> = methods
            .iter()
            .zip(1..)
            .map(|(entry, number)| Offered::new(&entry.offer.signature, number))
            .collect();
        let reply = bind(&request, &offered);
        for bound in reply.methods() {
            if let Bound::Tolerant(number) = bound {
                session.bound_tolerantly(*number);
            }
        }
        session.reply(call, &reply.encode(), &mut Unsampled);
    }

    /// The peer has given up a call of its own.
    pub(super) fn cancel_call(self: &Rc<Self>, session: &Rc<Session>, call: CallNumber) {
        match session.cancelled(call, self.flow.budgets.requests()) {
            session::Cancelled::Task(task) => {
                self.count(Counter::CancelsHonoured);
                self.cancel(task, Cancelled::ByCaller);
            }
            session::Cancelled::Kept(_) => {
                self.count(Counter::CancelsHonoured);
                session.fail(call, FailCode::Cancelled, "");
                self.unflushed.sent();
                self.pressed.set(true);
            }
            session::Cancelled::Gone if mutated(Mutant::CancelLeavesStreams) => {}
            session::Cancelled::Gone => {
                self.count_more(Counter::OrphansEnded, self.leave_streams_of(session, call));
            }
        }
    }
}
