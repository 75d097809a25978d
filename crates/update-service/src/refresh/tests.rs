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

#[test]
fn a_directory_is_not_read_when_its_time_comes_while_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a");
    std::fs::write(&file, "1").unwrap();
    let mut of_directory = Watch::new(vec![directory.path().to_owned()]);
    assert_eq!((of_directory.rests(), of_directory.rests()), (false, true));
    std::fs::write(&file, "12").unwrap();
    assert_eq!((of_directory.rests(), of_directory.rests()), (false, true));
    assert!(Watch::new(vec![file]).rests(), "a file is whole or an error");
    assert!(Watch::new(Vec::new()).rests());
}

#[test]
fn data_that_lost_very_many_blocks_at_once_lack_a_part() {
    let data = |channels: usize, blocks: usize| {
        let channel = |n: usize| {
            (
                format!("channels/stable-4.{n}.yaml"),
                format!("name: stable-4.{n}\nversions: []\n"),
            )
        };
        let block = |n: usize| {
            (
                format!("blocked-edges/4.1.{n}.yaml"),
                format!("to: 4.1.{n}\nfrom: .*\n"),
            )
        };
        let files = (0..channels).map(channel).chain((0..blocks).map(block));
        let files = files.chain([("version".to_owned(), "1.1.0".to_owned())]);
        GraphData::from_files(files.map(|(path, text)| (path, text.into_bytes())), 1)
            .unwrap()
            .0
    };
    for (last, new, refused) in [
        ((2, 20), (2, 0), true),
        ((2, 20), (1, 1), false),
        ((2, 1), (2, 0), false),
        ((0, 0), (0, 0), false),
        ((0, 20), (0, 19), false),
    ] {
        let lost = emptied(&data(last.0, last.1), &data(new.0, new.1));
        assert_eq!(lost.is_some(), refused, "{last:?} {new:?}");
    }
}
