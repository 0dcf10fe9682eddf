//! ARCHITECTURE.md is short and names every crate.

use super::super::finding::Finding;
use super::super::tree::Tree;

const PATH: &str = "ARCHITECTURE.md";

/// The number of lines that the document stays below.
const LINES: usize = 300;

/// Reports the document's length and the crates that it does not name. A repository without it passes.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.texts.get(PATH) else { return Vec::new() };
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines >= LINES {
        findings.push(Finding::error(
            PATH,
            lines,
            format!("{PATH} has {lines} lines; it has to stay below {LINES}"),
            "move details into the comments of the modules they are about, or into docs/",
        ));
    }
    for package in tree.packages() {
        let directory = package.directory;
        if !mentions(text, &directory) {
            findings.push(Finding::error(
                PATH,
                1,
                format!("{PATH} does not name {directory}"),
                format!("say under `{directory}` what it is for and what it keeps true"),
            ));
        }
    }
    findings
}

/// Returns whether the text names this directory, and not only a longer name that begins with it.
fn mentions(text: &str, directory: &str) -> bool {
    let part_of_name = |next: char| next.is_alphanumeric() || next == '-' || next == '_';
    text.match_indices(directory)
        .any(|(at, _)| !text[at + directory.len()..].starts_with(part_of_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> usize {
        let tree = Tree::of(&[
            (PATH, text),
            ("crates/core/Cargo.toml", "[package]\nname = \"a\"\n"),
            ("dev/sim/Cargo.toml", "[package]\nname = \"b\"\n"),
        ]);
        check(&tree).len()
    }

    #[test]
    fn every_crate_is_named() {
        assert_eq!(findings("`crates/core` and dev/sim/.\n"), 0);
        assert_eq!(findings("`crates/core` and the rest.\n"), 1);
        assert_eq!(findings("crates/core-two, dev/simulator\n"), 2);
        assert_eq!(check(&Tree::of(&[])).len(), 0);
    }

    #[test]
    fn it_stays_short() {
        let text = |lines: usize| format!("crates/core dev/sim\n{}", "\n".repeat(lines - 1));
        assert_eq!(findings(&text(299)), 0);
        assert_eq!(findings(&text(300)), 1);
    }
}
