//! What carries the sessions of a node or a handle, as the application says it or the environment.

use upbeat_core::name::{NodeName, ProgramId};
use upbeat_transport::error::{HomeError, OpenError};
use upbeat_transport::home::Home;
use upbeat_transport::opening::Opening;
use upbeat_transport::place::Place;
use upbeat_transport::{local, shared};

/// The environment variable that forbids memory to be shared with other processes, where it is 0 and
/// the application does not say.
const MEMORY_VARIABLE: &str = "UPBEAT_SHARED_MEMORY";
/// The environment variable that has every session go over one carrier, for tests.
const CARRIER_VARIABLE: &str = "UPBEAT_TEST_CARRIER";

/// What carries sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carriers {
    /// The heap within a process, shared memory between processes where that can be.
    Any,
    /// The heap within a process, byte streams between processes.
    NoMemory,
    /// Byte streams, within a process too.
    Streams,
    /// Shared memory, within a process too.
    Memory,
}

impl Carriers {
    /// What the application says, or the environment.
    pub(crate) fn of(shared_memory: Option<bool>) -> Carriers {
        match std::env::var(CARRIER_VARIABLE).as_deref() {
            Ok("stream") => return Carriers::Streams,
            Ok("shared") => return Carriers::Memory,
            _ => {}
        }
        let of_environment = || std::env::var_os(MEMORY_VARIABLE).is_none_or(|text| text != "0");
        match shared_memory.unwrap_or_else(of_environment) {
            true => Carriers::Any,
            false => Carriers::NoMemory,
        }
    }

    /// What a node or a handle brings to sessions: one of this name, which others reach if there is a place.
    pub(crate) fn home(
        self,
        program: ProgramId,
        name: Option<NodeName>,
        reachable: bool,
    ) -> Result<Home, HomeError> {
        let home = match (self, reachable, name) {
            (_, false, name) => Home::local(program, name)?,
            (Carriers::Any | Carriers::Memory, true, None) => Home::of_handle(program)?,
            (Carriers::Any | Carriers::Memory, true, name) => Home::new(program, name)?,
            (Carriers::NoMemory | Carriers::Streams, true, name) => {
                Home::without_memory(program, name)?
            }
        };
        Ok(if self == Carriers::Streams { home.over_streams_alone() } else { home })
    }

    /// Calls a node: of this process first, if it may be met there.
    pub(crate) fn connect(
        self,
        home: &Home,
        place: Option<&Place>,
        name: &NodeName,
        session: usize,
        [now_ms, began_ms]: [u64; 2],
    ) -> Result<Opening, OpenError> {
        if let (Carriers::Memory, Some(place)) = (self, place) {
            return shared::connect(place, home, name, session, began_ms);
        }
        match (place, local::connect(home, name, session, now_ms)) {
            (Some(place), Err(OpenError::NoSuchNode { .. })) => {
                shared::connect(place, home, name, session, began_ms)
            }
            (_, here) => here,
        }
    }
}
