use super::*;

fn flags(path: PathBuf) -> LintFlags {
    LintFlags {
        path,
        releases: Vec::new(),
        default_arch: "amd64".to_owned(),
        output: Output::Text,
        json: false,
        fail_on: Level::Error,
    }
}

fn data(block: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::create_dir(path.join("channels")).unwrap();
    std::fs::create_dir(path.join("blocked-edges")).unwrap();
    std::fs::write(path.join("version"), "1.1.0\n").unwrap();
    std::fs::write(
        path.join("channels/stable-4.1.yaml"),
        "name: stable-4.1\nversions: [4.1.0]\n",
    )
    .unwrap();
    std::fs::write(path.join("blocked-edges/4.1.0.yaml"), block).unwrap();
    directory
}

#[test]
fn errors_are_said_with_place_and_remedy_in_every_form() {
    let directory = data("to: 4.1.0\nfrom: '('\n");
    let flags = flags(directory.path().to_owned());
    let found = problems(&flags).unwrap();
    assert_eq!(count(&found, Severity::Error), 1, "{found:?}");
    let text = text(&found);
    assert!(text.contains("blocked-edges/4.1.0.yaml:2: error:"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&json(&flags, &found).unwrap()).unwrap();
    assert_eq!(json["errors"], 1);
    let github = github(&flags, &found);
    let line = github.lines().find(|line| line.starts_with("::error ")).unwrap();
    assert!(
        line.contains("blocked-edges/4.1.0.yaml,line=2,title=block-regex::"),
        "{line}"
    );
    assert_eq!(run(&flags).unwrap(), ExitCode::from(1));
}

#[test]
fn the_level_that_fails_can_be_lowered() {
    let directory = data("to: 4.1.0\nfrom: ^4[.]0[.].*$\n");
    let mut flags = flags(directory.path().to_owned());
    assert_eq!(run(&flags).unwrap(), ExitCode::SUCCESS);
    flags.fail_on = Level::Note;
    let worst = problems(&flags).unwrap().iter().map(Problem::severity).max();
    assert_eq!(run(&flags).unwrap(), ExitCode::from(u8::from(worst.is_some())));
}

#[test]
fn what_cannot_be_read_is_an_error_not_a_clean_bill() {
    assert!(problems(&flags("/nowhere".into())).is_err());
    let directory = tempfile::tempdir().unwrap();
    let found = problems(&flags(directory.path().to_owned())).unwrap();
    assert!(count(&found, Severity::Error) > 0, "{found:?}");
}
