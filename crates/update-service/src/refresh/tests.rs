use super::*;

#[test]
fn a_file_has_changed_at_once_and_a_directory_when_it_has_come_to_rest() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a");
    std::fs::write(&file, "1").unwrap();
    let mut of_file = Watch::new(vec![file.clone()]);
    let mut of_directory = Watch::new(vec![directory.path().to_owned()]);
    of_file.mark();
    of_directory.mark();
    assert_eq!(
        (of_file.look(), of_directory.look()),
        ((false, false), (false, false))
    );
    for content in ["12", "123"] {
        std::fs::write(&file, content).unwrap();
        assert_eq!(
            (of_file.look(), of_directory.look()),
            ((true, false), (false, true))
        );
    }
    assert_eq!(
        (of_file.look(), of_directory.look()),
        ((true, false), (true, false))
    );
    of_file.mark();
    of_directory.mark();
    assert_eq!(
        (of_file.look(), of_directory.look()),
        ((false, false), (false, false))
    );
}

#[test]
fn nothing_to_watch_never_changes() {
    let mut watch = Watch::new(Vec::new());
    watch.mark();
    assert_eq!(watch.look(), (false, false));
}

#[test]
fn a_channel_entry_without_architecture_is_for_all() {
    let files = [
        ("version".to_owned(), b"1.1.0\n".to_vec()),
        (
            "channels/stable-4.1.yaml".to_owned(),
            b"name: stable-4.1\nversions: [4.1.0, 4.1.1+s390x]\n".to_vec(),
        ),
    ];
    let (data, _) = GraphData::from_files(files, 1).unwrap();
    let listed = Listed::of(Some(&data));
    let (amd64, s390x) = (Arch::amd64(), Arch::parse("s390x").unwrap());
    for (arch, version, expected) in [
        (&amd64, "4.1.0", true),
        (&s390x, "4.1.0", true),
        (&amd64, "4.1.1", false),
        (&s390x, "4.1.1", true),
        (&amd64, "4.1.2", false),
    ] {
        assert_eq!(
            listed.holds(arch, &version.parse().unwrap()),
            expected,
            "{version}+{arch}"
        );
    }
    assert!(Listed::of(None).holds(&amd64, &"4.1.2".parse().unwrap()));
}

#[test]
fn releases_that_are_marked_removed_go_unless_a_chain_says_otherwise() {
    let list = r#"[{"version": "4.1.0", "payload": "a"},
        {"version": "4.1.1", "payload": "b",
         "metadata": {"io.openshift.upgrades.graph.release.remove": "true"}}]"#;
    let list = update_graph::release_list::parse(list.as_bytes(), &Arch::amd64()).unwrap();
    let count = |chain: Option<Chain>| {
        build(Builder::new().list(list.clone()), chain)
            .0
            .counts(None)
            .releases
    };
    assert_eq!(count(None), 1);
    assert_eq!(count(Some(Chain::default())), 2);
}
