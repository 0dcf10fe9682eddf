//! Messages of all lengths, more of them than their receiver has room for.

use crate::common::{PATIENCE, besiege, ms, remote};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use upbeat::{Builder, CallError, InPlace, Node};
use upbeat_sim::{Fault, Faults, Sim, check, spawn};

/// A label, whose length is not known before it is written.
#[derive(serde::Serialize, serde::Deserialize, upbeat::Wire)]
pub(crate) struct Label {
    text: String,
}

/// A depot of parcels.
#[upbeat::service]
pub(crate) trait Depot {
    /// Takes a parcel after a time. Returns its bytes.
    async fn take(&self, parcel: Vec<u8>, ms: u64) -> u64;
    /// Looks at a parcel where it lies, for a time.
    async fn look(&self, parcel: InPlace<u8>, ms: u64) -> u64;
    /// Takes a parcel with a label. Returns the bytes of both.
    async fn label(&self, parcel: Vec<u8>, label: Label) -> u64;
    /// Takes a parcel of a sender.
    #[oneway]
    async fn leave(&self, from: u64, number: u64, parcel: Vec<u8>);
    /// Returns the numbers of a sender's parcels.
    async fn left(&self, from: u64) -> Vec<u64>;
    /// Returns a parcel of this length.
    async fn fetch(&self, bytes: u64, ms: u64) -> Vec<u8>;
    /// Returns a parcel of this length, which is read where it lies.
    async fn lend(&self, bytes: u64) -> InPlace<u8>;
    /// Returns so many names.
    async fn names(&self, count: u64) -> BTreeMap<u64, String>;
}

#[derive(Default)]
pub(crate) struct Shelves {
    pub(crate) left: RefCell<BTreeMap<u64, Vec<u64>>>,
    /// The number of parcels that senders have left.
    pub(crate) taken: Arc<AtomicU64>,
}

fn name(number: u64) -> String {
    "name ".repeat(number as usize % 50)
}

impl Depot for Shelves {
    async fn take(&self, parcel: Vec<u8>, time: u64) -> u64 {
        upbeat::sleep(ms(time)).await;
        assert!(is_whole(&parcel, parcel.len() as u64), "the parcel is damaged");
        parcel.len() as u64
    }
    async fn look(&self, parcel: InPlace<u8>, time: u64) -> u64 {
        upbeat::sleep(ms(time)).await;
        parcel.len() as u64
    }
    async fn label(&self, parcel: Vec<u8>, label: Label) -> u64 {
        (parcel.len() + label.text.len()) as u64
    }
    async fn leave(&self, from: u64, number: u64, parcel: Vec<u8>) {
        self.left.borrow_mut().entry(from).or_default().push(number);
        self.taken.fetch_add(1, Relaxed);
        upbeat::sleep(ms(parcel.len() as u64 % 3)).await;
    }
    async fn left(&self, from: u64) -> Vec<u64> {
        self.left.borrow().get(&from).cloned().unwrap_or_default()
    }
    async fn fetch(&self, bytes: u64, time: u64) -> Vec<u8> {
        if time > 0 {
            upbeat::sleep(ms(time)).await;
        }
        parcel(bytes)
    }
    async fn lend(&self, bytes: u64) -> InPlace<u8> {
        parcel(bytes).into()
    }
    async fn names(&self, count: u64) -> BTreeMap<u64, String> {
        (0..count).map(|number| (number, name(number))).collect()
    }
}

pub(crate) fn parcel(bytes: u64) -> Vec<u8> {
    vec![bytes as u8; bytes as usize]
}

/// Returns whether a parcel is whole.
pub(crate) fn is_whole(parcel: &[u8], bytes: u64) -> bool {
    parcel == self::parcel(bytes)
}

/// Returns a length: of a slot, of the ring, or of a buffer.
fn length(sim: &Sim) -> u64 {
    let most = [100, 100, 1_000, 1_000, 6_000, 6_000, 60_000, 300_000][sim.below(8) as usize];
    sim.below(most)
}

/// Returns whether a message was sent; one that finds no room at its receiver may fail.
pub(crate) fn is_done<T>(result: Result<T, CallError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(CallError::NoMemory { .. }) => None,
        Err(error) => {
            assert!(error.to_string().contains("budget"), "{error}");
            None
        }
    }
}

/// A task of a client.
async fn work(sim: &Sim, depot: &DepotClient, from: u64) {
    let mut left = Vec::new();
    let mut held = Vec::new();
    for number in 0..12 {
        let (bytes, time) = (length(sim), sim.below(6));
        match sim.below(10) {
            0 | 1 => {
                let taken = is_done(depot.take(parcel(bytes), time).await);
                assert!(taken.is_none_or(|taken| taken == bytes));
            }
            2 => {
                let dropped = depot.take(parcel(bytes), time);
                let _ = upbeat::within(ms(sim.below(5)), dropped).await;
            }
            3 => {
                let seen = is_done(depot.look(parcel(bytes).into(), time).await);
                assert!(seen.is_none_or(|seen| seen == bytes));
            }
            4 => {
                let fetched = is_done(depot.fetch(bytes, time * sim.below(2)).await);
                assert!(fetched.is_none_or(|parcel| is_whole(&parcel, bytes)));
            }
            5 => held.extend(is_done(depot.lend(bytes).await).map(|parcel| (parcel, bytes))),
            6 => {
                let label = Label { text: name(number) };
                let expected = bytes + label.text.len() as u64;
                let labelled = is_done(depot.label(parcel(bytes), label).await);
                assert!(labelled.is_none_or(|bytes| bytes == expected));
            }
            7 => {
                let count = sim.below(60);
                let names = depot.names(count).await.unwrap();
                assert_eq!(names.len() as u64, count);
                assert!(names.into_iter().all(|(number, found)| found == name(number)));
            }
            _ => {
                for number in (0..1 + sim.below(40)).map(|nth| 100 * number + nth) {
                    let bytes = if sim.below(8) == 0 { length(sim) } else { sim.below(100) };
                    let sent = depot.leave(from, number, parcel(bytes)).await;
                    left.extend(is_done(sent).map(|()| number));
                }
            }
        }
    }
    for (parcel, bytes) in held {
        let whole = (parcel.to_vec(), parcel.len() as u64);
        assert!(whole.1 == bytes && is_whole(&whole.0, bytes));
    }
    // The answer comes behind the messages; a message that waited for room may run behind it.
    while depot.left(from).await.unwrap().len() < left.len() {
        upbeat::sleep(ms(5)).await;
    }
    assert_eq!(depot.left(from).await.unwrap(), left);
}

/// The place of the depot.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Place {
    Host,
    Network,
}

pub(crate) const LONG: Duration = Duration::from_secs(120);

impl Place {
    pub(crate) fn node(self, sim: &Sim, name: &str) -> Builder {
        match self {
            Place::Host => sim.node(name),
            Place::Network => remote(sim, name, LONG),
        }
    }

    fn depot(self) -> &'static str {
        if self == Place::Network { "depot@vienna:7000" } else { "depot" }
    }

    /// Starts a depot with little room. It is told when it ends.
    pub(crate) fn start(self, sim: &Sim, room: u64, ends: &Arc<Mutex<bool>>) {
        let ends = Arc::clone(ends);
        let serve = move |sim: &Sim| {
            let builder = self.node(sim, "depot").budget(room).session_budget(room / 2);
            let builder = builder.remote_bytes((2 << 20) + 16 * room);
            let listens =
                if self == Place::Network { builder.listen("vienna:7000") } else { builder };
            let node = listens.build().unwrap();
            node.serve(DepotServer::new(Shelves::default())).unwrap();
            node.block_on(async {
                while !*ends.lock().unwrap() {
                    upbeat::sleep(ms(1_000)).await;
                }
            });
            assert_eq!((node.sessions(), node.remote_bytes()), (0, 0), "all clients have ended");
            *ends.lock().unwrap() = false;
            Ok::<_, Infallible>(())
        };
        match self {
            Place::Host => sim.start("depot", serve),
            Place::Network => sim.host("vienna").start("depot", serve),
        }
    }
}

pub(crate) async fn connected(node: &Node, place: Place) -> DepotClient {
    node.connect::<DepotClient>(place.depot()).wait_for(LONG).await.unwrap()
}

fn program(sim: &Sim, place: Place) {
    let room = [20_000, 100_000, 1 << 20][sim.below(3) as usize];
    let ends = Arc::new(Mutex::new(false));
    place.start(sim, room, &ends);
    let clients = ["client-1", "client-2"];
    let siege = match place {
        Place::Network => besiege(sim),
        Place::Host => {
            sim.faults(Faults::of([Fault::Stop]).every(ms(0)..ms(100)).lasts(ms(0)..ms(60)))
        }
    };
    for (name, client) in clients.into_iter().zip(1..) {
        sim.start(name, move |sim| {
            let node = place.node(sim, name).conservative(sim.below(2) == 0).build().unwrap();
            node.block_on(async {
                let depot = connected(&node, place).await;
                let tasks: Vec<_> = (0..5)
                    .map(|task| {
                        let (sim, depot) = (sim.clone(), depot.clone());
                        node.spawn(async move { work(&sim, &depot, 10 * client + task).await })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
            });
            node.shut_down(LONG);
            Ok::<_, Infallible>(())
        });
    }
    while clients.into_iter().any(|client| sim.is_running(client)) {
        sim.pause(ms(20));
    }
    siege.end();
    // A client may have left while the network was parted: its session is kept for as long.
    sim.pause(LONG + Duration::from_secs(10));
    *ends.lock().unwrap() = true;
    sim.pause(Duration::from_secs(5));
    assert!(!*ends.lock().unwrap(), "the depot has ended");
}

/// Long messages go both ways while their connection breaks again and again, and arrive whole. Then all nodes rest.
pub(crate) fn broken(sim: &Sim) {
    Place::Network.start(sim, 64 << 20, &Arc::default());
    let node = Place::Network.node(sim, "client").build().unwrap();
    node.block_on(async {
        let depot = connected(&node, Place::Network).await;
        let siege = sim.faults(Faults::of([Fault::Break]).every(ms(0)..ms(30)));
        let tasks: Vec<_> = (0..6)
            .map(|from| {
                let (sim, depot) = (sim.clone(), depot.clone());
                node.spawn(async move {
                    for number in 0..15 {
                        let bytes = length(&sim);
                        match sim.below(3) {
                            0 => assert_eq!(depot.take(parcel(bytes), 0).await, Ok(bytes)),
                            1 => {
                                let fetched = depot.fetch(bytes, sim.below(3)).await;
                                assert!(fetched.is_ok_and(|parcel| is_whole(&parcel, bytes)));
                            }
                            _ => depot.leave(from, number, parcel(bytes)).await.unwrap(),
                        }
                    }
                })
            })
            .collect();
        let handles = sim.handles().insecure_plaintext().peer_timeout(PATIENCE).resume_within(LONG);
        let (by_handle, notes) =
            (handles.connect_async::<DepotHandle>(Place::Network.depot()), depot.clone());
        let noted = node.spawn(async move {
            for number in 0..500 {
                notes.leave(9, number, Vec::new()).await.unwrap();
            }
        });
        let by_handle = by_handle.await.unwrap();
        for _ in 0..15 {
            let bytes = length(sim);
            assert_eq!(by_handle.take(parcel(bytes), 0).await, Ok(bytes));
        }
        for task in tasks.into_iter().chain([noted]) {
            task.await.unwrap();
        }
        siege.end();
        // Messages that were sent behind the last break go on as well.
        assert_eq!(depot.take(parcel(3 << 20), 0).await, Ok(3 << 20));
        upbeat::sleep(Duration::from_secs(5)).await;
    });
    let before = sim.steps();
    sim.pause(Duration::from_secs(10));
    let steps = sim.steps() - before;
    assert!(steps < 500, "idle nodes take {steps} steps");
}

/// Callers of a handle that give up, in all ways, leave their room and their turn to others.
pub(crate) fn by_handles(sim: &Sim) {
    Place::Host.start(sim, 20_000, &Arc::default());
    let depot: DepotHandle = sim.handles().wait_for(LONG).connect("depot").unwrap();
    let (other, blocks) = (sim.clone(), depot.clone());
    let blocks = spawn("blocks", move || {
        for _ in 0..30 {
            let (bytes, time) = (other.below(9_000), other.below(8));
            let short = blocks.blocking().deadline(ms(1 + other.below(20)));
            match short.take(parcel(bytes), time) {
                Err(CallError::Deadline(_)) => {}
                taken => assert!(is_done(taken).is_none_or(|taken| taken == bytes)),
            }
        }
    });
    let node = sim.node("client").build().unwrap();
    let awaits = async |task| {
        for nth in 0..25 {
            let (bytes, time) = (sim.below(9_000), sim.below(8));
            let taken = depot.take(parcel(bytes), time);
            if (task + nth) % 3 == 0 {
                drop(upbeat::within(ms(sim.below(8)), taken).await);
                continue;
            }
            let taken = upbeat::within(ms(5_000), taken).await;
            let taken = is_done(taken.unwrap_or_else(|_| panic!("it waits for ever")));
            assert!(taken.is_none_or(|taken| taken == bytes));
        }
    };
    node.block_on(upbeat::all((0..8).map(awaits)));
    blocks.unwrap().join().unwrap();
    assert_eq!(sim.block_on(depot.take(parcel(9_000), 0)), Ok(9_000));
}

pub(crate) fn on_a_host(sim: &Sim) {
    program(sim, Place::Host);
}

pub(crate) fn beyond_a_network(sim: &Sim) {
    program(sim, Place::Network);
}

#[test]
fn messages_that_find_no_room_wait_for_it_on_a_host() {
    check(8, on_a_host);
}

#[test]
fn messages_that_find_no_room_wait_for_it_beyond_a_network() {
    check(4, beyond_a_network);
}

#[test]
fn long_messages_outlive_the_connection_that_breaks() {
    check(4, broken);
}

#[test]
fn callers_of_a_handle_that_give_up_leave_their_room() {
    check(4, by_handles);
}
