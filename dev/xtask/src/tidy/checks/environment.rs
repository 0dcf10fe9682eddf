//! The runtime takes time, chance, waiting and threads from `crates/environment`, so that a simulated world can give them.

use super::super::code::{Body, Token, paths};
use super::super::finding::Finding;
use super::super::tree::Tree;

/// The crates that run in a simulated world.
const INSIDE: &[&str] =
    &["crates/memory/src/", "crates/sync/src/", "crates/transport/src/", "crates/upbeat/src/"];

/// Paths that lead outside: everything that begins so.
const OUTSIDE: &[&str] = &[
    "std::hash::RandomState",
    "std::net::TcpStream",
    "std::net::ToSocketAddrs",
    "std::sync::Condvar",
    "std::sync::Mutex",
    "std::sync::mpsc",
    "std::thread::Builder",
    "std::thread::JoinHandle",
    "std::thread::available_parallelism",
    "std::thread::park",
    "std::thread::park_timeout",
    "std::thread::scope",
    "std::thread::sleep",
    "std::thread::spawn",
    "std::thread::yield_now",
    "std::time::Instant",
    "rustix::event::epoll::wait",
    "rustix::event::poll",
    "rustix::fs::fcntl_lock",
    "rustix::net::connect",
    "rustix::process::fcntl_getlk",
    "rustix::rand",
    "rustix::thread::sched_yield",
    "rustix::time",
];

/// The same, where a name was imported.
const CALLS: &[[&str; 3]] =
    &[["SystemTime", "::", "now"], ["UnixTime", "::", "now"], ["epoll", "::", "wait"]];

/// Where one of them may stand, with the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("crates/memory/src/ticks.rs", "std::time::Instant", "measures the rate of the counter"),
    ("crates/transport/src/claim.rs", "rustix::net::connect", "asks for a name of this host"),
    ("crates/transport/src/shared.rs", "rustix::net::connect", "calls a node of this host"),
];

/// Reports what goes around the environment.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, code) in tree.sources() {
        if INSIDE.iter().any(|inside| path.starts_with(inside)) && !is_test(path) {
            look_through(path, &code.body, &mut findings);
        }
    }
    findings
}

/// Whether a file is one of tests, or of models of memory.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.ends_with("/model.rs")
}

fn look_through(path: &str, body: &Body, findings: &mut Vec<Finding>) {
    let tokens = &body.tokens;
    for at in 0..tokens.len() {
        let is_first = at == 0 || tokens[at - 1].text != "::";
        let found = match tokens[at].text.as_str() {
            "std" | "rustix" if is_first => outside(path, tokens, at),
            _ => CALLS.iter().find(|call| stands_at(tokens, at, **call)).map(|call| call.concat()),
        };
        findings.extend(found.map(|found| strayed(path, tokens[at].line, &found)));
    }
    let inside = body.mods.iter().filter(|inside| !inside.test);
    inside
        .filter_map(|line| line.inline.as_ref())
        .for_each(|body| look_through(path, body, findings));
}

/// Returns the first path from here that leads outside.
fn outside(file: &str, tokens: &[Token], at: usize) -> Option<String> {
    let named = paths(tokens, at).into_iter().map(|path| path.join("::"));
    named.into_iter().find(|path| {
        let begins = |with: &str| {
            path.strip_prefix(with).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let is_known = |(home, what, _): &(&str, &str, &str)| file == *home && begins(what);
        OUTSIDE.iter().any(|with| begins(with)) && !EXCEPTIONS.iter().any(is_known)
    })
}

fn stands_at(tokens: &[Token], at: usize, text: [&str; 3]) -> bool {
    tokens[at..].len() >= 3 && (0..3).all(|next| tokens[at + next].text == text[next])
}

fn strayed(path: &str, line: usize, found: &str) -> Finding {
    Finding::error(
        path,
        line,
        format!("{found} goes around the environment"),
        "take it from crates/environment, which a simulated world replaces",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn clocks_and_waits_come_from_the_environment() {
        let text = "use std::time::{Duration, Instant};\nfn f() { std::thread::sleep(LONG) }\n\
                    use rustix::event::{PollFlags, poll};\nfn g() { SystemTime::now() }\n\
                    fn h() { std::thread::panicking(); }\nmod a { use std::sync::{Arc, Condvar}; }\n";
        assert_eq!(lines("crates/upbeat/src/wait.rs", text), [1, 2, 3, 4, 6]);
        assert_eq!(lines("crates/transport/src/claim.rs", text), [1, 2, 3, 4, 6]);
        assert_eq!(lines("crates/environment/src/time.rs", text), []);
        assert_eq!(lines("crates/upbeat/src/wait/tests.rs", text), []);
        let tests = "#[cfg(test)]\nmod tests { use std::time::Instant; }\n";
        assert_eq!(lines("crates/upbeat/src/wait.rs", tests), []);
        let pace = "use std::time::Instant;\nuse std::thread::sleep;\n";
        assert_eq!(lines("crates/memory/src/ticks.rs", pace), [2]);
    }
}
