//! The lookup of hosts' addresses by the system.
//!
//! The system's lookup blocks, so it runs on threads. Invariant: at most [`LOOKUPS_MAX`] threads do lookups at a
//! time, and each ends when nobody waits for it.

use super::lock;
use crate::contain::wake;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Poll, Waker};
use upbeat_core::address::Address;
use upbeat_environment::network::look_up;
use upbeat_environment::thread::spawn;
use upbeat_environment::turns::{Mutex, MutexGuard};
use upbeat_memory::fork::PerProcess;
use upbeat_transport::error::{OpenError, Unreached};

/// The most addresses of a host that are tried.
const ADDRESSES_MAX: usize = 16;
/// The most threads that look up names at a time.
const LOOKUPS_MAX: usize = 8;

/// The state of a lookup.
#[derive(Default)]
struct Lookup {
    found: Option<Result<Vec<SocketAddr>, OpenError>>,
    waker: Option<Waker>,
}

/// A lookup for a thread.
type Job = (Address, Arc<Mutex<Lookup>>);

/// The lookup threads, and the lookups that wait for them.
#[derive(Default)]
struct Lookups {
    threads: usize,
    waiting: VecDeque<Job>,
}

/// Returns the lookups of the process that runs.
fn lookups() -> MutexGuard<'static, Lookups> {
    static LOOKUPS: PerProcess<Mutex<Lookups>> = PerProcess::new();
    lock(LOOKUPS.get(Mutex::default))
}

/// A lookup that a thread does.
pub(super) struct LookedUp(Arc<Mutex<Lookup>>);

impl LookedUp {
    /// Has a thread look up the addresses of a host.
    pub(super) fn begin(address: &Address) -> Result<LookedUp, OpenError> {
        let lookup = Arc::<Mutex<Lookup>>::default();
        begin((address.clone(), Arc::clone(&lookup)))?;
        Ok(LookedUp(lookup))
    }

    /// Returns the result, once, if it is there.
    pub(super) fn take(&self) -> Option<Result<Vec<SocketAddr>, OpenError>> {
        lock(&self.0).found.take()
    }
}

/// Returns the addresses of a host, which a thread looks up unless the host was given as an address.
pub(crate) async fn lookup(address: &Address) -> Result<Vec<SocketAddr>, OpenError> {
    if address.ip().is_some() {
        return resolve(address);
    }
    let LookedUp(lookup) = LookedUp::begin(address)?;
    poll_fn(|context| {
        // No code of a waker runs under the lock.
        let waker = context.waker().clone();
        let mut lookup = lock(&lookup);
        if let Some(found) = lookup.found.take() {
            return Poll::Ready(found);
        }
        let before = lookup.waker.replace(waker);
        drop(lookup);
        drop(before);
        Poll::Pending
    })
    .await
}

/// Gives a lookup to a new thread, or queues it for a busy one.
fn begin(job: Job) -> Result<(), OpenError> {
    let mut all = lookups();
    if all.threads == LOOKUPS_MAX {
        all.waiting.push_back(job);
        return Ok(());
    }
    let failed = |error: std::io::Error| not_found(&job.0, &error);
    let first = (job.0.clone(), Arc::clone(&job.1));
    spawn("upbeat-lookup", move || work(first)).map_err(failed)?;
    all.threads += 1;
    Ok(())
}

/// Does lookups until none waits.
fn work(first: Job) {
    let mut next = Some(first);
    while let Some((address, lookup)) = next {
        // The waiter may be gone meanwhile.
        if Arc::strong_count(&lookup) > 1 {
            let found = resolve(&address);
            let mut state = lock(&lookup);
            state.found = Some(found);
            let waker = state.waker.take();
            drop(state);
            waker.into_iter().for_each(wake);
        }
        let mut all = lookups();
        next = all.waiting.pop_front();
        if next.is_none() {
            all.threads -= 1;
        }
    }
}

/// Returns the addresses of a host, in the order in which they are to be tried. Outside of a world this blocks.
pub(crate) fn resolve(address: &Address) -> Result<Vec<SocketAddr>, OpenError> {
    if let Some(ip) = address.ip() {
        return Ok(vec![SocketAddr::new(ip, address.port())]);
    }
    let found = look_up(address.host(), address.port());
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

/// Returns the error of a lookup that takes too long.
pub(crate) fn not_answered(address: &Address, within_ms: u64) -> OpenError {
    unknown(address, format!("no answer within {within_ms} ms"))
}

fn not_found(address: &Address, error: &std::io::Error) -> OpenError {
    unknown(address, error.to_string())
}

fn unknown(address: &Address, text: String) -> OpenError {
    OpenError::Unreached { at: address.to_string(), why: Unreached::NoSuchHost { text } }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::remote::tests::relay;
    use crate::{CallError, Node, Waiting, handle, within};
    use std::future::pending;
    use std::net::{Shutdown, TcpListener};
    use std::thread;
    use std::time::Duration;
    use upbeat_environment::waiting::sleep;
    use upbeat_memory::fork::in_child;

    #[crate::service]
    trait Waits {
        async fn wait(&self);
    }

    struct Pending;

    impl Waits for Pending {
        async fn wait(&self) {
            pending().await
        }
    }

    /// The tests share the look-up threads of the process.
    static ALONE: Mutex<()> = Mutex::new(());

    /// The thread that connects the session of a handle again also rings the deadlines of the handle's awaited calls, so
    /// it does not wait until somebody answers for the host's name.
    #[test]
    fn awaited_calls_keep_their_deadlines_while_a_name_is_looked_up() {
        const BRIEFLY: Duration = Duration::from_millis(200);
        let _alone = lock(&ALONE);
        let builder = Node::builder("lookups").waiting(Waiting::Sleeping);
        let node = builder.listen("127.0.0.1:0").insecure_plaintext().build().unwrap();
        node.serve(WaitsServer::new(Pending)).unwrap();
        let (listener, to) = (TcpListener::bind("127.0.0.1:0").unwrap(), node.listens_at());
        let name = format!("lookups@localhost:{}", listener.local_addr().unwrap().port());
        let relay = thread::spawn(move || relay(&listener, to.unwrap()));
        node.block_on(async {
            let builder = handle::builder().insecure_plaintext().waiting(Waiting::Sleeping);
            let waits: WaitsHandle = builder.connect_async(&name).await.unwrap();
            let mut sent = std::pin::pin!(waits.wait().deadline(2 * BRIEFLY));
            assert!(within(BRIEFLY, &mut sent).await.is_err(), "it waits");
            // No thread answers from now on.
            lookups().threads += LOOKUPS_MAX;
            for socket in relay.join().unwrap() {
                socket.shutdown(Shutdown::Both).unwrap();
            }
            let ended = within(Duration::from_secs(20), async {
                (sent.await, waits.wait().deadline(BRIEFLY).await)
            });
            let ended = ended.await;
            lookups().threads -= LOOKUPS_MAX;
            let are_late =
                matches!(ended, Ok((Err(CallError::Deadline(_)), Err(CallError::Deadline(_)))));
            assert!(are_late, "{ended:?}");
        });
    }

    #[test]
    fn a_child_looks_up_although_all_threads_of_its_parent_are_busy() {
        let address: Address = "127.0.0.1:7411".parse().unwrap();
        let _alone = lock(&ALONE);
        lookups().threads += LOOKUPS_MAX;
        let found = in_child(|| {
            let lookup = LookedUp::begin(&address).unwrap();
            while lookup.take().is_none() {
                sleep(Duration::from_millis(1));
            }
            7
        });
        lookups().threads -= LOOKUPS_MAX;
        assert_eq!(found, Some(7));
    }
}
