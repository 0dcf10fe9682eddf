//! Counts the costs of a batch of a stream, of as many items as are there.

use crate::quote::service::FormsClient;
use crate::quote::steady::{Bench, Case, Client, minus, tell_node};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use upbeat::quote::{Operation, Payload, Reader};
use upbeat::{Node, Stream};
use upbeat_memory::counters::Counters;

const LOOKS: Reader = Reader::Polls;
/// Alone, with others, and as many as may be.
const ITEMS: [u64; 4] = [1, 2, 30, 256];

pub(crate) fn run(bench: &Bench) {
    for items in ITEMS {
        let batch = Payload::batch(8 * items as usize);
        let case = |what: &str, operation, arguments, result| Case {
            name: format!("{what} of {items} u64"),
            operation,
            arguments,
            result,
        };
        let pull = Operation::Pull { writer: LOOKS, reader: LOOKS };
        let pull = case("pull", pull, Payload::NONE, batch);
        bench.hold(&pull, || pulling(bench, &pull, items));
        let push = Operation::Push { reader: LOOKS, writer: LOOKS };
        let push = case("push", push, batch, Payload::NONE);
        bench.hold(&push, || pushing(bench, &push, items));
    }
}

fn client(bench: &Bench, case: &Case) -> (Node, FormsClient) {
    let node = bench.client(case.waiting());
    let forms = node.block_on(node.connect(&bench.server.name)).unwrap();
    (node, forms)
}

/// Reads a stream, of which the next batch is asked for when one begins to be read.
fn pulling<'c>(bench: &Bench, case: &Case, items: u64) -> Client<'c> {
    let (node, forms) = client(bench, case);
    let name = format!("lets/{}", node.name());
    let lets = Counters::create(1, &name, 1).unwrap();
    lets.add(0, 1);
    let stream = forms.batches(items, std::process::id(), name);
    let stream = RefCell::new(node.block_on(stream).unwrap());
    let run = move |count: u64, between: &mut dyn FnMut()| {
        let mut stream = stream.borrow_mut();
        node.block_on(async {
            let before = tell_node(&node);
            for _ in 0..count {
                for item in (0..items).rev() {
                    assert_eq!(stream.next().await, Some(Ok(item)));
                }
                // The turn ends before the next batch comes, which was asked for.
                upbeat::yield_now().await;
                lets.add(0, 1);
                between();
            }
            minus(tell_node(&node), before)
        })
    };
    Client { prepare: Box::new(|_| {}), run: Box::new(run), ends: true }
}

/// Items that are let go so many at a time.
#[derive(Clone, Default)]
struct Gate {
    open: Rc<Cell<u64>>,
    next: Rc<Cell<u64>>,
    /// More were asked for.
    wanted: Rc<Cell<bool>>,
}

impl futures_core::Stream for Gate {
    type Item = u64;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u64>> {
        if self.open.get() == 0 {
            self.wanted.set(true);
            return Poll::Pending;
        }
        self.open.set(self.open.get() - 1);
        Poll::Ready(Some(self.next.replace(self.next.get() + 1)))
    }
}

/// Writes a stream, a batch after the one before was taken.
fn pushing<'c>(bench: &Bench, case: &Case, items: u64) -> Client<'c> {
    let (node, forms) = client(bench, case);
    let gate = Gate::default();
    let numbers = Stream::from_stream(gate.clone());
    let call = Box::pin(async move { forms.swallow(items, numbers).await });
    let call = RefCell::new(call);
    let run = move |count: u64, between: &mut dyn FnMut()| {
        let mut call = call.borrow_mut();
        node.block_on(async {
            let before = tell_node(&node);
            for _ in 0..count {
                gate.open.set(items);
                gate.wanted.set(false);
                // More are wanted when the answer is here.
                poll_fn(|context| {
                    assert!(call.as_mut().poll(context).is_pending(), "it has no end");
                    if gate.wanted.get() { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                upbeat::yield_now().await;
                between();
            }
            minus(tell_node(&node), before)
        })
    };
    Client { prepare: Box::new(|_| {}), run: Box::new(run), ends: true }
}
