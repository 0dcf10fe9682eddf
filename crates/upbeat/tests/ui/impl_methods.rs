//! Attributes over the methods of an `impl` that do not fit its trait.

use upbeat::sync::Mutex;

#[upbeat::service]
trait Bank {
    async fn take(&self, sum: u64) -> u64;
    async fn give(&self, sum: u64);
    #[oneway]
    async fn note(&self, sum: u64);
}

struct Vault {
    lock: Mutex<u64>,
}

#[upbeat::service]
impl Bank for Vault {
    #[method(needs(self.lok))]
    async fn take(&self, sum: u64) -> u64 {
        sum
    }

    #[method(needs(self.lock, amount > 0))]
    async fn give(&self, _sum: u64) {}

    async fn note(&self, _sum: u64) {}
}

struct Book;

#[upbeat::service]
impl Bank for Book {
    #[method(needs(true))]
    async fn tale(&self, sum: u64) -> u64 {
        sum
    }

    async fn give(&self, _sum: u64) {}

    async fn take(&self, sum: u64) -> u64 {
        sum
    }

    async fn note(&self, _sum: u64) {}
}

struct Told;

#[upbeat::service]
impl Bank for Told {
    async fn take(&self, sum: u64) -> u64 {
        sum
    }

    async fn give(&self, _sum: u64) {}

    #[oneway]
    #[method(budget = "1ms")]
    async fn note(&self, _sum: u64) {}
}

trait Meter {
    fn read(&self) -> u64;
}

#[upbeat::service(serial)]
impl Meter for Vault {
    fn read(&self) -> u64 {
        0
    }
}

fn main() {}
