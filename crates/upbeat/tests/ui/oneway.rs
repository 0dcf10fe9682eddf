//! Nobody waits for a one-way method.

#[upbeat::service]
trait Counter {
    #[oneway]
    async fn value(&self) -> u64;
    #[oneway]
    async fn result(&self) -> Result<(), u8>;
    #[oneway(later)]
    async fn option(&self);
    #[oneway]
    #[oneway]
    async fn twice(&self);
    #[upbeat::oneway]
    async fn path(&self);
    #[one_way]
    async fn word(&self);
    #[oneway]
    async fn unit(&self) -> ();
}

fn main() {}
