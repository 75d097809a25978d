//! Tests of the log with the real client of the hub.

use std::io::{Read as _, Seek as _};

use telemetry::logs::{Format, parse, subscriber};

/// A client that gets this text as every response.
fn client(answer: &'static str) -> kube::Client {
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(
            answer.as_bytes().to_vec(),
        )))
    });
    kube::Client::new(service, "default")
}

#[tokio::test]
async fn an_answer_that_cannot_be_decoded_is_never_printed_at_whatever_level() {
    let (mut log, path) = tempfile::NamedTempFile::new().unwrap().into_parts();
    let writer = std::sync::Mutex::new(log.try_clone().unwrap());
    let (subscriber, control) = subscriber(Format::Json, parse("info").unwrap(), writer);
    let _guard = tracing::subscriber::set_default(subscriber);
    for filter in [
        "info",
        "trace",
        "warn,kube_client=trace",
        "kube_client::client=trace",
        "kube_client::client=warn,trace",
    ] {
        control.set(filter).unwrap();
        tracing::error!("logged with {filter}");
        let works: kube::Api<api::views::ManifestWork> =
            kube::Api::all(client(r#"{"kind": "Status", "items": "TOPSECRET"}"#));
        assert!(works.list(&kube::api::ListParams::default()).await.is_err());
        assert!(works.get("x").await.is_err());
        assert!(
            works
                .delete("x", &kube::api::DeleteParams::default())
                .await
                .is_ok()
        );
    }
    let mut text = String::new();
    log.rewind().unwrap();
    log.read_to_string(&mut text).unwrap();
    assert!(text.contains("logged with trace"), "{text}");
    assert!(!text.contains("TOPSECRET"), "{text}");
    path.close().unwrap();
}
