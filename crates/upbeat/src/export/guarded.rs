//! Exports that are consistent as a whole, and that a lock guards at their owner.

use super::exports::{Export, Update};
use super::owner::Owner;
use super::path::Path;
use super::shared::Shared;
use crate::sync::{Mutex, MutexGuard};
use std::ops::Deref;
use std::rc::Rc;

/// A value whose parts readers find consistent with each other: see [`Node::export_guarded`](crate::Node::export_guarded).
///
/// The owner's tasks and handlers exclude each other by its lock. Dropping the export ends it, as that of an [`Export`].
#[must_use = "an export ends when it is dropped"]
pub struct GuardedExport<T: Shared> {
    export: Export<T>,
    lock: Mutex<()>,
}

impl<T: Shared> GuardedExport<T> {
    pub(crate) fn new(export: Export<T>) -> GuardedExport<T> {
        let lock = Mutex::named(Export::name(&export), ());
        GuardedExport { export, lock }
    }

    /// Waits for the lock. What is changed under it appears to readers at once, when the guard is dropped.
    pub async fn lock(&self) -> ExportGuard<'_, T> {
        ExportGuard::new(&self.export, self.lock.lock().await)
    }

    /// Takes the lock, unless somebody has it.
    pub fn try_lock(&self) -> Option<ExportGuard<'_, T>> {
        Some(ExportGuard::new(&self.export, self.lock.try_lock()?))
    }

    /// Returns the name of an export.
    pub fn name(export: &GuardedExport<T>) -> &str {
        Export::name(&export.export)
    }
}

/// The lock of a [`GuardedExport`], and the paths by which its holder writes.
///
/// Dropping it makes all changes visible. [`discard`](Self::discard) undoes them, and so does a panic.
#[must_use = "the lock is given back when the guard is dropped"]
pub struct ExportGuard<'e, T: Shared> {
    update: Update<T>,
    _held: MutexGuard<'e, ()>,
    is_discarded: bool,
}

impl<'e, T: Shared> ExportGuard<'e, T> {
    fn new(export: &Export<T>, held: MutexGuard<'e, ()>) -> ExportGuard<'e, T> {
        ExportGuard { update: export.begin(), _held: held, is_discarded: false }
    }

    /// Returns the path to the whole value.
    pub fn whole(&self) -> Path<&Owner, T> {
        self.update.fields.borrowed()
    }

    /// Undoes all changes that were made under the lock.
    pub fn discard(mut self) {
        self.is_discarded = true;
    }
}

impl<T: Shared> Deref for ExportGuard<'_, T> {
    type Target = T::Fields<Rc<Owner>>;

    fn deref(&self) -> &Self::Target {
        &self.update.fields
    }
}

impl<T: Shared> Drop for ExportGuard<'_, T> {
    fn drop(&mut self) {
        if !self.is_discarded && !std::thread::panicking() {
            self.update.publish();
        }
    }
}
