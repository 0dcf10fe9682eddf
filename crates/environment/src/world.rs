//! The simulated world of a thread, if there is one.

use rustix::event::PollFlags;
use std::any::Any;
use std::cell::RefCell;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// A process of a simulated environment. One thread of all processes of a world runs at a time; the world chooses the next
/// one when that waits.
pub trait World: Send + Sync {
    /// Returns the nanoseconds since the world began.
    fn now_ns(&self) -> u64;

    /// Returns the number of the process, which no other one of any world has.
    fn number(&self) -> u32;

    /// Returns a random number.
    fn random(&self) -> u64;

    /// Has the calling thread wait until this has come, or until a time.
    fn wait(&self, awaited: Awaited<'_>, until_ns: Option<u64>);

    /// Ends the turn of the calling thread. Returns, in its next one, how that goes; none if it ends when the thread waits.
    fn end_turn(&self) -> Option<Turn>;

    /// Starts a thread of the process.
    fn start(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;

    /// Returns the value of this process for a static variable, which is known by its address. `make` makes it at its first
    /// use. It is never freed.
    fn state(&self, of: usize, make: &mut dyn FnMut() -> State) -> &'static Value;

    /// Makes an eventfd readable at a time; none cancels that.
    fn set_timer(&self, timer: &Arc<OwnedFd>, at_ns: Option<u64>);

    /// Returns the error with which the system would refuse a resource to the process, if that has none left.
    fn lacks(&self, resource: Resource) -> Option<rustix::io::Errno>;

    /// Takes note that a thread which is in no world has woken one of the process.
    fn is_woken_from_outside(&self);

    /// Takes note of a socket of the process, whose peers see its end when the process is killed.
    fn has_socket(&self, socket: BorrowedFd<'_>);

    /// Returns a socket of the process that is connected with a port. It gives up when nothing was acknowledged for so many
    /// milliseconds.
    fn connect(&self, to: SocketAddr, patience_ms: u32) -> rustix::io::Result<OwnedFd>;

    /// Returns a socket of the process that listens, and its address.
    fn listen(&self, at: SocketAddr) -> rustix::io::Result<(OwnedFd, SocketAddr)>;

    /// Accepts a caller at such a socket. Returns the caller's address.
    fn accept(&self, listening: BorrowedFd<'_>) -> rustix::io::Result<(OwnedFd, SocketAddr)>;

    /// Returns the address of the process's host.
    fn address(&self) -> IpAddr;

    /// Returns the address of a host of the world, if it has one of this name.
    fn address_of(&self, host: &str) -> Option<IpAddr>;

    /// Locks a file for the process, unless another one has locked it. Returns whether this one has.
    fn lock(&self, file: FileNumber) -> bool;

    /// Unlocks a file.
    fn unlock(&self, file: FileNumber);

    /// Returns whether another process has locked a file.
    fn is_locked(&self, file: FileNumber) -> bool;

    /// Returns whether the world takes note of each message.
    fn is_observed(&self) -> bool;

    /// Takes note of a message that has ended, and of the nanoseconds after which it began.
    fn note_message(&self, began_ns: u64, message: Box<dyn Display + Send>);
}

/// A turn of a thread that ends between two accesses to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The accesses behind which it ends.
    pub accesses: u64,
    /// A random number, which says how late others see its stores.
    pub stores: u64,
}

/// A resource of a process that may run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Descriptors: of the process, or of the system.
    Descriptors,
    /// Memory: for a mapping, or in the kernel.
    Memory,
    /// Room in a file system, which is where shared memory lies.
    Room,
}

/// The payload with which the threads of a world unwind that is over. Code that contains panics passes it on: nothing of
/// the world runs any more.
#[derive(Debug)]
pub struct WorldIsOver;

/// The numbers of a file's device and of the file there.
pub type FileNumber = (u64, u64);

/// A value that the threads of a process share.
pub type Value = dyn Any + Send + Sync;

/// The same, just made.
pub type State = Box<Value>;

/// The cause for which a thread of a world goes on before its time.
#[derive(Debug)]
pub enum Awaited<'a> {
    /// None.
    Nothing,
    /// One of these descriptors has one of these events.
    Descriptors(&'a [(BorrowedFd<'a>, PollFlags)]),
    /// The number has another value.
    Change(&'a Arc<AtomicU64>, u64),
}

/// Whether a thread of this process has ever been in a world.
static ENTERED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static WORLD: RefCell<Option<Arc<dyn World>>> = const { RefCell::new(None) };
}

/// Runs `act` in a world: the thread takes everything from it meanwhile.
pub fn enter<R>(world: &Arc<dyn World>, act: impl FnOnce() -> R) -> R {
    /// Puts the thread back where it was, after a panic too.
    struct Back(Option<Arc<dyn World>>);
    impl Drop for Back {
        fn drop(&mut self) {
            // A thread that ends may have dropped its variables.
            let _ = WORLD.try_with(|place| place.replace(self.0.take()));
        }
    }
    ENTERED.store(true, Ordering::Relaxed);
    let _back = Back(WORLD.replace(Some(Arc::clone(world))));
    act()
}

/// Returns whether the calling thread is in a world.
#[inline(always)]
#[must_use]
pub fn is_simulated() -> bool {
    ENTERED.load(Ordering::Relaxed) && is_in_world()
}

#[cold]
#[inline(never)]
fn is_in_world() -> bool {
    WORLD.try_with(|world| world.borrow().is_some()).unwrap_or(false)
}

/// The world of the thread that has made this, if it was in one.
pub struct Origin(Option<Arc<dyn World>>);

impl Origin {
    /// Returns that of the calling thread.
    #[must_use]
    pub fn of_thread() -> Origin {
        Origin(current())
    }

    /// Tells the world that the calling thread wakes a thread there. One that is in no world does not follow the seed.
    pub fn wakes(&self) {
        self.0.iter().filter(|_| !is_simulated()).for_each(|world| world.is_woken_from_outside());
    }
}

/// Returns the number by which nodes of one process find each other.
#[must_use]
pub fn process_number() -> u32 {
    // The system gives no process a number so large.
    current().map_or_else(std::process::id, |world| world.number() | 1 << 31)
}

/// Returns the value that the process of the calling thread has for a static variable, if the thread is in a world.
#[inline]
pub fn state_in_world<T: Any + Send + Sync>(of: usize, make: impl Fn() -> T) -> Option<&'static T> {
    current()?.state(of, &mut || Box::new(make())).downcast_ref()
}

/// Returns whether the calling thread is in a world that takes note of each message.
#[doc(hidden)]
#[cold]
#[inline(never)]
#[must_use]
pub fn is_observed() -> bool {
    current().is_some_and(|world| world.is_observed())
}

/// Shows the world of the calling thread a message that has ended, which began after so many nanoseconds.
#[doc(hidden)]
pub fn note_message(began_ns: u64, message: impl Display + Send + 'static) {
    if let Some(world) = current() {
        world.note_message(began_ns, Box::new(message));
    }
}

/// Returns the world of the calling thread.
#[inline]
pub(crate) fn current() -> Option<Arc<dyn World>> {
    if ENTERED.load(Ordering::Relaxed) { of_thread() } else { None }
}

#[cold]
#[inline(never)]
fn of_thread() -> Option<Arc<dyn World>> {
    WORLD.try_with(|world| world.borrow().clone()).unwrap_or(None)
}
