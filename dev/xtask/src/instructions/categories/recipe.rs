//! Reads the recipe, and finds the row that takes an instruction.

use super::super::inlined::Frame;
use std::path::Path;

/// The recipe's path, from the root of the repository.
const PATH: &str = "dev/xtask/instructions.categories";

/// The word that stands for the function that was called.
const SYMBOL: &str = "symbol";

/// A category.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// The paper's figure for all rows together.
    pub(crate) paper: f64,
}

/// A row of a category.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) group: usize,
    pub(crate) name: String,
    pub(crate) paper: Option<f64>,
}

/// The categories, and the functions that belong to them.
#[derive(Debug, Default)]
pub(crate) struct Recipe {
    pub(crate) groups: Vec<Group>,
    pub(crate) rows: Vec<Row>,
    rules: Vec<Rule>,
}

/// A rule: functions of a file, and the row that takes their instructions; no row passes them on.
#[derive(Debug)]
struct Rule {
    file: String,
    /// The functions; none means all functions that no other rule names.
    function: Option<String>,
    row: Option<usize>,
}

/// The row that takes an instruction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    By(usize),
    /// The function, for the list of functions without a rule.
    ByNobody(String),
}

impl Recipe {
    pub(crate) fn read(root: &Path) -> Result<Recipe, String> {
        let text = std::fs::read_to_string(root.join(PATH))
            .map_err(|error| format!("cannot read {PATH}: {error}"))?;
        Recipe::parse(&text)
    }

    pub(super) fn parse(text: &str) -> Result<Recipe, String> {
        let mut recipe = Recipe::default();
        let mut row = None;
        for (index, line) in text.lines().enumerate() {
            // A `#` within a line is part of a closure's name.
            let line = if line.starts_with('#') { "" } else { line.trim_end() };
            let wrong = |what: &str| format!("{PATH}:{}: `{}` {what}", index + 1, line.trim());
            if line.is_empty() {
                continue;
            }
            if line.starts_with(' ') {
                let row = row.ok_or_else(|| wrong("stands in no row"))?;
                recipe.add_rules(line, row).map_err(|what| wrong(&what))?;
            } else if line == "pass" {
                row = Some(None);
            } else {
                let (name, paper) = line.rsplit_once(": ").ok_or_else(|| wrong("has no figure"))?;
                let paper = if paper == "-" { Ok(None) } else { paper.parse().map(Some) };
                let paper = paper.map_err(|_| wrong("has a figure that is no number"))?;
                if let Some(name) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
                    let paper = paper.ok_or_else(|| wrong("has no figure"))?;
                    recipe.groups.push(Group { name: name.to_owned(), paper });
                    row = None;
                } else {
                    let group = recipe.groups.len().checked_sub(1);
                    let group = group.ok_or_else(|| wrong("stands in no category"))?;
                    recipe.rows.push(Row { group, name: name.to_owned(), paper });
                    row = Some(Some(recipe.rows.len() - 1));
                }
            }
        }
        Ok(recipe)
    }

    fn add_rules(&mut self, line: &str, row: Option<usize>) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let file = words.next().unwrap_or_default();
        let before = self.rules.len();
        for function in words {
            let function = (function != "*").then(|| function.to_owned());
            if self.rules.iter().any(|rule| rule.file == file && rule.function == function) {
                let function = function.as_deref().unwrap_or("*");
                return Err(format!("names {function} of {file} again"));
            }
            self.rules.push(Rule { file: file.to_owned(), function, row });
        }
        if self.rules.len() == before { Err("names no function".to_owned()) } else { Ok(()) }
    }

    /// Returns the rule for a function of a file: the rule that names it, else the rule for all of the file.
    fn rule(&self, file: &str, function: &str) -> Option<&Rule> {
        let mut of_file = self.rules.iter().filter(|rule| rule.file == file);
        let named = of_file.clone().find(|rule| rule.function.as_deref() == Some(function));
        named.or_else(|| of_file.find(|rule| rule.function.is_none()))
    }

    /// Returns the row that takes an instruction of these functions, the innermost first.
    pub(crate) fn take(&self, frames: &[Frame]) -> Taken {
        for Frame { function, file } in frames {
            let Some(file) = file else { continue };
            match self.rule(file, function).map(|rule| rule.row) {
                Some(Some(row)) => return Taken::By(row),
                Some(None) => {}
                None => return Taken::ByNobody(format!("{file} {function}")),
            }
        }
        let Some(last) = frames.last() else { return Taken::ByNobody("nothing known".into()) };
        match self.rule(SYMBOL, &last.function).and_then(|rule| rule.row) {
            Some(row) => Taken::By(row),
            None => Taken::ByNobody(format!("{SYMBOL} {}", last.function)),
        }
    }

    /// Whether any rule gives something to a row.
    pub(super) fn has_rules(&self, row: usize) -> bool {
        self.rules.iter().any(|rule| rule.row == Some(row))
    }

    /// Returns the files that the recipe names.
    #[cfg(test)]
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.file.as_str()).filter(|file| *file != SYMBOL)
    }
}
