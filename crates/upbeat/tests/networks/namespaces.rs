//! Two hosts and a router between them: network namespaces of this machine, joined by veth pairs.
//!
//! A test runs again in a process of its own, whose network is the router's. The hosts' namespaces are held by that
//! process alone, so they go with it, however it ends. The router drops packets where it does not forward them,
//! in silence, and by rules of nft.

use crate::common::process::end_with_input;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;

/// Says that this process is the one whose network is the router's.
const INSIDE: &str = "UPBEAT_TEST_ROUTER";

/// Says that nothing is to be left out.
const REQUIRED: &str = "UPBEAT_NETWORKS_REQUIRED";

/// The commands that must work on the router.
const PROBE: &str = "ip link add name probe type veth peer name other \
    && echo 1 > /proc/sys/net/ipv4/ip_forward";

/// Runs the test of this name with a network of its own. Where none can be made the test is left out, aloud,
/// unless it is required.
pub(crate) fn with_network(test: &str, act: impl FnOnce(&Network)) {
    if std::env::var_os(INSIDE).is_some() {
        end_with_input();
        fail_at_once();
        return act(&Network::new());
    }
    let Some(options) = permitted() else { return };
    let mut again = Command::new("unshare");
    again.args([options, "--"]).arg(std::env::current_exe().unwrap());
    again.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    again.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut again = again.spawn().unwrap();
    // The inner process ends with its input: at the latest when this process does.
    let input = again.stdin.take();
    let output = again.wait_with_output().unwrap();
    drop(input);
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    said.iter().for_each(|said| println!("{said}"));
    assert!(output.status.success() && said[0].contains("1 passed"), "{test}: {}", output.status);
}

fn required() -> bool {
    std::env::var_os(REQUIRED).is_some()
}

/// Has the panic of one thread end the process: the others would wait for what that one does not do any more.
fn fail_at_once() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::exit(1);
    }));
}

/// The options by which `unshare` makes a network for this user, if any do.
fn permitted() -> Option<&'static str> {
    let mut refusals = Vec::new();
    for options in ["-Urn", "-n"] {
        match Command::new("unshare").args([options, "sh", "-c", PROBE]).output() {
            Ok(output) if output.status.success() => return Some(options),
            Ok(output) => refusals.push(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => refusals.push(error.to_string()),
        }
    }
    let missing =
        format!("no network namespaces (unshare of util-linux, ip of iproute2): {refusals:?}");
    assert!(!required(), "{missing}");
    eprintln!("left out: {missing}");
    None
}

/// The hosts, as the router sees them.
pub(crate) struct Network {
    pub(crate) near: Host,
    pub(crate) far: Host,
}

impl Network {
    fn new() -> Network {
        let (near, far) = (Host::new("near", 1), Host::new("far", 2));
        write("ip_forward", true);
        Network { near, far }
    }

    /// Drops what comes from the hosts, near and far, from now on, or passes it on.
    pub(crate) fn drop_from(&self, drops: [bool; 2]) {
        for (host, drops) in [&self.near, &self.far].into_iter().zip(drops) {
            write(&format!("conf/{}/forwarding", host.name), !drops);
        }
    }

    /// Drops everything from now on, or nothing.
    pub(crate) fn part(&self, parted: bool) {
        self.drop_from([parted; 2]);
    }

    /// Loses so many of a hundred packets, at random. False, aloud, where there is no nft
    /// and it is not required.
    pub(crate) fn lose(&self, percent: u64) -> bool {
        let rules = format!(
            "table ip network {{}}\n\
             flush table ip network\n\
             table ip network {{ chain forward {{\n\
                 type filter hook forward priority 0;\n\
                 numgen random mod 100 < {percent} counter drop;\n\
             }}\n\
             }}\n"
        );
        let lost = feed("nft", &["-f", "-"], &rules);
        assert!(lost.is_ok() || !required(), "{lost:?}");
        if let Err(why) = &lost {
            eprintln!("left out: nothing can be lost without nft (nftables): {why}");
        }
        lost.is_ok()
    }

    /// Packets that were lost since [`Network::lose`].
    pub(crate) fn lost(&self) -> u64 {
        let listed = Command::new("nft").args(["list", "table", "ip", "network"]).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let (_, packets) = listed.split_once("counter packets ").expect("a counter");
        packets.split(' ').next().unwrap().parse().unwrap()
    }
}

/// A setting of the router's.
fn write(setting: &str, on: bool) {
    std::fs::write(format!("/proc/sys/net/ipv4/{setting}"), if on { "1" } else { "0" }).unwrap();
}

/// Runs a command with this input.
fn feed(command: &str, arguments: &[&str], input: &str) -> Result<(), String> {
    let mut command = Command::new(command);
    command.args(arguments).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let sent = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    match sent.is_ok() && output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// A host: a network namespace with one link, to the router.
pub(crate) struct Host {
    /// The router's end of the link.
    name: &'static str,
    pub(crate) address: String,
    space: File,
}

impl Host {
    fn new(name: &'static str, number: u8) -> Host {
        let mut cat = Command::new("unshare");
        cat.args(["-n", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut cat = cat.spawn().unwrap();
        let mut input = cat.stdin.take().unwrap();
        // The process answers from within the namespace.
        input.write_all(b"there\n").unwrap();
        let answer = BufReader::new(cat.stdout.take().unwrap()).lines().next();
        assert_eq!(answer.unwrap().unwrap(), "there");
        let space = File::open(format!("/proc/{}/ns/net", cat.id())).unwrap();
        let subnet = format!("10.77.{number}");
        let links = format!(
            "link add name {name} type veth peer name uplink netns {}\n\
             address add {subnet}.1/24 dev {name}\n\
             link set {name} up\n",
            cat.id()
        );
        feed("ip", &["-batch", "-"], &links).unwrap();
        let host = Host { name, address: format!("{subnet}.2"), space };
        // Lost packets are sent again soon: otherwise most of a test's time would pass in TCP's timers.
        let links = format!(
            "link set lo up\n\
             address add {subnet}.2/24 dev uplink\n\
             link set uplink up\n\
             route add default via {subnet}.1 rto_min 20ms\n"
        );
        host.run(|| feed("ip", &["-batch", "-"], &links)).unwrap();
        drop(input);
        cat.wait().unwrap();
        host
    }

    /// Does something in a thread of this host's. What it makes there is the host's: sockets, threads, processes.
    pub(crate) fn run<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let ran = scope.spawn(|| {
                self.enter();
                act()
            });
            ran.join().unwrap()
        })
    }

    /// Has the calling thread be one of this host's.
    pub(crate) fn enter(&self) {
        move_into_link_name_space(self.space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }
}
