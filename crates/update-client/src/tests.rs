use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) {
    let mut head = [0; 4096];
    let _ = stream.read(&mut head).await;
    let text = format!("HTTP/1.1 {answer}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// A plain server, with the requests that it gets; they are redirected where `location` says so.
async fn plain(location: Option<String>) -> (u16, UnboundedReceiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (asked, requests) = unbounded_channel();
    tokio::spawn(async move {
        let said = location.map_or_else(
            || "200 OK\r\ncontent-length: 0".to_owned(),
            |to| format!("302 Found\r\nlocation: {to}"),
        );
        while let Ok((stream, _)) = listener.accept().await {
            let _ = asked.send(());
            answer(stream, &said).await;
        }
    });
    (port, requests)
}

/// A server over TLS that redirects to `location`, and a service that trusts it.
async fn safe(location: String) -> Service {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                answer(stream, &format!("302 Found\r\nlocation: {location}")).await;
            }
        }
    });
    let trusted = reqwest::Certificate::from_der(cert.der()).unwrap();
    let client = client().tls_certs_only([trusted]).build().unwrap();
    Service { base, client }
}

#[tokio::test]
async fn no_redirect_leads_from_https_to_plain_http() {
    let (port, mut requests) = plain(None).await;
    let service = safe(format!("http://127.0.0.1:{port}/v1/graph")).await;
    let Err(ServiceError::Unreachable(why)) = service.graph("stable-4.1", &Arch::amd64()).await else {
        panic!("it was followed");
    };
    assert!(why.contains("from https to plain http"), "{why}");
    assert!(requests.try_recv().is_err(), "the plain server was asked");
}

#[tokio::test]
async fn other_redirects_are_followed_up_to_a_bound() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (end, mut requests) = plain(None).await;
    let (start, _) = plain(Some(format!("http://127.0.0.1:{end}/"))).await;
    let service = Service::new(&format!("http://127.0.0.1:{start}"), "tests", &[], None).unwrap();
    assert_eq!(service.graph("stable-4.1", &Arch::amd64()).await, Ok(Vec::new()));
    assert!(requests.try_recv().is_ok());
    let (circle, _) = plain(Some("/".to_owned())).await;
    let service = Service::new(&format!("http://127.0.0.1:{circle}"), "tests", &[], None).unwrap();
    let Err(ServiceError::Unreachable(why)) = service.graph("stable-4.1", &Arch::amd64()).await else {
        panic!("it never ends");
    };
    assert!(why.contains("more than 5 redirects"), "{why}");
}

#[test]
fn the_address_of_an_endpoint_leads_to_its_service() {
    let plain = "https://api.openshift.com/api/upgrades_info";
    for ending in ["", "/", "/graph", "/v1/graph", "/v1/graph/"] {
        assert_eq!(
            base(&format!("{plain}{ending}")),
            Ok(plain.to_owned()),
            "{ending}"
        );
    }
    assert_eq!(
        base("http://127.0.0.1:8080"),
        Ok("http://127.0.0.1:8080".to_owned())
    );
    for wrong in ["", "graph.json", "ftp://x", "https://x/graph?channel=a"] {
        assert!(base(wrong).is_err(), "{wrong}");
    }
}
