//! Helpers that the tests of this crate share: directories, other processes, signals between threads, and
//! the service that they call.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod executor;
/// Work that a test leaves out, as the transport's tests record it.
#[path = "../../../transport/tests/left_out/mod.rs"]
pub(crate) mod left_out;
pub(crate) mod process;
/// Authorities and identities, as the transport's tests make them.
#[path = "../../../transport/tests/secure/mod.rs"]
pub(crate) mod secure;
pub(crate) mod server;
pub(crate) mod work;

use left_out::leave_out;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt::Debug;
use std::fs::File;
use std::future::Future;
use std::io::{Write, stderr};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use upbeat::{Node, Stream, Waiting};

/// The lock of [`alone`] and [`among_others`].
static ALONE: RwLock<()> = RwLock::new(());

/// Keeps the tests of a program that call this, or [`among_others`], from running beside this one, where they count what
/// the process has or use the same names. A test calls this before it starts its [`Watchdog`], which would count the
/// time of the tests before it.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    ALONE.write().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a test from running beside one that is [`alone`].
pub(crate) fn among_others() -> RwLockReadGuard<'static, ()> {
    ALONE.read().unwrap_or_else(PoisonError::into_inner)
}

/// Does something in each of these cases, all at once: in tests that mostly wait for a time to come.
pub(crate) fn at_once<C: Send>(cases: impl IntoIterator<Item = C>, act: impl Fn(C) + Sync) {
    let act = &act;
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(move || act(case));
        }
    });
}

/// A test that is not done after these seconds hangs. A test that is merely slow goes on: beside other programs, on a
/// busy machine, it takes twenty times as long as alone.
const HANGS_SECONDS: u64 = 300;

/// Ends the process, aloud, if a test does not end: nothing here waits for ever.
pub(crate) struct Watchdog {
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watchdog {
    pub(crate) fn new(what: &'static str) -> Watchdog {
        Watchdog::within(what, 0)
    }

    /// A test that may take more than [`HANGS_SECONDS`].
    pub(crate) fn within(what: &'static str, seconds: u64) -> Watchdog {
        let seconds = seconds.max(HANGS_SECONDS);
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let seen = Arc::clone(&over);
        let watch = move || {
            let (over, changed) = &*seen;
            let left = Duration::from_secs(seconds);
            let guard = over.lock().unwrap();
            let (guard, waited) = changed.wait_timeout_while(guard, left, |over| !*over).unwrap();
            drop(guard);
            if waited.timed_out() {
                // Past the harness, which keeps what is printed until the test is over.
                let threads = threads();
                let _ =
                    writeln!(stderr(), "watchdog: {what} is not done after {seconds} s\n{threads}");
                std::process::abort();
            }
        };
        Watchdog { over, thread: Some(std::thread::spawn(watch)) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.over.0.lock().unwrap() = true;
        self.over.1.notify_all();
        let _ = self.thread.take().unwrap().join();
    }
}

/// The machine's load, and for each thread of this process its state and the clock ticks it ran: a test that hangs has
/// threads that sleep, and one that is slow has threads that run.
fn threads() -> String {
    let mut text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The name stands in parentheses, and may hold spaces.
        let Some((name, rest)) = stat.rsplit_once(')') else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        if let [state, .., user, system] = words[..words.len().min(13)] {
            text += &format!("{name}): {state}, {user} ticks, {system} in the system\n");
        }
    }
    text
}

/// A directory of its own for a test, removed with it.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Directory {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("upbeat-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                // That of a process of the same number that was killed.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => {
                    made.unwrap();
                    let directory = Directory(path);
                    if carrier() == "tls" {
                        directory.identify();
                    }
                    return directory;
                }
            }
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.join("sockets")
    }

    /// Writes the identity by which the nodes and handles of this directory meet under TLS.
    pub(crate) fn identify(&self) {
        let path = self.path().with_extension("pem");
        let text = secure::Authority::new().lasting(&[&format!("upbeat://{PROGRAM}/*")]);
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) const PROGRAM: &str = "test";

/// A node whose sockets are in this directory.
pub(crate) fn node(name: &str, directory: &Path, waiting: Waiting) -> Node {
    let builder = Node::builder(name).program(PROGRAM).directory(directory).waiting(waiting);
    builder.build().unwrap()
}

/// Something that happens once and is waited for in any thread or task.
#[derive(Clone, Default)]
pub(crate) struct Signal(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Signal {
    pub(crate) fn give(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        let wakers = std::mem::take(&mut state.1);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn given(&self) -> bool {
        self.0.lock().unwrap().0
    }
}

impl Future for Signal {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap();
        if state.0 {
            return Poll::Ready(());
        }
        state.1.push(context.waker().clone());
        Poll::Pending
    }
}

/// A runtime: polls in this thread, parks in between.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        std::thread::park();
    }
}

/// Lets everything else that wants to run have its turn.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Within this time a handler begins, also on a busy machine: a call whose deadline passes while its handler
/// stands has no shorter one.
pub(crate) const BEGINS: Duration = Duration::from_millis(600);

/// How long anything is waited for that is to come at once: so long that no busy machine takes it.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Waits, inside a node, until something is so.
#[track_caller]
pub(crate) fn until(mut is_so: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let (at, begun) = (Location::caller(), Instant::now());
    async move {
        while !is_so() {
            assert!(begun.elapsed() < SOON, "what is waited for at {at} never is");
            upbeat::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Awaits, inside a node, what comes soon. What is there and was not woken for counts as late.
#[track_caller]
pub(crate) fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let at = Location::caller();
    async move {
        let begun = Instant::now();
        let done = upbeat::within(SOON, future).await;
        assert!(begun.elapsed() < SOON, "what is awaited at {at} does not come, or wakes nobody");
        done.expect("there was time")
    }
}

/// Ends with the first of two futures.
pub(crate) async fn first<A: Future, B: Future>(a: A, b: B) -> Result<A::Output, B::Output> {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(|context| {
        if let Poll::Ready(value) = a.as_mut().poll(context) {
            return Poll::Ready(Ok(value));
        }
        b.as_mut().poll(context).map(Err)
    })
    .await
}

/// Numbers that look random, the same for the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Returns the seed of a test, which prints the seed of the run: `UPBEAT_SEED`, or 0. Tests of a program have
/// different numbers.
pub(crate) fn seed(test: u64) -> u64 {
    let seed = setting("UPBEAT_SEED", 0);
    println!("UPBEAT_SEED={seed}");
    seed.wrapping_add(test)
}

/// Returns the carrier of every session of this run, or an empty text where none is set.
fn carrier() -> String {
    // A build without debug assertions does not read it.
    let set = cfg!(debug_assertions).then(|| std::env::var("UPBEAT_TEST_CARRIER").ok());
    set.flatten().unwrap_or_default()
}

/// Whether every session of this run goes over a byte stream: on this host, or over a network.
pub(crate) fn over_streams() -> bool {
    carrier() == "stream" || over_network()
}

/// Whether every session of this run goes over TCP, or under TLS.
pub(crate) fn over_network() -> bool {
    matches!(&*carrier(), "tcp" | "tls")
}

/// Whether nothing of this run is encrypted, which takes memory of its own; where it is, what is left out is said
/// aloud.
pub(crate) fn in_plaintext(what: &str) -> bool {
    let in_plaintext = carrier() != "tls";
    if !in_plaintext {
        leave_out(&format!("under TLS: {what}"));
    }
    in_plaintext
}

/// Whether nodes of this run meet as nodes of one host do, which is what a test is about; where not, what is left
/// out is said aloud.
pub(crate) fn on_one_host(what: &str) -> bool {
    if over_network() {
        leave_out(&format!("over a network: {what}"));
    }
    !over_network()
}

/// Whether sessions of this run share memory, which is what a test is about; where not, what is left out is
/// said aloud.
pub(crate) fn shares_memory(what: &str) -> bool {
    if over_streams() {
        leave_out(&format!("over byte streams: {what}"));
    }
    !over_streams()
}

/// Whether this machine has strace, which counts system calls and makes them fail; where not, that is said aloud.
pub(crate) fn has_strace() -> bool {
    let has = std::process::Command::new("strace").arg("-V").output().is_ok();
    if !has {
        leave_out("strace is not installed");
    }
    has
}

/// A number from the environment.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Reads numbers until their stream ends, and returns how many have come if they are 0, 1, 2 and so on.
pub(crate) async fn counted_in_order(mut numbers: Stream<u64>) -> Result<u64, String> {
    let mut count = 0;
    while let Some(number) = numbers.next().await {
        let number = number.map_err(|error| error.to_string())?;
        if number != count {
            return Err(format!("{number} instead of {count}"));
        }
        count += 1;
    }
    Ok(count)
}

/// Calls so often in ten rounds, and asserts that each costs what no calls cost, except one at most: where the machine runs
/// others, a handler may be noted that ran for long, or stamps may find no room, and all ten are tried again. This happens
/// now and then; what allocates by itself does so in each attempt.
pub(crate) async fn assert_free<C: PartialEq + Debug>(
    calls: u64,
    none: &C,
    run: impl AsyncFn(u64) -> C,
) {
    let mut rounds = Vec::new();
    for _ in 0..3 {
        rounds.clear();
        for _ in 0..10 {
            rounds.push(run(calls / 10).await);
        }
        if rounds.iter().filter(|round| *round != none).count() <= 1 {
            return;
        }
    }
    panic!("each tenth of {calls} calls allocates: {rounds:?}, and no calls: {none:?}");
}

/// Waits in this thread until something is so.
#[track_caller]
pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < SOON, "what is waited for never is");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the KiB of this process that are in memory.
pub(crate) fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Allows as many descriptors as this process may have at most.
pub(crate) fn more_descriptors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}
