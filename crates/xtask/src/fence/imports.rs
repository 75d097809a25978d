//! Circles of imports: files of a crate that use each other's items, directly or through others.
//!
//! A file imports another one if it names one of its items, in a `use` or in a path such as `report::status::draft`. A name
//! that is re-exported counts as one of the file that defines it. What is left out:
//!
//! - tests;
//! - a declaration `mod child;`, and the re-export of an item of a child;
//! - an item of the own parent, or of its parents: a module and its children may share what the module's file defines. So
//!   `planner/steps.rs` may use a type of `planner/mod.rs`, which calls it, but not one of `report/mod.rs`, which calls
//!   `planner`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::source::{self, Module, Token};

/// A group of files that all reach each other by imports.
type Circle = BTreeSet<String>;

/// The circles in a directory of sources.
pub(super) fn violations(root: &Path, directory: &str) -> Result<Vec<String>> {
    let sources = root.join(directory);
    let start = ["lib.rs", "main.rs"].map(|name| sources.join(name));
    let Some(start) = start.iter().find(|file| file.is_file()) else {
        return Ok(Vec::new());
    };
    Ok(messages(directory, &circles(&imports(&source::modules(start)?))))
}

fn messages(directory: &str, found: &[Circle]) -> Vec<String> {
    let list = |circle: &Circle| circle.iter().cloned().collect::<Vec<_>>().join(", ");
    found
        .iter()
        .map(|circle| {
            format!(
                "{directory}: these files import each other in a circle: {}",
                list(circle)
            )
        })
        .collect()
}

/// What each file imports.
fn imports(modules: &[Module]) -> BTreeMap<&str, BTreeSet<&str>> {
    let scan: Vec<Scanned> = modules
        .iter()
        .map(|module| Scanned::new(module, modules))
        .collect();
    let names = Names { modules, scan: &scan };
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (module, scanned) in modules.iter().zip(&scan) {
        let targets = scanned.used.iter().filter_map(|path| names.definition(path, 0));
        let is_own_or_above = |other: &Module| module.path.starts_with(&other.path);
        let others = targets
            .filter(|target| !is_own_or_above(target))
            .map(|target| target.file.as_str());
        found.entry(&module.file).or_default().extend(others);
    }
    found
}

/// The paths in a file, from the root of the crate.
struct Scanned {
    /// Items and modules that the file uses.
    used: BTreeSet<Vec<String>>,
    /// What the file re-exports, by the name that it gets.
    exported: BTreeMap<String, Vec<String>>,
    /// Modules of which the file re-exports everything.
    exported_all: Vec<Vec<String>>,
    /// Names that are defined in the file.
    defined: BTreeSet<String>,
}

/// One leaf of a `use`: a path, the name that it gets, and whether it is public.
struct Leaf {
    path: Vec<String>,
    name: String,
    public: bool,
}

impl Scanned {
    fn new(module: &Module, modules: &[Module]) -> Self {
        let tokens = source::tokens(&module.code);
        let mut found = Self {
            used: BTreeSet::new(),
            exported: BTreeMap::new(),
            exported_all: Vec::new(),
            defined: BTreeSet::new(),
        };
        let mut places = Places::new(&module.path);
        let mut paths: Vec<(Vec<String>, Vec<String>)> = Vec::new();
        let mut leaves: Vec<(Vec<String>, Leaf)> = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            places.step(&tokens, at);
            match tokens[at] {
                Token::Word("use") => {
                    let public = is_public(&tokens[..at]);
                    let mut read = Vec::new();
                    at = tree(&tokens, at + 1, &[], public, &mut read);
                    leaves.extend(read.into_iter().map(|leaf| (places.here.clone(), leaf)));
                }
                Token::Word(word) => {
                    if let Some(Token::Word(name)) = tokens.get(at + 1)
                        && [
                            "struct", "enum", "trait", "type", "union", "fn", "const", "static",
                        ]
                        .contains(&word)
                    {
                        found.defined.insert((*name).to_owned());
                    }
                    let (path, next) = simple_path(&tokens, at);
                    if path.len() > 1 {
                        paths.push((places.here.clone(), path));
                    }
                    at = next;
                }
                _ => at += 1,
            }
        }
        let is_module = |path: &[String]| modules.iter().any(|other| other.path == path);
        let mut aliases: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (here, leaf) in leaves {
            let Some(path) = absolute(&leaf.path, &here, &aliases, &is_module) else {
                continue;
            };
            let is_below = path.starts_with(&module.path);
            if leaf.public && leaf.name == "*" {
                found.exported_all.push(path.clone());
            } else if leaf.public {
                found.exported.insert(leaf.name.clone(), path.clone());
            }
            if !leaf.public || !is_below {
                // A glob import counts like the import of one item.
                let glob = (leaf.name == "*").then(|| "*".to_owned());
                found.used.insert(path.iter().cloned().chain(glob).collect());
            }
            aliases.insert(leaf.name, path);
        }
        for (here, path) in paths {
            found.used.extend(absolute(&path, &here, &aliases, &is_module));
        }
        found
    }
}

/// Where in a file the scan is: the path of the module, with the inline modules that are open.
struct Places {
    file: Vec<String>,
    here: Vec<String>,
    /// For each open brace, the name of the inline module that it opens.
    open: Vec<Option<String>>,
}

impl Places {
    fn new(file: &[String]) -> Self {
        Self {
            file: file.to_vec(),
            here: file.to_vec(),
            open: Vec::new(),
        }
    }

    fn step(&mut self, tokens: &[Token], at: usize) {
        match tokens[at] {
            Token::Other('{') => {
                let name = match tokens[..at] {
                    [.., Token::Word("mod"), Token::Word(name)] => Some(name.to_owned()),
                    _ => None,
                };
                self.open.push(name);
            }
            Token::Other('}') => drop(self.open.pop()),
            _ => return,
        }
        self.here = self
            .file
            .iter()
            .chain(self.open.iter().flatten())
            .cloned()
            .collect();
    }
}

/// True when `pub` or `pub(…)` precedes.
fn is_public(before: &[Token]) -> bool {
    match before {
        [.., Token::Word("pub")] => true,
        [rest @ .., Token::Other(')')] => {
            let open = rest.iter().rposition(|token| *token == Token::Other('('));
            open.is_some_and(|open| open > 0 && rest[open - 1] == Token::Word("pub"))
        }
        _ => false,
    }
}

/// Reads a tree of a `use` from a position; returns the position behind it.
fn tree(tokens: &[Token], mut at: usize, prefix: &[String], public: bool, leaves: &mut Vec<Leaf>) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match tokens.get(at) {
            Some(Token::Word("as")) => {
                let name = match tokens.get(at + 1) {
                    Some(Token::Word(name)) => (*name).to_owned(),
                    _ => String::new(),
                };
                leaves.push(Leaf { path, name, public });
                return at + 2;
            }
            Some(Token::Word(word)) => {
                path.push((*word).to_owned());
                at += 1;
            }
            Some(Token::Path) => at += 1,
            Some(Token::Other('*')) => {
                leaves.push(Leaf {
                    path,
                    name: "*".to_owned(),
                    public,
                });
                return at + 1;
            }
            Some(Token::Other('{')) => {
                at += 1;
                while at < tokens.len() && tokens[at] != Token::Other('}') {
                    at = tree(tokens, at, &path, public, leaves);
                    at += usize::from(tokens.get(at) == Some(&Token::Other(',')));
                }
                return at + 1;
            }
            _ => break,
        }
    }
    if path.len() > prefix.len() {
        // `a::{self}` is `a`.
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = path.last().cloned().unwrap_or_default();
        leaves.push(Leaf { path, name, public });
        at
    } else {
        // The scan ignores this and continues.
        at + 1
    }
}

/// The path `a::b::c` that begins at a word, and the position behind it.
fn simple_path(tokens: &[Token], mut at: usize) -> (Vec<String>, usize) {
    let is_continued = at > 0 && matches!(tokens[at - 1], Token::Path | Token::Other('.'));
    let mut path = Vec::new();
    while let Some(Token::Word(word)) = tokens.get(at) {
        path.push((*word).to_owned());
        at += 1;
        match (tokens.get(at), tokens.get(at + 1)) {
            (Some(Token::Path), Some(Token::Word(_))) => at += 1,
            _ => break,
        }
    }
    if is_continued {
        path.clear();
    }
    (path, at)
}

/// A path from the root of the crate; `None` for one of another crate.
fn absolute(
    path: &[String],
    here: &[String],
    aliases: &BTreeMap<String, Vec<String>>,
    is_module: &impl Fn(&[String]) -> bool,
) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    let joined = |base: &[String], rest: &[String]| base.iter().chain(rest).cloned().collect::<Vec<_>>();
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some(joined(here, rest)),
        "super" => {
            let ups = 1 + rest.iter().take_while(|part| *part == "super").count();
            let base = here.get(..here.len().checked_sub(ups)?)?;
            Some(joined(base, &rest[ups - 1..]))
        }
        _ => {
            let child = joined(here, std::slice::from_ref(first));
            if is_module(&child) {
                return Some(joined(&child, rest));
            }
            aliases.get(first).map(|base| joined(base, rest))
        }
    }
}

/// All names of a crate.
struct Names<'m, 's> {
    modules: &'m [Module],
    scan: &'s [Scanned],
}

impl<'m> Names<'m, '_> {
    /// The module that defines what a path names; `None` for a module as such.
    fn definition(&self, path: &[String], depth: usize) -> Option<&'m Module> {
        let (index, rest) = (0..=path.len()).rev().find_map(|length| {
            let index = self
                .modules
                .iter()
                .position(|module| module.path == path[..length])?;
            Some((index, &path[length..]))
        })?;
        let (name, further) = rest.split_first()?;
        let (module, scanned) = (&self.modules[index], &self.scan[index]);
        let through = |base: &[String]| {
            let path: Vec<String> = base.iter().chain(further).cloned().collect();
            // Re-exports that point at each other would loop for ever.
            (depth < 8).then(|| self.definition(&path, depth + 1)).flatten()
        };
        if scanned.defined.contains(name) {
            return Some(module);
        }
        if let Some(base) = scanned.exported.get(name) {
            return through(base);
        }
        let defines = |base: &&Vec<String>| {
            let position = self.modules.iter().position(|module| module.path == **base);
            position.is_some_and(|position| self.scan[position].defined.contains(name))
        };
        match scanned.exported_all.iter().find(defines) {
            Some(base) => through(&base.iter().cloned().chain([name.clone()]).collect::<Vec<_>>()),
            None => Some(module),
        }
    }
}

/// The strongly connected groups of more than one file.
fn circles(imports: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<Circle> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|file| (*file, reachable(imports, file)))
        .collect();
    let mut found: Vec<Circle> = Vec::new();
    for (file, targets) in &reached {
        let together = targets
            .iter()
            .filter(|other| reached.get(*other).is_some_and(|back| back.contains(file)));
        let circle: Circle = together.map(|other| (*other).to_owned()).collect();
        if circle.len() > 1 && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}

fn reachable<'a>(imports: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut found: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(file) = open.pop() {
        for target in imports.get(file).into_iter().flatten() {
            if found.insert(target) {
                open.push(target);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
