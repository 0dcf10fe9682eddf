//! Arguments and results of other crates' types: the advice solves the problem.

use foreign::{Bare, Point};
use serde_json::Value;
use upbeat::wire::{Json, Serde};

mod foreign {
    #[derive(serde::Serialize, serde::Deserialize)]
    pub struct Point(u64);

    pub struct Bare(u64);
}

#[upbeat::service]
trait Map {
    async fn put(&self, place: Point);
    async fn look(&self, place: &Point) -> u64;
    async fn right(&self, place: Serde<Point>, at: &Serde<Point>) -> Serde<Point>;
}

#[upbeat::service]
trait Documents {
    async fn put(&self, document: Value);
    async fn parse(&self, document: Serde<serde_json::Value>) -> Vec<serde_json::Value>;
    async fn right(&self, document: Json<Value>) -> Vec<Json<Value>>;
}

#[upbeat::service]
trait Aliased {
    async fn parse(&self, document: Serde<Value>) -> Vec<Option<Serde<Value>>>;
}

#[upbeat::service]
trait Others {
    async fn bare(&self, bare: Serde<Bare>);
}

fn main() {}
