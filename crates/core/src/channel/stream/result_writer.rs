//! The writing end of a result: whether its reader waits for a batch, and when the stream ends.

use crate::mutant::{Mutant, mutated};

/// The error of a pull that came before the reply to the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedAlready;

/// The state of a result's writing end.
///
/// ```
/// use upbeat_core::channel::stream::{AskedAlready, ResultWriter};
///
/// let mut demand = ResultWriter::default();
/// demand.handle_pull().unwrap();
/// assert_eq!(demand.handle_pull(), Err(AskedAlready));
/// assert!(!demand.batch_collected(false), "the stream continues");
/// demand.answered();
/// demand.handle_pull().unwrap();
/// assert!(demand.pull_dropped(), "the reader will not pull again");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultWriter(State);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// No pull is waiting.
    #[default]
    Idle,
    /// A pull waits for items.
    Asked,
    /// The items of the pull are collected and not sent.
    Collected,
}

impl ResultWriter {
    /// Handles the reader's request for a batch.
    ///
    /// # Errors
    /// Fails when the reply to an earlier pull was not sent.
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

    /// Records that the batch is collected, and whether it is the last. Returns whether the stream ends with it.
    pub fn batch_collected(&mut self, is_last: bool) -> bool {
        self.0 = State::Collected;
        is_last && !mutated(Mutant::LastStays)
    }

    /// Records that the batch was sent, or its reply was given up.
    pub fn answered(&mut self) {
        if mutated(Mutant::DemandStays) {
            return;
        }
        self.0 = State::Idle;
    }

    /// Handles the drop of the pull's handler. Returns whether the stream ends: if the pull was waiting for items,
    /// its reader is gone.
    pub fn pull_dropped(&mut self) -> bool {
        let is_left = matches!(self.0, State::Asked) && !mutated(Mutant::DemandKept);
        if is_left {
            self.0 = State::Idle;
        }
        is_left
    }
}
