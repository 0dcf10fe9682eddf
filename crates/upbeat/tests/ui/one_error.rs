//! A service with something wrong in it is used as if it were right: one message, not thirty.

use upbeat::client::Client;
use upbeat::handle::HandleClient;
use upbeat::service::Serve;

#[upbeat::service]
pub trait Counter {
    async fn add(&self, n: u64) -> u64;
    async fn describe(&self, name: Option<&str>) -> Result<String, u8>;
    #[oneway]
    async fn reset(&self);
}

#[upbeat::service]
pub trait Late {
    fn add(&self, n: u64) -> u64;
}

struct Mine;

impl Counter for Mine {
    async fn add(&self, n: u64) -> u64 {
        n
    }
    async fn describe(&self, name: Option<&str>) -> Result<String, u8> {
        Ok(name.unwrap_or_default().to_owned())
    }
    async fn reset(&self) {}
}

impl Late for Mine {
    fn add(&self, n: u64) -> u64 {
        n
    }
}

fn serve<S: Serve>(_: S) {}

fn connect<C: Client>() -> C {
    panic!()
}

fn handle<H: HandleClient + Clone + Send + Sync>() -> H {
    panic!()
}

async fn calls() {
    let counter: CounterClient = connect();
    let _ = counter.add(1).await.unwrap() + 1;
    let _ = counter.describe(Some("n")).await.unwrap();
    let _ = counter.reset().await;
    let _ = connect::<LateClient>().add(1).await.unwrap() + 1;
}

fn main() {
    serve(CounterServer::new(Mine));
    serve(LateServer::new(Mine));
    let counter: CounterHandle = handle();
    let _ = counter.blocking().add(1).unwrap() + 1;
    let _ = calls();
}
