//! Nodes of other hosts: on what terms they are met, and how their addresses are found and tried.
//!
//! Invariant: nothing is sent over a network unprotected unless the application has said that this is safe there.

mod attempts;

mod lookup;

use crate::error::BuildError;
use crate::warning::warn;
use std::fmt::Arguments;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use upbeat_core::gate;
use upbeat_core::limits::{
    PEER_TIMEOUT_MS, REMOTE_BYTES, REMOTE_MESSAGES_MIN, REMOTE_SESSIONS_MAX, RESUME_WITHIN_MS,
};
use upbeat_core::name::{NodeName, ProgramName};
use upbeat_core::quota::Quota;
use upbeat_transport::identity::Identity;
use upbeat_transport::remote::Terms;

pub(crate) use attempts::{Attempts, is_worth_waiting, own_times};
pub(crate) use lookup::{lookup, resolve};

/// The environment variable that says which identity a node or a handle has, where the application does not.
const IDENTITY_VARIABLE: &str = "UPBEAT_IDENTITY";

/// Between two looks at the file of an identity.
const REFRESH: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// An identity that is valid for less is warned of.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// When this process last warned of an identity.
static WARNED: Mutex<Option<Instant>> = Mutex::new(None);

/// On what terms a node, or a handle, meets nodes of other hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remote {
    /// What the node shows to others, and whom it trusts: messages go under TLS.
    pub(crate) identity: Option<Identity>,
    /// Where the node listens.
    pub(crate) listen: Option<String>,
    /// Whether messages may go as they are.
    pub(crate) plaintext: bool,
    /// After what time a connection is gone whose peer does not answer.
    pub(crate) peer_timeout: Option<Duration>,
    /// What callers of other hosts may take of a node that listens.
    pub(crate) gate: gate::Terms,
    /// Sessions that the node has with other hosts at most.
    pub(crate) sessions: Option<usize>,
    /// Bytes that peers make the node hold.
    pub(crate) bytes: Option<u64>,
    /// For how long a session outlives its connection.
    pub(crate) resume_within: Option<Duration>,
    /// When the identity's file was last looked at.
    looked: Arc<Mutex<Option<Instant>>>,
}

impl Remote {
    /// What the application says, or the environment, once it was seen that this fits the node, or the handle,
    /// which has no name.
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

    /// How many sessions with other hosts the node has at most.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.unwrap_or(REMOTE_SESSIONS_MAX)
    }

    /// The bound of the bytes that peers make the node hold, which takes messages of up to so many bytes.
    pub(crate) fn quota(&self, longest: usize) -> Quota {
        let most = REMOTE_BYTES.max(REMOTE_MESSAGES_MIN * longest as u64);
        Quota::new(self.bytes.unwrap_or(most))
    }

    /// Whether nothing says how messages are to be protected.
    pub(crate) fn is_unprotected(&self) -> bool {
        self.identity.is_none() && !self.plaintext
    }

    /// How its connections behave. An identity whose file was replaced is loaded again.
    pub(crate) fn terms(&self) -> Terms {
        self.refresh();
        // Less than a millisecond is not nothing.
        let milliseconds =
            |time: Duration| u32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX);
        let peer_timeout_ms = self.peer_timeout.map_or(PEER_TIMEOUT_MS, milliseconds);
        let resume_within_ms = self.resume_within.map_or(RESUME_WITHIN_MS, milliseconds);
        Terms { identity: self.identity.clone(), peer_timeout_ms, resume_within_ms }
    }

    /// Loads an identity again whose file was replaced, and warns if it expires soon. Looks once in a while.
    pub(crate) fn refresh(&self) {
        let Some(identity) = &self.identity else { return };
        if !is_due(&self.looked, REFRESH) {
            return;
        }
        if let Err(error) = identity.reload() {
            return warn_daily(format_args!("the identity was not replaced: {error}"));
        }
        let left = identity.expires_in(SystemTime::now());
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

/// Whether so much time has passed since this last said so.
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

/// The time after which a peer is lost that does not answer, as the application says it.
///
/// # Panics
/// When it is less than a second.
pub(crate) fn peer_timeout(time: Duration) -> Duration {
    assert!(
        time >= Duration::from_secs(1),
        "a peer has {time:?} to answer: give a second at least"
    );
    time
}
