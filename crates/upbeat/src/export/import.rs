//! The reader's side: exports of other nodes.

use super::bets::LostBets;
use super::direct::NodeClient;
use super::error::{ImportError, ReadError};
use super::imported::Imported;
use super::memory::ATTEMPTS;
use super::owner::Location;
use super::path::Path;
use super::served::{NodeExportsClient, NodeExportsHandle, NotOpened, SentSegment};
use super::shared::Shared;
use super::snapshot::Snapshot;
use crate::error::CallError;
use crate::handle::{BoundHandle, HandleBuilder};
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use upbeat_core::channel::export::{Consistency, Denial};

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
        whole_name: &str,
        name: &str,
    ) -> Result<Import<T>, ImportError> {
        let opened = client.open(name, &T::shape().to_string()).await;
        Import::new(opened, whole_name, owner, || Some(NodeClient::keep(client)))
    }

    /// Opens the export `name` of the node to which a handle leads.
    pub(crate) async fn by_handle(
        owner: NodeExportsHandle,
        whole_name: &str,
        name: &str,
    ) -> Result<Import<T>, ImportError> {
        let opened = owner.open(name, &T::shape().to_string()).await;
        Import::new(opened, whole_name, owner, || None)
    }

    fn new(
        opened: Result<(u32, u64, u8, SentSegment), CallError<NotOpened>>,
        whole_name: &str,
        owner: NodeExportsHandle,
        client: impl FnOnce() -> Option<NodeClient>,
    ) -> Result<Import<T>, ImportError> {
        let (number, head, consistency, segment) =
            opened.map_err(|error| not_opened::<T>(error, whole_name))?;
        let broken = |text: String| ImportError::Memory { text: text.into() };
        let memory = segment.memory().map_err(broken)?;
        let consistency = Consistency::decode(consistency).ok_or_else(|| {
            broken(format!("the export has the unknown consistency {consistency}"))
        })?;
        let location = Location::nowhere(T::WORDS, consistency);
        let location = match &memory {
            Some(memory) => location.checked(head, &memory.0),
            None => Some(location),
        };
        let location =
            location.ok_or_else(|| broken("the export lies outside of it".to_owned()))?;
        let imported = Imported::new(memory, location, number, owner, client());
        Ok(Import::over(Arc::new(imported)))
    }

    fn over(imported: Arc<Imported>) -> Import<T> {
        let place = imported.location().place(Arc::clone(&imported));
        Import { fields: Path::new(place), imported }
    }

    /// Returns the path to the whole value.
    pub fn whole(&self) -> Path<&Imported, T> {
        Path::new(self.imported.location().place(&*self.imported))
    }

    /// Returns how often reads met an update of the owner, or became calls.
    pub fn lost_bets(&self) -> LostBets {
        self.imported.bets().counts()
    }

    /// Reads several parts as of one moment. The closure reads them by [`try_read`](Path::try_read), and is run again if
    /// the owner has changed one of them meanwhile. After some attempts, and where a part takes a call, the error is
    /// [`ReadError::Busy`].
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
    pub async fn snapshot<R>(
        &self,
        mut read: impl AsyncFnMut(&T::Fields<Arc<Snapshot>>) -> Result<R, ReadError>,
    ) -> Result<R, ReadError> {
        let mut asked = Vec::new();
        for _ in 0..ATTEMPTS {
            let (phase, fields) = self.phase(Snapshot::new(&self.imported)?);
            let found = read(&fields).await;
            if let Some(found) = phase.ended(found).await? {
                return found;
            }
            asked = phase.parts();
        }
        for _ in 0..GRANTS_MAX {
            let (phase, fields) = self.phase(Snapshot::granted(&self.imported, asked).await?);
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
        let fields = Path::new(self.imported.location().place(Arc::clone(&phase)));
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
            let owner = BoundHandle::connected(target, terms).await;
            let owner = owner.map_err(|error| ImportError::of_connect(error, &whole))?;
            Import::by_handle(owner, &whole, &export).await
        }
    }
}
