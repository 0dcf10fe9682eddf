//! A node that is not there is waited for, by clients and by handles.

use crate::common::process::apart;
use crate::common::server::{Kind, Server};
use crate::common::work::{WorkClient, WorkHandle, WorkServer, Worker};
use crate::common::{Directory, PROGRAM, SOON, Signal, Watchdog, alone, block_on, node};
use std::future::Future;
use std::path::Path;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use upbeat::error::OpenError;
use upbeat::handle::{HandleBuilder, HandleError};
use upbeat::{CallError, ConnectError, Node, Waiting};

/// The time after which the server's node is made, and after which it serves.
const PAUSE: Duration = Duration::from_millis(40);
const BRIEFLY: Duration = Duration::from_millis(30);

fn handles(place: &Path) -> HandleBuilder {
    upbeat::handle::builder().program(PROGRAM).directory(place)
}

/// Another service of the same name.
mod other {
    #[upbeat::service]
    pub(crate) trait Work {
        async fn add(&self, a: u32) -> u32;
    }
}

#[test]
fn a_node_that_comes_and_serves_later_is_waited_for() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("waiting for a node"));
    let directory = Directory::new();
    let place = directory.path();
    let (stop, began) = (Signal::default(), Instant::now());
    std::thread::scope(|scope| {
        let (quit, at) = (stop.clone(), place.clone());
        scope.spawn(move || {
            std::thread::sleep(PAUSE);
            let server = node("clients/server", &at, Waiting::Adaptive);
            // The node is there, and serves nothing yet.
            server.block_on(upbeat::sleep(PAUSE));
            server.serve(WorkServer::new(Worker::default())).unwrap();
            server.block_on(quit);
            server.shut_down(Duration::from_secs(1));
        });
        let client = scope.spawn(|| {
            let client = node("clients/client", &place, Waiting::Adaptive);
            client.block_on(async {
                let connect = client.connect::<WorkClient>("clients/server").wait_for(SOON);
                let work = connect.await.map_err(|error| error.to_string())?;
                work.add(1, 2).await.map_err(|error| error.to_string())
            })
        });
        let blocking = scope.spawn(|| {
            let work = handles(&place).wait_for(SOON).connect::<WorkHandle>("clients/server");
            let work = work.map_err(|error| error.to_string())?;
            work.blocking().add(2, 3).map_err(|error| error.to_string())
        });
        let awaited = block_on(async {
            let work =
                handles(&place).wait_for(SOON).connect_async::<WorkHandle>("clients/server").await;
            let work = work.map_err(|error| error.to_string())?;
            work.add(3, 4).await.map_err(|error| error.to_string())
        });
        let results = (client.join().unwrap(), blocking.join().unwrap(), awaited);
        stop.give();
        assert_eq!(results, (Ok(3), Ok(5), Ok(7)));
        assert!(began.elapsed() >= 2 * PAUSE);
    });
}

fn assert_not_in_time(error: &ConnectError) {
    let ConnectError::NotInTime { waited, last } = error else { panic!("{error}") };
    assert_eq!(*waited, BRIEFLY);
    assert!(matches!(**last, ConnectError::Open(OpenError::NoSuchNode { .. })), "{last}");
    let text = error.to_string();
    assert!(text.contains("no node `nobody`") && text.contains("during 30ms"), "{text}");
}

#[test]
fn a_wait_ends_with_the_last_error() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("waiting in vain"));
    let directory = Directory::new();
    let client = node("clients/client", &directory.path(), Waiting::Adaptive);
    let began = Instant::now();
    let connect = client.connect::<WorkClient>("nobody").wait_for(BRIEFLY);
    assert_not_in_time(&client.block_on(connect).err().unwrap());
    assert!(began.elapsed() >= BRIEFLY);

    let builder = || handles(&directory.path()).wait_for(BRIEFLY);
    let awaited = block_on(builder().connect_async::<WorkHandle>("nobody"));
    for tried in [builder().connect::<WorkHandle>("nobody"), awaited] {
        match tried.err().unwrap() {
            HandleError::Connect(error) => assert_not_in_time(&error),
            error => panic!("{error}"),
        }
    }
    // The time to connect ends the wait as well.
    let builder = handles(&directory.path()).connect_within(BRIEFLY).wait_for(SOON);
    let error = builder.connect::<WorkHandle>("nobody").err().unwrap().to_string();
    assert!(error.contains("deadline"), "{error}");
}

#[test]
fn calls_of_a_handle_have_its_deadline() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a deadline for all calls"));
    let directory = Directory::new();
    let place = directory.path();
    let _server = Server::start(Kind::Shared, "clients/server", &place, Waiting::Adaptive);
    let work: WorkHandle =
        handles(&place).call_deadline(BRIEFLY).connect("clients/server").unwrap();
    assert!(matches!(work.blocking().forever(), Err(CallError::Deadline { .. })));
    assert!(matches!(block_on(async { work.forever().await }), Err(CallError::Deadline { .. })));
    // A call may have another one.
    let longer = (10 * BRIEFLY).as_millis() as u64;
    assert_eq!(work.blocking().deadline(SOON).nap(longer, 7), Ok(7));
    assert_eq!(block_on(async { work.nap(longer, 8).deadline(SOON).await }), Ok(8));
    // Without this setting a call has none.
    let work: WorkHandle = handles(&place).connect("clients/server").unwrap();
    assert_eq!(work.blocking().nap(longer, 9), Ok(9));
}

#[test]
fn what_waiting_cannot_mend_ends_it_at_once() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("waiting for nothing"));
    let directory = Directory::new();
    let place = directory.path();
    let long = Duration::from_secs(3600);
    let client: Node = node("clients/client", &place, Waiting::Adaptive);
    client.serve(WorkServer::new(Worker::default())).unwrap();
    client.block_on(async {
        let clash = client.connect::<other::WorkClient>("clients/client").wait_for(long).await;
        assert!(matches!(clash.err(), Some(ConnectError::Clash(_))));
        let name = client.connect::<WorkClient>("no name").wait_for(long).await;
        assert!(matches!(name.err(), Some(ConnectError::Name(_))));
        let handles = handles(&place).wait_for(long);
        let clash = handles.connect_async::<other::WorkHandle>("clients/client").await;
        assert!(matches!(clash.err(), Some(HandleError::Connect(ConnectError::Clash(_)))));
    });
}

/// Whether a thread of a handle's is running.
fn has_thread() -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")));
    names.flatten().any(|name| name.trim() == "upbeat-handle")
}

#[test]
fn a_dropped_future_gives_the_connection_up() {
    apart(concat!(module_path!(), "::a_dropped_future_gives_the_connection_up"), || {
        let _watchdog = Watchdog::new("a dropped connection");
        let directory = Directory::new();
        let builder = handles(&directory.path()).wait_for(Duration::from_secs(3600));
        let mut connecting = Box::pin(builder.connect_async::<WorkHandle>("nobody"));
        let polled = connecting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        let comes = |runs: bool| {
            let began = Instant::now();
            while has_thread() != runs {
                assert!(began.elapsed() < SOON, "the thread of the handle runs: {}", !runs);
                std::thread::yield_now();
            }
        };
        comes(true);
        drop(connecting);
        comes(false);
    });
}
