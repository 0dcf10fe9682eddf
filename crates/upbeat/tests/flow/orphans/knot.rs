//! The service of nodes that call each other, and what they know of their handlers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use upbeat::{CallError, Counter, Node, time_left};
use upbeat_environment::waiting;

#[upbeat::service]
pub(crate) trait Chain {
    /// Calls on through these nodes; the last one's handler never ends by itself.
    async fn reach(&self, through: Vec<String>, waits: bool);
    /// Calls on like `reach`, but the first node stops as a whole for so long when it has called.
    async fn reach_and_stall(&self, through: Vec<String>, ms: u64);
    /// The microseconds that each handler of the chain has left, with so many for the first call.
    async fn left(
        &self,
        through: Vec<String>,
        own_us: Option<u64>,
        waits: bool,
    ) -> Vec<Option<u64>>;
    /// Handlers that stand in these methods here, and those that ever did.
    async fn standing(&self) -> (u64, u64);
    async fn counted(&self, counter: u64) -> u64;
    async fn nap(&self, ms: u64, value: u64) -> u64;
    /// Stops the whole node for so long.
    #[oneway]
    async fn hold_up(&self, ms: u64);
    /// Waits so long and is counted then, also without its caller: for two seconds at most.
    async fn finish(&self, ms: u64);
    /// Works like `finish`, with more time.
    async fn finish_late(&self, ms: u64);
    async fn finished(&self) -> u64;
    /// Waits so long and is counted then: for half a second at most when its sender is gone.
    #[oneway]
    async fn begin(&self, ms: u64);
    /// Waits like `begin`, but the method sets no bound.
    #[oneway]
    async fn begin_unbounded(&self, ms: u64);
    /// The last of the chain asks for so much time, and answers after a while with what it was told. The
    /// others call on with a deadline of their own, if they are given one and how far it goes.
    async fn more(
        &self,
        through: Vec<String>,
        own: Option<(u64, Option<u64>)>,
        wants_ms: u64,
        naps_ms: u64,
    ) -> Result<u64, String>;
}

/// The implementation of `Chain`.
#[derive(Default)]
pub(crate) struct Knot {
    pub(crate) node: RefCell<Option<Node>>,
    standing: Rc<Cell<u64>>,
    begun: Cell<u64>,
    finished: Cell<u64>,
}

/// Counts while it stands.
struct Standing(Rc<Cell<u64>>);

impl Drop for Standing {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Knot {
    fn stand(&self) -> Standing {
        self.begun.set(self.begun.get() + 1);
        self.standing.set(self.standing.get() + 1);
        Standing(Rc::clone(&self.standing))
    }

    fn node(&self) -> Node {
        self.node.borrow().clone().unwrap()
    }

    /// The next of the chain and those behind it.
    async fn next(&self, mut through: Vec<String>) -> Option<(ChainClient, Vec<String>)> {
        if through.is_empty() {
            return None;
        }
        let next = through.remove(0);
        Some((self.node().connect(&next).await.unwrap(), through))
    }
}

#[upbeat::service]
impl Chain for Knot {
    #[method(budget = "10s")]
    async fn reach(&self, through: Vec<String>, waits: bool) {
        if waits {
            upbeat::sleep(Duration::from_micros(100)).await;
        }
        // A handler that has waited counts as standing when it is polled as a task.
        let _standing = self.stand();
        match self.next(through).await {
            // The callee may report the end of the time first, since it has the same deadline.
            Some((next, rest)) => match next.reach(rest, waits).await {
                Err(CallError::Deadline(_)) => std::future::pending().await,
                other => other.unwrap(),
            },
            None => std::future::pending().await,
        }
    }

    async fn reach_and_stall(&self, through: Vec<String>, ms: u64) {
        let _standing = self.stand();
        let (next, rest) = self.next(through).await.unwrap();
        let call = next.reach(rest, false).try_send().unwrap();
        let stalls = async move {
            // When what was sent is on its way.
            upbeat::sleep(Duration::from_millis(1)).await;
            waiting::sleep(Duration::from_millis(ms));
        };
        drop(self.node().spawn(stalls));
        let _ = call.await;
        std::future::pending().await
    }

    async fn left(
        &self,
        through: Vec<String>,
        own_us: Option<u64>,
        waits: bool,
    ) -> Vec<Option<u64>> {
        let us = |left: Duration| left.as_micros() as u64;
        let mut all = vec![time_left().map(us)];
        if waits {
            upbeat::sleep(Duration::from_micros(100)).await;
        }
        if let Some((next, rest)) = self.next(through).await {
            let call = next.left(rest, None, waits);
            let behind = match own_us {
                Some(own) => call.deadline(Duration::from_micros(own)).await,
                None => call.await,
            };
            all.extend(behind.unwrap());
        }
        all
    }

    async fn standing(&self) -> (u64, u64) {
        (self.standing.get(), self.begun.get())
    }

    async fn counted(&self, counter: u64) -> u64 {
        self.node().counted(Counter::ALL[counter as usize])
    }

    #[method(outlives = "2s")]
    async fn finish(&self, ms: u64) {
        let _standing = self.stand();
        upbeat::sleep(Duration::from_millis(ms)).await;
        self.finished.set(self.finished.get() + 1);
    }

    #[method(outlives = "20s")]
    async fn finish_late(&self, ms: u64) {
        self.finish(ms).await;
    }

    async fn finished(&self) -> u64 {
        self.finished.get()
    }

    #[method(outlives = "500ms")]
    async fn begin(&self, ms: u64) {
        self.begin_unbounded(ms).await;
    }

    async fn begin_unbounded(&self, ms: u64) {
        let _standing = self.stand();
        upbeat::sleep(Duration::from_millis(ms)).await;
        self.finished.set(self.finished.get() + 1);
    }

    #[method(budget = "10s")]
    async fn more(
        &self,
        through: Vec<String>,
        own: Option<(u64, Option<u64>)>,
        wants_ms: u64,
        naps_ms: u64,
    ) -> Result<u64, String> {
        let _standing = self.stand();
        let Some((next, rest)) = self.next(through).await else {
            let told = upbeat::extend(Duration::from_millis(wants_ms)).await;
            upbeat::sleep(Duration::from_millis(naps_ms)).await;
            let told = told.map_err(|error| error.to_string())?;
            return Ok(told.as_millis() as u64);
        };
        let call = next.more(rest, own, wants_ms, naps_ms);
        let ms = Duration::from_millis;
        let call = match own {
            None => call,
            Some((after, None)) => call.deadline(ms(after)),
            Some((after, Some(most))) => call.deadline(ms(after)).extendable(ms(most)),
        };
        match call.await {
            Ok(left) => Ok(left),
            Err(CallError::Method(text)) => Err(text),
            // The callee may report the end of the time first, since it has the same deadline.
            Err(CallError::Deadline(_)) => std::future::pending().await,
            Err(error) => Err(error.to_string()),
        }
    }

    async fn hold_up(&self, ms: u64) {
        waiting::sleep(Duration::from_millis(ms));
    }

    async fn nap(&self, ms: u64, value: u64) -> u64 {
        let _standing = self.stand();
        if ms > 0 {
            upbeat::sleep(Duration::from_millis(ms)).await;
        }
        value
    }
}
