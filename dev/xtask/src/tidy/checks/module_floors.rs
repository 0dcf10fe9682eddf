//! Inside a crate, the order of the `mod` lines is the order of the floors.
//!
//! A module, with everything in its directory, names only modules above it in the list that
//! declares it; this holds for the list of the root and for the list of every module with
//! children. The files of a directory are one module that was split for its length, so a child may
//! use what its parent's file defines; the root is no such module, and an item that the root re-exports is
//! imported from where it is defined. Code that is compiled for tests only is free.

use std::collections::BTreeMap;

use super::super::code::{Token, is_word, paths};
use super::super::finding::Finding;
use super::super::modules::{Module, Modules};
use super::super::tree::Tree;

/// Reports uses of higher modules, globs of a parent, and cycles of the root and its modules.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in tree.packages() {
        for root in package.roots(tree) {
            let modules = Modules::of(tree, &root);
            findings.extend(check_crate(&modules));
        }
    }
    findings.sort();
    findings.dedup();
    findings
}

/// One module names something of another.
struct Use {
    from: usize,
    to: usize,
    /// The path of the item inside of `to`.
    item: String,
    line: usize,
}

fn check_crate(modules: &Modules) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut from_parent = BTreeMap::new();
    let mut from_child: BTreeMap<_, Vec<Use>> = BTreeMap::new();
    for one in uses(modules) {
        let (from, to) = (&modules.list[one.from], &modules.list[one.to]);
        let common = from.path.iter().zip(&to.path).take_while(|(a, b)| a == b).count();
        if common < from.path.len() && common < to.path.len() {
            findings.extend(sideways(modules, &one, common));
        } else if from.file == to.file {
            // A module and one inside of it are read together.
        } else if from.path.len() < to.path.len() {
            let child = to.path[..=common].to_vec();
            from_parent.entry(child).or_insert_with(|| format!("{}:{}", from.file, one.line));
        } else if one.item == "*" {
            findings.push(glob(from, one.line));
        } else {
            let child = from.path[..=common].to_vec();
            from_child.entry((child, one.from, one.line)).or_default().push(one);
        }
    }
    for ((child, _, _), all) in from_child {
        if child.len() == 1
            && let Some(back) = from_parent.get(&child)
        {
            findings.push(circle(modules, &all, child.last().unwrap(), back));
        }
    }
    findings
}

/// All uses outside of tests.
fn uses(modules: &Modules) -> Vec<Use> {
    let mut found = Vec::new();
    for (from, module) in modules.list.iter().enumerate().filter(|(_, module)| !module.test) {
        let tokens = &module.body.tokens;
        for at in 0..tokens.len() {
            let line = tokens[at].line;
            if begins_path(tokens, at) {
                for path in paths(tokens, at) {
                    if let Some(place) = modules.resolve(from, &path) {
                        let item = place.rest.first().cloned().unwrap_or_default();
                        found.push(Use { from, to: place.module, item, line });
                    }
                }
            } else if let Some(to) = child_path(modules, from, tokens, at) {
                found.push(Use { from, to, item: String::new(), line });
            }
        }
    }
    found
}

/// Whether `crate::`, `self::` or `super::` stands at `at`, and is no `pub(in …)`.
fn begins_path(tokens: &[Token], at: usize) -> bool {
    let text = |index: usize| tokens.get(index).map_or("", |token| token.text.as_str());
    let before = |steps: usize| at.checked_sub(steps).map_or("", text);
    matches!(text(at), "crate" | "self" | "super")
        && text(at + 1) == "::"
        && before(1) != "::"
        && (before(1), before(2), before(3)) != ("in", "(", "pub")
}

/// Returns the child with which a path without `self` begins.
fn child_path(modules: &Modules, from: usize, tokens: &[Token], at: usize) -> Option<usize> {
    let is_path = is_word(&tokens[at].text)
        && tokens.get(at + 1).is_some_and(|next| next.text == "::")
        && (at == 0 || tokens[at - 1].text != "::");
    if is_path { modules.child(from, &tokens[at].text) } else { None }
}

/// A use of one branch by another: both hang on the module of the first `common` names.
fn sideways(modules: &Modules, one: &Use, common: usize) -> Option<Finding> {
    let (from, to) = (&modules.list[one.from], &modules.list[one.to]);
    let (own, other) = (&from.path[common], &to.path[common]);
    let parent = modules.list.iter().find(|module| module.path == from.path[..common])?;
    let rank = |name: &String| {
        let names = |&child: &usize| modules.list[child].path.last() == Some(name);
        parent.children.iter().position(names)
    };
    if rank(other) < rank(own) {
        return None;
    }
    Some(Finding::error(
        &from.file,
        one.line,
        format!("`{own}` uses `{other}`, which stands below it in {}", parent.file),
        format!(
            "move `mod {other}` above `mod {own}` if nothing speaks against it; else move what \
             both need into a module above them"
        ),
    ))
}

fn glob(from: &Module, line: usize) -> Finding {
    Finding::error(
        &from.file,
        line,
        "a glob import of a parent hides which modules this one uses",
        "name what is imported, from the module that defines it",
    )
}

/// The uses in one line of a module by which it and the root use each other.
fn circle(modules: &Modules, all: &[Use], child: &str, back: &str) -> Finding {
    let parent = &modules.list[all[0].to];
    let name = parent.path.last().map_or("the root", String::as_str);
    let items: Vec<String> = all.iter().map(|one| format!("`{}`", one.item)).collect();
    let items = items.join(", ");
    Finding::error(
        &modules.list[all[0].from].file,
        all[0].line,
        format!("uses {items} of {name}, which uses `{child}` itself ({back})"),
        format!(
            "import it from the module that defines it; if that is {}, move it into a module \
             above `{child}`",
            parent.file
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the findings in a crate of these files under src.
    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let named: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("a/src/{path}"), *text)).collect();
        let mut all = vec![("a/Cargo.toml", "[package]\nname = \"a\"\n")];
        all.extend(named.iter().map(|(path, text)| (path.as_str(), *text)));
        let found = check(&Tree::of(&all));
        found.iter().map(|one| format!("{}:{}", &one.path[6..], one.line)).collect()
    }

    const TWO: (&str, &str) = ("lib.rs", "mod low;\nmod high;\nmacro_rules! m { () => {} }");

    #[test]
    fn a_module_uses_those_above_it() {
        let high = "use crate::low::{A, B};\nfn f() { super::low::g() }";
        assert!(findings(&[TWO, ("low.rs", "use std::fmt;"), ("high.rs", high)]).is_empty());
    }

    #[test]
    fn a_module_does_not_use_those_below_it() {
        let low = "use crate::{\n    high::A,\n};\nfn f() { super::high::g() }\nuse super::high;";
        let found = findings(&[TWO, ("low.rs", low), ("high.rs", "")]);
        assert_eq!(found, ["low.rs:1", "low.rs:4", "low.rs:5"]);
    }

    #[test]
    fn macros_and_files_of_a_directory_are_read_too() {
        let files = [
            TWO,
            ("low.rs", "mod deep;\nmacro_rules! x { () => { $crate::high::g() } }"),
            ("low/deep.rs", "fn f() { assert!(crate::high::g()) }"),
            ("high.rs", ""),
        ];
        assert_eq!(findings(&files), ["low.rs:2", "low/deep.rs:1"]);
    }

    #[test]
    fn comments_strings_templates_and_visibility_are_no_use() {
        let low = "//! See `crate::high::A`.\n\
                   const A: &str = \"crate::high::A\";\n\
                   fn f() { quote! { crate::high::A } }\n\
                   pub(in crate::low) fn g() {}\n";
        assert!(findings(&[TWO, ("low.rs", low), ("high.rs", "")]).is_empty());
    }

    #[test]
    fn tests_are_free() {
        let low = "#[cfg(test)]\nmod tests { use super::*; use crate::high::A; }";
        assert!(findings(&[TWO, ("low.rs", low), ("high.rs", "")]).is_empty());
        let low = "#[cfg(test)]\nmod tests;";
        let tests = ("low/tests.rs", "use crate::high::A;");
        assert!(findings(&[TWO, ("low.rs", low), tests, ("high.rs", "")]).is_empty());
    }

    #[test]
    fn the_list_of_a_directory_has_floors_too() {
        let files = |order: &'static str| {
            findings(&[
                ("lib.rs", "mod a;"),
                ("a.rs", order),
                ("a/one.rs", ""),
                ("a/two.rs", "use super::one::A;\nuse crate::a::one;"),
            ])
        };
        assert!(files("mod one;\nmod two;").is_empty());
        assert_eq!(files("mod two;\nmod one;"), ["a/two.rs:1", "a/two.rs:2"]);
    }

    #[test]
    fn the_files_of_a_directory_share_what_its_module_defines() {
        let child = ("a/one.rs", "use super::Kind;");
        let module = ("a.rs", "mod one;\nenum Kind {}\nfn f() { one::g() }");
        assert!(findings(&[("lib.rs", "mod a;"), module, child]).is_empty());
    }

    #[test]
    fn the_root_and_its_modules_do_not_use_each_other() {
        let root = ("lib.rs", "mod a;\npub enum Kind {}\nfn f() { a::g() }");
        assert_eq!(findings(&[root, ("a.rs", "use crate::Kind;")]), ["a.rs:1"]);
        let alone = ("lib.rs", "mod a;\npub enum Kind {}");
        assert!(findings(&[alone, ("a.rs", "use crate::Kind;")]).is_empty());
    }

    #[test]
    fn a_name_that_the_root_exports_again_is_imported_from_its_module() {
        let root = ("lib.rs", "mod low;\nmod high;\npub use low::A;\npub use self::high::B;");
        let files = |high| findings(&[root, ("low.rs", ""), ("high.rs", high)]);
        assert_eq!(files("use crate::A;"), ["high.rs:1"]);
        assert!(files("use crate::low::A;").is_empty());
    }

    #[test]
    fn a_glob_of_a_parent_is_refused_and_one_of_a_module_is_not() {
        let files = |high| findings(&[TWO, ("low.rs", ""), ("high.rs", high)]);
        assert_eq!(files("use super::*;"), ["high.rs:1"]);
        assert!(files("use super::low::*;").is_empty());
    }

    #[test]
    fn an_exported_macro_belongs_to_the_module_that_defines_it() {
        let define = "macro_rules! mine { () => {} }";
        let files = |low, high| findings(&[TWO, ("low.rs", low), ("high.rs", high)]);
        assert!(files(define, "fn f() { crate::mine!() }").is_empty());
        assert_eq!(files("use crate::mine;", define), ["low.rs:1"]);
    }
}
