//! Types without a size, or without a name.

#[upbeat::service]
trait Sizes {
    async fn slice(&self, bytes: [u8]);
    async fn text(&self, text: str);
    async fn inferred(&self, what: Vec<_>);
}

fn main() {}
