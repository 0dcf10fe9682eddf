//! How often the bets of a reader were lost.

use crate::dispatch::LostReads;

/// The bets that an import has lost. A bet that is won is not counted: counting would take longer than the read.
pub(super) struct Bets {
    own: LostReads,
    /// The counts of the node that has imported, if a node has.
    node: Option<LostReads>,
}

/// How often an import's reads met an update of the owner: see [`Import::lost_bets`](super::Import::lost_bets).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostBets {
    /// Attempts to read a value, or a snapshot, in which the owner changed it.
    pub attempts: u64,
    /// Reads that became a call.
    pub calls: u64,
}

impl Bets {
    pub(super) fn new(node: Option<LostReads>) -> Bets {
        Bets { own: LostReads::default(), node }
    }

    /// Counts an attempt that met an update.
    #[cold]
    pub(super) fn lose(&self) {
        self.own.met_update();
        self.node.iter().for_each(LostReads::met_update);
    }

    /// Counts a read that becomes a call.
    pub(super) fn call(&self) {
        self.own.called();
        self.node.iter().for_each(LostReads::called);
    }

    pub(super) fn counts(&self) -> LostBets {
        let (attempts, calls) = self.own.counts();
        LostBets { attempts, calls }
    }
}
