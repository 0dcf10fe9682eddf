//! A node that is shut down finishes what it has accepted: one-way messages whose handlers wait, and replies that have
//! not left yet.

use crate::common::{Directory, Signal, Watchdog, node};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use upbeat::Waiting;

const A_WHILE: Duration = Duration::from_secs(60);
const LONG: usize = 30 << 20;

#[upbeat::service]
trait Desk {
    /// Counts its end.
    #[oneway]
    async fn file(&self, ms: u64);
    async fn copy(&self, bytes: u64) -> Vec<u8>;
}

struct Clerk {
    begun: Signal,
    filed: Rc<Cell<u64>>,
}

impl Desk for Clerk {
    async fn file(&self, ms: u64) {
        self.begun.give();
        upbeat::sleep(Duration::from_millis(ms)).await;
        self.filed.set(self.filed.get() + 1);
    }

    async fn copy(&self, bytes: u64) -> Vec<u8> {
        self.begun.give();
        vec![7; bytes as usize]
    }
}

/// Shuts a node down when its handler has begun on what a caller in another thread has sent, and returns how many
/// one-way messages are done.
fn close_while<R: Send + 'static>(
    name: &'static str,
    waiting: Waiting,
    call: impl AsyncFnOnce(DeskClient) -> R + Send + 'static,
) -> (u64, R) {
    let place = Directory::new();
    let server = node(name, &place.path(), waiting);
    let (begun, filed) = (Signal::default(), Rc::new(Cell::new(0)));
    let clerk = Clerk { begun: begun.clone(), filed: Rc::clone(&filed) };
    server.serve(DeskServer::new(clerk)).unwrap();
    let path = place.path();
    let caller = std::thread::spawn(move || {
        let node = node(&format!("calls-{name}"), &path, waiting);
        node.block_on(async {
            let desk = node.connect(name).await.unwrap();
            call(desk).await
        })
    });
    server.block_on(begun);
    server.shut_down(A_WHILE);
    (filed.get(), caller.join().unwrap())
}

#[test]
fn accepted_oneway_messages_are_finished() {
    let _watchdog = Watchdog::new("filing");
    for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
        let (filed, ()) = close_while("files", waiting, async |desk| {
            desk.file(300).await.unwrap();
            // Until the node has ended.
            while desk.copy(1).await.is_ok() {}
        });
        assert_eq!(filed, 1);
    }
}

#[test]
fn replies_leave_before_the_session_ends() {
    let _watchdog = Watchdog::new("copying");
    for waiting in [Waiting::Adaptive, Waiting::Sleeping] {
        let (_, copied) = close_while("copies", waiting, async |desk| desk.copy(LONG as u64).await);
        let copied = copied.unwrap();
        assert!(copied.len() == LONG && copied.iter().all(|byte| *byte == 7));
    }
}
