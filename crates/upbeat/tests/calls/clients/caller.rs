//! One generic function calls over a client, a handle, a plain implementation and a mock.

use crate::common::{Directory, PROGRAM, Signal, Watchdog, alone, block_on, node};
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;
use upbeat::{CallError, Lost, Node, Stream, Waiting, Why};

#[upbeat::service]
trait Shop {
    /// Takes so many of a thing, and says how many are left.
    async fn take(&self, thing: &str, count: u64) -> Result<u64, String>;
    async fn left(&self) -> u64;
    async fn prices(&self, of: Stream<u64>) -> Stream<u64>;
    #[cfg(unix)]
    async fn pair(&self, a: u8, b: Option<String>) -> (u8, Option<String>);
    #[oneway]
    async fn open(&self);
}

struct Shelf {
    left: Cell<u64>,
    taken: RefCell<Vec<String>>,
    is_open: Cell<bool>,
}

impl Shelf {
    fn new() -> Shelf {
        Shelf { left: Cell::new(10), taken: RefCell::default(), is_open: Cell::new(false) }
    }
}

impl Shop for Shelf {
    async fn take(&self, thing: &str, count: u64) -> Result<u64, String> {
        let left = self.left.get().checked_sub(count).ok_or_else(|| format!("no {thing} left"))?;
        assert!(self.is_open.get(), "the shop was opened before");
        self.taken.borrow_mut().push(thing.to_owned());
        self.left.set(left);
        Ok(left)
    }

    async fn left(&self) -> u64 {
        self.left.get()
    }

    async fn prices(&self, mut of: Stream<u64>) -> Stream<u64> {
        upbeat::stream(async move |sink| {
            while let Some(Ok(n)) = of.next().await {
                sink.send(n * 2).await;
            }
        })
    }

    async fn pair(&self, a: u8, b: Option<String>) -> (u8, Option<String>) {
        (a + 1, b)
    }

    async fn open(&self) {
        self.is_open.set(true);
    }
}

/// Returns the replies that a caller gets from a new shop, over any carrier.
async fn visit(shop: &impl ShopCaller) -> Result<Vec<u64>, CallError<String>> {
    shop.open().await.map_err(CallError::widen)?;
    let apples = String::from("apples");
    let mut seen = vec![shop.take(&apples, 3).await?];
    let refused = shop.take("pears", 100).await;
    assert_eq!(refused, Err(CallError::Method("no pears left".to_owned())));
    seen.push(shop.left().await.map_err(CallError::widen)?);
    assert_eq!(shop.pair(1, Some("b".into())).await, Ok((2, Some("b".into()))));
    let mut prices = shop.prices(Stream::of([1, 2, 3])).await.map_err(CallError::widen)?;
    while let Some(price) = prices.next().await {
        seen.push(price.map_err(CallError::widen)?);
    }
    Ok(seen)
}

const SEEN: [u64; 5] = [7, 7, 2, 4, 6];

fn serve(place: &Path, quit: Signal, ready: impl FnOnce()) {
    let server = node("shop", place, Waiting::Adaptive);
    server.serve(ShopServer::new(Shelf::new())).unwrap();
    ready();
    server.block_on(quit);
    server.shut_down(Duration::from_secs(1));
}

fn with_server(act: impl FnOnce(&Path)) {
    let directory = Directory::new();
    let place = directory.path();
    let quit = Signal::default();
    std::thread::scope(|scope| {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (at, stop) = (place.clone(), quit.clone());
        scope.spawn(move || serve(&at, stop, || ready.send(()).unwrap()));
        is_ready.recv().unwrap();
        let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(&place)));
        quit.give();
        acted.unwrap();
    });
}

#[test]
fn a_client_a_handle_and_an_implementation_are_called_alike() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("callers"));
    with_server(|place| {
        let client: Node = node("clients/client", place, Waiting::Adaptive);
        let seen = client.block_on(async {
            let shop: ShopClient = client.connect("shop").await.unwrap();
            visit(&shop).await
        });
        assert_eq!(seen, Ok(SEEN.to_vec()));
    });
    with_server(|place| {
        let builder = upbeat::handle::builder().program(PROGRAM).directory(place);
        let shop: ShopHandle = builder.connect("shop").unwrap();
        assert_eq!(block_on(visit(&shop)), Ok(SEEN.to_vec()));
        assert_eq!(std::thread::spawn(move || block_on(spawned(shop))).join().unwrap(), Ok(7));
    });
    let local = ShopLocal::new(Shelf::new());
    assert_eq!(block_on(visit(&local)), Ok(SEEN.to_vec()));
    assert_eq!(*local.service.taken.borrow(), ["apples"]);
}

async fn remaining<C: ShopCaller>(shop: C) -> Result<u64, CallError> {
    shop.left().await
}

/// The future of a generic function over a handle goes to any thread, as a runtime of several asks for it.
fn spawned(shop: ShopHandle) -> impl Future<Output = Result<u64, CallError>> + Send {
    remaining(shop)
}

/// A shop whose process has died.
struct Gone;

impl ShopCaller for Gone {
    async fn take(&self, thing: &str, _: u64) -> Result<u64, CallError<String>> {
        Err(CallError::Method(format!("no {thing}")))
    }

    async fn left(&self) -> Result<u64, CallError> {
        Err(CallError::Unknown(Box::new(Lost::new("shop", Why::Died))))
    }

    async fn prices(&self, _: Stream<u64>) -> Result<Stream<u64>, CallError> {
        Ok(Stream::of([1]))
    }

    async fn pair(&self, a: u8, b: Option<String>) -> Result<(u8, Option<String>), CallError> {
        Ok((a, b))
    }

    async fn open(&self) -> Result<(), CallError> {
        Ok(())
    }
}

#[test]
fn a_mock_returns_any_error() {
    let refused = block_on(visit(&Gone));
    assert_eq!(refused, Err(CallError::Method("no apples".to_owned())));
    let lost = block_on(remaining(Gone)).unwrap_err();
    assert!(lost.may_have_run() && lost.to_string().contains("shop has died"), "{lost}");
}
