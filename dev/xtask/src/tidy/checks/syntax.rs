//! Every Rust file that is compiled can be read, so that no other check passes over it silently.

use super::super::finding::Finding;
use super::super::tree::Tree;

/// Reports files that are no Rust. Files in `tests/ui` may be examples of invalid Rust.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let broken = tree.code.iter().filter_map(|(path, code)| Some((path, *code.as_ref().err()?)));
    broken
        .filter(|(path, _)| !is_example_of_wrong_use(path))
        .map(|(path, line)| {
            Finding::error(path, line, "this is not Rust from here on", "see what rustc says of it")
        })
        .collect()
}

fn is_example_of_wrong_use(path: &str) -> bool {
    path.contains("/tests/ui/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn what_is_compiled_must_be_rust() {
        assert_eq!(findings("a/src/lib.rs", "fn f( {"), 1);
        assert_eq!(findings("a/src/lib.rs", "fn f() {}"), 0);
        assert_eq!(findings("a/tests/ui/wrong.rs", "fn f( {"), 0);
        assert_eq!(findings("a/tests/calls/ends.rs", "fn f( {"), 1);
    }
}
