//! A service whose messages may be longer than there is memory for.

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::task::{Poll, Waker};
use upbeat::InPlace;

/// The most bytes that the method `few` takes, behind their count.
pub(crate) const FEW: usize = 1000;

#[derive(Serialize, Deserialize, upbeat::Wire)]
pub(crate) struct Record {
    pub(crate) text: String,
    pub(crate) bytes: Vec<u8>,
}

#[upbeat::service]
pub(crate) trait Store {
    async fn bytes(&self, bytes: Vec<u8>) -> u64;
    async fn words(&self, words: Vec<u64>) -> u64;
    async fn text(&self, text: String) -> u64;
    async fn texts(&self, texts: Vec<String>) -> u64;
    async fn record(&self, record: Record) -> u64;
    async fn in_place(&self, bytes: InPlace<u8>) -> u64;
    async fn few(&self, bytes: Vec<u8>) -> u64;
    async fn few_in_place(&self, bytes: InPlace<u8>) -> u64;
    #[oneway]
    async fn note(&self, bytes: Vec<u8>);
    #[oneway]
    async fn note_few(&self, bytes: Vec<u8>);
    /// Bytes of all notes.
    async fn noted(&self) -> u64;
    /// Waits until the gate is open.
    async fn wait(&self);
    async fn open(&self);
    async fn blob(&self, bytes: u64) -> Vec<u8>;
    async fn blob_in_place(&self, bytes: u64) -> InPlace<u8>;
    async fn record_of(&self, bytes: u64) -> Record;
    /// Leaves the process so many bytes of addresses beyond those that it has, or all if it is none.
    async fn limit(&self, bytes: Option<u64>);
    /// The most KiB that the process ever had resident.
    async fn most_resident(&self) -> u64;
}

#[derive(Default)]
pub(crate) struct Shop {
    noted: Cell<u64>,
    open: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

#[upbeat::service]
impl Store for Shop {
    async fn bytes(&self, bytes: Vec<u8>) -> u64 {
        bytes.len() as u64
    }

    async fn words(&self, words: Vec<u64>) -> u64 {
        8 * words.len() as u64
    }

    async fn text(&self, text: String) -> u64 {
        text.len() as u64
    }

    async fn texts(&self, texts: Vec<String>) -> u64 {
        texts.iter().map(|text| text.len() as u64).sum()
    }

    async fn record(&self, record: Record) -> u64 {
        (record.text.len() + record.bytes.len()) as u64
    }

    async fn in_place(&self, bytes: InPlace<u8>) -> u64 {
        bytes.to_vec().len() as u64
    }

    #[method(max_bytes = 8 + FEW)]
    async fn few(&self, bytes: Vec<u8>) -> u64 {
        bytes.len() as u64
    }

    #[method(max_bytes = 8 + FEW)]
    async fn few_in_place(&self, bytes: InPlace<u8>) -> u64 {
        bytes.len() as u64
    }

    async fn note(&self, bytes: Vec<u8>) {
        self.noted.set(self.noted.get() + bytes.len() as u64);
    }

    #[method(max_bytes = 8 + FEW)]
    async fn note_few(&self, bytes: Vec<u8>) {
        self.noted.set(self.noted.get() + bytes.len() as u64);
    }

    async fn noted(&self) -> u64 {
        self.noted.get()
    }

    async fn wait(&self) {
        std::future::poll_fn(|context| {
            if self.open.get() {
                return Poll::Ready(());
            }
            self.wakers.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    async fn open(&self) {
        self.open.set(true);
        self.wakers.take().into_iter().for_each(Waker::wake);
    }

    async fn blob(&self, bytes: u64) -> Vec<u8> {
        vec![7; bytes as usize]
    }

    async fn blob_in_place(&self, bytes: u64) -> InPlace<u8> {
        vec![7; bytes as usize].into()
    }

    async fn record_of(&self, bytes: u64) -> Record {
        Record { text: "t".repeat(bytes as usize), bytes: vec![] }
    }

    async fn limit(&self, bytes: Option<u64>) {
        limit(bytes);
    }

    async fn most_resident(&self) -> u64 {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = text.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

pub(crate) fn limit(bytes: Option<u64>) {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let has = text.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096;
    let current = bytes.map(|bytes| has + bytes);
    setrlimit(Resource::As, Rlimit { current, maximum: None }).unwrap();
}
