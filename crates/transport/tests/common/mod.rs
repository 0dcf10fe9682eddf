//! What the tests of this crate share: two nodes of one program, and how they meet.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use upbeat_core::name::{NodeName, ProgramId};
use upbeat_transport::carrier::{Carrier, Kind};
use upbeat_transport::error::OpenError;
use upbeat_transport::home::Home;
use upbeat_transport::opening::{Opening, Step};
use upbeat_transport::place::Place;
use upbeat_transport::{local, shared};

/// Keeps the tests of one file from running at once: descriptors are counted by process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory of its own for a test, removed with it.
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

    pub(crate) fn place(&self) -> Place {
        Place::at(self.0.join("sockets")).unwrap()
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

pub(crate) fn home(name: &str) -> Home {
    Home::new(program("test"), Some(name.parse().unwrap())).unwrap()
}

/// A listening node, and one that calls it.
pub(crate) struct Stand {
    pub(crate) server: Home,
    pub(crate) client: Home,
    pub(crate) name: NodeName,
    pub(crate) place: Place,
    door: Door,
    _directory: Directory,
}

enum Door {
    Local(local::Listener),
    Shared(shared::Listener),
}

pub(crate) struct Pair {
    pub(crate) near: Carrier,
    pub(crate) far: Carrier,
}

impl Stand {
    pub(crate) fn new(kind: Kind, name: &str) -> Stand {
        let directory = Directory::new();
        let place = directory.place();
        let name: NodeName = format!("{name}/1").parse().unwrap();
        let make = |name: NodeName| match kind {
            Kind::Local => Home::local(program("test"), Some(name)).unwrap(),
            Kind::Shared => Home::new(program("test"), Some(name)).unwrap(),
        };
        let server = make(name.clone());
        let client = make("client".parse().unwrap());
        let door = match kind {
            Kind::Local => Door::Local(local::Listener::bind(&server).unwrap()),
            Kind::Shared => Door::Shared(shared::Listener::bind(&place, &server).unwrap()),
        };
        Stand { server, client, name, place, door, _directory: directory }
    }

    pub(crate) fn listener(&self) -> &shared::Listener {
        match &self.door {
            Door::Shared(listener) => listener,
            Door::Local(_) => panic!("a local stand"),
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
        match self.door {
            Door::Local(_) => local::connect(&self.client, name, session, now_ms),
            Door::Shared(_) => shared::connect(&self.place, &self.client, name, session, now_ms),
        }
    }

    pub(crate) fn try_accept(
        &self,
        session: usize,
        now_ms: u64,
    ) -> Result<Option<Opening>, OpenError> {
        match &self.door {
            Door::Local(listener) => listener.accept(&self.server, session, now_ms),
            Door::Shared(listener) => listener.accept(&self.server, session, now_ms),
        }
    }

    pub(crate) fn accept(&self, session: usize, now_ms: u64) -> Option<Opening> {
        self.try_accept(session, now_ms).unwrap()
    }

    pub(crate) fn pair(&self, near: usize, far: usize) -> Pair {
        let mut caller = self.connect(near, 0).unwrap();
        let mut listener = self.accept(far, 0).expect("a caller");
        finish(&mut caller, &mut listener).unwrap()
    }
}

/// Takes steps in turn until both have ended.
pub(crate) fn finish(caller: &mut Opening, listener: &mut Opening) -> Result<Pair, OpenError> {
    let (mut near, mut far) = (None, None);
    for _ in 0..10 {
        if far.is_none()
            && let Step::Done(carrier) = listener.step(0)?
        {
            far = Some(carrier);
        }
        if near.is_none()
            && let Step::Done(carrier) = caller.step(0)?
        {
            near = Some(carrier);
        }
        if near.is_some() && far.is_some() {
            break;
        }
    }
    Ok(Pair { near: near.expect("the caller is through"), far: far.expect("so is the listener") })
}

/// Writes a frame of eight bytes.
pub(crate) fn frame(carrier: &Carrier, number: u64) {
    let mut claim = carrier.lanes.claim(1, 0).unwrap();
    claim.write(0, &number.to_le_bytes());
    claim.commit([1 << 8, 0, 0], 8);
}

/// Reads the next frame, if one has come.
pub(crate) fn receive(carrier: &Carrier) -> Option<u64> {
    carrier.lanes.look().unwrap()?;
    let mut bytes = [0; 8];
    carrier.lanes.reader().read(0, &mut bytes);
    carrier.lanes.reader().advance();
    carrier.lanes.publish_progress();
    Some(u64::from_le_bytes(bytes))
}

/// How many descriptors this process has.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
