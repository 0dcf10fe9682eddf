//! No file has the marks of an unresolved merge.

use super::super::finding::Finding;
use super::super::tree::Tree;

/// The length of a mark.
const LENGTH: usize = 7;

/// Reports each line that begins or ends an unresolved conflict.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &tree.texts {
        for (index, line) in text.lines().enumerate().filter(|(_, line)| is_mark(line)) {
            findings.push(Finding::error(
                path.as_str(),
                index + 1,
                format!("a merge was not settled here: `{line}`"),
                "keep what is right of both sides, and remove the marks",
            ));
        }
    }
    findings
}

/// Returns whether a line is seven signs of one kind and then a name.
fn is_mark(line: &str) -> bool {
    ['<', '>'].into_iter().any(|sign| {
        let name = line.trim_start_matches(sign);
        line.len() - name.len() == LENGTH && name.starts_with(' ')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_merge_has_left_is_found() {
        let (ours, theirs) = ("<".repeat(LENGTH), ">".repeat(LENGTH));
        let text = format!("one\n{ours} HEAD\ntwo\n=======\nthree\n{theirs} 13c2b12 (docs: say)\n");
        let tree = Tree::of(&[("docs/wire.md", text.as_str()), ("a.rs", "fn f() { 1 << 7; }\n")]);
        assert_eq!(check(&tree).len(), 2);
    }

    #[test]
    fn other_lines_of_signs_are_let_be() {
        for line in ["=======", "> quoted", ">>>>>>>> eight", "    <<<<<<< HEAD"] {
            assert!(!is_mark(line), "{line}");
        }
    }
}
