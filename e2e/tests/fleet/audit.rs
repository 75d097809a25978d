//! The requests to an API server since a given time, by its audit log: counts and times that a slow test does not change.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use chrono::{DateTime, Utc};
use serde_json::Value;
use testenv::Hub;

/// Pause between two looks into the file.
const LOOK: Duration = Duration::from_millis(500);

/// A request that succeeded.
#[derive(Debug, Clone)]
pub struct Request {
    /// The user of the request.
    pub user: String,
    /// `create`, `patch` and so on, as the API server names them.
    pub verb: String,
    /// Plural resource; with a slash and the subresource if there is one.
    pub resource: String,
    /// Namespace of the object, empty if it has none.
    pub namespace: String,
    /// When the request arrived.
    pub at: DateTime<Utc>,
    /// It made the object: a creation, or an apply of something that was not there.
    pub made: bool,
}

/// The log of one API server from a moment on.
pub struct Audit {
    path: PathBuf,
    read: Mutex<Read>,
}

struct Read {
    to: u64,
    found: Vec<Request>,
}

impl Audit {
    /// From now on.
    pub fn from_now(plane: &Hub) -> Result<Self> {
        let path = plane.audit_log().context("there is no audit log")?.to_owned();
        let to = std::fs::metadata(&path)?.len();
        let found = Vec::new();
        Ok(Self {
            path,
            read: Mutex::new(Read { to, found }),
        })
    }

    /// The successful writes so far that match, in their order.
    pub fn writes(&self, wanted: impl Fn(&Request) -> bool) -> Result<Vec<Request>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(read.to))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        // The last line may be half written.
        let whole = bytes
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |end| end + 1);
        read.to += whole as u64;
        let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        read.found.extend(text.lines().filter_map(write));
        Ok(read
            .found
            .iter()
            .filter(|request| wanted(request))
            .cloned()
            .collect())
    }

    /// Waits for this number of them.
    pub async fn until(
        &self,
        what: &str,
        count: usize,
        timeout: Duration,
        wanted: impl Fn(&Request) -> bool,
    ) -> Result<Vec<Request>> {
        let deadline = Instant::now() + timeout;
        loop {
            let found = self.writes(&wanted)?;
            if found.len() >= count {
                return Ok(found);
            }
            if Instant::now() > deadline {
                bail!("not within {timeout:?}: {what}; there were {found:?}");
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// A line's request, if it is a write that succeeded.
fn write(line: &str) -> Option<Request> {
    // Most lines are reads, and not worth parsing.
    if ["get", "list", "watch"]
        .iter()
        .any(|verb| line.contains(&format!("\"verb\":\"{verb}\"")))
    {
        return None;
    }
    let event: Value = serde_json::from_str(line).ok()?;
    let code = event["responseStatus"]["code"].as_u64()?;
    if event["stage"] != "ResponseComplete" || !(200..300).contains(&code) {
        return None;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &event["objectRef"];
    let mut resource = text(&object["resource"]);
    if let Some(part) = object["subresource"].as_str() {
        resource = format!("{resource}/{part}");
    }
    let at = DateTime::parse_from_rfc3339(event["requestReceivedTimestamp"].as_str()?).ok()?;
    Some(Request {
        user: text(&event["user"]["username"]),
        verb: text(&event["verb"]),
        resource,
        namespace: text(&object["namespace"]),
        at: at.with_timezone(&Utc),
        made: code == 201,
    })
}

#[test]
fn writes_that_succeeded_are_told_from_reads_and_refusals() {
    let line = |verb: &str, code: u16| {
        format!(
            r#"{{"stage":"ResponseComplete","verb":"{verb}","user":{{"username":"agent"}},"objectRef":{{"resource":"jobs",
            "subresource":"status","namespace":"a"}},"responseStatus":{{"code":{code}}},
            "requestReceivedTimestamp":"2026-01-02T03:04:05.000006Z"}}"#
        )
    };
    let found = write(&line("patch", 200)).unwrap();
    assert_eq!(
        (
            found.user.as_str(),
            found.resource.as_str(),
            found.namespace.as_str()
        ),
        ("agent", "jobs/status", "a")
    );
    assert_eq!(found.at.timestamp_subsec_micros(), 6);
    assert!(!found.made && write(&line("patch", 201)).unwrap().made);
    assert!(write(&line("get", 200)).is_none());
    assert!(write(&line("create", 403)).is_none());
}
