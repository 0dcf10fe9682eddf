//! The parts of a Cargo.toml that the checks read, with line numbers.
//!
//! The reader knows the forms that are in use here: `[dependencies]` with one line for each, and
//! `[dependencies.name]`. A list of dependencies over several lines keeps its name on the first.

/// The parts of a manifest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The package's name; none in a manifest that is only a workspace.
    pub(crate) name: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
    /// The `path` of libraries and binaries that say where they begin.
    pub(crate) target_paths: Vec<String>,
}

/// One line of a table of dependencies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The package's name, not the name it is given here.
    pub(crate) package: String,
    pub(crate) kind: Kind,
    pub(crate) line: usize,
}

/// The table in which a dependency stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

impl Manifest {
    /// Reads a manifest.
    pub(crate) fn read(text: &str) -> Manifest {
        let mut manifest = Manifest::default();
        let mut table: Vec<String> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(header) = line.strip_prefix('[') {
                table = keys(header.trim_start_matches('[').split(']').next().unwrap_or_default());
                if let Some((kind, Some(name))) = dependency_table(&table) {
                    let package = name.clone();
                    manifest.dependencies.push(Dependency { package, kind, line: index + 1 });
                }
            } else if let Some((key, value)) = line.split_once('=') {
                manifest.entry(&table, &keys(key), value.trim(), index + 1);
            }
        }
        manifest
    }

    fn entry(&mut self, table: &[String], key: &[String], value: &str, line: usize) {
        let Some(name) = key.first() else { return };
        match dependency_table(table) {
            Some((kind, None)) => {
                let package = renamed(value).unwrap_or_else(|| name.clone());
                self.dependencies.push(Dependency { package, kind, line });
            }
            Some((_, Some(_))) if name == "package" => {
                let last = self.dependencies.last_mut().expect("the header was pushed");
                last.package = string(value);
            }
            _ => match (table, name.as_str()) {
                ([table], "name") if table == "package" => self.name = Some(string(value)),
                ([table], "path") if table == "lib" || table == "bin" => {
                    self.target_paths.push(string(value));
                }
                _ => {}
            },
        }
    }
}

/// `dependencies`, `target.'cfg(…)'.dev-dependencies`, `dependencies.name` and so on.
fn dependency_table(table: &[String]) -> Option<(Kind, Option<&String>)> {
    let inner = match table {
        [target, _, rest @ ..] if target == "target" => rest,
        all => all,
    };
    let kind = match inner.first()?.as_str() {
        "dependencies" => Kind::Normal,
        "build-dependencies" => Kind::Build,
        "dev-dependencies" => Kind::Dev,
        _ => return None,
    };
    Some((kind, inner.get(1)))
}

/// Splits a dotted key; dots inside quotes do not count.
fn keys(text: &str) -> Vec<String> {
    let mut keys = vec![String::new()];
    let mut quote = None;
    for character in text.trim().chars() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), close) if open == close => quote = None,
            (None, '.') => keys.push(String::new()),
            _ => keys.last_mut().expect("there is one at least").push(character),
        }
    }
    keys.into_iter().map(|key| key.trim().to_string()).collect()
}

/// The `package` of `{ package = "name", … }`.
fn renamed(value: &str) -> Option<String> {
    let (_, rest) = value.split_once("package")?;
    let rest = rest.trim_start().strip_prefix('=')?;
    rest.split('"').nth(1).map(String::from)
}

fn string(value: &str) -> String {
    value.split('"').nth(1).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependencies(text: &str) -> Vec<(String, Kind, usize)> {
        let all = Manifest::read(text).dependencies;
        all.into_iter().map(|one| (one.package, one.kind, one.line)).collect()
    }

    #[test]
    fn the_package_is_named_by_its_own_table() {
        let text = "[package]\nname = \"a\"\n[[bin]]\nname = \"b\"\npath = \"src/b.rs\"\n";
        let manifest = Manifest::read(text);
        assert_eq!(manifest.name.as_deref(), Some("a"));
        assert_eq!(manifest.target_paths, ["src/b.rs"]);
        assert_eq!(Manifest::read("[workspace]\n").name, None);
    }

    #[test]
    fn dependencies_are_found_in_all_their_tables() {
        let text = "[dependencies]\n\
                    a.workspace = true\n\
                    b = { package = \"real-b\", version = \"1\" }\n\
                    [dev-dependencies]\n\
                    c = \"1\"\n\
                    [target.'cfg(not(a.b))'.build-dependencies]\n\
                    d = \"1\"\n";
        let expected = [
            ("a".into(), Kind::Normal, 2),
            ("real-b".into(), Kind::Normal, 3),
            ("c".into(), Kind::Dev, 5),
            ("d".into(), Kind::Build, 7),
        ];
        assert_eq!(dependencies(text), expected);
    }

    #[test]
    fn a_dependency_may_have_a_table_of_its_own() {
        let text = "[dependencies.a]\npackage = \"real-a\"\nversion = \"1\"\n[lints]\nb = true\n";
        assert_eq!(dependencies(text), [("real-a".into(), Kind::Normal, 1)]);
    }
}
