use super::*;
use clap::CommandFactory;

fn parse(args: &[&str]) -> Result<Flags, clap::Error> {
    Flags::try_parse_from(std::iter::once(&"mcu-controller").chain(args))
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let flags = parse(&[]).unwrap();
    assert!(flags.leader_elect && flags.require_set_bindings && flags.require_admission_policies);
    assert!(
        !flags.allow_hub,
        "the hub is upgraded only where somebody says so"
    );
    assert_eq!(flags.listen.to_string(), ":8080");
    assert_eq!(flags.work_flags(), WorkFlags::default());
    assert_eq!(flags.operators_grace, Duration::from_secs(30));
    assert_eq!(flags.write_concurrency, 32);
    // A rehearsal assumes the defaults, because it cannot see the flags.
    let assumed = resolve::snapshot::ControllerSettings {
        operators_grace: chrono::TimeDelta::from_std(flags.operators_grace).unwrap(),
        require_bindings: flags.require_set_bindings,
        allow_hub: flags.allow_hub,
    };
    assert_eq!(assumed, resolve::snapshot::ControllerSettings::default());
    let lease = flags.lease_config("here").unwrap();
    assert_eq!(lease.timing.renew_deadline, Duration::from_secs(10));
    assert_eq!(lease.timing.retry_period, Duration::from_secs(2));
}

#[test]
fn switches_take_a_value_or_none() {
    assert!(!parse(&["--leader-elect=false"]).unwrap().leader_elect);
    assert!(parse(&["--leader-elect"]).unwrap().leader_elect);
    assert!(
        !parse(&["--require-set-bindings=false"])
            .unwrap()
            .require_set_bindings
    );
    assert!(parse(&["--allow-hub"]).unwrap().allow_hub);
    assert!(parse(&["--leader-elect=perhaps"]).is_err());
}

#[test]
fn the_lease_lives_in_the_named_namespace_or_the_clients_or_our_own() {
    let flags = Flags {
        lease_namespace: None,
        ..parse(&[]).unwrap()
    };
    assert_eq!(flags.lease_config("ocm").unwrap().namespace, "ocm");
    assert_eq!(flags.lease_config("default").unwrap().namespace, "mcu-system");
    let flags = parse(&["--lease-namespace", "mine"]).unwrap();
    assert_eq!(flags.lease_config("ocm").unwrap().namespace, "mine");
}

#[test]
fn wrong_values_are_refused_with_what_is_right() {
    for (args, hint) in [
        (&["--spoke-rbac=all"][..], "admin-ocm, aggregate, none"),
        (&["--agent-service-account=sa"], "NAMESPACE/NAME"),
        (&["--agent-service-account=a/b/c"], "NAMESPACE/NAME"),
        (&["--listen=8080"], ":8080"),
        (&["--log-level=chatty"], "not a level"),
        (&["--operators-grace=soon"], "operators-grace"),
        (&["--write-concurrency=0"], "1 to 1024"),
    ] {
        let message = parse(args).unwrap_err().to_string();
        assert!(message.contains(hint), "{args:?}: {message}");
    }
    let flags = parse(&["--lease-duration=15s", "--lease-renew-deadline=20s"]).unwrap();
    assert!(
        flags
            .lease_config("x")
            .unwrap_err()
            .to_string()
            .contains("renew deadline")
    );
}

#[test]
fn help_explains_every_flag() {
    let command = Flags::command();
    command.clone().debug_assert();
    for argument in command.get_arguments() {
        assert!(argument.get_help().is_some(), "{} has no help", argument.get_id());
    }
}

#[test]
fn files_of_the_variable_that_do_not_exist_are_skipped_and_broken_ones_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let [absent, hub, broken] = ["absent", "hub", "broken"].map(|name| directory.path().join(name));
    std::fs::write(&hub, "current-context: one\n").unwrap();
    std::fs::write(&broken, "clusters: [").unwrap();
    let merged = |files: &[&PathBuf]| present(&std::env::join_paths(files).unwrap());
    let found = merged(&[&absent, &hub]).unwrap().unwrap();
    assert_eq!(found.current_context.as_deref(), Some("one"));
    assert!(merged(&[&hub, &broken]).is_err());
    assert!(merged(&[&absent]).unwrap().is_none());
}

#[tokio::test]
async fn the_client_does_not_repeat_requests_and_names_itself() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config");
    let text = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "hub", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "me", "user": {"token": "t"}}],
            "contexts": [{"name": "a", "context": {"cluster": "hub", "user": "me"}},
                         {"name": "b", "context": {"cluster": "hub", "user": "me", "namespace": "ocm"}}]}"#;
    std::fs::write(&path, text).unwrap();
    let file = path.to_str().unwrap();
    let config = parse(&["--kubeconfig", file, "--context", "b"])
        .unwrap()
        .client_config()
        .await
        .unwrap();
    assert!(!config.default_retry);
    assert!(
        config
            .read_timeout
            .is_some_and(|limit| limit <= Duration::from_mins(1))
    );
    assert_eq!(config.default_namespace, "ocm");
    assert!(config.headers.iter().any(|(name, _)| name == USER_AGENT));
    let missing = parse(&["--kubeconfig", "/nowhere"])
        .unwrap()
        .client_config()
        .await
        .unwrap_err();
    assert!(missing.to_string().contains("/nowhere"));
}
