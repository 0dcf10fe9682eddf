//! The exports of a node.

use super::error::ExportError;
use super::owner::{Owner, Version, forked};
use super::path::Path;
use super::segments::{ExportMemory, Segments};
use super::shared::{Place, Shared};
use std::cell::{Ref, RefCell};
use std::mem::forget;
use std::ops::Deref;
use std::rc::Rc;
use upbeat_core::channel::export::{Asker, Consistency, Directory, NotRead, Part, Readers, Routed};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_memory::fork::Process;

/// The exports of a node.
pub(crate) struct Exports {
    segments: Rc<Segments>,
    directory: RefCell<Directory<Rc<Owner>>>,
    /// The process of the node. A child that was forked there does not have the segments.
    made: Process,
}

impl Exports {
    /// Returns the exports of a node that has none yet, which are numbered from a random number on.
    pub(crate) fn new(random: u32) -> Exports {
        let directory = RefCell::new(Directory::new(random));
        Exports { segments: Rc::default(), directory, made: Process::this() }
    }

    /// Returns the number of an export of this type under a name.
    ///
    /// # Panics
    /// In a forked child of the node's process.
    fn number<T: Shared>(&self, name: &str) -> Result<u32, ExportError> {
        if !self.made.is_this() {
            forked(name);
        }
        Ok(self.directory.borrow_mut().number(name, &T::shape())?)
    }

    /// Exports a value under a name for these readers.
    pub(crate) fn export<T: Shared>(
        self: &Rc<Self>,
        name: &str,
        value: &T,
        consistency: Consistency,
        readers: Readers,
    ) -> Result<Export<T>, ExportError> {
        let number = self.number::<T>(name)?;
        let owner =
            Owner::of((number, name), (value, consistency), readers.clone(), &self.segments)?;
        self.stand(owner, readers)
    }

    /// Exports a value that `fill` makes of zeros, where it lies.
    pub(crate) fn export_with<T: Shared>(
        self: &Rc<Self>,
        name: &str,
        fill: impl FnOnce(&Path<&Owner, T>),
        consistency: Consistency,
        readers: Readers,
    ) -> Result<Export<T>, ExportError> {
        let number = self.number::<T>(name)?;
        let named = (number, name);
        let owner = Owner::vacant::<T>(named, consistency, readers.clone(), &self.segments, 0)?;
        fill(&Path::new(Place::of(&owner.location(), &owner)));
        owner.publish_first();
        self.stand(owner, readers)
    }

    fn stand<T: Shared>(
        self: &Rc<Self>,
        owner: Owner,
        readers: Readers,
    ) -> Result<Export<T>, ExportError> {
        let owner = Rc::new(owner);
        let (number, kept) = (owner.number(), Rc::clone(&owner));
        self.directory.borrow_mut().export(number, owner.name(), T::shape(), readers, kept)?;
        owner.stand();
        // The export has its room, so others can move together.
        owner.settle();
        Ok(Export::new(owner, Rc::clone(self)))
    }

    /// Returns the memory that the exports have.
    pub(crate) fn memory(&self) -> ExportMemory {
        self.segments.memory()
    }

    /// Tells readers that have mapped the exports that the node has shut down.
    pub(crate) fn shut_down(&self) {
        self.segments.shut_down();
    }

    /// Returns the exports' names and types, and what is kept of each.
    pub(super) fn directory(&self) -> Ref<'_, Directory<Rc<Owner>>> {
        self.directory.borrow()
    }

    /// Waits until no update of an export is under way. One is if the closure that makes it drives the node.
    pub(super) async fn between_updates(
        &self,
        number: u32,
        asker: &impl Asker,
    ) -> Result<(), NotRead> {
        loop {
            let owner = Rc::clone(self.directory().kept(number, asker)?);
            if !owner.is_updating() {
                return Ok(());
            }
            owner.watchers().change(None).await;
        }
    }

    /// Returns the words of a part of the value to which a route leads, between updates.
    pub(super) fn words(
        &self,
        number: u32,
        (route, part): (&[u64], Part),
        asker: &impl Asker,
    ) -> Result<Vec<u64>, NotRead> {
        let directory = self.directory();
        let Routed { route, shape, kept } = directory.routed(number, route, part, asker)?;
        kept.words((&route, shape), part)
    }

    /// Returns the version of a part of the value to which a route leads, and what is kept of the export.
    pub(super) fn version(
        &self,
        number: u32,
        (route, part, is_unit): (&[u64], Part, bool),
        asker: &impl Asker,
    ) -> Result<(Version, Rc<Owner>), NotRead> {
        let directory = self.directory();
        let Routed { route, shape, kept } = directory.routed(number, route, part, asker)?;
        Ok((kept.version((&route, shape), part, is_unit)?, Rc::clone(kept)))
    }

    fn withdraw(&self, number: u32) {
        self.directory.borrow_mut().withdraw(number);
    }
}

/// A value that this node exports, and that only this side writes: see [`Node::export`](crate::Node::export).
///
/// Dropping it ends the export: readers get [`ReadError::Ended`](super::ReadError::Ended). A forked child of the process
/// does not have the export: there, dropping it does nothing, and reading or writing it panics.
#[must_use = "an export ends when it is dropped"]
pub struct Export<T: Shared> {
    fields: Path<Rc<Owner>, T>,
    owner: Rc<Owner>,
    exports: Rc<Exports>,
}

impl<T: Shared> Export<T> {
    pub(super) fn new(owner: Rc<Owner>, exports: Rc<Exports>) -> Export<T> {
        let fields = Path::new(Place::of(&owner.location(), Rc::clone(&owner)));
        Export { fields, owner, exports }
    }

    /// Returns the path to the whole value.
    pub fn whole(&self) -> Path<&Owner, T> {
        Path::new(Place::of(&self.owner.location(), &*self.owner))
    }

    /// Returns the name of an export. It is no method, since a field may have the name `name`.
    pub fn name(export: &Export<T>) -> &str {
        export.owner.name()
    }

    /// Returns the paths of an update of the whole value, which [`Update::publish`] makes visible. The
    /// next update begins with the last copy that is.
    pub(super) fn begin(&self) -> Update<T> {
        self.owner.begin();
        Update {
            fields: Path::new(Place::of(&self.owner.location(), Rc::clone(&self.owner))),
            owner: Rc::clone(&self.owner),
        }
    }
}

impl<T: Shared> Deref for Export<T> {
    type Target = T::Fields<Rc<Owner>>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.fields
    }
}

impl<T: Shared> Drop for Export<T> {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            // The memory belongs to the parent of this forked child. The child does not have it.
            return forget((Rc::clone(&self.owner), Rc::clone(&self.exports)));
        }
        self.owner.end();
        self.exports.withdraw(self.owner.number());
        if !mutated(Mutant::EndUntold) {
            self.owner.watchers().tell_all();
        }
    }
}

/// An update of one of the two copies of a value.
pub(super) struct Update<T: Shared> {
    pub(super) fields: Path<Rc<Owner>, T>,
    owner: Rc<Owner>,
}

impl<T: Shared> Update<T> {
    pub(super) fn publish(&self) {
        if self.owner.is_here() {
            self.owner.publish();
        }
    }
}

#[cfg(test)]
mod tests;
