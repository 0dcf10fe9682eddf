//! A program whose processes are real ones, of the test's own binary.
//!
//! The test starts its binary again for each process, which runs this test up to the place where that process is started, and
//! there its closure. Faults are signals. Invariant: no process outlives the test.

mod assignment;

pub(crate) mod processes;

use assignment::Assignment;
use processes::{MARK, Processes};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::DirBuilderExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::exit;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::network::FIRST;
use crate::outcome::Ended;
use crate::random::mix;

/// The variable that tells a process of a test what it is.
const PROCESS: &str = "UPBEAT_SIM_PROCESS";
/// The status with which a process ends whose closure has failed.
const FAILED: i32 = 101;

/// The faults that real processes cannot have, as a test tells which of them it has left out.
pub(crate) const BROKEN: &str = "broken connections";
pub(crate) const DAMAGED: &str = "damaged bytes";
pub(crate) const PARTED: &str = "hosts that are parted";
pub(crate) const DELAYED: &str = "delays of the network";
pub(crate) const STARVED: &str = "processes that lack resources";

/// The part of a process in a test with real processes.
pub(crate) struct Real {
    role: Role,
    place: PathBuf,
    /// The time at which the test has begun, since 1970.
    began: Duration,
    /// The host of the process.
    host: AtomicU32,
}

enum Role {
    Test(Box<Processes>),
    Process(Own),
}

/// The process of a test that the calling one is.
struct Own {
    name: String,
    has_begun: AtomicBool,
}

impl Own {
    /// Returns whether the closure of the process runs. Before that the process looks for it.
    fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }
}

impl Real {
    /// Returns the part of the calling process in a test, whose checks are counted. A process of the test has none in the checks
    /// that are before its own.
    pub(crate) fn of_test(path: &str, place: PathBuf) -> Option<Real> {
        static CHECKS: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());
        let mut checks = CHECKS.lock().unwrap_or_else(PoisonError::into_inner);
        let check = checks.entry(path.to_owned()).or_default();
        *check += 1;
        let check = *check;
        if let Ok(text) = std::env::var(PROCESS) {
            let assignment = Assignment::read(&text).expect("a test assigns its processes");
            ends_with(assignment.parent);
            let Assignment { place, began, process, .. } = assignment;
            let role = Role::Process(Own { name: process, has_begun: AtomicBool::new(false) });
            return (assignment.check == check).then(|| Real::new(role, place, began));
        }
        let (parent, began) = (std::process::id(), now());
        let process = String::new();
        let first = Assignment { parent, check, began, place: place.clone(), process };
        let processes = Processes::new(path.to_owned(), first);
        Some(Real::new(Role::Test(Box::new(processes)), place, began))
    }

    fn new(role: Role, place: PathBuf, began: Duration) -> Real {
        let host = AtomicU32::new(number(&place, FIRST));
        Real { role, place, began, host }
    }

    /// Returns the directory of the test.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    /// Returns the number of the host of the process.
    pub(crate) fn own_host(&self) -> u32 {
        self.host.load(Ordering::Relaxed)
    }

    /// Returns the number of a host, which is known by its name from now on.
    pub(crate) fn host(&self, name: &str) -> u32 {
        let number = number(&self.place, name);
        for place in [self.place.clone(), self.place.join(number.to_string())] {
            // A node says what is wrong with its directory.
            let _ = DirBuilder::new().mode(0o700).create(place);
        }
        number
    }

    /// Returns the addresses of hosts by their names.
    pub(crate) fn names(&self) -> impl Fn(&str) -> Option<IpAddr> + Send + Sync + 'static {
        let place = self.place.clone();
        move |name| {
            let number = number(&place, name);
            place.join(number.to_string()).is_dir().then(|| address(number))
        }
    }

    /// Returns the time since the test began.
    pub(crate) fn time(&self) -> Duration {
        now().saturating_sub(self.began)
    }

    /// Returns the processes, if this is the test itself.
    pub(crate) fn processes(&self) -> Option<&Processes> {
        match &self.role {
            Role::Test(processes) => Some(processes),
            Role::Process(_) => None,
        }
    }

    /// Returns the processes for something that the test alone does. A process of the test that looks for its closure passes by.
    ///
    /// # Panics
    /// In the closure of a process.
    pub(crate) fn of_test_alone(&self, what: &str) -> Option<&Processes> {
        if let Role::Process(own) = &self.role {
            let name = &own.name;
            assert!(
                !own.has_begun(),
                "process `{name}` is a real one, and only the test can {what}"
            );
        }
        self.processes()
    }

    /// Takes note that the test does something: no process is started behind it.
    ///
    /// # Panics
    /// If this is a process that looks for its closure.
    pub(crate) fn acts(&self, what: &'static str) {
        match &self.role {
            Role::Test(processes) => processes.acts(what),
            Role::Process(own) => {
                assert!(own.has_begun(), "{}", processes::is_late(&own.name, what));
            }
        }
    }

    /// Does something with the processes, which the test alone can do.
    ///
    /// # Panics
    /// In a process of the test.
    pub(crate) fn drive<R>(&self, what: &'static str, act: impl FnOnce(&Processes) -> R) -> R {
        self.acts(what);
        act(self.of_test_alone(what).expect("a process that looks for its closure does nothing"))
    }

    /// Starts a process. One that looks for its closure runs it if it is this one, and ends.
    pub(crate) fn start(&self, host: u32, name: &str, body: impl FnOnce()) {
        match &self.role {
            Role::Test(processes) => processes.start(host, name),
            Role::Process(own) => {
                self.of_test_alone(&format!("start `{name}`"));
                if own.name == name {
                    own.has_begun.store(true, Ordering::Relaxed);
                    self.host.store(host, Ordering::Relaxed);
                    println!("\n{MARK}");
                    let ended = catch_unwind(AssertUnwindSafe(body));
                    exit(if ended.is_ok() { 0 } else { FAILED });
                }
            }
        }
    }

    /// Drives a future. A process that looks for its closure finds it before the future waits.
    pub(crate) fn block_on<F: Future>(
        &self,
        future: F,
        drive: impl FnOnce(std::pin::Pin<&mut dyn Future<Output = F::Output>>) -> F::Output,
    ) -> F::Output {
        let mut future = pin!(future);
        if let Role::Process(own) = &self.role
            && !own.has_begun()
        {
            let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            return match polled {
                Poll::Ready(output) => output,
                Poll::Pending => self.never_begins(),
            };
        }
        let mut noted = pin!(std::future::poll_fn(|context| {
            let polled = future.as_mut().poll(context);
            if polled.is_pending() {
                self.acts("await something");
            }
            polled
        }));
        drive(noted.as_mut())
    }

    /// Fails in a process of a test that has not met its closure.
    ///
    /// # Panics
    /// In each.
    pub(crate) fn never_begins(&self) -> ! {
        let name = match &self.role {
            Role::Process(own) => &own.name,
            Role::Test(_) => "",
        };
        panic!("process `{name}` is not started where the test runs again in a process of its own")
    }

    /// Runs the body of a thread. Its panic fails the test.
    pub(crate) fn run(&self, body: impl FnOnce()) {
        let panic = catch_unwind(AssertUnwindSafe(body)).err();
        if let (Some(panic), Some(processes)) = (panic, self.processes()) {
            processes.fail(Ended::Panicked(panic).to_string());
        }
    }
}

/// Has this process end with its parent.
fn ends_with(parent: u32) {
    let set = set_parent_process_death_signal(Some(Signal::KILL));
    let now = getppid().map(|pid| pid.as_raw_pid().unsigned_abs());
    if set.is_err() || now != Some(parent) {
        exit(FAILED);
    }
}

/// Returns the time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the number of a host of a test, which no host of another test has that runs beside it, but for bad luck.
fn number(place: &Path, host: &str) -> u32 {
    let bytes = place.as_os_str().as_encoded_bytes().iter().chain(host.as_bytes());
    let digest = bytes.fold(0, |digest, byte| mix(digest ^ u64::from(*byte)));
    // The system's own addresses begin with 127.0.
    0x1_0000 + (digest % 0xfe_0000) as u32
}

/// Returns the address of a host.
fn address(host: u32) -> IpAddr {
    let [_, two, three, four] = host.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(127, two, three, four))
}
