//! Nothing is left to do, and no debugging aid is left in.

use super::super::finding::Finding;
use super::super::tree::Tree;

/// Words that say that something is not finished. They are put together here so that this file
/// does not contain them.
const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];

/// Macros that have no place in what is committed.
const MACROS: &[&str] = &["dbg", "todo", "unimplemented"];

/// Reports marks in all files but documents, and the macros in Rust files.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts.iter().filter(|(path, _)| !path.ends_with(".md")) {
        for (index, line) in text.lines().enumerate() {
            let words = || line.split(|next: char| !next.is_alphanumeric() && next != '_');
            for mark in MARKS.iter().filter(|mark| words().any(|word| word == **mark)) {
                findings.push(Finding::error(
                    path,
                    index + 1,
                    format!("{mark} is left here"),
                    "do it, or open an issue and say here what holds today",
                ));
            }
        }
    }
    for (path, code) in tree.sources() {
        let calls = code.tokens.windows(2).filter(|pair| pair[1].text == "!");
        let calls = calls.filter(|pair| MACROS.contains(&pair[0].text.as_str()));
        findings.extend(calls.map(|pair| {
            let what = format!("`{}!` is left here", pair[0].text);
            Finding::error(path, pair[0].line, what, "take it out, or write what should be there")
        }));
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
    fn marks_are_found_in_comments_too() {
        let text = format!("fn f() {{}}\n// {}: more\n// {}(me)\n", MARKS[0], MARKS[1]);
        assert_eq!(findings("a/src/lib.rs", &text), [2, 3]);
        assert_eq!(findings("Cargo.toml", &format!("# {}\n", MARKS[0])), [1]);
    }

    #[test]
    fn other_words_and_documents_are_left_alone() {
        let text = format!("// {}S are a word of their own\n", MARKS[0]);
        assert_eq!(findings("a/src/lib.rs", &text), []);
        assert_eq!(findings("CONTRIBUTING.md", MARKS[0]), []);
    }

    #[test]
    fn macros_are_found_in_code_only() {
        let text = "fn f() { dbg!(1); }\n// todo!()\nfn g() { unimplemented!() }\nfn todo() {}";
        assert_eq!(findings("a/src/lib.rs", text), [1, 3]);
    }
}
