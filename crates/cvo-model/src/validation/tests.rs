use super::*;
use clusterversion::types::{AcceptRisk, HistoryEntry, Release, Spec};

const ID: &str = "a93465d5-61b2-42cd-a10a-33840e6add93";

fn object(update: Update) -> ClusterVersion {
    let mut object = ClusterVersion::new(Spec {
        cluster_id: ID.to_owned(),
        desired_update: Some(update),
        ..Spec::default()
    });
    object.status.available_updates = vec![
        Release::new("4.14.2", "image/a"),
        Release::new("4.14.3", "image/b"),
        Release::new("4.14.3", "image/c"),
        Release::new("4.14.4", ""),
    ];
    object.status.history = vec![HistoryEntry {
        version: "4.14.1".to_owned(),
        image: "image/1".to_owned(),
        ..HistoryEntry::default()
    }];
    object
}

fn asked(version: &str, image: &str, architecture: &str) -> Update {
    Update {
        version: version.to_owned(),
        image: image.to_owned(),
        architecture: architecture.to_owned(),
        ..Update::default()
    }
}

fn accepting(update: Update) -> Update {
    Update {
        accept_risks: vec![AcceptRisk {
            name: "R".to_owned(),
            ..AcceptRisk::default()
        }],
        ..update
    }
}

#[test]
fn requests_are_refused_with_the_shipped_texts() {
    const NOT_AVAILABLE: &str = "when image is empty the update must be an available update";
    let not_available =
        |version: &str| format!("spec.desiredUpdate.version: Invalid value: {version:?}: {NOT_AVAILABLE}");
    for (update, gate, expected) in [
        (asked("", "", ""), false, "spec.desiredUpdate: Required value: must specify architecture, version, or image".to_owned()),
        (asked("", "", ""), true, "spec.desiredUpdate: Required value: must specify architecture, version, image, or acceptRisks".to_owned()),
        (asked("4.14", "", ""), false, "spec.desiredUpdate.version: Invalid value: \"4.14\": must be a semantic version (1.2.3[-...])".to_owned()),
        (asked("4.14", "image/x", ""), false, "spec.desiredUpdate.version: Invalid value: \"4.14\": must be a semantic version (1.2.3[-...])".to_owned()),
        (asked("4.0.4", "", ""), false, not_available("4.0.4")),
        (asked("4.14.4", "", ""), false, not_available("4.14.4")),
        (asked("4.14.3", "", ""), false, "spec.desiredUpdate.version: Invalid value: \"4.14.3\": there are multiple possible payloads for this version, specify the exact image".to_owned()),
        (accepting(asked("4.14.2", "", "")), false, "spec.desiredUpdate.acceptRisks: Forbidden: acceptRisks must not be specified".to_owned()),
    ] {
        let errors = validate(&object(update.clone()), gate);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected], "{update:?}");
    }
    for (update, gate) in [
        (asked("4.14.2", "", ""), false),
        (asked("4.14.1", "", ""), false),
        (asked("4.0.4", "image/x", ""), false),
        (asked("", "image/x", ""), false),
        (asked("", "", "Multi"), false),
        (accepting(asked("4.14.2", "", "")), true),
        (accepting(asked("", "", "")), true),
    ] {
        assert_eq!(validate(&object(update.clone()), gate), [], "{update:?}");
    }
}

#[test]
fn identifier_and_service_are_checked() {
    for (id, expected) in [
        (ID, None),
        ("{a93465d5-61b2-42cd-a10a-33840e6add93}", None),
        (
            "a93465d5-61b2-12cd-a10a-33840e6add93",
            Some("must be a version-4 UUID"),
        ),
        (
            "a93465d5-61b2-42cd-c10a-33840e6add93",
            Some("must be an RFC4122-variant UUID"),
        ),
        ("nobody", Some("must be an RFC4122-variant UUID")),
    ] {
        let mut object = object(asked("4.14.2", "", ""));
        object.spec.cluster_id = id.to_owned();
        let errors: Vec<String> = validate(&object, false).iter().map(ToString::to_string).collect();
        let wanted: Vec<String> = expected
            .iter()
            .map(|detail| format!("spec.clusterID: Invalid value: {id:?}: {detail}"))
            .collect();
        assert_eq!(errors, wanted);
    }
    for (upstream, valid) in [
        ("https://u", true),
        ("u.example.com/graph", true),
        ("://u", false),
        ("http://[", false),
    ] {
        let mut object = object(asked("4.14.2", "", ""));
        object.spec.upstream = upstream.to_owned();
        assert_eq!(validate(&object, false).is_empty(), valid, "{upstream}");
    }
}

#[test]
fn several_errors_are_a_list_and_what_is_invalid_is_left_out() {
    let mut object = object(asked("4.0.4", "", ""));
    object.spec.upstream = "://u".to_owned();
    let errors = validate(&object, false);
    assert_eq!(
        condition(Time::UNIX_EPOCH, &errors).unwrap().message,
        "The cluster version is invalid:\n* spec.upstream: Invalid value: \"://u\": must be a valid URL or empty\n* spec.desiredUpdate.version: Invalid value: \"4.0.4\": when image is empty the update must be an available update\n"
    );
    let left = cleared(&object, &errors);
    assert_eq!(
        (left.spec.desired_update, left.spec.upstream.as_str()),
        (None, "")
    );
    assert_eq!(condition(Time::UNIX_EPOCH, &[]), None);
}
