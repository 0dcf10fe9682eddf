//! A service with every form that a service may have, called over a node.
//!
//! Its items are public and at the root, as in a library of a user's, so that every lint looks at what
//! the macros emit.
#![deny(warnings, unreachable_pub)]
#![allow(missing_docs, reason = "the service is nobody's")]
#![allow(
    clippy::non_minimal_cfg,
    clippy::ptr_arg,
    clippy::too_many_arguments,
    reason = "unusual forms are tried too"
)]

use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use upbeat::client::Client as _;
use upbeat::wire::Describe;
use upbeat::{CallError, Node};
use zerocopy::{FromBytes, Immutable, IntoBytes};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, upbeat::Wire)]
pub struct Description {
    text: String,
    r#type: u64,
    next: Option<Box<Description>>,
    #[wire(opaque = "ipv4/1")]
    at: Ipv4Addr,
    #[serde(skip)]
    seen: Option<std::time::Instant>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, upbeat::Wire)]
#[wire(name = "CounterFault", version = 2)]
pub enum CounterError {
    Unknown,
    Full(u8, String),
    Late { by: [u32; 3] },
}

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, upbeat::Wire)]
#[repr(C)]
#[wire(plain)]
pub struct Position {
    x: f64,
    y: f64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, upbeat::Wire)]
#[repr(transparent)]
#[wire(plain)]
pub struct Meters<T>(T);

#[derive(Clone, Serialize, Deserialize, upbeat::Wire)]
pub struct Pair<T, const N: usize>
where
    T: Clone,
{
    a: T,
    b: Vec<T>,
}

// Names that generated code uses itself.
#[derive(Serialize, Deserialize, upbeat::Wire)]
pub struct S;

#[allow(non_camel_case_types)]
#[derive(Serialize, Deserialize, upbeat::Wire)]
pub struct service {
    n: u8,
}

/// Counts.
#[upbeat::service]
pub trait Counter {
    /// Adds to the count.
    async fn add(&self, n: u64) -> u64;
    async fn describe(&self, name: String) -> Result<Description, CounterError>;
    #[oneway]
    async fn reset(&self);
    #[cfg(any())]
    async fn absent(&self, what: NoSuchType) -> u8;
    #[cfg(all())]
    async fn r#move(&self, service: Position, methods: Vec<Position>, r#type: ()) -> Position;
    async fn pair(&self, bound: Pair<u8, 3>) -> std::result::Result<Meters<u32>, String>;
    async fn odd(&self, handle: service, index: S) -> S;
    async fn seen(&self, service: &str, call: &[Position], argument0: &Pair<u8, 2>, n: u8) -> u64;
    async fn whole(&self, text: &String, all: &Vec<u8>, small: &u8) -> u64;
    #[oneway]
    async fn note(&self, r#type: &[u8; 3]);
    #[deprecated]
    async fn many(
        &self,
        a: u8,
        b: u8,
        c: u8,
        d: u8,
        e: u8,
        f: u8,
        g: u8,
        h: u8,
        i: u8,
        j: u8,
        k: u8,
        l: u8,
    ) -> u8;
}

mod hidden {
    #[upbeat::service(crate = ::upbeat)]
    trait Private {
        async fn nothing(&self);
    }

    #[upbeat::service]
    pub(crate) trait Inner {
        async fn one(&self, a: u8);
    }
}

/// Services of two parts of a program whose traits have one name.
mod orders {
    #[upbeat::service]
    pub(crate) trait Admin {
        async fn count(&self) -> u64;
    }
}

mod users {
    #[upbeat::service(name = "users::Admin")]
    pub(crate) trait Admin {
        async fn count(&self) -> u64;
    }
}

impl orders::Admin for Mine {
    async fn count(&self) -> u64 {
        1
    }
}

impl users::Admin for Mine {
    async fn count(&self) -> u64 {
        2
    }
}

macro_rules! make {
    ($name:ident, $ty:ty, $argument:ident) => {
        #[derive(Serialize, Deserialize, upbeat::Wire)]
        pub struct Made {
            made: $ty,
        }

        #[upbeat::service]
        pub trait $name {
            async fn give(&self, $argument: $ty, other: u8) -> $ty;
            async fn try_give(&self) -> Result<$ty, u8>;
        }
    };
}
make!(Giver, u16, n);

struct Mine {
    count: Cell<u64>,
}

impl Counter for Mine {
    async fn add(&self, n: u64) -> u64 {
        self.count.set(self.count.get() + n);
        self.count.get()
    }

    async fn describe(&self, name: String) -> Result<Description, CounterError> {
        if name.is_empty() {
            return Err(CounterError::Late { by: [1, 2, 3] });
        }
        let at = Ipv4Addr::LOCALHOST;
        Ok(Description { text: name, r#type: self.count.get(), next: None, at, seen: None })
    }

    async fn reset(&self) {
        self.count.set(0);
    }

    async fn r#move(&self, by: Position, all: Vec<Position>, _: ()) -> Position {
        all.iter().fold(by, |sum, one| Position { x: sum.x + one.x, y: sum.y + one.y })
    }

    async fn pair(&self, pair: Pair<u8, 3>) -> Result<Meters<u32>, String> {
        Ok(Meters(u32::from(pair.a) + pair.b.len() as u32))
    }

    async fn odd(&self, service: service, s: S) -> S {
        assert_eq!(service.n, 1);
        s
    }

    async fn seen(&self, text: &str, all: &[Position], pair: &Pair<u8, 2>, n: u8) -> u64 {
        (text.len() + all.len() + pair.b.len() + usize::from(n)) as u64
    }

    async fn whole(&self, text: &String, all: &Vec<u8>, small: &u8) -> u64 {
        (text.len() + all.len()) as u64 + u64::from(*small)
    }

    async fn note(&self, note: &[u8; 3]) {
        self.count.set(u64::from(note[2]));
    }

    async fn many(
        &self,
        _: u8,
        _: u8,
        _: u8,
        _: u8,
        _: u8,
        _: u8,
        _: u8,
        _: u8,
        _: u8,
        _: u8,
        _: u8,
        l: u8,
    ) -> u8 {
        l
    }
}

fn schema<T: upbeat::Wire>() -> String {
    let mut out = Describe::default();
    out.of::<T>();
    out.into_text()
}

fn schemas() {
    assert_eq!(
        schema::<Description>(),
        "Description{text: String, type: u64, next: Option<Description>, at: ipv4/1}"
    );
    assert_eq!(
        schema::<CounterError>(),
        "CounterFault/2[Unknown, Full(u8, String), Late{by: [u32; 3]}]"
    );
    assert_eq!(schema::<Position>(), "Position plain{x: f64, y: f64}");
    assert_eq!(schema::<S>(), "S");
    // A generic type inside of itself is written with other arguments.
    assert_ne!(schema::<Pair<Pair<u8, 1>, 2>>(), schema::<Pair<Pair<u16, 1>, 2>>());
    assert_ne!(schema::<Pair<u8, 1>>(), schema::<Pair<u8, 2>>());
    let signatures = CounterClient::signatures();
    assert!(std::ptr::eq(signatures, CounterClient::signatures()), "described again");
    assert!(
        std::ptr::eq(signatures, <CounterHandle as upbeat::handle::HandleClient>::signatures()),
        "described for handles"
    );
    let names: Vec<&str> = signatures.iter().map(|signature| signature.name()).collect();
    assert_eq!(
        names,
        ["add", "describe", "reset", "move", "pair", "odd", "seen", "whole", "note", "many",]
    );
}

async fn calls(counter: CounterClient) {
    assert_eq!(counter.add(5).await, Ok(5));
    assert_eq!(counter.describe("five".into()).await.unwrap().r#type, 5);
    let late = CounterError::Late { by: [1, 2, 3] };
    assert_eq!(counter.describe(String::new()).await, Err(CallError::Method(late)));
    counter.reset().await.unwrap();
    assert_eq!(counter.add(1).await, Ok(1));
    let by = Position { x: 1.0, y: 2.0 };
    let moved = counter.r#move(by, vec![by; 100], ()).await.unwrap();
    assert_eq!(moved, Position { x: 101.0, y: 202.0 });
    assert_eq!(counter.pair(Pair { a: 1, b: vec![2; 3] }).await.unwrap().0, 4);
    counter.odd(service { n: 1 }, S).await.unwrap();
    let pair = Pair { a: 1, b: vec![2; 3] };
    assert_eq!(counter.seen("four", &[by; 5], &pair, 6).await, Ok(18));
    assert_eq!(counter.whole(&"four".to_owned(), &vec![1; 5], &6).await, Ok(15));
    counter.note(&[1, 2, 1]).await.unwrap();
    #[allow(deprecated)]
    let last = counter.many(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12).await;
    assert_eq!(last, Ok(12));
}

#[test]
fn services_whose_traits_have_one_name_share_a_node() {
    let program = format!("ui-names-{}", std::process::id());
    let node = Node::builder("admin").program(&program).local_only().build().unwrap();
    let mine = Rc::new(Mine { count: Cell::new(0) });
    node.serve(orders::AdminServer::shared(Rc::clone(&mine))).unwrap();
    node.serve(users::AdminServer::shared(mine)).unwrap();
    node.block_on(async {
        let of_orders: orders::AdminClient = node.connect("admin").await.unwrap();
        let of_users: users::AdminClient = node.connect("admin").await.unwrap();
        assert_eq!((of_orders.count().await, of_users.count().await), (Ok(1), Ok(2)));
    });
    let [count] = users::AdminClient::signatures() else { panic!("one method") };
    assert_eq!((count.service(), count.text()), ("users::Admin", "users::Admin.count() -> u64"));
}

/// One version of a service whose method has two arguments of one type.
macro_rules! moves {
    ($name:ident, $one:ident, $two:ident) => {
        mod $name {
            #[upbeat::service]
            pub(crate) trait Bank {
                async fn transfer(&self, $one: u64, $two: u64) -> u64;
                async fn plain(&self, n: u64) -> u64;
            }

            impl Bank for super::Mine {
                async fn transfer(&self, $one: u64, $two: u64) -> u64 {
                    $one * 10 + $two
                }

                async fn plain(&self, n: u64) -> u64 {
                    n
                }
            }
        }
    };
}

moves!(first, from, to);
moves!(swapped, to, from);
moves!(renamed, source, to);

#[test]
fn arguments_may_be_renamed_and_not_swapped() {
    let program = format!("ui-moves-{}", std::process::id());
    let node = Node::builder("bank").program(&program).local_only().build().unwrap();
    let mine = Rc::new(Mine { count: Cell::new(0) });
    node.serve(first::BankServer::shared(mine)).unwrap();
    node.block_on(async {
        let bank: renamed::BankClient = node.connect("bank").await.unwrap();
        assert_eq!(bank.transfer(1, 2).await, Ok(12));
        let bank: swapped::BankClient = node.connect("bank").await.unwrap();
        let error = bank.transfer(1, 2).await.unwrap_err();
        assert!(matches!(error, CallError::Clash(_)), "{error}");
        assert!(error.to_string().contains("the name of another argument"), "{error}");
        assert_eq!(bank.plain(3).await, Ok(3));
    });
}

fn is_shared<T: Send + Sync + Clone>() {}

#[test]
fn every_form_is_described_and_called() {
    schemas();
    is_shared::<CounterHandle>();
    let program = format!("ui-{}", std::process::id());
    let node = |name| Node::builder(name).program(&program).local_only().build().unwrap();
    let (server, client) = (node("counter"), node("client"));
    let mine = Rc::new(Mine { count: Cell::new(0) });
    server.serve(CounterServer::shared(Rc::clone(&mine))).unwrap();
    let done = Rc::new(Cell::new(false));
    let (way, said) = (client.clone(), Rc::clone(&done));
    let task = client.spawn(async move {
        calls(way.connect("counter").await.unwrap()).await;
        said.set(true);
    });
    let start = std::time::Instant::now();
    while !done.get() && start.elapsed().as_secs() < 10 {
        server.turn();
        client.turn();
    }
    assert!(done.get(), "the calls take more than ten seconds");
    client.block_on(task).unwrap();
    assert_eq!(mine.count.get(), 1);
}
