//! Faults that have happened, and their numbers.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// The most faults of a siege. A program that waits for ever is told behind them.
pub(crate) const FAULTS_MAX: u32 = 5_000;

/// The number of a fault: that of its siege, and its own in that, which depend on nothing that happens in the world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FaultNumber {
    pub(crate) siege: u32,
    pub(crate) fault: u32,
}

/// The numbers of some faults, which a text names in runs: `0.3-7,1.2`.
#[derive(Clone, Default)]
pub(crate) struct FaultNumbers(pub(crate) BTreeSet<FaultNumber>);

/// The text of no fault.
const NONE: &str = "none";

impl fmt::Display for FaultNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u32, RangeInclusive<u32>)> = Vec::new();
        for &FaultNumber { siege, fault } in &self.0 {
            match runs.last_mut() {
                Some((of, run)) if *of == siege && *run.end() + 1 == fault => {
                    *run = *run.start()..=fault;
                }
                _ => runs.push((siege, fault..=fault)),
            }
        }
        if runs.is_empty() {
            return f.write_str(NONE);
        }
        for (number, (siege, run)) in runs.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{siege}.{}", run.start())?;
            if run.start() < run.end() {
                write!(f, "-{}", run.end())?;
            }
        }
        Ok(())
    }
}

impl FromStr for FaultNumbers {
    type Err = ();

    fn from_str(text: &str) -> Result<FaultNumbers, ()> {
        let mut numbers = BTreeSet::new();
        for run in text.split(',').filter(|text| *text != NONE) {
            let (siege, run) = run.split_once('.').ok_or(())?;
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let number = |text: &str| text.parse::<u32>().map_err(drop);
            let (siege, first, last) = (number(siege)?, number(first)?, number(last)?);
            if first > last || last >= FAULTS_MAX {
                return Err(());
            }
            numbers.extend((first..=last).map(|fault| FaultNumber { siege, fault }));
        }
        Ok(FaultNumbers(numbers))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for text in ["none", "0.0", "0.3-7,1.2", "0.0-2,0.4,3.1-4999", "1.0,2.0"] {
            let numbers: FaultNumbers = text.parse().ok().unwrap();
            assert_eq!(numbers.to_string(), text);
        }
        assert_eq!("0.3-7,1.2".parse::<FaultNumbers>().ok().unwrap().0.len(), 6);
        for text in ["", "0", "0.", "a.1", "0.1-", "0.7-3", "0.0-4000000000", "0.1;0.2"] {
            assert!(text.parse::<FaultNumbers>().is_err(), "{text}");
        }
    }
}
