//! The counts of a node: open sessions, counters, samples.

use super::Node;
use crate::dispatch::OverRun;
use crate::statistics::Statistics;
use upbeat_core::bill::Counter;

impl Node {
    /// Returns the number of open sessions.
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

    /// Returns the number of open streams in sessions in which this node serves: results of its methods that are not
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

    /// Returns the methods whose handlers have run beyond their budgets without a pause, and tasks that have kept the
    /// node from everything else. Time in which the machine ran other threads does not count. The node checks that
    /// where a handler continues as a task, where its message is sampled, where its method has a rule of its own,
    /// and after any longer gap between two readings of its clock. A line on standard error reports it as well, the
    /// first time and whenever the longest run is of another order of magnitude.
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

    /// Returns the calls of each method and their outcomes so far, if the node was built with
    /// [`statistics`](crate::Builder::statistics), and no methods otherwise.
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

    /// Returns the value of a counter.
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

    /// Returns the bytes that nodes and handles of other hosts make this node hold now, within
    /// [their limit](crate::Builder::remote_bytes).
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

    /// Samples one of so many messages for the bill from now on, or none for 0.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/set-sampling").local_only().build()?;
    /// // Every message is sampled during a search for a problem.
    /// node.set_sampling(1);
    /// assert_eq!(node.sampling(), 1);
    /// # Ok(()) }
    /// ```
    pub fn set_sampling(&self, one_in: u32) {
        self.inner.sampling().set(one_in);
    }

    /// Returns the `n` of one sampled message in `n`, or 0 for none.
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
