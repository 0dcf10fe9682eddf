//! Exports of this node, and imports of those of other nodes.

use super::Node;
use crate::error::ConnectError;
use crate::export::{
    Export, ExportError, ExportMemory, Exports, GuardedExport, Import, ImportError, LimitedExports,
    NodeExportsClient, NodeExportsServer, Owner, Path, Shared, UntypedImport,
};
use crate::handle::{BoundHandle, ConnectTerms};
use crate::service::WithCaller;
use std::future::Future;
use std::rc::Rc;
use upbeat_core::channel::export::{Consistency, Readers};

impl Node {
    /// Exports a value: nodes of the same program read it, and this node alone writes it. The name is one segment of
    /// letters, digits, `_`, `-` and `.`.
    ///
    /// ```
    /// #[derive(upbeat::Shared)]
    /// struct Quotes {
    ///     count: u64,
    ///     book: [Row; 100],
    /// }
    ///
    /// #[derive(upbeat::Shared)]
    /// struct Row {
    ///     bid: f64,
    ///     ask: f64,
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/export").local_only().build()?;
    /// let book = std::array::from_fn(|_| Row { bid: 0.0, ask: 0.0 });
    /// let quotes = node.export("quotes", Quotes { count: 0, book })?;
    ///
    /// quotes.count().set(1);
    /// quotes.book().index(7).update(|row| {
    ///     row.bid().set(1.05);
    ///     row.ask().set(1.07);
    /// });
    /// # Ok(()) }
    /// ```
    pub fn export<T: Shared>(&self, name: &str, value: T) -> Result<Export<T>, ExportError> {
        self.exports()?.export(name, &value, Consistency::Cell, Readers::everybody())
    }

    /// Exports a value that is built where readers find it: `fill` sets its parts, all of which are zero, `false`, empty or
    /// absent before. Readers see nothing of it until `fill` has returned. A value of any size is exported in this way,
    /// from a thread with a small stack, where [`export`](Self::export) has the whole value on the stack.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/export_with").local_only().build()?;
    /// let squares = node.export_with::<[u64; 1 << 20]>("squares", |squares| {
    ///     squares.set_each(|index| (index * index) as u64);
    /// })?;
    /// assert_eq!(squares.index(3).get(), 9);
    /// # Ok(()) }
    /// ```
    pub fn export_with<T: Shared>(
        &self,
        name: &str,
        fill: impl FnOnce(&Path<&Owner, T>),
    ) -> Result<Export<T>, ExportError> {
        self.exports()?.export_with(name, fill, Consistency::Cell, Readers::everybody())
    }

    /// Exports a value that is built where readers find it, as by [`export_with`](Self::export_with), and whose parts are
    /// consistent with each other, as by [`export_guarded`](Self::export_guarded).
    pub fn export_guarded_with<T: Shared>(
        &self,
        name: &str,
        fill: impl FnOnce(&Path<&Owner, T>),
    ) -> Result<GuardedExport<T>, ExportError> {
        let readers = Readers::everybody();
        let export = self.exports()?.export_with(name, fill, Consistency::Guarded, readers)?;
        Ok(GuardedExport::new(export))
    }

    /// Exports a value that is built where readers find it, as by [`export_with`](Self::export_with), without versions, as
    /// by [`export_raw`](Self::export_raw).
    pub fn export_raw_with<T: Shared>(
        &self,
        name: &str,
        fill: impl FnOnce(&Path<&Owner, T>),
    ) -> Result<Export<T>, ExportError> {
        self.exports()?.export_with(name, fill, Consistency::Raw, Readers::everybody())
    }

    /// Returns the memory that this node's exports have.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/export_memory").local_only().build()?;
    /// let count = node.export("count", 1_u64)?;
    /// let memory = node.export_memory();
    /// assert!(memory.live > 0 && memory.held <= 4 * memory.live + (1 << 20));
    /// drop(count);
    /// assert_eq!(node.export_memory().live, 0);
    /// # Ok(()) }
    /// ```
    pub fn export_memory(&self) -> ExportMemory {
        self.end.exports.get().map(|exports| exports.memory()).unwrap_or_default()
    }

    /// Exports a value whose parts readers find consistent with each other, whatever parts they read in a
    /// [snapshot](Import::snapshot). The owner changes it under a lock, which its tasks and handlers may hold over an
    /// `await`. Readers never wait for that lock: they find the value as it was when the lock was last given back.
    ///
    /// The value takes twice the memory. When the owner dies, it leaves the value of its last complete change.
    ///
    /// ```
    /// # #[derive(upbeat::Shared)]
    /// # struct Totals {
    /// #     bought: u64,
    /// #     sold: u64,
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/guarded").local_only().build()?;
    /// let totals = node.export_guarded("totals", Totals { bought: 0, sold: 0 })?;
    /// node.block_on(async {
    ///     let totals = totals.lock().await;
    ///     totals.bought().set(5);
    ///     totals.sold().set(5);
    /// });
    /// # Ok(()) }
    /// ```
    pub fn export_guarded<T: Shared>(
        &self,
        name: &str,
        value: T,
    ) -> Result<GuardedExport<T>, ExportError> {
        let readers = Readers::everybody();
        let export = self.exports()?.export(name, &value, Consistency::Guarded, readers)?;
        Ok(GuardedExport::new(export))
    }

    /// Exports a value without versions, which is the cheapest to write: a reader finds each number whole, and nothing
    /// larger.
    pub fn export_raw<T: Shared>(&self, name: &str, value: T) -> Result<Export<T>, ExportError> {
        self.exports()?.export(name, &value, Consistency::Raw, Readers::everybody())
    }

    /// Limits exports to the nodes of these names: `risk`, or `worker/*` for all nodes below `worker/`. Other nodes and
    /// handles can neither open nor read nor list them, and do not map their memory.
    ///
    /// A node of this host proves its name by holding the lock of that name in its process, and a node of another host by
    /// its identity: over `insecure_plaintext` nobody reads such an export. A handle has no name.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/export_for").local_only().build()?;
    /// let limits = node.export_for(["risk", "desk/*"])?.export("limits", [0_u64; 8])?;
    /// limits.index(3).set(1000);
    ///
    /// let risk = upbeat::Node::builder("risk").local_only().build()?;
    /// let refused = node.block_on(node.import::<[u64; 8]>("doc/export_for/limits"));
    /// assert!(refused.is_err(), "this node is not named");
    /// # drop(risk);
    /// # Ok(()) }
    /// ```
    pub fn export_for<N: AsRef<str>>(
        &self,
        readers: impl IntoIterator<Item = N>,
    ) -> Result<LimitedExports<'_>, ExportError> {
        LimitedExports::new(self.exports()?, readers)
    }

    /// Returns the exports of this node, which it serves from now on.
    fn exports(&self) -> Result<&Rc<Exports>, ExportError> {
        if let Some(exports) = self.end.exports.get() {
            return Ok(exports);
        }
        let exports = Rc::new(Exports::new(self.inner.random() as u32));
        let server = NodeExportsServer::shared(Rc::clone(&exports));
        self.serve(WithCaller(server)).map_err(ExportError::Serve)?;
        Ok(self.end.exports.get_or_init(|| exports))
    }

    /// Imports a value that another node exports, by the names of the node and of the export, such as `prices/quotes`, or
    /// `prices@host:7000/quotes` on another host.
    ///
    /// ```no_run
    /// # #[derive(upbeat::Shared)]
    /// # struct Quotes {
    /// #     count: u64,
    /// #     book: [Row; 100],
    /// # }
    /// # #[derive(upbeat::Shared)]
    /// # struct Row {
    /// #     bid: f64,
    /// #     ask: f64,
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::new("reader")?;
    /// node.block_on(async {
    ///     let quotes = node.import::<Quotes>("prices/quotes").await?;
    ///     println!("{} to {}", quotes.book().index(7).bid().read().await?, quotes.count().read().await?);
    ///     let row = quotes.book().index(7).read().await?;
    ///     assert!(row.bid <= row.ask, "a row is read whole");
    ///     Ok::<_, Box<dyn std::error::Error>>(())
    /// })?;
    /// # Ok(()) }
    /// ```
    pub async fn import<T: Shared>(&self, name: &str) -> Result<Import<T>, ImportError> {
        let parts = name.rsplit_once('/');
        let (node, export) = parts.ok_or_else(|| ImportError::Name { name: name.into() })?;
        let no_export = |error: ConnectError| ImportError::of_connect(error, name);
        // Other threads call by a handle of all imports from that node, which opens its session at its first call.
        let owner = BoundHandle::shared(self.target(node).map_err(no_export)?);
        let client: NodeExportsClient = self.connect(node).await.map_err(no_export)?;
        Import::by_node(client, owner, self.inner.lost_reads(), name, export).await
    }

    /// Lists what another node exports, for a reader that learns the types when it runs.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::new("lister")?;
    /// node.block_on(async {
    ///     for export in node.exports_of("prices").await? {
    ///         let shape = export.shape()?;
    ///         println!("{}: {shape}, {} bytes", export.name(), 8 * shape.words());
    ///         // The path is the one of a user.
    ///         let bid = shape.resolve("book[7].bid")?;
    ///         println!("{}", export.read(&bid).await?);
    ///     }
    ///     Ok::<_, Box<dyn std::error::Error>>(())
    /// })?;
    /// # Ok(()) }
    /// ```
    pub fn exports_of(
        &self,
        node: &str,
    ) -> impl Future<Output = Result<Vec<UntypedImport>, ImportError>> + Send + use<> {
        let target = self.target(node);
        async move {
            let target = target.map_err(ImportError::Connect)?;
            UntypedImport::all(target, ConnectTerms::default()).await
        }
    }
}
