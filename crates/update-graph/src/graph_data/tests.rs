use super::*;
use crate::version::Arch;

const RISK: &str = "url: https://e/1\nname: Leak\nmessage: |-\n  It leaks.\nmatchingRules:\n- type: Always\n";

fn files(given: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    given
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
        .collect()
}

fn with_version(given: &[(&str, &str)]) -> Result<(GraphData, Vec<Problem>), Refused> {
    let mut all = files(&[("version", "1.1.0\n")]);
    all.extend(files(given));
    GraphData::from_files(all, 1)
}

fn rules(problems: &[Problem]) -> Vec<Rule> {
    problems.iter().map(|problem| problem.rule).collect()
}

#[test]
fn other_majors_are_refused_and_newer_minors_are_noted() {
    for (text, refused) in [
        ("1.0.0", false),
        ("1.1.0\n", false),
        (" 1.2.0 \n", false),
        ("2.0.0", true),
        ("1", true),
        ("", true),
    ] {
        assert_eq!(
            GraphData::from_files(files(&[("version", text)]), 1).is_err(),
            refused,
            "{text:?}"
        );
    }
    let (_, problems) = GraphData::from_files(files(&[("./version", "1.3.0")]), 1).unwrap();
    assert_eq!(rules(&problems), [Rule::SchemaMinor]);
    assert_eq!(
        rules(&GraphData::from_files(files(&[]), 1).unwrap_err().problems),
        [Rule::SchemaVersion]
    );
}

#[test]
fn a_file_is_a_silent_block_a_risk_or_blocks_without_exception() {
    let broken = |problem| (Effect::Broken, Some(problem));
    let cases: &[(&str, (Effect, Option<Rule>))] = &[
        ("to: 4.1.0\nfrom: .*\n", (Effect::Silent, None)),
        ("{to: 4.1.0, from: '.*'}", (Effect::Silent, None)),
        ("to: 4.1.0\nfrom: .*\nfixedIn: 4.1.1\n", broken(Rule::BlockField)),
        ("to: 4.1.0\nfrom: .*\nform: .*\n", broken(Rule::BlockField)),
        ("to: 4.1.0\nfrom: .*\nname: Leak\n", broken(Rule::BlockField)),
        (
            "to: 4.1.0\nfrom: .*\nurl: u\nname: N\nmessage: m\nmatchingRules: []\n",
            broken(Rule::BlockField),
        ),
        ("to: 4.1.0\n", broken(Rule::BlockUnreadable)),
        ("to: 4.1.0\nfrom: (\n", broken(Rule::BlockRegex)),
        ("to: 4.1.0\nfrom: .*\nurl: [\n", broken(Rule::BlockUnreadable)),
        ("to: 4.1.0\nto: 4.1.0\nfrom: .*\n", broken(Rule::BlockUnreadable)),
        (
            "to: '4.1.0' # why\nfrom: .*\n\tname: x\n",
            broken(Rule::BlockUnreadable),
        ),
    ];
    for (text, (effect, rule)) in cases {
        let (data, problems) = with_version(&[("blocked-edges/4.1.0.yaml", text)]).unwrap();
        assert_eq!(data.blocks[0].effect, *effect, "{text}");
        assert_eq!(
            rules(&problems),
            rule.iter().copied().collect::<Vec<_>>(),
            "{text}"
        );
        assert_eq!(data.blocks[0].to.to_string(), "4.1.0");
    }
    let text = format!("to: 4.1.0\nfrom: .*\nautoExtend: x\n{RISK}");
    let (data, problems) = with_version(&[("blocked-edges/4.1.0-Leak.yaml", &text)]).unwrap();
    assert!(matches!(&data.blocks[0].effect, Effect::Risk(risk) if risk.message == "It leaks."));
    assert_eq!(problems, []);
}

#[test]
fn the_drafts_field_names_are_read() {
    let text =
        "to: 4.7.4\nfrom: 4\\.6\\..*\nurl: https://e/2\nreason: Leak\nmessage: m\nclusters:\n  promql: up\n";
    let (data, problems) = with_version(&[("blocked-edges/4.7.4.yaml", text)]).unwrap();
    assert_eq!(problems, []);
    let Effect::Risk(risk) = &data.blocks[0].effect else {
        panic!("{:?}", data.blocks)
    };
    assert_eq!(risk.matching_rules, [crate::MatchingRule::promql("up")]);
}

#[test]
fn a_block_whose_target_cannot_be_read_refuses_the_set() {
    for text in [
        "",
        "from: .*\n",
        "to: 4.1\nfrom: .*\n",
        "to: [4.1.0]\nfrom: .*\n",
        "- to: 4.1.0\n",
        "to:\n  4.1.0: x\n",
        "\u{0}",
    ] {
        let refused = with_version(&[("blocked-edges/4.1.0.yaml", text)]).unwrap_err();
        assert_eq!(rules(&refused.problems), [Rule::BlockTarget], "{text:?}");
        assert!(
            refused.to_string().contains("blocked-edges/4.1.0.yaml"),
            "{refused}"
        );
    }
}

#[test]
fn what_a_broken_file_still_says_of_its_source_is_kept() {
    let (data, _) = with_version(&[(
        "blocked-edges/4.1.0.yaml",
        "to: 4.1.0\nfrom: ^4[.]0[.].*$\nname: [\n",
    )])
    .unwrap();
    assert_eq!(data.blocks[0].from.as_ref().unwrap().as_str(), "^4[.]0[.].*$");
    let unsure = "to: 4.1.0\nfrom: ^4[.]0[.].*$\nfrom: x\nname: [\n";
    let (data, _) = with_version(&[("blocked-edges/4.1.0.yaml", unsure)]).unwrap();
    assert_eq!(data.blocks[0].from, None);
}

#[test]
fn a_target_names_an_architecture_by_its_build_or_as_s390x() {
    for (to, version, arch) in [
        ("4.2.10", "4.2.10", None),
        ("4.2.10+arm64", "4.2.10", Some("arm64")),
        ("4.2.10-s390x", "4.2.10", Some("s390x")),
        ("4.2.10-rc.1", "4.2.10-rc.1", None),
    ] {
        let (data, _) = with_version(&[("blocked-edges/x.yaml", &format!("to: {to}\nfrom: .*\n"))]).unwrap();
        assert_eq!(data.blocks[0].to.to_string(), version);
        assert_eq!(data.blocks[0].arch.as_ref().map(Arch::as_str), arch);
    }
    // A risk's target is used unchanged.
    let (data, _) = with_version(&[(
        "blocked-edges/x.yaml",
        &format!("to: 4.2.10-s390x\nfrom: .*\n{RISK}"),
    )])
    .unwrap();
    assert_eq!(data.blocks[0].to.to_string(), "4.2.10-s390x");
}

#[test]
fn a_channel_that_cannot_be_read_refuses_the_set_and_a_bad_entry_costs_itself() {
    let text = "# why\nname: stable-4.1\nfeeder: {delay: PT0H}\ntombstones: []\nversions:\n- 4.1.0\n# between\n- 4.1.1+amd64\n- four\n";
    let (data, problems) = with_version(&[("channels/stable-4.1.yaml", text)]).unwrap();
    assert_eq!(data.channels[0].entries.len(), 2);
    assert_eq!(
        problems[0].to_string().split(": error").next(),
        Some("channels/stable-4.1.yaml:9")
    );
    for text in [
        "",
        "versions: []\n",
        "name: a,b\n",
        "name: [\n",
        "name: stable-4.1\nversions: {}\n",
        "name: stable-4.1\n",
        "name: stable-4.1\nversion: [4.1.0]\n",
    ] {
        let refused = with_version(&[("channels/stable-4.1.yaml", text)]).unwrap_err();
        assert!(
            rules(&refused.problems).contains(&Rule::ChannelUnreadable),
            "{text:?}"
        );
    }
    let (data, _) = with_version(&[("channels/x.yaml", "name: stable-4.1\nversions: []\n")]).unwrap();
    assert_eq!(data.channels[0].entries, []);
}

#[test]
fn raw_metadata_that_cannot_be_read_refuse_the_set() {
    let (data, _) = with_version(&[("raw/metadata.json", r#"{"4.1.0+amd64":{"k":{"x":1.0}}}"#)]).unwrap();
    assert_eq!(data.raw[0].1.get("k"), Some(r#"{"x":1.0}"#));
    assert!(with_version(&[("raw/metadata.json", "[]")]).is_err());
}

#[test]
fn only_files_of_the_allow_list_are_read_and_near_misses_are_reported() {
    for (path, expected) in [
        ("version", Place::Version),
        ("raw/metadata.json", Place::Raw),
        ("channels/a.yaml", Place::Channel),
        ("channels/a.yaaml", Place::Channel),
        ("blocked-edges/a.b.yaml", Place::Block),
        ("blocked-edges/a.yml", Place::Skipped),
        ("blocked-edges/x/a.yaml", Place::Skipped),
        ("blocked-edges/a.yaml~", Place::Skipped),
        ("blocked-edges/.a.yaml.swp", Place::Other),
        ("channels/OWNERS", Place::Other),
        ("internal-channels/a.yaml", Place::Other),
        ("LICENSE", Place::Other),
    ] {
        assert_eq!(place(path), expected, "{path}");
    }
    let (_, problems) = with_version(&[("blocked-edges/4.1.0.yml", "to: 4.1.0\nfrom: .*\n")]).unwrap();
    assert_eq!(rules(&problems), [Rule::BlockSkipped]);
}

fn tar(members: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, text) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_cksum();
        builder.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn an_archive_holds_its_files_at_the_root_or_below_one_directory() {
    for top in ["", "./", "cincinnati-graph-data-731d042/"] {
        let path = |p: &str| format!("{top}{p}");
        let archive = tar(&[
            (&path("README.md"), "x"),
            (&path("version"), "1.1.0"),
            (&path("blocked-edges/4.1.0.yaml"), "to: 4.1.0\nfrom: .*\n"),
        ]);
        let (data, problems) = GraphData::from_tar(&archive, 1).unwrap();
        assert_eq!((data.blocks.len(), problems.len()), (1, 0), "{top:?}");
    }
    assert!(GraphData::from_tar(&tar(&[("a/b/version", "1.1.0")]), 1).is_err());
    assert!(GraphData::from_tar(b"no archive", 1).is_err());
}

#[test]
fn an_archive_that_was_cut_off_is_refused_wherever_that_was() {
    let archive = tar(&[
        ("version", "1.1.0"),
        ("blocked-edges/4.1.0.yaml", "to: 4.1.0\nfrom: .*\n"),
    ]);
    for length in (0..4 * 512).step_by(512).chain([100, 700, 1800]) {
        let refused = GraphData::from_tar(&archive[..length], 1).unwrap_err();
        assert_eq!(rules(&refused.problems), [Rule::Archive], "{length}");
    }
    let mut text = archive.clone();
    text[..100].fill(b'\n');
    text[148..156].copy_from_slice(b"no sum\n ");
    let message = GraphData::from_tar(&text, 1).unwrap_err().to_string();
    assert!(!message.contains('\n'), "{message:?}");
}

#[test]
fn a_link_among_the_files_refuses_the_archive() {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    builder
        .append_link(&mut header, "blocked-edges/4.1.0.yaml", "/etc/passwd")
        .unwrap();
    let refused = GraphData::from_tar(&builder.into_inner().unwrap(), 1).unwrap_err();
    assert_eq!(rules(&refused.problems), [Rule::Archive]);
}
