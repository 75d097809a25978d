//! Tables as kubectl prints them: upper-case headers, three spaces between columns, no borders, no trailing spaces.

use std::fmt::Write as _;

use api::text::visible;

use crate::paint::{Paint, Tone};

const GAP: usize = 3;
/// Minimum width of a column, including its gap.
const NARROWEST: usize = 6;

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell with a tone.
    #[must_use]
    pub fn toned(tone: Tone, text: impl Into<String>) -> Cell {
        let text: String = text.into();
        Cell {
            text: one_line(&text),
            tone,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::toned(Tone::Plain, text)
    }
}

/// The text on one line without control characters, so that a message can neither break a table nor control the terminal.
#[must_use]
pub fn one_line(text: &str) -> String {
    visible(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// One line per item.
pub fn lines(items: impl IntoIterator<Item: std::fmt::Display>) -> String {
    let mut text = String::new();
    for item in items {
        let _ = writeln!(text, "{item}");
    }
    text
}

/// The text, or `<none>` if it is empty.
#[must_use]
pub fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}

/// Rows below headers. A row may have fewer cells than there are headers.
#[derive(Clone, Debug, Default)]
pub struct Table {
    headers: Vec<String>,
    rows: Vec<Vec<Cell>>,
    widths: Vec<usize>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(headers: &[&str]) -> Table {
        Table {
            headers: headers.iter().map(|header| (*header).to_owned()).collect(),
            rows: Vec::new(),
            widths: headers.iter().map(|header| width(header)).collect(),
        }
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<Cell>) {
        for (column, cell) in self.widths.iter_mut().zip(&row) {
            *column = (*column).max(width(&cell.text));
        }
        self.rows.push(row);
    }

    /// Adds a line that belongs to no column.
    pub fn title(&mut self, text: impl Into<String>) {
        self.rows.push(vec![Cell::from(text)]);
    }

    /// Makes the columns at least as wide as those of an earlier table, and remembers their widths for the next one.
    pub fn keep_widths(&mut self, widths: &mut Vec<usize>) {
        widths.resize(self.widths.len(), 0);
        for (own, kept) in self.widths.iter_mut().zip(widths) {
            *own = (*own).max(*kept);
            *kept = *own;
        }
    }

    /// True if the table has no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text. Each line begins with `indent` spaces and ends with a newline.
    #[must_use]
    pub fn render(&self, paint: Paint, indent: usize) -> String {
        let headers: Vec<Cell> = self
            .headers
            .iter()
            .map(|header| Cell::from(header.as_str()))
            .collect();
        let mut text = self.line(&headers, paint, indent);
        for row in &self.rows {
            text.push_str(&self.line(row, paint, indent));
        }
        text
    }

    fn line(&self, row: &[Cell], paint: Paint, indent: usize) -> String {
        let mut line = " ".repeat(indent);
        let last = row.iter().rposition(|cell| !cell.text.is_empty());
        for (index, (cell, column)) in row.iter().zip(&self.widths).enumerate() {
            line.push_str(&paint.tone(cell.tone, &cell.text));
            match last {
                Some(last) if index < last => {
                    let room = (column + GAP).max(NARROWEST);
                    line.push_str(&" ".repeat(room - width(&cell.text)));
                }
                _ => break,
            }
        }
        line.push('\n');
        line
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_three_spaces_apart_and_lines_end_without_spaces() {
        let mut table = Table::new(&["NAME", "N", "REASON"]);
        table.push(vec!["a-long-name".into(), "1".into(), "Because".into()]);
        table.push(vec!["b".into(), Cell::toned(Tone::Bad, "22"), "".into()]);
        assert_eq!(
            table.render(Paint::Never, 0),
            "NAME          N     REASON\na-long-name   1     Because\nb             22\n"
        );
        assert!(
            Paint::Ansi
                .clean(&table.render(Paint::Ansi, 2))
                .contains("  b             \u{1b}[31m22\u{1b}[0m\n")
        );
    }

    #[test]
    fn a_message_can_neither_break_lines_nor_steer_the_terminal() {
        assert_eq!(one_line("a\nb\t\u{1b}[2Jc"), "a b [2Jc");
        assert_eq!(one_line("\u{202e}4.16\u{9b}9"), "4.16 9");
    }
}
