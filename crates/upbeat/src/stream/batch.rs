//! The items of one message.

use crate::contain::drop_each;
use crate::error::CallError;
use crate::wire::{Describe, Input, Output, Wire, WireError};
use std::iter;
use std::task::{Poll, ready};
use upbeat_core::channel::stream::{BatchSize, BatchTail};

const TOO_MANY: WireError = WireError::Stream { why: "a message has more items than it may have" };

/// The end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All items have come.
    Done,
    /// The stream broke off for this reason.
    Broken(String),
}

/// Items of a stream, and its end if it follows them.
pub(super) struct Batch<T> {
    pub(super) items: Vec<T>,
    pub(super) end: Option<End>,
    size: BatchSize,
}

impl<T> Default for Batch<T> {
    fn default() -> Batch<T> {
        Batch { items: Vec::new(), end: None, size: BatchSize::default() }
    }
}

impl<T> Batch<T> {
    pub(super) fn clear(&mut self) {
        drop_each(iter::from_fn(|| self.items.pop()));
        self.items.clear();
        self.size = BatchSize::default();
    }
}

impl<T: Wire> Batch<T> {
    /// Collects the items that are ready, if there are any.
    pub(super) fn poll_fill(
        &mut self,
        mut next: impl FnMut() -> Poll<Option<Result<T, CallError>>>,
    ) -> Poll<()> {
        while self.end.is_none() && self.size.admits() {
            let item = next();
            if item.is_pending() && !self.items.is_empty() {
                break;
            }
            match ready!(item) {
                Some(Ok(item)) => self.push(item),
                Some(Err(error)) => self.end = Some(End::Broken(error.to_string())),
                None => self.end = Some(End::Done),
            }
        }
        Poll::Ready(())
    }

    fn push(&mut self, item: T) {
        let bytes = match T::PLAIN {
            true => Ok(size_of::<T>()),
            false => {
                let mut out = Output::counted();
                item.put(&mut out).map(|()| out.len().next_multiple_of(8))
            }
        };
        match bytes {
            Ok(bytes) => {
                self.size.add(bytes);
                self.items.push(item);
            }
            Err(error) => self.end = Some(End::Broken(error.to_string())),
        }
    }
}

impl<T: Wire> Wire for Batch<T> {
    fn bytes_likely(&self) -> usize {
        16 + self.size.bytes()
    }

    fn describe(out: &mut Describe) {
        out.of::<Vec<T>>();
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        let tag = match &self.end {
            None => BatchTail::More,
            Some(End::Done) => BatchTail::Done,
            Some(End::Broken(_)) => BatchTail::Broken,
        };
        tag.word().put(out)?;
        if let Some(End::Broken(text)) = &self.end {
            text.put(out)?;
        }
        self.items.put(out)
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let end = match BatchTail::from_word(u64::take(input)?) {
            Some(BatchTail::More) => None,
            Some(BatchTail::Done) => Some(End::Done),
            Some(BatchTail::Broken) => Some(End::Broken(String::take(input)?)),
            None => return Err(WireError::Invalid { what: "end of a stream" }),
        };
        let count = input.count(0)?;
        if !BatchSize::is_allowed(count) {
            return Err(TOO_MANY);
        }
        Ok(Batch { items: T::take_all(count, input)?, end, size: BatchSize::default() })
    }
}
