//! A method of a service is async.

#[upbeat::service]
pub trait Counter {
    fn add(&self, n: u64) -> u64;
}

fn main() {}
