//! HTTP in front of an Upbeat service, both on one thread of one tokio runtime.
//!
//! The node serves programs that speak Upbeat. HTTP clients go through axum, whose handlers call
//! the service by a handle, because axum may move them between threads and a node stays on one. The streams of
//! the service become bodies of HTTP responses, which are written as they are read. [`upbeat::tokio_runtime::drive`]
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

/// The service that sells goods.
#[upbeat::service]
pub trait Shop {
    /// Returns the number of goods in stock.
    async fn stock(&self) -> u64;
    /// Takes `count` goods, and returns how many are left.
    async fn buy(&self, count: u64) -> Result<u64, Missing>;
    /// Streams a line of text for each of the goods in stock.
    async fn list(&self) -> Stream<String>;
}

/// Fewer goods are in stock than were asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Wire)]
pub struct Missing {
    /// The number of goods in stock.
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
    /// Returns a shelf with this many goods.
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
    node.serve(ShopServer::new(Shelf::of(goods))).map_err(io::Error::other)?;
    let name = name.to_owned();
    let served = upbeat::tokio_runtime::drive(&node, async move {
        // Connecting waits for the node, which this thread drives: another thread connects.
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

/// A client that reads the list slowly holds the shop back, and a client that disconnects ends the stream.
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
