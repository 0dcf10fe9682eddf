//! Results that cannot travel.

use std::fmt::Debug;

#[upbeat::service]
trait Counter {
    async fn text(&self) -> &str;
    async fn error(&self) -> Result<u64, &'static str>;
    async fn promise(&self) -> impl Debug;
    async fn never(&self) -> !;
    async fn own(&self) -> Option<Self>;
}

fn main() {}
