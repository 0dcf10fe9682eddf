//! Faults that tests inject lie in code that the product runs, and each has a place that injects it.

use std::collections::BTreeSet;

use super::super::code::Token;
use super::super::finding::Finding;
use super::super::tree::Tree;

/// The only directories with injected faults.
const HOMES: [&str; 3] = ["crates/core/src/", "crates/transport/src/", "crates/upbeat/src/"];

/// The file that declares them.
const LIST: &str = "crates/core/src/mutant.rs";

/// Reports faults elsewhere, and declared faults that no code injects. A simulator that has
/// faults of its own has decisions of its own, which no product runs.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut asked = BTreeSet::new();
    for (path, code) in tree.sources() {
        let tokens = &code.body.tokens;
        let is_home = HOMES.iter().any(|home| path.starts_with(home));
        if is_home {
            asked.extend(questions(tokens).filter_map(|at| name_in(&tokens[at..])));
        }
        let strays = questions(tokens).filter(|_| !is_home);
        for at in strays.chain(declarations(tokens).filter(|_| path != LIST)) {
            findings.push(Finding::error(
                path,
                tokens[at].line,
                format!("a fault is put in or declared outside of {}, {LIST}", HOMES.join(", ")),
                "put it into the code that the product runs, and declare it in the list",
            ));
        }
    }
    let Some(list) = tree.code(LIST) else { return findings };
    for fault in declared(&list.body.tokens) {
        if !asked.contains(fault.text.as_str()) {
            findings.push(Finding::error(
                LIST,
                fault.line,
                format!("nothing asks whether the fault {} is put in", fault.text),
                format!("ask `mutated(Mutant::{})` where it belongs, or remove it", fault.text),
            ));
        }
    }
    findings
}

fn texts(tokens: &[Token], text: [&str; 2]) -> impl Iterator<Item = usize> {
    let is_it = move |pair: &[Token]| [0, 1].into_iter().all(|at| pair[at].text == text[at]);
    tokens.windows(2).enumerate().filter_map(move |(at, pair)| is_it(pair).then_some(at))
}

/// Returns the places at which a function asks whether a fault is injected.
fn questions(tokens: &[Token]) -> impl Iterator<Item = usize> {
    texts(tokens, ["mutated", "("])
}

/// Returns the places at which a list of faults is declared.
fn declarations(tokens: &[Token]) -> impl Iterator<Item = usize> {
    texts(tokens, ["enum", "Mutant"]).chain(texts(tokens, ["mutants", "!"]))
}

/// Returns the fault that a call names: `mutated(Mutant::Name)`.
fn name_in(tokens: &[Token]) -> Option<&str> {
    let text = |at: usize| tokens.get(at).map(|token| token.text.as_str());
    (text(2) == Some("Mutant") && text(3) == Some("::")).then(|| text(4)).flatten()
}

/// Returns the faults of the list: each is a name and a text that says what the fault does.
fn declared(tokens: &[Token]) -> impl Iterator<Item = &Token> {
    let begin = texts(tokens, ["mutants", "!"]).next().map_or(tokens.len(), |at| at + 3);
    let entries = tokens[begin..].windows(4).filter(|of| of[1].text == "," && of[3].text == ";");
    entries.map(|of| &of[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &str = "macro_rules! mutants { () => {} }\nmutants! {\n    First, \"a\";\n    Second, \
                            \"b\";\n}\nfn mutated(_: Mutant) -> bool { false }\n";

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_fault_is_asked_about() {
        let asks = "fn f() -> bool { mutated(Mutant::First) || mutated(Mutant::Second) }\n";
        assert_eq!(messages(&[(LIST, DECLARED), ("crates/core/src/call.rs", asks)]).len(), 0);
        let asks = "fn f() -> bool { mutated(Mutant::First) }\n";
        let found = messages(&[(LIST, DECLARED), ("crates/core/src/call.rs", asks)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/core/src/mutant.rs:4") && found[0].contains("Second"));
    }

    #[test]
    fn no_fault_lies_elsewhere() {
        let own = "enum Mutant { Own }\nfn f() -> bool { mutated(Own::First) }\n";
        let found = messages(&[("dev/sim/src/worlds.rs", own)]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|it| it.starts_with("dev/sim/src/worlds.rs:")));
        let puts = "fn f() { mutant::put(Some(Mutant::First)); }\n";
        assert_eq!(messages(&[("dev/sim/src/mutants.rs", puts)]).len(), 0);
    }
}
