//! Streams where nobody could go on with them.

use upbeat::Stream;

#[upbeat::service]
trait Shelf {
    #[oneway]
    async fn told(&self, numbers: Stream<u64>);
    #[method(nack)]
    async fn again(&self, name: String, numbers: Option<Stream<u64>>) -> u64;
    #[method(nack)]
    async fn given(&self) -> Result<Stream<u64>, String>;
    #[method(nack)]
    async fn fits(&self, numbers: Vec<u64>) -> u64;
}

fn main() {}
