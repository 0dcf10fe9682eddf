//! Types that mean something in one process only.

use std::sync::mpsc::Sender;

#[upbeat::service]
pub trait Counter {
    async fn tell(&self, to: Sender<u64>) -> u64;
}

#[upbeat::service]
pub trait Caller {
    async fn call(&self, f: Box<dyn Fn(u64)>) -> u64;
}

fn main() {}
