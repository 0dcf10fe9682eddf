//! The list of checks. Each is a pure function of the tree, in a file of its own with its tests.

mod architecture;
mod conflicts;
mod crate_floors;
mod dead_files;
mod environment;
mod headers;
mod language;
mod lengths;
mod links;
mod module_floors;
mod mutants;
mod named_tests;
mod settings;
mod syntax;
mod unsafe_code;

use super::finding::Finding;
use super::tree::Tree;

/// One check.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    /// The property of the repository that it checks.
    pub(crate) about: &'static str,
    pub(crate) run: fn(&Tree) -> Vec<Finding>,
}

/// All of them, in the order in which they run.
pub(crate) const CHECKS: &[Check] = &[
    Check {
        name: "syntax",
        about: "every .rs file that is compiled can be read",
        run: syntax::check,
    },
    Check {
        name: "crate-floors",
        about: "a crate depends only on crates of lower floors",
        run: crate_floors::check,
    },
    Check {
        name: "module-floors",
        about: "a module names only modules above it in the list of `mod` lines",
        run: module_floors::check,
    },
    Check {
        name: "dead-files",
        about: "every .rs file under src is reached by a `mod` line",
        run: dead_files::check,
    },
    Check {
        name: "lengths",
        about: "files have 500 lines and types 15 fields at most; functions are listed from 70 lines, refused over 120",
        run: lengths::check,
    },
    Check {
        name: "unsafe-code",
        about: "unsafe stays in its home, and every other crate forbids it",
        run: unsafe_code::check,
    },
    Check {
        name: "environment",
        about: "the runtime takes time, chance, waiting and threads from crates/environment",
        run: environment::check,
    },
    Check {
        name: "mutants",
        about: "faults that tests put in lie in the product's code, and each is asked about",
        run: mutants::check,
    },
    Check {
        name: "headers",
        about: "every module file begins with a `//!` comment",
        run: headers::check,
    },
    Check {
        name: "language",
        about: "comments begin with the name of their subject, or with a verb",
        run: language::check,
    },
    Check {
        name: "conflicts",
        about: "no file has the marks of a merge that was not settled",
        run: conflicts::check,
    },
    Check {
        name: "architecture",
        about: "ARCHITECTURE.md is short and names every crate",
        run: architecture::check,
    },
    Check {
        name: "settings",
        about: "docs/settings.md has every environment variable and the value of every limit",
        run: settings::check,
    },
    Check {
        name: "links",
        about: "links between the repository's documents lead somewhere",
        run: links::check,
    },
    Check {
        name: "named-tests",
        about: "every row of docs/failures.md names tests that exist",
        run: named_tests::check,
    },
];
