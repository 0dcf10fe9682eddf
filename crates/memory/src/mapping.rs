//! Pages mapped into this process: pages of a file, or private zeroed pages.
//!
//! The callers decide what is mapped and check that it is safe.

use crate::fork::Process;
use crate::sync::frees;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::os::fd::AsFd;
use std::ptr::NonNull;
use upbeat_environment::process::{Resource, obtain};

/// The pages of a mapping that a forked child has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InChild {
    /// None.
    Nothing,
    /// The same pages: a child only reads there, as its parent does.
    TheSame,
}

/// Pages mapped into this process, which are unmapped when this is dropped.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    writable: bool,
    in_child: InChild,
    made: Process,
}

// SAFETY: a mapping is an address range that belongs to the whole process; only `Region` reads and
// writes it, with atomics and under its rules.
unsafe impl Send for Mapping {}

// SAFETY: as for Send.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn new(
        descriptor: impl AsFd,
        bytes: usize,
        writable: bool,
        in_child: InChild,
    ) -> Result<Mapping, MapError> {
        let failed = |act| move |error| MapError { act, error };
        let access = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        obtain(Resource::Memory).map_err(failed("mmap"))?;
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, descriptor, 0)
        }
        .map_err(failed("mmap"))?;
        let Some(base) = NonNull::new(base.cast::<u8>()) else {
            return Err(MapError { act: "mmap", error: Errno::FAULT });
        };
        let mapping = Mapping { base, bytes, writable, in_child, made: Process::this() };
        if in_child == InChild::Nothing {
            // SAFETY: the range was mapped just above. A forked child loses it, and this process keeps
            // it.
            unsafe { rustix::mm::madvise(base.as_ptr().cast(), bytes, Advice::LinuxDontFork) }
                .map_err(failed("madvise"))?;
        }
        Ok(mapping)
    }

    /// Maps private zeroed pages, which take memory when they are touched.
    pub(crate) fn anonymous(bytes: usize) -> Result<Mapping, MapError> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        obtain(Resource::Memory).map_err(|error| MapError { act: "mmap", error })?;
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let base = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE)
        };
        let base = base.map_err(|error| MapError { act: "mmap", error })?;
        match NonNull::new(base.cast::<u8>()) {
            Some(base) => {
                let in_child = InChild::Nothing;
                Ok(Mapping { base, bytes, writable: true, in_child, made: Process::this() })
            }
            None => Err(MapError { act: "mmap", error: Errno::FAULT }),
        }
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // A forked child that does not have this mapping may have another one at the address.
        if self.in_child == InChild::Nothing && !self.made.is_this() {
            return;
        }
        frees(self.base, self.bytes);
        // SAFETY: the range was mapped by `new` or `anonymous`, in this process or in a parent whose
        // mapping this process has inherited, and no region that points into it is left. The call can fail only for a range that was never mapped, which both functions
        // exclude.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A system call that failed to map memory.
pub(crate) struct MapError {
    pub(crate) act: &'static str,
    pub(crate) error: Errno,
}
