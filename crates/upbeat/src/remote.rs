//! Connections to nodes of other hosts: their terms, and how addresses are found and tried.
//!
//! Invariant: data goes over a network unprotected only if the application has said that this is safe there.

#[cfg(test)]
pub(crate) mod tests;

mod attempts;

mod lookup;

mod again;

use crate::error::BuildError;
use crate::warning::warn;
use std::fmt::Arguments;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use upbeat_core::admission;
use upbeat_core::limits::{
    PEER_TIMEOUT_MS, REMOTE_BYTES, REMOTE_MESSAGES_MIN, REMOTE_SESSIONS_MAX, RESUME_WITHIN_MS,
};
use upbeat_core::name::{NodeName, ProgramName};
use upbeat_core::quota::Quota;
use upbeat_environment::time::Instant;
use upbeat_environment::time::calendar;
use upbeat_environment::turns::{Mutex, MutexGuard};
use upbeat_transport::identity::Identity;
use upbeat_transport::remote::RemoteOptions;

pub(crate) use again::{Addresses, Place};
pub(crate) use attempts::{Attempts, is_worth_waiting, own_times};
pub(crate) use lookup::{lookup, not_answered, resolve};

/// The environment variable with the identity of a node or a handle, if the application gives none.
const IDENTITY_VARIABLE: &str = "UPBEAT_IDENTITY";

/// The time between two checks of an identity's file.
const REFRESH: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A warning is printed if an identity is valid for less than this time.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// The time of this process's last warning about an identity.
static WARNED: Mutex<Option<Instant>> = Mutex::new(None);

/// The settings with which a node, or a handle, meets nodes of other hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remote {
    /// The node's certificate, and the authorities that it trusts: messages go under TLS.
    pub(crate) identity: Option<Identity>,
    /// The address at which the node listens.
    pub(crate) listen: Option<String>,
    /// Whether messages may go in plaintext.
    pub(crate) plaintext: bool,
    /// The time after which a connection is closed whose peer does not answer.
    pub(crate) peer_timeout: Option<Duration>,
    /// The limits of callers from other hosts at a node that listens.
    pub(crate) gate: admission::Terms,
    /// The most sessions of the node with other hosts.
    pub(crate) sessions: Option<usize>,
    /// The most bytes that peers may make the node hold.
    pub(crate) bytes: Option<u64>,
    /// The time for which a session outlives its connection.
    pub(crate) resume_within: Option<Duration>,
    /// The time of the last check of the identity's file.
    looked: Arc<Mutex<Option<Instant>>>,
}

impl Remote {
    /// Returns the settings of the application, or of the environment, after checking that they fit the node, or a
    /// handle, which has no name.
    pub(crate) fn settled(
        mut self,
        program: &ProgramName,
        name: Option<&NodeName>,
    ) -> Result<Remote, BuildError> {
        if self.identity.is_some() && self.plaintext {
            return Err(BuildError::Protection);
        }
        if !self.plaintext
            && self.identity.is_none()
            && let Some(path) = std::env::var_os(IDENTITY_VARIABLE)
        {
            self.identity = Some(Identity::load(path).map_err(BuildError::Identity)?);
        }
        if let Some(identity) = &self.identity
            && (identity.program() != program || !identity.names().covers(name))
        {
            let (path, names) = (identity.path().to_owned(), identity.names().to_string());
            let wanted = match name {
                Some(name) => format!("node `{name}` of program `{program}`"),
                None => format!("handles of program `{program}`"),
            };
            return Err(BuildError::OtherIdentity { path, names, wanted });
        }
        self.refresh();
        Ok(self)
    }

    /// Returns whether connections that handles open with both settings are alike.
    pub(crate) fn is_equal(&self, other: &Remote) -> bool {
        let settings = |of: &Remote| (of.plaintext, of.peer_timeout, of.resume_within, of.bytes);
        let identity = match (&self.identity, &other.identity) {
            (Some(one), Some(other)) => one.is_equal(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        identity && settings(self) == settings(other)
    }

    /// Returns the most sessions of the node with other hosts.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.unwrap_or(REMOTE_SESSIONS_MAX)
    }

    /// Returns the limit of the bytes that peers may make the node hold, which admits messages of up to `longest`
    /// bytes.
    pub(crate) fn quota(&self, longest: usize) -> Quota {
        let most = REMOTE_BYTES.max(REMOTE_MESSAGES_MIN * longest as u64);
        Quota::new(self.bytes.unwrap_or(most))
    }

    /// Returns whether the settings do not say how messages are protected.
    pub(crate) fn is_unprotected(&self) -> bool {
        self.identity.is_none() && !self.plaintext
    }

    /// Returns the settings of connections. An identity whose file was replaced is loaded again.
    pub(crate) fn terms(&self) -> RemoteOptions {
        self.refresh();
        // A time below a millisecond must not become zero.
        let milliseconds =
            |time: Duration| u32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX);
        let peer_timeout_ms = self.peer_timeout.map_or(PEER_TIMEOUT_MS, milliseconds);
        let resume_within_ms = self.resume_within.map_or(RESUME_WITHIN_MS, milliseconds);
        RemoteOptions { identity: self.identity.clone(), peer_timeout_ms, resume_within_ms }
    }

    /// Loads an identity again whose file was replaced, and warns if it expires soon. The file is checked once in a
    /// while.
    pub(crate) fn refresh(&self) {
        let Some(identity) = &self.identity else { return };
        if !is_due(&self.looked, REFRESH) {
            return;
        }
        if let Err(error) = identity.reload() {
            return warn_daily(format_args!("the identity was not replaced: {error}"));
        }
        let left = identity.expires_in(calendar());
        let when = match left.as_secs() / DAY.as_secs() {
            _ if left >= SOON => return,
            _ if left.is_zero() => "has expired".to_owned(),
            0 => "expires in less than a day".to_owned(),
            days => format!("expires in {days} days"),
        };
        let path = identity.path().display();
        let advice = "issue it anew with `upbeat keys issue --force`";
        warn_daily(format_args!("the identity {path} {when}: {advice}"));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether `period` has passed since this last returned true.
fn is_due(last: &Mutex<Option<Instant>>, period: Duration) -> bool {
    let mut last = lock(last);
    let is_due = last.is_none_or(|last| last.elapsed() >= period);
    if is_due {
        *last = Some(Instant::now());
    }
    is_due
}

fn warn_daily(text: Arguments<'_>) {
    if is_due(&WARNED, DAY) {
        warn(text);
    }
}

/// Returns the time after which a peer that does not answer is lost, as the application sets it.
///
/// # Panics
/// If it is less than a second.
pub(crate) fn peer_timeout(time: Duration) -> Duration {
    assert!(time >= Duration::from_secs(1), "`peer_timeout` is {time:?}: set at least one second");
    time
}
