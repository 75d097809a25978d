use super::*;

#[test]
fn parameters_are_decoded_and_the_last_one_counts() {
    let query = Query::parse(Some(
        "channel=a&x&=y&channel=stable%2d4.14&v=4.14.3%2Bamd64&w=a+b&z=%zz%4",
    ));
    assert_eq!(query.get("channel"), Some("stable-4.14"));
    assert_eq!(query.get("v"), Some("4.14.3+amd64"));
    assert_eq!(query.get("w"), Some("a b"));
    assert_eq!(query.get("x"), Some(""));
    assert_eq!(query.get("z"), Some("%zz%4"));
    assert_eq!(query.get("y"), None);
    assert_eq!(Query::parse(None).get("channel"), None);
}

#[test]
fn wrong_values_are_refused_in_the_words_of_the_protocol() {
    for (text, expected) in [
        ("channel=stable-4.14", Ok(("stable-4.14", "amd64"))),
        ("channel=4&arch=ppc64le", Ok(("4", "ppc64le"))),
        (
            "channel=Stable",
            Err(r"channel 'Stable' does not match regex '^[0-9a-z\-\.]+$'"),
        ),
        (
            "channel=",
            Err(r"channel '' does not match regex '^[0-9a-z\-\.]+$'"),
        ),
        (
            "channel=a%0a",
            Err("channel 'a\n' does not match regex '^[0-9a-z\\-\\.]+$'"),
        ),
        (
            "channel=a&arch=x86_64",
            Err("arch 'x86_64' does not match regex '^[0-9a-z]+$'"),
        ),
        (
            "channel=a&arch=Multi",
            Err("arch 'Multi' does not match regex '^[0-9a-z]+$'"),
        ),
        (
            "channel=a&arch=",
            Err("arch '' does not match regex '^[0-9a-z]+$'"),
        ),
    ] {
        let query = Query::parse(Some(text));
        let got = query
            .channel()
            .and_then(|channel| Ok((channel, query.arch("amd64")?)));
        let expected = expected.map_err(|text| ApiError::InvalidParams(text.to_owned()));
        assert_eq!(got, expected, "{text}");
    }
}

#[test]
fn missing_parameters_are_named_together() {
    let mandatory = ["arch".to_owned(), "channel".to_owned(), "id".to_owned()];
    let error = Query::parse(Some("id=")).demand(&mandatory).unwrap_err();
    assert_eq!(
        error.to_string(),
        "mandatory client parameters missing: arch, channel"
    );
    assert_eq!(
        Query::parse(Some("id=&arch=x&channel=y")).demand(&mandatory),
        Ok(())
    );
}
