use super::*;

fn user(credentials: &Credentials, repository: &str) -> Option<String> {
    let repository: Repository = repository.parse().unwrap();
    credentials.find(&repository).map(|login| login.username.clone())
}

#[test]
fn the_longest_name_that_covers_the_repository_wins() {
    let file = format!(
        r#"{{"auths": {{
                "quay.io": {{"auth": "{host}"}},
                "quay.io/openshift-release-dev": {{"auth": "{org}"}},
                "quay.io/openshift-release-dev/ocp-release": {{"username": "repo", "password": "p"}},
                "https://index.docker.io/v1/": {{"auth": "{hub}"}},
                "registry.example.com:5000": {{}}
            }}, "credsStore": "secretservice"}}"#,
        host = STANDARD.encode("host:p"),
        org = STANDARD.encode("org:p:q"),
        hub = STANDARD_NO_PAD.encode("hub:p"),
    );
    let credentials = Credentials::parse(file.as_bytes()).unwrap();
    for (repository, expected) in [
        ("quay.io/openshift-release-dev/ocp-release", Some("repo")),
        ("quay.io/openshift-release-dev/ocp-release-nightly", Some("org")),
        ("quay.io/openshift-release-devil/x", Some("host")),
        ("docker.io/library/busybox", Some("hub")),
        ("registry.example.com:5000/a", None),
        ("registry.example.com/a", None),
    ] {
        assert_eq!(
            user(&credentials, repository).as_deref(),
            expected,
            "{repository}"
        );
    }
    let org = credentials.find(&"quay.io/openshift-release-dev/x".parse().unwrap());
    assert_eq!(org.unwrap().password, "p:q");
}

#[test]
fn broken_entries_are_named_and_secrets_are_not() {
    let error = Credentials::parse(br#"{"auths": {"quay.io": {"auth": "c2VjcmV0"}}}"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the entry of quay.io: auth is not user:password"
    );
    let error = Credentials::parse(br#"{"auths": {"quay.io": {"auth": "%secret%"}}}"#).unwrap_err();
    assert!(!error.to_string().contains("secret"), "{error}");
    assert!(Credentials::parse(b"nonsense").is_err());
}

#[test]
fn a_login_does_not_print_its_password() {
    let login = Login {
        username: "me".to_owned(),
        password: "hidden".to_owned(),
    };
    assert!(!format!("{login:?}").contains("hidden"));
}
