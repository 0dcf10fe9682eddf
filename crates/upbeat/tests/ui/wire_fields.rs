//! Fields that cannot travel.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Foreign {
    address: IpAddr,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Wide {
    a: usize,
    b: Vec<isize>,
    c: Box<str>,
}

fn main() {}
