//! Addresses of this host: a node that listens at one is reached in memory, and whatever else listens there over the
//! network.

use crate::common::left_out::leave_out;
use crate::common::process::Other;
use crate::common::work::{WorkClient, WorkHandle, WorkServer, Worker, handle_works, works};
use crate::common::{Directory, PROGRAM, Signal, Watchdog, alone, block_on, shares_memory, soon};
use crate::resume::proxy::Proxy;
use crate::{client, client_that, connected, handle, unprotected};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use upbeat::{Counter, Node, Waiting};

/// A server in another process.
struct Server {
    process: Other,
    at: SocketAddr,
}

impl Server {
    /// Starts a server of this program, whose sockets are in a directory.
    fn start(directory: &Directory, name: &str, at: &str) -> Server {
        let part = format!("{PROGRAM} {name} {at} ");
        Server::of(Other::start(&part, &directory.path()))
    }

    fn of(mut process: Other) -> Server {
        let at = process.expect("serving").parse().unwrap();
        Server { process, at }
    }

    /// The addresses at which it is reached, as a caller writes them.
    fn addresses(&self) -> Vec<String> {
        let port = self.at.port();
        let own = |to: &str, from: &str| {
            let socket = UdpSocket::bind(from).ok()?;
            // Nothing is sent: the system chooses the address of an interface.
            socket.connect(to).ok()?;
            Some(SocketAddr::new(socket.local_addr().ok()?.ip(), port).to_string())
        };
        let own = [own("198.51.100.7:9", "0.0.0.0:0"), own("[2001:db8::7]:9", "[::]:0")];
        let [four, six] = own.map(|at| at.unwrap_or_default());
        let all = match &*self.at.ip().to_string() {
            "127.0.0.1" => vec!["127.0.0.1", "localhost"],
            "::1" => vec!["[::1]", "localhost"],
            "0.0.0.0" => vec!["127.0.0.1", "127.9.9.9", &four],
            "::" => vec!["127.0.0.1", "[::1]", &four, &six],
            other => panic!("{other}"),
        };
        let all = all.into_iter().map(|host| match host.parse::<SocketAddr>() {
            Ok(at) => at.to_string(),
            Err(_) => format!("{host}:{port}"),
        });
        let is_known = |at: &String| {
            let is_known = at.to_socket_addrs().is_ok_and(|mut known| {
                self.at.ip().is_unspecified() || known.any(|known| known == self.at)
            });
            if !is_known {
                leave_out(&format!("{at:?} does not stand for {} here", self.at));
            }
            is_known
        };
        all.filter(is_known).collect()
    }
}

/// How many sessions a node has opened, and how many of them over a network.
fn opened(node: &Node) -> (u64, u64) {
    (node.counted(Counter::SessionsOpened), node.counted(Counter::SessionsRemote))
}

/// Returns the two counts of the node that serves.
async fn opened_there(work: &WorkClient) -> (u64, u64) {
    let counted = async |counter: Counter| work.counted(counter.index() as u64).await.unwrap();
    (counted(Counter::SessionsOpened).await, counted(Counter::SessionsRemote).await)
}

#[test]
fn a_node_at_an_address_of_this_host_is_reached_in_memory() {
    let _alone = alone();
    let _watchdog = Watchdog::new("own addresses");
    if !shares_memory("addresses of this host") {
        return;
    }
    for listens in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"] {
        let directory = Directory::new();
        let mut server = Server::start(&directory, "server", listens);
        let addresses = server.addresses();
        let mut there = 0;
        for at in &addresses {
            let to = format!("server@{at}");
            let node = client(&directory, Waiting::Adaptive);
            node.block_on(async {
                let work = connected(&node, &to).await;
                works(&work).await;
                // All that leads to the node leads to the session that stands.
                for again in addresses.iter().map(|at| format!("server@{at}")) {
                    assert_eq!(soon(connected(&node, &again).await.add(1, 2)).await, Ok(3));
                }
                assert_eq!(soon(connected(&node, "server").await.add(1, 2)).await, Ok(3));
                assert_eq!(opened(&node), (1, 0), "{to}");
            });
            let node = client(&directory, Waiting::Adaptive);
            let handles: WorkHandle = handle(&directory).connect(&to).unwrap();
            handle_works(&handles);
            node.block_on(async {
                let work = connected(&node, "server").await;
                assert_eq!(soon(connected(&node, &to).await.add(1, 2)).await, Ok(3));
                assert_eq!(opened(&node), (1, 0), "{to}: by its name first");
                // Two nodes, a handle that blocks and one that is awaited.
                there += 4;
                assert_eq!(opened_there(&work).await, (there, 0), "{to}");
            });
        }
        server.process.end();
    }
}

/// Has a node serve on another thread while a test runs, which gets its address. Returns what it has opened.
fn beside(directory: &Directory, name: &'static str, test: impl FnOnce(&str)) -> (u64, u64) {
    let (tell, told) = channel();
    let quit = Signal::default();
    let (place, quits) = (directory.path(), quit.clone());
    let server = thread::spawn(move || {
        let builder = Node::builder(name).program(PROGRAM).directory(place);
        let node = builder.listen("127.0.0.1:0").insecure_plaintext().build().unwrap();
        node.serve(WorkServer::new(Worker::new(Signal::default()))).unwrap();
        tell.send(node.listens_at().unwrap().to_string()).unwrap();
        node.block_on(quits);
        opened(&node)
    });
    test(&told.recv().unwrap());
    quit.give();
    server.join().unwrap()
}

#[test]
fn a_node_of_this_process_is_reached_within_it() {
    let _alone = alone();
    let _watchdog = Watchdog::new("own addresses in a process");
    if !shares_memory("addresses of this host") {
        return;
    }
    // Names of a process hold whatever the directories are.
    for directories in [1, 2] {
        let theirs = Directory::new();
        let ours = if directories == 1 { &theirs } else { &Directory::new() };
        let there = beside(&theirs, "own/server", |at| {
            let to = format!("own/server@{at}");
            let node = client(ours, Waiting::Adaptive);
            node.block_on(async {
                works(&connected(&node, &to).await).await;
                assert_eq!(soon(connected(&node, "own/server").await.add(1, 2)).await, Ok(3));
            });
            assert_eq!(opened(&node), (1, 0));
            handle_works(&handle(ours).connect(&to).unwrap());
        });
        assert_eq!(there, (3, 0));
    }
    // A node reaches itself.
    let directory = Directory::new();
    let node = client_that(&directory, |builder| builder.listen("127.0.0.1:0"));
    node.serve(WorkServer::new(Worker::default())).unwrap();
    let to = format!("{}@{}", node.name(), node.listens_at().unwrap());
    node.block_on(async { works(&connected(&node, &to).await).await });
    assert_eq!(opened(&node).1, 0);
}

/// Connects a node and handles of both kinds to the `server` behind a tunnel, which nobody has called before.
fn reaches_what_is_behind(directory: &Directory, tunnel: &Proxy, behind: &Server) {
    let to = format!("server@{}", tunnel.at);
    let node = client(directory, Waiting::Adaptive);
    let work = node.block_on(async {
        let work = connected(&node, &to).await;
        work.note(1).await.unwrap();
        assert_eq!(soon(work.noted()).await, Ok((1, 1, 0)));
        work
    });
    let (_, before) = node.block_on(opened_there(&work));
    let handles: WorkHandle = handle(directory).connect(&to).unwrap();
    assert_eq!(handles.blocking().noted(), Ok((1, 1, 0)));
    assert_eq!(block_on(handles.noted()), Ok((1, 1, 0)));
    let (_, after) = node.block_on(opened_there(&work));
    assert_eq!((opened(&node), after - before), ((1, 1), 2), "{} {}", tunnel.at, behind.at);
}

/// A tunnel's end may have an address of this host, where a node of the same name may be.
#[test]
fn a_namesake_of_this_host_does_not_stand_for_what_is_behind_a_tunnel() {
    let _alone = alone();
    let _watchdog = Watchdog::new("tunnels");
    if !shares_memory("addresses of this host") {
        return;
    }
    let far = Directory::new();
    let behind = || Server::start(&far, "server", "127.0.0.1:0");
    let untouched = |directory: &Directory| {
        let node = client(directory, Waiting::Adaptive);
        let noted = node.block_on(async { soon(connected(&node, "server").await.noted()).await });
        assert_eq!(noted, Ok((0, 0, 0)), "the namesake was called");
    };
    // The namesake listens at another port, or nowhere.
    for listens in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0", ""] {
        let (directory, behind) = (Directory::new(), behind());
        let _namesake = match listens {
            "" => None,
            listens => Some(Server::start(&directory, "server", listens)),
        };
        let tunnel = Proxy::to(&behind.at.to_string());
        reaches_what_is_behind(&directory, &tunnel, &behind);
        if !listens.is_empty() {
            untouched(&directory);
        }
    }
    // The namesake listens at the same port of another address.
    let (directory, behind_it) = (Directory::new(), behind());
    let tunnel = Proxy::to(&behind_it.at.to_string());
    let listens = format!("127.0.0.2:{}", tunnel.at.port());
    let namesake = Server::start(&directory, "server", &listens);
    reaches_what_is_behind(&directory, &tunnel, &behind_it);
    untouched(&directory);
    drop((namesake, behind_it));

    // The namesake is a node of this process.
    let (directory, behind) = (Directory::new(), behind());
    let tunnel = Proxy::to(&behind.at.to_string());
    let there = beside(&directory, "server", |_| {
        reaches_what_is_behind(&directory, &tunnel, &behind);
    });
    assert_eq!(there, (0, 0));
}

/// A port of another network namespace is not the one that an address leads to, though the directory is the same.
#[test]
fn a_namesake_in_another_network_is_not_reached_by_an_address() {
    let _alone = alone();
    let _watchdog = Watchdog::new("other networks");
    let works = Command::new("unshare").args(["-n", "true"]).status();
    if !shares_memory("addresses of this host") || !works.is_ok_and(|status| status.success()) {
        leave_out("there is no other network namespace to be had");
        return;
    }
    let directory = Directory::new();
    let mut unshare = Command::new("unshare");
    unshare.arg("-n");
    let part = format!("{PROGRAM} server 0.0.0.0:0 ");
    let server = Server::of(Other::start_under(unshare, &part, &directory.path()));
    let to = format!("server@127.0.0.1:{}", server.at.port());
    let node = client(&directory, Waiting::Adaptive);
    let error = node.block_on(async { node.connect::<WorkClient>(&to).await.err().unwrap() });
    assert!(error.to_string().contains("refused"), "{error}");
    let error = handle(&directory).connect::<WorkHandle>(&to).err().unwrap();
    assert!(error.to_string().contains("refused"), "{error}");
    node.block_on(async {
        assert_eq!(soon(connected(&node, "server").await.add(1, 2)).await, Ok(3));
    });
    assert_eq!(opened(&node), (1, 0), "by its name it is reached");
}

/// Where one of both does not share memory, or they have no directory in common, the network leads there.
#[test]
fn a_node_that_shares_no_memory_is_reached_over_the_network() {
    let _alone = alone();
    let _watchdog = Watchdog::new("no memory");
    if !shares_memory("addresses of this host") {
        return;
    }
    let directory = Directory::new();
    let usual = Server::start(&directory, "server", "127.0.0.1:0");
    let part = format!("apart {PROGRAM} apart 127.0.0.1:0 ");
    let apart = Server::of(Other::start(&part, &directory.path()));
    let elsewhere = Directory::new();
    for (server, name, ours, shares) in [
        (&usual, "server", &directory, false),
        (&usual, "server", &elsewhere, true),
        (&apart, "apart", &directory, true),
    ] {
        let to = format!("{name}@{}", server.at);
        let node = client_that(ours, |builder| match shares {
            true => builder,
            false => builder.shared_memory(false),
        });
        let work = node.block_on(async {
            let work = connected(&node, &to).await;
            works(&work).await;
            work
        });
        assert_eq!(opened(&node), (1, 1), "{to}");
        let (_, before) = node.block_on(opened_there(&work));
        let builder = handle(ours);
        let builder = if shares { builder } else { builder.shared_memory(false) };
        let handles: WorkHandle = builder.connect(&to).unwrap();
        handle_works(&handles);
        let (_, after) = node.block_on(opened_there(&work));
        assert_eq!(after, before + 2, "{to}");
    }
}

/// A node of another program is told from ours, over the network as ever; and what goes over a network has to be
/// protected, wherever its node is today.
#[test]
fn the_rest_of_an_address_is_as_of_another_host() {
    let _alone = alone();
    let _watchdog = Watchdog::new("other programs");
    if !shares_memory("addresses of this host") {
        return;
    }
    let directory = Directory::new();
    let part = "another server 127.0.0.1:0 ";
    let server = Server::of(Other::start(part, &directory.path()));
    let to = format!("server@{}", server.at);
    let node = client(&directory, Waiting::Adaptive);
    let error = node.block_on(async { node.connect::<WorkClient>(&to).await.err().unwrap() });
    assert!(error.to_string().contains("another program"), "{error}");
    let error = handle(&directory).connect::<WorkHandle>(&to).err().unwrap();
    assert!(error.to_string().contains("another program"), "{error}");

    let ours = Server::start(&directory, "server", "127.0.0.1:0");
    let to = format!("server@{}", ours.at);
    let node = unprotected(&directory).build().unwrap();
    let error = node.block_on(async { node.connect::<WorkClient>(&to).await.err().unwrap() });
    assert!(error.to_string().contains("insecure_plaintext()"), "{error}");
    node.shut_down(Duration::from_secs(1));
}
