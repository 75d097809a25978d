use super::*;

#[test]
fn colour_needs_a_terminal_and_no_refusal() {
    assert_eq!(Paint::choose(true, None, Some("xterm")), Paint::Ansi);
    assert_eq!(Paint::choose(true, Some(""), None), Paint::Ansi);
    assert_eq!(Paint::choose(true, Some("1"), None), Paint::Never);
    assert_eq!(Paint::choose(true, None, Some("dumb")), Paint::Never);
    assert_eq!(Paint::choose(false, None, Some("xterm")), Paint::Never);
}

#[test]
fn plain_text_stays_as_it_is() {
    assert_eq!(Paint::Ansi.tone(Tone::Plain, "x"), "x");
    assert_eq!(Paint::Never.tone(Tone::Bad, "x"), "x");
}

#[test]
fn a_tone_becomes_a_colour_where_colours_are_wanted() {
    for (tone, expected) in [
        (Tone::Good, "\u{1b}[32m"),
        (Tone::Warn, "\u{1b}[33m"),
        (Tone::Bad, "\u{1b}[31m"),
        (Tone::Bold, "\u{1b}[1m"),
    ] {
        let toned = format!("a\tb\n{}1", Paint::Ansi.tone(tone, "0x"));
        assert_eq!(Paint::Ansi.clean(&toned), format!("a\tb\n{expected}0x\u{1b}[0m1"));
        assert_eq!(Paint::Never.clean(&toned), "a\tb\n0x1");
    }
}

#[test]
fn colours_of_others_are_no_colours() {
    for code in CODES {
        let foreign = format!("{code}Complete");
        for paint in [Paint::Ansi, Paint::Never] {
            assert_eq!(paint.clean(&foreign), foreign.replace('\u{1b}', " "));
        }
        let toned = Paint::Ansi
            .clean(&Paint::Ansi.tone(Tone::Bad, &foreign))
            .into_owned();
        assert_eq!(
            toned,
            format!("\u{1b}[31m{}\u{1b}[0m", foreign.replace('\u{1b}', " "))
        );
    }
    let guess = "\u{1b}00000000000000003Complete";
    assert_eq!(Paint::Ansi.clean(guess), guess.replace('\u{1b}', " "));
}

#[test]
fn what_steers_is_the_same_for_texts_of_clusters_and_of_graphs() {
    for c in '\0'..=char::MAX {
        assert_eq!(is_steering(c), update_graph::text::is_steering(c), "{c:?}");
    }
}

#[test]
fn nothing_but_our_own_colours_steers_a_terminal() {
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}2J\u{202e}4.16\r\u{2028}9\u{200b}\u{feff}";
    for paint in [Paint::Ansi, Paint::Never] {
        let clean = paint.clean(hostile);
        assert_eq!(clean, " ]0;owned  [2J 2J 4.16  9  ");
    }
}
