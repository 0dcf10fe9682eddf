//! The service of a sweep, which checks what it gets, and the contents of messages.

use std::cell::Cell;
use upbeat::{InPlace, Stream};

#[upbeat::service]
pub(super) trait Store {
    /// Begins to count anew.
    async fn begin(&self);
    async fn echo(&self, bytes: Vec<u8>) -> Vec<u8>;
    #[oneway]
    async fn note(&self, bytes: Vec<u8>);
    /// Takes what lies in a loaned buffer.
    #[oneway]
    async fn put(&self, bytes: InPlace<u8>);
    async fn up(&self, items: Stream<Vec<u8>>) -> u64;
    async fn down(&self, count: u64, len: u64) -> Stream<Vec<u8>>;
    /// How many messages came since the beginning, and how many of them were not the next ones.
    async fn tally(&self) -> (u64, u64);
}

/// The number of different messages of a length: a prime, so that no number of messages that come together repeats
/// itself in step with them.
const KINDS: usize = 251;
/// The bytes of the longest message.
const LONGEST: usize = 2 << 20;

/// The bytes from which messages are cut, where no two neighbours have the same contents.
pub(super) fn pattern() -> Vec<u8> {
    (0..LONGEST + KINDS).map(|at| (at % KINDS) as u8).collect()
}

/// Returns the message of this number.
pub(super) fn message(pattern: &[u8], number: u64, len: usize) -> &[u8] {
    let from = (number % KINDS as u64) as usize;
    &pattern[from..from + len]
}

/// The implementation, for one client at a time.
pub(super) struct Checker {
    pattern: Vec<u8>,
    came: Cell<u64>,
    wrong: Cell<u64>,
}

impl Checker {
    pub(super) fn new() -> Checker {
        Checker { pattern: pattern(), came: Cell::new(0), wrong: Cell::new(0) }
    }

    fn check(&self, bytes: &[u8]) {
        let number = self.came.get();
        self.came.set(number + 1);
        if bytes != message(&self.pattern, number, bytes.len()) {
            self.wrong.set(self.wrong.get() + 1);
        }
    }
}

impl Store for Checker {
    async fn begin(&self) {
        self.came.set(0);
        self.wrong.set(0);
    }

    async fn echo(&self, bytes: Vec<u8>) -> Vec<u8> {
        // Calls of several tasks are in no order, and their callers check the replies.
        self.came.set(self.came.get() + 1);
        bytes
    }

    async fn note(&self, bytes: Vec<u8>) {
        self.check(&bytes);
    }

    async fn put(&self, bytes: InPlace<u8>) {
        self.check(&bytes.to_vec());
    }

    async fn up(&self, mut items: Stream<Vec<u8>>) -> u64 {
        while let Some(item) = items.next().await {
            match item {
                Ok(bytes) => self.check(&bytes),
                Err(_) => break,
            }
        }
        self.came.get()
    }

    async fn down(&self, count: u64, len: u64) -> Stream<Vec<u8>> {
        let pattern = self.pattern.clone();
        Stream::of((0..count).map(move |number| message(&pattern, number, len as usize).to_vec()))
    }

    async fn tally(&self) -> (u64, u64) {
        (self.came.get(), self.wrong.get())
    }
}
