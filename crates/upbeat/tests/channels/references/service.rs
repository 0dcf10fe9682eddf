//! A store whose methods take references, and the same without any.

use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use upbeat::sync::Mutex;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A value that serde carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, upbeat::Wire)]
pub(crate) struct Order {
    pub(crate) item: String,
    pub(crate) count: u32,
}

/// Plain data, of an odd number of words.
#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, upbeat::Wire)]
#[repr(C)]
#[wire(plain)]
pub(crate) struct Reading {
    pub(crate) at: u64,
    pub(crate) values: [f32; 6],
}

#[upbeat::service]
pub(crate) trait Store {
    async fn put(&self, key: &str, value: &[u8]) -> u64;
    async fn digest(&self, block: &[u8; 1024]) -> [u8; 32];
    async fn place(&self, order: &Order) -> Result<u64, String>;
    /// The last reading, if there is one.
    async fn last(&self, readings: &[Reading]) -> Result<Reading, String>;
    async fn mean(&self, readings: &[Reading], last: &Reading, weight: f32) -> f32;
    async fn join(&self, words: &[String], between: &str) -> String;
    /// Returns its arguments, once the gate is free.
    async fn wait(&self, text: &str, block: &[u8; 16], bytes: &[u8]) -> String;
    /// Holds the gate until it was opened.
    async fn close(&self);
    async fn open(&self);
    #[oneway]
    async fn note(&self, text: &str);
    /// Returns the notes, without empty texts.
    async fn noted(&self) -> Vec<String>;
    /// Runs once the gate is free; the request is sent back until then.
    #[method(nack)]
    async fn guarded(&self, text: &str) -> u64;
    /// How often the server's process has allocated.
    async fn allocations(&self) -> u64;
}

#[derive(Default)]
pub(crate) struct Shelf {
    gate: Gate,
    open: Cell<bool>,
    noted: RefCell<Vec<String>>,
}

struct Gate(Mutex<()>);

impl Default for Gate {
    fn default() -> Gate {
        Gate(Mutex::named("gate", ()))
    }
}

/// The digest of a block, such as it is.
pub(crate) fn digest_of(block: &[u8; 1024]) -> [u8; 32] {
    std::array::from_fn(|at| block.iter().skip(at).step_by(32).fold(0, |sum, byte| sum ^ byte))
}

#[upbeat::service]
impl Store for Shelf {
    async fn put(&self, key: &str, value: &[u8]) -> u64 {
        key.len() as u64 * 1_000_000 + value.iter().map(|byte| u64::from(*byte)).sum::<u64>()
    }

    async fn digest(&self, block: &[u8; 1024]) -> [u8; 32] {
        digest_of(block)
    }

    async fn place(&self, order: &Order) -> Result<u64, String> {
        match order.count {
            0 => Err(format!("no {}", order.item)),
            count => Ok(u64::from(count)),
        }
    }

    async fn last(&self, readings: &[Reading]) -> Result<Reading, String> {
        readings.last().copied().ok_or_else(|| "none".to_owned())
    }

    async fn mean(&self, readings: &[Reading], last: &Reading, weight: f32) -> f32 {
        let all = readings.iter().chain([last]).flat_map(|reading| reading.values);
        weight * all.sum::<f32>() / (6 * (readings.len() + 1)) as f32
    }

    async fn join(&self, words: &[String], between: &str) -> String {
        words.join(between)
    }

    async fn wait(&self, text: &str, block: &[u8; 16], bytes: &[u8]) -> String {
        let _held = self.gate.0.lock().await;
        format!("{text} {} {}", block[0], bytes.len())
    }

    async fn close(&self) {
        let _held = self.gate.0.lock().await;
        while !self.open.get() {
            crate::common::yield_now().await;
        }
        self.open.set(false);
    }

    async fn open(&self) {
        self.open.set(true);
    }

    async fn note(&self, text: &str) {
        if !text.is_empty() {
            self.noted.borrow_mut().push(text.to_owned());
        }
    }

    async fn noted(&self) -> Vec<String> {
        self.noted.borrow().clone()
    }

    #[method(needs(self.gate.0, !text.is_empty()))]
    async fn guarded(&self, text: &str) -> u64 {
        text.len() as u64
    }

    async fn allocations(&self) -> u64 {
        crate::ALLOCATOR.allocations()
    }
}

/// The service as a caller sees it that owns its arguments.
pub(crate) mod owned {
    use super::{Order, Reading};

    #[upbeat::service]
    pub(crate) trait Store {
        async fn put(&self, key: String, value: Vec<u8>) -> u64;
        async fn digest(&self, block: [u8; 1024]) -> [u8; 32];
        async fn place(&self, order: Order) -> Result<u64, String>;
        async fn mean(&self, readings: Vec<Reading>, last: Reading, weight: f32) -> f32;
        async fn join(&self, words: Vec<String>, between: String) -> String;
        #[oneway]
        async fn note(&self, text: String);
        async fn noted(&self) -> Vec<String>;
        #[method(nack)]
        async fn guarded(&self, text: String) -> u64;
    }

    /// A service of its own that the other's callers, who pass references, can call.
    pub(crate) struct Echo;

    impl Store for Echo {
        async fn put(&self, key: String, value: Vec<u8>) -> u64 {
            (key.len() + value.len()) as u64
        }

        async fn digest(&self, block: [u8; 1024]) -> [u8; 32] {
            super::digest_of(&block)
        }

        async fn place(&self, order: Order) -> Result<u64, String> {
            Ok(u64::from(order.count))
        }

        async fn mean(&self, _: Vec<Reading>, last: Reading, _: f32) -> f32 {
            last.values[0]
        }

        async fn join(&self, words: Vec<String>, between: String) -> String {
            words.join(&between)
        }

        async fn note(&self, _: String) {}

        async fn noted(&self) -> Vec<String> {
            Vec::new()
        }

        async fn guarded(&self, text: String) -> u64 {
            text.len() as u64
        }
    }
}
