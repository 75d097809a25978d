//! The client of the hub, which notices when the other end of a connection is gone.
//!
//! kube's client does not use TCP keep-alive. If the other end vanishes silently (a node loses power, a load
//! balancer drops the connection), the connection looks alive until someone writes to it.

use std::time::Duration;

use anyhow::Context;
use http::Request;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use tower::util::option_layer;
use tower::{BoxError, ServiceExt};

/// How long a connection is idle before it is probed, and the time between two probes.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));
/// Number of unanswered probes that ends the connection.
const PROBES: u32 = 3;
/// Sent data must be acknowledged within this time.
#[cfg(target_os = "linux")]
const ACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Creates a client of the hub without contacting it.
///
/// # Errors
/// Returns an error if the configuration is wrong or names an unsupported kind of proxy.
pub fn client(config: Config) -> anyhow::Result<Client> {
    if config.proxy_url.is_some() {
        // kube connects through proxies.
        return Client::try_from(config).context("client of the hub");
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_keepalive(Some(KEEPALIVE.0));
    tcp.set_keepalive_interval(Some(KEEPALIVE.1));
    tcp.set_keepalive_retries(Some(PROBES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(ACKNOWLEDGED));
    let tls = config
        .rustls_https_connector_with_connector(tcp)
        .context("TLS of the hub's client")?;
    let mut connector = TimeoutConnector::new(tls);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connector);
    let http = ServiceExt::<Request<Body>>::map_err(http, BoxError::from);
    let auth = config.auth_layer().context("credentials of the hub's client")?;
    let headers = config
        .extra_headers_layer()
        .context("headers of the hub's client")?;
    Ok(ClientBuilder::new(http, config.default_namespace.clone())
        .with_layer(&headers)
        .with_layer(&option_layer(auth))
        .with_layer(&config.base_uri_layer())
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_server_that_says_nothing_is_given_up_and_an_idle_connection_is_none_of_its_kind() {
        drop(rustls::crypto::ring::default_provider().install_default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/base", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut heads = Vec::new();
            // Two requests on one connection: the first is answered, the second is not.
            for answered in [true, false] {
                let mut head = vec![0; 4096];
                let length = stream.read(&mut head).await.unwrap();
                heads.push(String::from_utf8_lossy(&head[..length]).into_owned());
                if answered {
                    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            }
            let mut rest = Vec::new();
            let ended = stream.read_to_end(&mut rest).await;
            (heads, ended.is_ok())
        });
        let mut config = Config::new(url.parse().unwrap());
        config.read_timeout = Some(Duration::from_millis(600));
        config.reset_reader_on_write = true;
        config.auth_info.token = Some("secret".to_owned().into());
        let client = client(config).unwrap();
        let ask = || Request::get("/version").body(Vec::new()).unwrap();
        assert_eq!(client.request_text(ask()).await.unwrap(), "{}");
        tokio::time::sleep(Duration::from_millis(400)).await;
        let begun = Instant::now();
        assert!(client.request_text(ask()).await.is_err());
        let took = begun.elapsed();
        assert!(
            took >= Duration::from_millis(500),
            "the limit begins with the request: {took:?}"
        );
        let (heads, closed) = server.await.unwrap();
        assert!(closed && heads.iter().all(|head| head.starts_with("GET /base/version")));
        assert!(
            heads[0]
                .to_ascii_lowercase()
                .contains("authorization: bearer secret")
        );
    }
}
