//! Methods with parameters.

#[upbeat::service]
trait Counter {
    async fn of_type<T>(&self, n: T) -> u64;
    async fn of_bound<T: Into<u64>>(&self, n: T) -> u64;
    async fn of_length<const N: usize>(&self, n: [u8; N]) -> u64;
    async fn of_lifetime<'a>(&'a self, n: &'a str) -> u64;
    async fn of_clause(&self) -> u64
    where
        u64: Copy;
}

fn main() {}
