//! No tabs, and no blanks at the ends of lines.

use super::super::finding::Finding;
use super::super::tree::Tree;

/// Reports lines of .rs and .md files.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts_ending(".rs").chain(tree.texts_ending(".md")) {
        for (index, line) in text.split('\n').enumerate() {
            if line.ends_with(char::is_whitespace) {
                findings.push(Finding::error(
                    path,
                    index + 1,
                    "blanks at the end of the line",
                    "take them out; a break in a Markdown paragraph is an empty line",
                ));
            }
            if line.trim_end().contains('\t') {
                let what = "a tab in the line";
                findings.push(Finding::error(path, index + 1, what, "use blanks, or `\\t`"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn clean_lines_pass() {
        assert_eq!(findings("a.md", "one\n\n  two\n"), []);
        assert_eq!(findings("a/Cargo.toml", "a = 1 \n"), []);
    }

    #[test]
    fn blanks_tabs_and_carriage_returns_are_found() {
        assert_eq!(findings("a.md", "one \n\ntwo\r\nth\tree\n"), [1, 3, 4]);
        assert_eq!(findings("a/src/lib.rs", "fn f() {}\t\n"), [1]);
    }
}
