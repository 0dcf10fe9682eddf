//! Files, types and functions stay short.
//!
//! A file has at most so many lines, those of its tests included, and a type so many fields. Functions of
//! tests do not count; others are listed from one length on, so that their steps get names before it hurts,
//! and refused over another.

use std::collections::BTreeSet;

use super::super::code::{Function, Struct};
use super::super::finding::Finding;
use super::super::modules::Modules;
use super::super::tree::Tree;

const FILE_LINES_MAX: usize = 500;
const FIELDS_MAX: usize = 15;

/// The length from which a function is listed, and the length from which it is refused.
const FUNCTION_LINES: usize = 70;
const FUNCTION_LINES_MAX: usize = 120;

/// Lists long functions and refuses what is too long.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let tests = test_files(tree);
    let mut findings = Vec::new();
    for (path, code) in tree.sources() {
        let lines = tree.texts[path].lines().count();
        if lines > FILE_LINES_MAX {
            let what = format!("the file has {lines} lines; at most {FILE_LINES_MAX} are allowed");
            let remedy = "split it by noun: a type with what belongs to it in a module of its own";
            findings.push(Finding::error(path, 1, what, remedy));
        }
        findings.extend(code.structs.iter().filter_map(|one| wide(path, one)));
        if !is_test(path, &tests) {
            findings.extend(code.functions.iter().filter_map(|function| long(path, function)));
        }
    }
    findings
}

fn wide(path: &str, Struct { name, line, fields }: &Struct) -> Option<Finding> {
    if *fields <= FIELDS_MAX {
        return None;
    }
    let what = format!("`{name}` has {fields} fields; at most {FIELDS_MAX} are allowed");
    let remedy = "make types of fields that belong together, with methods of their own";
    Some(Finding::error(path, *line, what, remedy))
}

fn long(path: &str, function: &Function) -> Option<Finding> {
    let (name, line) = (&function.name, *function.lines.start());
    let lines = function.lines.end() - line + 1;
    let remedy = "give its steps names: one function for each";
    if lines > FUNCTION_LINES_MAX {
        let what = format!("`{name}` has {lines} lines; at most {FUNCTION_LINES_MAX} are allowed");
        Some(Finding::error(path, line, what, remedy))
    } else if lines > FUNCTION_LINES {
        let what = format!("`{name}` has {lines} lines; about {FUNCTION_LINES} are wanted");
        Some(Finding::note(path, line, what, remedy))
    } else {
        None
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

    fn fields(count: usize) -> String {
        format!("struct A {{\n{}}}\n", "    a: Map<u8, u8>,\n".repeat(count))
    }

    #[test]
    fn a_long_file_is_refused() {
        assert_eq!(findings("a/src/lib.rs", &file(500)), []);
        assert_eq!(findings("a/src/lib.rs", &file(501)), [(1, Weight::Error)]);
        assert_eq!(findings("a/tests/conformance.rs", &file(501)), [(1, Weight::Error)]);
    }

    #[test]
    fn a_type_of_many_fields_is_refused() {
        assert_eq!(findings("a/src/lib.rs", &fields(15)), []);
        assert_eq!(findings("a/src/lib.rs", &fields(16)), [(1, Weight::Error)]);
    }

    #[test]
    fn a_long_function_is_listed_and_a_longer_one_refused() {
        assert_eq!(findings("a/src/lib.rs", &function(70)), []);
        assert_eq!(findings("a/src/lib.rs", &function(71)), [(2, Weight::Note)]);
        assert_eq!(findings("a/src/lib.rs", &function(121)), [(2, Weight::Error)]);
    }

    #[test]
    fn functions_of_tests_do_not_count() {
        let inline = format!("#[cfg(test)]\nmod tests {{\n{}}}", function(200));
        assert_eq!(findings("a/src/lib.rs", &inline), []);
        assert_eq!(findings("a/src/tests.rs", &function(200)), []);
        assert_eq!(findings("a/tests/conformance.rs", &function(200)), []);
    }
}
