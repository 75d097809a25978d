use super::*;

fn agree(text: &str) {
    let mut tails = Tails::default();
    let real = Document::parse(text);
    for _ in 0..2 {
        match (&real, tails.document(text)) {
            (Ok(real), Ok(fast)) => assert_eq!(format!("{real:?}"), format!("{fast:?}"), "{text:?}"),
            (Err(_), Err(_)) => {}
            (real, fast) => panic!("{text:?}: {real:?} against {fast:?}"),
        }
    }
}

#[test]
fn a_file_in_two_parts_means_what_it_means_as_a_whole() {
    let tail = "url: https://e/1\nname: A\nmessage: |-\n  m\nmatchingRules:\n- type: Always\n";
    for head in [
        "to: 4.1.0\nfrom: .*\n",
        "to: 4.1.0\nfrom: ^4[.](1|2)[.].*[+]s390x$\nfixedIn: 4.1.1\n",
        "to: 4.1.0 # why\nfrom: .*\n",
        "from: .*\nto: '4.1.0'\n",
        "to: 4.1\nfrom: 1e3\n",
        "to: 0x10\nfrom: 0o7\n",
        "to: 1_000\nfrom: .inf\n",
        "to: 4.1.0\nto: 4.1.0\n",
        "to: 4.1.0\nfrom:\n  .*\n",
        "to: 4.1.0\n  more\nfrom: .*\n",
        "to: 4.1.0\nfrom: .*\n# comment\n",
        "to: 4.1.0\nfrom: .*\n---\n",
        "---\nto: 4.1.0\nfrom: .*\n",
        "to: 2001-01-01\nfrom: 12:30\n",
        "to: ~\nfrom: null\n",
        "to: 4.1.0\r\nfrom: .*\r\n",
        "to: 4.1.0\nfrom: .*\n\n",
        "to: 4.1.0\nfrom: .*\n  ",
        "to: 4.1.0\nfrom: [a]\n",
        "to: .5\nfrom: -1\n",
    ] {
        agree(head);
        agree(&format!("{head}{tail}"));
        agree(&format!("{head}{tail}to: 4.1.0\n"));
        agree(&format!("{head}{tail}...\n"));
    }
    agree("to: 4.1.0\nfrom: .*");
    agree("");
    agree("[]");
}

#[test]
fn a_block_scalar_cut_off_by_the_end_of_the_file_has_no_line_break() {
    let head = "to: 4.1.0\nfrom: .*\nname: A\n";
    for (message, expected) in [
        ("|\n  a\n  b\n", "a\nb\n"),
        ("|\n  a\n  b", "a\nb"),
        ("|-\n  a\n  b", "a\nb"),
        (">\n  a\n  b", "a b"),
        ("a", "a"),
        ("'a'", "a"),
        ("\"a\\n\"", "a\n"),
    ] {
        let document = Tails::default()
            .document(&format!("{head}message: {message}"))
            .unwrap();
        assert_eq!(document.risk.message.as_deref(), Some(expected), "{message:?}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 2_000, ..Default::default() })]

    #[test]
    fn any_mapping_in_two_parts_means_what_it_means_as_a_whole(
        parts in proptest::collection::vec((0_usize..9, "[0-9a-z.^\\[\\]()|+*$\\\\?_~:#' -]{0,5}", 0_usize..6), 0..5),
    ) {
        const KEYS: [&str; 9] = ["to: ", "from: ", "fixedIn: ", "name: ", "to:", " ", "- ", "", "url: "];
        const ENDS: [&str; 6] = ["\n", "\n", "\n", "\r\n", "\n  x\n", ""];
        let text: String = parts.iter().flat_map(|(key, value, end)| [KEYS[*key], value, ENDS[*end]]).collect();
        agree(&text);
    }
}
