use super::*;
use crate::args::Cli;
use clap::Parser as _;
use std::path::Path;

async fn refused(file: &Path, context: Option<&str>, peer: Peer) -> String {
    let file = file.display().to_string();
    let mut words = vec!["kubectl-mcu", "status", "--kubeconfig", file.as_str()];
    words.extend(context.into_iter().flat_map(|context| ["--context", context]));
    let common = Cli::parse_from(words).common;
    match Connection::open(&common, peer).await {
        Ok(_) => panic!("connected"),
        Err(failure) => failure.to_string(),
    }
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_named_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name);
    let (absent, broken, empty) = (file("absent"), file("broken"), file("empty"));
    std::fs::write(&broken, "clusters: [").expect("a file");
    std::fs::write(&empty, "apiVersion: v1\nkind: Config\n").expect("a file");
    for (file, context, remedy) in [
        (&absent, None, "choose another one with --kubeconfig"),
        (&broken, None, "choose another one with --kubeconfig"),
        (&empty, Some("elsewhere"), "context \"elsewhere\" does not exist"),
    ] {
        let text = refused(file, context, Peer::Hub).await;
        assert_eq!(text.matches(file.to_str().expect("UTF-8")).count(), 1, "{text}");
        assert!(text.contains(remedy), "{text}");
    }
}

#[test]
fn files_of_the_variable_that_do_not_exist_are_skipped_and_broken_ones_are_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).expect("a file");
        dir.path().join(name)
    };
    let hub = file("hub", "current-context: one\n");
    let other = file("other", "current-context: two\n");
    let broken = file("broken", "clusters: [");
    let absent = dir.path().join("absent");
    let merged = |files: &[&std::path::PathBuf]| present(&std::env::join_paths(files).expect("paths"));
    for (files, context) in [
        ([&absent, &hub], "one"),
        ([&hub, &other], "one"),
        ([&other, &hub], "two"),
    ] {
        let merged = merged(&files).expect("it can be read").expect("a file exists");
        assert_eq!(merged.current_context.as_deref(), Some(context));
    }
    for unusable in [&broken, &dir.path().to_owned()] {
        assert!(merged(&[&hub, unusable]).is_err());
    }
    assert!(merged(&[&absent]).expect("nothing to read").is_none());
    assert!(present(OsStr::new("")).expect("nothing to read").is_none());
}

#[tokio::test]
async fn an_unreachable_server_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config");
    let text = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "a", "users": [],
            "clusters": [{"name": "hub", "cluster": {"server": "http://127.0.0.1:1"}}],
            "contexts": [{"name": "a", "context": {"cluster": "hub"}}]}"#;
    std::fs::write(&file, text).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let common = Cli::parse_from(["kubectl-mcu", "status", "--kubeconfig", file]).common;
    let connection = Connection::open(&common, Peer::Hub).await.expect("a connection");
    let request = connection.client().apiserver_version();
    let failure = connection
        .bound(request, "versions")
        .await
        .expect_err("nobody listens");
    let text = failure.to_string();
    assert!(
        text.starts_with("Unable to connect to the server: http://127.0.0.1:1"),
        "{text}"
    );
}

#[test]
fn what_is_not_configured_is_said() {
    let said = |variable, peer| unconfigured("no such file", variable, peer).to_string();
    assert_eq!(
        said(None, Peer::Cluster),
        "error: no cluster is configured (no such file); set KUBECONFIG, or use --kubeconfig"
    );
    assert_eq!(
        said(Some("a:b"), Peer::Hub),
        "error: KUBECONFIG=a:b does not configure a hub (no such file); set KUBECONFIG to another file, or use --kubeconfig"
    );
}

#[test]
fn our_crds_are_to_be_installed_and_on_hubs_only() {
    for plural in [upgrade::PLURAL, rows::PLURAL] {
        assert!(
            Peer::Hub
                .remedy(plural)
                .is_some_and(|remedy| remedy.contains("CRDs"))
        );
    }
    assert_eq!(Peer::Hub.remedy("deployments"), None);
    assert_eq!(Peer::Cluster.remedy(upgrade::PLURAL), None);
    assert_eq!(Peer::Cluster.remedy("clusterversions"), None);
}

#[test]
fn a_server_without_open_cluster_management_is_no_hub() {
    for plural in ["managedclusters", "manifestworks", "placements"] {
        assert_eq!(
            Peer::Hub.remedy(plural),
            Some("install Open Cluster Management, or use the kubeconfig of a hub")
        );
        assert_eq!(Peer::Cluster.remedy(plural), None);
    }
}

#[tokio::test]
async fn a_user_that_does_not_exist_is_an_error_and_not_nobody() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config");
    let text = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "a",
            "users": [{"name": "ann", "user": {"token": "t"}}],
            "clusters": [{"name": "hub", "cluster": {"server": "http://127.0.0.1:1"}}],
            "contexts": [{"name": "a", "context": {"cluster": "hub", "user": "ann"}}]}"#;
    std::fs::write(&file, text).expect("a file");
    let file = file.display().to_string();
    for more in [&[][..], &["--token", "t"]] {
        let open = async |user| {
            let words = ["kubectl-mcu", "status", "--kubeconfig", &file, "--user", user];
            let common = Cli::parse_from(words.iter().chain(more)).common;
            Connection::open(&common, Peer::Hub).await
        };
        assert!(open("ann").await.is_ok());
        let Err(failure) = open("bob").await else {
            panic!("connected");
        };
        assert_eq!(failure.to_string(), "error: auth info \"bob\" does not exist");
    }
}

/// The configuration that these flags give with this kubeconfig.
async fn configured(kubeconfig: &str, flags: &[&str]) -> Config {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config");
    std::fs::write(&file, kubeconfig).expect("a file");
    let file = file.display().to_string();
    let words = [&["kubectl-mcu", "status", "--kubeconfig", file.as_str()], flags].concat();
    let common = Cli::parse_from(words).common;
    config(&common, Peer::Hub).await.expect("a configuration")
}

const TWO: &str = "apiVersion: v1
kind: Config
current-context: a
clusters:
- {name: one, cluster: {server: 'https://one.example.com'}}
- {name: two, cluster: {server: 'https://two.example.com'}}
users:
- {name: ann, user: {username: ann, password: secret}}
- {name: bob, user: {token: t-bob}}
contexts:
- {name: a, context: {cluster: one, user: ann, namespace: upgrades}}
";

#[tokio::test]
async fn flags_choose_other_entries_of_the_kubeconfig() {
    let found = configured(TWO, &["--cluster", "two", "--user", "bob"]).await;
    assert_eq!(found.cluster_url.host(), Some("two.example.com"));
    assert!(found.auth_info.token.is_some() && found.auth_info.username.is_none());
    assert_eq!(found.default_namespace, "upgrades");
}

#[tokio::test]
async fn a_server_and_a_token_override_those_of_the_context() {
    let flags = [
        "--server",
        "https://three.example.com:6443",
        "--token",
        "t",
        "--tls-server-name",
        "api",
        "--insecure-skip-tls-verify",
    ];
    let found = configured(TWO, &flags).await;
    assert_eq!(found.cluster_url.host(), Some("three.example.com"));
    assert!(
        found.auth_info.token.is_some() && found.auth_info.username.is_none(),
        "the password is not sent"
    );
    assert_eq!(found.tls_server_name.as_deref(), Some("api"));
    assert!(found.accept_invalid_certs);
    assert_eq!(found.default_namespace, "upgrades");
}

#[tokio::test]
async fn a_server_and_a_token_are_enough() {
    let flags = ["-s", "https://three.example.com", "--token", "t"];
    let found = configured("apiVersion: v1\nkind: Config\n", &flags).await;
    assert_eq!(found.cluster_url.host(), Some("three.example.com"));
    assert!(found.auth_info.token.is_some());
}
