//! The identity of a process, which tells whether a value is used in a forked child. The kernel
//! wipes one word of memory in the child.
//!
//! A child does not have its parent's mappings, and shares its parent's sockets. Code that uses
//! either first asks whether it runs in the process that created them. Invariant: a process never
//! has the same identity as a process from which it was forked.

use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::any::Any;
use std::marker::PhantomData;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use upbeat_environment::state_in_world;

/// The size of a page, of which the first word is used.
const BYTES: usize = 4096;

/// The identity of a process: two identities are equal only within one process.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    value: u64,
    /// The word that holds this value in the process, and another value in a forked child.
    word: &'static AtomicU64,
}

impl PartialEq for Process {
    fn eq(&self, other: &Process) -> bool {
        self.value == other.value
    }
}

impl Eq for Process {}

impl Process {
    /// Returns the identity of the running process.
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
            // This is the first question in this process. In a child the count continues from its
            // parent's.
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

    /// Returns an identity that no process has.
    ///
    /// ```
    /// use upbeat_memory::fork::Process;
    /// assert!(!Process::none().is_this());
    /// ```
    #[must_use]
    pub fn none() -> Process {
        Process { value: u64::MAX, word: word() }
    }

    /// Returns whether the running process has this identity. A forked child has another one.
    #[inline]
    #[must_use]
    pub fn is_this(self) -> bool {
        self.word.load(Ordering::Relaxed) == self.value
    }
}

/// A static value of which each process has its own, also each simulated one: the value of a parent may be locked in a
/// forked child for ever, or count threads that the child does not have.
///
/// ```
/// use upbeat_memory::fork::PerProcess;
/// static NAMES: PerProcess<Vec<String>> = PerProcess::new();
/// assert!(NAMES.get(Vec::new).is_empty());
/// ```
///
/// No thread waits for another that makes the value: a child is forked without that thread, and would wait for ever. The
/// value that is kept is never dropped.
#[derive(Debug)]
pub struct PerProcess<T> {
    own: AtomicPtr<Own<T>>,
    /// The threads of a process share the value.
    shared: PhantomData<T>,
}

/// The value of a process, and the place for that of a child.
#[derive(Debug)]
struct Own<T> {
    process: Process,
    value: T,
    child: PerProcess<T>,
}

impl<T> PerProcess<T> {
    /// Returns a static value that no process has used.
    #[must_use]
    pub const fn new() -> PerProcess<T> {
        PerProcess { own: AtomicPtr::new(null_mut()), shared: PhantomData }
    }
}

impl<T: Any + Send + Sync> PerProcess<T> {
    /// Returns the value of the running process, which `make` makes at its first use. If several threads use it first,
    /// each makes a value, and one of these is kept.
    pub fn get(&self, make: impl Fn() -> T) -> &T {
        if let Some(value) = state_in_world(from_ref(self).addr(), &make) {
            return value;
        }
        let (process, mut place) = (Process::this(), self);
        loop {
            let own = match place.own.load(Ordering::Acquire) {
                known if known.is_null() => {
                    let own = Own { process, value: make(), child: PerProcess::new() };
                    place.keep(Box::new(own))
                }
                known => known,
            };
            // SAFETY: the pointer is not null. It comes from the box of `keep`, which is never freed, and only shared
            // references to its value are ever made.
            let own = unsafe { &*own };
            if own.process == process {
                return &own.value;
            }
            place = &own.child;
        }
    }

    /// Keeps a value, unless another thread has kept one. Returns the value that is kept.
    fn keep(&self, own: Box<Own<T>>) -> *mut Own<T> {
        let own = Box::into_raw(own);
        let kept = self.own.compare_exchange(null_mut(), own, Ordering::AcqRel, Ordering::Acquire);
        kept.map(|_| own).unwrap_or_else(|other| {
            // SAFETY: the pointer comes from the box above, and nobody else has it.
            drop(unsafe { Box::from_raw(own) });
            other
        })
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> PerProcess<T> {
        PerProcess::new()
    }
}

/// Returns the word that the kernel wipes in a child.
#[inline]
fn word() -> &'static AtomicU64 {
    static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());
    let word = match WORD.load(Ordering::Acquire) {
        known if known.is_null() => {
            // No thread waits for another that maps the page, which a forked child may not have.
            let word = from_ref(map_wiped_word()).cast_mut();
            let kept = WORD.compare_exchange(null_mut(), word, Ordering::AcqRel, Ordering::Acquire);
            kept.map_or_else(|other| other, |_| word)
        }
        known => known,
    };
    // SAFETY: the pointer comes from a reference that is valid for ever.
    unsafe { &*word }
}

#[cold]
fn map_wiped_word() -> &'static AtomicU64 {
    // On kernels that cannot wipe (before Linux 4.14), a forked child is not recognised.
    static KEPT: AtomicU64 = AtomicU64::new(0);
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
    let page = unsafe {
        rustix::mm::mmap_anonymous(std::ptr::null_mut(), BYTES, access, MapFlags::PRIVATE)
    };
    let Ok(page) = page else { return &KEPT };
    // SAFETY: the page was mapped just above, and no other code has its address.
    if unsafe { rustix::mm::madvise(page, BYTES, Advice::LinuxWipeOnFork) }.is_err() {
        return &KEPT;
    }
    // SAFETY: the page is aligned, zeroed, writable, and never unmapped. A zeroed word is a valid
    // `AtomicU64`, also after the kernel has wiped it.
    unsafe { &*page.cast::<AtomicU64>() }
}

/// Forks, runs `act` in the child, and waits for the child to end, for tests. Returns the child's
/// exit code: the result of `act`, or 101 if `act` panicked. Returns none if a signal ended the
/// child, as SIGALRM does after 20 seconds. The other threads of the process must hold no lock that
/// `act` takes, except the allocator's.
#[cfg(feature = "testing")]
#[must_use]
pub fn in_child(act: impl FnOnce() -> u8) -> Option<i32> {
    use rustix::process::{Pid, WaitOptions, waitpid};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    // SAFETY: these functions are the C library's, declared with their types.
    unsafe extern "C" {
        fn fork() -> i32;
        fn _exit(code: i32) -> !;
        fn alarm(seconds: u32) -> u32;
    }
    // SAFETY: the child has only this thread. The C library handles its own locks, including the
    // allocator's, and the documentation above forbids `act` to take any other lock that a thread
    // of the parent may hold.
    let child = unsafe { fork() };
    if child == 0 {
        // SAFETY: `alarm` touches no memory. The alarm ends a child that hangs.
        unsafe { alarm(20) };
        let code = catch_unwind(AssertUnwindSafe(act)).map_or(101, i32::from);
        // SAFETY: `_exit` ends the child without the exit handlers, which belong to the parent.
        unsafe { _exit(code) }
    }
    let child = Pid::from_raw(child)?;
    let (_, status) = waitpid(Some(child), WaitOptions::empty()).ok()??;
    status.exit_status()
}

#[cfg(all(test, feature = "testing", not(miri)))]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    static NUMBER: PerProcess<u8> = PerProcess::new();

    /// A child is forked while a thread of its parent makes the first value.
    #[test]
    fn a_child_does_not_wait_for_a_thread_that_it_does_not_have() {
        let ((begins, begun), (goes_on, may_go_on)) = (channel(), channel());
        thread::scope(|scope| {
            let makes = scope.spawn(move || {
                *NUMBER.get(|| {
                    begins.send(()).unwrap();
                    may_go_on.recv().unwrap();
                    1
                })
            });
            begun.recv().unwrap();
            let of_child = in_child(|| *NUMBER.get(|| 7));
            goes_on.send(()).unwrap();
            assert_eq!((of_child, makes.join().unwrap()), (Some(7), 1));
        });
        assert_eq!((*NUMBER.get(|| 2), in_child(|| *NUMBER.get(|| 8))), (1, Some(8)));
    }
}
