//! `other` variants where there can be none, and those that are none.

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, upbeat::Wire)]
enum Right {
    A,
    #[wire(other)]
    Other,
    B {
        c: u64,
    },
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
enum Two {
    #[wire(other)]
    A,
    #[wire(other)]
    B,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
enum Fields {
    A,
    #[wire(other)]
    Other(u32),
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
enum Opaque {
    A(#[wire(opaque = "a/1")] u64),
    #[wire(other)]
    Other,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
#[wire(whole)]
enum Whole {
    A,
    #[wire(other)]
    Other,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
#[wire(other)]
enum OverType {
    A,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct OverField {
    #[wire(other)]
    a: u64,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
enum OfSerde {
    A,
    #[serde(other)]
    Other,
}

fn main() {}
