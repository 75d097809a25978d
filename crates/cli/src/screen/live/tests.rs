use super::*;

use std::num::NonZeroU16;

const SMALL: Size = Size {
    columns: 20,
    lines: 4,
};

/// A terminal that has shown these frames.
fn terminal(size: Size) -> vt100::Parser {
    let number = |number: usize| NonZeroU16::new(number.try_into().unwrap()).unwrap();
    vt100::Parser::new(number(size.lines), number(size.columns), 0)
}

fn shown(terminal: &vt100::Parser) -> String {
    terminal.screen().contents().trim_end().to_owned()
}

#[test]
fn a_terminal_shows_the_last_frame_whatever_came_before() {
    let (mut frames, mut terminal) = (Frames::default(), terminal(SMALL));
    for text in [
        "one\ntwo\nthree\n",
        "one\nTWO and more\nthree\n",
        "one\n",
        "",
        "a\n\nc\n",
    ] {
        terminal.process(frames.next(text, SMALL).as_bytes());
        assert_eq!(shown(&terminal), text.trim_end(), "{text:?}");
    }
}

#[test]
fn only_lines_that_changed_are_written_and_as_one_update() {
    let mut frames = Frames::default();
    let _ = frames.next("one\ntwo\nthree\n", SMALL);
    assert_eq!(
        frames.next("one\nTWO\nthree\n", SMALL),
        "\u{1b}[?2026h\u{1b}[2;1H\u{1b}[KTWO\u{1b}[?2026l"
    );
    assert_eq!(frames.next("one\nTWO\nthree\n", SMALL), "");
}

#[test]
fn lines_are_cut_at_the_width_and_the_text_at_the_height() {
    let (mut frames, mut terminal) = (Frames::default(), terminal(SMALL));
    let text = "a line that is longer than the terminal\n\u{30af}\u{30e9}\u{30b9}\u{30bf}\u{30af}\u{30e9}\u{30b9}\u{30bf}\u{30af}\u{30e9}\u{30b9}\n3\n4\n5\n";
    terminal.process(frames.next(text, SMALL).as_bytes());
    let lines: Vec<String> = shown(&terminal).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0], "a line that is longe");
    assert_eq!(lines[1].chars().count(), 10, "a wide character takes two columns");
    assert_eq!(lines[3], "4");
}

#[test]
fn a_resized_terminal_is_drawn_anew() {
    let (mut frames, mut terminal) = (Frames::default(), terminal(SMALL));
    let text = "a line that is longer than the terminal\nsecond\n";
    terminal.process(frames.next(text, SMALL).as_bytes());
    let wide = Size {
        columns: 30,
        lines: 10,
    };
    let number = |number: u16| NonZeroU16::new(number).unwrap();
    terminal.screen_mut().set_size(number(10), number(30));
    terminal.process(frames.next(text, wide).as_bytes());
    assert_eq!(shown(&terminal), "a line that is longer than the\nsecond");
}

#[test]
fn a_colour_ends_where_its_line_is_cut() {
    let bad = "\u{1b}[31m";
    assert_eq!(
        cut(&format!("ab{bad}cdef{PLAIN}"), 4),
        format!("ab{bad}cd{PLAIN}")
    );
    assert_eq!(cut("abcdef", 4), "abcd");
}
