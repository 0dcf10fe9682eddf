//! A client, a node and a task stay on their thread: elsewhere a handle is used.

use std::thread;
use upbeat::{Compute, JoinHandle, Node, Stream};

#[upbeat::service]
pub trait Counter {
    async fn add(&self, n: u64) -> u64;
}

/// Stands for `tokio::spawn`.
fn spawn<F: Future + Send + 'static>(_: F) {}

pub fn in_a_thread(counter: CounterClient) {
    thread::spawn(move || drop(counter.add(1)));
}

pub fn in_a_runtime(counter: CounterClient) {
    spawn(async move { counter.add(1).await });
}

pub fn connected_in_a_runtime(node: Node) {
    spawn(async move { node.connect::<CounterClient>("counter").await });
}

pub fn a_node(node: Node) {
    thread::spawn(move || node.turn());
}

pub fn a_task(task: JoinHandle<u64>) {
    spawn(task);
}

pub fn a_stream(mut items: Stream<u64>) {
    spawn(async move { items.next().await });
}

pub fn a_computation(sum: Compute<u64>) {
    spawn(sum);
}

fn main() {}
