//! The API server's audit log as a list of requests; [`measures`] says what they come to.

pub mod measures;

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use chrono::{DateTime, Utc};
use serde::Deserialize;

/// One answered request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The user of the request.
    pub user: String,
    /// `get`, `create`, `patch` and so on, as the API server names them.
    pub verb: String,
    /// Plural resource, with `/<subresource>` if there is one; the path's kind of resource otherwise empty.
    pub resource: String,
    /// Namespace of the object, empty if it has none.
    pub namespace: String,
    /// Name of the object, empty for collections.
    pub name: String,
    /// HTTP status of the answer.
    pub code: u16,
    /// When the request arrived.
    pub received: DateTime<Utc>,
    /// When the answer was complete; for a watch: when it began.
    pub answered: DateTime<Utc>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    stage: String,
    verb: String,
    user: User,
    #[serde(default)]
    object_ref: Reference,
    #[serde(default)]
    response_status: Status,
    request_received_timestamp: DateTime<Utc>,
    stage_timestamp: DateTime<Utc>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reference {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
}

impl Line {
    /// A watch counts when it begins, every other request when it is answered.
    fn request(self) -> Option<Request> {
        let counts = match self.verb.as_str() {
            "watch" => self.stage == "ResponseStarted",
            _ => self.stage == "ResponseComplete" || self.stage == "Panic",
        };
        let mut resource = self.object_ref.resource;
        if !self.object_ref.subresource.is_empty() {
            resource.push('/');
            resource.push_str(&self.object_ref.subresource);
        }
        counts.then_some(Request {
            user: self.user.username,
            verb: self.verb,
            resource,
            namespace: self.object_ref.namespace,
            name: self.object_ref.name,
            code: self.response_status.code,
            received: self.request_received_timestamp,
            answered: self.stage_timestamp,
        })
    }
}

/// Reads an audit log piece by piece, keeping the requests of some users.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    users: Vec<String>,
    offset: u64,
    rest: Vec<u8>,
}

impl AuditLog {
    /// From the beginning of the file.
    #[must_use]
    pub fn new(path: &Path, users: &[&str]) -> Self {
        Self {
            path: path.to_path_buf(),
            users: users.iter().map(|&user| user.to_owned()).collect(),
            offset: 0,
            rest: Vec::new(),
        }
    }

    /// Forgets what was written so far.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn skip(&mut self) -> Result<()> {
        self.offset = std::fs::metadata(&self.path)
            .with_context(|| self.path.display().to_string())?
            .len();
        self.rest.clear();
        Ok(())
    }

    /// What was written since the last call, in the order of the file; a line that is not whole yet waits.
    ///
    /// # Errors
    /// The file cannot be read or a line is no audit event.
    pub fn read(&mut self) -> Result<Vec<Request>> {
        let mut file = File::open(&self.path).with_context(|| self.path.display().to_string())?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = std::mem::take(&mut self.rest);
        self.offset += file.read_to_end(&mut bytes)? as u64;
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        self.rest = bytes.split_off(whole);
        let mut found = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line: Line = serde_json::from_slice(line).context("not an audit event")?;
            found.extend(
                line.request()
                    .filter(|request| self.users.contains(&request.user)),
            );
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn event(user: &str, verb: &str, stage: &str) -> String {
        format!(
            r#"{{"kind":"Event","stage":"{stage}","verb":"{verb}","user":{{"username":"{user}"}},
            "objectRef":{{"resource":"manifestworks","subresource":"status","namespace":"a","name":"w"}},
            "responseStatus":{{"metadata":{{}},"code":200}},
            "requestReceivedTimestamp":"2026-01-01T00:00:00.000001Z","stageTimestamp":"2026-01-01T00:00:00.000900Z"}}"#
        )
        .replace('\n', "")
            + "\n"
    }

    #[test]
    fn requests_of_other_users_are_left_out_and_half_a_line_waits() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut log = AuditLog::new(file.path(), &["us"]);
        let all = [
            event("us", "patch", "ResponseComplete"),
            event("others", "get", "ResponseComplete"),
        ]
        .concat();
        let (first, second) = all.split_at(all.len() - 10);
        file.as_file().write_all(first.as_bytes()).unwrap();
        let found = log.read().unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].resource, "manifestworks/status");
        assert_eq!(
            (found[0].answered - found[0].received).num_microseconds(),
            Some(899)
        );
        file.as_file().write_all(second.as_bytes()).unwrap();
        assert_eq!(log.read().unwrap(), []);
    }

    #[test]
    fn a_watch_counts_once_and_at_its_beginning() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut log = AuditLog::new(file.path(), &["us"]);
        let both = [
            event("us", "watch", "ResponseStarted"),
            event("us", "watch", "ResponseComplete"),
        ]
        .concat();
        file.as_file().write_all(both.as_bytes()).unwrap();
        assert_eq!(log.read().unwrap().len(), 1);
    }
}
