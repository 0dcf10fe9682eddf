//! crates/core decides and does nothing else: no I/O, no clock, no threads, no async.

use super::super::code::{Token, paths};
use super::super::finding::Finding;
use super::super::modules::Modules;
use super::super::tree::Tree;

/// The crate.
const CORE: &str = "crates/core";

/// Modules of std that touch the world. `core::time::Duration` is a number and is allowed.
const WORLD: &[&str] = &["env", "fs", "io", "net", "os", "process", "thread", "time"];

/// Modules that are about waiting, in std and in core.
const WAITING: &[&str] = &["future", "task"];

/// Reports what the crate names outside of its tests.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in tree.packages().iter().filter(|package| package.directory == CORE) {
        for root in package.roots(tree) {
            let modules = Modules::of(tree, &root);
            for module in modules.list.iter().filter(|module| !module.test) {
                findings.extend(check_tokens(&module.file, &module.body.tokens));
            }
        }
    }
    findings
}

fn check_tokens(file: &str, tokens: &[Token]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |before| tokens[before].text.as_str());
        let names = match token.text.as_str() {
            "async" | "await" => vec![format!("`{}`", token.text)],
            "std" | "core" => worldly(tokens, at),
            _ => continue,
        };
        // `crate::std::…` would be a module of ours; `::std::…` is std.
        let ours = before == "::" && at >= 2 && super::super::code::is_word(&tokens[at - 2].text);
        if !ours {
            findings.extend(names.into_iter().map(|name| refusal(file, token.line, &name)));
        }
    }
    findings
}

/// The forbidden modules that the path at `at` leads to.
fn worldly(tokens: &[Token], at: usize) -> Vec<String> {
    let forbidden = |path: &Vec<String>| {
        let module = path.get(1)?;
        let world = path[0] == "std" && WORLD.contains(&module.as_str());
        let waiting = WAITING.contains(&module.as_str());
        (world || waiting).then(|| format!("`{}::{module}`", path[0]))
    };
    paths(tokens, at).iter().filter_map(forbidden).collect()
}

fn refusal(file: &str, line: usize, name: &str) -> Finding {
    Finding::error(
        file,
        line,
        format!("{name} in {CORE}, which decides and does nothing else"),
        "take time, randomness and bytes as arguments; a `core::time::Duration` is allowed",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(directory: &str, text: &str) -> Vec<usize> {
        let manifest = format!("{directory}/Cargo.toml");
        let lib = format!("{directory}/src/lib.rs");
        let tree = Tree::of(&[(&manifest, "[package]\nname = \"a\"\n"), (&lib, text)]);
        check(&tree).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn the_world_is_not_imported() {
        let text = "use std::net::TcpStream;\nuse std::{fmt, os::fd::OwnedFd};\n\
                    fn f() { ::std::thread::yield_now() }\nuse std::time;\n";
        assert_eq!(findings("crates/core", text), [1, 2, 3, 4]);
        assert_eq!(findings("crates/transport", text), []);
    }

    #[test]
    fn nothing_is_awaited() {
        let text = "async fn f() {}\nuse core::task::Poll;\nfn g() -> impl std::future::Future {}";
        assert_eq!(findings("crates/core", text), [1, 2, 3]);
    }

    #[test]
    fn numbers_and_tests_are_allowed() {
        let text = "use core::time::Duration;\nuse std::{fmt, collections::VecDeque};\n\
                    #[cfg(test)]\nmod tests { use std::time::Instant; }";
        assert_eq!(findings("crates/core", text), []);
    }
}
