//! HTTP in front of an Upbeat service, both on one thread of one tokio runtime.
//!
//! The node serves programs that speak Upbeat; whoever speaks HTTP goes through axum, whose handlers call
//! the service by a handle, since they may be moved between threads and a node may not; its streams are
//! bodies of answers, which are written as they are read. [`upbeat::tokio::drive`]
//! turns the node while the HTTP server waits.
#![forbid(unsafe_code)]

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fmt;
use std::io;
use std::path::PathBuf;
use tokio::net::TcpListener;
use upbeat::{CallError, Node, Stream, Wire};

/// What is sold.
#[upbeat::service]
pub trait Shop {
    /// How many there are.
    async fn stock(&self) -> u64;
    /// Takes so many, and says how many are left.
    async fn buy(&self, count: u64) -> Result<u64, Missing>;
    /// A line for each that is there.
    async fn list(&self) -> Stream<String>;
}

/// There are fewer than that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Wire)]
pub struct Missing {
    /// How many there are.
    pub left: u64,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there are only {}", self.left)
    }
}

impl std::error::Error for Missing {}

/// A shop with one kind of goods.
pub struct Shelf(Cell<u64>);

impl Shelf {
    /// One of so many.
    pub fn of(goods: u64) -> Shelf {
        Shelf(Cell::new(goods))
    }
}

impl Shop for Shelf {
    async fn stock(&self) -> u64 {
        self.0.get()
    }

    async fn buy(&self, count: u64) -> Result<u64, Missing> {
        let left = self.0.get();
        let rest = left.checked_sub(count).ok_or(Missing { left })?;
        self.0.set(rest);
        Ok(rest)
    }

    async fn list(&self) -> Stream<String> {
        Stream::of((1..=self.0.get()).map(|number| format!("number {number}\n")))
    }
}

/// Serves a shop of so many goods as the node `name`, and over HTTP, until `end` is done. Names are found
/// in `place`, or where they usually are.
pub async fn serve(
    name: &str,
    place: Option<PathBuf>,
    listener: TcpListener,
    goods: u64,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (builder, handles) = (Node::builder(name), upbeat::handle::builder());
    let (builder, handles) = match place {
        Some(place) => (builder.directory(&place), handles.directory(place)),
        None => (builder, handles),
    };
    let node = builder.build().map_err(io::Error::other)?;
    node.serve(ShopServer::new(Shelf::of(goods)));
    let name = name.to_owned();
    let served = upbeat::tokio::drive(&node, async move {
        // To connect waits for the node: that is driven here, so it is done elsewhere.
        let connect = move || handles.connect::<ShopHandle>(&name).map_err(io::Error::other);
        let shop = tokio::task::spawn_blocking(connect).await??;
        axum::serve(listener, pages(shop)).with_graceful_shutdown(end).await
    });
    served.await?
}

fn pages(shop: ShopHandle) -> Router {
    let pages = Router::new().route("/stock", get(stock)).route("/list", get(list));
    pages.route("/buy/{count}", post(buy)).with_state(shop)
}

async fn stock(State(shop): State<ShopHandle>) -> Result<String, (StatusCode, String)> {
    shop.stock().await.map(|count| count.to_string()).map_err(unavailable)
}

/// Whoever reads it slowly holds the shop back, and whoever leaves ends it.
async fn list(State(shop): State<ShopHandle>) -> Result<Body, (StatusCode, String)> {
    let list = shop.list().await.map_err(unavailable)?;
    let list = list.into_send().map_err(unavailable)?;
    Ok(Body::from_stream(list))
}

async fn buy(
    State(shop): State<ShopHandle>,
    Path(count): Path<u64>,
) -> Result<String, (StatusCode, String)> {
    match shop.buy(count).await {
        Ok(left) => Ok(left.to_string()),
        Err(CallError::Method(missing)) => Err((StatusCode::CONFLICT, missing.to_string())),
        Err(error) => Err(unavailable(error)),
    }
}

fn unavailable(error: impl std::fmt::Display) -> (StatusCode, String) {
    (StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}
