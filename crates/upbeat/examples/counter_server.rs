//! Serves a counter: `cargo run --release -p upbeat --example counter_server`.
#![forbid(unsafe_code)]

mod counter;

use counter::{Counter, CounterError, CounterServer, Description};
use std::cell::Cell;
use std::time::Duration;
use upbeat::Node;

/// Methods take turns on the node's thread, so a `Cell` is enough.
#[derive(Default)]
struct Count(Cell<u64>);

impl Counter for Count {
    async fn add(&self, n: u64) -> u64 {
        self.0.set(self.0.get() + n);
        self.0.get()
    }

    async fn describe(&self, name: String) -> Result<Description, CounterError> {
        if name.is_empty() {
            return Err(CounterError::NoName);
        }
        let count = self.0.get();
        Ok(Description { text: format!("{name} stands at {count}"), count })
    }

    async fn reset(&self) {
        self.0.set(0);
    }
}

fn main() {
    if let Err(error) = serve() {
        eprintln!("counter_server: {error}");
        std::process::exit(1);
    }
}

fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let node = Node::new("counter")?;
    node.serve(CounterServer::new(Count::default()))?;
    println!("node `counter` serves until ctrl-c");
    node.block_on(upbeat::ctrl_c())?;
    node.shut_down(Duration::from_secs(1));
    Ok(())
}
