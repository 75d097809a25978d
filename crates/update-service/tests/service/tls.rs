//! Certificates of our own.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use update_service::source::fetch::Fetcher;
use update_service::source::registry::client::{Client, Settings};

use crate::running::{QUICK, install_ring};

/// A registry that lists one tag over TLS; gives its address and its authority's certificate.
async fn start() -> (std::net::SocketAddr, String) {
    let body = r#"{"tags":["4.1.0"]}"#;
    start_with(format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
    .await
}

/// A server that gives one answer to everything over TLS; gives its address and its authority's certificate.
async fn start_with(answer: String) -> (std::net::SocketAddr, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (address, authority.pem())
}

#[tokio::test]
async fn a_registry_with_a_certificate_of_ones_own_is_trusted_if_its_authority_is_named() {
    install_ring();
    let (address, authority) = start().await;
    let tags = async |ca: &str| {
        let settings = Settings {
            backoff: QUICK,
            timeout: Duration::from_secs(2),
            ca: ca.as_bytes().to_vec(),
        };
        let name = format!("https://localhost:{}/ocp/release", address.port());
        Client::new(name.parse().unwrap(), None, &settings)
            .unwrap()
            .tags()
            .await
    };
    assert_eq!(tags(&authority).await.unwrap(), ["4.1.0"]);
    let error = tags("").await.unwrap_err().to_string();
    assert!(
        error.to_lowercase().contains("certificate") || error.contains("UnknownIssuer"),
        "{error}"
    );
}

#[tokio::test]
async fn no_redirect_leads_from_https_to_plain_http() {
    install_ring();
    let (asked, mut requests) = tokio::sync::mpsc::unbounded_channel();
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = plain.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = plain.accept().await.unwrap();
            asked.send(()).unwrap();
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")
                .await;
        }
    });
    let answer = format!(
        "HTTP/1.1 302 Found\r\nconnection: close\r\nlocation: http://{target}/graph\r\ncontent-length: 0\r\n\r\n"
    );
    let (address, authority) = start_with(answer).await;
    let fetcher = Fetcher::new(authority.as_bytes(), Duration::from_secs(2), QUICK).unwrap();
    let url = format!("https://localhost:{}/graph", address.port())
        .parse()
        .unwrap();
    let error = fetcher.get(&url, "application/json", None).await.unwrap_err();
    assert!(error.to_string().contains("302"), "{error}");
    assert!(requests.try_recv().is_err(), "the plain server was asked");
}
