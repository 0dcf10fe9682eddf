//! Faults that have happened, and their numbers.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The number of a fault: that of its siege, and its own in that, which depend on nothing that happens in the world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FaultNumber {
    pub(crate) siege: u32,
    pub(crate) fault: u32,
}

impl fmt::Display for FaultNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.siege, self.fault)
    }
}

impl FromStr for FaultNumber {
    type Err = ();

    fn from_str(text: &str) -> Result<FaultNumber, ()> {
        let (siege, fault) = text.split_once('.').ok_or(())?;
        let number = |text: &str| text.parse().map_err(drop);
        Ok(FaultNumber { siege: number(siege)?, fault: number(fault)? })
    }
}

/// A fault that has happened.
pub(crate) struct Happened {
    pub(crate) number: FaultNumber,
    pub(crate) at: Duration,
    pub(crate) what: String,
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {:.1?}, {}", self.at, self.what)
    }
}
