//! The modules of one crate: the file of each, and the order in which they are declared.

use std::collections::BTreeSet;

use super::code::{Body, ModLine};
use super::tree::Tree;

/// The modules that a compiler reaches from one root file. The root is the first.
pub(crate) struct Modules<'t> {
    pub(crate) list: Vec<Module<'t>>,
}

/// One module.
pub(crate) struct Module<'t> {
    /// Its names from the root; empty for the root.
    pub(crate) path: Vec<String>,
    /// The file it is in.
    pub(crate) file: String,
    /// Compiled for tests only.
    pub(crate) test: bool,
    pub(crate) body: &'t Body,
    /// Its children in the order of their `mod` lines: their indices in the list.
    pub(crate) children: Vec<usize>,
}

/// The place to which a path leads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The innermost module on the way: its index in the list.
    pub(crate) module: usize,
    /// The rest of the path inside of that module; empty if the path names the module itself.
    pub(crate) rest: Vec<String>,
}

impl<'t> Modules<'t> {
    /// Follows the `mod` lines from `root`.
    pub(crate) fn of(tree: &'t Tree, root: &str) -> Modules<'t> {
        let mut modules = Modules { list: Vec::new() };
        let Some(code) = tree.code(root) else { return modules };
        modules.list.push(Module {
            path: Vec::new(),
            file: root.into(),
            test: false,
            body: &code.body,
            children: Vec::new(),
        });
        modules.children(tree, 0, directory(root));
        modules
    }

    /// Adds the modules that the `mod` lines of a module declare. Their files lie in `directory`.
    fn children(&mut self, tree: &'t Tree, parent: usize, directory: String) {
        for line in &self.list[parent].body.mods {
            let inner = format!("{directory}/{}", line.name);
            if let Some(body) = &line.inline {
                let file = self.list[parent].file.clone();
                let child = self.add(parent, line, file, body);
                self.children(tree, child, inner);
                continue;
            }
            for file in self.files(tree, parent, line, &directory) {
                let Some(code) = tree.code(&file) else { continue };
                // A file that `path` names, and a mod.rs, have their children beside them.
                let beside = !line.paths.is_empty() || file.ends_with("/mod.rs");
                let below = if beside { self::directory(&file) } else { inner.clone() };
                let child = self.add(parent, line, file, &code.body);
                self.children(tree, child, below);
            }
        }
    }

    fn add(&mut self, parent: usize, line: &ModLine, file: String, body: &'t Body) -> usize {
        let index = self.list.len();
        let above = &self.list[parent];
        let path = above.path.iter().cloned().chain([line.name.clone()]).collect();
        let test = above.test || line.test;
        self.list.push(Module { path, file, test, body, children: Vec::new() });
        self.list[parent].children.push(index);
        index
    }

    /// The files that a `mod` line can mean: more than one if a `cfg_attr` chooses.
    fn files(&self, tree: &Tree, parent: usize, line: &ModLine, below: &str) -> Vec<String> {
        let beside = directory(&self.list[parent].file);
        let named = line.paths.iter().map(|path| format!("{beside}/{path}"));
        let usual = [format!("{below}/{}.rs", line.name), format!("{below}/{}/mod.rs", line.name)];
        named.chain(usual).filter(|file| tree.code.contains_key(file)).collect()
    }

    /// Every file that is part of the crate.
    pub(crate) fn reached(&self) -> BTreeSet<&str> {
        self.list.iter().map(|module| module.file.as_str()).collect()
    }

    /// The files that are only compiled for tests.
    pub(crate) fn test_files(&self) -> BTreeSet<&str> {
        let kept: BTreeSet<&str> = self
            .list
            .iter()
            .filter(|module| !module.test)
            .map(|module| module.file.as_str())
            .collect();
        self.reached().difference(&kept).copied().collect()
    }

    /// Returns where a path leads that begins with `crate`, `self` or `super` in module `from`.
    pub(crate) fn resolve(&self, from: usize, path: &[String]) -> Option<Place> {
        let mut names = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => self.list[from].path.clone(),
            _ => return None,
        };
        for word in path {
            match word.as_str() {
                "crate" | "self" => {}
                "super" => drop(names.pop()?),
                name => names.push(name.into()),
            }
        }
        let (module, length) = self.innermost(&names);
        let rest = names.split_off(length);
        match rest.first().and_then(|name| self.macro_home(module, name)) {
            Some(home) => Some(Place { module: home, rest }),
            None => Some(Place { module, rest }),
        }
    }

    /// The innermost module on a path from the root, and how many names lead to it.
    fn innermost(&self, names: &[String]) -> (usize, usize) {
        let mut module = 0;
        for (depth, name) in names.iter().enumerate() {
            match self.child(module, name) {
                Some(child) => module = child,
                None => return (module, depth),
            }
        }
        (module, names.len())
    }

    /// Returns the child of that name.
    pub(crate) fn child(&self, module: usize, name: &str) -> Option<usize> {
        let children = &self.list[module].children;
        children.iter().copied().find(|&child| self.list[child].path.last().unwrap() == name)
    }

    /// `macro_export` puts a macro's name at the root, wherever it is defined.
    fn macro_home(&self, module: usize, name: &String) -> Option<usize> {
        if module != 0 {
            return None;
        }
        self.list.iter().position(|module| module.body.macros.contains(name))
    }
}

fn directory(file: &str) -> String {
    file.rsplit_once('/').map_or(String::new(), |(directory, _)| directory.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Tree {
        Tree::of(&[
            ("a/src/lib.rs", "mod one;\nmod two;\n#[cfg(test)]\nmod tests;"),
            ("a/src/one.rs", "mod deep;\nmod inline { mod far; }\nmacro_rules! m { () => {} }"),
            ("a/src/one/deep.rs", ""),
            ("a/src/one/inline/far.rs", ""),
            ("a/src/two/mod.rs", "#[cfg_attr(loom, path = \"model.rs\")]\nmod real;"),
            ("a/src/two/real.rs", ""),
            ("a/src/two/model.rs", ""),
            ("a/src/tests.rs", "mod more;"),
            ("a/src/tests/more.rs", ""),
            ("a/src/dead.rs", ""),
        ])
    }

    #[test]
    fn mod_lines_lead_to_every_file_but_the_dead_one() {
        let tree = example();
        let modules = Modules::of(&tree, "a/src/lib.rs");
        let reached = modules.reached();
        let missed: Vec<_> =
            tree.code.keys().filter(|path| !reached.contains(path.as_str())).collect();
        assert_eq!(missed, ["a/src/dead.rs"]);
    }

    #[test]
    fn modules_below_a_test_module_are_tests() {
        let tree = example();
        let modules = Modules::of(&tree, "a/src/lib.rs");
        let tests: Vec<_> = modules.test_files().into_iter().collect();
        assert_eq!(tests, ["a/src/tests.rs", "a/src/tests/more.rs"]);
    }

    #[test]
    fn paths_lead_to_modules_items_and_macros() {
        let tree = example();
        let modules = Modules::of(&tree, "a/src/lib.rs");
        let lead = |from: &str, path: &str| {
            let from = modules.list.iter().position(|m| m.path.join("::") == from).unwrap();
            let path: Vec<String> = path.split("::").map(String::from).collect();
            let place = modules.resolve(from, &path)?;
            Some((modules.list[place.module].path.join("::"), place.rest.join("::")))
        };
        let place = |module: &str, rest: &str| Some((module.to_string(), rest.to_string()));
        assert_eq!(lead("two", "crate::one::deep::Item"), place("one::deep", "Item"));
        assert_eq!(lead("one::deep", "super::inline"), place("one::inline", ""));
        assert_eq!(lead("one::deep", "super::super::two::x::Y"), place("two", "x::Y"));
        assert_eq!(lead("one", "self::deep::Item"), place("one::deep", "Item"));
        assert_eq!(lead("two", "crate::m"), place("one", "m"));
        assert_eq!(lead("two", "std::fmt"), None);
    }
}
