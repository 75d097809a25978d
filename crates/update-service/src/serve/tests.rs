use http_body_util::BodyExt;
use tower::ServiceExt;

use super::*;
use crate::fixture;
use crate::metrics::Metrics;

const GRAPH: &str = "/api/upgrades_info/v1/graph";

fn settings() -> Settings {
    Settings {
        prefix: "/api/upgrades_info".to_owned(),
        mandatory: vec!["channel".to_owned()],
        default_arch: "amd64".to_owned(),
        slim: false,
        graph: true,
        status: true,
    }
}

/// The router with what it answers from.
struct TestApp {
    state: Arc<State>,
    router: Router,
    paths: Vec<String>,
}

impl TestApp {
    fn new(state: Arc<State>, settings: Settings) -> Self {
        Self {
            paths: resources(&settings).into_keys().collect(),
            router: router(&state, settings),
            state,
        }
    }

    async fn answer(&self, request: Request) -> Response {
        self.router.clone().oneshot(request).await.unwrap()
    }
}

fn app() -> TestApp {
    TestApp::new(fixture::state(fixture::graph()), settings())
}

fn request(method: &str, uri: &str, headers: &[(&str, &str)]) -> Request {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::empty()).unwrap()
}

async fn get(app: &TestApp, uri: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, Bytes) {
    split(app.answer(request("GET", uri, headers)).await).await
}

async fn split(answer: Response) -> (u16, HeaderMap, Bytes) {
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status.as_u16(), parts.headers, body)
}

fn value(headers: &HeaderMap, name: &str) -> String {
    headers
        .get(name)
        .map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_graph_is_answered_on_both_paths_with_the_type_that_was_asked_for() {
    let app = app();
    let vendor = "application/vnd.redhat.cincinnati.v1+json";
    for path in [GRAPH, "/api/upgrades_info/graph"] {
        for (accept, expected) in [
            (None, vendor),
            (Some("*/*"), "application/json"),
            (Some("application/json"), "application/json"),
            (Some(vendor), vendor),
        ] {
            let headers: Vec<_> = accept.map(|accept| ("accept", accept)).into_iter().collect();
            let uri = format!("{path}?channel=stable-4.1&arch=amd64&version=4.1.0&id=x&unknown=y");
            let (status, headers, body) = get(&app, &uri, &headers).await;
            assert_eq!(
                (status, value(&headers, "content-type").as_str()),
                (200, expected)
            );
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["version"], 1);
            assert_eq!(body["nodes"].as_array().unwrap().len(), 3);
            assert_eq!(body["edges"], serde_json::json!([[1, 2]]));
            assert_eq!(body["conditionalEdges"][0]["edges"][0]["from"], "4.1.0");
        }
    }
}

#[tokio::test]
async fn refusals_come_in_the_order_and_words_of_the_protocol() {
    let app = app();
    for (query, accept, status, kind, text) in [
        (
            "",
            "text/html",
            406,
            "invalid_content_type",
            "invalid Content-Type requested",
        ),
        (
            "",
            "*/*",
            400,
            "missing_params",
            "mandatory client parameters missing: channel",
        ),
        (
            "arch=X",
            "*/*",
            400,
            "missing_params",
            "mandatory client parameters missing: channel",
        ),
        (
            "channel=A&arch=X",
            "*/*",
            400,
            "invalid_params",
            r"invalid client parameters: channel 'A' does not match regex '^[0-9a-z\-\.]+$'",
        ),
        (
            "channel=a&arch=x86_64",
            "*/*",
            400,
            "invalid_params",
            "invalid client parameters: arch 'x86_64' does not match regex '^[0-9a-z]+$'",
        ),
    ] {
        let (code, headers, body) = get(&app, &format!("{GRAPH}?{query}"), &[("accept", accept)]).await;
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (code, &body["kind"], &body["value"]),
            (status, &kind.into(), &text.into()),
            "{query}"
        );
        assert_eq!(value(&headers, "content-type"), "application/json");
    }
    let text = app.state.metrics().classic().unwrap();
    let counted = "cincinnati_pe_graph_response_errors_total{code=\"400\",kind=\"missing_params\"} 2";
    assert!(text.contains(counted), "{text}");
}

#[tokio::test]
async fn mandatory_parameters_are_those_of_the_configuration() {
    let mandatory = vec!["channel".to_owned(), "id".to_owned(), "version".to_owned()];
    let settings = Settings {
        mandatory,
        ..settings()
    };
    let app = TestApp::new(fixture::state(fixture::graph()), settings);
    let (code, _, body) = get(&app, &format!("{GRAPH}?channel=a"), &[]).await;
    assert_eq!(code, 400);
    assert!(
        String::from_utf8_lossy(&body).contains("missing: id, version"),
        "{body:?}"
    );
    assert_eq!(
        get(&app, &format!("{GRAPH}?channel=a&id=&version="), &[]).await.0,
        200
    );
}

#[tokio::test]
async fn a_channel_or_architecture_that_is_not_known_is_an_empty_graph() {
    let app = app();
    for query in ["channel=stable-9.9", "channel=stable-4.1&arch=sparc", "channel=4"] {
        let (code, _, body) = get(&app, &format!("{GRAPH}?{query}"), &[]).await;
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(code, 200);
        for list in ["nodes", "edges", "conditionalEdges"] {
            assert_eq!(body[list], serde_json::json!([]), "{query}");
        }
    }
}

#[tokio::test]
async fn a_client_that_has_the_graph_is_told_so_in_either_encoding() {
    let app = app();
    let uri = format!("{GRAPH}?channel=stable-4.1");
    let mut tags = Vec::new();
    for encoding in ["identity", "gzip"] {
        let (_, headers, body) = get(&app, &uri, &[("accept-encoding", encoding)]).await;
        let etag = value(&headers, "etag");
        assert_eq!(value(&headers, "vary"), "Accept, Accept-Encoding");
        assert_eq!(value(&headers, "cache-control"), "no-cache");
        let expected = if encoding == "gzip" { "gzip" } else { "" };
        assert_eq!(value(&headers, "content-encoding"), expected);
        assert!(!body.is_empty());
        for known in [etag.clone(), format!("\"x\", W/{etag}"), "*".to_owned()] {
            let sent = [("accept-encoding", encoding), ("if-none-match", known.as_str())];
            let (code, headers, body) = get(&app, &uri, &sent).await;
            assert_eq!(
                (code, value(&headers, "etag"), body.len()),
                (304, etag.clone(), 0)
            );
            assert_eq!(value(&headers, "vary"), "Accept, Accept-Encoding");
        }
        tags.push(etag);
    }
    assert_ne!(tags[0], tags[1]);
    let other = [
        ("accept-encoding", "identity"),
        ("if-none-match", tags[1].as_str()),
    ];
    assert_eq!(get(&app, &uri, &other).await.0, 200);
    let none = [("accept-encoding", "identity;q=0, br")];
    assert_eq!(get(&app, &uri, &none).await.0, 406);
}

#[tokio::test]
async fn methods_and_paths_that_are_not_served_say_so() {
    let app = app();
    for (method, path, expected) in [
        ("POST", GRAPH, 405),
        ("PUT", "/metrics", 405),
        ("TRACE", "/livez", 405),
        ("GET", "/", 404),
        ("POST", "/nothing", 404),
        ("GET", "/api/upgrades_info/v1/graph/", 404),
        ("GET", "/v1/graph", 404),
        ("OPTIONS", GRAPH, 204),
    ] {
        let (code, headers, body) = split(app.answer(request(method, path, &[])).await).await;
        assert_eq!((code, body.len()), (expected, 0), "{method} {path}");
        let allow = if expected == 404 { "" } else { "GET, HEAD, OPTIONS" };
        assert_eq!(value(&headers, "allow"), allow, "{method} {path}");
        assert_eq!(value(&headers, "access-control-allow-origin"), "*");
    }
    let (_, headers, _) = split(
        app.answer(request("OPTIONS", GRAPH, &[("origin", "https://x")]))
            .await,
    )
    .await;
    assert_eq!(value(&headers, "access-control-allow-methods"), "GET, HEAD");
}

#[tokio::test]
async fn a_request_with_a_body_is_refused_and_its_connection_closed() {
    let app = app();
    let request = Request::builder().uri(GRAPH).body(Body::from("x")).unwrap();
    let (code, headers, _) = split(app.answer(request).await).await;
    assert_eq!((code, value(&headers, "connection").as_str()), (413, "close"));
}

#[tokio::test]
async fn without_a_graph_clients_are_sent_away_and_probes_say_why() {
    let state = Arc::new(State::new(Arc::new(Metrics::new())));
    state.source(
        crate::metrics::Source::GraphData,
        Some("gd: not found".to_owned()),
    );
    let app = TestApp::new(Arc::clone(&state), settings());
    for path in [
        format!("{GRAPH}?channel=a"),
        "/v1/whole-graph".to_owned(),
        "/v1/channels".to_owned(),
    ] {
        let (code, headers, body) = get(&app, &path, &[]).await;
        assert_eq!(
            (code, value(&headers, "retry-after").as_str()),
            (503, "10"),
            "{path}"
        );
        assert!(
            String::from_utf8_lossy(&body).contains("failed_upstream_fetch"),
            "{path}"
        );
    }
    assert_eq!(get(&app, "/livez", &[]).await.0, 200);
    for path in ["/readyz", "/readiness"] {
        let (code, _, body) = get(&app, path, &[]).await;
        assert_eq!(
            (code, body),
            (503, Bytes::from("no graph yet\ngraph_data: gd: not found\n"))
        );
    }
    state.publish(fixture::snapshot(fixture::graph()));
    for path in ["/readyz", "/readiness", "/livez", "/liveness"] {
        assert_eq!(get(&app, path, &[]).await.0, 200, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refresher_that_gives_no_sign_of_life_makes_the_service_dead() {
    let state = Arc::new(State::new(Arc::new(Metrics::new())));
    let app = TestApp::new(Arc::clone(&state), settings());
    state.beat();
    tokio::time::advance(crate::state::MAX_SILENCE).await;
    assert_eq!(get(&app, "/livez", &[]).await.0, 200);
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let (code, _, body) = get(&app, "/livez", &[]).await;
    assert_eq!(code, 503);
    assert!(String::from_utf8_lossy(&body).contains("no sign of life for 901 s"));
    state.beat();
    assert_eq!(get(&app, "/livez", &[]).await.0, 200);
}

#[tokio::test]
async fn questions_beyond_the_protocol_are_answered_with_and_without_the_prefix() {
    let app = app();
    for base in ["", "/api/upgrades_info"] {
        let ask = async |rest: &str| {
            let (code, headers, body) = get(&app, &format!("{base}/v1/{rest}"), &[]).await;
            assert_eq!(value(&headers, "content-type"), "application/json", "{rest}");
            (code, serde_json::from_slice::<serde_json::Value>(&body).unwrap())
        };
        let (code, channels) = ask("channels").await;
        assert_eq!(
            (code, channels["channels"][0]["arches"][0]["releases"].as_u64()),
            (200, Some(3))
        );
        let (code, paths) = ask("paths?from=4.1.1&to=4.1.2").await;
        assert_eq!(
            (code, &paths["paths"][0]["hops"][0]["to"]),
            (200, &"4.1.2".into())
        );
        assert_eq!(paths["paths"][0]["hops"][0]["channel"], "stable-4.1");
        let (_, paths) = ask("paths?from=4.1.1&to=4.1.2&channels=fast,stable").await;
        assert_eq!(paths["paths"][0]["hops"][0]["channel"], "fast-4.1");
        let (code, paths) = ask("paths?from=4.1.0&to=4.1.2").await;
        assert!(code == 200 && paths["unreachable"].is_object(), "{paths}");
        let (_, paths) = ask("paths?from=4.1.0&to=4.1.2&accept=Leak").await;
        assert_eq!(paths["paths"][0]["hops"][0]["risks"][0]["name"], "Leak");
        let (code, explained) = ask("explain?from=4.1.0&to=4.1.2").await;
        assert_eq!(
            (code, &explained["causes"][0]["file"]),
            (200, &"blocked-edges/4.1.2-Leak.yaml".into())
        );
        for (rest, expected) in [
            ("paths?from=4.1.0", (400, "missing_params")),
            ("paths?from=x&to=4.1.2", (400, "invalid_params")),
            (
                "paths?from=4.1.0&to=4.1.2&conditional=maybe",
                (400, "invalid_params"),
            ),
            ("paths?from=4.1.0&to=4.1.2&limit=99", (400, "invalid_params")),
            ("paths?from=4.1.0&to=4.9.9", (404, "does_not_exist")),
            ("explain?to=4.1.0", (400, "missing_params")),
            ("explain?from=4.1.0&to=4.9.9", (404, "does_not_exist")),
            ("explain?from=4.0.9&to=4.1.0", (404, "does_not_exist")),
            ("explain?from=4.1.0&to=4.1.1&arch=s390x", (404, "does_not_exist")),
            ("channels?arch=X", (400, "invalid_params")),
        ] {
            let (code, error) = ask(rest).await;
            assert_eq!((code, error["kind"].as_str().unwrap()), expected, "{rest}");
        }
    }
}

#[tokio::test]
async fn slimming_is_off_unless_it_is_configured() {
    let uri = format!("{GRAPH}?channel=stable-4.1&version=4.1.1");
    let nodes = async |app: &TestApp| {
        let body: serde_json::Value = serde_json::from_slice(&get(app, &uri, &[]).await.2).unwrap();
        body["nodes"].as_array().unwrap().len()
    };
    assert_eq!(nodes(&app()).await, 3);
    let slim = TestApp::new(
        fixture::state(fixture::graph()),
        Settings {
            slim: true,
            ..settings()
        },
    );
    assert_eq!(nodes(&slim).await, 2);
}

#[tokio::test]
async fn probes_can_be_served_apart() {
    let settings = Settings {
        graph: false,
        ..settings()
    };
    let app = TestApp::new(fixture::state(fixture::graph()), settings);
    assert_eq!(
        app.paths,
        ["/liveness", "/livez", "/metrics", "/readiness", "/readyz"]
    );
    let (code, headers, body) = get(&app, "/metrics", &[("accept", "application/openmetrics-text")]).await;
    assert_eq!(code, 200);
    assert!(value(&headers, "content-type").starts_with("application/openmetrics-text"));
    assert!(body.ends_with(b"# EOF\n"));
}

/// Every path, parameter, status and content type of the document is held against real answers, and every route against
/// the document.
#[tokio::test]
async fn the_openapi_document_is_true() {
    for prefix in ["", "/api/upgrades_info"] {
        let mandatory = vec!["channel".to_owned(), "id".to_owned()];
        let settings = Settings {
            prefix: prefix.to_owned(),
            mandatory,
            ..settings()
        };
        let served = TestApp::new(fixture::state(fixture::graph()), settings.clone());
        let unready = TestApp::new(Arc::new(State::new(Arc::new(Metrics::new()))), settings);
        let (_, _, body) = get(&served, "/v1/openapi", &[]).await;
        let document: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(document["openapi"], "3.0.3");
        let paths = document["paths"].as_object().unwrap();
        let mut documented: Vec<&str> = paths.keys().map(String::as_str).collect();
        documented.sort_unstable();
        assert_eq!(documented, served.paths);
        for (path, item) in paths {
            hold(&served, &unready, path, &item["get"]).await;
        }
    }
}

async fn hold(served: &TestApp, unready: &TestApp, path: &str, operation: &serde_json::Value) {
    let parameters = operation["parameters"].as_array().unwrap();
    let required: Vec<&str> = parameters
        .iter()
        .filter(|parameter| parameter["required"] == true)
        .map(|parameter| parameter["name"].as_str().unwrap())
        .collect();
    let example = |name: &str| match name {
        "from" => "4.1.0",
        "to" => "4.1.2",
        "channel" => "stable-4.1",
        _ => "x",
    };
    let query: Vec<String> = required
        .iter()
        .map(|name| format!("{name}={}", example(name)))
        .collect();
    let good = format!("{path}?{}", query.join("&"));
    let mut seen = std::collections::BTreeSet::new();
    let mut note = async |app: &TestApp, uri: &str, headers: &[(&str, &str)]| {
        let (code, headers, body) = get(app, uri, headers).await;
        let response = &operation["responses"][code.to_string()];
        assert!(
            response.is_object(),
            "{uri} answers {code}, which is not documented"
        );
        let media_type = value(&headers, "content-type");
        let media_type = media_type.split(';').next().unwrap().to_owned();
        match response["content"].as_object() {
            None => assert!(body.is_empty(), "{uri} {code}"),
            Some(content) => assert!(content.contains_key(&media_type), "{uri} {code} {media_type}"),
        }
        if let Some(schema) = response["content"][&media_type]["schema"]["$ref"].as_str() {
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert!(body.is_object(), "{uri} is no {schema}");
        }
        seen.insert(code.to_string());
    };
    note(served, &good, &[]).await;
    note(served, &good, &[("accept", "text/html")]).await;
    note(served, &good, &[("if-none-match", "*")]).await;
    note(unready, &good, &[]).await;
    note(served, &format!("{good}&arch=X"), &[]).await;
    note(served, &good.replace("to=4.1.2", "to=4.9.9"), &[]).await;
    for name in &required {
        let without: Vec<&String> = query.iter().filter(|pair| !pair.starts_with(*name)).collect();
        let without: Vec<&str> = without.iter().map(|pair| pair.as_str()).collect();
        let (code, ..) = get(served, &format!("{path}?{}", without.join("&")), &[]).await;
        assert_eq!(code, 400, "{path} without {name}");
    }
    let responses = operation["responses"].as_object().unwrap();
    for code in responses.keys() {
        assert!(seen.contains(code), "{path} never answers {code}");
    }
}
