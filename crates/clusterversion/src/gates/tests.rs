use super::*;

const A: Era = Era::new(4, 12);
const C: Era = Era::new(5, 0);

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn a_gate_name_has_a_version_and_a_text() {
    for (name, expected) in [
        ("ack-4.8-kube-1.22-api-removals-in-4.9", Some((4, 8))),
        ("ack-4.80-x", Some((4, 80))),
        ("ack-5.0-x", Some((5, 0))),
        ("ack-4.8-", None),
        ("ack-4.8--foo", None),
        ("ack-4.x--foo", None),
        ("ack-3.8-x", None),
        ("ack-4-x", None),
        ("ack-4.-x", None),
        ("ack-14.8-x", None),
        ("nack-4.8-x", None),
        ("", None),
    ] {
        assert_eq!(gate_version(name), expected, "{name:?}");
    }
}

#[test]
fn a_gate_stands_until_it_is_acknowledged_by_exactly_true() {
    let gates = map(&[("ack-4.12-kube", "Read this.")]);
    for (value, acknowledged) in [
        (Some("true"), true),
        (Some("True"), false),
        (Some("true "), false),
        (Some("yes"), false),
        (Some(""), false),
        (None, false),
    ] {
        let acks = value
            .map(|value| map(&[("ack-4.12-kube", value)]))
            .unwrap_or_default();
        let standing = unacknowledged(&gates, &acks, "4.12.16", A);
        assert_eq!(standing.is_empty(), acknowledged, "{value:?}");
    }
}

#[test]
fn gates_apply_by_minor_version_and_later_by_major_as_well() {
    let gates = map(&[("ack-4.8-a", "A"), ("ack-4.80-b", "B"), ("ack-5.8-c", "C")]);
    let standing = |current, era| {
        let all = unacknowledged(&gates, &BTreeMap::new(), current, era);
        all.into_iter().map(|gate| gate.message).collect::<Vec<_>>()
    };
    assert_eq!(standing("4.8.3", A), ["A", "C"]);
    assert_eq!(standing("4.80.0", A), ["B"]);
    assert_eq!(standing("5.8.0", C), ["C"]);
    assert_eq!(standing("4.9.0", A), Vec::<String>::new());
    assert_eq!(standing("nightly", A), Vec::<String>::new());
}

#[test]
fn malformed_gates_are_told_with_the_shipped_text() {
    let gates = map(&[("ack-4.x--foo", "t"), ("ack-4.12-empty", "")]);
    let standing = |era| unacknowledged(&gates, &BTreeMap::new(), "4.12.1", era);
    assert_eq!(
        standing(A)
            .iter()
            .map(|gate| (gate.reason, gate.message.as_str()))
            .collect::<Vec<_>>(),
        [
            (
                "AdminAckConfigMapGateValueError",
                "admin-gates configmap gate ack-4.12-empty must contain a non-empty value."
            ),
            (
                "AdminAckConfigMapGateNameError",
                "admin-gates configmap gate name ack-4.x--foo has invalid format; must comply with \"^ack-[4-5][.]([0-9]{1,})-[^-]\"."
            ),
        ]
    );
}
