use super::*;

fn hex(letter: &str) -> String {
    format!("sha256:{}", letter.repeat(64))
}

fn list_of(platforms: &[&str]) -> String {
    let entries: Vec<String> = platforms
        .iter()
        .map(|arch| {
            format!(
                r#"{{"digest": "{}", "platform": {{"architecture": "{arch}", "os": "linux"}}}}"#,
                hex("a")
            )
        })
        .collect();
    format!(r#"{{"schemaVersion": 2, "manifests": [{}]}}"#, entries.join(","))
}

#[test]
fn a_list_of_several_architectures_is_multi_and_a_list_of_one_is_that_one() {
    for (platforms, expected) in [
        (&["amd64", "arm64"][..], "multi"),
        (&["s390x"], "s390x"),
        (&["amd64", "amd64"], "amd64"),
        (&["amd64", "unknown"], "amd64"),
    ] {
        let Manifest::List(children) = Manifest::parse(list_of(platforms).as_bytes()).unwrap() else {
            panic!("not a list");
        };
        assert_eq!(list_architecture(&children), expected, "{platforms:?}");
    }
    assert_eq!(
        Manifest::parse(list_of(&["unknown"]).as_bytes()),
        Err(BadManifest::Empty)
    );
}

#[test]
fn both_families_of_image_manifests_are_read() {
    for media_type in [
        r#""mediaType": "application/vnd.docker.distribution.manifest.v2+json","#,
        r#""mediaType": "application/vnd.oci.image.manifest.v1+json","#,
        "",
    ] {
        let text = format!(
            r#"{{"schemaVersion": 2, {media_type} "config": {{"digest": "{c}", "size": 2}},
                    "layers": [{{"mediaType": "m", "digest": "{a}", "size": 3}}, {{"digest": "{b}"}}]}}"#,
            c = hex("c"),
            a = hex("a"),
            b = hex("b"),
        );
        let Manifest::Image(image) = Manifest::parse(text.as_bytes()).unwrap() else {
            panic!("not an image");
        };
        assert_eq!(image.config.digest.to_string(), hex("c"));
        assert_eq!(image.layers.len(), 2);
        assert_eq!(image.layers[0].size, 3);
    }
}

#[test]
fn other_documents_are_refused_by_what_they_are() {
    let schema1 = br#"{"schemaVersion": 1, "fsLayers": []}"#;
    let error = Manifest::parse(schema1).unwrap_err().to_string();
    assert!(error.contains("schema version 1"), "{error}");
    assert!(Manifest::parse(b"<html>").is_err());
    let error = Manifest::parse(br#"{"config": {"digest": "md5:0"}, "layers": []}"#).unwrap_err();
    assert!(error.to_string().contains("md5:0"), "{error}");
}

#[test]
fn an_architecture_is_lower_case_letters_and_digits() {
    assert_eq!(
        config_architecture(br#"{"architecture": "ppc64le"}"#).unwrap(),
        "ppc64le"
    );
    for text in [
        r#"{"architecture": "x86_64"}"#,
        r#"{"architecture": ""}"#,
        "{}",
        "no",
    ] {
        assert!(config_architecture(text.as_bytes()).is_err(), "{text}");
    }
}
