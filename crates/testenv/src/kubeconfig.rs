//! Kubeconfigs of a hub: one cluster, one user, its CA inside.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

/// How one user reaches the hub.
#[derive(Debug, Clone)]
pub struct HubKubeconfig {
    server: String,
    ca_pem: String,
    user: String,
    token: String,
}

impl HubKubeconfig {
    pub(crate) fn new(server: &str, ca_pem: &str, user: &str, token: &str) -> Self {
        let [server, ca_pem, user, token] = [server, ca_pem, user, token].map(str::to_owned);
        Self {
            server,
            ca_pem,
            user,
            token,
        }
    }

    /// The API server's address, `https://127.0.0.1:<port>`.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The user's bearer token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The hub's certificate authority as PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The same hub by another user.
    #[must_use]
    pub fn with_token(&self, user: &str, token: &str) -> Self {
        Self::new(&self.server, &self.ca_pem, user, token)
    }

    fn to_value(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "hub", "cluster": {
                "server": self.server,
                "certificate-authority-data": ByteString(self.ca_pem.clone().into_bytes()),
            }}],
            "users": [{"name": self.user, "user": {"token": self.token}}],
            "contexts": [{"name": "hub", "context": {
                "cluster": "hub", "user": self.user, "namespace": "default",
            }}],
            "current-context": "hub",
        })
    }

    /// As YAML text.
    ///
    /// # Errors
    /// Never in practice: the value is plain.
    pub fn to_yaml(&self) -> Result<String> {
        serde_saphyr::to_string(&self.to_value()).context("kubeconfig to YAML")
    }

    /// As kube's type.
    ///
    /// # Errors
    /// Never in practice: the value has its shape.
    pub fn to_kube(&self) -> Result<Kubeconfig> {
        serde_json::from_value(self.to_value()).context("kubeconfig to kube")
    }

    /// Writes it to a file only its owner reads; returns the path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<PathBuf> {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        std::fs::OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(path)
            .and_then(|mut file| file.write_all(self.to_yaml().unwrap_or_default().as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path.to_path_buf())
    }

    /// Client configuration; a proxy of the environment is not used.
    ///
    /// # Errors
    /// The server address or the CA does not parse.
    pub async fn config(&self) -> Result<Config> {
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(self.to_kube()?, &options).await?;
        config.proxy_url = None;
        Ok(config)
    }

    /// A client of this user.
    ///
    /// # Errors
    /// As [`HubKubeconfig::config`].
    pub async fn client(&self) -> Result<Client> {
        Ok(Client::try_from(self.config().await?)?)
    }

    /// A client that acts as another user; this user must be allowed to impersonate.
    ///
    /// # Errors
    /// As [`HubKubeconfig::config`].
    pub async fn client_as(&self, user: &str, groups: &[&str]) -> Result<Client> {
        let mut config = self.config().await?;
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups =
            (!groups.is_empty()).then(|| groups.iter().map(|&group| group.to_owned()).collect());
        Ok(Client::try_from(config)?)
    }
}
