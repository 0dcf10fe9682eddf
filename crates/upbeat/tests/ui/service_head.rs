//! Traits that say more than a service can.

use std::fmt::Debug;

#[upbeat::service]
trait Generic<T> {
    async fn add(&self, n: T) -> T;
}

#[upbeat::service]
trait Lifetime<'a> {
    async fn add(&self, n: u64) -> u64;
}

#[upbeat::service]
trait Supertraits: Debug {
    async fn add(&self, n: u64) -> u64;
}

#[upbeat::service]
trait Where
where
    Self: Debug,
{
    async fn add(&self, n: u64) -> u64;
}

fn main() {}
