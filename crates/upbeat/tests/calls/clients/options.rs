//! A deadline and a context of generic callers: over a client, a handle, a plain implementation and a mock.

use crate::common::{Directory, PROGRAM, Signal, Watchdog, alone, block_on, node};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::future::Future;
use std::time::Duration;
use upbeat::{CallError, Waiting};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, upbeat::Wire)]
struct Tenant(u64);

impl upbeat::Context for Tenant {
    const KEY: &'static str = "tenant";
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, upbeat::Wire)]
struct Trace(u64);

impl upbeat::Context for Trace {
    const KEY: &'static str = "trace";
}

#[upbeat::service]
trait House {
    /// The values that have come with the call, 0 where there are none.
    async fn asked(&self, options: &str, of: u64) -> (u64, u64);
    /// Never ends.
    async fn forever(&self) -> Result<u64, String>;
    #[oneway]
    async fn note(&self);
    /// The tenant of the last note.
    async fn noted(&self) -> u64;
}

#[derive(Default)]
struct Home(Cell<u64>);

fn tenant() -> u64 {
    upbeat::context::<Tenant>().map_or(0, |tenant| tenant.0)
}

impl House for Home {
    async fn asked(&self, options: &str, of: u64) -> (u64, u64) {
        assert_eq!((options, of), ("of a name like another", 3));
        (tenant(), upbeat::context::<Trace>().map_or(0, |trace| trace.0))
    }

    async fn forever(&self) -> Result<u64, String> {
        std::future::pending().await
    }

    async fn note(&self) {
        self.0.set(tenant());
    }

    async fn noted(&self) -> u64 {
        self.0.get()
    }
}

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(600);

/// A function that cannot know what it calls, and is given a caller that may have options.
async fn ask(house: &impl HouseCaller) -> Result<(u64, u64), CallError> {
    house.asked("of a name like another", 3).await
}

/// A function within another one, that gives options of its own.
async fn ask_within(house: &impl HouseCaller) -> Result<(u64, u64), CallError> {
    ask(&house.with(&Tenant(9)).deadline(LONG)).await
}

/// Gives the values that come in calls without options, with some, and with some over others; and a note's tenant.
async fn visit(house: &impl HouseCaller) -> Result<[(u64, u64); 4], CallError> {
    let plain = ask(house).await?;
    let optioned = house.with(&Tenant(7)).with(&Trace(8)).deadline(LONG);
    let both = ask(&optioned).await?;
    // The values of the inner function replace those of the outer one.
    let within = ask_within(&optioned).await?;
    house.with(&Tenant(5)).note().await?;
    Ok([plain, both, within, (house.noted().await?, 0)])
}

async fn hang(house: &impl HouseCaller) -> Result<u64, CallError<String>> {
    house.deadline(LONG).deadline(SHORT).forever().await
}

const SEEN: [(u64, u64); 4] = [(0, 0), (7, 8), (9, 8), (5, 0)];

/// Calls a generic function over a handle that this future owns.
async fn spawned(house: HouseHandle) -> Result<u64, CallError<String>> {
    hang(&house).await
}

/// Returns the future, which any thread may poll.
fn sendable<F: Future + Send>(future: F) -> F {
    future
}

#[test]
fn generic_callers_have_deadlines_and_contexts() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("options"));
    let directory = Directory::new();
    let place = directory.path();
    let quit = Signal::default();
    std::thread::scope(|scope| {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (at, stop) = (place.clone(), quit.clone());
        scope.spawn(move || {
            let server = node("house", &at, Waiting::Adaptive);
            server.serve(HouseServer::new(Home::default())).unwrap();
            ready.send(()).unwrap();
            server.block_on(stop);
        });
        is_ready.recv().unwrap();
        let client = node("clients/client", &place, Waiting::Adaptive);
        client.block_on(async {
            let house: HouseClient = client.connect("house").await.unwrap();
            assert_eq!(visit(&house).await, Ok(SEEN));
            assert_eq!(hang(&house).await, Err(CallError::deadline(true)));
        });
        let builder = upbeat::handle::builder().program(PROGRAM).directory(&place);
        let house: HouseHandle = builder.connect("house").unwrap();
        assert_eq!(block_on(visit(&house)), Ok(SEEN));
        let late = std::thread::spawn(move || block_on(sendable(spawned(house)))).join().unwrap();
        assert_eq!(late, Err(CallError::deadline(true)));
        quit.give();
    });
}

/// A mock of before: it knows nothing of options, which change nothing.
struct Mock;

impl HouseCaller for Mock {
    async fn asked(&self, _: &str, of: u64) -> Result<(u64, u64), CallError> {
        Ok((of, of))
    }

    async fn forever(&self) -> Result<u64, CallError<String>> {
        Err(CallError::deadline(false))
    }

    async fn note(&self) -> Result<(), CallError> {
        Ok(())
    }

    async fn noted(&self) -> Result<u64, CallError> {
        Ok(4)
    }
}

#[test]
fn a_mock_and_a_plain_implementation_are_called_as_ever() {
    assert_eq!(block_on(visit(&Mock)), Ok([(3, 3), (3, 3), (3, 3), (4, 0)]));
    assert_eq!(block_on(hang(&Mock)), Err(CallError::deadline(false)));
    let local = HouseLocal::new(Home::default());
    assert_eq!(block_on(visit(&local)), Ok([(0, 0); 4]));
}
