use super::*;
use crate::{Arch, Builder, GraphData, Severity, release_list};

const RISK: &str = "url: https://e/1\nname: Leak\nmessage: m\nmatchingRules:\n- type: Always\n";

fn lint(given: &[(&str, &str)]) -> Vec<String> {
    let version = [("version", "1.1.0\n")];
    let given = version
        .iter()
        .chain(given)
        .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
    // Most of these sets have only what the test is about.
    let whole = |p: &&Problem| !matches!(p.rule, Rule::ChannelsMissing | Rule::BlocksMissing);
    files(given)
        .iter()
        .filter(whole)
        .map(|p| format!("{}:{} {}", p.file, p.line.unwrap_or_default(), p.rule))
        .collect()
}

#[test]
fn a_clean_set_has_no_findings() {
    let risk = format!("to: 4.1.0\nfrom: ^4[.]0[.].*$\n{RISK}");
    let found = lint(&[
        ("blocked-edges/4.1.0-Leak.yaml", &risk),
        ("blocked-edges/4.1.0.yaml", "to: 4.1.0\nfrom: .*\n"),
        (
            "channels/stable-4.1.yaml",
            "name: stable-4.1\nversions:\n- 4.1.0\n",
        ),
        (
            "channels/fast-4.1.yaml",
            "name: fast-4.1\nversions:\n- 4.1.0\n- 4.1.1\n",
        ),
    ]);
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_set_without_channels_is_an_error_and_one_without_blocks_a_warning() {
    let of = |given: &[(&str, &str)]| -> Vec<(Rule, Severity)> {
        let given = given
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
        let found = files(given);
        found.iter().map(|p| (p.rule, p.severity())).collect()
    };
    let version = ("version", "1.1.0\n");
    let channel = (
        "channels/candidate-4.1.yaml",
        "name: candidate-4.1\nversions:\n- 4.1.0\n",
    );
    let block = ("blocked-edges/4.1.0.yaml", "to: 4.1.0\nfrom: .*\n");
    assert_eq!(of(&[version, channel, block]), []);
    assert_eq!(
        of(&[version, channel]),
        [(Rule::BlocksMissing, Severity::Warning)]
    );
    assert_eq!(of(&[version, block]), [(Rule::ChannelsMissing, Severity::Error)]);
}

#[test]
fn each_rule_of_a_block_is_found_at_its_line() {
    let base = format!("to: 4.1.0\nfrom: .*\n{RISK}");
    for (from, to, expected) in [
        ("from: .*", "from: 4[.]0[.]3", "2 block-anchor"),
        ("from: .*", "from: (", "2 block-regex"),
        ("https://e/1", "http://e/1", "3 risk-url"),
        ("name: Leak", "name: leak", "4 risk-name"),
        ("message: m", "message: ' '", "5 risk-message"),
        ("type: Always", "type: Often", "6 risk-rules"),
        ("- type: Always", "- type: Always\n- type: Always", "6 risk-rules"),
        ("- type: Always", "- type: PromQL", "6 risk-rules"),
        (
            "- type: Always",
            "- type: Always\n  promql: {promql: up}",
            "6 risk-rules",
        ),
        (
            "- type: Always",
            "- type: PromQL\n  promql: {promql: 'group('}",
            "6 promql-syntax",
        ),
        (
            "- type: Always",
            "- type: PromQL\n  promql: {promql: 'rate(a[5m])'}",
            "6 promql-feature",
        ),
        ("to: 4.1.0", "to: 4.1.10", "1 block-file-name"),
    ] {
        let found = lint(&[("blocked-edges/4.1.0-Leak.yaml", &base.replace(from, to))]);
        assert_eq!(
            found,
            [format!("blocked-edges/4.1.0-Leak.yaml:{expected}")],
            "{to}"
        );
    }
}

#[test]
fn one_name_has_one_text() {
    let one = format!("to: 4.1.0\nfrom: .*\n{RISK}");
    let other = one
        .replace("4.1.0", "4.1.1")
        .replace("https://e/1", "https://e/2")
        .replace("message: m", "message: n");
    let found = lint(&[
        ("blocked-edges/4.1.0-Leak.yaml", &one),
        ("blocked-edges/4.1.1-Leak.yaml", &other),
    ]);
    assert_eq!(
        found,
        [
            "blocked-edges/4.1.1-Leak.yaml:3 risk-text",
            "blocked-edges/4.1.1-Leak.yaml:5 risk-text"
        ]
    );
}

#[test]
fn channels_are_named_ordered_and_without_duplicates() {
    let found = lint(&[
        (
            "channels/stable-4.1.yaml",
            "name: stable-4.1\nversions:\n- 4.1.0\n- 4.1.1\n- 4.1.0 # again\n",
        ),
        ("channels/fast-4.1.yaml", "name: fast-4.1\nversions:\n- 4.1.0\n"),
        ("channels/other.yaml", "name: fast-4.1\nversions: []\n"),
        ("channels/lone.yaml", "name: Lone\nversions: []\n"),
    ]);
    assert_eq!(
        found,
        [
            "channels/lone.yaml:1 channel-name",
            "channels/other.yaml:1 channel-name",
            "channels/stable-4.1.yaml:4 channel-order",
            "channels/stable-4.1.yaml:5 channel-duplicate",
        ]
        .iter()
        .flat_map(|line| {
            // The stem and the letters, the stem and the twin.
            let count = if line.contains("lone") {
                3
            } else if line.contains("other") {
                2
            } else {
                1
            };
            std::iter::repeat_n((*line).to_owned(), count)
        })
        .collect::<Vec<_>>()
    );
}

#[test]
fn a_set_that_is_refused_is_still_checked_for_the_rest() {
    let found = lint(&[
        ("blocked-edges/4.1.0.yaml", "to: here\nfrom: .*\n"),
        ("blocked-edges/4.1.1.yaml", "to: 4.1.2\nfrom: .*\n"),
    ]);
    assert_eq!(
        found,
        [
            "blocked-edges/4.1.0.yaml:1 block-target",
            "blocked-edges/4.1.1.yaml:1 block-file-name"
        ]
    );
}

#[test]
fn stranded_releases_and_missing_errata_are_listed() {
    let list = r#"[{"version":"4.1.0","payload":"a","metadata":{"url":"https://e/"}},
        {"version":"4.1.1","payload":"b","previous":["4.1.0"]},{"version":"4.1.2","payload":"c"}]"#;
    let risk = format!("to: 4.1.1\nfrom: .*\n{RISK}");
    let data = [
        ("version", "1.1.0"),
        ("channels/s.yaml", "name: stable-4.1\nversions: [4.1.0, 4.1.1]\n"),
        (
            "channels/c.yaml",
            "name: candidate-4.1\nversions: [4.1.0, 4.1.1, 4.1.2]\n",
        ),
        ("blocked-edges/4.1.1.yaml", &risk),
    ];
    let data = data.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    let (data, _) = GraphData::from_files(data, 1).unwrap();
    let list = release_list::parse(list.as_bytes(), &Arch::amd64()).unwrap();
    let (graph, _) = Builder::new().list(list).graph_data(data.into()).build();
    let found = super::graph(&graph);
    let messages: Vec<_> = found.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "4.1.1+amd64 is released without url",
            "4.1.0+amd64 leads to newer releases over conditional edges only",
            "4.1.1+amd64 leads to no newer release",
        ]
    );
    assert!(found.iter().all(|problem| problem.severity() < Severity::Error));
}
