//! Calls by the node that has imported, on the thread of that node.
//!
//! An import may be used in any thread, and calls by a handle there. On the thread of its node the node itself calls, so
//! that no other thread takes part. Imports and reads may be sent to other threads, and a node's clients and calls may
//! not: those stay in the thread's [`Calls`], and an import or a read has the key of its own.

use super::served::NodeExportsClient;
use crate::dispatch::Dispatcher;
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use upbeat_environment::turns::{Mutex, MutexGuard};

thread_local! {
    static CALLS: RefCell<Calls> = RefCell::default();
}

/// The clients of a thread's imports, and their calls.
#[derive(Default)]
struct Calls {
    clients: BTreeMap<u64, NodeExportsClient>,
    under_way: BTreeMap<u64, UnderWay>,
    /// The keys of those that other threads have dropped.
    dropped: Arc<Mutex<Vec<u64>>>,
}

/// A call under way, and the client that calls.
struct UnderWay {
    client: NodeExportsClient,
    call: Pin<Box<dyn Future<Output = Box<dyn Any>>>>,
}

impl Calls {
    /// Removes what other threads have dropped. The caller drops it when nothing is borrowed: that may use its node.
    fn dropped(&mut self) -> Vec<(Option<NodeExportsClient>, Option<UnderWay>)> {
        let numbers = std::mem::take(&mut *locked(&self.dropped));
        numbers.iter().map(|number| self.remove(*number)).collect()
    }

    fn remove(&mut self, number: u64) -> (Option<NodeExportsClient>, Option<UnderWay>) {
        (self.clients.remove(&number), self.under_way.remove(&number))
    }
}

/// The key of a client or a call in its thread, which is gone from there when the key is dropped.
struct Key {
    number: u64,
    thread: ThreadId,
    dropped: Arc<Mutex<Vec<u64>>>,
}

impl Key {
    fn new(calls: &Calls) -> Key {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Key { number, thread: thread::current().id(), dropped: Arc::clone(&calls.dropped) }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        if self.thread != thread::current().id() {
            return locked(&self.dropped).push(self.number);
        }
        // When the thread ends, its calls may be gone already.
        let removed = CALLS.try_with(|calls| calls.borrow_mut().remove(self.number));
        drop(removed);
    }
}

/// The client of an import, which stays on the thread of its node.
pub(super) struct NodeClient(Key);

impl NodeClient {
    /// Keeps the client of a new import on this thread, which drives its node.
    pub(super) fn keep(client: NodeExportsClient) -> NodeClient {
        let (key, dropped) = CALLS.with_borrow_mut(|calls| {
            let key = Key::new(calls);
            calls.clients.insert(key.number, client);
            (key, calls.dropped())
        });
        drop(dropped);
        NodeClient(key)
    }

    /// Begins a call, if this thread drives the node of the import.
    pub(super) fn call<R: 'static, F: Future<Output = R> + 'static>(
        &self,
        make: impl FnOnce(NodeExportsClient) -> F,
    ) -> Option<NodeCall<R>> {
        let client = CALLS.with_borrow(|calls| calls.clients.get(&self.0.number).cloned())?;
        if !client.is_driven() {
            return None;
        }
        let call = make(client.clone());
        let call = Box::pin(async move { Box::new(call.await) as Box<dyn Any> });
        let (key, dropped) = CALLS.with_borrow_mut(|calls| {
            let key = Key::new(calls);
            calls.under_way.insert(key.number, UnderWay { client, call });
            (key, calls.dropped())
        });
        drop(dropped);
        Some(NodeCall(key, PhantomData))
    }
}

/// A call by the node, which stays on the thread of the node. `None` if it is awaited where that node is not driven:
/// then the owner is to be asked in another way.
pub(super) struct NodeCall<R>(Key, PhantomData<fn() -> R>);

impl<R: 'static> Future for NodeCall<R> {
    type Output = Option<R>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<R>> {
        let number = self.0.number;
        let Some(mut found) = CALLS.with_borrow_mut(|calls| calls.under_way.remove(&number)) else {
            return Poll::Ready(None);
        };
        if !found.client.is_driven() {
            return Poll::Ready(None);
        }
        match found.call.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(answer.downcast().ok().map(|answer| *answer)),
            Poll::Pending => {
                CALLS.with_borrow_mut(|calls| calls.under_way.insert(number, found));
                Poll::Pending
            }
        }
    }
}

impl NodeExportsClient {
    /// Returns whether this thread drives the node of the client.
    fn is_driven(&self) -> bool {
        Dispatcher::if_driving(|node| self.is_of(node)).unwrap_or(false)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
