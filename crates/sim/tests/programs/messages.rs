//! The messages in the report of a seed that fails.

use crate::common::{failure, ms, remote};
use std::convert::Infallible;
use std::time::Duration;
use upbeat::sync::Mutex;
use upbeat_sim::Sim;

/// Notes numbers.
#[upbeat::service]
trait Notes {
    /// Notes a number, after a time for which no other one is noted. Returns the number.
    async fn note(&self, number: u64, ms: u64) -> u64;
    /// Notes a number.
    #[oneway]
    async fn hint(&self, number: u64);
}

struct Book(Mutex<()>);

impl Notes for Book {
    async fn note(&self, number: u64, ms: u64) -> u64 {
        let _open = self.0.lock().await;
        upbeat::sleep(Duration::from_millis(ms)).await;
        number
    }

    async fn hint(&self, _: u64) {}
}

/// Starts the processes of two nodes that note numbers: `notes` on this host, and `remote` on another one.
fn serve(sim: &Sim) {
    sim.start("notes", |sim| {
        let node = sim.node("notes").build().unwrap();
        node.serve(NotesServer::new(Book(Mutex::named("book", ())))).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
    sim.host("vienna").start("remote", |sim| {
        let node = remote(sim, "remote", ms(0)).listen("vienna:7000").build().unwrap();
        node.serve(NotesServer::new(Book(Mutex::named("book", ())))).unwrap();
        node.block_on(std::future::pending::<()>());
        Ok::<_, Infallible>(())
    });
}

const SOON: Duration = Duration::from_secs(10);

/// Panics unless the text has these parts, one behind the other.
fn has_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let split = rest.split_once(part);
        rest = split.unwrap_or_else(|| panic!("`{part}` is not at its place in {text}")).1;
    }
}

/// The report has the last messages in the order in which they began, with their phases: calls of nodes and of handles,
/// one-way messages, and calls that have no result.
#[test]
fn a_seed_that_fails_tells_its_last_messages() {
    let told = failure(|sim| {
        serve(sim);
        let node = remote(sim, "client", ms(0)).build().unwrap();
        node.block_on(async {
            let notes: NotesClient = node.connect("notes").wait_for(SOON).await.unwrap();
            for number in 0..60 {
                assert_eq!(notes.note(number, 1).await, Ok(number));
            }
            notes.hint(7).await.unwrap();
            let beside = notes.clone();
            let longer = node.spawn(async move { beside.note(1, 20).await });
            upbeat::sleep(ms(5)).await;
            let late = notes.note(2, 1).deadline(ms(3)).await;
            assert!(late.is_err(), "{late:?}");
            assert_eq!(notes.note(3, 1).await, Ok(3));
            assert_eq!(longer.await.unwrap(), Ok(1));
            let distant: NotesClient = node.connect("remote@vienna:7000").await.unwrap();
            assert_eq!(distant.note(4, 1).await, Ok(4));
            let handles = sim.handles().wait_for(SOON);
            let handle: NotesHandle = handles.connect_async("notes").await.unwrap();
            assert_eq!(handle.note(5, 1).await, Ok(5));
            let _open = node.spawn(async move { handle.note(6, 60_000).await });
            upbeat::sleep(ms(5)).await;
            panic!("the book is full");
        });
    });
    has_in_order(
        &told,
        &[
            "steps: the book is full\nits last messages:\n  47 earlier ones\n  after ",
            "Notes.hint: ",
            "Notes.note: 20.0",
            "(given-up)\n    from `client` (#) over the wire (~) to `notes` (=)\n  after ",
            "(promoted, lock `book`)\n",
            "  notes  lock          |=====",
            "from `client` (#) over the wire (~) to `remote` (=)\n",
            "Notes.note: 1.0",
            "from `a handle of notes` (#) over the wire (~) to `notes` (=)\n",
            "(given-up)\n    from `a handle of notes` (#)",
            "\nto repeat it: ",
            "UPBEAT_SIM_SEED=0 ",
        ],
    );
    assert_eq!(told.matches("\n  after ").count(), 20, "{told}");
}

/// Samples take time, on which the end of a program may depend.
#[test]
fn messages_of_a_run_that_ends_otherwise_are_not_shown() {
    let told = failure(|sim| {
        serve(sim);
        let node = sim.node("client").build().unwrap();
        node.block_on(async {
            let notes: NotesClient = node.connect("notes").wait_for(SOON).await.unwrap();
            notes.note(1, 1).await.unwrap();
            panic!("it is {:?}", sim.time());
        });
    });
    has_in_order(
        &told,
        &["steps: it is ", "\nit ends otherwise where each message is sampled: seed 0, "],
    );
    assert!(!told.contains("Notes.note"), "{told}");
    let silent = failure(|_| panic!("nothing was sent"));
    assert!(silent.contains("steps: nothing was sent\nto repeat it: "), "{silent}");
}
