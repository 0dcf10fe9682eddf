//! Every module file begins with a comment that says what it is for.

use super::super::finding::Finding;
use super::super::tree::Tree;

/// Reports files that do not begin with a `//!` comment. A `tests.rs` says enough by its name and
/// place. Files below `tests/<directory>` are examples that a test compiles, unless they are
/// modules.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.texts_ending(".rs").filter(|(path, _)| !is_example(path));
    let files = files.filter(|(path, _)| !path.ends_with("/tests.rs"));
    let bare = files.filter(|(_, text)| !text.starts_with("//!"));
    bare.map(|(path, _)| {
        Finding::error(
            path,
            1,
            "the file does not begin with a `//!` comment",
            "say what it is for, what it leaves to others, and what it keeps true",
        )
    })
    .collect()
}

fn is_example(path: &str) -> bool {
    let inside = path.split_once("/tests/").map(|(_, inside)| inside);
    inside.is_some_and(|inside| inside.contains('/') && !inside.ends_with("/mod.rs"))
        && !path.contains("/src/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_module_says_what_it_is_for() {
        assert_eq!(findings("a/src/lib.rs", "//! Frames.\n"), 0);
        assert_eq!(findings("a/src/lib.rs", "// Frames.\n"), 1);
        assert_eq!(findings("a/src/lib.rs", "use std::fmt;\n//! Frames.\n"), 1);
        assert_eq!(findings("a/src/x/tests/deep.rs", "use super::*;\n"), 1);
        assert_eq!(findings("a/src/x/tests.rs", "use super::*;\n"), 0);
        assert_eq!(findings("a/tests/call.rs", "use upbeat::Node;\n"), 1);
    }

    #[test]
    fn examples_of_wrong_use_need_no_header() {
        assert_eq!(findings("a/tests/ui/wrong.rs", "fn main() {}\n"), 0);
        assert_eq!(findings("a/tests/common/mod.rs", "fn f() {}\n"), 1);
    }
}
