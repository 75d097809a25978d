//! Credentials for a registry, from a docker config.
//!
//! As in podman and the kubelet, the entry (`auths`) with the longest name wins that is the repository or a leading part of
//! its path. Credential helpers are not supported, because they are programs to run.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::Deserialize;

use super::name::Repository;

/// User and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// User.
    pub username: String,
    /// Password or token.
    pub password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// The logins of a docker config.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    logins: BTreeMap<String, Login>,
}

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadCredentials {
    /// Not JSON of the expected form.
    #[error("not a docker config: {0}")]
    Malformed(#[from] serde_json::Error),
    /// One entry is wrong.
    #[error("the entry of {name}: {why}")]
    Entry {
        /// Name under `auths`.
        name: String,
        /// What is wrong.
        why: &'static str,
    },
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    auth: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
}

impl Credentials {
    /// Reads `{"auths": {NAME: {"auth": base64(user:password)} | {"username", "password"}}}`. Entries without either
    /// are left out: they name a helper or an identity token, which are not supported.
    ///
    /// # Errors
    /// [`BadCredentials`], which never quotes a secret.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadCredentials> {
        let file: File = serde_json::from_slice(bytes)?;
        let mut logins = BTreeMap::new();
        for (name, entry) in file.auths {
            let login = if !entry.auth.is_empty() {
                decode(&entry.auth).map_err(|why| BadCredentials::Entry {
                    name: name.clone(),
                    why,
                })?
            } else if !entry.username.is_empty() {
                Login {
                    username: entry.username,
                    password: entry.password,
                }
            } else {
                continue;
            };
            logins.insert(plain_name(&name), login);
        }
        Ok(Self { logins })
    }

    /// The login with the longest name that covers the repository.
    #[must_use]
    pub fn find(&self, repository: &Repository) -> Option<&Login> {
        let mut name = repository.to_string();
        loop {
            if let Some(login) = self.logins.get(&name) {
                return Some(login);
            }
            name.truncate(name.rfind('/')?);
        }
    }
}

fn decode(auth: &str) -> Result<Login, &'static str> {
    let trimmed = auth.trim();
    let bytes = STANDARD
        .decode(trimmed)
        .or_else(|_| STANDARD_NO_PAD.decode(trimmed))
        .map_err(|_| "auth is not base64")?;
    let text = String::from_utf8(bytes).map_err(|_| "auth is not text")?;
    let (username, password) = text.split_once(':').ok_or("auth is not user:password")?;
    Ok(Login {
        username: username.to_owned(),
        // Some writers end it with a zero byte.
        password: password.trim_end_matches('\0').to_owned(),
    })
}

/// `https://index.docker.io/v1/` and the like, as the old docker wrote them, are the names of hosts.
fn plain_name(name: &str) -> String {
    let bare = name
        .trim_start_matches("https://")
        .trim_start_matches("http://")
        .trim_end_matches('/');
    let bare = bare
        .strip_suffix("/v1")
        .or_else(|| bare.strip_suffix("/v2"))
        .unwrap_or(bare);
    if bare == "index.docker.io" {
        "docker.io".to_owned()
    } else {
        bare.to_owned()
    }
}

#[cfg(test)]
mod tests;
