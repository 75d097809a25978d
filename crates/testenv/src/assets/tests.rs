use super::*;
use std::os::unix::fs::PermissionsExt;

fn fake_etcd(dir: &Path, version: &str) {
    let path = dir.join("etcd");
    std::fs::write(&path, format!("#!/bin/sh\necho 'etcd Version: {version}'\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn the_first_fitting_binary_wins_and_a_wrong_version_is_skipped_with_its_reason() {
    let (old, good, later) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    fake_etcd(old.path(), "3.5.21");
    fake_etcd(good.path(), "3.6.1");
    fake_etcd(later.path(), "3.6.9");
    let pin = Pin::read(Tool::Etcd, &hub_tools()).unwrap();
    let dirs = [&old, &good, &later].map(|dir| dir.path().to_path_buf());
    let mut skipped = Vec::new();
    let found = first_fitting(&pin, dirs.into_iter(), &mut skipped).await;
    assert_eq!(found, Some(good.path().join("etcd")));
    assert_eq!(
        skipped,
        [format!("{} is 3.5.21", old.path().join("etcd").display())]
    );
}

#[tokio::test]
async fn a_binary_that_does_not_tell_its_version_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    fake_etcd(dir.path(), "unknown");
    let pin = Pin::read(Tool::Etcd, &hub_tools()).unwrap();
    let mut skipped = Vec::new();
    let found = first_fitting(&pin, std::iter::once(dir.path().to_path_buf()), &mut skipped).await;
    assert_eq!(found, None);
    assert!(skipped[0].contains("no version"), "{skipped:?}");
}

#[test]
fn the_message_about_a_missing_toolchain_is_one_line_with_remedy_and_reasons() {
    let pin = Pin::read(Tool::Kubectl, &hub_tools()).unwrap();
    let why = anyhow::anyhow!("no go in PATH");
    let message = no_toolchain(&pin, &["/usr/bin/kubectl is 1.32.4".to_owned()], &why).to_string();
    assert!(message.contains("install Go 1.26"), "{message}");
    assert!(message.contains("KUBEBUILDER_ASSETS"), "{message}");
    assert!(message.contains("/usr/bin/kubectl is 1.32.4"), "{message}");
    assert_eq!(message.lines().count(), 1);
}

#[test]
fn the_assets_directory_holds_a_link_to_every_binary() {
    let (tools, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cache = ToolCache::at(cache.path()).unwrap();
    fake_etcd(tools.path(), "3.6.1");
    let paths = BTreeMap::from([(Tool::Etcd, tools.path().join("etcd"))]);
    let dir = link_together(&cache, &paths).unwrap();
    assert_eq!(
        std::fs::read_link(dir.join("etcd")).unwrap(),
        tools.path().join("etcd")
    );
    assert_eq!(link_together(&cache, &paths).unwrap(), dir, "stable");
}
