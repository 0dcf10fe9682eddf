//! The demo's two services, and their implementations.

use serde::{Deserialize, Serialize};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;
use upbeat::bill::bet::HANDLERS;
use upbeat::{CallError, Counter, Node, Wire};
use upbeat_memory::ticks::{Ticks, ticks};

/// The largest number of its own calls that the shop remembers.
const REMEMBERED_MAX: usize = 1 << 14;

/// A service that names prices and takes orders.
#[upbeat::service]
pub(crate) trait Shop {
    /// Does nothing: the null call.
    async fn nothing(&self);
    /// Returns the price of a thing.
    async fn price(&self, thing: String) -> Result<u64, ShopError>;
    /// Buys `count` of a thing. The shop takes them out of the stock.
    async fn order(&self, thing: String, count: u32) -> Result<Receipt, ShopError>;
    /// Tells the shop that a customer walked by.
    #[oneway]
    async fn walked_by(&self);
    /// Returns the counts of the shop's node.
    async fn tally(&self) -> Tally;
    /// Returns the nanoseconds of each call that the shop made to serve a call, since the last request.
    async fn own_calls(&self) -> Vec<u64>;
}

/// A service that keeps things.
#[upbeat::service]
pub(crate) trait Stock {
    /// Takes `count` of a thing out, and returns how many are left.
    async fn take(&self, thing: String, count: u32) -> Result<u32, StockError>;
    /// Waits for a delivery, which takes so many microseconds.
    async fn delivery(&self, microseconds: u64);
    /// Returns the counts of the stock's node.
    async fn tally(&self) -> Tally;
}

/// The confirmation of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Wire)]
pub(crate) struct Receipt {
    pub(crate) thing: String,
    pub(crate) count: u32,
    pub(crate) cents: u64,
    pub(crate) left: u32,
}

/// The counts of a node.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, Wire)]
pub(crate) struct Tally {
    /// The number of handlers that had to wait and became tasks.
    pub(crate) promoted: u64,
    /// The number of calls that ended because their callers cancelled them.
    pub(crate) cancelled: u64,
    /// The number of one-way messages that were handled.
    pub(crate) walked_by: u64,
}

/// The reason why the shop does not sell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Wire)]
pub(crate) enum ShopError {
    Unknown { thing: String },
    SoldOut { thing: String },
    NoStock { text: String },
}

impl fmt::Display for ShopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShopError::Unknown { thing } => write!(f, "the shop does not sell a {thing}"),
            ShopError::SoldOut { thing } => write!(f, "{thing} is sold out"),
            ShopError::NoStock { text } => write!(f, "the shop cannot reach its stock: {text}"),
        }
    }
}

/// The reason why the stock gives nothing out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Wire)]
pub(crate) enum StockError {
    TooFew { left: u32 },
}

impl fmt::Display for StockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StockError::TooFew { left } = self;
        write!(f, "only {left} are left")
    }
}

fn tally(node: &Node, walked_by: u64) -> Tally {
    Tally {
        promoted: HANDLERS.lost(|counter| node.counted(counter)),
        cancelled: node.counted(Counter::CancelsHonoured),
        walked_by,
    }
}

/// The implementation of the shop.
pub(crate) struct Keeper {
    node: Node,
    /// The client of the stock, set once the shop has connected.
    pub(crate) stock: OnceCell<StockClient>,
    walked_by: Cell<u64>,
    own_calls: RefCell<Vec<u64>>,
}

impl Keeper {
    /// Creates a shop on this node.
    pub(crate) fn new(node: &Node) -> Keeper {
        Keeper {
            node: node.clone(),
            stock: OnceCell::new(),
            walked_by: Cell::new(0),
            own_calls: RefCell::new(Vec::with_capacity(REMEMBERED_MAX)),
        }
    }
}

impl Shop for Keeper {
    async fn nothing(&self) {}

    async fn price(&self, thing: String) -> Result<u64, ShopError> {
        match thing.as_str() {
            "tea" => Ok(420),
            _ => Err(ShopError::Unknown { thing }),
        }
    }

    async fn order(&self, thing: String, count: u32) -> Result<Receipt, ShopError> {
        let cents = self.price(thing.clone()).await? * u64::from(count);
        let closed = || ShopError::NoStock { text: "not connected yet".into() };
        let stock = self.stock.get().ok_or_else(closed)?;
        let start = ticks();
        let left = stock.take(thing.clone(), count).await.map_err(|error| match error {
            CallError::Method(StockError::TooFew { .. }) => {
                ShopError::SoldOut { thing: thing.clone() }
            }
            error => ShopError::NoStock { text: error.to_string() },
        })?;
        let mut own_calls = self.own_calls.borrow_mut();
        if own_calls.len() < REMEMBERED_MAX {
            own_calls.push(Ticks::since(start).nanoseconds());
        }
        Ok(Receipt { thing, count, cents, left })
    }

    async fn walked_by(&self) {
        self.walked_by.set(self.walked_by.get() + 1);
    }

    async fn tally(&self) -> Tally {
        tally(&self.node, self.walked_by.get())
    }

    async fn own_calls(&self) -> Vec<u64> {
        self.own_calls.take()
    }
}

/// The implementation of the stock.
pub(crate) struct Shelves {
    node: Node,
    things: RefCell<HashMap<String, u32>>,
}

impl Shelves {
    /// Creates a stock on this node, with more tea than is ever sold.
    pub(crate) fn new(node: &Node) -> Shelves {
        let things = HashMap::from([("tea".to_owned(), u32::MAX)]);
        Shelves { node: node.clone(), things: RefCell::new(things) }
    }
}

impl Stock for Shelves {
    async fn take(&self, thing: String, count: u32) -> Result<u32, StockError> {
        let mut things = self.things.borrow_mut();
        let left = things.entry(thing).or_default();
        *left = left.checked_sub(count).ok_or(StockError::TooFew { left: *left })?;
        Ok(*left)
    }

    async fn delivery(&self, microseconds: u64) {
        upbeat::sleep(Duration::from_micros(microseconds)).await;
    }

    async fn tally(&self) -> Tally {
        tally(&self.node, 0)
    }
}
