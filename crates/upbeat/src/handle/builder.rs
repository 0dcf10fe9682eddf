//! The settings of a handle.

use super::{BoundHandle, ConnectTerms, HandleClient, HandleError, Target, open, pages};
use crate::call::Until;
use crate::carriers::Carriers;
use crate::error::ConnectError;
use crate::remote::Remote;
use crate::setup::{longest, place, program_id, sampling};
use crate::wait::Waiting;
use std::path::PathBuf;
use std::time::Duration;
use upbeat_core::address::NodeAddress;
use upbeat_core::limits::TAKEN_BYTES_MAX;
use upbeat_environment::time::now_ns;

/// Returns a builder of a handle.
///
/// ```no_run
/// # #[upbeat::service]
/// # pub trait Counter {
/// #     async fn add(&self, n: u64) -> u64;
/// #     #[oneway]
/// #     async fn reset(&self);
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use upbeat::Waiting;
///
/// let builder = upbeat::handle::builder().program("demo").waiting(Waiting::Polling);
/// let counter: CounterHandle = builder.connect("counter")?;
/// # Ok(()) }
/// ```
pub fn builder() -> HandleBuilder {
    HandleBuilder {
        program: None,
        directory: None,
        waiting: Waiting::default(),
        connect_within: None,
        call_deadline: None,
        wait_for: None,
        longest: TAKEN_BYTES_MAX,
        shared_memory: None,
        sampling: None,
        remote: Remote::default(),
    }
}

/// The settings of a handle.
#[must_use = "a builder makes no handle before `connect`"]
pub struct HandleBuilder {
    program: Option<String>,
    directory: Option<PathBuf>,
    waiting: Waiting,
    connect_within: Option<Duration>,
    call_deadline: Option<Duration>,
    wait_for: Option<Duration>,
    longest: usize,
    shared_memory: Option<bool>,
    sampling: Option<u32>,
    pub(super) remote: Remote,
}

impl HandleBuilder {
    /// Sets the program of the node that is called.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let counter: CounterHandle = upbeat::handle::builder().program("demo").connect("counter")?;
    /// # Ok(()) }
    /// ```
    pub fn program(mut self, program: &str) -> HandleBuilder {
        self.program = Some(program.to_owned());
        self
    }

    /// Sets the directory of the sockets.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = upbeat::handle::builder().directory("/run/demo");
    /// let counter: CounterHandle = builder.connect("counter")?;
    /// # Ok(()) }
    /// ```
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> HandleBuilder {
        self.directory = Some(directory.into());
        self
    }

    /// Sets how blocking calls wait. An awaited call also polls for its reply, if this setting says so and polling has
    /// paid lately, but for 20 us at most: then the task sleeps until its reply wakes it.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = upbeat::handle::builder().waiting(upbeat::Waiting::Sleeping);
    /// let counter: CounterHandle = builder.connect("counter")?;
    /// # Ok(()) }
    /// ```
    pub fn waiting(mut self, waiting: Waiting) -> HandleBuilder {
        self.waiting = waiting;
        self
    }

    /// Sets the bytes of the longest result that calls of the handle accept. A longer result is not read, no memory is
    /// allocated for it, and its call fails with [`CallError::ResultTooLarge`](crate::CallError::ResultTooLarge).
    /// The default is 32 MiB.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = upbeat::handle::builder().max_message_bytes(128 << 20);
    /// let counter: CounterHandle = builder.connect("counter")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// When it is less than 1 MiB, or more than 1 GiB.
    pub fn max_message_bytes(mut self, bytes: usize) -> HandleBuilder {
        self.longest = longest(bytes);
        self
    }

    /// Sets whether the handle shares memory with the node's process, as
    /// [`Builder::shared_memory`](crate::Builder::shared_memory) does for a node.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = upbeat::handle::builder().shared_memory(false);
    /// let counter: CounterHandle = builder.connect("counter")?;
    /// # Ok(()) }
    /// ```
    pub fn shared_memory(mut self, shared: bool) -> HandleBuilder {
        self.shared_memory = Some(shared);
        self
    }

    /// Samples one of so many messages for the bill, or none for 0, as
    /// [`Builder::sampling`](crate::Builder::sampling) does. `upbeat bill` shows them under `a handle of` the
    /// node's name.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let counter: CounterHandle = upbeat::handle::builder().sampling(1).connect("counter")?;
    /// # Ok(()) }
    /// ```
    pub fn sampling(mut self, one_in: u32) -> HandleBuilder {
        self.sampling = Some(one_in);
        self
    }

    /// Limits the time to connect. When it is over, connecting fails with
    /// [`CallError::Deadline`](crate::CallError::Deadline). Deadlines of calls are set by
    /// [`call_deadline`](HandleBuilder::call_deadline).
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let builder = upbeat::handle::builder().connect_within(Duration::from_millis(500));
    /// let counter: CounterHandle = builder.connect("counter")?;
    /// # Ok(()) }
    /// ```
    pub fn connect_within(mut self, time: Duration) -> HandleBuilder {
        self.connect_within = Some(time);
        self
    }

    /// Sets the deadline of each call of the handle that sets none by [`Blocking::deadline`](super::Blocking::deadline) or
    /// [`CallFuture::deadline`](crate::call::CallFuture::deadline). The time counts from when the call is made. Without
    /// this, such calls wait for their replies as long as their session stands.
    ///
    /// A blocking one-way message waits for room for so long at most. An awaited one has no deadline.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let builder = upbeat::handle::builder().call_deadline(Duration::from_secs(2));
    /// let counter: CounterHandle = builder.connect("counter")?;
    /// // For 2 s at most.
    /// println!("{}", counter.blocking().add(1)?);
    /// // For 10 s at most.
    /// println!("{}", counter.blocking().deadline(Duration::from_secs(10)).add(1)?);
    /// # Ok(()) }
    /// ```
    pub fn call_deadline(mut self, after: Duration) -> HandleBuilder {
        self.call_deadline = Some(after);
        self
    }

    /// Waits for so long at most if the node is not there yet, if it starts or shuts down, if its host cannot be
    /// reached, or if it does not serve the service yet: as [`Connect::wait_for`](crate::Connect::wait_for) does for
    /// a client of a node. The calls of the handle wait for so long too, when its session was lost.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let builder = upbeat::handle::builder().wait_for(Duration::from_secs(10));
    /// let counter: CounterHandle = builder.connect("counter")?;
    /// # Ok(()) }
    /// ```
    pub fn wait_for(mut self, time: Duration) -> HandleBuilder {
        self.wait_for = Some(time);
        self
    }

    /// Connects to a node, and compares the methods. Blocks the calling thread.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let counter: CounterHandle = upbeat::handle::builder().connect("counter")?;
    /// println!("{}", counter.blocking().add(1)?);
    /// # Ok(()) }
    /// ```
    pub fn connect<C: HandleClient>(self, name: &str) -> Result<C, HandleError> {
        let (target, terms) = self.target(name)?;
        Ok(open(target, terms)?)
    }

    /// Connects to a node without blocking the thread, in any async runtime: a thread of the handle connects, and
    /// afterwards serves its awaited calls. Dropping the future gives the connection up.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// # }
    /// use std::time::Duration;
    /// use upbeat::handle::HandleError;
    ///
    /// async fn counter() -> Result<CounterHandle, HandleError> {
    ///     let builder = upbeat::handle::builder().wait_for(Duration::from_secs(10));
    ///     builder.connect_async("counter").await
    /// }
    /// ```
    pub fn connect_async<C: HandleClient>(
        self,
        name: &str,
    ) -> impl Future<Output = Result<C, HandleError>> + Send + use<C> {
        let target = self.target(name);
        async move {
            let (target, terms) = target?;
            Ok(BoundHandle::connected(target, terms).await?)
        }
    }

    /// Returns the node that is called, and how long the handle tries to connect.
    pub(crate) fn target(self, name: &str) -> Result<(Target, ConnectTerms), HandleError> {
        let to = NodeAddress::new(name).map_err(ConnectError::from)?;
        let program = program_id(self.program.as_deref())?;
        let place = Some(place(self.directory)?);
        let until = self.connect_within.map(|after| Until::after(now_ns(), after));
        let (waiting, longest) = (self.waiting, self.longest);
        let carriers = Carriers::of(self.shared_memory);
        let sampling = sampling(self.sampling)?;
        let pages = pages(&to, program.name(), place.is_some());
        let remote = carriers.terms(self.remote, place.as_ref(), program.name(), None)?;
        let remote = remote.settled(program.name(), None)?;
        let wait_for = self.wait_for;
        let target = Target {
            program,
            place,
            carriers,
            to,
            remote,
            waiting,
            longest,
            sampling,
            pages,
            wait_for,
            call_deadline: self.call_deadline,
        };
        let terms = target.terms(until);
        Ok((target, terms))
    }
}
