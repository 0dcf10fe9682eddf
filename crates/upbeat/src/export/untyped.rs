//! Exports of other nodes, for readers that learn their types when they run.

use super::error::{ImportError, ReadError};
use super::imported::not_read;
use super::served::{Asked, NodeExportsHandle};
use crate::handle::{BoundHandle, ConnectTerms, HandleBuilder, Target};
use std::future::Future;
use upbeat_core::channel::export::{Selection, Shape, ShapeError, Value};

/// An export of another node, whose type this program was not built with: see
/// [`Node::exports_of`](crate::Node::exports_of).
///
/// Each read is a call to the owner, also on the owner's host.
pub struct UntypedImport {
    name: Box<str>,
    text: Box<str>,
    number: u32,
    owner: NodeExportsHandle,
}

impl UntypedImport {
    /// Returns the exports of a node.
    pub(crate) async fn all(
        target: Target,
        terms: ConnectTerms,
    ) -> Result<Vec<UntypedImport>, ImportError> {
        let owner: NodeExportsHandle = match BoundHandle::shared_connected(target, terms).await {
            Ok(owner) => owner,
            // A node that exports nothing does not serve its exports.
            Err(error) if error.is_not_served() => return Ok(Vec::new()),
            Err(error) => return Err(ImportError::Connect(error)),
        };
        let listed = owner.list().await.map_err(ImportError::Call)?;
        let import = |(number, name, text): (u32, String, String)| UntypedImport {
            name: name.into(),
            text: text.into(),
            number,
            owner: owner.clone(),
        };
        Ok(listed.into_iter().map(import).collect())
    }

    /// Returns the name of the export, as its owner tells it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text of the type, as the owner tells it.
    pub fn type_text(&self) -> &str {
        &self.text
    }

    /// Returns the type, or an error if the owner was built with a version that has further types.
    pub fn shape(&self) -> Result<Shape, ShapeError> {
        self.text.parse()
    }

    /// Reads a part of the value, which [`Shape::resolve`] has found in [`shape`](Self::shape). The part is whole: the
    /// owner has left it so after one `set` or `update`.
    pub async fn read<'s>(&self, selection: &'s Selection) -> Result<Value<'s>, ReadError> {
        let answer = match selection.route.is_empty() {
            true => self.owner.read(self.number, selection.part.encode()).await,
            false => self.owner.read_routed(self.number, asked(selection)).await,
        };
        let words = answer.map_err(not_read)?;
        selection.value(&words).map_err(|_| ReadError::Invalid)
    }

    /// Waits until a part of the value has another version than this one, and returns it with its version. Without a
    /// version the answer comes at once. As with a [`Watch`](super::Watch), the value may be equal to the last one.
    pub async fn changed<'s>(
        &self,
        selection: &'s Selection,
        version: Option<u64>,
    ) -> Result<(Value<'s>, u64), ReadError> {
        let answer = self.owner.changed(self.number, asked(selection), version).await;
        let (words, version) = answer.map_err(not_read)?;
        Ok((selection.value(&words).map_err(|_| ReadError::Invalid)?, version))
    }
}

/// Returns what a reader asks the owner for.
fn asked(selection: &Selection) -> Asked {
    let part = selection.part.encode();
    Asked { part, is_unit: selection.shape.is_unit(), route: selection.route.clone() }
}

impl HandleBuilder {
    /// Lists what a node exports, as [`Node::exports_of`](crate::Node::exports_of) does, in any async runtime.
    ///
    /// ```
    /// use upbeat::export::ImportError;
    ///
    /// async fn names(node: &str) -> Result<Vec<String>, ImportError> {
    ///     let exports = upbeat::handle::builder().program("shop").exports_of(node).await?;
    ///     Ok(exports.iter().map(|export| export.name().to_owned()).collect())
    /// }
    /// ```
    pub fn exports_of(
        self,
        node: &str,
    ) -> impl Future<Output = Result<Vec<UntypedImport>, ImportError>> + Send + use<> {
        let target = self.target(node);
        async move {
            let (target, terms) = target.map_err(ImportError::of_handle)?;
            UntypedImport::all(target, terms).await
        }
    }
}
