use super::*;

fn parse(text: &str) -> Result<ReleaseList, ReleaseListError> {
    parse_list(text.as_bytes(), &Arch::amd64())
}

#[test]
fn the_architecture_is_found_wherever_it_stands() {
    let list = parse(
        r#"[{"version":"4.1.0","payload":"a"},
                {"version":"4.1.0+s390x","payload":"b","previous":["4.0.0+s390x"]},
                {"version":"4.1.0","payload":"c","arch":"arm64"},
                {"version":"4.1.0","payload":"d","metadata":{"release.openshift.io/architecture":"multi"}},
                {"version":"4.1.0","payload":"e","metadata":{"io.openshift.upgrades.graph.release.arch":"ppc64le"}}]"#,
    )
    .unwrap();
    let arches: Vec<_> = list.releases.iter().map(|r| r.arch.as_str()).collect();
    assert_eq!(arches, ["amd64", "s390x", "arm64", "multi", "ppc64le"]);
    assert_eq!(list.releases[1].previous, ["4.0.0".parse().unwrap()]);
    assert_eq!(list.releases[4].metadata.iter().count(), 0);
}

#[test]
fn the_object_form_lists_extra_edges() {
    let list = parse(r#" {"4.1.10":["4.1.0","4.1.2"],"4.2.0+s390x":["4.1.9+s390x"]}"#).unwrap();
    let edges: Vec<_> = list
        .extra
        .iter()
        .map(|e| format!("{} {} {:?}", e.from, e.to, e.arch))
        .collect();
    assert_eq!(
        edges,
        [
            "4.1.0 4.1.10 None",
            "4.1.2 4.1.10 None",
            "4.1.9 4.2.0 Some(Arch(\"s390x\"))"
        ]
    );
}

#[test]
fn another_form_is_refused() {
    for text in [
        "",
        "[",
        "[{}]",
        r#"[{"version":"4.1.0"}]"#,
        r#"{"nodes":[]}"#,
        r#"{"4.1.0":[0]}"#,
        "7",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
    let bomb = [0x1f, 0x8b, 8, 0, 0, 0];
    assert!(matches!(
        parse_list(&bomb, &Arch::amd64()),
        Err(ReleaseListError::Unpack(_))
    ));
}
