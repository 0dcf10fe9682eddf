//! Names that are taken, or too long.

#[upbeat::service]
trait Counter {
    async fn add(&self, n: u64) -> u64;
    async fn add(&self, n: u32) -> u32;
    async fn blocking(&self);
    async fn new(&self);
    async fn clone(&self);
    async fn signatures(&self);
    async fn from_bound(&self);
    async fn deadline(&self);
    async fn extendable(&self);
    async fn aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa(&self);
}

fn main() {}
