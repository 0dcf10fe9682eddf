//! Attributes for serde that postcard cannot carry.

use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Serialize, Deserialize, upbeat::Wire)]
#[serde(untagged)]
enum Untagged {
    A(u64),
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
#[serde(tag = "kind", content = "value")]
enum Tagged {
    A(u64),
}

#[derive(Clone, Serialize, Deserialize, upbeat::Wire)]
#[serde(from = "u64", into = "u64")]
struct Converted(u64);

impl From<u64> for Converted {
    fn from(n: u64) -> Converted {
        Converted(n)
    }
}

impl From<Converted> for u64 {
    fn from(converted: Converted) -> u64 {
        converted.0
    }
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Inner {
    a: u64,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
struct Fields {
    #[serde(flatten)]
    inner: Inner,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    perhaps: Option<u64>,
    #[serde(skip_serializing)]
    half: u64,
    #[serde(with = "seconds")]
    time: Duration,
}

#[derive(Serialize, Deserialize, upbeat::Wire)]
enum Skipped {
    #[serde(skip)]
    A,
    B,
}

mod seconds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;

    pub fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        time.as_secs().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_secs)
    }
}

fn main() {}
