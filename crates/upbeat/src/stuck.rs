//! Reports of waits that last too long.
//!
//! The types of [`sync`](crate::sync) name themselves and their holders, and measure the wait. A node says after what
//! time it asks for reports ([`Builder::stuck_after`](crate::Builder::stuck_after)), and which future runs.
//!
//! Invariant: a report changes nothing: the waiter waits on.

use crate::wake;
use crate::warning::warn;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;
use upbeat_sync::Awaited;

/// The function that is called with every report.
pub(crate) type OnStuck = Box<dyn Fn(&Stuck)>;

/// The settings of reports.
#[derive(Default)]
pub(crate) struct Terms {
    /// The time after which a wait is reported; None means never.
    pub(crate) after: Option<Duration>,
    /// The receiver of reports; None means standard error.
    pub(crate) report: Option<OnStuck>,
}

impl Terms {
    pub(crate) fn report(&self, stuck: &Stuck) {
        match &self.report {
            Some(report) => report(stuck),
            None => warn(format_args!("{stuck}")),
        }
    }
}

/// A wait that lasts longer than [`Builder::stuck_after`](crate::Builder::stuck_after) says. The wait is reported
/// again when it has lasted twice as long, and so on.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::cell::RefCell;
/// use std::rc::Rc;
/// use std::time::Duration;
/// use upbeat::sync::{Awaited, Mutex, Who};
///
/// let reports = Rc::new(RefCell::new(Vec::new()));
/// let reported = Rc::clone(&reports);
/// let builder = upbeat::Node::builder("doc/stuck").local_only();
/// let node = builder
///     .stuck_after(Duration::from_millis(1))
///     .on_stuck(move |stuck| reported.borrow_mut().push(stuck.clone()))
///     .build()?;
/// let accounts = Mutex::named("accounts", ());
/// node.block_on(async {
///     let _held = accounts.lock().await;
///     // A task that locks a mutex twice waits forever.
///     assert!(upbeat::within(Duration::from_millis(20), accounts.lock()).await.is_err());
/// });
/// let stuck = &reports.borrow()[0];
/// assert_eq!((stuck.what, stuck.name.as_deref()), (Awaited::Mutex, Some("accounts")));
/// assert_eq!((&stuck.who, &stuck.holders[0].who), (&Who::Main, &Who::Main));
/// assert_eq!(stuck.holders[0].at.line() + 2, stuck.at.line());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stuck {
    /// The node's name.
    pub node: String,
    /// The waiter.
    pub who: Who,
    /// The kind of thing that it waits for.
    pub what: Awaited,
    /// The application's name for that thing, if it has one.
    pub name: Option<Arc<str>>,
    /// The place in the source where the wait began.
    pub at: &'static Location<'static>,
    /// The time that the wait has lasted so far.
    pub waited: Duration,
    /// The holders, as far as they are known. A holder from before waits were watched is not known.
    pub holders: Vec<Holder>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stuck { node, who, what, at, waited, .. } = self;
        write!(f, "{who} of node `{node}` has waited for {waited:.1?} for {what}")?;
        if let Some(name) = &self.name {
            write!(f, " `{name}`")?;
        }
        write!(f, ", at {at}")?;
        for (index, holder) in self.holders.iter().enumerate() {
            write!(f, "{} {holder}", if index == 0 { "; held by" } else { "," })?;
        }
        Ok(())
    }
}

/// The future that runs.
///
/// ```
/// use upbeat::sync::Who;
///
/// let who = Who::Handler { service: "Bank", method: "transfer" };
/// assert_eq!(who.to_string(), "the handler of `Bank.transfer`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Who {
    /// The main future, which drives the node.
    Main,
    /// A task of the application, by a number that is unique while the task lives.
    Task(u64),
    /// A handler, also one that has become a task.
    Handler {
        /// The name of the service.
        service: &'static str,
        /// The name of the method.
        method: &'static str,
    },
    /// No future of the node.
    Other,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Main => f.write_str("the main future"),
            Who::Task(number) => {
                let place = wake::place(*number);
                write!(f, "task {}.{}", place.index, place.generation)
            }
            Who::Handler { service, method } => {
                write!(f, "the handler of `{service}.{method}`")
            }
            Who::Other => f.write_str("a future outside of the node"),
        }
    }
}

/// The holder of something that another future waits for.
///
/// ```
/// use std::panic::Location;
/// use upbeat::sync::{Holder, Who};
///
/// let holder = Holder { who: Who::Main, at: Location::caller() };
/// assert!(holder.to_string().starts_with("the main future since "));
/// ```
#[derive(Clone, Debug)]
pub struct Holder {
    /// The future that took it; a guard may have been passed on since.
    pub who: Who,
    /// The place in the source where it was taken.
    pub at: &'static Location<'static>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} since {}", self.who, self.at)
    }
}
