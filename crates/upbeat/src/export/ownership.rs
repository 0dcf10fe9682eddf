//! Whether the owner of an export is alive, for a reader in memory: the memory of a dead owner looks like that of one that
//! changes nothing.

use super::error::ReadError;
use super::import::Import;
use super::imported::Imported;
use super::owner_state::{ExportOwner, OwnerState};
use super::shared::Shared;
use upbeat_environment::time::Instant;

impl Imported {
    fn owner(&self) -> ExportOwner {
        let now = Instant::now();
        let segment = self.segment();
        let process = segment.as_ref().and_then(|segment| segment.process());
        let state = match process.map(|process| process.has_ended()) {
            _ if segment.as_ref().is_some_and(|segment| segment.has_shut_down()) => {
                OwnerState::ShutDown
            }
            Some(true) => OwnerState::Died,
            // The process is there, and says nothing more about its node in this segment.
            Some(false) if segment.as_ref().is_some_and(|segment| segment.was_given_up()) => {
                OwnerState::Unknown
            }
            Some(false) => OwnerState::Alive,
            None => OwnerState::Unknown,
        };
        let alive = self.note_alive((state == OwnerState::Alive).then_some(now));
        ExportOwner {
            node: self.node().to_owned(),
            pid: process.map(|process| process.pid()),
            state,
            age: now - alive,
        }
    }
}

impl<T: Shared> Import<T> {
    /// Returns who owns the export, and whether the owner is alive. In memory this takes one system call, and no message;
    /// the owner may be busy or asleep.
    ///
    /// The age says how old the knowledge of the owner is, and not when it has last changed the value: an owner may have
    /// nothing to change. An owner that hangs is alive. Where readers have to tell, let the owner write the time into the
    /// export.
    pub fn owner(&self) -> ExportOwner {
        self.imported().owner()
    }

    /// Fails if the owner has ended, whose memory still has its last values. Ask behind a read: the value was the owner's
    /// while it was alive.
    ///
    /// ```no_run
    /// # #[derive(upbeat::Shared)]
    /// # struct Quotes {
    /// #     count: u64,
    /// # }
    /// # async fn show(quotes: upbeat::Import<Quotes>) -> Result<(), upbeat::export::ReadError> {
    /// let count = quotes.count().read().await?;
    /// quotes.require_owner()?;
    /// println!("{count}, of a living owner");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ReadError::OwnerEnded`] if the node has shut down or its process has died. Where the reader
    /// [cannot know](OwnerState::Unknown), there is no error here: reads from another host are calls, which fail then.
    pub fn require_owner(&self) -> Result<(), ReadError> {
        let owner = self.owner();
        match owner.state.has_ended() {
            true => Err(ReadError::OwnerEnded(owner.into())),
            false => Ok(()),
        }
    }
}
