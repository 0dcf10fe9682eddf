//! Arguments that take more memory than their message: a handler that waits is charged for them.

use crate::common::{Directory, PROGRAM, Signal, Watchdog, node, soon, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use upbeat::{Node, Waiting};

/// A value of 1 KiB. Where it is absent, it takes eight bytes of a message.
type Row = Option<[u64; 128]>;

#[upbeat::service]
trait Table {
    async fn keep(&self, rows: Vec<Row>, more: Vec<Row>) -> u64;
    async fn count(&self, rows: Vec<Row>) -> u64;
}

#[derive(Clone, Default)]
struct Kept {
    begun: Arc<AtomicU64>,
    gate: Signal,
}

impl Table for Kept {
    async fn keep(&self, rows: Vec<Row>, more: Vec<Row>) -> u64 {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.gate.clone().await;
        (rows.len() + more.len()) as u64
    }

    async fn count(&self, rows: Vec<Row>) -> u64 {
        rows.len() as u64
    }
}

#[test]
fn a_waiting_handler_is_charged_for_the_memory_of_its_arguments() {
    let _watchdog = Watchdog::new("charged for values");
    let directory = Directory::new();
    let (kept, end) = (Kept::default(), Signal::default());
    let (open, opened) = std::sync::mpsc::channel();
    let server = std::thread::spawn({
        let (kept, end, place) = (kept.clone(), end.clone(), directory.path());
        move || {
            let builder = Node::builder("table").program(PROGRAM).directory(&place);
            let node = builder.session_budget(200_000).build().unwrap();
            node.serve(TableServer::new(kept)).unwrap();
            open.send(()).unwrap();
            node.block_on(end);
        }
    });
    opened.recv().unwrap();
    let client = node("reader", &directory.path(), Waiting::Sleeping);
    client.block_on(async {
        let table: TableClient = client.connect("table").await.unwrap();
        let call = || {
            let table = table.clone();
            client.spawn(async move { table.keep(vec![None; 100], vec![None; 95]).await.unwrap() })
        };
        // Each takes 200 KiB there, and less than 2 KiB of a message.
        let calls: Vec<_> = (0..4).map(|_| call()).collect();
        until(|| kept.begun.load(Ordering::SeqCst) > 0).await;
        upbeat::sleep(Duration::from_millis(100)).await;
        assert_eq!(kept.begun.load(Ordering::SeqCst), 1);
        kept.gate.give();
        for call in calls {
            assert_eq!(soon(call).await, Ok(195));
        }
        // A handler that does not wait is charged for nothing.
        for _ in 0..4 {
            assert_eq!(soon(table.count(vec![None; 10_000])).await, Ok(10_000));
        }
    });
    end.give();
    server.join().unwrap();
}
