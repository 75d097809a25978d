use clusterversion::gates::ConfigMap;
use clusterversion::types::read_documents;
use clusterversion::updates::cluster_updates;

use super::*;

const OBJECT: &str = r#"
kind: ClusterVersion
spec: {channel: stable-4.18, clusterID: a93465d5-61b2-42cd-a10a-33840e6add93}
status:
  desired: {version: 4.18.1, image: image/1, channels: [fast-4.18, stable-4.18]}
  history: [{state: Completed, version: 4.18.1, image: image/1, startedTime: "2026-03-01T10:00:00Z"}]
  availableUpdates:
  - {version: 4.19.0, image: image/4}
  - {version: 4.18.2, image: image/2, url: "https://access.redhat.com/errata/1"}
  conditionalUpdates:
  - release: {version: 4.18.3, image: image/3}
    risks:
    - {name: Leak, message: It leaks., url: "https://e/1", matchingRules: [{type: Always}]}
    conditions:
    - {type: Recommended, status: "False", reason: Leak, message: "It leaks. https://e/1"}
  conditions:
  - {type: RetrievedUpdates, status: "True"}
  - {type: Upgradeable, status: "False", reason: AdminAckRequired, message: Kubernetes 1.32 removes APIs.}
  - {type: Progressing, status: "False", message: Cluster version is 4.18.1}
"#;

fn shown() -> ClusterUpdates {
    let object = &read_documents(OBJECT).unwrap()[0];
    let gates = ConfigMap::of([("ack-4.18-kube-1.32", "Kubernetes 1.32 removes APIs.")]);
    let acks = ConfigMap::of::<String, String>([]);
    cluster_updates(object, Some((&gates, &acks)), None)
}

#[test]
fn a_cluster_is_shown_with_what_blocks_and_what_is_recommended() {
    insta::assert_snapshot!(render(&shown(), false, None, Paint::Never));
}

#[test]
fn updates_that_are_not_recommended_come_with_reason_and_message() {
    insta::assert_snapshot!(render(&shown(), true, Some(Output::Wide), Paint::Never));
}

#[test]
fn machines_get_the_view_and_names() {
    insta::assert_snapshot!(render(&shown(), true, Some(Output::Json), Paint::Never));
    assert_eq!(
        render(&shown(), true, Some(Output::Name), Paint::Never),
        "4.19.0\n4.18.2\n4.18.3\n"
    );
    let yaml = render(&shown(), false, Some(Output::Yaml), Paint::Never);
    assert!(
        !yaml.contains("notRecommended"),
        "not asked for is not none: {yaml}"
    );
    let none = ClusterUpdates {
        not_recommended: Vec::new(),
        ..shown()
    };
    let yaml = render(&none, true, Some(Output::Yaml), Paint::Never);
    assert!(yaml.contains("notRecommended: []"), "{yaml}");
}

#[test]
fn gates_that_are_not_known_are_said_to_be_so() {
    let view = cluster_updates(&read_documents(OBJECT).unwrap()[0], None, None);
    let text = render(&view, false, None, Paint::Never);
    assert!(
        text.contains(
            "Gates to acknowledge: unknown (a ClusterVersion alone does not show them; connect to the cluster)"
        ),
        "{text}"
    );
}

#[test]
fn a_text_of_the_cluster_can_neither_steer_the_terminal_nor_leave_its_quotes() {
    let evil = OBJECT
        .replace("reason: Leak", r#"reason: "R\e[2J""#)
        .replace("name: Leak", r#"name: "Le\e[2Jak""#)
        .replace("reason: AdminAckRequired", r#"reason: "A\e[2J""#)
        .replace("channel: stable-4.18", r#"channel: "st\e[2J""#)
        .replace("version: 4.18.3", r#"version: "4.18.3\e[2J""#);
    let gates = ConfigMap::of([("ack-4.18-a'; touch pwn; '\u{1b}[2J", "Read\u{1b}[2J this.")]);
    let acks = ConfigMap::of::<String, String>([]);
    let view = cluster_updates(&read_documents(&evil).unwrap()[0], Some((&gates, &acks)), None);
    for output in [None, Some(Output::Wide), Some(Output::Name)] {
        let text = render(&view, true, output, Paint::Never);
        let steering = text.chars().find(|char| char.is_control() && *char != '\n');
        assert_eq!(steering, None, "{text:?}");
    }
    let text = render(&view, true, None, Paint::Never);
    assert!(
        text.contains(r#"-p '{"data":{"ack-4.18-a'\''; touch pwn; '\''\u001b[2J":"true"}}'"#),
        "{text}"
    );
}

#[test]
fn json_for_a_shell_is_one_word_and_the_same_json() {
    let value = json!({"image": "x'; touch pwn; '\u{9b}2J\u{1b}\u{202e}"});
    let word = quoted_json(&value);
    assert_eq!(
        word,
        r#"'{"image":"x'\''; touch pwn; '\''\u009b2J\u001b\u202e"}'"#
    );
    let inside = word[1..word.len() - 1].replace(r"'\''", "'");
    assert_eq!(serde_json::from_str::<Value>(&inside).unwrap(), value);
}
