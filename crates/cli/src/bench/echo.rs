//! The service that calls and messages are measured with.

use crate::bench::message::{Lying, Message, add_up};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::hint::black_box;
use std::rc::Rc;
use std::task::{Poll, Waker};
use upbeat::Stream;
use upbeat_memory::region::Region;

/// Gives back what it is given.
#[upbeat::service]
pub trait Echo {
    /// Nothing at all.
    async fn null(&self);
    /// 16 bytes there and back.
    async fn bytes16(&self, bytes: [u8; 16]) -> [u8; 16];
    /// 64 bytes there and back.
    async fn bytes64(&self, bytes: [u8; 64]) -> [u8; 64];
    /// 256 bytes there and back.
    async fn bytes256(&self, bytes: [u8; 256]) -> [u8; 256];
    /// 1000 bytes there and back, as in LYNX's bigop.
    async fn bytes1000(&self, bytes: [u8; 1000]) -> [u8; 1000];
    /// 1 KiB there and back.
    async fn bytes1024(&self, bytes: [u8; 1024]) -> [u8; 1024];
    /// 1 KiB there and back, by reference.
    async fn reference1024(&self, bytes: &[u8; 1024]) -> [u8; 1024];
    /// A vector there and back.
    async fn vector(&self, bytes: Vec<u8>) -> Vec<u8>;
    /// 4 KiB there and back.
    async fn bytes4096(&self, bytes: [u8; 4096]) -> [u8; 4096];
    /// Any number of bytes there and back.
    async fn bounce(&self, message: Message) -> Message;
    /// A message of 8 bytes.
    #[oneway]
    async fn hit(&self, n: u64);
    /// A message of 64 bytes.
    #[oneway]
    async fn hit64(&self, bytes: [u8; 64]);
    /// A message of any number of bytes.
    #[oneway]
    async fn land(&self, message: Message);
    /// The same, whose bytes are added up.
    #[oneway]
    async fn sum(&self, message: Message);
    /// The same, read where it lies. One that does not lie with its sender is not counted.
    #[oneway]
    async fn lie(&self, message: Lying);
    /// The same, copied into a buffer that is kept.
    #[oneway]
    async fn keep(&self, message: Lying);
    /// So many numbers, one after another.
    async fn numbers(&self, count: u64) -> Stream<u64>;
    /// How many numbers have come.
    async fn counted(&self, numbers: Stream<u64>) -> u64;
    /// A message that is answered by a store into a line of the callee's.
    #[oneway]
    async fn mark(&self, n: u64);
    /// How many messages have come so far.
    async fn hits(&self) -> u64;
    /// The caller needs the node no longer.
    async fn rest(&self);
}

/// What serves it.
pub struct EchoService {
    hits: Cell<u64>,
    /// Where what is kept is copied to.
    kept: RefCell<Vec<u8>>,
    /// Where marks are left, and at which word.
    marks: Option<(Region, usize)>,
    rest: Rest,
}

impl EchoService {
    /// A service that says to `rest` when a caller needs the node no longer.
    pub fn new(rest: Rest, marks: Option<(Region, usize)>) -> EchoService {
        EchoService { hits: Cell::new(0), kept: RefCell::default(), marks, rest }
    }
}

#[upbeat::service]
impl Echo for EchoService {
    async fn null(&self) {}

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

/// A caller's word that it needs the node no longer. It is kept until somebody waits for it.
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
    /// Gives the word.
    pub fn begin(&self) {
        self.inner.said.set(true);
        if let Some(waker) = self.inner.waiting.take() {
            waker.wake();
        }
    }

    /// Whether the word was given, which is taken.
    pub fn has_begun(&self) -> bool {
        self.inner.said.replace(false)
    }

    /// Waits for the word, and takes it.
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
