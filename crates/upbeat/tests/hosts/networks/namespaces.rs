//! Two hosts and a router between them: network namespaces of this machine, joined by veth pairs.
//!
//! A test runs again in a process of its own, whose network is the router's. The hosts' namespaces are held by that
//! process alone, so they go with it, however it ends. The router drops packets where it does not forward them,
//! in silence, and by rules of nft.

use crate::common::left_out::leave_out;
use crate::common::process::end_with_input;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

/// Says that this process is the one whose network is the router's.
const INSIDE: &str = "UPBEAT_TEST_ROUTER";

/// Says that nothing is to be left out.
const REQUIRED: &str = "UPBEAT_NETWORKS_REQUIRED";

/// The commands that must work on the router.
const PROBE: &str = "ip link add name probe type veth peer name other \
    && echo 1 > /proc/sys/net/ipv4/ip_forward";

/// The case of a test that this process plays.
const CASE: &str = "UPBEAT_TEST_CASE";

/// Runs the test of this name with a network of its own. Where none can be made the test is left out, aloud,
/// unless it is required.
pub(crate) fn with_network(test: &str, act: impl FnOnce(&Network)) {
    if is_inside() {
        return act(&Network::new());
    }
    let Some(options) = permitted() else { return };
    again(test, options, "");
}

/// Runs each case of a test as [`with_network`] does, so many at a time.
pub(crate) fn with_networks(
    test: &str,
    cases: &[String],
    at_a_time: usize,
    act: impl FnOnce(&Network, &str),
) {
    if is_inside() {
        return act(&Network::new(), &std::env::var(CASE).unwrap());
    }
    let Some(options) = permitted() else { return };
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..at_a_time.min(cases.len()) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Relaxed)) {
                    again(test, options, case);
                }
            });
        }
    });
}

/// Whether this process is the one whose network is the router's. Prepares it if it is.
fn is_inside() -> bool {
    let is_inside = std::env::var_os(INSIDE).is_some();
    if is_inside {
        end_with_input();
        fail_at_once();
    }
    is_inside
}

/// Plays a case of a test in a process of its own, and passes on what that says.
fn again(test: &str, options: &str, case: &str) {
    let mut again = Command::new("unshare");
    again.args([options, "--"]).arg(std::env::current_exe().unwrap());
    let test = format!("networks::{test}");
    again.args(["--exact", &test, "--nocapture", "--test-threads=1"]);
    again.env(INSIDE, "1").env(CASE, case);
    again.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut again = again.spawn().unwrap();
    // The inner process ends with its input: at the latest when this process does.
    let input = again.stdin.take();
    let output = again.wait_with_output().unwrap();
    drop(input);
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    said.iter().for_each(|said| println!("{said}"));
    assert!(
        output.status.success() && said[0].contains("1 passed"),
        "{test} {case}: {}",
        output.status
    );
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
    leave_out(&missing);
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

    /// Takes the router's end of the link to the near host down, or up again.
    pub(crate) fn link(&self, is_up: bool) {
        let to = if is_up { "up" } else { "down" };
        feed("ip", &["link", "set", self.near.name, to], "").unwrap();
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
            leave_out(&format!("nothing can be lost without nft (nftables): {why}"));
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

/// Whether packets can be dropped by rules of nft. False, aloud, where there is no nft and it is not required.
pub(crate) fn has_nft() -> bool {
    let has = Command::new("nft").arg("--version").output().is_ok_and(|of| of.status.success());
    assert!(has || !required(), "there is no nft (nftables)");
    if !has {
        leave_out("no host drops its own packets without nft (nftables)");
    }
    has
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
    /// The command of `ip` that makes its route to the router.
    route: String,
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
        // Lost packets are sent again soon: otherwise most of a test's time would pass in TCP's timers.
        let route = format!("route add default via {subnet}.1 rto_min 20ms\n");
        let host = Host { name, address: format!("{subnet}.2"), route, space };
        let links = format!(
            "link set lo up\n\
             address add {subnet}.2/24 dev uplink\n\
             link set uplink up\n\
             {}",
            host.route
        );
        host.run(|| {
            feed("ip", &["-batch", "-"], &links).unwrap();
            // Systems before Linux 6.5 ask again for a connection after one, three and seven seconds; later ones have
            // this setting, and ask more often by default.
            let _ = std::fs::write("/proc/sys/net/ipv4/tcp_syn_linear_timeouts", "0");
        });
        drop(input);
        cat.wait().unwrap();
        host
    }

    /// Takes the host's own end of its link down, with the routes over it, or up again.
    pub(crate) fn link(&self, is_up: bool) {
        let links = match is_up {
            true => format!("link set uplink up\n{}", self.route),
            false => "link set uplink down\n".to_owned(),
        };
        self.run(|| feed("ip", &["-batch", "-"], &links)).unwrap();
    }

    /// Drops everything that the host sends and that it receives, where it does so, or nothing any more.
    pub(crate) fn mute(&self, is_muted: bool) {
        let chain = |hook: &str| {
            format!("chain {hook} {{ type filter hook {hook} priority 0; counter drop; }}\n")
        };
        let chains = if is_muted { chain("input") + &chain("output") } else { String::new() };
        let rules =
            format!("table ip own {{}}\ndelete table ip own\ntable ip own {{ {chains} }}\n");
        self.run(|| feed("nft", &["-f", "-"], &rules)).unwrap();
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
