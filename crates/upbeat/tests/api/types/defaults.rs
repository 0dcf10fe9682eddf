//! Structs that gain and lose fields with a default: an old and a new side communicate, in both directions.

use crate::common::{Directory, SOON, Watchdog, node, until};
use std::future::Future;
use std::time::Duration;
use upbeat::{CallError, ConnectError, Counter, Waiting};

/// The types and the service of one version of a program. The structs that change are given.
macro_rules! version {
    ($name:ident { $($structs:item)* } $($more:item)*) => {
        mod $name {
            use serde::{Deserialize, Deserializer, Serialize};
            use std::collections::{BTreeMap, HashMap, HashSet};
            use upbeat::{InPlace, Stream, Wire};

            $(
                #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Wire)]
                $structs
            )*

            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Wire)]
            pub(crate) enum Kind {
                Whole,
                Gift(Order, u8),
                Split { first: Order, rest: Vec<Order> },
            }

            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Wire)]
            pub(crate) struct Page<T>(pub(crate) Vec<T>, pub(crate) u64);

            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Wire)]
            pub(crate) struct Cart {
                pub(crate) last: Option<Order>,
                pub(crate) by_name: BTreeMap<String, Order>,
                pub(crate) by_number: HashMap<u8, Box<Order>>,
                pub(crate) kinds: Vec<Kind>,
                pub(crate) page: Page<Order>,
                #[serde(skip, default = "seven")]
                pub(crate) kept: u32,
            }

            /// A number of at most 100.
            #[derive(Clone, Debug, PartialEq, Serialize, Wire)]
            #[wire(whole)]
            pub(crate) struct Percent(pub(crate) u8);

            impl<'de> Deserialize<'de> for Percent {
                fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Percent, D::Error> {
                    match u8::deserialize(input)? {
                        number @ 0..=100 => Ok(Percent(number)),
                        _ => Err(serde::de::Error::custom("more than 100 percent")),
                    }
                }
            }

            $($more)*

            fn seven() -> u32 {
                7
            }

            #[upbeat::service]
            pub(crate) trait Shop {
                async fn echo(&self, order: Order) -> Order;
                async fn id(&self, order: &Order) -> u64;
                async fn order(&self, id: u64) -> Order;
                async fn later(&self, orders: &[Order]) -> Result<Vec<Order>, Order>;
                async fn cart(&self, cart: Cart) -> Option<Cart>;
                async fn plain(&self, id: u64) -> u64;
                async fn pack(&self, order: Order, bytes: InPlace<u8>) -> (Order, u64);
                async fn find(&self, tags: BTreeMap<String, String>, not: HashSet<u8>) -> Order;
                async fn rate(&self, order: Order, rates: Vec<Percent>) -> Option<Percent>;
            }

            #[upbeat::service]
            pub(crate) trait Feed {
                async fn orders(&self) -> Stream<Order>;
            }

            pub(crate) struct Here;

            impl Shop for Here {
                async fn echo(&self, order: Order) -> Order {
                    order
                }

                async fn id(&self, order: &Order) -> u64 {
                    order.id
                }

                async fn order(&self, id: u64) -> Order {
                    Order { id, ..order() }
                }

                async fn later(&self, orders: &[Order]) -> Result<Vec<Order>, Order> {
                    upbeat::sleep(std::time::Duration::from_millis(1)).await;
                    match orders {
                        [one] => Err(one.clone()),
                        orders => Ok(orders.to_vec()),
                    }
                }

                async fn cart(&self, cart: Cart) -> Option<Cart> {
                    Some(cart)
                }

                async fn plain(&self, id: u64) -> u64 {
                    id
                }

                async fn find(&self, tags: BTreeMap<String, String>, not: HashSet<u8>) -> Order {
                    assert!(tags == self::tags() && not == HashSet::from([0]));
                    order()
                }

                async fn rate(&self, _order: Order, rates: Vec<Percent>) -> Option<Percent> {
                    rates.into_iter().next_back()
                }

                async fn pack(&self, order: Order, bytes: InPlace<u8>) -> (Order, u64) {
                    (order, bytes.len() as u64)
                }
            }

            impl Feed for Here {
                async fn orders(&self) -> Stream<Order> {
                    Stream::of([order()])
                }
            }

            pub(crate) fn tags() -> BTreeMap<String, String> {
                BTreeMap::from([("a".into(), "b".into())])
            }

            pub(crate) fn cart() -> Cart {
                let split = Kind::Split { first: order(), rest: vec![order(), order()] };
                Cart {
                    last: Some(order()),
                    by_name: BTreeMap::from([("a".into(), order()), ("b".into(), order())]),
                    by_number: HashMap::from([(3, Box::new(order())), (9, Box::new(order()))]),
                    kinds: vec![Kind::Whole, Kind::Gift(order(), 5), split],
                    page: Page(vec![order(); 3], 8),
                    kept: 7,
                }
            }
        }
    };
}

version! {
    old {
        pub(crate) struct Order {
            pub(crate) id: u64,
            pub(crate) item: String,
        }
    }

    pub(crate) fn order() -> Order {
        Order { id: 1, item: "tea".repeat(9) }
    }
}

version! {
    new {
        pub(crate) struct Order {
            pub(crate) id: u64,
            pub(crate) item: String,
            #[wire(default)]
            pub(crate) note: String,
            #[wire(default = "one")]
            pub(crate) count: u32,
        }
    }

    fn one() -> u32 {
        1
    }

    pub(crate) fn order() -> Order {
        Order { id: 1, item: "tea".repeat(9), note: "for Ann".into(), count: 40 }
    }
}

// One more field, of a type that has such fields as well.
version! {
    newest {
        pub(crate) struct Order {
            pub(crate) id: u64,
            pub(crate) item: String,
            #[wire(default)]
            pub(crate) note: String,
            #[wire(default = "one")]
            pub(crate) count: u32,
            #[wire(default)]
            pub(crate) tags: Vec<Tag>,
        }

        #[derive(Default)]
        pub(crate) struct Tag {
            pub(crate) text: String,
            #[wire(default)]
            pub(crate) weight: Option<f64>,
        }
    }

    fn one() -> u32 {
        1
    }

    pub(crate) fn order() -> Order {
        let tags = vec![Tag { text: "green".into(), weight: Some(0.5) }, Tag::default()];
        Order { id: 1, item: "tea".repeat(9), note: "for Ann".into(), count: 40, tags }
    }
}

// Another field in the place of `note`.
version! {
    other {
        pub(crate) struct Order {
            pub(crate) id: u64,
            pub(crate) item: String,
            #[wire(default)]
            pub(crate) note: u64,
        }
    }

    pub(crate) fn order() -> Order {
        Order { id: 1, item: "tea".into(), note: 3 }
    }
}

// Another type of a field without a default.
version! {
    changed {
        pub(crate) struct Order {
            pub(crate) id: u64,
            pub(crate) item: Vec<u8>,
            #[wire(default)]
            pub(crate) note: String,
        }
    }

    pub(crate) fn order() -> Order {
        Order { id: 1, item: Vec::new(), note: String::new() }
    }
}

/// Calls every method of a shop in `$server` by a client and by a handle of `$client`, whose orders arrive there and
/// come back as `$back`.
macro_rules! trade {
    ($client:ident with $server:ident, $back:expr) => {{
        let _watchdog = Watchdog::new("fields with defaults");
        let directory = Directory::new();
        let name = name_of(&directory);
        let node = node(&name, &directory.path(), Waiting::Sleeping);
        node.serve($server::ShopServer::new($server::Here)).unwrap();
        let (order, back): ($client::Order, $client::Order) = ($client::order(), $back);
        let calls = Calls { order, back };
        node.block_on(async {
            let shop: $client::ShopClient = node.connect(&name).await.unwrap();
            let Calls { order, back } = calls;
            node.set_sampling(1);
            assert_eq!(shop.plain(5).await, Ok(5));
            assert_eq!(shop.echo(order.clone()).await, Ok(back.clone()));
            assert_eq!(shop.id(&order).await, Ok(1));
            let made = shop.order(1).await.unwrap();
            assert_eq!((made.id, &made.item), (1, &back.item));
            node.set_sampling(0);
            until(|| node.counted(Counter::SamplesTaken) == 4).await;
            // The arguments have no struct that changes; the result has.
            let not = std::collections::HashSet::from([0]);
            assert_eq!(shop.find($client::tags(), not).await, Ok(back.clone()));
            // Serde checks a type that travels as a whole.
            let rates = |last| vec![$client::Percent(100), $client::Percent(last)];
            assert_eq!(shop.rate(order.clone(), rates(7)).await, Ok(Some($client::Percent(7))));
            let refused = shop.rate(order.clone(), rates(101)).await;
            assert!(matches!(refused, Err(CallError::Failed { .. })), "{refused:?}");
            // Longer than a slot, and than a ring.
            for count in [2, 40, 2000] {
                let orders = vec![order.clone(); count];
                assert_eq!(shop.later(&orders).await, Ok(vec![back.clone(); count]));
            }
            let one = shop.later(std::slice::from_ref(&order)).await;
            assert_eq!(one, Err(CallError::Method(back.clone())));
            // Replies of one call are in its form, beside another client with the same types as the server.
            let same: $server::ShopClient = node.connect(&name).await.unwrap();
            let (mine, others) = ($client::cart(), $server::cart());
            let both = upbeat_join(shop.cart(mine.clone()), same.cart(others.clone())).await;
            assert_eq!(both.1, Ok(Some(others)));
            let cart = both.0.unwrap().unwrap();
            assert_eq!(cart.last, Some(back.clone()));
            assert_eq!(cart.by_name.into_values().collect::<Vec<_>>(), [back.clone(), back.clone()]);
            assert_eq!(cart.by_number[&9], Box::new(back.clone()));
            assert_eq!(cart.kinds[1], $client::Kind::Gift(back.clone(), 5));
            let rest = vec![back.clone(), back.clone()];
            assert_eq!(cart.kinds[2], $client::Kind::Split { first: back.clone(), rest });
            assert_eq!(cart.page, $client::Page(vec![back.clone(); 3], 8));
            assert_eq!((cart.kinds.len(), cart.kept), (3, 7));
        });
        let (place, program) = (directory.path().to_owned(), crate::common::PROGRAM);
        let name = name.clone();
        let handle = std::thread::spawn(move || {
            let builder = upbeat::handle::builder().program(program).directory(&place);
            let shop: $client::ShopHandle = builder.connect(&name).unwrap();
            let echoed = shop.blocking().echo($client::order()).unwrap();
            shop.blocking().plain(1).unwrap();
            echoed
        });
        let echoed = node.block_on(async {
            while !handle.is_finished() {
                upbeat::sleep(Duration::from_millis(1)).await;
            }
            handle.join().unwrap()
        });
        assert_eq!(echoed, $back);
    }};
}

/// A name that no other test of this process has.
fn name_of(directory: &Directory) -> String {
    let place = directory.path().parent().unwrap().file_name().unwrap().display().to_string();
    format!("shop/{place}")
}

struct Calls<T> {
    order: T,
    back: T,
}

async fn upbeat_join<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(|context| {
        if first.is_none()
            && let std::task::Poll::Ready(value) = a.as_mut().poll(context)
        {
            first = Some(value);
        }
        if second.is_none()
            && let std::task::Poll::Ready(value) = b.as_mut().poll(context)
        {
            second = Some(value);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => std::task::Poll::Ready((a, b)),
            (a, b) => {
                (first, second) = (a, b);
                std::task::Poll::Pending
            }
        }
    })
    .await
}

#[test]
fn an_old_client_calls_a_new_server() {
    trade!(old with new, old::order());
}

#[test]
fn a_new_client_calls_an_old_server() {
    trade!(new with old, new::Order { note: String::new(), count: 1, ..new::order() });
}

#[test]
fn fields_that_both_sides_have_arrive() {
    trade!(new with newest, new::order());
    trade!(newest with new, newest::Order { tags: Vec::new(), ..newest::order() });
}

/// Serves a shop of `$version` on a thread until `$stop` is told, then shuts its node down.
macro_rules! open_shop {
    ($version:ident, $name:expr, $place:expr) => {{
        let (name, place) = ($name.clone(), $place.to_owned());
        let (stop, stops) = std::sync::mpsc::channel::<()>();
        let (open, opens) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let node = node(&name, &place, Waiting::Sleeping);
            node.serve($version::ShopServer::new($version::Here)).unwrap();
            open.send(()).unwrap();
            node.block_on(async {
                while stops.try_recv().is_err() {
                    upbeat::sleep(Duration::from_millis(1)).await;
                }
            });
            node.shut_down(SOON);
        });
        opens.recv().unwrap();
        (stop, thread)
    }};
}

#[test]
fn a_loan_arrives_at_the_node_that_took_the_place_of_the_first() {
    let _watchdog = Watchdog::new("a loan over a new session");
    let directory = Directory::new();
    let name = name_of(&directory);
    let client = node("buyer", &directory.path(), Waiting::Sleeping);
    let (stop, thread) = open_shop!(new, name, directory.path());
    let shop: new::ShopClient = client.block_on(client.connect(&name)).unwrap();
    let packed = |len: usize| {
        let shop = &shop;
        client.block_on(async move {
            let mut loan = shop.loan_pack(new::order(), len).await.unwrap();
            loan.write_at(0, &vec![7; len]);
            loan.send().await.unwrap()
        })
    };
    assert_eq!(packed(100), (new::order(), 100));
    stop.send(()).unwrap();
    thread.join().unwrap();
    client.block_on(until(|| client.sessions() == 0));
    // The arguments before the items have another form now.
    let back = new::Order { note: String::new(), count: 1, ..new::order() };
    let (stop, thread) = open_shop!(old, name, directory.path());
    for len in [100, 0, 5000] {
        assert_eq!(packed(len), (back.clone(), len as u64));
    }
    stop.send(()).unwrap();
    thread.join().unwrap();
}

#[test]
fn incompatible_changes_are_refused() {
    let _watchdog = Watchdog::new("incompatible fields");
    let directory = Directory::new();
    let name = name_of(&directory);
    let node = node(&name, &directory.path(), Waiting::Sleeping);
    node.serve(new::ShopServer::new(new::Here)).unwrap();
    node.serve(new::FeedServer::new(new::Here)).unwrap();
    node.block_on(async {
        let shop: other::ShopClient = node.connect(&name).await.unwrap();
        let error = shop.order(1).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, CallError::Clash(_)), "{text}");
        assert!(text.contains("note: u64") && text.contains("note: String"), "{text}");
        let shop: changed::ShopClient = node.connect(&name).await.unwrap();
        let error = shop.order(1).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, CallError::Clash(_)), "{text}");
        assert!(text.contains("item: Vec<u8>") && text.contains("item: String"), "{text}");
        assert_eq!(shop.plain(3).await, Ok(3));
        // The items of a stream have one form.
        let text = match node.connect::<old::FeedClient>(&name).await.err() {
            Some(error @ ConnectError::Clash(_)) => error.to_string(),
            error => panic!("{error:?}"),
        };
        assert!(text.contains("Stream<Order{id: u64, item: String}>"), "{text}");
        let feed: new::FeedClient = node.connect(&name).await.unwrap();
        drop(feed.orders().await.unwrap());
    });
    let _ = (other::cart, changed::cart, other::Here, changed::Here);
}
