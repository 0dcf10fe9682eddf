//! Waiting for changes of a value.

use super::error::ReadError;
use super::imported::{Imported, not_read};
use super::path::Path;
use super::routed::Routed;
use super::served::Asked;
use super::shared::Readable;
use std::marker::PhantomData;

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
pub struct Watch<'i, T: Readable> {
    imported: &'i Imported,
    asked: Result<Asked, ReadError>,
    shift: Option<u8>,
    version: Option<u64>,
    value: PhantomData<fn() -> T>,
}

impl<'i, T: Readable> Watch<'i, T> {
    fn new(
        at: Result<usize, ReadError>,
        (imported, asked, shift): (&'i Imported, Asked, Option<u8>),
    ) -> Watch<'i, T> {
        let asked = at.map(|_| asked);
        Watch { imported, asked, shift, version: None, value: PhantomData }
    }

    /// Waits until the value has changed since the last call, and returns it. The first call returns at once.
    ///
    /// The owner answers after a change of the struct, text or array that contains the value, so a value may come that is
    /// equal to the last one. A change of another part of the export brings nothing. A value that is replaced before the
    /// answer comes is not returned. Of an export by [`export_guarded`](crate::Node::export_guarded) or
    /// [`export_raw`](crate::Node::export_raw), a value comes only if it differs. There, and for a value with a `Vec`, each
    /// change of the export costs the owner a pass over the value; for a value of more than 32 structs, texts, arrays and
    /// containers, a look at their versions.
    pub async fn changed(&mut self) -> Result<T, ReadError> {
        let asked = self.asked.clone()?;
        let answer = self.imported.changed(asked, self.version).await;
        let (words, version) = answer.map_err(not_read)?;
        let value = self.imported.value_of(&words, self.shift)?;
        self.version = Some(version);
        Ok(value)
    }
}

impl<'i, T: Readable> Path<&'i Imported, T> {
    /// Returns a watch of the value, which waits until the owner changes it.
    pub fn watch(&self) -> Watch<'i, T> {
        let imported = self.place().access();
        let (asked, shift) = self.asked(imported.location().value());
        Watch::new(self.at(), (imported, asked, shift))
    }
}

impl<'i, T: Readable> Path<Routed<&'i Imported>, T> {
    /// Returns a watch of the value, which waits until the owner changes it, or something on the path to it. Where the path
    /// leads to nothing, [`changed`](Watch::changed) fails: watch the option, vector or map itself to learn when it does
    /// not.
    pub fn watch(&self) -> Watch<'i, T> {
        Watch::new(self.at(), self.question())
    }
}
