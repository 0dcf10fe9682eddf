//! Options that there are not.

#[upbeat::service(named = "Counter")]
trait Unknown {
    async fn add(&self, n: u64) -> u64;
}

#[upbeat::service(name = "two words")]
trait Name {
    async fn add(&self, n: u64) -> u64;
}

#[upbeat::service(name)]
trait NoName {
    async fn add(&self, n: u64) -> u64;
}

#[upbeat::service(crate)]
trait Incomplete {
    async fn add(&self, n: u64) -> u64;
}

fn main() {}
