//! The service that benchmarks call and send messages to.

use crate::bench::message::{Lying, Message, add_up};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::hint::black_box;
use std::rc::Rc;
use std::task::{Poll, Waker};
use upbeat::Stream;
use upbeat_memory::region::Region;

/// A service that returns its arguments.
#[upbeat::service]
pub trait Echo {
    /// Does nothing.
    async fn null(&self);
    /// Takes 2 bytes.
    async fn take2(&self, bytes: [u8; 2]);
    /// Returns 16 bytes.
    async fn bytes16(&self, bytes: [u8; 16]) -> [u8; 16];
    /// Returns 64 bytes.
    async fn bytes64(&self, bytes: [u8; 64]) -> [u8; 64];
    /// Returns 256 bytes.
    async fn bytes256(&self, bytes: [u8; 256]) -> [u8; 256];
    /// Returns 1000 bytes, as LYNX's bigop does.
    async fn bytes1000(&self, bytes: [u8; 1000]) -> [u8; 1000];
    /// Returns 1 KiB.
    async fn bytes1024(&self, bytes: [u8; 1024]) -> [u8; 1024];
    /// Returns 1 KiB that is passed by reference.
    async fn reference1024(&self, bytes: &[u8; 1024]) -> [u8; 1024];
    /// Returns a vector.
    async fn vector(&self, bytes: Vec<u8>) -> Vec<u8>;
    /// Returns 4 KiB.
    async fn bytes4096(&self, bytes: [u8; 4096]) -> [u8; 4096];
    /// Returns any number of bytes.
    async fn bounce(&self, message: Message) -> Message;
    /// Receives a message of 2 bytes.
    #[oneway]
    async fn hit2(&self, bytes: [u8; 2]);
    /// Receives a message of 8 bytes.
    #[oneway]
    async fn hit(&self, n: u64);
    /// Receives a message of 64 bytes.
    #[oneway]
    async fn hit64(&self, bytes: [u8; 64]);
    /// Receives a message of any number of bytes.
    #[oneway]
    async fn land(&self, message: Message);
    /// Receives a message of any number of bytes, and adds its words up.
    #[oneway]
    async fn sum(&self, message: Message);
    /// Adds the words of a message up in its sender's memory. A message elsewhere is not counted.
    #[oneway]
    async fn lie(&self, message: Lying);
    /// Copies a message from its sender's memory into a buffer that is kept.
    #[oneway]
    async fn keep(&self, message: Lying);
    /// Returns a stream of `count` numbers.
    async fn numbers(&self, count: u64) -> Stream<u64>;
    /// Returns how many numbers the stream had.
    async fn counted(&self, numbers: Stream<u64>) -> u64;
    /// Receives a message, and answers with a store into a line of the callee's memory.
    #[oneway]
    async fn mark(&self, n: u64);
    /// Returns how many messages have arrived so far.
    async fn hits(&self) -> u64;
    /// Tells the node that the caller has ended the round.
    async fn rest(&self);
}

/// The implementation of the service.
pub struct EchoService {
    hits: Cell<u64>,
    /// The buffer for messages that are copied.
    kept: RefCell<Vec<u8>>,
    /// The region of the marks, and the word in it.
    marks: Option<(Region, usize)>,
    rest: Rest,
}

impl EchoService {
    /// Creates a service that signals `rest` when a caller ends the round.
    pub fn new(rest: Rest, marks: Option<(Region, usize)>) -> EchoService {
        EchoService { hits: Cell::new(0), kept: RefCell::default(), marks, rest }
    }
}

#[upbeat::service]
impl Echo for EchoService {
    async fn null(&self) {}

    async fn take2(&self, _bytes: [u8; 2]) {}

    async fn bytes16(&self, bytes: [u8; 16]) -> [u8; 16] {
        bytes
    }

    async fn bytes64(&self, bytes: [u8; 64]) -> [u8; 64] {
        bytes
    }

    async fn bytes256(&self, bytes: [u8; 256]) -> [u8; 256] {
        bytes
    }

    async fn bytes1000(&self, bytes: [u8; 1000]) -> [u8; 1000] {
        bytes
    }

    async fn bytes1024(&self, bytes: [u8; 1024]) -> [u8; 1024] {
        bytes
    }

    async fn reference1024(&self, bytes: &[u8; 1024]) -> [u8; 1024] {
        *bytes
    }

    async fn vector(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    async fn bytes4096(&self, bytes: [u8; 4096]) -> [u8; 4096] {
        bytes
    }

    async fn bounce(&self, message: Message) -> Message {
        message
    }

    async fn hit2(&self, _bytes: [u8; 2]) {
        self.hits.set(self.hits.get() + 1);
    }

    async fn hit(&self, _n: u64) {
        self.hits.set(self.hits.get() + 1);
    }

    async fn hit64(&self, _bytes: [u8; 64]) {
        self.hits.set(self.hits.get() + 1);
    }

    async fn land(&self, message: Message) {
        black_box(message.bytes());
        self.hits.set(self.hits.get() + 1);
    }

    #[method(budget = "10s")]
    async fn sum(&self, message: Message) {
        black_box(add_up(0, message.bytes()));
        self.hits.set(self.hits.get() + 1);
    }

    #[method(budget = "10s")]
    async fn lie(&self, message: Lying) {
        let sum = black_box(message.sum_there());
        self.hits.set(self.hits.get() + u64::from(sum.is_some()));
    }

    #[method(budget = "10s")]
    async fn keep(&self, message: Lying) {
        let lay = message.keep(&mut self.kept.borrow_mut());
        self.hits.set(self.hits.get() + u64::from(lay));
    }

    async fn numbers(&self, count: u64) -> Stream<u64> {
        Stream::of(0..count)
    }

    async fn counted(&self, mut numbers: Stream<u64>) -> u64 {
        let mut count = 0;
        while let Some(Ok(_)) = numbers.next().await {
            count += 1;
        }
        count
    }

    async fn mark(&self, n: u64) {
        if let Some((region, at)) = &self.marks {
            region.publish(*at, n);
        }
    }

    async fn hits(&self) -> u64 {
        self.hits.get()
    }

    async fn rest(&self) {
        self.rest.begin();
    }
}

/// A signal that the caller has ended the round. The signal is kept until it is awaited.
#[derive(Clone, Default)]
pub struct Rest {
    inner: Rc<RestInner>,
}

#[derive(Default)]
struct RestInner {
    said: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Rest {
    /// Gives the signal.
    pub fn begin(&self) {
        self.inner.said.set(true);
        if let Some(waker) = self.inner.waiting.take() {
            waker.wake();
        }
    }

    /// Returns whether the signal was given, and clears it.
    pub fn has_begun(&self) -> bool {
        self.inner.said.replace(false)
    }

    /// Waits for the signal, and clears it.
    pub async fn begun(&self) {
        poll_fn(|context| {
            if self.has_begun() {
                return Poll::Ready(());
            }
            self.inner.waiting.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}
