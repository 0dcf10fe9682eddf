//! Defaults where fields have none, and defaults that are none.

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Right {
    a: u64,
    #[wire(default)]
    b: Option<String>,
    #[wire(default = "Right::c")]
    c: u32,
}

impl Right {
    fn c() -> u32 {
        1
    }
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Before {
    #[wire(default)]
    a: u64,
    b: u64,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Unnamed(u64, #[wire(default)] u64);

#[derive(Serialize, Deserialize, upbeat::Wire)]
enum Case {
    A {
        #[wire(default)]
        b: u64,
    },
}

#[derive(Clone, Copy, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, upbeat::Wire)]
#[repr(C)]
#[wire(plain)]
struct Plain {
    a: u64,
    #[wire(default)]
    b: u64,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Skipped {
    #[serde(skip)]
    #[wire(default)]
    a: u64,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Whole {
    #[wire(opaque = "a/1")]
    a: u64,
    #[wire(default)]
    b: u64,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
#[wire(default)]
struct OverType {
    a: u64,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct NoPath {
    #[wire(default = 5)]
    a: u64,
    #[wire(default = "5 + 1")]
    b: u64,
    #[wire(default(5))]
    c: u64,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct NoDefault {
    #[wire(default)]
    a: Bare,
    #[wire(default = "seven")]
    b: u64,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Bare {
    a: u64,
}

fn seven() -> String {
    String::new()
}

fn main() {}
