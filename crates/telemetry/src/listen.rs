//! The listen address.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use tokio::net::{TcpListener, TcpSocket};

/// `HOST:PORT`, `[V6]:PORT`, or `:PORT` for all interfaces; port 0 picks a free port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddr(SocketAddr, bool);

impl Default for ListenAddr {
    fn default() -> Self {
        Self(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 8080)), true)
    }
}

impl FromStr for ListenAddr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(port) = text.strip_prefix(':') {
            let port = port
                .parse()
                .map_err(|_| format!("{port:?} is not a port; use for example :8080"))?;
            return Ok(Self(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), true));
        }
        text.replace("localhost:", "127.0.0.1:")
            .parse()
            .map(|address| Self(address, false))
            .map_err(|_| format!("{text:?} is not an address; use for example :8080 or 127.0.0.1:0"))
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.1 {
            write!(f, ":{}", self.0.port())
        } else {
            self.0.fmt(f)
        }
    }
}

impl<'de> Deserialize<'de> for ListenAddr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl ListenAddr {
    /// Binds the address and logs it in a line `listening address=...`. All interfaces means IPv6 and IPv4,
    /// or only IPv4 on a host without IPv6. Up to `backlog` connections wait in the kernel to be accepted.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound.
    pub fn bind(self, backlog: u32) -> std::io::Result<TcpListener> {
        let listener = match bind(self.0, backlog) {
            Err(_) if self.1 => bind((Ipv4Addr::UNSPECIFIED, self.0.port()).into(), backlog)?,
            bound => bound?,
        };
        tracing::info!(address = %listener.local_addr()?, "listening");
        Ok(listener)
    }
}

fn bind(address: SocketAddr, backlog: u32) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(backlog)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back_as_written() {
        for text in [":8080", "127.0.0.1:0", "[::1]:9"] {
            assert_eq!(text.parse::<ListenAddr>().unwrap().to_string(), text);
        }
        assert_eq!(
            "localhost:1".parse::<ListenAddr>().unwrap().to_string(),
            "127.0.0.1:1"
        );
        for text in ["8080", ":x", ":http", "", "example.com:80"] {
            assert!(
                text.parse::<ListenAddr>().unwrap_err().contains(":8080"),
                "{text}"
            );
        }
        assert_eq!(ListenAddr::default().to_string(), ":8080");
    }
}
