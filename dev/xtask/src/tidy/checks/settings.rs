//! docs/settings.md names every environment variable and the value of every limit, as the source has them.
//!
//! A row of a limit ends with the constants that define it, such as `` `limits::BUDGET_BYTES` ``: the file and the name.
//! The second column begins with the value: a number, and `KiB`, `MiB`, `GiB`, `us`, `ms` or `s` if it has a unit.

use std::collections::BTreeMap;

use super::super::code::Token;
use super::super::finding::Finding;
use super::super::tree::Tree;

const PAGE: &str = "docs/settings.md";
/// The page with the bounds of the wire format, which may stand there instead.
const WIRE: &str = "docs/wire.md";
const LIMITS: &str = "crates/core/src/limits.rs";
/// How deep constants may refer to each other.
const DEPTH_MAX: u32 = 16;

/// The constants of the product, by file and name, as `limits::BUDGET_BYTES`.
struct Constants<'t>(BTreeMap<String, &'t [Token]>);

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.texts.get(PAGE) else { return Vec::new() };
    let mut findings = variables(tree, page);
    let constants = Constants::read(tree);
    let rows = page.lines().enumerate().filter_map(|(at, line)| Some((at + 1, Row::read(line)?)));
    let mut listed = Vec::new();
    for (line, row) in rows {
        for name in row.constants {
            listed.push(name.to_owned());
            let Some(value) = constants.value(name) else {
                let what = format!("no file defines the number `{name}`");
                findings.push(Finding::error(PAGE, line, what, "name the file and its constant"));
                continue;
            };
            if row.value != Some(value) {
                let what = format!("`{name}` is {value}, which the row does not say");
                findings.push(Finding::error(PAGE, line, what, "write the value of the source"));
            }
        }
    }
    let wire = tree.texts.get(WIRE).map_or("", String::as_str);
    for name in constants.0.keys().filter(|name| name.starts_with("limits::") && is_limit(name)) {
        let bare = format!("`{}`", &name["limits::".len()..]);
        if !listed.contains(name) && !wire.contains(&bare) {
            let what = format!("the limit `{name}` stands in no table");
            findings.push(Finding::error(LIMITS, 1, what, format!("add a row to {PAGE}")));
        }
    }
    findings
}

/// Returns whether users can meet the limit: it bounds something, or is a default.
fn is_limit(name: &str) -> bool {
    name.ends_with("_MAX") || name.ends_with("_PER_SECOND") || name.ends_with("_PER_ADDRESS")
}

/// Compares the variables that the product reads with those of the page.
fn variables(tree: &Tree, page: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `UPBEAT_")).collect();
    let mut read = Vec::new();
    for (path, token) in
        product(tree).flat_map(|(path, tokens)| tokens.iter().map(move |token| (path, token)))
    {
        let name = token.text.trim_matches('"');
        if token.text.len() == name.len() || !is_variable(name) {
            continue;
        }
        read.push(name);
        if !rows.iter().any(|row| row.starts_with(&format!("| `{name}` "))) {
            let what = format!("{PAGE} does not name the variable {name}");
            findings.push(Finding::error(path, token.line, what, "add a row"));
        }
    }
    for row in rows {
        let name = row.trim_start_matches("| `").split('`').next().unwrap_or_default();
        if !read.contains(&name) {
            let what = format!("nothing reads the variable {name}");
            findings.push(Finding::error(PAGE, 1, what, "remove the row"));
        }
    }
    findings
}

fn is_variable(text: &str) -> bool {
    text.strip_prefix("UPBEAT_").is_some_and(|rest| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    })
}

/// Returns the tokens of each source file of the product.
fn product(tree: &Tree) -> impl Iterator<Item = (&str, &[Token])> {
    let is_product = |path: &str| path.starts_with("crates/") && path.contains("/src/");
    tree.sources()
        .filter(move |(path, _)| is_product(path))
        .map(|(path, code)| (path, code.body.tokens.as_slice()))
}

/// A row of a table of limits.
struct Row<'t> {
    value: Option<u128>,
    constants: Vec<&'t str>,
}

impl Row<'_> {
    fn read(line: &str) -> Option<Row<'_>> {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [_, value, _, constants] = cells[..] else { return None };
        let constants: Vec<&str> =
            constants.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect();
        (!constants.is_empty()).then(|| Row { value: number(value), constants })
    }
}

/// Returns the number at the beginning of a text, with its unit: bytes, or nanoseconds.
fn number(text: &str) -> Option<u128> {
    let mut words = text.split_whitespace();
    let number: u128 = words.next()?.replace(',', "").parse().ok()?;
    let unit = words.next().unwrap_or_default().trim_end_matches([',', ';']);
    Some(
        number
            * match unit {
                "KiB" => 1 << 10,
                "MiB" => 1 << 20,
                "GiB" => 1 << 30,
                "us" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                _ => 1,
            },
    )
}

impl<'t> Constants<'t> {
    fn read(tree: &'t Tree) -> Constants<'t> {
        let mut constants = BTreeMap::new();
        for (path, tokens) in product(tree) {
            let stem = path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
            for at in 0..tokens.len() {
                if tokens[at].text != "const" {
                    continue;
                }
                let rest = &tokens[at + 1..];
                let Some(begin) = rest.iter().position(|token| token.text == "=") else { continue };
                let Some(end) = rest.iter().position(|token| token.text == ";") else { continue };
                if begin < end && rest[1].text == ":" {
                    constants
                        .entry(format!("{stem}::{}", rest[0].text))
                        .or_insert(&rest[begin + 1..end]);
                }
            }
        }
        Constants(constants)
    }

    /// Returns the value of a constant: a number as it is, and times in nanoseconds.
    fn value(&self, name: &str) -> Option<u128> {
        let value = self.evaluate(name, DEPTH_MAX)?;
        let unit = match name {
            _ if name.ends_with("_MS") || name.ends_with("_MS_MAX") => 1_000_000,
            _ if name.ends_with("_US") || name.ends_with("_US_MAX") => 1_000,
            _ => 1,
        };
        Some(value * unit)
    }

    fn evaluate(&self, name: &str, depth: u32) -> Option<u128> {
        let tokens = self.0.get(name)?;
        let file = name.split("::").next()?;
        let mut sum = Expression { constants: self, file, tokens, depth: depth.checked_sub(1)? };
        let value = sum.binary(0)?;
        sum.tokens.is_empty().then_some(value)
    }
}

/// The expression of a constant, from the tokens that are left of it.
struct Expression<'c, 't> {
    constants: &'c Constants<'t>,
    file: &'c str,
    tokens: &'c [Token],
    depth: u32,
}

impl Expression<'_, '_> {
    fn next(&mut self) -> Option<&str> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(&first.text)
    }

    fn next_is(&self, text: &str) -> bool {
        self.tokens.first().is_some_and(|token| token.text == text)
    }

    /// Evaluates operators that bind at least as strongly as `level`: `<<`, then `+` and `-`, then `*` and `/`.
    fn binary(&mut self, level: u32) -> Option<u128> {
        let mut left = self.atom()?;
        loop {
            let operator = self.tokens.first().map_or("", |token| &*token.text);
            let strength = match operator {
                "<" | "<<" => 0,
                "+" | "-" => 1,
                "*" | "/" => 2,
                _ => return Some(left),
            };
            if strength < level {
                return Some(left);
            }
            let operator = self.next()?.to_owned();
            if operator == "<" {
                self.next();
            }
            let right = self.binary(strength + 1)?;
            left = match &*operator {
                "+" => left.checked_add(right)?,
                "-" => left.checked_sub(right)?,
                "*" => left.checked_mul(right)?,
                "/" => left.checked_div(right)?,
                _ => left.checked_shl(right.try_into().ok()?)?,
            };
        }
    }

    fn atom(&mut self) -> Option<u128> {
        let value = match self.next()?.to_owned() {
            open if open == "(" => {
                let value = self.binary(0)?;
                self.next().filter(|close| *close == ")")?;
                value
            }
            duration if duration == "Duration" => return self.duration(),
            text if text.starts_with(|first: char| first.is_ascii_digit()) => {
                text.replace('_', "").parse().ok()?
            }
            name => {
                let inside = format!("{}::{name}", self.file);
                let evaluate = |name: &str| self.constants.evaluate(name, self.depth);
                evaluate(&inside).or_else(|| evaluate(&format!("limits::{name}")))?
            }
        };
        if self.next_is("as") {
            self.next();
            self.next();
        }
        Some(value)
    }

    /// Evaluates `Duration::from_secs(…)` and `Duration::from_millis(…)`, in nanoseconds.
    fn duration(&mut self) -> Option<u128> {
        self.next().filter(|colons| *colons == "::")?;
        let unit = match self.next()? {
            "from_secs" => 1_000_000_000,
            "from_millis" => 1_000_000,
            _ => return None,
        };
        Some(self.atom()? * unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(page: &str, limits: &str) -> Vec<String> {
        let files = [(PAGE, page), (LIMITS, limits), ("crates/upbeat/src/wait.rs", WAIT)];
        check(&Tree::of(&files)).iter().map(ToString::to_string).collect()
    }

    const WAIT: &str =
        "const PATIENCE: Duration = Duration::from_secs(10);\nfn f() { g(\"UPBEAT_PROGRAM\") }\n";
    const LIMITS_TEXT: &str = "pub const A_MAX: usize = 1 << 10;\npub const B_MAX: usize = 3 * A_MAX / 2 - 4;\n\
                               pub const C_MS_MAX: u64 = (2 + 3) * 1_000;\npub const D: u64 = A_MAX as u64;\n";
    const PAGE_TEXT: &str = "| `UPBEAT_PROGRAM` | a name |\n| a | 1 KiB | waits | `limits::A_MAX`, `limits::D` |\n\
                             | b | 1,532 bytes | fails | `limits::B_MAX` |\n| c | 5 s | ends | `limits::C_MS_MAX` |\n\
                             | p | 10 s | ends | `wait::PATIENCE` |\n";

    #[test]
    fn tables_have_the_values_of_the_source() {
        assert_eq!(messages(PAGE_TEXT, LIMITS_TEXT), [""; 0]);
    }

    #[test]
    fn other_values_are_found() {
        for (row, wrong) in
            [("1 KiB", "2 KiB"), ("1,532", "1,533"), ("| 5 s", "| 5 ms"), ("10 s", "11 s")]
        {
            let found = messages(&PAGE_TEXT.replace(row, wrong), LIMITS_TEXT);
            assert!(!found.is_empty(), "{wrong} for {row}");
        }
    }

    #[test]
    fn missing_rows_and_constants_are_found() {
        let more = format!("{LIMITS_TEXT}pub const E_MAX: u64 = 1;\n");
        assert!(messages(PAGE_TEXT, &more)[0].contains("limits::E_MAX"));
        let row = "| e | 1 | ends | `limits::E_MAX` |\n";
        assert!(messages(&format!("{PAGE_TEXT}{row}"), LIMITS_TEXT)[0].contains("no file defines"));
    }

    #[test]
    fn variables_are_those_that_the_product_reads() {
        let unread = format!("{PAGE_TEXT}| `UPBEAT_OTHER` | 1 |\n");
        assert!(
            messages(&unread, LIMITS_TEXT)[0].contains("nothing reads the variable UPBEAT_OTHER")
        );
        let unnamed = PAGE_TEXT.replace("UPBEAT_PROGRAM", "UPBEAT_OTHER");
        assert!(
            messages(&unnamed, LIMITS_TEXT)[0]
                .contains("does not name the variable UPBEAT_PROGRAM")
        );
    }
}
