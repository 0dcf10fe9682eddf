//! Calls the counter from a node: `cargo run --release -p upbeat --example counter_client`.
#![forbid(unsafe_code)]

mod counter;

use counter::{CounterClient, CounterError};
use std::time::Duration;
use upbeat::{CallError, Node};

fn main() {
    if let Err(error) = call() {
        eprintln!("counter_client: {error}");
        std::process::exit(1);
    }
}

fn call() -> Result<(), Box<dyn std::error::Error>> {
    // A client needs no name of its own, so several can run at once.
    let node = Node::client()?;
    node.block_on(async {
        let counter: CounterClient = node.connect("counter").await?;
        counter.reset().await?; // sent, not answered
        let count = counter.add(1).await?;
        println!("the count is {count}");

        let description = counter.describe("mine".into()).await?;
        println!("{}", description.text);
        match counter.describe(String::new()).await {
            Err(CallError::Method(CounterError::NoName)) => println!("as expected: it has no name"),
            other => println!("unexpected: {other:?}"),
        }

        // The deadline travels: when it passes, the callee stops as well.
        counter.add(1).deadline(Duration::from_millis(100)).await?;
        Ok(())
    })
}
