//! The attempts to reconnect to a service of a lost peer, which all callers of this node share.
//!
//! The callers register as waiters; a task of the node connects (`call/reconnect.rs`) and reports here. Invariant: at
//! most one attempt to reach a service of a peer is under way, and each waiter is woken when it fails or succeeds. No
//! waiter fails by an attempt that had begun before the waiter came: the peer may have come meanwhile.

use super::Dispatcher;
use crate::contain::wake;
use crate::error::{CallError, Clash, ConnectError};
use crate::session::Session;
use crate::wake::Start;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use std::task::{Poll, Waker};
use upbeat_core::mutant::{Mutant, mutated};

/// A session, and the methods of a service there.
#[derive(Clone)]
pub(crate) struct Reached {
    pub(crate) session: Rc<Session>,
    pub(crate) numbers: Rc<[u16]>,
    /// The methods that the peer has with other signatures.
    pub(crate) clashes: Rc<[Clash]>,
}

/// The service that is to be reached. Clients with equal destinations share the attempts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Destination {
    /// The peer as its callers name it.
    pub(crate) to: String,
    /// The incarnation of the node that a reference means. 0 for a client that was connected by name.
    pub(crate) incarnation: u64,
    /// The request for the numbers of the service's methods.
    pub(crate) request: Vec<u8>,
}

/// The attempts to reach a service, from the first one until one succeeds or no caller waits any more.
#[derive(Default)]
pub(crate) struct Attempts {
    next: Cell<u64>,
    waiting: RefCell<BTreeMap<u64, Waiting>>,
    /// The number of attempts that have begun.
    begun: Cell<u64>,
    /// The number of the last attempt that has failed. 0 if none has.
    failed: Cell<u64>,
    /// The error of the last one that has failed.
    last: RefCell<Option<ConnectError>>,
    outcome: OnceCell<Result<Reached, ConnectError>>,
}

/// When a caller came.
#[derive(Clone, Copy)]
pub(crate) enum Since {
    Now,
    /// Before the attempts began.
    Earlier,
}

struct Waiting {
    until_ns: u64,
    waker: Option<Waker>,
}

impl Attempts {
    /// Registers a caller that waits until this time, and then for the attempt that is under way.
    pub(crate) fn wait(self: &Rc<Self>, until_ns: u64, since: Since) -> Waiter {
        let number = self.next.get();
        self.next.set(number + 1);
        self.waiting.borrow_mut().insert(number, Waiting { until_ns, waker: None });
        let begun_before = match since {
            Since::Now if !mutated(Mutant::EarlierAttemptJoined) => self.begun.get(),
            Since::Now => 0,
            Since::Earlier => 0,
        };
        Waiter { attempts: Rc::clone(self), number, until_ns, begun_before }
    }

    /// Returns until when the last of the waiters waits. 0 if there is none.
    pub(crate) fn last_until_ns(&self) -> u64 {
        self.waiting.borrow().values().map(|waiting| waiting.until_ns).max().unwrap_or(0)
    }

    /// Notes that an attempt has failed, and that the next one begins after a pause.
    pub(crate) fn pause(&self, error: ConnectError) {
        self.failed.set(self.begun.get());
        self.last.replace(Some(error));
        self.wake_all();
    }

    /// Notes that the next attempt begins.
    pub(crate) fn begin(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    /// Returns the session that was reached, if it was.
    pub(crate) fn reached(&self) -> Option<&Reached> {
        self.outcome.get()?.as_ref().ok()
    }

    fn end(&self, outcome: Result<Reached, ConnectError>) {
        if self.outcome.set(outcome).is_ok() {
            self.wake_all();
        }
    }

    fn wake_all(&self) {
        let mut waiting = self.waiting.borrow_mut();
        let wakers: Vec<_> = waiting.values_mut().filter_map(|one| one.waker.take()).collect();
        // A waker may be the user's, and may poll the waiter at once.
        drop(waiting);
        wakers.into_iter().for_each(wake);
    }
}

/// A caller that waits for a service to be reached. Dropping it ends the wait.
pub(crate) struct Waiter {
    attempts: Rc<Attempts>,
    number: u64,
    until_ns: u64,
    /// The number of attempts that had begun when the caller came.
    begun_before: u64,
}

/// The end of a caller's wait.
pub(crate) enum WaitEnd {
    Reached(Reached),
    Failed(ConnectError),
    /// The attempts have ended with one that had begun before the caller came. The caller begins others, and waits until
    /// this time.
    Missed {
        until_ns: u64,
    },
}

impl Waiter {
    /// Polls what came of the attempts. A caller whose time is over gets the error of the last attempt that has ended.
    pub(crate) fn poll(&self, now_ns: u64, waker: &Waker) -> Poll<WaitEnd> {
        let attempts = &*self.attempts;
        if let Some(outcome) = attempts.outcome.get() {
            return Poll::Ready(match outcome.clone() {
                Ok(reached) => WaitEnd::Reached(reached),
                Err(error)
                    if self.counts(attempts.begun.get()) || error == ConnectError::ShutDown =>
                {
                    WaitEnd::Failed(error)
                }
                Err(_) => WaitEnd::Missed { until_ns: self.until_ns },
            });
        }
        if now_ns >= self.until_ns
            && self.counts(attempts.failed.get())
            && let Some(error) = attempts.last.borrow().clone()
        {
            return Poll::Ready(WaitEnd::Failed(error));
        }
        let waker = waker.clone();
        let mut waiting = attempts.waiting.borrow_mut();
        let place = waiting.get_mut(&self.number).map(|waiting| &mut waiting.waker);
        let before = place.and_then(|place| place.replace(waker));
        drop(waiting);
        drop(before);
        Poll::Pending
    }

    /// Returns whether the attempt of this number began after the caller came.
    fn counts(&self, attempt: u64) -> bool {
        attempt > self.begun_before
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let waiting = self.attempts.waiting.borrow_mut().remove(&self.number);
        drop(waiting);
    }
}

impl Dispatcher {
    /// Returns the attempts to reach a service. The second part is the duty to make them, if they begin with this
    /// caller.
    pub(crate) fn attempts(self: &Rc<Self>, to: &Rc<Destination>) -> (Rc<Attempts>, Option<Duty>) {
        match self.peers.attempts.borrow_mut().entry(Rc::clone(to)) {
            Entry::Occupied(entry) => (Rc::clone(entry.get()), None),
            Entry::Vacant(entry) => {
                let attempts = Rc::clone(entry.insert(Rc::default()));
                let (node, to) = (Rc::clone(self), Rc::clone(to));
                let duty = Duty { node, to, attempts: Rc::clone(&attempts) };
                (attempts, Some(duty))
            }
        }
    }
}

/// The duty to reach a service, which a task has. If the task is dropped, its waiters are told so.
pub(crate) struct Duty {
    pub(crate) node: Rc<Dispatcher>,
    to: Rc<Destination>,
    pub(crate) attempts: Rc<Attempts>,
}

impl Duty {
    /// Fulfils the duty in a task.
    pub(crate) fn spawn<F: Future<Output = ()> + 'static>(self, run: impl FnOnce(Duty) -> F) {
        let node = Rc::clone(&self.node);
        if node.work.tasks.is_full() {
            let text = "this node has as many tasks as it may have";
            // This refusal counts as an attempt: otherwise the caller would begin another one, again and again.
            self.attempts.begin();
            return self.end(Err(ConnectError::Call(CallError::not_connected(text))));
        }
        drop(node.spawn_plain(run(self), Start::default()));
    }

    /// Reports what came of the last attempt.
    pub(crate) fn end(self, outcome: Result<Reached, ConnectError>) {
        self.forget();
        self.attempts.end(outcome);
    }

    fn forget(&self) {
        self.node.peers.attempts.borrow_mut().remove(&self.to);
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        if self.attempts.outcome.get().is_none() {
            self.forget();
            self.attempts.end(Err(ConnectError::ShutDown));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polled(waiter: &Waiter) -> Option<WaitEnd> {
        match waiter.poll(10, Waker::noop()) {
            Poll::Ready(end) => Some(end),
            Poll::Pending => None,
        }
    }

    /// A peer may have come while an attempt to reach it was under way.
    #[test]
    fn no_caller_fails_by_an_attempt_that_began_before_it_came() {
        let attempts = Rc::<Attempts>::default();
        let failed = || ConnectError::Service { text: "it is not there".to_owned() };
        attempts.begin();
        let [first, second, third] =
            [Since::Earlier, Since::Now, Since::Now].map(|since| attempts.wait(10, since));
        attempts.pause(failed());
        assert!(matches!(polled(&first), Some(WaitEnd::Failed(_))));
        assert!(polled(&second).is_none(), "the next attempt counts");
        attempts.begin();
        let last = attempts.wait(10, Since::Now);
        attempts.pause(failed());
        assert!(matches!(polled(&second), Some(WaitEnd::Failed(_))));
        assert!(polled(&last).is_none());
        attempts.end(Err(failed()));
        assert!(matches!(polled(&third), Some(WaitEnd::Failed(_))));
        assert!(matches!(polled(&last), Some(WaitEnd::Missed { until_ns: 10 })));
    }
}
