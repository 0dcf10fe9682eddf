//! The identity of a process, by which a value knows whether it is used in a forked child: the system wipes
//! a word for the child.
//!
//! A child does not have the mappings of its parent, and shares its sockets. Code that is about to use
//! either asks first whether it runs in the process that made them. Invariant: a process is never taken for
//! one from which it descends by forking.

use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A page. Its first word is used.
const BYTES: usize = 4096;

/// A process, as those that it forks see it: a value that is equal within a process alone.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    value: u64,
    /// The word that has this value in the process, and no more in a child.
    word: &'static AtomicU64,
}

impl PartialEq for Process {
    fn eq(&self, other: &Process) -> bool {
        self.value == other.value
    }
}

impl Eq for Process {}

impl Process {
    /// The process that runs.
    ///
    /// ```
    /// use upbeat_memory::fork::Process;
    /// let made = Process::this();
    /// assert!(made.is_this());
    /// assert_eq!(made, Process::this());
    /// ```
    #[must_use]
    pub fn this() -> Process {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let word = word();
        let value = match word.load(Ordering::Relaxed) {
            // The first that asks. In a child the count goes on where its parent's was.
            0 => {
                let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
                match word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => next,
                    Err(other) => other,
                }
            }
            known => known,
        };
        Process { value, word }
    }

    /// A process that is never the one that runs.
    ///
    /// ```
    /// use upbeat_memory::fork::Process;
    /// assert!(!Process::none().is_this());
    /// ```
    #[must_use]
    pub fn none() -> Process {
        Process { value: u64::MAX, word: word() }
    }

    /// Whether it is the one that runs, and no child that it has forked.
    #[inline]
    #[must_use]
    pub fn is_this(self) -> bool {
        self.word.load(Ordering::Relaxed) == self.value
    }
}

/// The word that is wiped in a child.
#[inline]
fn word() -> &'static AtomicU64 {
    static WORD: OnceLock<&'static AtomicU64> = OnceLock::new();
    WORD.get_or_init(wiped)
}

#[cold]
fn wiped() -> &'static AtomicU64 {
    // Where the system wipes nothing (before Linux 4.14), a child is not known as one.
    static KEPT: AtomicU64 = AtomicU64::new(0);
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
    let page = unsafe {
        rustix::mm::mmap_anonymous(std::ptr::null_mut(), BYTES, access, MapFlags::PRIVATE)
    };
    let Ok(page) = page else { return &KEPT };
    // SAFETY: the page was mapped just above and is nobody else's.
    if unsafe { rustix::mm::madvise(page, BYTES, Advice::LinuxWipeOnFork) }.is_err() {
        return &KEPT;
    }
    // SAFETY: the page is aligned, zeroed, writable, and never unmapped; a zeroed word is a valid
    // `AtomicU64`, also where the system has wiped it.
    unsafe { &*page.cast::<AtomicU64>() }
}

/// Forks, runs an act in the child, and waits for the child to end. Returns its exit code: what the act
/// gave, 101 if it panicked; none if a signal has ended it, as SIGALRM does after 20 seconds. For tests. Other
/// threads of the process must hold no lock that the act takes, except the allocator's.
#[cfg(feature = "testing")]
#[must_use]
pub fn in_child(act: impl FnOnce() -> u8) -> Option<i32> {
    use rustix::process::{Pid, WaitOptions, waitpid};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    // SAFETY: these are the C library's, with its types.
    unsafe extern "C" {
        fn fork() -> i32;
        fn _exit(code: i32) -> !;
        fn alarm(seconds: u32) -> u32;
    }
    // SAFETY: the child has this thread alone. The C library takes care of its own locks, the allocator's
    // among them, and the act takes no other that a thread of the parent holds, as is asked for.
    let child = unsafe { fork() };
    if child == 0 {
        // SAFETY: it touches no memory. What hangs is ended.
        unsafe { alarm(20) };
        let code = catch_unwind(AssertUnwindSafe(act)).map_or(101, i32::from);
        // SAFETY: it ends this process, whose exit handlers are its parent's matter.
        unsafe { _exit(code) }
    }
    let child = Pid::from_raw(child)?;
    let (_, status) = waitpid(Some(child), WaitOptions::empty()).ok()??;
    status.exit_status()
}
