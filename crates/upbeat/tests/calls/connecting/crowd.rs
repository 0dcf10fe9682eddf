//! Many that connect at once, and some that connect and then say nothing.

use crate::common::process::{Other, end_with_input, say};
use crate::common::server::{Kind, Server};
use crate::common::work::{WorkClient, WorkHandle};
use crate::common::{Directory, PROGRAM, Watchdog, alone, in_plaintext, node, setting};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use upbeat::Waiting;

/// Connections that say nothing: as many as a node has under way at a time.
const SILENT: usize = 64;
/// Nodes that connect meanwhile, one after the other.
const HONEST: u64 = 40;

pub(crate) fn play(part: &str, place: &Path) -> bool {
    match part.split_once(' ') {
        Some(("silent", name)) => stay_silent(name, place),
        Some(("crowd", number)) => crowd(number.parse().unwrap(), place),
        _ => return false,
    }
    true
}

fn connect_silently(address: &SocketAddrUnix) -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = socket.unwrap();
    rustix::net::connect(&socket, address).ok().map(|()| socket)
}

/// Holds so many connections, and opens another for each that ends.
fn stay_silent(name: &str, place: &Path) {
    end_with_input();
    let address = SocketAddrUnix::new(place.join(PROGRAM).join(format!("{name}.sock"))).unwrap();
    let mut silent: Vec<OwnedFd> = Vec::new();
    let mut said = false;
    loop {
        while silent.len() < SILENT {
            let Some(socket) = connect_silently(&address) else { break };
            silent.push(socket);
        }
        if silent.len() == SILENT && !std::mem::replace(&mut said, true) {
            say("silent");
        }
        let mut polled: Vec<_> = silent.iter().map(|s| PollFd::new(s, PollFlags::IN)).collect();
        let a_while = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        poll(&mut polled, Some(&a_while)).unwrap();
        let ended: Vec<bool> = polled.iter().map(|p| !p.revents().is_empty()).collect();
        let mut ended = ended.iter();
        silent.retain(|_| !ended.next().unwrap());
    }
}

#[test]
fn silent_connections_give_way_to_honest_ones() {
    let _watchdog = Watchdog::new("silent connections");
    let directory = Directory::new();
    let place = directory.path();
    let _server = Server::start(Kind::Shared, "server", &place, Waiting::Adaptive);
    let mut silent = Other::start("silent server", &place);
    silent.expect("silent");
    let mut failed = Vec::new();
    for number in 0..HONEST {
        let node = node(&format!("honest/{number}"), &place, Waiting::Adaptive);
        let answer = node.block_on(async {
            let work = node.connect::<WorkClient>("server").await.map_err(|e| e.to_string())?;
            work.add(number, 1).await.map_err(|e| e.to_string())
        });
        match answer {
            Ok(sum) => assert_eq!(sum, number + 1),
            Err(text) => failed.push(text),
        }
    }
    assert!(failed.is_empty(), "{} of {HONEST} failed: {}", failed.len(), failed[0]);
}

/// So many handles that connect at once, each in its thread, call, and keep their sessions until all
/// have called.
fn crowd(number: usize, place: &Path) {
    let mut line = String::new();
    say("ready");
    std::io::stdin().read_line(&mut line).unwrap();
    end_with_input();
    let (called, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(OnceLock::new()));
    let begin = Arc::new(Barrier::new(number));
    let threads: Vec<_> = (0..number)
        .map(|thread| {
            let (place, called, refused) =
                (place.to_owned(), Arc::clone(&called), Arc::clone(&refused));
            let begin = Arc::clone(&begin);
            let run = move || {
                begin.wait();
                let builder = upbeat::handle::builder().program(PROGRAM).directory(place);
                let builder = builder.waiting(Waiting::Sleeping);
                let work = builder.connect::<WorkHandle>("server").map_err(|e| e.to_string());
                let sum = work.as_ref().map_err(Clone::clone).and_then(|work| {
                    work.blocking().add(thread as u64, 1).map_err(|e| e.to_string())
                });
                match &sum {
                    Ok(sum) => assert_eq!(*sum, thread as u64 + 1),
                    Err(text) => drop(refused.set(text.clone())),
                }
                called.fetch_add(u64::from(sum.is_ok()), Ordering::Relaxed);
                begin.wait();
            };
            std::thread::Builder::new().stack_size(512 << 10).spawn(run).unwrap()
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let refused = refused.get().map_or("", |text| text.as_str());
    say(&format!("called {} {refused}", called.load(Ordering::Relaxed)));
}

/// Raises this process's limit of descriptors, which its children inherit, for so many sessions.
fn raise_descriptors(sessions: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = 6 * sessions + 200;
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = limit.maximum.map_or(Some(wanted), |most| Some(most.min(wanted)));
        setrlimit(Resource::Nofile, limit).unwrap();
    }
}

#[test]
fn a_thousand_clients_connect_at_once() {
    // A handshake under TLS takes milliseconds of two processors in a debug build, and a caller waits for seconds.
    let most = if in_plaintext("a crowd of more than 200") { 1000 } else { 200 };
    let clients = setting("UPBEAT_CROWD", most);
    let _alone = alone();
    let _watchdog = Watchdog::within("a crowd of clients", 120 + clients / 10);
    raise_descriptors(clients);
    let directory = Directory::new();
    let place = directory.path();
    let _server = Server::start(Kind::Shared, "server", &place, Waiting::Adaptive);
    // In two processes, which begin together.
    let half = clients / 2;
    let mut crowds = [half, clients - half].map(|number| {
        let mut crowd = Other::start(&format!("crowd {number}"), &place);
        crowd.expect("ready");
        crowd
    });
    for crowd in &mut crowds {
        crowd.child.stdin.as_mut().unwrap().write_all(b"now\n").unwrap();
    }
    for (crowd, number) in crowds.iter_mut().zip([half, clients - half]) {
        assert_eq!(crowd.expect("called").trim(), number.to_string(), "of {number}");
    }
}

/// Threads connect within a process, where nodes and handles meet in another way.
#[test]
fn threads_connect_to_a_node_of_their_process_at_once() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a crowd of threads"));
    let threads = setting("UPBEAT_CROWD", 200).min(200) as usize;
    let directory = Directory::new();
    let place = directory.path();
    let name = format!("server/{}", std::process::id());
    let server = Server::start(Kind::Local, &name, &place, Waiting::Adaptive);
    let begin = Arc::new(Barrier::new(threads));
    let threads: Vec<_> = (0..threads as u64)
        .map(|number| {
            let (begin, name, place) = (Arc::clone(&begin), name.clone(), place.clone());
            std::thread::spawn(move || {
                begin.wait();
                let builder = upbeat::handle::builder().program(PROGRAM).directory(place);
                let work: WorkHandle = builder.connect(&name).unwrap();
                assert_eq!(work.blocking().add(number, 1), Ok(number + 1));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(server);
}
