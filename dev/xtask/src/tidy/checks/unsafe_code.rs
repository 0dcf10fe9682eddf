//! `unsafe` stays in its crate. Clippy asks there for the reason of each block.

use super::super::code::Token;
use super::super::finding::Finding;
use super::super::tree::Tree;

/// Where `unsafe` may stand, with the reason.
const HOMES: &[(&str, &str)] = &[("crates/memory/", "shared bytes")];

/// Reports `unsafe` elsewhere, and crates that do not forbid it.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, code) in tree.sources() {
        if !is_home(path) {
            let words = code.tokens.iter().filter(|token| token.text == "unsafe");
            findings.extend(words.map(|token| strayed(path, token.line)));
        }
    }
    for package in tree.packages() {
        let roots = package.roots(tree);
        let open = roots.iter().filter(|root| !is_home(root));
        let open = open.filter(|root| tree.code(root).is_some_and(|code| !forbids(&code.tokens)));
        findings.extend(open.map(|root| {
            Finding::error(
                root,
                1,
                "this crate does not forbid unsafe code",
                "put `#![forbid(unsafe_code)]` below its first comment",
            )
        }));
    }
    findings
}

fn is_home(path: &str) -> bool {
    HOMES.iter().any(|(home, _)| path.starts_with(home))
}

fn strayed(path: &str, line: usize) -> Finding {
    let homes: Vec<String> =
        HOMES.iter().map(|(home, reason)| format!("{home} ({reason})")).collect();
    Finding::error(
        path,
        line,
        format!("unsafe code outside of its home: {}", homes.join(", ")),
        "build what is needed there, behind a safe interface",
    )
}

/// Whether `#![forbid(… unsafe_code …)]` is among the tokens.
fn forbids(tokens: &[Token]) -> bool {
    let texts: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
    texts.windows(5).enumerate().any(|(at, window)| {
        window == ["#", "!", "[", "forbid", "("]
            && texts[at..]
                .iter()
                .take_while(|text| **text != ")")
                .any(|text| *text == "unsafe_code")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn unsafe_stays_at_home() {
        let text = "\nfn f() { unsafe { g() } } // SAFETY: g asks nothing\n";
        assert_eq!(findings("crates/memory/src/ring.rs", text), []);
        assert_eq!(findings("crates/core/src/frame.rs", text), [2]);
        assert_eq!(findings("crates/core/tests/alloc.rs", text), [2]);
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        let text = "// unsafe\n/* unsafe {} */ const A: &str = \"unsafe {\";";
        assert_eq!(findings("crates/core/src/frame.rs", text), []);
    }

    #[test]
    fn every_other_crate_forbids_it() {
        let crate_of = |directory: &str, root: &str| {
            let manifest = format!("{directory}/Cargo.toml");
            let lib = format!("{directory}/src/lib.rs");
            check(&Tree::of(&[(&manifest, "[package]\nname = \"a\"\n"), (&lib, root)])).len()
        };
        assert_eq!(crate_of("crates/core", "#![forbid(unsafe_code)]"), 0);
        assert_eq!(crate_of("crates/core", "#![forbid(missing_docs, unsafe_code)]"), 0);
        assert_eq!(crate_of("crates/core", "// #![forbid(unsafe_code)]"), 1);
        assert_eq!(crate_of("crates/core", "#![forbid(missing_docs)] fn unsafe_code() {}"), 1);
        assert_eq!(crate_of("crates/memory", ""), 0);
    }
}
