use super::*;

fn at(line: &str) -> Expected {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    expected(&words)
}

fn words(line: &str) -> Vec<String> {
    match at(line) {
        Expected::Words(words) => words,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn commands_flags_and_values_are_offered_where_they_can_stand() {
    assert!(words("").contains(&"status".to_owned()));
    assert!(!words("").contains(&"__complete".to_owned()));
    assert!(words("clusters spring --").contains(&"--phase".to_owned()));
    assert!(words("clusters spring --").contains(&"--namespace".to_owned()));
    assert!(words("clusters spring --phase Fa").contains(&"Failed".to_owned()));
    assert!(words("status -o ").contains(&"wide".to_owned()));
    assert_eq!(at("lint -f "), Expected::File);
    assert_eq!(at("status --certificate-authority "), Expected::File);
    assert_eq!(at("updates -f "), Expected::File);
    assert!(words("updates --").contains(&"--include-not-recommended".to_owned()));
    assert!(words("graph ").contains(&"stranded".to_owned()));
    assert!(words("graph next --").contains(&"--releases".to_owned()));
    assert!(words("graph next --").contains(&"--output".to_owned()));
    assert_eq!(at("graph path 4.12.0 4.14.0 --graph-data "), Expected::File);
    assert_eq!(at("graph next "), Expected::Words(Vec::new()));
}

#[test]
fn a_value_that_follows_only_an_equals_sign_is_not_expected_as_a_word() {
    assert!(words("create spring --dry-run --").contains(&"--paused".to_owned()));
}

fn cluster(command: &str, named: &[&str]) -> Expected {
    Expected::Cluster {
        upgrade: "spring".to_owned(),
        command: command.to_owned(),
        named: named.iter().map(|name| (*name).to_owned()).collect(),
    }
}

#[test]
fn names_are_asked_from_the_hub() {
    assert_eq!(at("status "), Expected::Upgrade);
    assert_eq!(at("-n upgrades why spr"), Expected::Upgrade);
    assert_eq!(at("causes "), Expected::Upgrade);
    assert_eq!(at("why spring e"), cluster("why", &[]));
    assert_eq!(at("skip spring --reason x e"), cluster("skip", &[]));
    assert_eq!(at("why spring edge-1 "), Expected::Words(Vec::new()));
    assert_eq!(at("approve "), Expected::Upgrade);
    assert_eq!(
        at("approve spring --message CHG0042 af"),
        Expected::Checkpoint("spring".to_owned())
    );
    assert_eq!(at("approve spring half "), Expected::Words(Vec::new()));
    assert_eq!(at("retry spring "), cluster("retry", &[]));
    assert_eq!(at("retry spring edge-1 "), cluster("retry", &["edge-1"]));
    assert_eq!(
        at("retry spring edge-1 edge-2 e"),
        cluster("retry", &["edge-1", "edge-2"])
    );
}

#[test]
fn the_answer_ends_with_a_directive() {
    let names = ["spring".to_owned(), "autumn".to_owned()];
    assert_eq!(answer(&names, "s", false), "spring\n:4\n");
    assert_eq!(answer(&[], "", true), ":0\n");
}

#[test]
fn every_shell_gets_a_script() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Kubectl] {
        assert!(script(shell).contains("kubectl-mcu"), "{shell:?}");
    }
}
