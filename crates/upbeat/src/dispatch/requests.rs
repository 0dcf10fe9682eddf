//! Frames off the common path: control, binding, requests that are refused.

use super::Dispatcher;
use crate::sample::Unsampled;
use crate::session::{Fault, Session};
use crate::task::Cancelled;
use crate::wire::Wire;
use std::rc::Rc;
use upbeat_core::bill::Counter;
use upbeat_core::bind::{BIND, BindRequest, Offered, bind};
use upbeat_core::frame::{FailCode, Head, Kind};

impl Dispatcher {
    /// A request that the common path does not take.
    #[cold]
    #[inline(never)]
    pub(super) fn request_slowly(self: &Rc<Self>, session: &Rc<Session>, head: &Head) {
        self.unflushed.set(true);
        if !self.offered.borrow().is_empty() {
            self.methods.borrow_mut().append(&mut self.offered.borrow_mut());
        }
        let (code, text) = if self.closing.get() {
            (FailCode::Closing, String::new())
        } else if head.method == BIND && head.kind == Kind::Call {
            return self.bind(session, head);
        } else {
            (FailCode::NoSuchMethod, format!("method {}", head.method))
        };
        match head.kind {
            Kind::Call => session.fail(head.call, code, &text),
            Kind::Packed => (0..head.count).for_each(|_| session.oneway_finished()),
            _ => session.oneway_finished(),
        }
    }

    /// Tells a client the numbers of the methods that it wants to call.
    fn bind(self: &Rc<Self>, session: &Rc<Session>, head: &Head) {
        let bytes = Vec::<u8>::take(&mut session.payload(head)).map_err(|error| error.to_string());
        let request =
            bytes.and_then(|bytes| BindRequest::decode(&bytes).map_err(|rule| rule.to_string()));
        let request = match request {
            Ok(request) => request,
            Err(text) => return session.fail(head.call, FailCode::BadArguments, &text),
        };
        let methods = self.methods.borrow();
        let offered: Vec<Offered<'_>> = methods
            .iter()
            .zip(1..)
            .map(|(entry, number)| Offered::new(entry.service, entry.name, &entry.text, number))
            .collect();
        let reply = bind(&request, &offered).encode();
        session.reply(head.call, &reply, &mut Unsampled);
    }

    /// A frame that is neither request nor answer. It lies open, and is passed here.
    #[cold]
    #[inline(never)]
    pub(super) fn control(self: &Rc<Self>, session: &Rc<Session>, head: Head) -> Result<(), Fault> {
        match head.kind {
            Kind::Switch => {
                self.count(Counter::LaneGrown);
                return session.follow(head.call.generation);
            }
            Kind::Cancel => {
                let task = session.serving.borrow_mut().task_mut(head.call).copied();
                // Without a task the answer is on its way already.
                if let Some(task) = task {
                    self.count(Counter::CancelsHonoured);
                    self.cancel(task, Cancelled::ByCaller);
                }
            }
            Kind::Stamps => self.stamps_arrived(session, &head)?,
            _ => session.goodbye.set(true),
        }
        session.advance();
        Ok(())
    }
}
