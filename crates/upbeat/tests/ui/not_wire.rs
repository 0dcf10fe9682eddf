//! Arguments and results of types that are not `Wire`: each is told once.

pub struct Mine;

pub struct Yours<T>(T);

#[upbeat::service]
pub trait Counter {
    async fn add(&self, n: Mine) -> u64;
    async fn sub(&self, n: Vec<Option<Mine>>) -> Result<u8, Mine>;
    async fn other(&self, n: u64) -> Yours<u8>;
    async fn good(&self, n: u64) -> u64;
    #[oneway]
    async fn reset(&self, n: Mine);
}

pub struct Server;

impl Counter for Server {
    async fn add(&self, _: Mine) -> u64 {
        1
    }
    async fn sub(&self, _: Vec<Option<Mine>>) -> Result<u8, Mine> {
        Err(Mine)
    }
    async fn other(&self, _: u64) -> Yours<u8> {
        Yours(1)
    }
    async fn good(&self, _: u64) -> u64 {
        1
    }
    async fn reset(&self, _: Mine) {}
}

fn main() {}
