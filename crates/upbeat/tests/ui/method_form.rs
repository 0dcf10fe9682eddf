//! Methods that are no `async fn` of safe Rust without a body.

use std::future::Future;

#[upbeat::service]
trait Counter {
    fn add(&self, n: u64) -> u64;
    fn promise(&self, n: u64) -> impl Future<Output = u64>;
    async fn default(&self) -> u64 {
        0
    }
}

#[upbeat::service]
trait Strange {
    async extern "C" fn foreign(&self);
}

#[upbeat::service]
trait Constant {
    const fn fixed(&self) -> u64;
}

fn main() {}
