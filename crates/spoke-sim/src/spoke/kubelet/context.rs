//! What all pods share: access to the API server, and directories.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::fields;
use crate::spoke::setup::Image;
use crate::spoke::status_writer::Blackout;

/// How processes reach the API server.
#[derive(Clone, Debug)]
pub struct Access {
    server: String,
    authorities: String,
    insecure: bool,
    tls_server_name: Option<String>,
}

impl Access {
    /// The access of the simulator itself, but through the TCP proxy at `proxy` (`host:port`) if there is one.
    ///
    /// # Errors
    /// The file of the certificate authorities cannot be read.
    pub fn new(config: &Config, proxy: Option<&str>) -> io::Result<Self> {
        let mut pem = match &config.root_cert_file {
            Some(file) => std::fs::read_to_string(file)?,
            None => String::new(),
        };
        for certificate in config.root_cert.iter().flatten() {
            let body = base64::engine::general_purpose::STANDARD.encode(certificate);
            pem.push_str("-----BEGIN CERTIFICATE-----\n");
            for line in body.as_bytes().chunks(64) {
                pem.push_str(&String::from_utf8_lossy(line));
                pem.push('\n');
            }
            pem.push_str("-----END CERTIFICATE-----\n");
        }
        let host = config.cluster_url.host().unwrap_or("localhost").to_owned();
        let (server, tls_server_name) = match proxy {
            Some(proxy) => (format!("https://{proxy}"), Some(host)),
            None => (config.cluster_url.to_string(), None),
        };
        Ok(Self {
            server,
            authorities: base64::engine::general_purpose::STANDARD.encode(pem),
            insecure: config.accept_invalid_certs,
            tls_server_name: config.tls_server_name.clone().or(tls_server_name),
        })
    }

    /// A kubeconfig with the token of a `ServiceAccount`.
    #[must_use]
    pub fn kubeconfig(&self, namespace: &str, account: &str, token: &str) -> Value {
        let mut cluster = json!({"server": self.server});
        if self.insecure {
            cluster["insecure-skip-tls-verify"] = json!(true);
        } else {
            cluster["certificate-authority-data"] = json!(self.authorities);
        }
        if let Some(name) = &self.tls_server_name {
            cluster["tls-server-name"] = json!(name);
        }
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "pod",
            "clusters": [{"name": "spoke", "cluster": cluster}],
            "users": [{"name": account, "user": {"token": token}}],
            "contexts": [{"name": "pod", "context": {"cluster": "spoke", "user": account, "namespace": namespace}}],
        })
    }
}

/// What all pods share.
pub struct Context {
    pub(super) client: Client,
    pub(super) access: Access,
    pub(super) dir: PathBuf,
    pub(super) bin: PathBuf,
    pub(super) images: Vec<Image>,
    pub(super) seed: u64,
    pub(super) blackout: Blackout,
}

impl Context {
    /// Creates the directory of all pods, and in it the first directory on their PATH with `oc` and `kubectl`.
    ///
    /// # Errors
    /// The directories or links cannot be created.
    pub fn new(
        client: Client,
        access: Access,
        dir: &Path,
        kubectl: Option<&Path>,
        images: Vec<Image>,
        seed: u64,
        blackout: Blackout,
    ) -> io::Result<Self> {
        let dir = std::path::absolute(dir)?;
        let bin = dir.join("bin");
        std::fs::create_dir_all(dir.join("logs"))?;
        std::fs::create_dir_all(&bin)?;
        if let Some(kubectl) = kubectl {
            let kubectl = std::path::absolute(kubectl)?;
            for name in ["oc", "kubectl"] {
                let link = bin.join(name);
                match std::fs::remove_file(&link) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => std::os::unix::fs::symlink(&kubectl, &link)?,
                }
            }
        }
        Ok(Self {
            client,
            access,
            dir,
            bin,
            images,
            seed,
            blackout,
        })
    }

    /// The file for the output of a container.
    #[must_use]
    pub fn log(&self, pod: &Value, container: &str) -> PathBuf {
        self.dir.join("logs").join(log_name(pod, container))
    }
}

/// File name of a container's log.
pub(super) fn log_name(pod: &Value, container: &str) -> PathBuf {
    let of = |field| fields::text(pod, &["metadata", field]);
    PathBuf::from(format!("{}_{}_{container}.log", of("namespace"), of("name")))
}
