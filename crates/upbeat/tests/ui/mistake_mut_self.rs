//! A method of a service takes `&self`, since several handlers run at a time.

#[upbeat::service]
pub trait Counter {
    async fn add(&mut self, n: u64) -> u64;
}

fn main() {}
