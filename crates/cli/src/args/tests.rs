use super::*;
use api::report::Phase;
use chrono::TimeDelta;
use clap::CommandFactory;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("kubectl-mcu").chain(line.split_whitespace()))
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn phases_are_checked_and_read_in_any_case() {
    let Command::Clusters(args) = parse("clusters spring --phase failed --phase PreActionDegraded")
        .unwrap()
        .command
    else {
        panic!("not clusters");
    };
    assert_eq!(args.phases, [Phase::Failed, Phase::PreActionDegraded]);
    let error = parse("clusters spring --phase Done").unwrap_err().to_string();
    assert!(
        error.contains("PreActionDegraded") && error.contains("Soaking"),
        "{error}"
    );
}

#[test]
fn a_watch_needs_a_name_and_a_time_out_a_watch() {
    assert!(parse("status -w").is_err());
    assert!(parse("status spring --timeout 1h").is_err());
    assert!(parse("status spring -w --timeout 2d").is_err());
    assert!(parse("status spring -w --timeout 1h30m").is_ok());
}

#[test]
fn a_request_timeout_is_a_duration_or_seconds() {
    for (text, seconds) in [("30", 30), ("0", 0), ("2m", 120)] {
        let line = format!("status --request-timeout {text}");
        let cli = parse(&line).unwrap();
        assert_eq!(cli.common.connection.request_timeout, TimeDelta::seconds(seconds));
    }
    assert!(parse("status --request-timeout=-1s").is_err());
    assert!(parse("status --request-timeout=soon").is_err());
}

#[test]
fn names_that_no_object_can_have_are_refused_before_anything_is_asked() {
    for line in [
        "status Spring",
        "pause ../spring",
        "why spring a/b",
        "status -n a?b",
        "retry spring-",
    ] {
        let error = parse(line).unwrap_err();
        assert_eq!(error.exit_code(), i32::from(crate::Exit::Usage.code()), "{line}");
        assert!(
            error.to_string().contains("lower-case letters"),
            "{line}: {error}"
        );
    }
    assert!(parse("why spring-4.16 edge-17.example.com -n upgrades").is_ok());
    assert!(
        parse("status --namespace=").is_ok(),
        "an unset variable of a script"
    );
}

#[test]
fn a_dry_run_is_asked_for_as_in_kubectl() {
    let asked = |flags: &str| {
        let cli = parse(&format!("create spring --set prod --to 4.18.20 {flags}"))?;
        let Command::Create(args) = cli.command else {
            panic!("not create");
        };
        Ok::<_, clap::Error>(args.dry_run)
    };
    for (flags, expected) in [
        ("", DryRun::None),
        ("--dry-run", DryRun::Client),
        ("--dry-run --paused", DryRun::Client),
        ("--dry-run=client", DryRun::Client),
        ("--dry-run=server", DryRun::Server),
        ("--dry-run=none", DryRun::None),
    ] {
        assert_eq!(asked(flags).unwrap(), expected, "{flags}");
    }
    for wrong in ["--dry-run=hub", "--dry-run server", "--dry-run=true"] {
        assert!(asked(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn common_flags_are_taken_before_and_after_the_command() {
    for line in ["-n upgrades status -o wide", "status -n upgrades -o wide"] {
        let cli = parse(line).unwrap();
        assert_eq!(cli.common.namespace.as_deref(), Some("upgrades"));
        assert_eq!(cli.common.output, Some(Output::Wide));
    }
}

#[test]
fn all_namespaces_win_over_one_as_in_kubectl() {
    for line in ["status -n a -A", "-A status -n a"] {
        assert!(parse(line).unwrap().common.all_namespaces, "{line}");
    }
}

#[test]
fn wrong_command_lines_end_with_the_usage_code() {
    assert_eq!(
        parse("status -w").unwrap_err().exit_code(),
        i32::from(crate::Exit::Usage.code())
    );
}

#[test]
fn a_format_may_have_a_template() {
    let output = |text: &str| parse(&format!("status -o {text}")).map(|cli| cli.common.output);
    assert_eq!(output("json").unwrap(), Some(Output::Json));
    assert!(matches!(
        output("jsonpath={.items[*].metadata.name}").unwrap(),
        Some(Output::Template(_))
    ));
    assert!(matches!(
        output("custom-columns=NAME:.metadata.name").unwrap(),
        Some(Output::Template(_))
    ));
    for wrong in ["table", "jsonpath={.a", "custom-columns=NAME", "jsonpath"] {
        let error = output(wrong).unwrap_err();
        assert_eq!(error.exit_code(), i32::from(crate::Exit::Usage.code()), "{wrong}");
    }
}

#[test]
fn flags_of_the_connection_are_those_of_kubectl() {
    let line = "status -s https://hub.example.com --token t --cluster hub --user ann --certificate-authority ca.crt \
                --client-certificate a.crt --client-key a.key --tls-server-name hub --as bob --as-group ops";
    let connection = parse(line).unwrap().common.connection;
    assert_eq!(connection.server.as_deref(), Some("https://hub.example.com"));
    assert_eq!(connection.cluster.as_deref(), Some("hub"));
    assert!(parse("status --insecure-skip-tls-verify --certificate-authority ca.crt").is_err());
    assert!(parse("cluster edge-1 --cluster hub").is_ok());
}

#[test]
fn switches_of_kubectl_may_have_a_value() {
    let common = |flags: &str| parse(&format!("status spring {flags}")).unwrap().common;
    for (flags, expected) in [
        ("", false),
        ("-A", true),
        ("-A=true", true),
        ("-A=false", false),
        ("--all-namespaces", true),
        ("--all-namespaces=True", true),
        ("--all-namespaces=0", false),
    ] {
        assert_eq!(common(flags).all_namespaces, expected, "{flags}");
    }
    assert!(common("--no-headers=true").no_headers && common("--no-headers").no_headers);
    assert!(!common("--no-headers=false").no_headers);
    let insecure = |flags: &str| common(flags).connection.insecure_skip_tls_verify;
    assert!(insecure("--insecure-skip-tls-verify=true") && insecure("--insecure-skip-tls-verify"));
    assert!(!insecure("--insecure-skip-tls-verify=false"));
    assert!(parse("status --no-headers=maybe").is_err());
    // A switch takes no word behind it.
    assert!(parse("-A status spring").unwrap().common.all_namespaces);
    let watch = |line: &str| match parse(line).unwrap().command {
        Command::Status(args) => args.watch,
        Command::Clusters(args) => args.watch,
        _ => panic!("{line}"),
    };
    assert!(watch("status spring --watch=true --timeout 1h") && watch("clusters spring -w"));
    assert!(!watch("status spring --watch=false") && !watch("clusters spring --sort-by .since"));
}

#[test]
fn a_uid_is_impersonated_with_a_user_only() {
    let connection = parse("status --as bob --as-uid 7").unwrap().common.connection;
    assert_eq!(connection.impersonate_uid.as_deref(), Some("7"));
    assert!(parse("status --as-uid 7").is_err());
}
