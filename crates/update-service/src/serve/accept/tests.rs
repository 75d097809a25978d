use super::*;

const JSON: Option<MediaType> = Some(MediaType::Json);
const VENDOR: Option<MediaType> = Some(MediaType::Cincinnati);

fn headers(name: &header::HeaderName, lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(name.clone(), HeaderValue::from_str(line).unwrap());
    }
    headers
}

#[test]
fn the_content_type_is_the_most_welcome_one() {
    for (lines, expected) in [
        // The rows of the protocol.
        (&[][..], VENDOR),
        (&["*"], JSON),
        (&["*/*"], JSON),
        (&["application/*"], JSON),
        (&["application/json"], JSON),
        (&["application/vnd.redhat.cincinnati.v1+json"], VENDOR),
        // A real parser.
        (&["text/html"], None),
        (
            &["text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"],
            JSON,
        ),
        (
            &["application/json;q=0.5, application/vnd.redhat.cincinnati.v1+json"],
            VENDOR,
        ),
        (
            &["application/vnd.redhat.cincinnati.v1+json, application/json"],
            VENDOR,
        ),
        (
            &["application/json, application/vnd.redhat.cincinnati.v1+json"],
            JSON,
        ),
        (&["application/json;q=0, */*"], VENDOR),
        (&["application/json;q=0"], None),
        (&["*/*;q=0"], None),
        (&["*/*;q=0, application/json"], JSON),
        (&["Application/JSON; charset=utf-8"], JSON),
        (&["text/plain", "application/json"], JSON),
        (&["application/json;q=2"], None),
        (&["application/json;q=x"], None),
        (&["application/vnd.redhat.cincinnati.v2+json"], None),
        (
            &["application/vnd.redhat.cincinnati.v1+json;q=0.3, application/*;q=0.9"],
            JSON,
        ),
        (&[""], VENDOR),
        (&[" , "], VENDOR),
        (&["application/json,"], JSON),
        (&["garbage"], None),
    ] {
        assert_eq!(
            media_type(&headers(&header::ACCEPT, lines)),
            expected,
            "{lines:?}"
        );
    }
}

#[test]
fn the_encoding_is_gzip_where_it_is_welcome() {
    let (gzip, identity) = (Some(Encoding::Gzip), Some(Encoding::Identity));
    for (lines, expected) in [
        (&[][..], identity),
        (&[""], identity),
        (&["gzip"], gzip),
        (&["gzip, deflate, br"], gzip),
        (&["x-gzip"], gzip),
        (&["br"], identity),
        (&["*"], gzip),
        (&["gzip;q=0"], identity),
        (&["gzip;q=0.5, identity"], identity),
        (&["gzip;q=0.5, identity;q=0.2"], gzip),
        (&["gzip;q=0.001"], gzip),
        (&["identity;q=0"], None),
        (&["*;q=0"], None),
        (&["*;q=0, gzip"], gzip),
        (&["*;q=0, identity"], identity),
        (&["identity;q=0, gzip;q=0"], None),
        (&["br", "gzip"], gzip),
    ] {
        assert_eq!(
            encoding(&headers(&header::ACCEPT_ENCODING, lines)),
            expected,
            "{lines:?}"
        );
    }
}

proptest::proptest! {
    #[test]
    fn no_header_breaks_the_parser(bytes in proptest::collection::vec(0x20_u8..=0xff, 0..80)) {
        let bytes: Vec<u8> = bytes.into_iter().filter(|byte| *byte != 0x7f).collect();
        let value = HeaderValue::from_bytes(&bytes).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, value.clone());
        headers.insert(header::ACCEPT_ENCODING, value);
        let _ = (media_type(&headers), encoding(&headers));
    }
}
