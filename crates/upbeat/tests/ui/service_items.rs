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

#[upbeat::service]
pub trait Seen {
    /// Adds.
    pub async fn add(&self, n: u64) -> u64;
    pub(crate) async fn sub(&self, n: u64) -> u64;
}

struct Mine;

impl Seen for Mine {
    async fn add(&self, n: u64) -> u64 {
        n
    }
    async fn sub(&self, n: u64) -> u64 {
        n
    }
}

fn main() {}
