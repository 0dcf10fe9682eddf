//! Every row of docs/failures.md names tests that exist.

use super::super::finding::Finding;
use super::super::tree::Tree;

/// The document whose rows name tests, as `program::test`.
const DOCUMENT: &str = "docs/failures.md";

/// The head of the column with the tests.
const COLUMN: &str = "test";

/// Reports tests that do not exist, and rows of a table with a column of tests that name none.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.texts.get(DOCUMENT) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut column_ends_rows = false;
    let mut before = "";
    for (line, number) in text.lines().zip(1..) {
        let names = named(line);
        if is_rule(line) {
            column_ends_rows = last_cell(before) == Some(COLUMN);
        } else if !line.starts_with('|') {
            column_ends_rows = false;
        } else if column_ends_rows && named(last_cell(line).unwrap_or_default()).is_empty() {
            findings.push(Finding::error(
                DOCUMENT,
                number,
                "the row names no test",
                "name the test that holds it, as `program::test`, or write one",
            ));
        }
        findings.extend(
            names.into_iter().filter(|(program, test)| !exists(tree, program, test)).map(
                |(program, test)| {
                    Finding::error(
                        DOCUMENT,
                        number,
                        format!("there is no test {test} in the program {program}"),
                        "name the test that holds the row now",
                    )
                },
            ),
        );
        before = line;
    }
    findings
}

/// Returns the tests that a line names in backticks: words in lower case on both sides of `::`.
fn named(line: &str) -> Vec<(&str, &str)> {
    let is_word = |word: &str| {
        !word.is_empty()
            && word.chars().all(|it| it == '_' || it.is_ascii_lowercase() || it.is_ascii_digit())
    };
    let code = line.split('`').skip(1).step_by(2);
    code.filter_map(|code| code.split_once("::"))
        .filter(|(program, test)| is_word(program) && is_word(test))
        .collect()
}

/// Returns whether the line separates the head of a table from its rows.
fn is_rule(line: &str) -> bool {
    line.starts_with('|') && line.chars().all(|it| matches!(it, '|' | '-' | ':' | ' '))
}

fn last_cell(line: &str) -> Option<&str> {
    line.strip_prefix('|')?.trim_end().strip_suffix('|')?.rsplit('|').next().map(str::trim)
}

/// Returns whether a file of the test program has the test.
fn exists(tree: &Tree, program: &str, test: &str) -> bool {
    let (file, directory) = (format!("/tests/{program}.rs"), format!("/tests/{program}/"));
    let function = format!("fn {test}(");
    tree.texts_ending(".rs")
        .filter(|(path, _)| path.ends_with(&file) || path.contains(&directory))
        .any(|(_, text)| text.split("#[test]").skip(1).any(|rest| begins_with(rest, &function)))
}

/// Returns whether the function stands behind an attribute, with nothing but other attributes in between.
fn begins_with(rest: &str, function: &str) -> bool {
    let lines = rest.lines().map(str::trim);
    let mut lines = lines.skip_while(|line| line.is_empty() || line.starts_with('#'));
    lines.next().is_some_and(|line| line.starts_with(function))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: &str =
        "#[test]\nfn held() {}\n\n#[test]\n#[ignore = \"long\"]\nfn long() {}\n\nfn helper() {}\n";

    fn findings(document: &str) -> Vec<usize> {
        let tree = Tree::of(&[
            (DOCUMENT, document),
            ("crates/a/tests/calls/ends.rs", TESTS),
            ("crates/a/tests/idle.rs", TESTS),
        ]);
        check(&tree).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn tests_that_exist_are_accepted() {
        let rows = "| loss | test |\n|---|---|\n| one | `calls::held`, `calls::long` |\n| two | `idle::held` |\n";
        assert!(findings(rows).is_empty());
        assert!(
            findings(
                "| error | run |\n|---|---|\n| `Unknown` | yes |\nSee `CallError::may_have_run`.\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn missing_tests_and_rows_without_a_test_are_reported() {
        let rows = "| loss | test |\n|---|---|\n| one | `calls::gone` |\n| two | |\n| three | `calls::helper` |\n\nBy `idle::gone`.\n";
        assert_eq!(findings(rows), [3, 4, 5, 7]);
        assert_eq!(findings("| loss | test |\n|---|---|\n| `calls::held` | |\n"), [3]);
    }
}
