//! A method takes `&self`.

use std::rc::Rc;

#[upbeat::service]
trait Counter {
    async fn none() -> u64;
    async fn none_of_two(n: u64) -> u64;
    async fn changed(&mut self, n: u64) -> u64;
    async fn moved(self, n: u64) -> u64;
    async fn counted(self: Rc<Self>) -> u64;
    async fn for_ever(&'static self) -> u64;
}

fn main() {}
