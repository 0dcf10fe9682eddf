//! A crate depends only on crates of lower floors.
//!
//! Its tests may use crates of its own floor and those under dev/, which no other crate depends on.

use super::super::finding::Finding;
use super::super::manifest::{Dependency, Kind};
use super::super::tree::{Package, Tree};

/// The floor of each crate, by directory; a name that ends in a slash stands for all below it.
const FLOORS: &[(&str, u8)] = &[
    ("crates/core", 0),
    ("crates/environment", 0),
    ("crates/sync", 0),
    ("crates/macros", 1),
    ("crates/memory", 1),
    ("crates/transport", 2),
    ("crates/upbeat", 3),
    ("crates/cli", 4),
    ("crates/sim", 4),
    ("apps/", 4),
    ("dev/", DEV),
];

/// The floor above all others; its crates may also depend on each other.
const DEV: u8 = 5;

/// Reports crates without a floor and dependencies that go up.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let packages = tree.packages();
    let mut findings = Vec::new();
    for package in &packages {
        let manifest = package.inside("Cargo.toml");
        let Some(own) = floor(&package.directory) else {
            findings.push(Finding::error(
                &manifest,
                1,
                format!("{} stands on no floor", package.directory),
                "give it one in FLOORS of dev/xtask/src/tidy/checks/crate_floors.rs",
            ));
            continue;
        };
        for dependency in &package.manifest.dependencies {
            let Some((directory, other)) = floor_of(&packages, dependency) else { continue };
            if !may_depend(own, other, dependency.kind) {
                findings.push(refusal(&manifest, own, dependency, directory, other));
            }
        }
    }
    findings
}

fn floor(directory: &str) -> Option<u8> {
    let covers = |name: &str| match name.ends_with('/') {
        true => directory.starts_with(name),
        false => directory == name,
    };
    FLOORS.iter().find(|(name, _)| covers(name)).map(|(_, floor)| *floor)
}

/// The directory and the floor of a dependency, if it is one of our crates.
fn floor_of<'p>(packages: &'p [Package], dependency: &Dependency) -> Option<(&'p str, u8)> {
    let is_it = |package: &&Package| package.manifest.name.as_ref() == Some(&dependency.package);
    let package = packages.iter().find(is_it)?;
    Some((&package.directory, floor(&package.directory)?))
}

fn may_depend(own: u8, other: u8, kind: Kind) -> bool {
    match kind {
        _ if own == DEV => true,
        Kind::Dev => other <= own || other == DEV,
        Kind::Normal | Kind::Build => other < own,
    }
}

fn refusal(
    manifest: &str,
    own: u8,
    dependency: &Dependency,
    directory: &str,
    other: u8,
) -> Finding {
    let what = format!(
        "a crate of floor {own} depends on `{}` ({directory}), which is on floor {other}",
        dependency.package
    );
    let remedy = match dependency.kind {
        Kind::Dev => "move the test up, to the crate that it needs, or to dev/",
        _ => "a crate may name only crates of lower floors: move what both need down",
    };
    Finding::error(manifest, dependency.line, what, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(directory: &str, tables: &str) -> Vec<usize> {
        let manifest = format!("[package]\nname = \"subject\"\n{tables}");
        let tree = Tree::of(&[
            ("crates/sync/Cargo.toml", "[package]\nname = \"sync\"\n"),
            ("crates/transport/Cargo.toml", "[package]\nname = \"transport\"\n"),
            ("crates/cli/Cargo.toml", "[package]\nname = \"cli\"\n"),
            ("dev/sim/Cargo.toml", "[package]\nname = \"sim\"\n"),
            (&format!("{directory}/Cargo.toml"), &manifest),
        ]);
        check(&tree).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn dependencies_go_down() {
        let tables = "[dependencies]\nserde = \"1\"\nsync.workspace = true\ntransport = {}\n";
        assert_eq!(findings("crates/upbeat", tables), []);
    }

    #[test]
    fn dependencies_go_neither_up_nor_sideways() {
        let tables = "[dependencies]\nsync = {}\ntransport = {}\ncli = {}\nsim = {}\n";
        assert_eq!(findings("crates/core", tables), [4, 5, 6, 7]);
        let renamed = "[build-dependencies]\nother = { package = \"cli\" }\n";
        assert_eq!(findings("crates/core", renamed), [4]);
    }

    #[test]
    fn tests_may_use_their_own_floor_and_dev() {
        let tables = "[dev-dependencies]\nsync = {}\nsim = {}\ntransport = {}\n";
        assert_eq!(findings("crates/core", tables), [6]);
    }

    #[test]
    fn dev_may_use_everything() {
        assert_eq!(findings("dev/bench", "[dependencies]\ncli = {}\nsim = {}\n"), []);
    }

    #[test]
    fn a_crate_without_a_floor_is_refused() {
        assert_eq!(findings("crates/new", ""), [1]);
        assert_eq!(findings("apps/ocean", ""), []);
    }
}
