//! Helpers that the tests of this crate share: two nodes of one program, and their connection.
#![allow(dead_code, reason = "every test file uses a part of it")]

#[path = "../secure/mod.rs"]
pub(crate) mod secure;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use upbeat_core::hello::{Record, RefusalCode};
use upbeat_core::name::{NodeName, ProgramId};
use upbeat_memory::segment::{Segment, Writers};
use upbeat_memory::sync::fence_full;
use upbeat_transport::carrier::{Carrier, Kind};
use upbeat_transport::error::OpenError;
use upbeat_transport::identity::Identity;
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::opening::{Opening, Step};
use upbeat_transport::socket_directory::SocketDirectory;
use upbeat_transport::{local, remote, shared};

/// Prevents the tests of one file from running at once, because descriptors are counted for the process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory for one test, which is removed with this value.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new() -> Directory {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("upbeat-transport-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Directory(path)
    }

    pub(crate) fn place(&self) -> SocketDirectory {
        SocketDirectory::at(self.0.join("sockets")).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn program(name: &str) -> ProgramId {
    ProgramId::named(name.parse().unwrap())
}

pub(crate) fn home(name: &str) -> LocalNode {
    LocalNode::new(program("test"), Some(name.parse().unwrap())).unwrap()
}

/// A listening node, and a node that calls it.
pub(crate) struct Fixture {
    pub(crate) server: LocalNode,
    pub(crate) client: LocalNode,
    pub(crate) name: NodeName,
    pub(crate) place: SocketDirectory,
    listener: TestListener,
    identity: Option<Identity>,
    _directory: Directory,
}

enum TestListener {
    Local(local::Listener),
    Shared(shared::Listener),
    Remote(remote::Listener),
}

/// Returns the terms of connections, under TLS if there is an identity.
pub(crate) fn terms(identity: Option<Identity>) -> remote::RemoteOptions {
    remote::RemoteOptions { identity, peer_timeout_ms: 10_000, resume_within_ms: 0 }
}

pub(crate) struct Pair {
    pub(crate) near: Carrier,
    pub(crate) far: Carrier,
}

impl Fixture {
    pub(crate) fn new(kind: Kind, name: &str) -> Fixture {
        let directory = Directory::new();
        let place = directory.place();
        let name: NodeName = format!("{name}/1").parse().unwrap();
        let make = |name: NodeName| match kind {
            Kind::Local => LocalNode::local(program("test"), Some(name)).unwrap(),
            Kind::Shared => LocalNode::new(program("test"), Some(name)).unwrap(),
            Kind::Stream | Kind::Tcp | Kind::Tls => {
                LocalNode::without_memory(program("test"), Some(name)).unwrap()
            }
        };
        let server = make(name.clone());
        let client = make("client".parse().unwrap());
        let identity = (kind == Kind::Tls).then(|| secure::of_program("test"));
        let listener = match kind {
            Kind::Local => TestListener::Local(local::Listener::bind(&server).unwrap()),
            Kind::Shared | Kind::Stream => {
                TestListener::Shared(shared::Listener::bind(&place, &server).unwrap())
            }
            Kind::Tcp | Kind::Tls => {
                let any = (Ipv4Addr::LOCALHOST, 0).into();
                let terms = terms(identity.clone());
                TestListener::Remote(remote::Listener::bind(any, &server, terms).unwrap())
            }
        };
        Fixture { server, client, name, place, listener, identity, _directory: directory }
    }

    pub(crate) fn listener(&self) -> &shared::Listener {
        match &self.listener {
            TestListener::Shared(listener) => listener,
            TestListener::Local(_) | TestListener::Remote(_) => panic!("another fixture"),
        }
    }

    /// Returns where other hosts reach the listener.
    pub(crate) fn address(&self) -> SocketAddr {
        match &self.listener {
            TestListener::Remote(listener) => listener.address(),
            TestListener::Local(_) | TestListener::Shared(_) => panic!("another fixture"),
        }
    }

    pub(crate) fn connect(&self, session: usize, now_ms: u64) -> Result<Opening, OpenError> {
        self.connect_to(&self.name, session, now_ms)
    }

    pub(crate) fn connect_to(
        &self,
        name: &NodeName,
        session: usize,
        now_ms: u64,
    ) -> Result<Opening, OpenError> {
        match &self.listener {
            TestListener::Local(_) => local::connect(&self.client, name, session, now_ms),
            TestListener::Shared(_) => {
                shared::connect(&self.place, &self.client, name, session, now_ms)
            }
            TestListener::Remote(listener) => {
                let (at, times) = (listener.address(), [now_ms, now_ms + 1000]);
                let terms = terms(self.identity.clone());
                remote::connect(&self.client, name, at, session, times, &terms)
            }
        }
    }

    pub(crate) fn try_accept(
        &self,
        session: usize,
        now_ms: u64,
    ) -> Result<Option<Opening>, OpenError> {
        match &self.listener {
            TestListener::Local(listener) => listener.accept(&self.server, session, now_ms),
            TestListener::Shared(listener) => listener.accept(&self.server, session, now_ms),
            TestListener::Remote(listener) => listener.accept(&self.server, session, now_ms),
        }
    }

    pub(crate) fn accept(&self, session: usize, now_ms: u64) -> Option<Opening> {
        if let TestListener::Remote(listener) = &self.listener {
            wait(listener, PollFlags::IN);
        }
        self.try_accept(session, now_ms).unwrap()
    }

    /// Returns the number of handshakes of the listener that are under way, if it counts them.
    pub(crate) fn pending(&self) -> usize {
        match &self.listener {
            TestListener::Local(_) => 0,
            TestListener::Shared(listener) => listener.pending(),
            TestListener::Remote(listener) => listener.pending(),
        }
    }

    pub(crate) fn pair(&self, near: usize, far: usize) -> Pair {
        let mut caller = self.connect(near, 0).unwrap();
        let mut listener = self.accept(far, 0).expect("a caller");
        finish(&mut caller, &mut listener).unwrap()
    }
}

/// Waits until a socket over a network is ready, for at most a second.
pub(crate) fn wait(socket: impl AsFd, flags: PollFlags) {
    let second = Timespec { tv_sec: 1, tv_nsec: 0 };
    poll(&mut [PollFd::new(&socket, flags)], Some(&second)).unwrap();
}

/// Takes a step of an opening, after waiting for its socket if the peer is on another host.
pub(crate) fn step(opening: &mut Opening) -> Result<Step, OpenError> {
    if opening.is_remote() {
        let flags = if opening.wants_output() { PollFlags::OUT } else { PollFlags::IN };
        wait(opening.as_fd(), flags);
    }
    opening.step(0)
}

/// Takes steps in turn until both openings have ended.
pub(crate) fn finish(caller: &mut Opening, listener: &mut Opening) -> Result<Pair, OpenError> {
    let (mut near, mut far) = (None, None);
    for _ in 0..20 {
        if near.is_none() && caller.is_remote() && caller.wants_output() {
            assert!(matches!(step(caller)?, Step::Waiting));
        }
        if far.is_none()
            && let Step::Done(carrier) = step(listener)?
        {
            far = Some(carrier);
        }
        if near.is_none()
            && let Step::Done(carrier) = step(caller)?
        {
            near = Some(carrier);
        }
        if near.is_some() && far.is_some() {
            break;
        }
    }
    let pair =
        Pair { near: near.expect("the caller is through"), far: far.expect("so is the listener") };
    // The tests do not poll the old sockets.
    drop((pair.near.take_old_socket(), pair.far.take_old_socket()));
    Ok(pair)
}

/// Writes a frame of eight bytes.
pub(crate) fn frame(carrier: &Carrier, number: u64) {
    let mut claim = carrier.writer().claim(1, 0).unwrap();
    claim.write(0, &number.to_le_bytes());
    claim.commit([1 << 8 | 8 << 32, 0, 0], 8);
    carrier.flush(fence_full());
}

/// Reads the next frame, if one has come.
pub(crate) fn receive(carrier: &Carrier) -> Option<u64> {
    carrier.pump();
    if carrier.reader().look().unwrap().is_none() {
        // This notes that all frames that have come were read.
        if carrier.peer.at.is_some() {
            wait(carrier.socket().unwrap(), PollFlags::IN);
        }
        carrier.pump();
        carrier.reader().look().unwrap()?;
    }
    let mut bytes = [0; 8];
    carrier.payload().read(0, &mut bytes);
    carrier.reader().advance();
    carrier.reader().publish_progress();
    Some(u64::from_le_bytes(bytes))
}

/// Returns the number of descriptors of this process.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A peer that sends whatever the test wants.
pub(crate) struct Raw(OwnedFd);

impl Raw {
    pub(crate) fn connect(path: &Path) -> Raw {
        let socket = raw_socket();
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        Raw(socket)
    }

    pub(crate) fn accept(listener: &OwnedFd) -> Raw {
        Raw(rustix::net::accept_with(listener, SocketFlags::CLOEXEC).unwrap())
    }

    pub(crate) fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        let parts = [IoSlice::new(bytes)];
        rustix::net::sendmsg(&self.0, &parts, &mut control, SendFlags::NOSIGNAL).unwrap();
    }

    /// Returns the next record, and the number of descriptors that came with it; None at the end.
    pub(crate) fn receive(&self) -> (Option<Record>, usize) {
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let message = rustix::net::recvmsg(&self.0, &mut parts, &mut control, flags).unwrap();
        let descriptors = control.drain().map(|part| match part {
            RecvAncillaryMessage::ScmRights(rights) => rights.count(),
            _ => 0,
        });
        let descriptors = descriptors.sum();
        match message.bytes {
            0 => (None, descriptors),
            length => (Some(Record::decode(&bytes[..length]).unwrap()), descriptors),
        }
    }

    /// Returns the code of the next refusal.
    pub(crate) fn refusal(&self) -> RefusalCode {
        loop {
            match self.receive() {
                (Some(Record::Refusal(refusal)), 0) => return refusal.code(),
                // These records were sent before the peer knew that there is no session.
                (Some(_), _) => {}
                (None, _) => panic!("the session was not refused"),
            }
        }
    }
}

fn raw_socket() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

pub(crate) fn raw_listener(path: &Path) -> OwnedFd {
    let socket = raw_socket();
    rustix::net::bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    rustix::net::listen(&socket, 8).unwrap();
    socket
}

/// Makes descriptors to hand over, valid and invalid.
pub(crate) mod passed {
    use super::{MemfdFlags, OwnedFd, SealFlags, Segment, Writers};

    pub(crate) fn segment(bytes: usize, writers: Writers) -> OwnedFd {
        let segment = Segment::create("passed", bytes, writers).and_then(Segment::reserve).unwrap();
        segment.descriptor().try_clone_to_owned().unwrap()
    }

    pub(crate) fn memfd(bytes: usize, flags: MemfdFlags, seals: SealFlags) -> OwnedFd {
        let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let descriptor = rustix::fs::memfd_create("passed", flags).unwrap();
        rustix::fs::ftruncate(&descriptor, bytes as u64).unwrap();
        rustix::fs::fcntl_add_seals(&descriptor, seals).unwrap();
        descriptor
    }

    pub(crate) fn plain_file(bytes: usize) -> OwnedFd {
        let path = super::Directory::new();
        let file = std::fs::File::create_new(path.0.join("plain")).unwrap();
        file.set_len(bytes as u64).unwrap();
        file.into()
    }

    /// Makes a file of huge pages with the seals of a lane, if the kernel has such files.
    pub(crate) fn hugetlb() -> Option<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
        let descriptor = rustix::fs::memfd_create("passed", flags).ok()?;
        rustix::fs::ftruncate(&descriptor, 2 << 20).ok()?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL | SealFlags::FUTURE_WRITE;
        rustix::fs::fcntl_add_seals(&descriptor, seals).ok()?;
        Some(descriptor)
    }
}
