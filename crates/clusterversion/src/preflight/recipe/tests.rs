use super::*;

fn risk(name: &str, applies: Option<bool>) -> OfferedRisk {
    OfferedRisk {
        name: name.to_owned(),
        message: "It leaks.".to_owned(),
        applies,
    }
}

#[test]
fn an_offer_is_read_from_its_lines() {
    let image = |image: &str| image.to_owned();
    for (lines, expected) in [
        (&[][..], Offer::NotListed),
        (&["listed a"][..], Offer::Recommended { image: image("") }),
        (&["listed a", "listed b"][..], Offer::Ambiguous),
        (
            &["update True a", "risk F Leak It leaks."][..],
            Offer::Recommended { image: image("a") },
        ),
        (
            &["listed a", "update True a"][..],
            Offer::Recommended { image: image("") },
        ),
        (
            &["listed a", "update True a", "risk F Leak It leaks."][..],
            Offer::Cleared {
                risks: vec![image("Leak")],
            },
        ),
        (&["listed b", "update True a"][..], Offer::Ambiguous),
        (&["update False a", "update False b"][..], Offer::Ambiguous),
        (
            &[
                "update False a",
                "risk T Leak It leaks.",
                "risk U Odd It leaks.",
                "risk F No It leaks.",
            ][..],
            Offer::Conditional {
                image: image("a"),
                risks: vec![
                    risk("Leak", Some(true)),
                    risk("Odd", None),
                    risk("No", Some(false)),
                ],
            },
        ),
        (
            &["update  a"][..],
            Offer::Conditional {
                image: image("a"),
                risks: Vec::new(),
            },
        ),
    ] {
        let message = [&["offer/1"], lines].concat().join("\n");
        assert_eq!(read_offer(&message), Ok(expected), "{message}");
    }
}

#[test]
fn what_is_no_answer_is_never_an_offer_and_no_list_of_gates() {
    for message in ["", "no such key: status", "keys/1", "offer/1\nhello", "offer/2"] {
        assert!(read_offer(message).is_err(), "{message}");
    }
    for message in [
        "",
        "no such key: data",
        "offer/1",
        "keys/1\nhello",
        "keys/1\nkey ack-4.19-a\nmore",
    ] {
        assert!(read_gates(message, None).is_err(), "{message}");
        assert!(read_gates("keys/1", Some(message)).is_err(), "{message}");
        assert!(read_all_gates(message).is_err(), "{message}");
    }
}

#[test]
fn gates_that_are_acknowledged_do_not_count() {
    let gates = "keys/1\nkey ack-4.19-a An API goes.\nkey ack-4.19-b Two.";
    let keys = |acks| -> Vec<String> {
        let gates = read_gates(gates, acks).unwrap();
        gates
            .into_iter()
            .map(|gate| format!("{}: {}", gate.key, gate.text))
            .collect()
    };
    assert_eq!(keys(None), ["ack-4.19-a: An API goes.", "ack-4.19-b: Two."]);
    assert_eq!(keys(Some("keys/1\nkey ack-4.19-a")), ["ack-4.19-b: Two."]);
    assert_eq!(keys(Some("keys/1")).len(), 2);
    assert_eq!(read_all_gates(gates).unwrap().len(), 2);
}

#[test]
fn the_text_of_a_gate_is_known_by_what_is_told_of_it() {
    let long = format!("An API goes.\nRead: {}", "x".repeat(MAX_TEXT));
    let told: String = long.replace('\n', " ").chars().take(MAX_TEXT).collect();
    let gates = read_all_gates(&format!("keys/1\nkey ack-4.23-a {told}\nkey ack-4.23-b Two.")).unwrap();
    assert!(is_text_of(&long, &gates[0]) && is_text_of("Two.", &gates[1]));
    for other in ["", "Two", "Two. Three.", "An API goes."] {
        assert!(!gates.iter().any(|gate| is_text_of(other, gate)), "{other}");
    }
}

#[test]
fn a_huge_answer_is_cut_and_no_risk_is_left_out() {
    let offer = |risks: usize| {
        let risks: Vec<String> = (0..risks)
            .map(|number| format!("risk T R{number} {}", "x".repeat(2000)))
            .collect();
        read_offer(&format!("offer/1\nupdate False a\n{}", risks.join("\n")))
    };
    let Ok(Offer::Conditional { risks, .. }) = offer(MAX_RISKS) else {
        unreachable!()
    };
    assert!(risks.iter().all(|risk| risk.message.len() == MAX_TEXT));
    let Err(Missing::Unsupported(text)) = offer(MAX_RISKS + 1) else {
        unreachable!()
    };
    assert!(text.contains("more than 64 risks"), "{text}");
    let Err(Missing::Unsupported(text)) = read_offer(&"x".repeat(100_000)) else {
        unreachable!()
    };
    assert!(text.len() < 400);
}

#[test]
fn only_the_gates_of_the_release_lines_before_the_target_are_asked_for() {
    for (target, prefixes, all) in [
        ("4.20.4", &["ack-4.19-"][..], "ack-4.19-"),
        ("5.0.1", &["ack-4.22-", "ack-4.23-"], "ack-4."),
        ("5.1.0", &["ack-5.0-"], "ack-5.0-"),
        ("6.0.0", &["ack-5."], "ack-5."),
    ] {
        assert_eq!(gate_prefixes(target).unwrap(), prefixes);
        assert_eq!(gate_prefix(target).as_deref(), Some(all));
        for rule in [gates_rule(target).unwrap(), acks_rule(target).unwrap()] {
            let asked = |prefix: &&str| rule.message.contains(&format!("startsWith(\"{prefix}\")"));
            assert!(prefixes.iter().all(asked), "{}", rule.message);
        }
    }
    assert_eq!(gate_prefix("nonsense"), None);
    assert_eq!(gates_rule(""), None);
}

#[test]
fn up_to_four_keys_of_each_release_line_are_read() {
    let keys = |lines: &[&str], count: usize| -> String {
        let of = |line: &&str| -> Vec<String> {
            let keys = (0..count).map(|number| format!("\nkey {line}{number} It goes."));
            keys.collect()
        };
        format!("keys/1{}", lines.iter().flat_map(of).collect::<String>())
    };
    let all = keys(&["ack-4.22-", "ack-4.23-"], 4);
    assert_eq!(read_gates(&all, None).unwrap().len(), 8);
    assert!(read_gates(&format!("{all}\nmore"), None).is_err());
    assert!(read_gates(&keys(&["ack-4.22-", "ack-4.23-"], 5), None).is_err());
}

#[test]
fn an_agent_without_cel_tells_whether_the_version_is_offered_and_no_risk() {
    let of =
        |listed: Option<&'static str>, risky: Option<&'static str>, recommended: Option<&'static str>| {
            let values = [
                ("targetImage", listed),
                ("targetRisksImage", risky),
                ("targetRecommended", recommended),
            ];
            let values = values
                .into_iter()
                .filter_map(|(name, value)| Some((name, ReportedValue::Text(value?))));
            values.collect::<PathValues<'_>>().offer()
        };
    let recommended = |image: &str| {
        Some(Offer::Recommended {
            image: image.to_owned(),
        })
    };
    assert_eq!(of(Some("a"), None, None), recommended(""));
    assert_eq!(of(Some("a"), Some("a"), Some("True")), recommended(""));
    assert_eq!(of(None, Some("a"), Some("True")), recommended("a"));
    let risky = Some(Offer::Conditional {
        image: "a".to_owned(),
        risks: Vec::new(),
    });
    for status in [Some("Unknown"), None] {
        assert_eq!(of(None, Some("a"), status), risky);
    }
    assert_eq!(of(None, Some("a"), Some("False")), Some(Offer::NotRecommended));
    assert_eq!(of(None, None, None), None);
}

#[test]
fn a_history_is_read_as_updates_between_its_releases() {
    let message = "history/1\n4.19.3 2026-03-01T10:00:00Z 2026-03-01T11:10:00Z\n4.18.20 2026-02-01T10:00:00Z 2026-02-01T10:50:00Z\n4.18.1 2026-01-01T10:00:00Z 2026-01-01T10:40:00Z";
    let updates = read_history(message).unwrap();
    let told: Vec<String> = updates
        .iter()
        .map(|update| format!("{} {} {}", update.from, update.to, update.took.num_minutes()))
        .collect();
    // The oldest one is the installation.
    assert_eq!(told, ["4.18.20 4.19.3 70", "4.18.1 4.18.20 50"]);
    assert_eq!(read_history("history/1").unwrap(), []);
}

#[test]
fn what_is_no_history_is_not_known() {
    for message in [
        "",
        "offer/1",
        "no such key: history",
        "history/1\n4.19.3",
        "history/1\n4.19.3 yesterday today",
        "history/1\nlatest 2026-03-01T10:00:00Z 2026-03-01T11:10:00Z",
    ] {
        assert!(read_history(message).is_err(), "{message}");
    }
    let backwards = "history/1\n4.19.3 2026-03-01T11:00:00Z 2026-03-01T10:00:00Z\n4.19.2 2026-03-01T10:00:00Z 2026-03-01T11:00:00Z";
    assert_eq!(read_history(backwards).unwrap(), []);
}

#[test]
fn feature_gates_are_those_of_the_version_that_the_cluster_runs() {
    let message = "accept/1\nversion 4.22.4\nversion 4.22.2";
    for (version, expected) in [
        ("4.22.4", true),
        ("4.22.3", false),
        ("4.22.2", true),
        ("4.22", false),
        ("", false),
    ] {
        assert_eq!(read_accept(message, version), Ok(expected), "{version}");
    }
    assert_eq!(read_accept("accept/1", "4.22.4"), Ok(false));
    assert!(read_accept("version 4.22.4", "4.22.4").is_err());
}
