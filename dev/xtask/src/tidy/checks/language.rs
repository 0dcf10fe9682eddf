//! Comments name their subjects.
//!
//! A comment that begins with "What" or "It" leaves its reader to guess what it is about. This check knows the
//! first words that never name a subject, and nothing else of good language.

use super::super::finding::Finding;
use super::super::tree::Tree;

/// Words with which no comment begins.
const OPENINGS: &[&str] = &[
    "He",
    "It",
    "Nobody who",
    "Of what",
    "Of which",
    "Of whom",
    "One of whom",
    "One of which",
    "One that",
    "One who",
    "She",
    "Somebody",
    "Someone",
    "The same as",
    "The same but",
    "The same for",
    "The same of",
    "The same where",
    "The same with",
    "They",
    "Those",
    "Told",
    "What",
    "Whatever",
    "Which",
    "Who",
    "Whoever",
    "Whose",
];

/// Reports each comment whose first word is a pronoun.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts_ending(".rs") {
        // Whether the line above is a comment that has text.
        let mut continues = false;
        for (index, line) in text.lines().enumerate() {
            let comment = comment(line);
            if let Some(comment) = comment
                && !continues
                && let Some(opening) = opening(comment)
            {
                findings.push(Finding::error(
                    path,
                    index + 1,
                    format!("a comment begins with `{opening}`"),
                    "begin with the name of its subject, or with a verb: \"Returns the number of open calls\"",
                ));
            }
            continues = comment.is_some_and(|comment| !comment.is_empty());
        }
    }
    findings
}

/// Returns the text of a line that is a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim())
}

/// Returns the words at the beginning of a comment that name no subject.
fn opening(comment: &str) -> Option<&'static str> {
    let begins = |opening: &&&str| {
        let rest = comment.strip_prefix(**opening);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    OPENINGS.iter().find(begins).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&Tree::of(&[("a/src/lib.rs", text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_comment_begins_with_its_subject() {
        assert_eq!(lines("/// Returns the number of open calls.\nfn f() {}\n"), [0; 0]);
        assert_eq!(lines("/// What a call costs.\nfn f() {}\n"), [1]);
        assert_eq!(lines("fn f() {\n    // They wait.\n    g();\n}\n"), [2]);
        assert_eq!(lines("//! Frames.\n//!\n//! It has no header.\n"), [3]);
        assert_eq!(lines("/// The same of a task.\nfn f() {}\n"), [1]);
        assert_eq!(lines("/// The same limit applies to replies.\nfn f() {}\n"), [0; 0]);
    }

    #[test]
    fn a_sentence_may_go_on_in_the_next_line() {
        assert_eq!(
            lines("/// The frame tells the receiver\n/// what it must read.\nfn f() {}\n"),
            [0; 0]
        );
        assert_eq!(lines("/// The frame ends.\n/// It has no trailer.\nfn f() {}\n"), [0; 0]);
    }

    #[test]
    fn a_longer_word_is_another_word() {
        assert_eq!(lines("/// Items of a bill.\nstruct Item;\n"), [0; 0]);
        assert_eq!(lines("// Whole words are copied.\n"), [0; 0]);
    }
}
