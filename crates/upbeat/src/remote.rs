//! Nodes of other hosts: on what terms they are met, and what the names of their hosts stand for.
//!
//! The system resolves names, on threads of their own, for it waits. Invariant: as many lookups as there are
//! threads for are under way at a time, and nothing is sent over a network unprotected that was not said to be
//! safe there.

use crate::error::BuildError;
use crate::warning::warn;
use std::collections::VecDeque;
use std::fmt::Arguments;
use std::future::poll_fn;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant, SystemTime};
use upbeat_core::address::Address;
use upbeat_core::limits::PEER_TIMEOUT_MS;
use upbeat_core::name::{NodeName, ProgramName};
use upbeat_transport::error::{OpenError, Unreached};
use upbeat_transport::identity::Identity;
use upbeat_transport::remote::Terms;

/// Addresses of a host that are tried.
const ADDRESSES_MAX: usize = 16;
/// Threads that look up names at a time.
const LOOKUPS_MAX: usize = 8;

/// On what terms a node, or a handle, meets nodes of other hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remote {
    /// What the node shows to others, and whom it trusts: messages go under TLS.
    pub(crate) identity: Option<Identity>,
    /// Where the node listens.
    pub(crate) listen: Option<String>,
    /// Whether messages may go as they are.
    pub(crate) plaintext: bool,
    /// After what time a peer that does not answer is lost.
    pub(crate) peer_timeout: Option<Duration>,
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

    /// Whether nothing says how messages are to be protected.
    pub(crate) fn is_unprotected(&self) -> bool {
        self.identity.is_none() && !self.plaintext
    }

    /// How its connections behave. An identity whose file was replaced is loaded again.
    pub(crate) fn terms(&self) -> Terms {
        self.refresh();
        let milliseconds = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let peer_timeout_ms = self.peer_timeout.map_or(PEER_TIMEOUT_MS, milliseconds);
        Terms { identity: self.identity.clone(), peer_timeout_ms }
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

/// The environment variable that says which identity a node or a handle has, where the application does not.
const IDENTITY_VARIABLE: &str = "UPBEAT_IDENTITY";

/// Between two looks at the file of an identity.
const REFRESH: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// An identity that is valid for less is warned of.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

static WARNED: Mutex<Option<Instant>> = Mutex::new(None);

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

/// What has become of a lookup.
#[derive(Default)]
struct Lookup {
    found: Option<Result<Vec<SocketAddr>, OpenError>>,
    waker: Option<Waker>,
}

/// A lookup that a thread does.
type Job = (Address, Arc<Mutex<Lookup>>);

/// The threads that look up, and what waits for them.
struct Lookups {
    threads: usize,
    waiting: VecDeque<Job>,
}

static LOOKUPS: Mutex<Lookups> = Mutex::new(Lookups { threads: 0, waiting: VecDeque::new() });

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The addresses of a host, which a thread looks up unless the host was given as one.
pub(crate) async fn lookup(address: &Address) -> Result<Vec<SocketAddr>, OpenError> {
    if address.ip().is_some() {
        return resolve(address);
    }
    let lookup = Arc::<Mutex<Lookup>>::default();
    begin((address.clone(), Arc::clone(&lookup)))?;
    poll_fn(|context| {
        let mut lookup = lock(&lookup);
        match lookup.found.take() {
            Some(found) => Poll::Ready(found),
            None => {
                lookup.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}

/// Has a thread do a lookup: a new one, or one that is busy, next.
fn begin(job: Job) -> Result<(), OpenError> {
    let mut lookups = lock(&LOOKUPS);
    if lookups.threads == LOOKUPS_MAX {
        lookups.waiting.push_back(job);
        return Ok(());
    }
    let failed = |error: std::io::Error| not_found(&job.0, &error);
    let builder = std::thread::Builder::new().name("upbeat-lookup".into());
    let first = (job.0.clone(), Arc::clone(&job.1));
    builder.spawn(move || work(first)).map_err(failed)?;
    lookups.threads += 1;
    Ok(())
}

/// Does lookups until none waits.
fn work(first: Job) {
    let mut next = Some(first);
    while let Some((address, lookup)) = next {
        // Whoever has asked may have gone meanwhile.
        if Arc::strong_count(&lookup) > 1 {
            let found = resolve(&address);
            let mut lookup = lock(&lookup);
            lookup.found = Some(found);
            if let Some(waker) = lookup.waker.take() {
                waker.wake();
            }
        }
        let mut lookups = lock(&LOOKUPS);
        next = lookups.waiting.pop_front();
        if next.is_none() {
            lookups.threads -= 1;
        }
    }
}

/// The addresses of a host, in the order in which they are to be tried. This waits for the system.
pub(crate) fn resolve(address: &Address) -> Result<Vec<SocketAddr>, OpenError> {
    if let Some(ip) = address.ip() {
        return Ok(vec![SocketAddr::new(ip, address.port())]);
    }
    let found = (address.host(), address.port()).to_socket_addrs();
    let mut addresses = Vec::new();
    for found in found.map_err(|error| not_found(address, &error))? {
        if !addresses.contains(&found) && addresses.len() < ADDRESSES_MAX {
            addresses.push(found);
        }
    }
    match addresses.is_empty() {
        false => Ok(addresses),
        true => Err(unknown(address, "it has no address".to_owned())),
    }
}

fn not_found(address: &Address, error: &std::io::Error) -> OpenError {
    unknown(address, error.to_string())
}

fn unknown(address: &Address, text: String) -> OpenError {
    OpenError::Unreached { at: address.to_string(), why: Unreached::NoSuchHost { text } }
}

/// What is told of attempts at several addresses of a host: of the only one, or of each.
pub(crate) fn told(address: &Address, mut tried: Vec<OpenError>) -> OpenError {
    match tried.len() {
        1 => tried.remove(0),
        _ => OpenError::NoAddress { at: address.to_string(), tried },
    }
}
