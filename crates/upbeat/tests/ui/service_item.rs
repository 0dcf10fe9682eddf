//! The attribute is written over something else than a trait.

#[upbeat::service]
struct Counter {
    count: u64,
}

trait Meter {
    fn read(&self) -> u64;
}

#[upbeat::service]
impl Meter for Counter {
    fn read(&self) -> u64 {
        self.count
    }
}

#[upbeat::service]
mod inside {}

fn main() {
    let counter = Counter { count: 1 };
    let _ = counter.read();
}
