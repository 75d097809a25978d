//! The parser of kubectl's JSONPath: fields, slices, unions, filters, recursive descent.

use serde_json::Value;

use super::syntax::{End, Node, Slice};

pub(super) fn parse(path: &str) -> Result<Vec<Node>, String> {
    let mut parser = Parser {
        rest: path,
        nodes: Vec::new(),
    };
    parser.action()?;
    Ok(parser.nodes)
}

struct Parser<'a> {
    rest: &'a str,
    nodes: Vec<Node>,
}

/// Whether a character ends a field or identifier unless it is escaped.
fn ends_word(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}

impl<'a> Parser<'a> {
    fn action(&mut self) -> Result<(), String> {
        while let Some(c) = self.rest.chars().next() {
            if let Some(rest) = self.rest.strip_prefix("[?(") {
                self.rest = rest;
                self.filter()?;
            } else if let Some(rest) = self.rest.strip_prefix("..") {
                self.rest = rest;
                self.descend()?;
            } else {
                match c {
                    '}' => return Ok(()),
                    '\r' | '\n' => return Err("unclosed action".to_owned()),
                    ' ' | '@' | '$' => self.rest = &self.rest[1..],
                    '[' => self.brackets()?,
                    '"' | '\'' => self.quoted(c)?,
                    '.' => {
                        self.rest = &self.rest[1..];
                        self.field();
                    }
                    '+' | '-' | '0'..='9' => self.number()?,
                    c if c == '_' || c.is_alphanumeric() => self.identifier(),
                    c => {
                        return Err(format!(
                            "unrecognized character in action: U+{:04X} '{c}'",
                            u32::from(c)
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes a word up to the next terminator; a backslash takes the next character with it.
    fn word(&mut self) -> &'a str {
        let mut chars = self.rest.char_indices();
        let end = loop {
            match chars.next() {
                None => break self.rest.len(),
                Some((_, '\\')) => {
                    chars.next();
                }
                Some((at, c)) if ends_word(c) => break at,
                Some(_) => {}
            }
        };
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn field(&mut self) {
        let word = self.word();
        self.nodes.push(if word == "*" {
            Node::Wildcard
        } else {
            Node::Field(word.replace('\\', ""))
        });
    }

    fn descend(&mut self) -> Result<(), String> {
        if self.nodes.last() == Some(&Node::Recursive) {
            return Err("invalid multiple recursive descent".to_owned());
        }
        self.nodes.push(Node::Recursive);
        if self.rest.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
            self.field();
        }
        Ok(())
    }

    fn identifier(&mut self) {
        let end = self.rest.find(ends_word).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.nodes.push(match word {
            "true" => Node::Literal(true.into()),
            "false" => Node::Literal(false.into()),
            word => Node::Identifier(word.to_owned()),
        });
    }

    fn number(&mut self) -> Result<(), String> {
        let signed = usize::from(self.rest.starts_with(['+', '-']));
        let length = self.rest[signed..].find(|c: char| c != '.' && !c.is_ascii_digit());
        let (number, rest) = self
            .rest
            .split_at(length.map_or(self.rest.len(), |length| length + signed));
        self.rest = rest;
        let value = number.parse::<i64>().map(Value::from);
        let value = value.or_else(|_| number.parse::<f64>().map(Value::from));
        self.nodes.push(Node::Literal(
            value.map_err(|_| format!("cannot parse number {number}"))?,
        ));
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Result<(), String> {
        let mut escaped = false;
        let end = self.rest[1..].char_indices().find(|(_, c)| {
            let ends = *c == quote && !escaped;
            escaped = *c == '\\';
            ends
        });
        let Some((end, _)) = end else {
            return Err("unterminated quoted string".to_owned());
        };
        let text = &self.rest[1..=end];
        self.rest = &self.rest[end + 2..];
        self.nodes.push(Node::Literal(unquote(text).into()));
        Ok(())
    }

    fn brackets(&mut self) -> Result<(), String> {
        let Some((text, rest)) = self.rest[1..].split_once(']') else {
            return Err("unterminated array".to_owned());
        };
        if text.contains('\n') {
            return Err("unterminated array".to_owned());
        }
        self.rest = rest;
        let text = if text == "*" { ":" } else { text };
        if text.contains(',') {
            let parts = text
                .split(',')
                .map(|part| parse(&format!("[{}]", part.trim_matches(' '))));
            self.nodes.push(Node::Union(parts.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let key = text
            .strip_prefix('\'')
            .and_then(|text| text.strip_suffix('\''))
            .filter(|key| !key.contains('\''));
        if let Some(key) = key {
            self.nodes.extend(parse(&format!(".{key}"))?);
            return Ok(());
        }
        self.nodes.push(Node::Slice(
            slice(text).ok_or_else(|| format!("invalid array index {text}"))?,
        ));
        Ok(())
    }

    fn filter(&mut self) -> Result<(), String> {
        // A parenthesis counts only outside the first quoted text, as in client-go.
        let (mut quote, mut closed, mut previous) = (None, false, ' ');
        let end = self.rest.char_indices().find(|(_, c)| {
            let is_end = *c == ')' && quote.is_some() == closed;
            match (c, quote) {
                ('"' | '\'', None) => quote = Some(*c),
                (c, Some(q)) if *c == q && previous != '\\' => closed = true,
                _ => {}
            }
            previous = *c;
            is_end
        });
        let Some((end, _)) = end else {
            return Err("unterminated filter".to_owned());
        };
        let text = &self.rest[..end];
        let Some(rest) = self.rest[end + 1..].strip_prefix(']') else {
            return Err("unclosed array expect ]".to_owned());
        };
        self.rest = rest;
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let compare = text.find(is_operator).filter(|at| *at > 0).and_then(|at| {
            let (left, rest) = text.split_at(at);
            let length = rest.find(|c| !is_operator(c))?;
            let (operator, right) = rest.split_at(length);
            Some((left, operator, right))
        });
        self.nodes.push(match compare {
            Some((left, operator, right)) => Node::Compare {
                left: parse(left)?,
                operator: operator.to_owned(),
                right: parse(right)?,
            },
            None => Node::Exists(parse(text)?),
        });
        Ok(())
    }
}

fn slice(text: &str) -> Option<Slice> {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |part: &str| {
        if part.is_empty() {
            Some(None)
        } else {
            part.parse::<i64>().ok().map(Some)
        }
    };
    let start = number(parts[0])?;
    let (end, step) = match parts.len() {
        1 => (End::Single, None),
        2 => (number(parts[1])?.map_or(End::Open, End::At), None),
        3 => (number(parts[1])?.map_or(End::Open, End::At), number(parts[2])?),
        _ => return None,
    };
    Some(Slice { start, end, step })
}

fn unquote(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            (c, false) => out.push(c),
        }
    }
    out
}
