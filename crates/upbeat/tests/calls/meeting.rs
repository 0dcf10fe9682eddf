//! How a client finds its server, and the errors where it does not.

use crate::common::server::{KINDS, Kind, Server, Stand};
use crate::common::work::{WorkClient, WorkServer, Worker};
use crate::common::{Directory, Signal, Watchdog, node};
use std::time::Duration;
use upbeat::error::Called;
use upbeat::{BuildError, CallError, ConnectError, Waiting};
use upbeat_transport::error::{BindError, OpenError};

/// The service `Meter` as an older server knows it: the client's version has more methods.
mod old {
    #[upbeat::service]
    pub(crate) trait Meter {
        async fn read(&self) -> u64;
    }

    pub(crate) struct Real;

    impl Meter for Real {
        async fn read(&self) -> u64 {
            12
        }
    }
}

mod new {
    #[upbeat::service]
    pub(crate) trait Meter {
        async fn reset(&self, to: u64) -> Result<(), String>;
        async fn read(&self) -> u64;
        #[oneway]
        async fn tick(&self);
    }
}

mod other {
    #[upbeat::service]
    pub(crate) trait Meter {
        async fn read(&self) -> u32;
    }
}

fn with_meter(test: impl AsyncFn(&upbeat::Node, &str)) {
    let directory = Directory::new();
    let place = directory.path();
    let name = format!("meter/{}", place.parent().unwrap().file_name().unwrap().display());
    let (quit, serving) = (Signal::default(), std::sync::mpsc::channel());
    let server = std::thread::spawn({
        let (place, name, quit) = (place.clone(), name.clone(), quit.clone());
        move || {
            let node = node(&name, &place, Waiting::Adaptive);
            node.serve(old::MeterServer::new(old::Real)).unwrap();
            serving.0.send(()).unwrap();
            node.block_on(quit);
        }
    });
    serving.1.recv().unwrap();
    let client = node(&format!("{name}/client"), &place, Waiting::Adaptive);
    client.block_on(test(&client, &name));
    quit.give();
    server.join().unwrap();
}

#[test]
fn a_method_that_an_older_server_lacks_is_missed_when_it_is_called() {
    let _watchdog = Watchdog::new("older server");
    with_meter(async |node, name| {
        let meter: new::MeterClient = node.connect(name).await.unwrap();
        assert_eq!(meter.read().await, Ok(12));
        assert_eq!(
            meter.reset(1).await,
            Err(CallError::NoSuchMethod { method: "reset", called: Called::default() })
        );
        assert_eq!(
            meter.tick().await,
            Err(CallError::NoSuchMethod { method: "tick", called: Called::default() })
        );
        assert!(meter.tick().await.unwrap_err().to_string().contains("older"));
        assert_eq!(meter.read().await, Ok(12));
    });
}

struct Newer(std::cell::Cell<u64>);

impl new::Meter for Newer {
    async fn reset(&self, to: u64) -> Result<(), String> {
        self.0.set(to);
        Ok(())
    }

    async fn read(&self) -> u64 {
        self.0.get()
    }

    async fn tick(&self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn an_old_client_goes_on_where_methods_were_added_before_and_behind_its_own() {
    let _watchdog = Watchdog::new("newer server");
    let directory = Directory::new();
    let name = directory.path().parent().unwrap().file_name().unwrap().display().to_string();
    // Both at one node, and both clients in one session.
    let server = node(&format!("newer/{name}"), &directory.path(), Waiting::Adaptive);
    server.serve(new::MeterServer::new(Newer(std::cell::Cell::new(12)))).unwrap();
    server.block_on(async {
        let old: old::MeterClient = server.connect(&server.name()).await.unwrap();
        assert_eq!(old.read().await, Ok(12));
        let new: new::MeterClient = server.connect(&server.name()).await.unwrap();
        assert_eq!(new.reset(40).await, Ok(()));
        new.tick().await.unwrap();
        assert_eq!((old.read().await, new.read().await), (Ok(41), Ok(41)));
    });
    server.shut_down(Duration::from_secs(1));
}

#[test]
fn signatures_that_clash_are_both_named() {
    let _watchdog = Watchdog::new("clash");
    with_meter(async |node, name| {
        let error = node.connect::<other::MeterClient>(name).await.err().unwrap();
        assert!(matches!(&error, ConnectError::Clash(clashes) if clashes.len() == 1), "{error}");
        let text = error.to_string();
        assert!(text.contains("Meter.read") && text.contains("u32"), "{text}");
        assert!(text.contains("u64"), "{text}");
    });
}

#[test]
fn a_service_that_is_not_served() {
    let _watchdog = Watchdog::new("not served");
    with_meter(async |node, name| {
        match node.connect::<WorkClient>(name).await.err() {
            Some(ConnectError::NotServed { service, peer }) => {
                assert!(service == "Work" && peer.contains(name), "{service} {peer}");
            }
            other => panic!("{other:?}"),
        }
        assert!(node.connect::<old::MeterClient>(name).await.is_ok());
    });
}

#[test]
fn nobody_is_there() {
    let _watchdog = Watchdog::new("nobody");
    let stand = Stand::new(Kind::Shared, Waiting::Adaptive);
    let name = stand.name();
    stand.node.block_on(async {
        match stand.node.connect::<WorkClient>("nobody").await.err() {
            Some(ConnectError::Open(OpenError::NoSuchNode { name, died: false, .. })) => {
                assert_eq!(name.as_str(), "nobody");
            }
            other => panic!("{other:?}"),
        }
        let name = stand.node.connect::<WorkClient>("../escape").await.err();
        assert!(matches!(name, Some(ConnectError::Name(_))), "{name:?}");
    });
    // The server was there and is gone.
    let Stand { node, mut server, .. } = stand;
    let work: WorkClient = node.block_on(node.connect(&name)).unwrap();
    server.other().kill();
    server.other().child.wait().unwrap();
    node.block_on(async {
        let error = work.add(1, 1).await.unwrap_err();
        let is_lost = matches!(error, CallError::Unknown(_) | CallError::NotConnected { .. });
        assert!(is_lost, "{error}");
        match node.connect::<WorkClient>(&name).await.err() {
            Some(ConnectError::Open(OpenError::NoSuchNode { died: true, .. })) => {}
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_node_may_call_itself() {
    let _watchdog = Watchdog::new("oneself");
    let directory = Directory::new();
    let node = node("oneself", &directory.path(), Waiting::Adaptive);
    node.serve(WorkServer::new(Worker::default())).unwrap();
    node.block_on(async {
        let work: WorkClient = node.connect("oneself").await.unwrap();
        assert_eq!(work.add(20, 22).await, Ok(42));
        assert_eq!(work.nap(1, 7).await, Ok(7));
        let again: WorkClient = node.connect("oneself").await.unwrap();
        assert_eq!(again.bytes(vec![7; 70_000]).await, Ok(vec![7; 70_000]));
        for n in 0..1000 {
            assert_eq!(work.add(n, n).await, Ok(2 * n));
        }
    });
    node.shut_down(Duration::from_secs(1));
    assert_eq!(node.sessions(), 0);
}

#[test]
fn connecting_twice_shares_a_session() {
    let _watchdog = Watchdog::new("twice");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        let name = stand.name();
        stand.node.block_on(async {
            // At the same time, from several tasks, and once more.
            let tasks: Vec<_> = (0..8)
                .map(|n| {
                    let (node, name) = (stand.node.clone(), name.clone());
                    stand.node.spawn(async move {
                        let work: WorkClient = node.connect(&name).await.unwrap();
                        assert_eq!(work.add(n, 1).await, Ok(n + 1));
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            let work: WorkClient = stand.node.connect(&name).await.unwrap();
            assert_eq!(work.add(1, 1).await, Ok(2));
            assert_eq!(stand.node.sessions(), 1);
        });
    }
}

#[test]
fn a_name_belongs_to_one_process() {
    let _watchdog = Watchdog::new("taken");
    let stand = Stand::new(Kind::Shared, Waiting::Adaptive);
    let builder = upbeat::Node::builder(&stand.name()).program("test").directory(&stand.place);
    match builder.build().err() {
        Some(BuildError::Bind(BindError::NameTaken { name: taken, pid: by })) => {
            assert_eq!(taken.as_str(), stand.name());
            assert!(by.is_some() && by != Some(std::process::id()), "{by:?}");
        }
        other => panic!("{other:?}"),
    }
    // Another program may use it, and does not meet this one.
    let builder = upbeat::Node::builder(&stand.name()).program("test/2").directory(&stand.place);
    let other = builder.build();
    match other {
        Err(BuildError::Name(_)) => {}
        other => drop(other.unwrap()),
    }
}

#[test]
fn a_server_that_comes_back_is_found_again() {
    let _watchdog = Watchdog::new("comes back");
    for kind in KINDS {
        let Stand { node, server, place, _directory, .. } = Stand::new(kind, Waiting::Adaptive);
        let name = node.name().replace("client", "server");
        let work: WorkClient = node.block_on(node.connect(&name)).unwrap();
        assert_eq!(node.block_on(work.add(1, 1)), Ok(2));
        drop(server);
        let server = Server::start(kind, &name, &place, Waiting::Adaptive);
        node.block_on(async {
            // A call that is sent before the node notices the loss fails. The old client finds the new server, as a
            // new one does.
            match work.add(1, 1).await {
                Ok(sum) => assert_eq!(sum, 2),
                Err(error) => assert!(matches!(error, CallError::Unknown(_)), "{error}"),
            }
            assert_eq!(work.add(1, 1).await, Ok(2));
            let work: WorkClient = node.connect(&name).await.unwrap();
            assert_eq!(work.add(1, 1).await, Ok(2));
        });
        drop(server);
    }
}
