//! The primitives beside references: calls, one-way activations and items of streams, each with its local counterpart.

use super::reader::Reader;
use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use upbeat::{Stream, yield_now};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::flight::{burst, streams};
use upbeat_cli::bench::hosts::each;
use upbeat_cli::bench::timing::{Round, Shape, Work};

/// The activations, or items, of a burst.
const BURST: u32 = 2048;

/// A primitive other than a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Primitive {
    /// A call with 2 bytes: of a method of the other process, or of a procedure.
    Call,
    /// A message with 2 bytes that a handler receives, or a task that gets 2 bytes.
    Oneway,
    /// An item of 8 bytes of a stream, from the other process or from this node.
    Item,
}

impl Primitive {
    /// All of them.
    pub(super) const ALL: [Primitive; 3] = [Primitive::Call, Primitive::Oneway, Primitive::Item];

    /// Returns the first word of a case.
    pub(super) fn word(self) -> &'static str {
        match self {
            Primitive::Call => "call",
            Primitive::Oneway => "oneway",
            Primitive::Item => "item",
        }
    }

    pub(super) fn shape(self) -> Shape {
        match self {
            Primitive::Call => Shape::Each,
            Primitive::Oneway | Primitive::Item => Shape::Bursts(BURST),
        }
    }

    /// Does a round between two processes. The other serves.
    pub(super) fn remote(self, reader: &Reader, work: Work) -> Result<Round, BenchError> {
        let caller = &reader.caller;
        match self {
            Primitive::Call => {
                caller.round(async |client| each(work, || client.take2(two(1))).await)
            }
            Primitive::Oneway => {
                burst(caller, work, async |client, n| client.hit2(two(n as u16)).await)
            }
            Primitive::Item => streams(caller, work, async |client, items| {
                let mut numbers = client.numbers(items).await?;
                let mut count = 0;
                while let Some(number) = numbers.next().await {
                    black_box(number?);
                    count += 1;
                }
                Ok(count)
            }),
        }
    }

    /// Does a round in this node, for which the other process does nothing.
    pub(super) fn local(self, reader: &Reader, work: Work) -> Result<Round, BenchError> {
        let node = reader.caller.node();
        match self {
            Primitive::Call => Ok(work.run(|| procedure(black_box(two(1))))),
            Primitive::Oneway => node.block_on(async {
                let (hits, mut expected, mut laps) = (Rc::new(Cell::new(0)), 0_u64, work.laps());
                for tasks in laps.by_ref() {
                    for n in 0..tasks {
                        let (hits, bytes) = (Rc::clone(&hits), two(n as u16));
                        drop(node.spawn(async move {
                            black_box(bytes);
                            hits.set(hits.get() + 1);
                        }));
                    }
                    expected += u64::from(tasks);
                    while hits.get() != expected {
                        yield_now().await;
                    }
                }
                Ok(laps.round())
            }),
            Primitive::Item => node.block_on(async {
                let (mut lost, mut laps) = (0, work.laps());
                for items in laps.by_ref() {
                    let (mut numbers, mut count) = (Stream::of(0..u64::from(items)), 0);
                    while let Some(Ok(number)) = numbers.next().await {
                        black_box(number);
                        count += 1;
                    }
                    lost += items - count;
                }
                match lost {
                    0 => Ok(laps.round()),
                    lost => Err(BenchError::protocol(format!("{lost} items have not come"))),
                }
            }),
        }
    }
}

fn two(number: u16) -> [u8; 2] {
    number.to_ne_bytes()
}

#[inline(never)]
fn procedure(bytes: [u8; 2]) {
    black_box(bytes);
}
