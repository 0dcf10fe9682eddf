//! Files and functions stay short.
//!
//! Lines for tests do not count. From one length on a file or a function is listed, so that it
//! is split by noun before it hurts; over another it fails.

use std::collections::BTreeSet;

use super::super::finding::Finding;
use super::super::modules::Modules;
use super::super::tree::Tree;

/// From where on a length is listed, and from where on it is refused.
struct Limit {
    note: usize,
    error: usize,
}

const FILE: Limit = Limit { note: 500, error: 800 };
const FUNCTION: Limit = Limit { note: 70, error: 120 };

/// Lists what is long and refuses what is too long.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let tests = test_files(tree);
    let mut findings = Vec::new();
    for (path, code) in tree.sources().filter(|(path, _)| !is_test(path, &tests)) {
        let tests: usize =
            code.test_lines.iter().map(|lines| lines.end() - lines.start() + 1).sum();
        let lines = tree.texts[path].lines().count() - tests;
        let remedy = "split it by noun: a type with what belongs to it in a module of its own";
        findings.extend(FILE.judge(path, 1, "the file", lines, remedy));
        for function in &code.functions {
            let lines = function.lines.end() - function.lines.start() + 1;
            let name = format!("`{}`", function.name);
            let remedy = "give its steps names: one function for each";
            findings.extend(FUNCTION.judge(path, *function.lines.start(), &name, lines, remedy));
        }
    }
    findings
}

impl Limit {
    fn judge(
        &self,
        path: &str,
        line: usize,
        name: &str,
        lines: usize,
        remedy: &str,
    ) -> Option<Finding> {
        if lines > self.error {
            let what = format!("{name} has {lines} lines; at most {} are allowed", self.error);
            Some(Finding::error(path, line, what, remedy))
        } else if lines > self.note {
            let what = format!("{name} has {lines} lines; about {} are wanted", self.note);
            Some(Finding::note(path, line, what, remedy))
        } else {
            None
        }
    }
}

/// The files that `mod` lines under `cfg(test)` declare.
fn test_files(tree: &Tree) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for package in tree.packages() {
        for root in package.roots(tree) {
            let modules = Modules::of(tree, &root);
            files.extend(modules.test_files().into_iter().map(String::from));
        }
    }
    files
}

fn is_test(path: &str, declared: &BTreeSet<String>) -> bool {
    declared.contains(path) || path.contains("/tests/")
}

#[cfg(test)]
mod tests {
    use super::super::super::finding::Weight;
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<(usize, Weight)> {
        let tree = Tree::of(&[
            ("a/Cargo.toml", "[package]\nname = \"a\"\n"),
            ("a/src/main.rs", "#[cfg(test)]\nmod tests;"),
            (path, text),
        ]);
        check(&tree).into_iter().map(|finding| (finding.line, finding.weight)).collect()
    }

    fn file(lines: usize) -> String {
        "//\n".repeat(lines)
    }

    fn function(lines: usize) -> String {
        format!("\nfn f() {{\n{}}}\n", file(lines - 2))
    }

    #[test]
    fn a_long_file_is_listed_and_a_longer_one_refused() {
        assert_eq!(findings("a/src/lib.rs", &file(500)), []);
        assert_eq!(findings("a/src/lib.rs", &file(501)), [(1, Weight::Note)]);
        assert_eq!(findings("a/src/lib.rs", &file(800)), [(1, Weight::Note)]);
        assert_eq!(findings("a/src/lib.rs", &file(801)), [(1, Weight::Error)]);
    }

    #[test]
    fn a_long_function_is_listed_and_a_longer_one_refused() {
        assert_eq!(findings("a/src/lib.rs", &function(70)), []);
        assert_eq!(findings("a/src/lib.rs", &function(71)), [(2, Weight::Note)]);
        assert_eq!(findings("a/src/lib.rs", &function(121)), [(2, Weight::Error)]);
    }

    #[test]
    fn tests_do_not_count() {
        let inline = format!("{}#[cfg(test)]\nmod tests {{\n{}}}", file(500), function(200));
        assert_eq!(findings("a/src/lib.rs", &inline), []);
        assert_eq!(findings("a/src/tests.rs", &file(900)), []);
        assert_eq!(findings("a/tests/conformance.rs", &function(200)), []);
    }
}
