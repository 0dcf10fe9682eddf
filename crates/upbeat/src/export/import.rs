//! The reader's side: exports of other nodes.

use super::bets::LostBets;
use super::direct::NodeClient;
use super::error::{ImportError, ReadError};
use super::imported::Imported;
use super::mapped::NotMapped;
use super::memory::ATTEMPTS;
use super::opened::{Names, Opened};
use super::path::Path;
use super::routed::Routed;
use super::served::{NodeExportsClient, NodeExportsHandle, NotOpened};
use super::shared::{Named, Navigate, OTHER_EXPORT, Place, Shared};
use super::snapshot::Snapshot;
use super::types::Ref;
use crate::dispatch::LostReads;
use crate::error::CallError;
use crate::handle::{BoundHandle, HandleBuilder};
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use upbeat_core::channel::export::Denial;
use upbeat_core::channel::export::Step;

/// The most times that an owner is asked for all parts of a snapshot, each time for more of them.
const GRANTS_MAX: usize = 8;

/// An export of another node, which this side reads: see [`Node::import`](crate::Node::import).
pub struct Import<T: Shared> {
    fields: Path<Arc<Imported>, T>,
    imported: Arc<Imported>,
}

impl<T: Shared> Import<T> {
    /// Opens the export `name` of a node by its client.
    pub(crate) async fn by_node(
        client: NodeExportsClient,
        owner: NodeExportsHandle,
        lost: LostReads,
        whole_name: &str,
        name: &str,
    ) -> Result<Import<T>, ImportError> {
        let shape = T::shape().to_string();
        let opened = Opened::by(|| client.open(name, &shape)).await;
        Import::new(opened, whole_name, owner, || Some((NodeClient::keep(client), lost)))
    }

    /// Opens the export `name` of the node to which a handle leads.
    pub(crate) async fn by_handle(
        owner: NodeExportsHandle,
        whole_name: &str,
        name: &str,
    ) -> Result<Import<T>, ImportError> {
        let shape = T::shape().to_string();
        let opened = Opened::by(|| owner.open(name, &shape)).await;
        Import::new(opened, whole_name, owner, || None)
    }

    fn new(
        opened: Result<Result<Opened, NotMapped>, CallError<NotOpened>>,
        whole_name: &str,
        owner: NodeExportsHandle,
        node: impl FnOnce() -> Option<(NodeClient, LostReads)>,
    ) -> Result<Import<T>, ImportError> {
        let opened = opened.map_err(|error| not_opened::<T>(error, whole_name))?;
        let opened = opened.map_err(|error| not_mapped(error, whole_name))?;
        if opened.location.words < T::WORDS {
            let text = "the export has less words than its type".into();
            return Err(ImportError::Memory { text });
        }
        let names = Names::new(whole_name, T::shape().to_string());
        Ok(Import::over(Arc::new(Imported::new(opened, names, owner, node()))))
    }

    fn over(imported: Arc<Imported>) -> Import<T> {
        let place = Place::of(imported.location(), Arc::clone(&imported));
        Import { fields: Path::new(place), imported }
    }

    /// Returns the path to the whole value.
    pub fn whole(&self) -> Path<&Imported, T> {
        Path::new(Place::of(self.imported.location(), &*self.imported))
    }

    /// Returns the path to the target of a pointer that was read as a part of a value of this export.
    ///
    /// ```no_run
    /// use upbeat::export::{ReadError, Ref};
    ///
    /// #[derive(upbeat::Shared)]
    /// struct Queue {
    ///     head: Ref<Job>,
    ///     jobs: [Job; 100],
    /// }
    ///
    /// #[derive(upbeat::Shared)]
    /// struct Job {
    ///     number: u64,
    ///     next: Ref<Job>,
    /// }
    ///
    /// async fn show(queue: upbeat::Import<Queue>) -> Result<(), ReadError> {
    ///     let mut job = queue.head().read().await?;
    ///     while !job.next.is_null() {
    ///         println!("{}", job.number);
    ///         job = queue.follow(job.next).read().await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// Reading the path is [`ReadError::OtherExport`](super::ReadError::OtherExport) if the pointer was read from another
    /// export. An export that was made anew is another one.
    pub fn follow<U: Named>(&self, pointer: Ref<U>) -> Path<Routed<&Imported>, U> {
        let place = *self.whole().place();
        if !pointer.is_within(self.imported.number()) {
            return Path::new(Navigate::nowhere(place, OTHER_EXPORT));
        }
        let (pointer, words) = (pointer.pointer, U::WORDS as u32);
        let step = Step::Begin { pointer, name: U::NAME.into(), words };
        Path::new(Navigate::begin(place, step, false))
    }

    pub(super) fn imported(&self) -> &Imported {
        &self.imported
    }

    /// Returns how often reads met an update of the owner, or became calls.
    pub fn lost_bets(&self) -> LostBets {
        self.imported.bets().counts()
    }

    /// Reads several parts as of one moment. The closure reads them by [`try_read`](Path::try_read), and is run again if
    /// the owner has changed one of them meanwhile. All that one run of it has read is of one moment, at any time: a read
    /// that finds anything else is [`ReadError::Busy`], and so is the snapshot after some attempts, and where a part takes a
    /// call.
    pub fn try_snapshot<R>(
        &self,
        mut read: impl FnMut(&T::Fields<Arc<Snapshot>>) -> Result<R, ReadError>,
    ) -> Result<R, ReadError> {
        for _ in 0..ATTEMPTS {
            let (phase, fields) = self.phase(Snapshot::new(&self.imported)?);
            let found = read(&fields);
            if let Some(found) = phase.end(found) {
                return found;
            }
        }
        Err(ReadError::Busy)
    }

    /// Reads several parts as of one moment. The closure reads them by [`read`](Path::read), and is run again if the owner
    /// has changed one of them meanwhile. After some attempts the owner is asked for all parts at once.
    ///
    /// All that one run has read in memory is of one moment, at any time. Parts that are read by calls may be of several
    /// moments until the run ends; if they are, the closure runs again. So a closure that may call must neither panic nor loop
    /// for ever because two parts do not fit each other. One run reads 1,024 parts by calls at most; a further one is
    /// [`ReadError::Large`].
    pub async fn snapshot<R>(
        &self,
        mut read: impl AsyncFnMut(&T::Fields<Arc<Snapshot>>) -> Result<R, ReadError>,
    ) -> Result<R, ReadError> {
        let mut asked = Vec::new();
        for _ in 0..ATTEMPTS {
            self.imported.follow_move().await;
            let (phase, fields) = self.phase(Snapshot::new(&self.imported)?);
            let found = read(&fields).await;
            if let Some(found) = phase.ended(found).await? {
                return found;
            }
            asked = phase.parts();
        }
        for _ in 0..GRANTS_MAX {
            let (phase, fields) =
                self.phase(Snapshot::granted_by_owner(&self.imported, asked).await?);
            let found = read(&fields).await;
            if !phase.lacks() {
                return found;
            }
            asked = phase.parts();
        }
        Err(ReadError::Busy)
    }

    fn phase(&self, phase: Snapshot) -> (Arc<Snapshot>, Path<Arc<Snapshot>, T>) {
        let phase = Arc::new(phase);
        let fields = Path::new(Place::of(phase.location(), Arc::clone(&phase)));
        (phase, fields)
    }
}

impl<T: Shared> Clone for Import<T> {
    fn clone(&self) -> Import<T> {
        Import::over(Arc::clone(&self.imported))
    }
}

impl<T: Shared> Deref for Import<T> {
    type Target = T::Fields<Arc<Imported>>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.fields
    }
}

/// Returns the error of an export whose memory was not mapped.
fn not_mapped(error: NotMapped, name: &str) -> ImportError {
    match error {
        NotMapped::Copies(mapped) => ImportError::Copies {
            name: name.into(),
            segments: mapped.ended_segments,
            bytes: mapped.ended_bytes,
        },
        NotMapped::Broken(text) => ImportError::Memory { text: text.into() },
    }
}

/// Returns the error of an export that was not opened.
fn not_opened<T: Shared>(error: CallError<NotOpened>, name: &str) -> ImportError {
    match error {
        CallError::Method(NotOpened::NoExport { others }) => {
            ImportError::NoExport { name: name.into(), others }
        }
        CallError::Method(NotOpened::OtherType { exported }) => ImportError::OtherType {
            name: name.into(),
            exported: exported.into(),
            imported: T::shape().to_string().into(),
        },
        CallError::Method(NotOpened::NotPermitted { name: reader, listed }) => {
            let denial = match (reader, listed) {
                (None, _) => Denial::Nameless,
                (Some(name), false) => Denial::OtherNode { name },
                (Some(name), true) => Denial::Unproved { name },
            };
            ImportError::NotPermitted { name: name.into(), denial }
        }
        error => ImportError::Call(error.map(|_| unreachable!("it was matched above"))),
    }
}

impl HandleBuilder {
    /// Imports a value that a node exports, as [`Node::import`](crate::Node::import) does, in any async runtime and without
    /// a node.
    ///
    /// ```
    /// use upbeat::export::{Import, ImportError};
    ///
    /// #[derive(upbeat::Shared)]
    /// struct Limits {
    ///     orders: u32,
    /// }
    ///
    /// async fn limits() -> Result<Import<Limits>, ImportError> {
    ///     upbeat::handle::builder().program("shop").import("prices/limits").await
    /// }
    /// ```
    pub fn import<T: Shared>(
        self,
        name: &str,
    ) -> impl Future<Output = Result<Import<T>, ImportError>> + Send + use<T> {
        let whole: Box<str> = name.into();
        let parts =
            whole.rsplit_once('/').map(|(node, export)| (self.target(node), export.to_owned()));
        async move {
            let (target, export) =
                parts.ok_or_else(|| ImportError::Name { name: whole.clone() })?;
            let (target, terms) = target.map_err(ImportError::of_handle)?;
            let owner = BoundHandle::shared_connected(target, terms).await;
            let owner = owner.map_err(|error| ImportError::of_connect(error, &whole))?;
            Import::by_handle(owner, &whole, &export).await
        }
    }
}
