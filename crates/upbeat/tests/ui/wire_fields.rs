//! Fields that cannot travel.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use upbeat::wire::{Json, Serde};

mod foreign {
    #[derive(serde::Serialize, serde::Deserialize)]
    pub struct Point(u64);

    pub struct Bare(u64);
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Foreign {
    place: foreign::Point,
    right: Serde<foreign::Point>,
    #[wire(opaque = "point/1")]
    right_as_well: foreign::Point,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Document {
    body: Value,
    right: Json<Value>,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Aliased {
    body: Serde<Value>,
    right: Serde<foreign::Point>,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Documents {
    body: serde_json::Value,
    list: Vec<Serde<serde_json::Value>>,
    #[wire(opaque = "json/1")]
    other: Option<serde_json::Value>,
    right: Json<serde_json::Value>,
}

#[derive(Clone, Copy, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, upbeat::Wire)]
#[repr(C)]
#[wire(plain)]
struct Wide {
    a: usize,
}

fn main() {}
