//! The tree under check: the text of every file that a check reads, and the names of all others.
//!
//! Every check is a function of a `Tree`, so its tests build small ones in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::code::Code;
use super::manifest::Manifest;

/// The tree.
#[derive(Default)]
pub(crate) struct Tree {
    /// Every path in the repository, relative to its root.
    pub(crate) paths: BTreeSet<String>,
    /// The texts of the files that the checks read.
    pub(crate) texts: BTreeMap<String, String>,
    /// The Rust files among them; a file that is no Rust has the line at which the reader gave up.
    pub(crate) code: BTreeMap<String, Result<Code, usize>>,
}

/// A package: a directory with a Cargo.toml that names one.
pub(crate) struct Package {
    /// The directory, such as `crates/core`.
    pub(crate) directory: String,
    pub(crate) manifest: Manifest,
}

impl Tree {
    /// Reads the files `paths` below `root`.
    pub(crate) fn read(root: &Path, paths: Vec<String>) -> Result<Tree, String> {
        let mut tree = Tree::default();
        for path in paths {
            if is_read(&path) {
                let text = std::fs::read_to_string(root.join(&path))
                    .map_err(|error| format!("cannot read {path}: {error}"))?;
                tree.add(&path, text);
            }
            tree.paths.insert(path);
        }
        Ok(tree)
    }

    fn add(&mut self, path: &str, text: String) {
        if path.ends_with(".rs") {
            self.code.insert(path.into(), Code::read(&text));
        }
        self.texts.insert(path.into(), text);
    }

    /// A tree of these files.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.paths.insert((*path).into());
            tree.add(path, (*text).into());
        }
        tree
    }

    /// The packages, by directory.
    pub(crate) fn packages(&self) -> Vec<Package> {
        let manifests = self.texts.iter().filter_map(|(path, text)| {
            let directory = path.strip_suffix("/Cargo.toml")?;
            let manifest = Manifest::read(text);
            manifest.name.is_some().then(|| Package { directory: directory.into(), manifest })
        });
        manifests.collect()
    }

    /// The code of a file, unless it is missing or no Rust.
    pub(crate) fn code(&self, path: &str) -> Option<&Code> {
        self.code.get(path)?.as_ref().ok()
    }

    /// All Rust files that could be read.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, &Code)> {
        self.code.iter().filter_map(|(path, code)| Some((path.as_str(), code.as_ref().ok()?)))
    }

    /// Returns the files whose names end in `ending`, with their text.
    pub(crate) fn texts_ending(&self, end: &str) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .filter(move |(path, _)| path.ends_with(end))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

impl Package {
    /// The files that a compiler starts from under `src`: the library, the binaries.
    pub(crate) fn roots(&self, tree: &Tree) -> Vec<String> {
        let source = format!("{}/src/", self.directory);
        let declared: BTreeSet<String> =
            self.manifest.target_paths.iter().map(|path| self.inside(path)).collect();
        let is_root = |path: &&String| {
            let Some(inside) = path.strip_prefix(&source) else {
                return false;
            };
            match inside.strip_prefix("bin/") {
                Some(binary) => !binary.contains('/') || binary.ends_with("/main.rs"),
                None => inside == "lib.rs" || inside == "main.rs" || declared.contains(*path),
            }
        };
        tree.code.keys().filter(is_root).cloned().collect()
    }

    /// A path inside the package as one of the repository.
    pub(crate) fn inside(&self, path: &str) -> String {
        format!("{}/{path}", self.directory)
    }
}

/// Whether any check reads this file.
fn is_read(path: &str) -> bool {
    [".rs", ".md", ".toml", ".sh"].iter().any(|end| path.ends_with(end)) || path == ".ci/run"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_manifests_that_name_one() {
        let tree = Tree::of(&[
            ("Cargo.toml", "[workspace]\n"),
            ("a/Cargo.toml", "[package]\nname = \"first\"\n"),
            ("b/Cargo.toml", "[workspace]\n"),
        ]);
        let names: Vec<_> = tree.packages().into_iter().map(|package| package.directory).collect();
        assert_eq!(names, ["a"]);
    }

    #[test]
    fn roots_are_libraries_and_binaries() {
        let tree = Tree::of(&[
            ("a/Cargo.toml", "[package]\nname = \"a\"\n[[bin]]\npath = \"src/tool.rs\"\n"),
            ("a/src/lib.rs", ""),
            ("a/src/other.rs", ""),
            ("a/src/tool.rs", ""),
            ("a/src/bin/one.rs", ""),
            ("a/src/bin/two/main.rs", ""),
            ("a/src/bin/two/part.rs", ""),
        ]);
        let roots = tree.packages()[0].roots(&tree);
        let expected =
            ["a/src/bin/one.rs", "a/src/bin/two/main.rs", "a/src/lib.rs", "a/src/tool.rs"];
        assert_eq!(roots, expected);
    }
}
