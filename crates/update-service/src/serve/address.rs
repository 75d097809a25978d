//! Where to listen.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use tokio::net::TcpListener;

use super::listener::{self, Limits};

/// `HOST:PORT`, `[V6]:PORT` or `:PORT` for all interfaces; port 0 picks a free one.
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
                .map_err(|_| format!("{port:?} is no port; use for example :8080"))?;
            return Ok(Self(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), true));
        }
        text.replace("localhost:", "127.0.0.1:")
            .parse()
            .map(|address| Self(address, false))
            .map_err(|_| format!("{text:?} is no address; use for example :8080 or 127.0.0.1:0"))
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
    /// Binds, and logs the bound address in a line `listening address=...`. All interfaces means IPv6 and IPv4, or
    /// IPv4 alone on a host without IPv6.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub fn bind(self, limits: &Limits) -> std::io::Result<TcpListener> {
        let listener = match listener::bind(self.0, limits) {
            Err(_) if self.1 => listener::bind((Ipv4Addr::UNSPECIFIED, self.0.port()).into(), limits)?,
            bound => bound?,
        };
        tracing::info!(address = %listener.local_addr()?, "listening");
        Ok(listener)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back_as_written() {
        for text in [":8080", "127.0.0.1:0", "[::1]:80"] {
            assert_eq!(text.parse::<ListenAddr>().unwrap().to_string(), text);
        }
        assert_eq!(
            "localhost:1".parse::<ListenAddr>().unwrap().to_string(),
            "127.0.0.1:1"
        );
        for text in ["8080", ":x", "", "example.com:80"] {
            assert!(
                text.parse::<ListenAddr>().unwrap_err().contains(":8080"),
                "{text}"
            );
        }
        assert_eq!(ListenAddr::default().to_string(), ":8080");
    }
}
