//! The types to serve and to connect are those that the macro made of the trait.

use upbeat::Node;

#[upbeat::service]
trait Counter {
    async fn add(&self, n: u64) -> u64;
}

struct Mine;

impl Counter for Mine {
    async fn add(&self, n: u64) -> u64 {
        n
    }
}

async fn connects(node: &Node) {
    node.serve(Mine).unwrap();
    let _: CounterHandle = node.connect("counter").await.unwrap();
    let _: CounterClient = upbeat::handle::builder().connect("counter").unwrap();
}

fn main() {}
