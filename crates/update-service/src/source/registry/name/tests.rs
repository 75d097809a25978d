use super::*;

#[test]
fn repositories_are_named_in_full() {
    for (name, tls, host, path) in [
        (
            "quay.io/openshift-release-dev/ocp-release",
            true,
            "quay.io",
            "openshift-release-dev/ocp-release",
        ),
        (
            "https://mirror.example.com:8443/ocp/release/",
            true,
            "mirror.example.com:8443",
            "ocp/release",
        ),
        ("docker://quay.io/a/b", true, "quay.io", "a/b"),
        ("127.0.0.1:5000/ocp", false, "127.0.0.1:5000", "ocp"),
        ("localhost:5000/ocp", false, "localhost:5000", "ocp"),
        ("http://[::1]:5000/ocp", false, "[::1]:5000", "ocp"),
        ("https://localhost/ocp", true, "localhost", "ocp"),
    ] {
        let repository: Repository = name.parse().unwrap();
        let expected = Repository {
            tls,
            host: host.to_owned(),
            path: path.to_owned(),
        };
        assert_eq!(repository, expected, "{name}");
    }
}

#[test]
fn wrong_names_are_refused_with_what_is_right() {
    for (name, hint) in [
        ("ocp-release", "HOST/PATH"),
        ("openshift-release-dev/ocp-release", "host name"),
        ("http://quay.io/a/b", "loopback"),
        ("ftp://quay.io/a/b", "scheme"),
        ("quay.io/A/b", "lower case"),
        ("quay.io/a//b", "lower case"),
        ("quay.io/../b", "lower case"),
    ] {
        let error = name.parse::<Repository>().unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
    }
}

#[test]
fn images_have_a_tag_or_a_digest() {
    let hex = "a".repeat(64);
    for (name, reference) in [
        ("localhost:5000/graph-data".to_owned(), "latest".to_owned()),
        ("localhost:5000/graph-data:v1".to_owned(), "v1".to_owned()),
        (
            format!("quay.io/x/graph-data@sha256:{hex}"),
            format!("sha256:{hex}"),
        ),
        (
            format!("quay.io/x/graph-data:v1@sha256:{hex}"),
            format!("sha256:{hex}"),
        ),
    ] {
        assert_eq!(name.parse::<Image>().unwrap().reference, reference, "{name}");
    }
    assert!("quay.io/x/y@sha256:12".parse::<Image>().is_err());
    assert!("quay.io/x/y:a b".parse::<Image>().is_err());
}

#[test]
fn loopback_is_recognised_with_and_without_port() {
    for (host, expected) in [
        ("localhost", true),
        ("127.0.0.53:80", true),
        ("[::1]:5000", true),
        ("10.0.0.1", false),
        ("127.0.0.1.example.com", false),
        ("localhost.example.com", false),
    ] {
        assert_eq!(is_loopback(host), expected, "{host}");
    }
}

#[test]
fn digests_read_back_as_written() {
    let digest = Digest::of(b"hello");
    assert_eq!(digest.to_string().parse::<Digest>(), Ok(digest));
    assert!("sha512:00".parse::<Digest>().is_err());
    assert!(format!("sha256:{}", "ä".repeat(32)).parse::<Digest>().is_err());
}
