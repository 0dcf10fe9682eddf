//! Options of methods in an `impl` that are given in another way than they are read.

#[upbeat::service]
trait Shop {
    async fn budget(&self);
    async fn bare(&self);
    async fn bytes(&self);
    async fn outlives(&self);
    async fn execution(&self);
    async fn needs(&self);
    async fn path(&self);
    fn yields(&self) -> impl Future<Output = ()>;
}

struct Shelf;

#[upbeat::service]
impl Shop for Shelf {
    #[method(budget = 500)]
    async fn budget(&self) {}

    #[method(budget)]
    async fn bare(&self) {}

    #[method(max_bytes)]
    async fn bytes(&self) {}

    #[method(outlives("10s"))]
    async fn outlives(&self) {}

    #[method(execution = trpc)]
    async fn execution(&self) {}

    #[method(needs = true)]
    async fn needs(&self) {}

    #[upbeat::method(yields)]
    async fn path(&self) {}

    #[method(yields)]
    fn yields(&self) -> impl Future<Output = ()> {
        async {
            for _ in 0..3 {}
        }
    }
}

fn main() {}
