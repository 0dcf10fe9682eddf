//! Calls by the node that has imported, on the thread of that node.
//!
//! An import may be used in any thread, and calls by a handle there. On the thread of its node the node itself calls, so
//! that no other thread takes part.

use super::served::NodeExportsClient;
use crate::dispatch::Dispatcher;
use crate::wake::Start;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

thread_local! {
    static CLIENTS: RefCell<Clients> = RefCell::default();
}

/// The clients of a thread's imports.
#[derive(Default)]
struct Clients {
    by_key: BTreeMap<u64, NodeExportsClient>,
    /// The keys of imports that other threads have dropped.
    dropped: Arc<Mutex<Vec<u64>>>,
}

/// The client of an import, which stays on the thread of its node.
pub(super) struct NodeClient {
    key: u64,
    dropped: Arc<Mutex<Vec<u64>>>,
}

impl NodeClient {
    /// Keeps the client of a new import on this thread, which drives its node.
    pub(super) fn keep(client: NodeExportsClient) -> NodeClient {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let key = NEXT.fetch_add(1, Ordering::Relaxed);
        let (dropped, old) = CLIENTS.with_borrow_mut(|clients| {
            let keys = std::mem::take(&mut *locked(&clients.dropped));
            let old: Vec<_> = keys.iter().filter_map(|key| clients.by_key.remove(key)).collect();
            clients.by_key.insert(key, client);
            (Arc::clone(&clients.dropped), old)
        });
        drop(old);
        NodeClient { key, dropped }
    }

    /// Begins to call, if this thread drives the node of the import.
    pub(super) fn call<R: Send + 'static, F: Future<Output = R> + 'static>(
        &self,
        call: impl FnOnce(NodeExportsClient) -> F,
    ) -> Option<Answer<R>> {
        let client = CLIENTS.with_borrow(|clients| clients.by_key.get(&self.key).cloned())?;
        Dispatcher::if_driving(|node| {
            client.is_of(node).then(|| {
                let answer = Answer::default();
                let teller = Teller(Answer(Arc::clone(&answer.0)));
                let call = call(client);
                drop(node.spawn(async move { teller.tell(call.await) }, Start::default()));
                answer
            })
        })?
    }
}

impl Drop for NodeClient {
    fn drop(&mut self) {
        let found = CLIENTS.try_with(|clients| clients.borrow_mut().by_key.remove(&self.key));
        if !matches!(found, Ok(Some(_))) {
            locked(&self.dropped).push(self.key);
        }
    }
}

/// The answer of a call, for any thread. `None` if the node has ended before it came.
pub(super) struct Answer<R>(Arc<Mutex<Slot<R>>>);

struct Slot<R> {
    answer: Option<R>,
    is_over: bool,
    waker: Option<Waker>,
}

impl<R> Default for Answer<R> {
    fn default() -> Answer<R> {
        let slot = Slot { answer: None, is_over: false, waker: None };
        Answer(Arc::new(Mutex::new(slot)))
    }
}

impl<R> Future for Answer<R> {
    type Output = Option<R>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<R>> {
        let mut slot = locked(&self.0);
        if slot.is_over {
            return Poll::Ready(slot.answer.take());
        }
        slot.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Tells the answer, or that there is none.
struct Teller<R>(Answer<R>);

impl<R> Teller<R> {
    fn tell(self, answer: R) {
        locked(&self.0.0).answer = Some(answer);
    }
}

impl<R> Drop for Teller<R> {
    fn drop(&mut self) {
        let waker = {
            let mut slot = locked(&self.0.0);
            slot.is_over = true;
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
