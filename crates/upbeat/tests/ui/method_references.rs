//! Arguments by reference in the wrong place, or of the wrong kind.

use serde::{Deserialize, Serialize};
use upbeat::Stream;

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Order {
    item: String,
}

#[upbeat::service]
trait Places {
    async fn right(&self, key: &str, order: &Order, value: &[u8], block: &[u8; 64]);
    async fn perhaps(&self, order: Option<&Order>);
    async fn many(&self, keys: Vec<&str>);
    async fn pair(&self, pair: (&str, u8));
    async fn twice(&self, key: &&str);
    async fn sequence(&self, parts: &[&[u8]]);
    async fn changed(&self, order: &mut Order);
    async fn filled(&self, to: &mut [u8]);
    async fn object(&self, order: &dyn Send);
}

#[upbeat::service]
trait Lifetimes {
    async fn for_ever(&self, key: &'static str);
    async fn named<'a>(&self, key: &'a str) -> u8;
    async fn undeclared(&self, key: &'a str);
}

#[upbeat::service]
trait Results {
    async fn text(&self, key: &str) -> &str;
    async fn perhaps(&self, key: &str) -> Option<&[u8]>;
    async fn order(&self) -> Result<&Order, String>;
}

#[upbeat::service]
trait Streams {
    async fn lines(&self, lines: &Stream<String>) -> u64;
}

struct Opaque;

#[upbeat::service]
trait Unknown {
    async fn opaque(&self, one: &Opaque);
}

struct Shop;

#[upbeat::service]
trait Right {
    async fn place(&self, order: &Order) -> u8;
}

impl Right for Shop {
    async fn place(&self, order: &Order) -> u8 {
        order.item.len() as u8
    }
}

async fn calls(right: &RightClient) {
    // By value, as it was before.
    let _ = right.place(Order { item: String::new() }).await;
}

fn main() {}
