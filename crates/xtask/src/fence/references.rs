//! Code and pages refer to nothing that a clone does not have: no notes of an earlier time, and no page or heading that does
//! not exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// A text of the repository: its path from the root, and its content.
pub(super) type Text = (PathBuf, String);

/// Phrases that point at notes outside of the repository, with what makes each of them harmless: a text before it, or one
/// behind it.
const PHRASES: [(&str, &[&str], &[&str]); 5] = [
    ("the issue", &[], &[]),
    ("the seed says", &[], &[]),
    ("the seed asks", &[], &[]),
    ("reference/", &["docs/", "../", "["], &[]),
    // The place where tests expect the real data.
    ("shared/", &[], &["data"]),
];

/// Citations of texts that are not in the repository, and links that lead nowhere.
pub(super) fn violations(texts: &[Text]) -> Vec<String> {
    let pages: BTreeMap<&Path, BTreeSet<String>> = texts
        .iter()
        .filter(|(path, _)| has_extension(path, "md"))
        .map(|(path, text)| (path.as_path(), anchors(text)))
        .collect();
    let mut found = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| is_checked(path)) {
        for (number, line) in (1..).zip(text.lines()) {
            let told = notes(line)
                .into_iter()
                .map(|note| format!("`{note}` is no text of this repository"));
            let broken = links(line, has_extension(path, "md"));
            let broken = broken.filter_map(|link| broken_link(path, link, &pages));
            found.extend(
                told.chain(broken)
                    .map(|what| format!("{}:{number}: {what}", path.display())),
            );
        }
    }
    found
}

/// Hashes look like anything, and the tests of the fence spell what it refuses.
fn is_checked(path: &Path) -> bool {
    !has_extension(path, "sum") && !has_extension(path, "lock") && !path.starts_with("crates/xtask/src/fence")
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Numbers such as `R7b`, `A19` and `Case 12`, and phrases that point at notes.
fn notes(line: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let mut words = words(line).peekable();
    while let Some((at, word)) = words.next() {
        if is_number_of_a_note(word) {
            found.push(word);
        }
        if let ("Case", Some((next, number))) = (word, words.peek())
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && &line[at..*next] == "Case "
        {
            found.push(&line[at..next + number.len()]);
        }
    }
    for (phrase, before, behind) in PHRASES {
        for (at, _) in line.match_indices(phrase) {
            let (left, right) = (&line[..at], &line[at + phrase.len()..]);
            let is_harmless = before.iter().any(|text| left.ends_with(text))
                || behind.iter().any(|text| right.starts_with(text));
            let is_part = left.ends_with(is_part_of_a_word)
                || (!phrase.ends_with('/') && right.starts_with(is_part_of_a_word));
            if !is_harmless && !is_part {
                found.push(phrase);
            }
        }
    }
    found
}

fn is_part_of_a_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The words of a line with their positions.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.split(|c| !is_part_of_a_word(c))
        .filter(|word| !word.is_empty())
        .map(move |word| (word.as_ptr() as usize - line.as_ptr() as usize, word))
}

/// A letter `A` or `R`, one or two digits, and a small letter or none.
fn is_number_of_a_note(word: &str) -> bool {
    let Some(rest) = word.strip_prefix(['A', 'R']) else {
        return false;
    };
    let digits = rest.trim_end_matches(|c: char| c.is_ascii_lowercase());
    (1..=2).contains(&digits.len())
        && rest.len() - digits.len() <= 1
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// What a line refers to: in a page, the targets of its links; elsewhere, and in pages too, paths that begin with `docs/`.
fn links(line: &str, is_page: bool) -> impl Iterator<Item = &str> {
    let ends = |c: char| !(c.is_alphanumeric() || "_-./#".contains(c));
    let paths = line.match_indices("docs/").filter(move |(at, _)| {
        !line[..*at].ends_with(|before: char| before.is_alphanumeric() || "_-./".contains(before))
    });
    let paths = paths.filter_map(move |(at, _)| {
        let rest = &line[at..];
        let path = &rest[..rest.find(ends).unwrap_or(rest.len())];
        path.contains(".md").then(|| path.trim_end_matches(['.', '#']))
    });
    let targets = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next());
    let targets =
        targets.filter(move |target| is_page && !target.contains("://") && !target.starts_with("mailto:"));
    paths.chain(targets)
}

/// What is wrong with a link: `docs/…` from the root, anything else from the page.
fn broken_link(from: &Path, link: &str, pages: &BTreeMap<&Path, BTreeSet<String>>) -> Option<String> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() {
        from.to_path_buf()
    } else if file.starts_with("docs/") && !has_extension(from, "md") {
        PathBuf::from(file)
    } else {
        let relative = normal(&from.parent().unwrap_or(Path::new("")).join(file));
        // Pages name files from the root, too, in running text.
        let from_root = PathBuf::from(file);
        if pages.contains_key(relative.as_path()) || !pages.contains_key(from_root.as_path()) {
            relative
        } else {
            from_root
        }
    };
    if !has_extension(&target, "md") {
        return None;
    }
    match pages.get(target.as_path()) {
        None => Some(format!("{} does not exist", target.display())),
        Some(anchors) if !anchor.is_empty() && !anchors.contains(anchor) => {
            Some(format!("{} has no heading #{anchor}", target.display()))
        }
        Some(_) => None,
    }
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(found.pop()),
            part => found.push(part),
        }
    }
    found
}

/// The anchors of a page: its headings as GitHub makes them, and `<a id="…">`.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut in_code = false;
    for line in page.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if !in_code && title.len() < line.len() && title.starts_with(' ') {
            let anchor = anchor(title.trim());
            let mut unique = anchor.clone();
            let mut number = 0;
            while !found.insert(unique.clone()) {
                number += 1;
                unique = format!("{anchor}-{number}");
            }
        }
        for rest in line.split("<a id=\"").skip(1) {
            found.extend(rest.split('"').next().map(str::to_owned));
        }
    }
    found
}

fn anchor(title: &str) -> String {
    title
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests;
