//! Waits that last too long: what is reported of them, and to whom.
//!
//! Left to others: the types of [`sync`](crate::sync) say what they are, who holds them and where, and
//! measure the wait; a node says when it asks ([`Builder::stuck_after`](crate::Builder::stuck_after)), and who
//! is being run.
//!
//! Invariant: a report changes nothing: who waits waits on.

use crate::wake;
use crate::warning::warn;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;
use upbeat_sync::Awaited;

/// Is called with every report.
pub(crate) type OnStuck = Box<dyn Fn(&Stuck)>;

/// When waits are reported, and to whom.
#[derive(Default)]
pub(crate) struct Terms {
    /// Those that last longer. None are where this is nothing.
    pub(crate) after: Option<Duration>,
    /// Instead of standard error.
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

/// A wait that lasts longer than [`Builder::stuck_after`](crate::Builder::stuck_after) says. It is
/// reported again when it has lasted twice as long, and so on.
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
///     // Who holds a lock and waits for it once more waits for ever.
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
    /// Who waits.
    pub who: Who,
    /// For what.
    pub what: Awaited,
    /// By what name the application calls that, if it does.
    pub name: Option<Arc<str>>,
    /// Where in the source it began to.
    pub at: &'static Location<'static>,
    /// For how long so far.
    pub waited: Duration,
    /// Who has it, as far as that is known: what was taken before waits were watched is not.
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

/// Who is run.
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
    /// The future that drives the node.
    Main,
    /// A task of the application's, by a number that it has alone while it lives.
    Task(u64),
    /// A handler, also as a task.
    Handler {
        /// The name of the service.
        service: &'static str,
        /// The name of the method.
        method: &'static str,
    },
    /// None of the node's.
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
            Who::Other => f.write_str("somebody else"),
        }
    }
}

/// Somebody who has what another waits for.
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
    /// Who it was when it was taken; a guard may have been given on.
    pub who: Who,
    /// Where in the source it was taken.
    pub at: &'static Location<'static>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} since {}", self.who, self.at)
    }
}
