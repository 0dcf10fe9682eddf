//! Types that cannot travel.

use std::borrow::Cow;
use std::fmt::Debug;

#[upbeat::service]
trait Borrows {
    async fn texts(&self, names: &[&str]);
    async fn changed(&self, n: &mut u64);
    async fn inside(&self, names: Vec<Option<&'static str>>);
    async fn perhaps(&self, name: Cow<'_, str>);
}

#[upbeat::service]
trait Unknown {
    async fn promise(&self, value: impl Debug);
    async fn object(&self, value: Box<dyn Debug>);
    async fn pointer(&self, value: *const u8);
    async fn function(&self, value: fn(u8) -> u8);
    async fn own(&self, value: Self);
    async fn part(&self, value: Vec<Self>);
    async fn host(&self, name: OsStr);
}

fn main() {}
