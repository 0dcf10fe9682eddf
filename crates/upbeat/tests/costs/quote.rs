//! Quote equals count: every operation in every size is run in the steady state, what it costs is
//! counted where it happens, and the quote must say exactly that.
//!
//! The operations run in a process of their own, where nobody else allocates, against a server in
//! another thread of it or in another process. Lines, bytes and passes are counted by the rings and
//! the copies themselves, allocations by the allocator, wakes by the nodes, system calls by strace.

mod bytes;
mod kernel;
mod lanes;
mod service;
mod steady;
mod streams;

use crate::common::left_out::leave_out;
use crate::common::process::{Other, end_with_input};
use crate::common::server::Kind;
use crate::common::{Directory, Watchdog, alone};
use std::path::Path;
use std::process::Command;

/// The largest values are moved by value, several times on one stack in a debug build.
const STACK_BYTES: usize = 64 << 20;

/// Plays a part of the tests here. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    let Some(part) = part.strip_prefix("quote ") else { return false };
    let (part, place) = (part.to_owned(), place.to_owned());
    let kind = if part.ends_with("Local") { Kind::Local } else { Kind::Shared };
    let play = move || match part.split(' ').next() {
        Some("serve") => service::play(&part, &place),
        Some("lanes") => lanes::run(kind, &place),
        Some("kernel") => kernel::run(kind, &place),
        Some("bytes") => bytes::run(&place),
        _ => panic!("there is no part {part}"),
    };
    in_thread(play).join().unwrap();
    true
}

fn in_thread<T: Send + 'static>(
    act: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(act).unwrap()
}

/// Runs a part in a process of its own, in which no message is sampled: a sample's stamps are
/// billed as such.
fn apart(mut command: Command, part: &str, kind: Kind, place: &Path) {
    command.args(["env", "UPBEAT_SAMPLING=0"]);
    let mut other = Other::start_under(command, &format!("quote {part} {kind:?}"), place);
    other.expect("done");
    other.end();
}

fn lanes_of(kind: Kind) {
    let (_alone, _watchdog) = (alone(), Watchdog::new("lanes"));
    let directory = Directory::new();
    apart(Command::new("env"), "lanes", kind, &directory.path());
}

#[test]
fn lanes_between_threads() {
    if !crate::common::shares_memory("a quote counts the lines of shared lanes") {
        return;
    }
    lanes_of(Kind::Local);
}

#[test]
fn lanes_between_processes() {
    if !crate::common::shares_memory("a quote counts the lines of shared lanes") {
        return;
    }
    lanes_of(Kind::Shared);
}

/// Counts what messages cost over a byte stream of this kind, between two processes.
fn bytes_of(carrier: &str) {
    let (_alone, _watchdog) = (alone(), Watchdog::new("system calls over byte streams"));
    if !crate::common::has_strace() {
        return;
    }
    if !cfg!(debug_assertions) {
        return leave_out("a release build lets no variable choose the carrier");
    }
    let directory = Directory::new();
    if carrier == "tls" && std::env::var_os("UPBEAT_TEST_CARRIER").is_none_or(|own| own != "tls") {
        directory.identify();
    }
    let list = directory.path().with_extension("strace");
    let mut strace = Command::new("strace");
    strace.env("UPBEAT_TEST_CARRIER", carrier).args(["-f", "-s", "60", "-o"]).arg(&list);
    apart(strace, "bytes", Kind::Shared, &directory.path());
    bytes::judge(&std::fs::read_to_string(&list).unwrap(), carrier);
}

#[test]
fn system_calls_over_a_unix_socket() {
    bytes_of("stream");
}

#[test]
fn system_calls_over_tcp() {
    bytes_of("tcp");
}

#[test]
fn system_calls_under_tls() {
    bytes_of("tls");
}

fn kernel_of(kind: Kind) {
    let (_alone, _watchdog) = (alone(), Watchdog::new("system calls"));
    if !crate::common::has_strace() {
        return;
    }
    let directory = Directory::new();
    let list = directory.path().with_extension("strace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-s", "60", "-o"]).arg(&list);
    apart(strace, "kernel", kind, &directory.path());
    kernel::judge(&std::fs::read_to_string(&list).unwrap());
}

#[test]
fn system_calls_between_threads() {
    if !crate::common::shares_memory(
        "a quote counts the rings of shared lanes; the cases of streams are tests of their own",
    ) {
        return;
    }
    kernel_of(Kind::Local);
}

#[test]
fn system_calls_between_processes() {
    if !crate::common::shares_memory(
        "a quote counts the rings of shared lanes; the cases of streams are tests of their own",
    ) {
        return;
    }
    kernel_of(Kind::Shared);
}

/// For servers in processes of their own.
fn until_told(act: impl FnOnce()) {
    end_with_input();
    act();
}
