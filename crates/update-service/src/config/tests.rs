use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: ServeFlags,
}

fn config(args: &[&str], file: &str) -> anyhow::Result<Config> {
    let line = Line::try_parse_from(std::iter::once(&"x").chain(args))?;
    let file: File = toml::from_str(file)?;
    line.flags.config(&file)
}

const LISTS: &[&str] = &["--releases", "a.json", "b.json.gz", "--graph-data", "gd"];

#[test]
fn defaults_are_those_of_the_protocol() {
    let config = config(LISTS, "").unwrap();
    assert_eq!(config.path_prefix, "/api/upgrades_info");
    assert_eq!(config.mandatory, ["channel"]);
    assert_eq!(config.listen.to_string(), ":8080");
    assert_eq!(config.sources.default_arch.as_str(), "amd64");
    assert_eq!(config.sources.refresh, Duration::from_mins(5));
    let lists = ReleaseSource::Lists(vec!["a.json".into(), "b.json.gz".into()]);
    assert_eq!(config.sources.releases, lists);
    assert_eq!(config.sources.graph_data, Some(Location::Path("gd".into())));
}

#[test]
fn flags_win_over_the_file_and_the_file_over_defaults() {
    let file = r#"
        [service]
        listen = "127.0.0.1:1"
        path_prefix = "filed/"
        mandatory_client_parameters = ["id", "channel", "id"]
        default_arch = "arm64"
        [limits]
        connections = 7
        header_timeout = "1s"
        [source]
        registry = "quay.io/a/b"
        graph_data = "oci://quay.io/a/gd"
        refresh = "1m"
        state_dir = "/s"
        [registry]
        concurrency = 3
        attempts = 1
        [[policy]]
        policy = "channel-filter"
        channels = ["stable"]
    "#;
    let filed = config(&[], file).unwrap();
    assert_eq!(filed.path_prefix, "/filed");
    assert_eq!(filed.mandatory, ["channel", "id"]);
    assert_eq!(filed.limits.connections, 7);
    assert_eq!(filed.limits.header_timeout, Duration::from_secs(1));
    assert_eq!(filed.sources.connection.concurrency, 3);
    assert_eq!(filed.sources.connection.backoff.attempts, 1);
    assert_eq!(filed.sources.policy.as_ref().unwrap().0.len(), 1);
    assert!(matches!(filed.sources.releases, ReleaseSource::Registry(_)));

    let args = [
        LISTS,
        &[
            "--listen=:2",
            "--path-prefix=/",
            "--mandatory-params=arch",
            "--refresh=2s",
        ],
    ]
    .concat();
    let flagged = config(&args, file).unwrap();
    assert_eq!(flagged.listen.to_string(), ":2");
    assert_eq!(flagged.path_prefix, "");
    assert_eq!(flagged.mandatory, ["arch"]);
    assert_eq!(flagged.sources.refresh, Duration::from_secs(2));
    assert!(matches!(flagged.sources.releases, ReleaseSource::Lists(_)));
    assert_eq!(flagged.sources.default_arch.as_str(), "arm64");
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_is_right() {
    for (args, file, hint) in [
        (&[][..], "", "--releases, --registry or --graph"),
        (&["--releases", "a"], "", "--graph-data none"),
        (
            &["--registry", "quay.io/a/b", "--graph", "x", "--graph-data", "y"],
            "",
            "cannot be used with",
        ),
        (&["--registry", "quay.io"], "", "HOST/PATH"),
        (&["--graph", "oci://quay.io/a/b"], "", "not an image"),
        (&["--graph", "x", "--refresh", "0s"], "", "zero"),
        (&["--graph", "x", "--max-connections", "0"], "", "at least 1"),
        (&["--graph", "x", "--path-prefix", "/a b"], "", "path prefix"),
        (&["--graph", "x", "--default-arch", ""], "", "architecture"),
        (&["--graph", "x"], "[limits]\nhead_bytes = 10", "8192"),
        (&["--graph", "x"], "[source]\nrefresh = \"soon\"", "soon"),
        (&["--graph", "x"], "[service]\nbranch = \"x\"", "branch"),
        (&["--graph", "x"], "[serivce]", "serivce"),
        (
            &["--graph", "x"],
            "[[policy]]\npolicy = \"node-remove\"\nversion = [\"4.1.0\"]",
            "version",
        ),
        (&[], "[source]\nreleases = [\"a\"]\ngraph = [\"b\"]", "one of"),
    ] {
        let error = config(args, file).map(drop).unwrap_err();
        assert!(
            format!("{error:#}").contains(hint),
            "{args:?} {file:?}: {error:#}"
        );
    }
}

#[test]
fn no_graph_data_must_be_meant() {
    let config = config(&["--releases", "a", "--graph-data", "none"], "").unwrap();
    assert_eq!(config.sources.graph_data, None);
}

#[test]
fn the_files_extension_says_its_language() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    for (name, text) in [
        ("a.toml", "[source]\nregistry = 'quay.io/a/b'"),
        ("a.yaml", "source:\n  registry: quay.io/a/b\n"),
        ("a.json", r#"{"source": {"registry": "quay.io/a/b"}}"#),
    ] {
        assert!(
            File::read(&write(name, text)).unwrap().source.registry.is_some(),
            "{name}"
        );
    }
    let policy = "policy:\n- policy: node-remove\n  versions: [4.16.3]\n  regex: ^4[.]12[.]\n";
    assert!(File::read(&write("p.yaml", policy)).unwrap().policy.is_some());
    assert!(
        File::read(&write("empty.yaml", ""))
            .unwrap()
            .source
            .registry
            .is_none()
    );
    for (name, text, hint) in [
        ("a.yaml", "source:\n  registri: x\n", "registri"),
        ("a.toml", "[source]\nregistri = 'x'", "registri"),
        ("a.conf", "", "extension"),
    ] {
        let error = File::read(&write(name, text)).map(drop).unwrap_err();
        assert!(format!("{error:#}").contains(hint), "{name}: {error:#}");
    }
    assert!(
        format!(
            "{:#}",
            File::read("/nowhere.toml".as_ref()).map(drop).unwrap_err()
        )
        .contains("/nowhere")
    );
}
