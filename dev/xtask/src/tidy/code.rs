//! One Rust file as the checks see it: its tokens, its `mod` lines, its functions, its tests.
//!
//! This is a reading of tokens, not of syntax: it knows where an item that is only compiled for
//! tests begins and ends, which lines declare modules and how long functions are, and nothing
//! else. Comments are no tokens and strings are one token each, so neither is mistaken for code.

use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, Group, LexError, Spacing, Span, TokenStream, TokenTree};

/// A token: an identifier, a literal, a punctuation character, `::`, or a bracket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
    /// The first half of `::`, perhaps.
    joint: bool,
}

/// One file.
#[derive(Debug, Default)]
pub(crate) struct Code {
    /// All tokens, those of tests and of macro templates too.
    pub(crate) tokens: Vec<Token>,
    /// The tokens that are compiled outside of tests.
    pub(crate) body: Body,
    /// The lines of items that are only compiled for tests.
    pub(crate) test_lines: Vec<RangeInclusive<usize>>,
    /// The functions outside of tests.
    pub(crate) functions: Vec<Function>,
    /// The types with named fields outside of tests.
    pub(crate) structs: Vec<Struct>,
}

/// The inside of a file or of an inline module, without its tests and its inline modules.
#[derive(Debug, Default)]
pub(crate) struct Body {
    /// The tokens, without those of templates (`quote!`), which become code of other crates.
    pub(crate) tokens: Vec<Token>,
    /// The `mod` lines in their order.
    pub(crate) mods: Vec<ModLine>,
    /// Names of the `macro_rules!` defined here.
    pub(crate) macros: Vec<String>,
}

/// `mod name;` or `mod name { … }`.
#[derive(Debug)]
pub(crate) struct ModLine {
    pub(crate) name: String,
    /// Compiled for tests only.
    pub(crate) test: bool,
    /// The values of `path` attributes, those under `cfg_attr` too.
    pub(crate) paths: Vec<String>,
    /// The inside, unless it is in another file.
    pub(crate) inline: Option<Body>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) lines: RangeInclusive<usize>,
}

/// A type with named fields.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) fields: usize,
}

/// Macros whose argument is a template of code and not code of the crate.
const TEMPLATES: &[&str] = &["quote", "quote_spanned", "parse_quote", "parse_quote_spanned"];

impl Code {
    /// Reads a file; fails with the line that is no Rust.
    pub(crate) fn read(text: &str) -> Result<Code, usize> {
        let stream: TokenStream = text.parse().map_err(|error: LexError| line_of(error.span()))?;
        let mut code = Code::default();
        flatten(&stream, &mut code.tokens);
        let mut body = Body::default();
        code.walk(&trees(stream), &mut body, true);
        code.body = body;
        Ok(code)
    }

    /// Reads the trees of one level; `items` says that `mod` lines may stand there.
    fn walk(&mut self, trees: &[TokenTree], body: &mut Body, items: bool) {
        let mut at = 0;
        while at < trees.len() {
            let attributes = attributes(&trees[at..]);
            let head = at + 2 * attributes.len();
            let test = attributes.iter().any(|attribute| compiles_for_tests(attribute));
            if items && let Some((mod_line, length)) = self.mod_line(&trees[head..], test) {
                let paths = attributes.iter().filter_map(|attribute| path_value(attribute));
                let mod_line = ModLine { paths: paths.collect(), ..mod_line };
                let end = head + length;
                if test {
                    self.test_lines.push(lines_of(&trees[at..end]));
                }
                body.mods.push(mod_line);
                at = end;
            } else if test {
                let end = head + item_length(&trees[head..]);
                self.test_lines.push(lines_of(&trees[at..end]));
                at = end;
            } else {
                // An attribute's own tokens may name paths (`#[derive(crate::x::Y)]`).
                for tree in &trees[at..head] {
                    self.tree(tree, body);
                }
                at = head;
                if let Some(tree) = trees.get(head) {
                    at += self.plain(tree, &trees[head..], body);
                }
            }
        }
    }

    /// Takes one tree, or a template with its macro's name; returns how many trees those were.
    fn plain(&mut self, tree: &TokenTree, rest: &[TokenTree], body: &mut Body) -> usize {
        let name = ident(tree);
        if name.as_deref() == Some("fn") {
            self.functions.extend(function(rest));
        }
        if name.as_deref() == Some("struct") {
            self.structs.extend(structure(rest));
        }
        let is_macro = rest.get(1).is_some_and(|next| is_punct(next, '!'));
        if is_macro && name.as_deref() == Some("macro_rules") {
            body.macros.extend(rest.get(2).and_then(ident));
        }
        self.tree(tree, body);
        if is_macro && name.is_some_and(|name| TEMPLATES.contains(&name.as_str())) {
            return 3.min(rest.len());
        }
        1
    }

    fn tree(&mut self, tree: &TokenTree, body: &mut Body) {
        match tree {
            TokenTree::Group(group) => {
                body.tokens.extend(open(group));
                self.walk(&trees(group.stream()), body, false);
                body.tokens.extend(close(group));
            }
            other => push(other, &mut body.tokens),
        }
    }

    /// Reads `pub(…) mod name;` or `pub(…) mod name { … }` at the head of `rest`.
    fn mod_line(&mut self, rest: &[TokenTree], test: bool) -> Option<(ModLine, usize)> {
        let at = visibility(rest);
        if ident(rest.get(at)?)? != "mod" {
            return None;
        }
        let name = ident(rest.get(at + 1)?)?;
        let inline = match rest.get(at + 2)? {
            TokenTree::Group(group) => {
                let mut inside = Body::default();
                if !test {
                    self.walk(&trees(group.stream()), &mut inside, true);
                }
                Some(inside)
            }
            _ => None,
        };
        Some((ModLine { name, test, paths: Vec::new(), inline }, at + 3))
    }
}

/// All paths that begin at the token `at`: one, or those of a `use` with braces. Every segment is
/// a word or `*`; a name after `as` is left out, and `self` inside braces ends its path.
pub(crate) fn paths(tokens: &[Token], at: usize) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    path(tokens, at, &mut Vec::new(), &mut found);
    found
}

/// Reads one path or tree of paths; returns the index after it.
fn path(
    tokens: &[Token],
    mut at: usize,
    prefix: &mut Vec<String>,
    found: &mut Vec<Vec<String>>,
) -> usize {
    let depth = prefix.len();
    loop {
        match tokens.get(at).map(|token| token.text.as_str()) {
            Some("{") if !prefix.is_empty() => {
                at = branches(tokens, at + 1, prefix, found);
                break;
            }
            Some("self") if !prefix.is_empty() => {
                found.push(prefix.clone());
                at += 1;
                break;
            }
            Some(text) if text == "*" || is_word(text) => {
                prefix.push(text.into());
                at += 1;
                if tokens.get(at).is_none_or(|token| token.text != "::") {
                    found.push(prefix.clone());
                    break;
                }
                at += 1;
            }
            _ => {
                // In `crate::x::<T>` and `crate::x::$name` the path ends here.
                found.push(prefix.clone());
                break;
            }
        }
    }
    prefix.truncate(depth);
    at
}

/// Reads the inside of the braces of a `use`; returns the index after the closing brace.
fn branches(
    tokens: &[Token],
    mut at: usize,
    prefix: &mut Vec<String>,
    found: &mut Vec<Vec<String>>,
) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "}" => return at + 1,
            "," => at += 1,
            "as" => at += 2,
            text if text == "*" || is_word(text) => at = path(tokens, at, prefix, found),
            _ => at += 1,
        }
    }
    at
}

/// Whether a token is an identifier or a keyword.
pub(crate) fn is_word(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first == '_' || first.is_alphabetic())
        && characters.all(|next| next == '_' || next.is_alphanumeric())
}

fn flatten(stream: &TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream.clone() {
        match &tree {
            TokenTree::Group(group) => {
                tokens.extend(open(group));
                flatten(&group.stream(), tokens);
                tokens.extend(close(group));
            }
            other => push(other, tokens),
        }
    }
}

/// Adds a token that is no group. `::` arrives as two characters and becomes one token.
fn push(tree: &TokenTree, tokens: &mut Vec<Token>) {
    let colon = is_punct(tree, ':');
    match tokens.last_mut() {
        Some(last) if colon && last.joint => {
            last.text = "::".into();
            last.joint = false;
        }
        _ => {
            let joint = colon
                && matches!(tree, TokenTree::Punct(punct) if punct.spacing() == Spacing::Joint);
            let text = ident(tree).unwrap_or_else(|| tree.to_string());
            tokens.push(Token { text, line: line_of(tree.span()), joint });
        }
    }
}

fn bracket(text: &str, span: Span) -> Token {
    Token { text: text.into(), line: line_of(span), joint: false }
}

fn trees(stream: TokenStream) -> Vec<TokenTree> {
    stream.into_iter().collect()
}

fn line_of(span: Span) -> usize {
    span.start().line
}

fn lines_of(trees: &[TokenTree]) -> RangeInclusive<usize> {
    let first = trees.first().map_or(1, |tree| line_of(tree.span()));
    let last = trees.last().map_or(first, |tree| tree.span().end().line);
    first..=last
}

fn open(group: &Group) -> Option<Token> {
    let text = match group.delimiter() {
        Delimiter::Parenthesis => "(",
        Delimiter::Brace => "{",
        Delimiter::Bracket => "[",
        Delimiter::None => return None,
    };
    Some(bracket(text, group.span_open()))
}

fn close(group: &Group) -> Option<Token> {
    let text = match group.delimiter() {
        Delimiter::Parenthesis => ")",
        Delimiter::Brace => "}",
        Delimiter::Bracket => "]",
        Delimiter::None => return None,
    };
    Some(bracket(text, group.span_close()))
}

/// The name, without the `r#` that lets a keyword be one.
fn ident(tree: &TokenTree) -> Option<String> {
    match tree {
        TokenTree::Ident(ident) => Some(ident.to_string().trim_start_matches("r#").into()),
        _ => None,
    }
}

fn is_punct(tree: &TokenTree, character: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == character)
}

fn is_group(tree: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(tree, TokenTree::Group(group) if group.delimiter() == delimiter)
}

/// The insides of the outer attributes at the head of `rest`.
fn attributes(rest: &[TokenTree]) -> Vec<Vec<TokenTree>> {
    let mut found = Vec::new();
    while let [hash, TokenTree::Group(group), ..] = &rest[2 * found.len()..]
        && is_punct(hash, '#')
        && group.delimiter() == Delimiter::Bracket
    {
        found.push(trees(group.stream()));
    }
    found
}

/// Returns whether an attribute is `cfg(test)`, implies it, or is `test` itself.
fn compiles_for_tests(attribute: &[TokenTree]) -> bool {
    match attribute {
        [name] => ident(name).as_deref() == Some("test"),
        [name, TokenTree::Group(group)] if ident(name).as_deref() == Some("cfg") => {
            implies_test(&trees(group.stream()))
        }
        _ => false,
    }
}

fn implies_test(predicate: &[TokenTree]) -> bool {
    match predicate {
        [name] => ident(name).as_deref() == Some("test"),
        [name, TokenTree::Group(group), ..] => {
            let inside = trees(group.stream());
            let mut parts =
                inside.split(|tree| is_punct(tree, ',')).filter(|part| !part.is_empty()).peekable();
            match ident(name).as_deref() {
                Some("all") => parts.any(implies_test),
                Some("any") => parts.peek().is_some() && parts.all(implies_test),
                _ => false,
            }
        }
        _ => false,
    }
}

/// The file that `path = "…"` or `cfg_attr(…, path = "…")` names.
fn path_value(attribute: &[TokenTree]) -> Option<String> {
    match attribute {
        [name, equals, TokenTree::Literal(literal)]
            if ident(name).as_deref() == Some("path") && is_punct(equals, '=') =>
        {
            Some(literal.to_string().trim_matches('"').into())
        }
        [name, TokenTree::Group(group)] if ident(name).as_deref() == Some("cfg_attr") => {
            let inside = trees(group.stream());
            inside.split(|tree| is_punct(tree, ',')).skip(1).find_map(path_value)
        }
        _ => None,
    }
}

/// How many trees `pub`, `pub(…)` or nothing take.
fn visibility(rest: &[TokenTree]) -> usize {
    match rest {
        [word, group, ..] if ident(word).as_deref() == Some("pub") => {
            if is_group(group, Delimiter::Parenthesis) { 2 } else { 1 }
        }
        _ => 0,
    }
}

/// How many trees the item, statement, field or arm at the head of `rest` takes.
fn item_length(rest: &[TokenTree]) -> usize {
    let at = visibility(rest);
    let mut words = rest[at..].iter().map_while(ident).peekable();
    let first = words.peek().cloned().unwrap_or_default();
    let to_semicolon = match first.as_str() {
        "use" | "static" | "type" | "let" => true,
        "const" => !words.any(|word| word == "fn"),
        _ => false,
    };
    let item = matches!(
        first.as_str(),
        "fn" | "mod"
            | "struct"
            | "enum"
            | "union"
            | "trait"
            | "impl"
            | "unsafe"
            | "async"
            | "extern"
            | "const"
            | "macro_rules"
    );
    let ends = |tree: &TokenTree| {
        is_punct(tree, ';')
            || (!to_semicolon && is_group(tree, Delimiter::Brace))
            || (!to_semicolon && !item && is_punct(tree, ','))
    };
    rest.iter().position(ends).map_or(rest.len(), |end| end + 1)
}

/// Reads the function at the head of `rest`, if it has a name and a body.
fn function(rest: &[TokenTree]) -> Option<Function> {
    let name = ident(rest.get(1)?)?;
    let end = rest.iter().find(|tree| is_group(tree, Delimiter::Brace) || is_punct(tree, ';'))?;
    let TokenTree::Group(body) = end else { return None };
    let lines = line_of(rest[0].span())..=line_of(body.span_close());
    Some(Function { name, lines })
}

/// Reads the type at the head of `rest`, if it has a name and named fields.
fn structure(rest: &[TokenTree]) -> Option<Struct> {
    let name = ident(rest.get(1)?)?;
    let end = rest.iter().find(|tree| is_group(tree, Delimiter::Brace) || is_punct(tree, ';'))?;
    let TokenTree::Group(body) = end else { return None };
    Some(Struct { name, line: line_of(rest[0].span()), fields: colons(&trees(body.stream())) })
}

/// Single colons of one level: of a type's body, one for each field.
fn colons(trees: &[TokenTree]) -> usize {
    let (mut count, mut at) = (0, 0);
    while let Some(tree) = trees.get(at) {
        let colon = is_punct(tree, ':');
        let is_path = colon && trees.get(at + 1).is_some_and(|next| is_punct(next, ':'));
        count += usize::from(colon && !is_path);
        at += if is_path { 2 } else { 1 };
    }
    count
}

#[cfg(test)]
mod tests;
