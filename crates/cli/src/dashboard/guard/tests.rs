use super::*;

fn token() -> Token {
    Token("0123abcd".to_owned())
}

fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
    let pair = |(name, value): &(HeaderName, &str)| (name.clone(), HeaderValue::from_str(value).unwrap());
    pairs.iter().map(pair).collect()
}

fn status(path: &str, pairs: &[(HeaderName, &str)]) -> Option<u16> {
    refusal(path, &headers(pairs), &token()).map(|(status, _)| status.as_u16())
}

#[test]
fn only_names_of_the_loopback_interface_are_answered() {
    for host in [
        "127.0.0.1:8080",
        "localhost:1",
        "localhost",
        "[::1]:8080",
        "127.8.8.8",
    ] {
        assert_eq!(status("/", &[(header::HOST, host)]), None, "{host}");
    }
    for host in [
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "localhost@evil.example",
        "evil.example#127.0.0.1",
        "192.168.1.2:8080",
        "0.0.0.0:8080",
        "",
    ] {
        assert_eq!(status("/", &[(header::HOST, host)]), Some(421), "{host}");
    }
    assert_eq!(status("/", &[]), Some(421));
}

#[test]
fn a_page_of_another_origin_is_refused() {
    let host = (header::HOST, "127.0.0.1:8080");
    let authorized = (header::AUTHORIZATION, "Bearer 0123abcd");
    for origin in [
        "http://evil.example",
        "http://127.0.0.1:9090",
        "https://127.0.0.1:8080",
        "null",
    ] {
        let given = [host.clone(), authorized.clone(), (header::ORIGIN, origin)];
        assert_eq!(status("/api/events", &given), Some(403), "{origin}");
    }
    let own = [host, authorized, (header::ORIGIN, "http://127.0.0.1:8080")];
    assert_eq!(status("/api/events", &own), None);
}

#[test]
fn data_need_the_token_and_the_page_does_not() {
    let host = (header::HOST, "localhost:8080");
    assert_eq!(status("/app.js", std::slice::from_ref(&host)), None);
    assert_eq!(status("/api/events", std::slice::from_ref(&host)), Some(401));
    for wrong in [
        "Bearer",
        "Bearer 0123abce",
        "Bearer 0123abcd0",
        "Basic 0123abcd",
        "Bearer ",
    ] {
        let given = [host.clone(), (header::AUTHORIZATION, wrong)];
        assert_eq!(status("/api/events", &given), Some(401), "{wrong}");
    }
}

#[test]
fn every_token_is_new_and_long() {
    let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
    assert_eq!(one.as_str().len(), 2 * TOKEN_BYTES);
    assert_ne!(one.as_str(), other.as_str());
    assert_eq!(format!("{one:?}"), "Token(…)");
}
