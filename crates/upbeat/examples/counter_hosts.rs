//! The counter between hosts. On one of them: `cargo run --release -p upbeat --example counter_hosts`; on another:
//! `cargo run --release -p upbeat --example counter_hosts counter@db1.example:7411`, with the first one's name.
//! `UPBEAT_IDENTITY` names the file that `upbeat keys issue` has made for each.
#![forbid(unsafe_code)]

mod counter;

use counter::{Counter, CounterClient, CounterError, CounterServer, Description};
use std::cell::Cell;
use std::time::Duration;
use upbeat::Node;

#[derive(Default)]
struct Count(Cell<u64>);

impl Counter for Count {
    async fn add(&self, n: u64) -> u64 {
        self.0.set(self.0.get() + n);
        self.0.get()
    }

    async fn describe(&self, name: String) -> Result<Description, CounterError> {
        let count = self.0.get();
        Ok(Description { text: format!("{name} stands at {count}"), count })
    }

    async fn reset(&self) {
        self.0.set(0);
    }
}

fn main() {
    let done = match std::env::args().nth(1) {
        None => serve(),
        Some(to) => call(&to),
    };
    if let Err(error) = done {
        eprintln!("counter_hosts: {error}");
        std::process::exit(1);
    }
}

fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let node = Node::builder("counter").listen("0.0.0.0:7411").build()?;
    node.serve(CounterServer::new(Count::default()))?;
    println!("node `counter` serves at port 7411 until ctrl-c");
    node.block_on(upbeat::ctrl_c())?;
    node.shut_down(Duration::from_secs(1));
    Ok(())
}

fn call(to: &str) -> Result<(), Box<dyn std::error::Error>> {
    let node = Node::client()?;
    node.block_on(async {
        let counter: CounterClient = node.connect(to).await?;
        println!("the count is {}", counter.add(1).await?);
        Ok(())
    })
}
