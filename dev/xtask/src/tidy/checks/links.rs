//! Links between the repository's documents lead somewhere.

use super::super::finding::Finding;
use super::super::tree::Tree;

/// Reports links of Markdown files to files and directories that are not there.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts_ending(".md") {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        for (line, target) in targets(text) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            let resolved = resolve(directory, file);
            if !resolved.as_deref().is_some_and(|resolved| exists(tree, resolved)) {
                findings.push(Finding::error(
                    path,
                    line,
                    format!("the link to {target} leads nowhere"),
                    "links are relative to the file they stand in; the target has to be committed",
                ));
            }
        }
    }
    findings
}

/// Returns the targets of all links, with their lines. Code is skipped.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if start.starts_with("```") || start.starts_with("~~~") {
            fenced = !fenced;
        } else if !fenced {
            found.extend(in_line(line).map(|target| (index + 1, target)));
        }
    }
    found
}

/// The targets of `[…](target)`, `[…](target "title")` and `[…]: target`.
fn in_line(line: &str) -> impl Iterator<Item = String> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let first_word = |text: &str| {
        let word = text.split_whitespace().next().unwrap_or_default();
        word.trim_matches(['<', '>']).to_string()
    };
    let inline = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let mut targets: Vec<String> = inline.map(first_word).collect();
    if prose.starts_with('[')
        && let Some((_, target)) = prose.split_once("]: ")
    {
        targets.push(first_word(target));
    }
    targets.into_iter()
}

/// Returns a path relative to `directory` as one of the repository; none if the path leaves it.
fn resolve(directory: &str, file: &str) -> Option<String> {
    let mut names: Vec<&str> = match file.starts_with('/') {
        true => Vec::new(),
        false => directory.split('/').filter(|name| !name.is_empty()).collect(),
    };
    for name in file.split('/').filter(|name| !name.is_empty()) {
        match name {
            "." => {}
            ".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

fn exists(tree: &Tree, path: &str) -> bool {
    let below = format!("{path}/");
    path.is_empty()
        || tree.paths.contains(path)
        || tree.paths.iter().any(|other| other.starts_with(&below))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<usize> {
        let tree = Tree::of(&[("docs/a.md", text), ("docs/b.md", ""), ("crates/x/y.rs", "")]);
        check(&tree).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn links_to_files_and_directories_resolve() {
        assert!(findings("[b](b.md), [b](./b.md#part \"title\"), [x](../crates/x)").is_empty());
        assert!(findings("[x](/crates/x/y.rs)\n[b]: b.md\n[up](..)").is_empty());
    }

    #[test]
    fn links_to_nothing_do_not() {
        assert_eq!(findings("fine\n[b](c.md) and [x](crates/x)\n[c]: <c.md>"), [2, 2, 3]);
        assert_eq!(findings("[out](../../elsewhere.md)"), [1]);
    }

    #[test]
    fn the_web_and_code_are_passed_over() {
        assert!(findings("[w](https://example.org/a) [m](mailto:a@b) [h](#here)").is_empty());
        assert!(findings("`[c](c.md)`\n```\n[c](c.md)\n```\n").is_empty());
        assert_eq!(findings("```\n```\n[c](c.md)"), [3]);
    }
}
