//! A hub on a port of this machine, for programs.

use std::convert::Infallible;
use std::net::SocketAddr;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::http::Service;
use crate::hub::Hub;

/// Serves a hub over HTTP for as long as the future is polled. Every client is an administrator.
pub async fn serve(listener: &TcpListener, hub: &Hub) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_connection(stream, hub.clone()));
        }
    }
}

async fn serve_connection(stream: TcpStream, hub: Hub) {
    // Small messages in both directions: waiting to fill packets would only add delay.
    let _ = stream.set_nodelay(true);
    let service = Service::new(&hub, "system:admin");
    let answer = service_fn(move |request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.handle(request).await) }
    });
    // A client that goes away ends its connection; there is nobody to tell.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

/// The kubeconfig of a hub that is served at an address.
#[must_use]
pub fn kubeconfig(address: SocketAddr) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: hub-sim\nclusters:\n- name: hub-sim\n  cluster:\n    server: \
         http://{address}\nusers:\n- name: admin\n  user: {{}}\ncontexts:\n- name: hub-sim\n  context:\n    cluster: \
         hub-sim\n    user: admin\n"
    )
}
