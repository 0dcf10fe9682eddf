//! Waiting for changes of a value.

use super::error::ReadError;
use super::imported::{Imported, not_read, value_of};
use super::path::Path;
use super::shared::Shared;

/// A value of another node's export, for a reader that waits for its changes: see [`Path::watch`].
///
/// ```no_run
/// # #[derive(upbeat::Shared)]
/// # struct Quotes {
/// #     count: u64,
/// # }
/// # async fn show(quotes: upbeat::Import<Quotes>) -> Result<(), upbeat::export::ReadError> {
/// let mut counts = quotes.count().watch();
/// loop {
///     println!("{}", counts.changed().await?);
/// }
/// # }
/// ```
pub struct Watch<'i, T: Shared> {
    path: Path<&'i Imported, T>,
    version: Option<u64>,
}

impl<'i, T: Shared> Watch<'i, T> {
    pub(super) fn new(path: Path<&'i Imported, T>) -> Watch<'i, T> {
        Watch { path, version: None }
    }

    /// Waits until the value has changed since the last call, and returns it. The first call returns at once.
    ///
    /// The owner answers after a change of the struct, text or array that contains the value, so a value may come that is
    /// equal to the last one. A value that is replaced before the answer comes is not returned. Of an export by
    /// [`export_guarded`](crate::Node::export_guarded) or [`export_raw`](crate::Node::export_raw), any change counts.
    pub async fn changed(&mut self) -> Result<T, ReadError> {
        self.path.at()?;
        let imported = self.path.place().access();
        let (asked, shift) = self.path.asked(imported.location().value());
        let (words, version) = imported.changed(asked, self.version).await.map_err(not_read)?;
        let value = value_of(&words, shift)?;
        self.version = Some(version);
        Ok(value)
    }
}

impl<'i, T: Shared> Path<&'i Imported, T> {
    /// Returns a watch of the value, which waits until the owner changes it.
    pub fn watch(&self) -> Watch<'i, T> {
        Watch::new(self.borrowed())
    }
}
