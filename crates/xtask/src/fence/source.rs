//! Rust source as the other checks read it: without comments, texts and tests, as tokens, and as a tree of modules.
//!
//! This is no parser: it knows enough of the language for the code of this repository, and each use has a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// A piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name, keyword or number.
    Word(&'a str),
    /// `::`
    Path,
    /// Any other single character.
    Other(char),
}

/// A file that belongs to a crate and not only to its tests.
#[derive(Clone, Debug)]
pub(super) struct Module {
    /// Path below the directory of the sources, such as `report/status.rs`.
    pub(super) file: String,
    /// Names from the root of the crate, such as `report`, `status`; empty for the root.
    pub(super) path: Vec<String>,
    /// Code without comments, the content of texts, and tests.
    pub(super) code: String,
}

/// The modules of a crate, from the file of its root: those that are declared outside of tests.
///
/// # Errors
/// A declared file cannot be read.
pub(super) fn modules(root: &Path) -> Result<Vec<Module>> {
    let sources = root.parent().unwrap_or(root).to_path_buf();
    let mut found = Vec::new();
    let mut open: Vec<(PathBuf, Vec<String>)> = vec![(root.to_path_buf(), Vec::new())];
    while let Some((file, path)) = open.pop() {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let code = code(&text);
        let below = children_of(&file, path.is_empty());
        for name in declared(&code) {
            let candidates = [below.join(format!("{name}.rs")), below.join(&name).join("mod.rs")];
            if let Some(child) = candidates.into_iter().find(|candidate| candidate.is_file()) {
                open.push((child, path.iter().cloned().chain([name]).collect()));
            }
        }
        let file = file.strip_prefix(&sources).unwrap_or(&file).display().to_string();
        found.push(Module { file, path, code });
    }
    found.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(found)
}

/// The directory in which the child modules of a file are.
fn children_of(file: &Path, is_root: bool) -> PathBuf {
    if is_root || file.ends_with("mod.rs") {
        file.parent().unwrap_or(file).to_path_buf()
    } else {
        file.with_extension("")
    }
}

/// Names of the modules that are declared as files.
fn declared(code: &str) -> BTreeSet<String> {
    let tokens = tokens(code);
    tokens
        .windows(3)
        .filter_map(|three| match three {
            [Token::Word("mod"), Token::Word(name), Token::Other(';')] => Some((*name).to_owned()),
            _ => None,
        })
        .collect()
}

/// The code of a file: comments and the content of texts become spaces, tests go. Line breaks stay.
pub(super) fn code(text: &str) -> String {
    without_tests(&without_texts(text))
}

/// The code of a file with its tests: comments and the content of texts become spaces. Line breaks stay.
pub(super) fn without_texts(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        let length = comment(rest)
            .or_else(|| {
                if follows_a_word(&chars, at) {
                    None
                } else {
                    raw_text(rest)
                }
            })
            .or_else(|| quoted(rest));
        if let Some(length) = length {
            let blank = |c: &char| if *c == '\n' { '\n' } else { ' ' };
            out.extend(rest[..length].iter().map(blank));
            at += length;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

fn follows_a_word(chars: &[char], at: usize) -> bool {
    at > 0 && is_word(chars[at - 1])
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Length of the comment that begins here.
fn comment(rest: &[char]) -> Option<usize> {
    if rest.starts_with(&['/', '/']) {
        return Some(rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with(&['/', '*']) {
        return None;
    }
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(&['/', '*']) {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(&['*', '/']) {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += 1;
        }
    }
    Some(rest.len())
}

/// Length of the raw text that begins here: `r"…"`, `br#"…"#`.
fn raw_text(rest: &[char]) -> Option<usize> {
    let start = usize::from(rest.first() == Some(&'b'));
    if rest.get(start) != Some(&'r') {
        return None;
    }
    let hashes = rest[start + 1..].iter().take_while(|c| **c == '#').count();
    let open = start + 1 + hashes;
    if rest.get(open) != Some(&'"') {
        return None;
    }
    let end =
        |at: &usize| rest[*at] == '"' && rest[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
    let close = (open + 1..rest.len()).find(end).unwrap_or(rest.len() - 1);
    Some((close + 1 + hashes).min(rest.len()))
}

/// Length of the text or character literal that begins here. A lifetime is not a literal.
fn quoted(rest: &[char]) -> Option<usize> {
    let quote = *rest.first()?;
    let is_literal = match quote {
        '"' => true,
        '\'' => rest.get(1) == Some(&'\\') || rest.get(2) == Some(&'\''),
        _ => false,
    };
    if !is_literal {
        return None;
    }
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    Some((at + 1).min(rest.len()))
}

/// Removes every item behind an attribute such as `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    let chars: Vec<char> = code.chars().collect();
    let mut out = String::with_capacity(code.len());
    let mut at = 0;
    while at < chars.len() {
        match attribute(&chars[at..]) {
            Some(length) if is_test(&chars[at..at + length]) => {
                let end = at + length + item(&chars[at + length..]);
                out.extend(chars[at..end].iter().filter(|c| **c == '\n'));
                at = end;
            }
            _ => {
                out.push(chars[at]);
                at += 1;
            }
        }
    }
    out
}

/// Length of the attribute `#[…]` that begins here.
fn attribute(rest: &[char]) -> Option<usize> {
    rest.starts_with(&['#', '[']).then(|| 1 + bracketed(&rest[1..]))
}

fn is_test(attribute: &[char]) -> bool {
    let text: String = attribute.iter().collect();
    let words: Vec<Token> = tokens(&text);
    let at = |word| words.iter().position(|token| *token == Token::Word(word));
    matches!((at("cfg"), at("test")), (Some(_), Some(_))) && at("not").is_none()
}

/// Length of the item that begins here, further attributes included.
fn item(rest: &[char]) -> usize {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            '#' if rest[at..].starts_with(&['#', '[']) => at += 1 + bracketed(&rest[at + 1..]),
            '(' | '[' => at += bracketed(&rest[at..]),
            '{' => return at + bracketed(&rest[at..]),
            ';' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// Length of what is between the bracket that begins here and its counterpart, both included.
fn bracketed(rest: &[char]) -> usize {
    let mut depth = 0_usize;
    for (at, c) in rest.iter().enumerate() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    rest.len()
}

/// The first line, the name and the number of lines of every block of code that one of these keywords and a name begin, such
/// as `fn main() { … }`. A declaration without a block, such as `mod tests;`, is none.
pub(super) fn blocks(code: &str, keyword: &str) -> Vec<(usize, String, usize)> {
    let chars: Vec<char> = code.chars().collect();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < chars.len() {
        let length = chars[at..].iter().take_while(|c| is_word(**c)).count();
        if length == 0 {
            line += usize::from(chars[at] == '\n');
            at += 1;
            continue;
        }
        if chars[at..at + length].iter().copied().eq(keyword.chars()) {
            let rest = chars[at + length..].iter();
            let name: String = rest
                .skip_while(|c| c.is_whitespace())
                .take_while(|c| is_word(**c))
                .collect();
            let end = item(&chars[at..]);
            let text = &chars[at..at + end];
            if !name.is_empty() && text.ends_with(&['}']) {
                found.push((line, name, 1 + text.iter().filter(|c| **c == '\n').count()));
            }
        }
        at += length;
    }
    found
}

/// The tokens of code.
pub(super) fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = if is_word(first) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            found.push(Token::Word(&rest[..length]));
            length
        } else if rest.starts_with("::") {
            found.push(Token::Path);
            2
        } else {
            if !first.is_whitespace() {
                found.push(Token::Other(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

/// What an open brace is around.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Brace {
    /// Items: an inline module, a use of a macro, or what a macro expands to.
    Items,
    /// The rules of a `macro_rules!`.
    Rules,
    /// Anything else, such as a function or a block of `impl`.
    Other,
}

/// Types that are defined in code, outside of functions and blocks of `impl`, with how often. The types that a macro
/// defines count as well, where their names are written: in the macro itself or where it is used.
pub(super) fn types(code: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let tokens = tokens(code);
    let mut open: Vec<Brace> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match (token, tokens.get(at + 1)) {
            (Token::Other('{'), _) => open.push(brace(&tokens[..at], open.last().copied())),
            (Token::Other('}'), _) => drop(open.pop()),
            (Token::Word("struct" | "enum" | "trait" | "type" | "union"), Some(Token::Word(name)))
                if !open.contains(&Brace::Other) =>
            {
                *found.entry((*name).to_owned()).or_default() += 1;
            }
            _ => {}
        }
    }
    found
}

/// What the brace after these tokens is around.
fn brace(before: &[Token<'_>], outer: Option<Brace>) -> Brace {
    match before {
        [.., Token::Word("macro_rules"), Token::Other('!'), Token::Word(_)] => Brace::Rules,
        [.., Token::Word("mod"), Token::Word(_)] | [.., Token::Word(_), Token::Other('!')] => Brace::Items,
        [.., Token::Other('='), Token::Other('>')] if outer == Some(Brace::Rules) => Brace::Items,
        _ => Brace::Other,
    }
}

#[cfg(test)]
mod tests;
