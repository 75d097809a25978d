use super::*;

fn release(version: &str, payload: &str) -> Release {
    let list = format!(r#"[{{"version": "{version}", "payload": "{payload}", "previous": ["4.1.0"]}}]"#);
    let list = update_graph::release_list::parse(list.as_bytes(), &Arch::amd64()).unwrap();
    list.releases.into_iter().next().unwrap()
}

fn listed(version: &str) -> Listed {
    Listed {
        name: version.to_owned(),
        release: release(version, &format!("p-{version}")),
    }
}

fn listing(versions: &[&str]) -> Listing {
    Listing {
        releases: versions.iter().map(|version| listed(version)).collect(),
        ..Listing::default()
    }
}

fn trouble(name: &str) -> Trouble {
    Trouble {
        name: name.to_owned(),
        why: "broken".to_owned(),
    }
}

fn everywhere(_: &Arch, _: &Version) -> bool {
    true
}

fn nowhere(_: &Arch, _: &Version) -> bool {
    false
}

fn names(keeper: &Keeper) -> Vec<String> {
    keeper
        .releases()
        .map(|release| release.version.to_string())
        .collect()
}

fn reasons(change: &Change) -> Vec<Reason> {
    change.lost.iter().map(|lost| lost.reason).collect()
}

#[test]
fn a_release_leaves_after_three_complete_listings_in_a_row_without_it() {
    let mut keeper = Keeper::in_memory("s");
    keeper.take(listing(&["4.1.1", "4.1.2"]), everywhere);
    for _ in 0..2 {
        let change = keeper.take(listing(&["4.1.2"]), everywhere);
        assert!(change.lost.is_empty());
        assert_eq!((names(&keeper).len(), keeper.retained()), (2, 1));
    }
    let change = keeper.take(listing(&["4.1.2"]), everywhere);
    assert_eq!(reasons(&change), [Reason::Unlisted]);
    assert_eq!((names(&keeper), keeper.retained()), (vec!["4.1.2".to_owned()], 0));
}

#[test]
fn listings_between_which_it_was_seen_do_not_add_up() {
    let mut keeper = Keeper::in_memory("s");
    for versions in [&["4.1.1"][..], &[], &[], &["4.1.1"], &[], &[]] {
        keeper.take(listing(versions), everywhere);
    }
    assert_eq!(names(&keeper), ["4.1.1"]);
}

#[test]
fn a_name_that_cannot_be_read_is_not_missing() {
    let mut keeper = Keeper::in_memory("s");
    keeper.take(listing(&["4.1.1"]), everywhere);
    for _ in 0..5 {
        let broken = Listing {
            unreadable: vec![trouble("4.1.1"), trouble("4.1.9")],
            ..Listing::default()
        };
        let change = keeper.take(broken, nowhere);
        assert_eq!((change.lost.len(), change.troubles.len()), (0, 2));
    }
    assert_eq!((names(&keeper), keeper.retained()), (vec!["4.1.1".to_owned()], 0));
}

#[test]
fn a_release_under_two_names_is_missing_only_when_neither_is_listed() {
    let under = |names: &[&str], unreadable: &[&str]| Listing {
        releases: names
            .iter()
            .map(|name| Listed {
                name: (*name).to_owned(),
                ..listed("4.1.1")
            })
            .collect(),
        unreadable: unreadable.iter().map(|name| trouble(name)).collect(),
        ..Listing::default()
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("releases");
    let mut keeper = Keeper::on_disk("s", &file);
    keeper.take(under(&["4.1.1", "latest"], &[]), everywhere);
    keeper.save();
    let mut keeper = Keeper::on_disk("s", &file);
    // The first name is gone; the other is there, and cannot be read.
    for _ in 0..4 {
        assert!(keeper.take(under(&[], &["latest"]), nowhere).lost.is_empty());
    }
    assert_eq!((names(&keeper).len(), keeper.retained()), (1, 0));
    // If one name can be read and another cannot, the unreadable one is not forgotten.
    keeper.take(under(&["4.1.1"], &["latest"]), everywhere);
    assert!(keeper.take(under(&[], &["latest"]), nowhere).lost.is_empty());
    // A name that points elsewhere now is.
    keeper.take(under(&["4.1.1"], &[]), everywhere);
    assert_eq!(
        reasons(&keeper.take(under(&[], &["latest"]), nowhere)),
        [Reason::NoChannel]
    );
}

#[test]
fn a_name_that_points_elsewhere_now_leaves_its_old_release_missing() {
    let mut keeper = Keeper::in_memory("s");
    keeper.take(listing(&["4.1.1"]), everywhere);
    let mut moved = listed("4.1.2");
    moved.name = "4.1.1".to_owned();
    let change = keeper.take(
        Listing {
            releases: vec![moved],
            ..Listing::default()
        },
        everywhere,
    );
    assert!(change.changed && change.lost.is_empty());
    assert_eq!(keeper.retained(), 1);
}

#[test]
fn what_is_missing_and_in_no_channel_leaves_at_once_and_what_is_listed_stays() {
    let mut keeper = Keeper::in_memory("s");
    keeper.take(listing(&["4.1.1", "4.1.2"]), nowhere);
    assert_eq!(names(&keeper).len(), 2);
    let change = keeper.take(listing(&["4.1.2"]), everywhere);
    assert!(change.lost.is_empty());
    let change = keeper.channels_changed(nowhere);
    assert_eq!(reasons(&change), [Reason::NoChannel]);
    assert_eq!(names(&keeper), ["4.1.2"]);
}

#[test]
fn what_is_missing_and_marked_removed_leaves_at_once() {
    let mut keeper = Keeper::in_memory("s");
    let mut marked = listed("4.1.1");
    marked.release.metadata.insert_str(key::REMOVE, "true");
    let first = Listing {
        releases: vec![marked, listed("4.1.2")],
        ..Listing::default()
    };
    assert!(keeper.take(first, everywhere).lost.is_empty());
    let change = keeper.take(listing(&["4.1.2"]), everywhere);
    assert_eq!(reasons(&change), [Reason::Removed]);
}

#[test]
fn the_same_listing_again_counts_as_a_listing() {
    let mut keeper = Keeper::in_memory("s");
    keeper.take(listing(&["4.1.1", "4.1.2"]), everywhere);
    keeper.take(listing(&["4.1.2"]), everywhere);
    assert!(!keeper.again(everywhere).changed);
    assert_eq!(reasons(&keeper.again(everywhere)), [Reason::Unlisted]);
}

#[test]
fn a_restart_forgets_neither_releases_nor_what_they_missed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("releases");
    let mut keeper = Keeper::on_disk("s", &file);
    keeper.take(listing(&["4.1.1", "4.1.2"]), everywhere);
    keeper.take(listing(&["4.1.2"]), everywhere);
    keeper.take(listing(&["4.1.2"]), everywhere);
    keeper.save();
    let before = keeper.known.clone();

    let mut keeper = Keeper::on_disk("s", &file);
    assert_eq!(keeper.known, before);
    assert_eq!(
        reasons(&keeper.take(listing(&["4.1.2"]), everywhere)),
        [Reason::Unlisted]
    );

    // A file about another source is ignored.
    assert!(names(&Keeper::on_disk("t", &file)).is_empty());
    std::fs::write(&file, "garbage").unwrap();
    assert!(names(&Keeper::on_disk("s", &file)).is_empty());
}

#[test]
fn of_two_payloads_for_one_release_the_known_one_stays() {
    let mut keeper = Keeper::in_memory("s");
    let other = || Listed {
        name: "other".to_owned(),
        release: release("4.1.1", "q"),
    };
    let change = keeper.take(
        Listing {
            releases: vec![listed("4.1.1"), other()],
            ..Listing::default()
        },
        everywhere,
    );
    assert_eq!(change.troubles.len(), 1);
    assert!(change.troubles[0].why.contains("4.1.1"), "{:?}", change.troubles);
    assert_eq!(keeper.releases().next().unwrap().payload, "p-4.1.1");
    // Also if the other is listed first.
    let turned = Listing {
        releases: vec![other(), listed("4.1.1")],
        ..Listing::default()
    };
    assert_eq!(keeper.take(turned, everywhere).troubles[0].name, "other");
    assert_eq!(keeper.releases().next().unwrap().payload, "p-4.1.1");
    // Alone it is a rebuilt release.
    let alone = Listing {
        releases: vec![other()],
        ..Listing::default()
    };
    assert!(keeper.take(alone, everywhere).changed);
    assert_eq!(keeper.releases().next().unwrap().payload, "q");
}

#[test]
fn one_release_in_two_lists_has_the_edges_of_both() {
    let mut keeper = Keeper::in_memory("s");
    let mut more = listed("4.1.1");
    more.release.previous = vec!["4.0.9".parse().unwrap(), "4.1.0".parse().unwrap()];
    let both = Listing {
        releases: vec![listed("4.1.1"), more],
        ..Listing::default()
    };
    assert!(keeper.take(both, everywhere).troubles.is_empty());
    let release = keeper.releases().next().unwrap();
    let previous: Vec<String> = release.previous.iter().map(ToString::to_string).collect();
    assert_eq!(previous, ["4.1.0", "4.0.9"]);
}

#[test]
fn nothing_new_is_no_change() {
    let mut keeper = Keeper::in_memory("s");
    assert!(keeper.take(listing(&["4.1.1"]), everywhere).changed);
    assert!(!keeper.take(listing(&["4.1.1"]), everywhere).changed);
}
