//! The service of the quote: every form of value in every size, and the counters of the server.

use crate::ALLOCATOR;
use crate::common::process::{Other, say};
use crate::common::server::Kind;
use crate::common::{Signal, node};
use crate::quote::{in_thread, until_told};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use upbeat::{Counter, Node, Stream, Waiting};
use upbeat_core::limits::STREAM_ITEMS_MAX;
use upbeat_memory::counters::{Counters, CountersView, observe};
use upbeat_memory::probe::{Count, tally};

/// The counts of one side, in one array, which fits a slot: asking leaves no trace in a ring.
pub(crate) const ALLOCATIONS: usize = Count::COUNT;
pub(crate) const BELLS: usize = ALLOCATIONS + 1;
pub(crate) const SLEEPS: usize = BELLS + 1;
pub(crate) const HANDLED: usize = SLEEPS + 1;
pub(crate) type Told = [u64; HANDLED + 1];
const _: () = assert!(size_of::<Told>() <= upbeat_core::limits::SHORT_BYTES);

/// Returns the counts of this thread, its process and its node.
pub(crate) fn tell(node: &Node, handled: u64) -> Told {
    let mut told = [0; HANDLED + 1];
    told[..Count::COUNT].copy_from_slice(&tally());
    told[ALLOCATIONS] = ALLOCATOR.allocations();
    told[BELLS] = node.counted(Counter::BellsSent);
    told[SLEEPS] = node.counted(Counter::Sleeps);
    told[HANDLED] = handled;
    told
}

#[upbeat::service]
pub(crate) trait Server {
    async fn tell(&self) -> [u64; HANDLED + 1];
    /// Names the node whose sleep `null_asleep` waits for.
    async fn meet(&self, pid: u32, name: String);
}

#[upbeat::service]
pub(crate) trait Forms {
    async fn null(&self);
    /// Returns when the caller sleeps.
    async fn null_asleep(&self);
    async fn echo(&self, value: Vec<u8>) -> Vec<u8>;
    async fn text(&self, value: String) -> String;
    async fn mixed(&self, number: u32, value: Vec<u8>, last: u8);
    async fn take(&self, value: Vec<u8>);
    #[oneway]
    async fn note(&self, value: Vec<u8>);
    #[oneway]
    async fn note_null(&self);
    /// So many at a time, for ever, and each time when the caller lets it: a process, and what it counts there.
    async fn batches(&self, items: u64, pid: u32, lets: String) -> Stream<u64>;
    /// Reads so many at a time.
    async fn swallow(&self, items: u64, numbers: Stream<u64>);
}

/// A service for plain values of one size.
macro_rules! sizes {
    ($($service:ident $server:ident $bytes:literal)*) => {
        $(
            #[upbeat::service]
            pub(crate) trait $service {
                async fn echo(&self, value: [u8; $bytes]) -> [u8; $bytes];
                async fn take(&self, value: [u8; $bytes]);
                async fn give(&self) -> [u8; $bytes];
                #[oneway]
                async fn note(&self, value: [u8; $bytes]);
            }

            impl $service for Here {
                async fn echo(&self, value: [u8; $bytes]) -> [u8; $bytes] {
                    self.handle();
                    value
                }

                async fn take(&self, _value: [u8; $bytes]) {
                    self.handle();
                }

                async fn give(&self) -> [u8; $bytes] {
                    self.handle();
                    [7; $bytes]
                }

                async fn note(&self, _value: [u8; $bytes]) {
                    self.handle();
                }
            }
        )*

        fn serve_sizes(node: &Node, here: &Rc<Here>) {
            $(node.serve($server::shared(Rc::clone(here))).unwrap();)*
        }
    };
}

sizes! {
    Plain0 Plain0Server 0
    Plain8 Plain8Server 8
    Plain40 Plain40Server 40
    Plain41 Plain41Server 41
    Plain104 Plain104Server 104
    Plain105 Plain105Server 105
    Plain1024 Plain1024Server 1024
    Plain4096 Plain4096Server 4096
    Plain65536 Plain65536Server 65536
}

struct Here {
    node: Node,
    /// Seen by callers: how many were handled.
    handled: Rc<Counters>,
    caller: RefCell<Option<Sleeper>>,
}

impl Here {
    fn handle(&self) {
        self.handled.add(0, 1);
    }
}

impl Server for Here {
    async fn tell(&self) -> [u64; HANDLED + 1] {
        tell(&self.node, self.handled.get(0))
    }

    async fn meet(&self, pid: u32, name: String) {
        *self.caller.borrow_mut() = Some(Sleeper::find(pid, &name));
    }
}

#[upbeat::service]
impl Forms for Here {
    async fn null(&self) {
        self.handle();
    }

    async fn null_asleep(&self) {
        self.handle();
        self.caller.borrow().as_ref().unwrap().wait();
    }

    async fn echo(&self, value: Vec<u8>) -> Vec<u8> {
        self.handle();
        value
    }

    async fn text(&self, value: String) -> String {
        self.handle();
        value
    }

    async fn mixed(&self, _number: u32, _value: Vec<u8>, _last: u8) {
        self.handle();
    }

    async fn take(&self, _value: Vec<u8>) {
        self.handle();
    }

    async fn note(&self, _value: Vec<u8>) {
        self.handle();
    }

    async fn note_null(&self) {
        self.handle();
    }

    async fn batches(&self, items: u64, pid: u32, lets: String) -> Stream<u64> {
        let (lets, handled) = (find(pid, &lets), Rc::clone(&self.handled));
        Stream::from_stream(Batches { items, left: 0, is_begun: true, given: 0, lets, handled })
    }

    #[method(budget = "5s")]
    async fn swallow(&self, items: u64, mut numbers: Stream<u64>) {
        while let Some(Ok(number)) = numbers.next().await {
            if number % items == items - 1 {
                self.handle();
            }
        }
    }
}

/// Numbers, of which so many are there whenever some are wanted and their reader lets them go.
struct Batches {
    items: u64,
    left: u64,
    /// More are wanted.
    is_begun: bool,
    given: u64,
    lets: CountersView,
    handled: Rc<Counters>,
}

impl futures_core::Stream for Batches {
    type Item = u64;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u64>> {
        if self.left == 0 {
            // Of a whole batch it is not asked whether there are more.
            if !self.is_begun && self.items < STREAM_ITEMS_MAX as u64 {
                self.is_begun = true;
                return Poll::Pending;
            }
            // Its reader's turn ends first.
            while self.lets.get(0).unwrap() <= self.given {
                std::hint::spin_loop();
            }
            self.given += 1;
            self.left = self.items;
            self.is_begun = false;
        }
        self.left -= 1;
        if self.left == 0 {
            self.handled.add(0, 1);
        }
        Poll::Ready(Some(self.left))
    }
}

/// Counters of this name in a process, seen from elsewhere.
pub(crate) fn find(pid: u32, name: &str) -> CountersView {
    let mut views = observe(pid).unwrap();
    views.retain(|view| view.node() == name);
    assert_eq!(views.len(), 1, "counters of the name {name}");
    views.remove(0)
}

/// Returns the name of the counter of requests that a server has handled.
pub(crate) fn handled_by(server: &str) -> String {
    format!("handled/{server}")
}

/// A node's sleeps, seen from elsewhere.
pub(crate) struct Sleeper {
    view: CountersView,
    seen: Cell<u64>,
}

impl Sleeper {
    pub(crate) fn find(pid: u32, name: &str) -> Sleeper {
        Sleeper { view: find(pid, name), seen: Cell::new(0) }
    }

    /// Sets the number of sleeps that were seen: `wait` waits for another one.
    pub(crate) fn seen(&self, sleeps: u64) {
        self.seen.set(sleeps);
    }

    /// Returns a counter of the node.
    pub(crate) fn counted(&self, counter: Counter) -> u64 {
        self.view.get(counter.index()).unwrap()
    }

    /// Waits until it has gone to sleep once more. The watchdog bounds it.
    pub(crate) fn wait(&self) {
        let sleeps = || self.counted(Counter::Sleeps);
        while sleeps() <= self.seen.get() {
            std::hint::spin_loop();
        }
        self.seen.set(sleeps());
    }
}

/// A server that runs elsewhere.
pub(crate) struct Elsewhere {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) place: PathBuf,
    /// Its process.
    pub(crate) pid: u32,
    other: Option<Other>,
    thread: Option<(Signal, std::thread::JoinHandle<()>)>,
}

impl Elsewhere {
    pub(crate) fn start(kind: Kind, place: &Path, waiting: Waiting) -> Elsewhere {
        let (name, place) = (format!("server/{waiting:?}"), place.to_owned());
        let mut server =
            Elsewhere { kind, name, place, pid: std::process::id(), other: None, thread: None };
        let (name, place) = (server.name.clone(), server.place.clone());
        match kind {
            Kind::Shared => {
                let mut other = Other::start(&format!("quote serve {waiting:?}"), &place);
                other.expect("serving");
                server.pid = other.child.id();
                server.other = Some(other);
            }
            Kind::Local => {
                let quit = Signal::default();
                let (ready, is_ready) = std::sync::mpsc::channel();
                let end = quit.clone();
                let act = move || serve(&name, &place, waiting, end, || ready.send(()).unwrap());
                server.thread = Some((quit, in_thread(act)));
                is_ready.recv().unwrap();
            }
        }
        server
    }

    pub(crate) fn end(mut self) {
        if let Some((quit, thread)) = self.thread.take() {
            quit.give();
            thread.join().unwrap();
        }
    }
}

fn serve(name: &str, place: &Path, waiting: Waiting, quit: Signal, ready: impl FnOnce()) {
    let node = node(name, place, waiting);
    let handled = Rc::new(Counters::create(1, &handled_by(name), 1).unwrap());
    let caller = RefCell::default();
    let here = Rc::new(Here { node: node.clone(), handled, caller });
    node.serve(ServerServer::shared(Rc::clone(&here))).unwrap();
    node.serve(FormsServer::shared(Rc::clone(&here))).unwrap();
    serve_sizes(&node, &here);
    ready();
    node.block_on(quit);
    node.shut_down(std::time::Duration::from_secs(1));
}

/// The part of a server in a process of its own.
pub(crate) fn play(part: &str, place: &Path) {
    let waiting = if part.ends_with("Sleeping") { Waiting::Sleeping } else { Waiting::Polling };
    until_told(|| {
        serve(&format!("server/{waiting:?}"), place, waiting, Signal::default(), || say("serving"));
    });
}
