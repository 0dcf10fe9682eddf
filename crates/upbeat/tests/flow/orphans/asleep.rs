//! The events that wake a sleeping node: each alone, while nothing else comes.

use crate::common::{Directory, PROGRAM, Watchdog};
use std::future::{Future, poll_fn};
use std::sync::mpsc::{Sender, channel};
use std::task::Poll;
use std::time::{Duration, Instant};
use upbeat::{Node, Waiting};

const BRIEFLY: Duration = Duration::from_millis(50);

fn node(name: &str) -> Node {
    Node::builder(name).program("asleep").waiting(Waiting::Sleeping).local_only().build().unwrap()
}

#[test]
fn a_timer_wakes_its_node() {
    let _watchdog = Watchdog::new("a timer");
    let node = node("timer");
    let began = Instant::now();
    node.block_on(upbeat::sleep(BRIEFLY));
    assert!(began.elapsed() >= BRIEFLY);
}

#[upbeat::service]
trait Waiter {
    async fn forever(&self);
    async fn bytes(&self, count: u64) -> Vec<u8>;
}

/// Says when a handler has ended.
struct Ends(Sender<()>);

impl Waiter for Ends {
    async fn forever(&self) {
        let _end = End(self.0.clone());
        std::future::pending().await
    }

    async fn bytes(&self, count: u64) -> Vec<u8> {
        vec![7; count as usize]
    }
}

struct End(Sender<()>);

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// The caller's node is not driven any more when the deadline passes, so that it cancels nothing.
#[test]
fn a_deadline_wakes_the_node_whose_handler_it_ends() {
    let _watchdog = Watchdog::new("a deadline");
    let ((tell, ended), (say, said)) = (channel(), channel());
    std::thread::spawn(move || {
        let node = node("asleep/callee");
        node.serve(WaiterServer::new(Ends(tell))).unwrap();
        say.send(()).unwrap();
        node.block_on(std::future::pending::<()>());
    });
    said.recv().unwrap();
    let node = node("asleep/caller");
    let client: WaiterClient = node.block_on(node.connect("asleep/callee")).unwrap();
    let mut call = std::pin::pin!(client.forever().deadline(BRIEFLY));
    let is_pending = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending()));
    assert!(node.block_on(is_pending));
    ended.recv_timeout(Duration::from_secs(20)).expect("the handler has ended");
}

/// The reply is longer than what the socket takes at once, and the caller reads nothing until the callee sleeps.
#[test]
fn a_socket_that_takes_bytes_again_wakes_its_node() {
    const COUNT: u64 = 24 << 20;
    let _watchdog = Watchdog::new("a full socket");
    let directory = Directory::new();
    let place = directory.path();
    let apart = move |name: &str| {
        let builder = Node::builder(name).program(PROGRAM).directory(&place).shared_memory(false);
        // The node looks at its peer by itself only after minutes.
        let builder = builder.peer_timeout(Duration::from_secs(3_000));
        builder.waiting(Waiting::Sleeping).insecure_plaintext()
    };
    let (caller, (say, said)) = (apart("asleep/caller").build().unwrap(), channel());
    std::thread::spawn(move || {
        let node = apart("asleep/callee").listen("127.0.0.1:0").build().unwrap();
        node.serve(WaiterServer::new(Ends(channel().0))).unwrap();
        say.send(node.listens_at().unwrap()).unwrap();
        node.block_on(std::future::pending::<()>());
    });
    let to = format!("asleep/callee@{}", said.recv().unwrap());
    let client: WaiterClient = caller.block_on(caller.connect(&to)).unwrap();
    let mut call = std::pin::pin!(client.bytes(COUNT));
    let is_pending = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending()));
    assert!(caller.block_on(is_pending));
    std::thread::sleep(4 * BRIEFLY);
    let came = caller.block_on(upbeat::within(Duration::from_secs(20), call));
    assert_eq!(came.unwrap().unwrap().len() as u64, COUNT);
}
