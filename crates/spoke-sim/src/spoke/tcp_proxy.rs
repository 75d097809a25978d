//! A TCP proxy in front of the cluster's API server that a fault can close.
//!
//! When a single node reboots, its API server is unreachable. The real server belongs to its starter, so the outage is
//! simulated in front of it: while the proxy is closed it drops open connections and refuses new ones. TLS passes through
//! untouched. The simulator itself does not use the proxy; it holds its own writes back instead.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::status_writer::Blackout;

/// Forwards connections of `listener` to `upstream` (`host:port`) until stopped, except during a blackout.
pub async fn run(listener: TcpListener, upstream: String, blackout: Blackout, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            // Dropped at once: the client sees the connection close before the first byte.
            Ok(_) if *blackout.borrow() => {}
            Ok((caller, peer)) => {
                connections.spawn(forward(caller, peer, upstream.clone(), blackout.clone()));
            }
            Err(error) => tracing::warn!(%error, "the TCP proxy cannot accept a connection"),
        }
    }
}

async fn forward(mut caller: TcpStream, peer: SocketAddr, upstream: String, mut blackout: Blackout) {
    let mut server = match TcpStream::connect(&upstream).await {
        Ok(server) => server,
        Err(error) => {
            tracing::debug!(%peer, %upstream, %error, "the TCP proxy cannot reach the API server");
            return;
        }
    };
    let _ = (caller.set_nodelay(true), server.set_nodelay(true));
    tokio::select! {
        biased;
        _ = copy_bidirectional(&mut caller, &mut server) => {}
        _ = blackout.wait_for(|dark| *dark) => tracing::debug!(%peer, "connection dropped by a simulated outage"),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::watch;
    use tokio_util::sync::CancellationToken;

    async fn echo() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut reader, mut writer) = stream.split();
                    let _ = tokio::io::copy(&mut reader, &mut writer).await;
                });
            }
        });
        address
    }

    async fn ask(stream: &mut TcpStream) -> std::io::Result<u8> {
        stream.write_u8(7).await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn an_outage_cuts_connections_and_refuses_new_ones_until_it_is_over() {
        let (dark, blackout) = watch::channel(false);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let running = tokio::spawn(super::run(listener, echo().await, blackout, stop.clone()));

        let mut open = TcpStream::connect(proxy).await.unwrap();
        assert_eq!(ask(&mut open).await.unwrap(), 7);
        dark.send_replace(true);
        assert!(open.read_u8().await.is_err(), "an open connection is cut");
        let mut refused = TcpStream::connect(proxy).await.unwrap();
        assert!(ask(&mut refused).await.is_err(), "a new one is closed");
        dark.send_replace(false);
        let mut again = TcpStream::connect(proxy).await.unwrap();
        assert_eq!(ask(&mut again).await.unwrap(), 7);
        stop.cancel();
        running.await.unwrap();
    }
}
