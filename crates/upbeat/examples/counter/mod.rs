//! The interface that server and clients share. In a program of one's own it is a crate, or a
//! module, that both sides use.
#![allow(unreachable_pub, dead_code)]

use serde::{Deserialize, Serialize};
use std::fmt;
use upbeat::Wire;

#[upbeat::service]
pub trait Counter {
    /// Adds to the count and returns it.
    async fn add(&self, n: u64) -> u64;

    /// Describes the count under a name.
    async fn describe(&self, name: String) -> Result<Description, CounterError>;

    /// Sets the count to 0. The caller does not wait.
    #[oneway]
    async fn reset(&self);
}

#[derive(Debug, Serialize, Deserialize, Wire)]
pub struct Description {
    pub text: String,
    pub count: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, Wire)]
pub enum CounterError {
    NoName,
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a counter is described under a name")
    }
}
