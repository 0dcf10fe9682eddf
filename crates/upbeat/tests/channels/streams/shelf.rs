//! A service whose methods return streams and take them, and where it runs.

use crate::common::process::{Other, end_with_input, input_ends, say};
use crate::common::server::{Kind, Server};
use crate::common::{Directory, Signal, node, until};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use upbeat::{CallError, Counter, Node, Stream, Waiting};

#[upbeat::service]
pub(crate) trait Shelf {
    async fn count(&self, to: u64) -> Stream<u64>;
    async fn words(&self, count: u64) -> Result<Stream<String>, String>;
    /// Never ends; what was sent is counted.
    async fn endless(&self, bytes: u64) -> Stream<Vec<u8>>;
    /// Has nothing to say, ever.
    async fn silent(&self) -> Stream<u64>;
    /// Panics behind so many.
    async fn panics(&self, after: u64) -> Stream<u64>;
    /// How many there were, if they were in order.
    async fn in_order(&self, numbers: Stream<u64>) -> Result<u64, String>;
    async fn lengths(&self, texts: Stream<String>) -> Result<u64, String>;
    async fn list(&self, numbers: Stream<u64>) -> Vec<u64>;
    /// Lists the numbers, unless one of them is zero.
    async fn list_if(&self, numbers: Stream<u64>) -> Result<Vec<u64>, String>;
    /// Reads so many, and the rest is not wanted.
    async fn some(&self, many: u64, numbers: Stream<u64>) -> u64;
    /// Reads nothing until `go` is called.
    async fn hold(&self, blobs: Stream<Vec<u8>>) -> u64;
    #[oneway]
    async fn go(&self);
    async fn double(&self, numbers: Stream<u64>) -> Stream<u64>;
    async fn swap(&self, one: Stream<u64>, two: Stream<String>) -> (Stream<String>, Stream<u64>);
    async fn add(&self, a: u64, b: u64) -> u64;
    async fn state(&self) -> State;
}

/// The items sent, the guards alive, the streams open, and the orphans ended.
pub(crate) type State = (u64, u64, u64, u64);
pub(crate) const SENT: fn(State) -> u64 = |state| state.0;

#[derive(Clone, Default)]
pub(crate) struct Alive(Rc<Cell<u64>>);

impl Alive {
    pub(crate) fn guard(&self) -> Guard {
        self.0.set(self.0.get() + 1);
        Guard(Rc::clone(&self.0))
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.get()
    }
}

/// Counted until it is dropped.
pub(crate) struct Guard(Rc<Cell<u64>>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

struct Board {
    node: Node,
    sent: Rc<Cell<u64>>,
    alive: Alive,
    go: Signal,
}

#[upbeat::service]
impl Shelf for Board {
    async fn count(&self, to: u64) -> Stream<u64> {
        Stream::of(0..to)
    }

    async fn words(&self, count: u64) -> Result<Stream<String>, String> {
        if count == 13 {
            return Err("not so many".into());
        }
        Ok(upbeat::stream(async move |sink| {
            for number in 0..count {
                sink.send(format!("word {number}")).await;
                if number % 1000 == 7 {
                    upbeat::yield_now().await;
                }
            }
        }))
    }

    async fn endless(&self, bytes: u64) -> Stream<Vec<u8>> {
        let (sent, guard) = (Rc::clone(&self.sent), self.alive.guard());
        upbeat::stream(async move |sink| {
            let _guard = guard;
            for number in 0_u64.. {
                let mut blob = vec![0; bytes as usize];
                blob[..8].copy_from_slice(&number.to_le_bytes());
                sink.send(blob).await;
                sent.set(sent.get() + 1);
            }
        })
    }

    async fn silent(&self) -> Stream<u64> {
        let guard = self.alive.guard();
        upbeat::stream(async move |_sink| {
            let _guard = guard;
            std::future::pending::<()>().await;
        })
    }

    async fn panics(&self, after: u64) -> Stream<u64> {
        let guard = self.alive.guard();
        Stream::of((0..).inspect(move |number| {
            let _ = &guard;
            assert!(*number < after, "it was to panic");
        }))
    }

    #[method(budget = "5s")]
    async fn in_order(&self, mut numbers: Stream<u64>) -> Result<u64, String> {
        let mut next = 0;
        while let Some(number) = numbers.next().await {
            match number {
                Ok(number) if number == next => next += 1,
                Ok(number) => return Err(format!("{number} instead of {next}")),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(next)
    }

    #[method(budget = "5s")]
    async fn lengths(&self, mut texts: Stream<String>) -> Result<u64, String> {
        let mut bytes = 0;
        while let Some(text) = texts.next().await {
            bytes += text.map_err(|error| error.to_string())?.len() as u64;
        }
        Ok(bytes)
    }

    #[method(budget = "5s")]
    async fn list(&self, numbers: Stream<u64>) -> Vec<u64> {
        all(numbers).await.unwrap_or_default()
    }

    #[method(budget = "5s")]
    async fn list_if(&self, numbers: Stream<u64>) -> Result<Vec<u64>, String> {
        match all(numbers).await {
            Ok(numbers) if numbers.contains(&0) => Err("one is zero".into()),
            Ok(numbers) => Ok(numbers),
            Err(error) => Err(error.to_string()),
        }
    }

    #[method(budget = "5s")]
    async fn some(&self, many: u64, mut numbers: Stream<u64>) -> u64 {
        let mut read = 0;
        while read < many && matches!(numbers.next().await, Some(Ok(_))) {
            read += 1;
        }
        read
    }

    #[method(budget = "5s")]
    async fn hold(&self, mut blobs: Stream<Vec<u8>>) -> u64 {
        let _guard = self.alive.guard();
        self.go.clone().await;
        let mut count = 0;
        while let Some(Ok(_)) = blobs.next().await {
            count += 1;
        }
        count
    }

    async fn go(&self) {
        self.go.give();
    }

    async fn double(&self, mut numbers: Stream<u64>) -> Stream<u64> {
        let guard = self.alive.guard();
        upbeat::stream(async move |sink| {
            let _guard = guard;
            while let Some(Ok(number)) = numbers.next().await {
                sink.send(2 * number).await;
            }
        })
    }

    async fn swap(&self, one: Stream<u64>, two: Stream<String>) -> (Stream<String>, Stream<u64>) {
        (two, one)
    }

    async fn add(&self, a: u64, b: u64) -> u64 {
        a + b
    }

    #[method(budget = "5s")]
    async fn state(&self) -> State {
        let orphans = self.node.counted(Counter::OrphansEnded);
        (self.sent.get(), self.alive.count(), self.node.streams() as u64, orphans)
    }
}

fn serve(name: &str, place: &Path, waiting: Waiting, quit: Signal, ready: impl FnOnce()) {
    let node = node(name, place, waiting);
    let (sent, alive, go) = (Rc::default(), Alive::default(), Signal::default());
    let board = Board { node: node.clone(), sent, alive: alive.clone(), go };
    node.serve(ShelfServer::new(board)).unwrap();
    ready();
    node.block_on(quit);
    node.shut_down(Duration::from_millis(100));
    assert_eq!((node.streams(), alive.count()), (0, 0), "streams outlive their node");
}

/// Plays the parts of other processes. False if the part is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let words: Vec<&str> = part.split(' ').collect();
    match words[..] {
        ["shelf", name, waiting] => {
            let waiting = if waiting == "Sleeping" { Waiting::Sleeping } else { Waiting::Adaptive };
            serve(name, place, waiting, input_ends(), || say("serving"));
        }
        ["read", name, server] => {
            end_with_input();
            let node = node(name, place, Waiting::Adaptive);
            node.block_on(async {
                let shelf: ShelfClient = node.connect(server).await.unwrap();
                let mut blobs = shelf.endless(1000).await.unwrap();
                let silent = shelf.silent().await.unwrap();
                blobs.next().await.unwrap().unwrap();
                let held = shelf.hold(upbeat::stream(async |sink| {
                    loop {
                        sink.send(vec![0; 1000]).await;
                    }
                }));
                say("reading");
                held.await.unwrap();
                drop(silent);
            });
        }
        _ => return false,
    }
    true
}

/// A node beside a server.
pub(crate) struct Stand {
    pub(crate) node: Node,
    server: Server,
    pub(crate) name: String,
    pub(crate) place: PathBuf,
    _directory: Directory,
}

impl Stand {
    pub(crate) fn new(kind: Kind, waiting: Waiting) -> Stand {
        let directory = Directory::new();
        let place = directory.path();
        let own = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let name = format!("shelf/{own}");
        let (at, theirs) = (place.clone(), name.clone());
        let other = || Other::start(&format!("shelf {name} {waiting:?}"), &place);
        let local = move |quit, ready: &dyn Fn()| serve(&theirs, &at, waiting, quit, ready);
        let server = Server::of(kind, other, local);
        let node = node(&format!("client/{own}"), &place, waiting);
        Stand { node, server, name, place, _directory: directory }
    }

    pub(crate) async fn shelf(&self) -> ShelfClient {
        self.node.connect(&self.name).await.unwrap()
    }

    pub(crate) fn handle(&self) -> ShelfHandle {
        self.node.handle(&self.name).unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.server.other().kill();
    }
}

/// Waits until nothing of any stream is left at the server.
pub(crate) async fn all_gone(shelf: &ShelfClient) -> State {
    let state = Cell::new(State::default());
    loop {
        state.set(shelf.state().await.unwrap());
        let (_, alive, open, _) = state.get();
        if (alive, open) == (0, 0) {
            return state.get();
        }
        upbeat::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until the server has sent on as far as it can.
pub(crate) async fn held_back(shelf: &ShelfClient) -> u64 {
    let mut before = u64::MAX;
    loop {
        let now = SENT(shelf.state().await.unwrap());
        if now == before && now > 0 {
            return now;
        }
        before = now;
        upbeat::sleep(Duration::from_millis(20)).await;
    }
}

/// All items of a stream.
pub(crate) async fn all<T: 'static>(mut stream: Stream<T>) -> Result<Vec<T>, CallError> {
    let mut items = Vec::new();
    while let Some(item) = stream.next().await {
        items.push(item?);
    }
    assert!(stream.next().await.is_none(), "nothing comes behind the end");
    Ok(items)
}

/// Waits until nothing is left of what is counted here.
pub(crate) async fn none(alive: &Alive) {
    until(|| alive.count() == 0).await;
}
