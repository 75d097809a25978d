use super::*;

#[test]
fn signatures_and_attestations_are_no_images() {
    for (tag, expected) in [
        ("4.14.3-x86_64", true),
        ("4.14.0-rc.1-multi", true),
        ("4.14.3", true),
        ("sha256-0123.sig", false),
        ("sha256-0123.att", false),
        ("sha256-0123", false),
        ("4.14.3-x86_64.sig", false),
        ("4.14.3-x86_64.sig2", false),
        ("latest.sbom", false),
    ] {
        assert_eq!(names_an_image(tag), expected, "{tag}");
    }
}

#[test]
fn one_architectures_part_of_a_multi_release_is_dropped() {
    let document = r#"{"kind":"cincinnati-metadata-v0","version":"4.14.3","previous":["4.14.2"],
            "metadata":{"release.openshift.io/architecture":"multi","url":"https://e"}}"#;
    let digest = Digest::of(b"x");
    let read = |arch| read_release("t", format!("quay.io/a/b@{digest}"), digest, arch, document).unwrap();
    assert!(read("amd64").is_none());
    let release = read("multi").unwrap().release;
    assert_eq!(release.arch, Arch::multi());
    assert_eq!(
        release.metadata.get_str(key::MANIFESTREF).as_deref(),
        Some(&*digest.to_string())
    );
    assert_eq!(release.metadata.get_str("url").as_deref(), Some("https://e"));
}

#[test]
fn what_cannot_be_read_is_listed_as_such_in_the_order_of_tags() {
    let trouble = |tag: &str| {
        let name = tag.to_owned();
        (
            tag.to_owned(),
            Outcome::Unreadable(Trouble {
                name,
                why: String::new(),
            }),
        )
    };
    let listing = listing(vec![
        trouble("b"),
        ("c".to_owned(), Outcome::Nothing),
        trouble("a"),
    ]);
    let names: Vec<&str> = listing
        .unreadable
        .iter()
        .map(|trouble| trouble.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert!(listing.releases.is_empty());
}
