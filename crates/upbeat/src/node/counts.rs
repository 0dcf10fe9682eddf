//! What a node says of itself: what is open, what was counted, what is sampled.

use super::Node;
use crate::dispatch::OverRun;
use crate::statistics::Statistics;
use upbeat_core::bill::Counter;

impl Node {
    /// Sessions that are open.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/sessions").local_only().build()?;
    /// assert_eq!(node.sessions(), 0);
    /// # Ok(()) }
    /// ```
    pub fn sessions(&self) -> usize {
        self.inner.sessions().len()
    }

    /// Streams that are open in sessions in which this node serves: results of its methods that are not
    /// read to their ends, and arguments.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/streams").local_only().build()?;
    /// assert_eq!(node.streams(), 0);
    /// # Ok(()) }
    /// ```
    pub fn streams(&self) -> usize {
        self.inner.streams_open()
    }

    /// The methods whose handlers have run beyond their budgets without a pause. That is looked at
    /// where a handler goes on as a task, where its message is sampled, and where its method has a
    /// rule of its own; the first time it is said on standard error as well.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/over").local_only().build()?;
    /// assert!(node.over_runs().is_empty());
    /// # Ok(()) }
    /// ```
    pub fn over_runs(&self) -> Vec<OverRun> {
        self.inner.over_runs()
    }

    /// What each method was called for so far, if the node was built with
    /// [`statistics`](crate::Builder::statistics); no method if it was not.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/statistics").local_only().statistics(true).build()?;
    /// print!("{}", node.statistics());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.end.read()
    }

    /// What has been counted so far.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use upbeat::Counter;
    ///
    /// let node = upbeat::Node::builder("doc/counted").local_only().build()?;
    /// assert_eq!(node.counted(Counter::PromotedByOther), 0);
    /// # Ok(()) }
    /// ```
    pub fn counted(&self, counter: Counter) -> u64 {
        self.inner.counted(counter)
    }

    /// The bytes that nodes and handles of other hosts make this node hold now, of those that
    /// [they may](crate::Builder::remote_bytes).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/remote-bytes").local_only().build()?;
    /// assert_eq!(node.remote_bytes(), 0);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn remote_bytes(&self) -> u64 {
        self.inner.remote_bytes()
    }

    /// Has one message in so many sampled for the bill from now on; 0 for none.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/set-sampling").local_only().build()?;
    /// // Every message, while something is looked for.
    /// node.set_sampling(1);
    /// assert_eq!(node.sampling(), 1);
    /// # Ok(()) }
    /// ```
    pub fn set_sampling(&self, one_in: u32) {
        self.inner.sampling().set(one_in);
    }

    /// One message in so many is sampled for the bill; 0 for none.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/sampling").local_only().sampling(0).build()?;
    /// assert_eq!(node.sampling(), 0);
    /// # Ok(()) }
    /// ```
    pub fn sampling(&self) -> u32 {
        self.inner.sampling().every()
    }
}
