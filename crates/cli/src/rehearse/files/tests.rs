use super::*;

/// A hub with a secret wherever an object may contain one.
fn pages() -> Pages {
    let secret = json!({"token": "s3cr3t"});
    let upgrade = |name: &str| {
        json!({
            "metadata": {"name": name, "namespace": "team", "uid": name, "managedFields": [secret],
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "s3cr3t", "cluster.open-cluster-management.io/upgrade-uid": name}},
            "spec": {"clusterVersion": {"version": "4.14.12"}, "preUpgradeAction": {"manifestWork": secret}},
        })
    };
    let cluster = json!({
        "metadata": {"name": "c1", "labels": {"env": "prod"},
            "annotations": {"example.com/time-zone": "Asia/Tokyo", "example.com/other": "s3cr3t"}},
        "spec": {"hubAcceptsClient": true, "managedClusterClientConfigs": [secret]},
        "status": {
            "clusterClaims": [{"name": "version.openshift.io", "value": "4.14.9"}, {"name": "tz.example.com", "value": "Asia/Tokyo"}, {"name": "other", "value": "s3cr3t"}],
            "conditions": [{"type": "ManagedClusterConditionAvailable", "status": "True"}, {"type": "Other", "message": "s3cr3t"}],
        },
    });
    let work = json!({
        "metadata": {"name": "c1-cluster-upgrade", "namespace": "c1", "uid": "w"},
        "spec": {"workload": {"manifests": [secret]}}, "status": {"conditions": []},
    });
    let mut pages = Pages::default();
    for kind in ListKind::ALL {
        let items = match kind {
            ListKind::Upgrades => vec![upgrade("autumn"), upgrade("spring")],
            ListKind::Clusters => vec![cluster.clone()],
            ListKind::Works => vec![work.clone()],
            _ => Vec::new(),
        };
        pages.push(kind, json!({"items": items}).to_string());
    }
    pages
}

fn time() -> DateTime<Utc> {
    "2026-05-28T10:15:00Z".parse().unwrap()
}

#[test]
fn a_saved_directory_has_what_planning_reads_and_no_secret_of_others() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(
        save(
            directory.path(),
            &pages(),
            time(),
            ("team", "nothing"),
            "# durations\n"
        ),
        Ok(0)
    );
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let file = entry.unwrap().path();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("s3cr3t"), "{}: {text}", file.display());
    }
    let (about, loaded) = load(directory.path()).unwrap();
    assert_eq!((about.read_at, about.namespace.as_str()), (time(), "team"));
    assert_eq!(
        about.without_actions.into_iter().collect::<Vec<_>>(),
        ["team/autumn", "team/spring"]
    );
    let lists = loaded.lists().unwrap();
    let status = lists.clusters[0].status.good().unwrap();
    assert_eq!(status.claim("version.openshift.io"), Some("4.14.9"));
    // By these its maintenance windows are read.
    assert_eq!(status.claim("tz.example.com"), Some("Asia/Tokyo"));
    let annotations = lists.clusters[0].metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["example.com/time-zone"], "Asia/Tokyo");
    assert_eq!(lists.works[0].metadata.uid.as_deref(), Some("w"));
    assert_eq!(
        loaded.upgrade("team", "spring").unwrap()["metadata"]["annotations"]["cluster.open-cluster-management.io/upgrade-uid"],
        "spring"
    );
}

#[test]
fn the_rehearsed_upgrade_keeps_its_actions() {
    let directory = tempfile::tempdir().unwrap();
    save(directory.path(), &pages(), time(), ("team", "spring"), "").unwrap();
    let (about, loaded) = load(directory.path()).unwrap();
    assert_eq!(
        about.without_actions.into_iter().collect::<Vec<_>>(),
        ["team/autumn"]
    );
    let has_action = |name| !loaded.upgrade("team", name).unwrap()["spec"]["preUpgradeAction"].is_null();
    assert!(has_action("spring") && !has_action("autumn"));
}

#[test]
fn nothing_is_saved_over_other_files() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(check_target(&directory.path().join("new")), Ok(()));
    assert_eq!(check_target(directory.path()), Ok(()));
    std::fs::write(directory.path().join("notes"), "").unwrap();
    let error = check_target(directory.path()).unwrap_err().to_string();
    assert!(
        error.contains("the directory is not empty; choose another one"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_missing_or_no_list_is_named() {
    let directory = tempfile::tempdir().unwrap();
    save(directory.path(), &pages(), time(), ("team", "spring"), "").unwrap();
    std::fs::write(directory.path().join("placements.json"), "{}").unwrap();
    let error = load(directory.path()).unwrap_err().to_string();
    assert!(
        error.contains("placements.json cannot be read: it has no items"),
        "{error}"
    );
    std::fs::remove_file(directory.path().join("placements.json")).unwrap();
    let error = load(directory.path()).unwrap_err().to_string();
    assert!(error.contains("placements.json: "), "{error}");
}

/// What is said about a directory in which one file has this text.
fn refused(file: &str, text: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    save(directory.path(), &pages(), time(), ("team", "spring"), "").unwrap();
    std::fs::write(directory.path().join(file), text).unwrap();
    load(directory.path()).unwrap_err().to_string()
}

#[test]
fn a_list_of_another_kind_is_refused_with_the_kind_found_and_the_one_expected() {
    let pods = json!({"kind": "PodList", "items": []}).to_string();
    let error = refused("placements.json", &pods);
    assert!(
        error.contains(
            "placements.json cannot be read: its kind is \"PodList\" instead of PlacementList or List"
        ),
        "{error}"
    );
    let mixed = json!({"kind": "List", "items": [{"kind": "Placement"}, {"kind": "Pod"}]}).to_string();
    let error = refused("placements.json", &mixed);
    assert!(
        error.contains("placements.json cannot be read: it contains a \"Pod\" instead of only Placement"),
        "{error}"
    );
    for kind in ListKind::ALL {
        let file = file_of(kind);
        assert!(refused(&file, &pods).contains(&file), "{file}");
        let own = json!({"kind": format!("{}List", kind.kind()), "items": [{"kind": kind.kind()}]});
        assert_eq!(Kinds::check(&own.to_string(), kind), Ok(()));
    }
}

#[test]
fn a_directory_with_an_impossible_time_or_namespace_is_refused() {
    for time in [
        "9999-12-31T23:59:59Z",
        "+12000-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z",
        "today",
    ] {
        let error = refused(ABOUT, &json!({"readAt": time, "namespace": "team"}).to_string());
        let expected = format!(
            "readAt must be a time of the years 2000 to 2199, such as 2026-05-28T10:15:00Z, and not {time:?}"
        );
        assert!(error.contains(&expected), "{error}");
    }
    let about = json!({"readAt": time(), "namespace": "team\u{1b}[2J\nResult: Completes"});
    let error = refused(ABOUT, &about.to_string());
    assert!(error.contains("is not a namespace"), "{error}");
    assert!(!error.contains(['\u{1b}', '\n']), "{error}");
}

#[test]
fn files_have_a_largest_size() {
    let limit = format!("the file is larger than {} MiB", MAX_FILE >> 20);
    assert_eq!(read_text(std::io::repeat(b'a'), MAX_FILE), Err(limit.clone()));
    let directory = tempfile::tempdir().unwrap();
    save(directory.path(), &pages(), time(), ("team", "spring"), "").unwrap();
    let grow = |file: &str, size| {
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(directory.path().join(file))
            .unwrap();
        file.set_len(size).unwrap();
    };
    grow("managedclusters.json", MAX_LIST + 1);
    let error = load(directory.path()).unwrap_err().to_string();
    assert!(
        error.contains("managedclusters.json: the file is larger than 1024 MiB"),
        "{error}"
    );
    grow(ABOUT, MAX_FILE + 1);
    let error = load(directory.path()).unwrap_err().to_string();
    assert!(error.contains(&format!("{ABOUT}: {limit}")), "{error}");
}
