//! Every .rs file under src is part of a crate.

use std::collections::BTreeSet;

use super::super::finding::Finding;
use super::super::modules::Modules;
use super::super::tree::Tree;

/// Reports the files that no `mod` line reaches.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in tree.packages() {
        let mut reached: BTreeSet<String> = BTreeSet::new();
        for root in package.roots(tree) {
            let modules = Modules::of(tree, &root);
            reached.extend(modules.reached().into_iter().map(String::from));
            reached.insert(root);
        }
        let source = package.inside("src/");
        let files = tree.code.keys().filter(|path| path.starts_with(&source));
        findings.extend(files.filter(|path| !reached.contains(*path)).map(|path| {
            Finding::error(
                path,
                1,
                "no `mod` line leads to this file",
                "declare it where it belongs, or delete it",
            )
        }));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(root: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("a/Cargo.toml", "[package]\nname = \"a\"\n"),
            ("a/src/lib.rs", root),
            ("a/src/one.rs", "mod two;"),
            ("a/src/one/two.rs", ""),
            ("a/src/bin/tool.rs", ""),
            ("a/tests/ui/wrong.rs", ""),
        ]);
        check(&tree).into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn reached_files_are_alive() {
        assert!(findings("mod one;").is_empty());
        assert!(findings("#[cfg(test)]\nmod one;").is_empty());
    }

    #[test]
    fn a_file_without_a_mod_line_is_dead_and_so_are_its_children() {
        assert_eq!(findings("// mod one;"), ["a/src/one.rs", "a/src/one/two.rs"]);
    }
}
