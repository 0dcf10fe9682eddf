//! A node connects clients, `upbeat::handle::connect` connects handles, and a server is served.

use upbeat::Node;

#[upbeat::service]
pub trait Counter {
    async fn add(&self, n: u64) -> u64;
}

pub struct Count;

impl Counter for Count {
    async fn add(&self, n: u64) -> u64 {
        n
    }
}

pub async fn connects(node: &Node) {
    let _ = node.connect::<CounterHandle>("counter");
    let _ = upbeat::handle::connect::<CounterClient>("counter");
    let _ = node.serve(Count);
}

fn main() {}
