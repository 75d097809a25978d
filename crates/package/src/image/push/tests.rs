use super::*;

/// The user for whom a push to this reference would be.
fn user(reference: &str, lookups: &[Lookup<'_>]) -> String {
    let reference: Reference = reference.parse().unwrap();
    match stored(reference.resolve_registry(), lookups).unwrap() {
        RegistryAuth::Basic(user, _) => user,
        _ => "nobody".to_owned(),
    }
}

/// A file of docker or podman with the login of `ann` under this name.
fn file(name: &str) -> impl Fn(&str) -> Result<DockerCredential, CredentialRetrievalError> {
    let text = format!(r#"{{"auths": {{"{name}": {{"auth": "YW5uOnNlY3JldA=="}}}}}}"#);
    move |server| docker_credential::get_credential_from_reader(text.as_bytes(), server)
}

#[test]
fn the_login_of_docker_hub_is_found_under_each_name_that_docker_and_podman_give_it() {
    for name in [DOCKER_HUB, "index.docker.io", "docker.io"] {
        assert_eq!(user("docker.io/fleet/mcu:1", &[&file(name)]), "ann", "{name}");
        assert_eq!(
            user("fleet/mcu:1", &[&file("quay.io"), &file(name)]),
            "ann",
            "{name}"
        );
        assert_eq!(user("quay.io/fleet/mcu:1", &[&file(name)]), "nobody", "{name}");
    }
    assert_eq!(user("quay.io/fleet/mcu:1", &[&file("quay.io")]), "ann");
}

#[test]
fn an_identity_token_is_refused_with_a_remedy_unless_there_is_another_login() {
    let token = |_: &str| Ok(DockerCredential::IdentityToken("refresh".to_owned()));
    let error = stored("quay.io", &[&token]).unwrap_err().to_string();
    assert!(error.contains("docker login --username USER quay.io"), "{error}");
    assert!(!error.contains("refresh"), "{error}");
    assert_eq!(user("quay.io/fleet/mcu:1", &[&token, &file("quay.io")]), "ann");
}

#[test]
fn a_credential_helper_is_asked_by_the_name_that_docker_uses() {
    let failed = || CredentialRetrievalError::HelperFailure {
        helper: "docker-credential-store".to_owned(),
        stdout: "credentials not found in native keychain".to_owned(),
        stderr: String::new(),
    };
    let helper = |server: &str| {
        if server == DOCKER_HUB {
            Ok(DockerCredential::UsernamePassword(
                "ann".to_owned(),
                "secret".to_owned(),
            ))
        } else {
            Err(failed())
        }
    };
    assert_eq!(user("docker.io/fleet/mcu:1", &[&helper]), "ann");
    assert_eq!(user("quay.io/fleet/mcu:1", &[&helper, &file("quay.io")]), "ann");
    let error = stored("quay.io", &[&helper]).unwrap_err();
    assert!(
        format!("{error:#}").contains("credentials not found"),
        "{error:#}"
    );
}

#[test]
fn a_reference_is_read_before_anything_is_built() {
    assert_eq!(tagged("quay.io/fleet/mcu:1").unwrap().tag(), Some("1"));
    let digest = format!("quay.io/fleet/mcu@sha256:{}", "0".repeat(64));
    for (wrong, why) in [
        ("", "REGISTRY/REPOSITORY:TAG"),
        ("quay.io/fleet/mcu:", "REGISTRY/REPOSITORY:TAG"),
        ("https://quay.io/fleet/mcu:1", "REGISTRY/REPOSITORY:TAG"),
        (digest.as_str(), "not under a digest"),
    ] {
        let error = format!("{:#}", tagged(wrong).unwrap_err());
        assert!(error.contains(why), "{wrong}: {error}");
    }
}

#[test]
fn a_push_to_what_names_no_image_builds_nothing() {
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: crate::image::ImageArgs,
    }

    let line = Line::parse_from(["image", "--push", "quay.io/fleet/mcu:"]);
    let error = format!("{:#}", crate::image::run(&line.args).unwrap_err());
    assert!(
        error.starts_with("--push: \"quay.io/fleet/mcu:\" names no image"),
        "{error}"
    );
}
