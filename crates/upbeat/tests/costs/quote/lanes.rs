//! Lines, bytes, copies, allocations and wakes, in every operation, form and size.

use crate::common::process::say;
use crate::common::server::Kind;
use crate::quote::service::*;
use crate::quote::steady::{Bench, Case, Client, minus, tell_alone, tell_node};
use std::cell::{Cell, RefCell};
use std::path::Path;
use upbeat::Waiting;
use upbeat::client::Client as NodeClient;
use upbeat::handle::HandleClient;
use upbeat::quote::{Operation, Payload, Reader};

const LOOKS: Reader = Reader::Polls;
const CALL: Operation = Operation::Call { callee: LOOKS, caller: LOOKS };
const ONEWAY: Operation = Operation::Oneway { receiver: LOOKS };
const NONE: Payload = Payload::NONE;

/// Bytes of the elements of sequences, such that messages take the sizes of the plain ones; of the
/// last, long ones.
const SEQUENCES: [usize; 13] =
    [0, 1, 32, 33, 96, 97, 1024, 2040, 4096, 65_528, 65_529, 1 << 20, 4 << 20];

pub(crate) fn run(kind: Kind, place: &Path) {
    let awake = Bench::new(Elsewhere::start(kind, place, Waiting::Polling), false);
    let one = |name: &str, operation, arguments, result| Case {
        name: name.to_owned(),
        operation,
        arguments,
        result,
    };
    let null = one("call", CALL, NONE, NONE);
    node(&awake, &null, &|_| {}, &async |forms: &FormsClient| {
        forms.null().await.unwrap();
    });
    plain(&awake);
    sequences(&awake);
    handles(&awake);
    crate::quote::streams::run(&awake);
    say(&format!("table\n{}", awake.table()));
    awake.server.end();
    let asleep = Bench::new(Elsewhere::start(kind, place, Waiting::Sleeping), true);
    sleepers(&asleep);
    say(&format!("table\n{}", asleep.table()));
    asleep.server.end();
    say("done");
}

/// Holds a case by what a node's client does.
fn node<C: NodeClient>(bench: &Bench, case: &Case, prepare: &dyn Fn(u64), act: &impl AsyncFn(&C)) {
    bench.hold(case, || {
        let node = bench.client(case.waiting());
        let client: C = node.block_on(node.connect(&bench.server.name)).unwrap();
        let run = move |count: u64, between: &mut dyn FnMut()| {
            node.block_on(async {
                let before = tell_node(&node);
                for _ in 0..count {
                    act(&client).await;
                    // The turn that reads the reply ends, and then the callee learns of that.
                    upbeat::yield_now().await;
                    between();
                }
                minus(tell_node(&node), before)
            })
        };
        Client { prepare: Box::new(prepare), run: Box::new(run), ends: true }
    });
}

/// Holds a case by what a handle's blocking calls do.
fn handle<C: HandleClient + 'static>(
    bench: &Bench,
    case: &Case,
    act: &dyn Fn(&'static C) -> Box<dyn Fn()>,
) {
    bench.hold(case, || {
        let builder = upbeat::handle::builder().program(crate::common::PROGRAM);
        let builder = builder.directory(&bench.server.place).waiting(Waiting::Polling);
        let client: C = builder.connect(&bench.server.name).unwrap();
        // The client is kept for ever, so that its polling flag stays set from one run to the next.
        let call = act(Box::leak(Box::new(client)));
        let run = move |count: u64, between: &mut dyn FnMut()| {
            let before = tell_alone();
            for _ in 0..count {
                call();
                between();
            }
            minus(tell_alone(), before)
        };
        Client { prepare: Box::new(|_| {}), run: Box::new(run), ends: false }
    });
}

macro_rules! plain_sizes {
    ($bench:expr, $($client:ident $bytes:literal)*) => {$({
        let bench: &Bench = $bench;
        let value = Payload::plain($bytes);
        let case = |what: &str, operation, arguments, result| Case {
            name: format!("{what} [u8; {}]", $bytes),
            operation,
            arguments,
            result,
        };
        let there = case("call with", CALL, value, NONE);
        node(bench, &there, &|_| {}, &async |client: &$client| {
            client.take([1; $bytes]).await.unwrap();
        });
        let back = case("call for", CALL, NONE, value);
        node(bench, &back, &|_| {}, &async |client: &$client| {
            assert_eq!(client.give().await.unwrap(), [7; $bytes]);
        });
        let both = case("call with and for", CALL, value, value);
        node(bench, &both, &|_| {}, &async |client: &$client| {
            assert_eq!(client.echo([5; $bytes]).await.unwrap(), [5; $bytes]);
        });
        let note = case("one-way with", ONEWAY, value, NONE);
        node(bench, &note, &|_| {}, &async |client: &$client| {
            client.note([1; $bytes]).await.unwrap();
        });
    })*};
}

fn plain(bench: &Bench) {
    plain_sizes! {
        bench,
        Plain0Client 0
        Plain8Client 8
        Plain40Client 40
        Plain41Client 41
        Plain104Client 104
        Plain105Client 105
        Plain1024Client 1024
        Plain4096Client 4096
        Plain65536Client 65536
    }
}

/// Values that own memory. The callers' own are made before it is counted.
fn sequences(bench: &Bench) {
    for bytes in SEQUENCES {
        let value = Payload::sequence(bytes);
        let case = |what: &str, operation, arguments, result| Case {
            name: format!("{what} {bytes} bytes"),
            operation,
            arguments,
            result,
        };
        let stock: RefCell<Vec<Vec<u8>>> = RefCell::default();
        let fill = |count: u64| stock.borrow_mut().extend((0..count).map(|_| vec![0; bytes]));
        let take = || stock.borrow_mut().pop().unwrap();
        let one: Cell<Vec<u8>> = Cell::new(vec![3; bytes]);

        let both = case("call with and for Vec of", CALL, value, value);
        node(bench, &both, &|_| {}, &async |forms: &FormsClient| {
            one.set(forms.echo(one.take()).await.unwrap());
        });
        assert_eq!(one.take(), vec![3; bytes]);
        let there = case("call with Vec of", CALL, value, NONE);
        node(bench, &there, &fill, &async |forms: &FormsClient| {
            forms.take(take()).await.unwrap();
        });
        if bench.server.kind == Kind::Shared {
            // Where only the caller's allocations are its process's.
            let filled = case("call into a buffer, Vec of", CALL, value, Payload::filled(bytes));
            let buffer = RefCell::new(vec![1; bytes]);
            node(bench, &filled, &fill, &async |forms: &FormsClient| {
                let mut to = buffer.take();
                assert_eq!(forms.echo(take()).into(&mut to).await, Ok(bytes));
                buffer.replace(to);
            });
            assert_eq!(buffer.take(), vec![0; bytes]);
        }
        let note = case("one-way with Vec of", ONEWAY, value, NONE);
        node(bench, &note, &fill, &async |forms: &FormsClient| {
            forms.note(take()).await.unwrap();
        });
        let several = Payload::plain(4).and(value).and(Payload::plain(1));
        let mixed = case("call with u32, u8, Vec of", CALL, several, NONE);
        node(bench, &mixed, &fill, &async |forms: &FormsClient| {
            forms.mixed(1, take(), 2).await.unwrap();
        });
        let text: Cell<String> = Cell::new("t".repeat(bytes));
        let texts = case("call with and for String of", CALL, value, value);
        node(bench, &texts, &|_| {}, &async |forms: &FormsClient| {
            text.set(forms.text(text.take()).await.unwrap());
        });
    }
}

/// Blocking calls cost what a node's do.
fn handles(bench: &Bench) {
    let case = |what: &str, operation, value| Case {
        name: format!("handle: {what}"),
        operation,
        arguments: value,
        result: if operation == CALL { value } else { NONE },
    };
    let null = case("call", CALL, NONE);
    handle(bench, &null, &|forms: &'static FormsHandle| {
        let forms = forms.blocking();
        Box::new(move || forms.null().unwrap())
    });
    let note = case("one-way", ONEWAY, NONE);
    handle(bench, &note, &|forms: &'static FormsHandle| {
        let forms = forms.blocking();
        Box::new(move || forms.note_null().unwrap())
    });
    let slot = case("call with and for [u8; 105]", CALL, Payload::plain(105));
    handle(bench, &slot, &|plain: &'static Plain105Handle| {
        let plain = plain.blocking();
        Box::new(move || assert_eq!(plain.echo([9; 105]).unwrap(), [9; 105]))
    });
    for bytes in [4096, 1 << 17] {
        let what = format!("call with and for Vec of {bytes}");
        let page = case(&what, CALL, Payload::sequence(bytes));
        handle(bench, &page, &|forms: &'static FormsHandle| {
            let (forms, one) = (forms.blocking(), Cell::new(vec![3; bytes]));
            Box::new(move || one.set(forms.echo(one.take()).unwrap()))
        });
        // The argument is made anew each time, which is one more of the caller's.
        let result = Payload { allocations: 1, ..Payload::filled(bytes) };
        let name = format!("handle: call into a buffer, Vec of {bytes}");
        let filled = Case { name, operation: CALL, arguments: Payload::sequence(bytes), result };
        handle(bench, &filled, &|forms: &'static FormsHandle| {
            let (forms, to) = (forms.blocking(), Cell::new(vec![1; bytes]));
            Box::new(move || {
                let mut buffer = to.take();
                assert_eq!(forms.filling(&mut buffer).echo(vec![3; bytes]), Ok(bytes));
                to.set(buffer);
            })
        });
    }
}

/// Measures the operations on a sleeping receiver, whose doorbell the sender rings.
fn sleepers(bench: &Bench) {
    let sleeps = Reader::Sleeps;
    let case = |what: &str, operation, value| Case {
        name: format!("asleep: {what}"),
        operation,
        arguments: value,
        result: NONE,
    };
    let callee = Operation::Call { callee: sleeps, caller: LOOKS };
    let call = case("call", callee, NONE);
    node(bench, &call, &|_| {}, &async |forms: &FormsClient| {
        forms.null().await.unwrap();
    });
    let page = case("call with [u8; 4096]", callee, Payload::plain(4096));
    node(bench, &page, &|_| {}, &async |plain: &Plain4096Client| {
        plain.take([4; 4096]).await.unwrap();
    });
    let note = case("one-way", Operation::Oneway { receiver: sleeps }, NONE);
    node(bench, &note, &|_| {}, &async |forms: &FormsClient| {
        forms.note_null().await.unwrap();
    });
    let both = case("call, both", Operation::Call { callee: sleeps, caller: sleeps }, NONE);
    node(bench, &both, &|_| {}, &async |forms: &FormsClient| {
        forms.null_asleep().await.unwrap();
    });
}
