//! A request on its way.

use api::names::PROBE;
use bytes::Bytes;
use http::Uri;
use serde_json::Value;

use crate::actor::Sender;
use crate::mutation::Seen;

/// A request on its way.
#[derive(Clone)]
pub struct Letter {
    pub(crate) parts: http::request::Parts,
    pub(crate) body: Bytes,
    pub(crate) verb: String,
    /// Client, verb and path: the name of its choices.
    pub(crate) name: String,
    /// How often that was sent.
    pub(crate) count: u64,
    /// Which hub it is for.
    pub(crate) hub: u64,
    pub(crate) sender: Sender,
}

/// Whether a request asks for a page of a list that is not its first.
pub(crate) fn is_further_page(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|part| part.starts_with("continue="))
}

/// The same request for a page of two objects, if it asks for a page.
pub(crate) fn with_small_page(uri: &Uri) -> Option<Uri> {
    let query = uri.query()?;
    let limit = query.split('&').find(|part| part.starts_with("limit="))?;
    let query = query.replacen(limit, "limit=2", 1);
    format!("{}?{query}", uri.path()).parse().ok()
}

impl Letter {
    pub(crate) fn path(&self) -> &str {
        self.parts.uri.path()
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Whether it has this verb, and this is in its path.
    pub(crate) fn is_to(&self, verb: &str, part: &str) -> bool {
        self.verb == verb && self.path().contains(part)
    }

    pub(crate) fn seen(&self) -> Seen<'_> {
        Seen {
            verb: &self.verb,
            path: self.path(),
            body: std::str::from_utf8(&self.body).unwrap_or_default(),
        }
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.verb == "WATCH"
    }

    pub(crate) fn is_further_page(&self) -> bool {
        is_further_page(&self.parts.uri)
    }

    pub(crate) fn is_lease(&self) -> bool {
        self.path().contains("/leases")
    }

    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "GET" | "WATCH")
    }

    /// Whether a schema or a policy of the hub may find something wrong with it. Reports have a fault of their own.
    pub(crate) fn may_be_invalid(&self) -> bool {
        let path = self.path();
        match self.verb.as_str() {
            "POST" => path.contains("/manifestworks") || self.is_lease(),
            "PUT" => self.is_lease(),
            "PATCH" => path.contains("/manifestworks") || path.contains("/managedclustersupgrades"),
            _ => false,
        }
    }

    /// Whether it tells the status of a probe.
    pub(crate) fn is_answer(&self) -> bool {
        let mut parts = self.path().rsplit('/');
        let (last, name) = (parts.next(), parts.next().unwrap_or_default());
        last == Some("status") && name.ends_with(PROBE)
    }

    pub(crate) fn is_about_reports(&self) -> bool {
        self.path().contains("/managedclustersupgradereports")
    }
}
