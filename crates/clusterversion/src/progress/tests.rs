use super::*;

const IMAGE: &str = "quay.io/openshift-release-dev/ocp-release@sha256:aaaa";
const OTHER_IMAGE: &str = "quay.io/openshift-release-dev/ocp-release@sha256:bbbb";
const VERSION: Target<'_> = Target {
    version: "4.12.0",
    image: "",
};
const BY_IMAGE: Target<'_> = Target {
    version: "",
    image: IMAGE,
};
const BOTH: Target<'_> = Target {
    version: "4.12.0",
    image: IMAGE,
};

fn entry(version: &'static str, state: &'static str) -> Feedback<'static> {
    Feedback {
        version: Some(version),
        state: Some(state),
        ..Feedback::default()
    }
}

#[test]
fn the_newest_entry_decides() {
    let cases = [
        (Feedback::default(), Progress::NotYet),
        (
            entry("4.11.9", "Completed"),
            Progress::Other { version: "4.11.9" },
        ),
        (entry("4.11.9", "Partial"), Progress::Other { version: "4.11.9" }),
        (entry("4.12.0", "Partial"), Progress::Partial),
        (entry("4.12.0", "Completed"), Progress::Completed),
        (entry("4.12.0", "Finished"), Progress::NotYet),
        (entry("", "Partial"), Progress::NotYet),
        (
            Feedback {
                state: None,
                ..entry("4.12.0", "")
            },
            Progress::NotYet,
        ),
        (
            Feedback {
                version: None,
                ..entry("", "Completed")
            },
            Progress::NotYet,
        ),
    ];
    for (feedback, expected) in cases {
        assert_eq!(progress(&feedback, &VERSION, true), expected, "{feedback:?}");
    }
}

#[test]
fn what_is_stale_is_neither_success_nor_another_version() {
    let done = entry("4.12.0", "Completed");
    let old = entry("4.11.9", "Completed");
    assert_eq!(progress(&done, &VERSION, false), Progress::NotYet);
    assert_eq!(progress(&old, &VERSION, false), Progress::NotYet);
    for feedback in [done, old] {
        let lagging = Feedback {
            generation: Some(5),
            observed_generation: Some(4),
            ..feedback
        };
        assert_eq!(progress(&lagging, &VERSION, true), Progress::NotYet);
        let one_sided = Feedback {
            generation: Some(5),
            ..feedback
        };
        assert_ne!(progress(&one_sided, &VERSION, true), Progress::NotYet);
    }
    let retargeted = Feedback {
        desired_version: Some("4.13.0"),
        ..done
    };
    assert_eq!(progress(&retargeted, &VERSION, true), Progress::NotYet);
    let on_its_way = Feedback {
        desired_version: Some("4.12.0"),
        ..old
    };
    assert_eq!(progress(&on_its_way, &VERSION, true), Progress::NotYet);
}

#[test]
fn agreeing_values_do_not_make_feedback_stale() {
    let done = Feedback {
        desired_version: Some("4.12.0"),
        generation: Some(5),
        observed_generation: Some(5),
        image: Some(OTHER_IMAGE),
        ..entry("4.12.0", "Completed")
    };
    assert_eq!(progress(&done, &VERSION, true), Progress::Completed);
    let moved_on = Feedback {
        desired_version: Some("4.13.0"),
        ..entry("4.13.0", "Partial")
    };
    assert_eq!(
        progress(&moved_on, &VERSION, true),
        Progress::Other { version: "4.13.0" }
    );
}

#[test]
fn a_target_given_by_image_alone_is_compared_by_image() {
    let loading = Feedback {
        image: Some(IMAGE),
        ..entry("", "Partial")
    };
    let done = Feedback {
        image: Some(IMAGE),
        desired_version: Some("4.12.0"),
        ..entry("4.12.0", "Completed")
    };
    let other = Feedback {
        image: Some(OTHER_IMAGE),
        ..entry("4.12.0", "Completed")
    };
    assert_eq!(progress(&loading, &BY_IMAGE, true), Progress::Partial);
    assert_eq!(progress(&done, &BY_IMAGE, true), Progress::Completed);
    assert_eq!(
        progress(&other, &BY_IMAGE, true),
        Progress::Other { version: "4.12.0" }
    );
    let blind = entry("4.12.0", "Completed");
    assert_eq!(progress(&blind, &BY_IMAGE, true), Progress::NotYet);
}

#[test]
fn a_target_given_by_version_and_image_needs_both_where_both_are_reported() {
    let with = |version, image, state| Feedback {
        image,
        ..entry(version, state)
    };
    let cases = [
        (with("4.12.0", Some(IMAGE), "Completed"), Progress::Completed),
        (with("4.12.0", None, "Completed"), Progress::Completed),
        (
            with("4.12.0", Some(OTHER_IMAGE), "Completed"),
            Progress::Other { version: "4.12.0" },
        ),
        (with("", Some(IMAGE), "Partial"), Progress::Partial),
        (with("", Some(IMAGE), "Completed"), Progress::NotYet),
        (with("", Some(OTHER_IMAGE), "Partial"), Progress::NotYet),
    ];
    for (feedback, expected) in cases {
        assert_eq!(progress(&feedback, &BOTH, true), expected, "{feedback:?}");
    }
}

#[test]
fn an_empty_target_is_never_reached() {
    assert_eq!(
        progress(&entry("4.12.0", "Completed"), &Target::default(), true),
        Progress::NotYet
    );
}

#[test]
fn only_a_spec_without_a_request_that_was_evaluated_shows_that_nothing_is_asked() {
    let unasked = Feedback {
        desired_version: Some("4.11.9"),
        generation: Some(3),
        observed_generation: Some(3),
        ..entry("4.11.9", "Completed")
    };
    assert!(is_unasked(&unasked, &VERSION, true));
    assert!(
        !is_unasked(&unasked, &VERSION, false),
        "of an earlier generation of the work"
    );
    let accepted = Feedback {
        version: Some("4.12.0"),
        desired_version: Some("4.12.0"),
        state: Some("Partial"),
        ..unasked
    };
    let unknown = Feedback {
        observed_generation: None,
        ..unasked
    };
    let behind = Feedback {
        observed_generation: Some(2),
        ..unasked
    };
    let asked = Feedback {
        requested_version: Some("4.12.0"),
        ..unasked
    };
    let asked_by_image = Feedback {
        requested_image: Some(IMAGE),
        ..unasked
    };
    for other in [accepted, unknown, behind, asked, asked_by_image] {
        assert!(!is_unasked(&other, &VERSION, true), "{other:?}");
    }
}
