//! Serves a counter on two threads behind one name: `cargo run --release -p upbeat --example several_cores`.
#![forbid(unsafe_code)]

mod counter;

use counter::{Counter, CounterError, CounterServer, Description};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Each thread has a service of its own, and all of them have this count.
struct Count(Arc<AtomicU64>);

impl Counter for Count {
    async fn add(&self, n: u64) -> u64 {
        self.0.fetch_add(n, Ordering::Relaxed) + n
    }

    async fn describe(&self, name: String) -> Result<Description, CounterError> {
        if name.is_empty() {
            return Err(CounterError::NoName);
        }
        let count = self.0.load(Ordering::Relaxed);
        Ok(Description { text: format!("{name} stands at {count}"), count })
    }

    async fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

fn main() {
    if let Err(error) = serve() {
        eprintln!("several_cores: {error}");
        std::process::exit(1);
    }
}

fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let count = Arc::new(AtomicU64::new(0));
    let cores = upbeat::serve_on("counter", 2, move || CounterServer::new(Count(count.clone())))?;
    println!("two nodes `counter` serve until ctrl-c");
    cores.until_ctrl_c()?;
    cores.shut_down(Duration::from_secs(1))?;
    Ok(())
}
