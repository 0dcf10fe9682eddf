//! The settings of a node.

mod remote;

use super::{End, Node};
use crate::carriers::Carriers;
use crate::dispatch::{Dispatcher, Listeners, OnLost, Settings};
use crate::drives;
use crate::error::{BuildError, Lost};
use crate::execution::Execution;
use crate::remote::Remote;
use crate::session::Terms;
use crate::setup::{
    conservative, execution, longest, place, program_id, sampling, statistics, stuck_after,
};
use crate::statistics::{Collected, Report, Statistics};
use crate::stuck::{self, Stuck};
use crate::sync;
use crate::wait::Waiting;
use crate::warning::memory_is_refused;
use std::cell::OnceCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use upbeat_core::bill::Counter;
use upbeat_core::limits::{BUDGET_BYTES, TAKEN_BYTES_MAX};
use upbeat_core::name::{NodeName, ProgramName};
use upbeat_memory::counters::Counters;
use upbeat_transport::local_node::{LocalNode, client_name};
use upbeat_transport::{local, shared};

/// The settings of a node.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use upbeat::{Node, Waiting};
///
/// let node = Node::builder("worker/3")
///     .program("doc")
///     .directory(std::env::temp_dir().join(format!("upbeat-doc-builder-{}", std::process::id())))
///     .waiting(Waiting::Adaptive)
///     .on_lost(|lost| eprintln!("{lost}"))
///     .build()?;
/// # let directory = std::env::temp_dir().join(format!("upbeat-doc-builder-{}", std::process::id()));
/// assert_eq!(node.name(), "worker/3");
/// # drop(node);
/// # std::fs::remove_dir_all(directory)?;
/// # Ok(()) }
/// ```
#[must_use = "a builder makes no node before `build`"]
pub struct Builder {
    /// None for a client, which gets a name of its own.
    name: Option<String>,
    program: Option<String>,
    waiting: Waiting,
    directory: Option<PathBuf>,
    local_only: bool,
    shared_memory: Option<bool>,
    sampling: Option<u32>,
    conservative: Option<bool>,
    execution: Option<Execution>,
    bounds: Bounds,
    on_lost: Option<OnLost>,
    stuck: stuck::Terms,
    undriven_period: Duration,
    statistics: Option<Option<Report>>,
    remote: Remote,
}

/// The limits for bytes of messages that a node holds.
struct Bounds {
    /// The bytes of requests of all sessions whose handlers have become tasks.
    budget: u64,
    /// The bytes of requests of one session, if not a quarter of the budget.
    session_budget: Option<u64>,
    /// The bytes of one message.
    longest: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { budget: BUDGET_BYTES, session_budget: None, longest: TAKEN_BYTES_MAX }
    }
}

impl Bounds {
    /// Returns the budget of one session.
    fn share(&self) -> u64 {
        self.session_budget.unwrap_or(self.budget.div_ceil(4))
    }
}

impl Builder {
    pub(super) fn new(name: Option<&str>) -> Builder {
        Builder {
            name: name.map(str::to_owned),
            program: None,
            waiting: Waiting::default(),
            directory: None,
            local_only: false,
            shared_memory: None,
            sampling: None,
            conservative: None,
            execution: None,
            bounds: Bounds::default(),
            on_lost: None,
            stuck: stuck::Terms::default(),
            undriven_period: drives::PERIOD,
            statistics: None,
            remote: Remote::default(),
        }
    }

    /// Sets the program that the node belongs to. Nodes of other programs cannot reach it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use upbeat::Node;
    ///
    /// let one = Node::builder("worker").program("doc-1").local_only().build()?;
    /// let two = Node::builder("worker").program("doc-2").local_only().build()?;
    /// assert_eq!(one.name(), two.name());
    /// # Ok(()) }
    /// ```
    pub fn program(mut self, program: &str) -> Builder {
        self.program = Some(program.to_owned());
        self
    }

    /// Sets how the node waits.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use upbeat::{Node, Waiting};
    ///
    /// let node = Node::builder("doc/polls").waiting(Waiting::Polling).local_only().build()?;
    /// # Ok(()) }
    /// ```
    pub fn waiting(mut self, waiting: Waiting) -> Builder {
        self.waiting = waiting;
        self
    }

    /// Samples one of so many messages for the bill, or none for 0. The default is
    /// the value of the environment variable `UPBEAT_SAMPLING`, or else 1,000, which costs less
    /// than one percent of the time of the shortest calls. `upbeat bill` shows the samples.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // Long calls, few of them: each is sampled.
    /// let node = upbeat::Node::builder("doc/samples").sampling(1).local_only().build()?;
    /// # Ok(()) }
    /// ```
    pub fn sampling(mut self, one_in: u32) -> Builder {
        self.sampling = Some(one_in);
        self
    }

    /// Limits the bytes of requests that the node has accepted and not finished: the arguments
    /// of handlers that have become tasks (their bytes in the message, or their memory if more was counted, up to the
    /// session's budget), and 256 bytes for each. Beyond the limit, requests wait until
    /// some have finished, and their senders wait with them. A session without such requests is
    /// still served, except for a request of more than 64 KiB, so that a caller who overloads a node does not shut
    /// out others. The default is
    /// 256 MiB.
    ///
    /// The same limit applies to replies that wait until their callers read; a call whose reply exceeds it
    /// fails. Before that, requests of a session with 2 MiB of waiting replies wait.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/budget").budget(1 << 20).local_only().build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// When the limit is 0.
    pub fn budget(mut self, bytes: u64) -> Builder {
        assert!(bytes > 0, "a node without a budget accepts nothing");
        self.bounds.budget = bytes;
        self
    }

    /// Limits the bytes of accepted requests of one session, as [`budget`](Builder::budget) does for the node. The
    /// default is a quarter of the node's budget.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/share").session_budget(64 << 10).local_only().build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// When the limit is 0.
    pub fn session_budget(mut self, bytes: u64) -> Builder {
        assert!(bytes > 0, "a session without a budget accepts nothing");
        self.bounds.session_budget = Some(bytes);
        self
    }

    /// Sets the bytes of the longest message that the node accepts: arguments of a request that it serves, or the
    /// result of a call that it makes. A longer message is not read, and no memory is allocated for it. A
    /// call with longer arguments fails at its caller with
    /// [`FailCode::ArgumentsTooLarge`](crate::error::FailCode::ArgumentsTooLarge), a call with a longer
    /// result with [`CallError::ResultTooLarge`](crate::CallError::ResultTooLarge), and a one-way
    /// message is dropped with a line on standard error. The default is 32 MiB. A method may accept
    /// less: `#[method(max_bytes = …)]`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // Images of up to 128 MiB.
    /// let builder = upbeat::Node::builder("doc/longest").max_message_bytes(128 << 20);
    /// let node = builder.local_only().build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// When the limit is less than 1 MiB, or more than 1 GiB.
    pub fn max_message_bytes(mut self, bytes: usize) -> Builder {
        self.bounds.longest = longest(bytes);
        self
    }

    /// Makes every request that does not fit a slot ask for room before it is sent. Otherwise such requests are
    /// sent at once, and ask for room after a refusal, which is faster; this setting is for comparison. The
    /// default is the value of the environment variable `UPBEAT_CONSERVATIVE`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/careful").conservative(true).local_only().build()?;
    /// # Ok(()) }
    /// ```
    pub fn conservative(mut self, conservative: bool) -> Builder {
        self.conservative = Some(conservative);
        self
    }

    /// Sets how the node runs the handlers of methods without an execution of their own. The default is
    /// the value of the environment variable `UPBEAT_EXECUTION` (`am`, `orpc`, `trpc`, `trpc-back` or
    /// `adaptive`), or else [`Execution::Orpc`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use upbeat::{Execution, Node};
    ///
    /// let builder = Node::builder("doc/adaptive").execution(Execution::Adaptive);
    /// let node = builder.local_only().build()?;
    /// # Ok(()) }
    /// ```
    pub fn execution(mut self, execution: Execution) -> Builder {
        self.execution = Some(execution);
        self
    }

    /// Sets the directory of the sockets, which must belong to this user and be writable by nobody else.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("counter").directory("/run/demo").build()?;
    /// # Ok(()) }
    /// ```
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Builder {
        self.directory = Some(directory.into());
        self
    }

    /// Keeps the node within its process: no other process can reach the node, and the node reaches none.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // No socket and no file.
    /// let node = upbeat::Node::builder("doc/local").local_only().build()?;
    /// # Ok(()) }
    /// ```
    pub fn local_only(mut self) -> Builder {
        self.local_only = true;
        self
    }

    /// Sets whether the node shares memory with other processes, which is the fastest way. Otherwise its sessions
    /// with them use byte streams of unix sockets, as between containers that have a socket in common and
    /// must not share memory, and the network at an address of this host; calls take some microseconds longer.
    /// The default is the value of the
    /// environment variable `UPBEAT_SHARED_MEMORY`, or else yes where both sides can; if the
    /// system refuses shared memory, a line on standard error says so once.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let directory = std::env::temp_dir().join(format!("upbeat-doc-memory-{}", std::process::id()));
    /// let builder = upbeat::Node::builder("doc/apart").directory(&directory);
    /// let node = builder.shared_memory(false).build()?;
    /// # drop(node);
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok(()) }
    /// ```
    pub fn shared_memory(mut self, shared: bool) -> Builder {
        self.shared_memory = Some(shared);
        self
    }

    /// Sets a function that is called for every session that ends, with how it ended.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = upbeat::Node::builder("doc/lost").local_only();
    /// let node = builder.on_lost(|lost| eprintln!("{lost}")).build()?;
    /// # Ok(()) }
    /// ```
    pub fn on_lost(mut self, on_lost: impl Fn(&Lost) + 'static) -> Builder {
        self.on_lost = Some(Box::new(on_lost));
        self
    }

    /// Reports waits in the types of [`sync`](crate::sync) that last longer than this, with
    /// the awaited lock or condition and its holder; zero reports none. The default is the value of the
    /// environment variable `UPBEAT_STUCK_MS`, in milliseconds, or else 10 seconds in debug builds
    /// and zero in others. Reports that are not wanted cost nothing.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let builder = upbeat::Node::builder("doc/stuck-after").local_only();
    /// let node = builder.stuck_after(Duration::from_secs(2)).build()?;
    /// # Ok(()) }
    /// ```
    pub fn stuck_after(mut self, limit: Duration) -> Builder {
        self.stuck.after = Some(limit);
        self
    }

    /// Sets how long the node may stay undriven before awaited futures are polled again; a few
    /// such polls in a row panic. This is for tests: there is no other reason to change it.
    #[doc(hidden)]
    pub fn undriven_period(mut self, period: Duration) -> Builder {
        self.undriven_period = period;
        self
    }

    /// Sets a function that is called with each wait that lasts too long, instead of a line on standard error. The
    /// function is called by the node itself, so it must not block.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = upbeat::Node::builder("doc/on-stuck").local_only();
    /// let node = builder.on_stuck(|stuck| println!("{stuck}")).build()?;
    /// # Ok(()) }
    /// ```
    pub fn on_stuck(mut self, on_stuck: impl Fn(&Stuck) + 'static) -> Builder {
        self.stuck.report = Some(Box::new(on_stuck));
        self
    }

    /// Counts the calls of each method and their outcomes, which
    /// [`Node::statistics`] returns at any time; when the node shuts down or is dropped, they are written to
    /// standard error, as a table. The default is the value of the environment variable
    /// `UPBEAT_STATISTICS`: `1`, `json` for a line of JSON, or `0`. A call then takes a few more
    /// instructions.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/with-statistics").local_only().statistics(true).build()?;
    /// node.shut_down(std::time::Duration::from_secs(1));
    /// # Ok(()) }
    /// ```
    pub fn statistics(mut self, statistics: bool) -> Builder {
        self.statistics = Some(statistics.then_some(Report::Text));
        self
    }

    /// Counts the calls of each method as [`statistics`](Builder::statistics) does, and calls this function with the
    /// counts when the node ends, instead of writing them.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = upbeat::Node::builder("doc/on-statistics").local_only();
    /// let node = builder.on_statistics(|told| println!("{}", told.to_json())).build()?;
    /// # Ok(()) }
    /// ```
    pub fn on_statistics(mut self, told: impl Fn(&Statistics) + 'static) -> Builder {
        self.statistics = Some(Some(Report::Call(Box::new(told))));
        self
    }

    /// Makes the node, and takes its name. Nodes of one process may share a name, if they have the same program and the
    /// same directory, or are all [local only](Builder::local_only): a new session goes to the node with the fewest. A
    /// name that another process has is refused.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = upbeat::Node::builder("doc/build").local_only().build()?;
    /// let other = upbeat::Node::builder("doc/build").local_only().build()?;
    /// assert_eq!(node.name(), other.name());
    /// # Ok(()) }
    /// ```
    pub fn build(self) -> Result<Node, BuildError> {
        let is_client = self.name.is_none();
        let name = match self.name {
            Some(name) => NodeName::new(&name).map_err(BuildError::Name)?,
            None => client_name().map_err(BuildError::Home)?,
        };
        let program = program_id(self.program.as_deref())?;
        let place = if self.local_only { None } else { Some(place(self.directory)?) };
        let carriers = Carriers::of(self.shared_memory);
        let remote = carriers.terms(self.remote, place.as_ref(), program.name(), Some(&name))?;
        let remote = remote
            .settled(program.name(), Some(&name))
            .map_err(|error| if is_client { of_client(error, program.name()) } else { error })?;
        let home = carriers.home(program, Some(name.clone()), !self.local_only);
        let home = home.map_err(BuildError::Home)?;
        home.unshared().into_iter().for_each(memory_is_refused);
        let counters = counters(&home)?;
        let shared = match &place {
            Some(place) => Some(shared::Listener::bind(place, &home).map_err(BuildError::Bind)?),
            None => None,
        };
        let local = local::Listener::bind(&home).map_err(BuildError::Bind)?;
        let listener = remote::listener(&remote, &home, self.local_only, is_client)?;
        let sampling = sampling(self.sampling)?;
        let stuck = stuck::Terms { after: stuck_after(self.stuck.after)?, ..self.stuck };
        let execution = execution(self.execution)?;
        let statistics = Collected::new(statistics(self.statistics)?);
        let Builder { waiting, on_lost, undriven_period, .. } = self;
        let Bounds { budget, longest, .. } = self.bounds;
        let optimistic = !conservative(self.conservative);
        let terms = Terms { optimistic, share: self.bounds.share(), longest };
        let settings = Settings {
            waiting,
            place,
            carriers,
            sampling,
            execution,
            budget,
            terms,
            on_lost,
            stuck,
            remote,
            undriven_period,
        };
        let inner = Dispatcher::new(home, settings, counters)?;
        sync::attach(&inner);
        inner.open_door(Listeners { shared, local: Some(local), remote: listener })?;
        let end = Rc::new(End { inner: Rc::clone(&inner), statistics, exports: OnceCell::new() });
        Ok(Node { inner: inner.into(), end: end.into() })
    }
}

/// Returns the error of a client whose identity covers other nodes: its own name is a random one.
fn of_client(error: BuildError, program: &ProgramName) -> BuildError {
    match error {
        BuildError::OtherIdentity { path, names, .. } => {
            let wanted = format!("clients of program `{program}` (`client/*`)");
            BuildError::OtherIdentity { path, names, wanted }
        }
        error => error,
    }
}

/// Returns the counters of a node, which observers can see unless memory cannot be shared.
fn counters(home: &LocalNode) -> Result<Counters, BuildError> {
    let node = home.name().map(ToString::to_string).unwrap_or_default();
    let names = format!("{node}\n{}", home.program().name());
    let counters = match Counters::create(Counter::COUNT, &names, home.incarnation()) {
        Err(error) if error.is_refused() => {
            Counters::heap(Counter::COUNT, &names, home.incarnation())
        }
        counters => counters.map_err(|error| BuildError::Home(error.into()))?,
    };
    Ok(counters.named(Counter::NAMES))
}

#[cfg(test)]
mod tests;
