//! How a client takes what it reads.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http::Response;
use http_body_util::BodyExt as _;

use crate::answers::{Body, bookmark, plain, whole};
use crate::words;

/// What a watch delivers whose server has come to a standstill at a revision and does not notice.
pub(crate) fn nothing_new(revision: &str) -> BoxStream<'static, Result<Bytes, Infallible>> {
    let again = stream::repeat(bookmark(revision)).then(|line| async move {
        tokio::time::sleep(Duration::from_secs(15)).await;
        Ok(line)
    });
    again.boxed()
}

/// How a client takes what it reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    /// As it is.
    Plain,
    /// As a newer build, which knows the older words, too.
    Newer,
    /// A broken controller takes one text for another.
    Instead(&'static str, &'static str),
}

impl Reading {
    pub(crate) fn read(self, bytes: Bytes) -> Bytes {
        match self {
            Self::Plain => bytes,
            Self::Newer => Bytes::from(words::older(&String::from_utf8_lossy(&bytes))),
            Self::Instead(from, to) => Bytes::from(String::from_utf8_lossy(&bytes).replace(from, to)),
        }
    }

    pub(crate) async fn whole(self, response: Response<hub_sim::Body>) -> Response<Body> {
        if matches!(self, Self::Plain) {
            return response.map(plain);
        }
        let (parts, body) = response.into_parts();
        let bytes = body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default();
        Response::from_parts(parts, whole(self.read(bytes)))
    }
}
