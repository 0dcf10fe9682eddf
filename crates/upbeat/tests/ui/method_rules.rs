//! Attributes of a trait's methods that both sides must know.

#[upbeat::service]
trait Bank {
    #[method(nack)]
    async fn right(&self, sum: u64) -> u64;
    #[method]
    async fn nothing(&self);
    #[method(yields)]
    async fn yields(&self);
    #[method(needs(self.lock))]
    async fn needs(&self);
    #[method(budget = "1ms")]
    async fn budget(&self);
    #[method(retry)]
    async fn unknown(&self);
    #[method(nack)]
    #[oneway]
    async fn oneway(&self);
    #[upbeat::method(nack)]
    async fn path(&self);
}

fn main() {}
