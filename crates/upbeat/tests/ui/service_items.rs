//! A service has methods and nothing else.

macro_rules! more {
    () => {
        async fn add(&self, n: u64) -> u64;
    };
}

#[upbeat::service]
trait Counter {
    const LIMIT: u64;
    type Unit;
    more!();
    async fn sub(&self, n: u64) -> u64;
}

fn main() {}
