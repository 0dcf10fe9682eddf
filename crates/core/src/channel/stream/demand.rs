//! The writing end of a result: whether its reader waits for a batch, and what becomes of the stream then.

use crate::mutant::{Mutant, mutated};

/// A pull came before the answer to the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedAlready;

/// The state of a result's writing end.
///
/// ```
/// use upbeat_core::channel::stream::{AskedAlready, Demand};
///
/// let mut demand = Demand::default();
/// demand.handle_pull().unwrap();
/// assert_eq!(demand.handle_pull(), Err(AskedAlready));
/// assert!(!demand.batch_collected(false), "more will be asked for");
/// demand.answered();
/// demand.handle_pull().unwrap();
/// assert!(demand.pull_dropped(), "nobody will ask again");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand(State);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// No pull is here.
    #[default]
    Idle,
    /// A pull waits for items.
    Asked,
    /// Its items are collected, and were not sent.
    Collected,
}

impl Demand {
    /// The reader asks for a batch.
    ///
    /// # Errors
    /// Where it has asked already, and the answer was not sent.
    pub fn handle_pull(&mut self) -> Result<(), AskedAlready> {
        match self.0 {
            _ if mutated(Mutant::DemandTwice) => {
                self.0 = State::Asked;
                Ok(())
            }
            State::Idle => {
                self.0 = State::Asked;
                Ok(())
            }
            State::Asked | State::Collected => Err(AskedAlready),
        }
    }

    /// The batch that was asked for is collected, and is the last or not. Returns whether the stream ends with it.
    pub fn batch_collected(&mut self, is_last: bool) -> bool {
        self.0 = State::Collected;
        is_last && !mutated(Mutant::LastStays)
    }

    /// The batch was sent, or its reply was given up.
    pub fn answered(&mut self) {
        if mutated(Mutant::DemandStays) {
            return;
        }
        self.0 = State::Idle;
    }

    /// The handler of the pull is dropped. Returns whether the stream ends: it was waiting for items, so its reader
    /// is gone.
    pub fn pull_dropped(&mut self) -> bool {
        let is_left = matches!(self.0, State::Asked) && !mutated(Mutant::DemandKept);
        if is_left {
            self.0 = State::Idle;
        }
        is_left
    }
}
