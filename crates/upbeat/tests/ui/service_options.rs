//! Options that there are not.

#[upbeat::service(name = "Counter")]
trait Unknown {
    async fn add(&self, n: u64) -> u64;
}

#[upbeat::service(crate)]
trait Incomplete {
    async fn add(&self, n: u64) -> u64;
}

fn main() {}
