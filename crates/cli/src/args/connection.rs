//! Flags that say how to reach the API server. They are those of kubectl.

use std::path::PathBuf;

use chrono::TimeDelta;
use clap::Args;

use super::values::{Switch as _, request_timeout};

/// How to reach the hub or the cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct ConnectionArgs {
    /// Kubeconfig file. The default is KUBECONFIG, then ~/.kube/config, then the service account of the pod.
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use.
    #[arg(long, global = true, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// Cluster of the kubeconfig to use, instead of the context's.
    #[arg(
        long = "cluster",
        id = "kubeconfig_cluster",
        global = true,
        value_name = "NAME"
    )]
    pub cluster: Option<String>,
    /// User of the kubeconfig to use, instead of the context's.
    #[arg(long, global = true, value_name = "NAME")]
    pub user: Option<String>,
    /// Address of the API server.
    #[arg(short, long, global = true, value_name = "URL")]
    pub server: Option<String>,
    /// Bearer token for the API server.
    #[arg(long, global = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// File with the certificate of the authority that has signed the certificate of the API server.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        conflicts_with = "insecure_skip_tls_verify"
    )]
    pub certificate_authority: Option<PathBuf>,
    /// File with a client certificate.
    #[arg(long, global = true, value_name = "FILE", requires = "client_key")]
    pub client_certificate: Option<PathBuf>,
    /// File with the key of the client certificate.
    #[arg(long, global = true, value_name = "FILE", requires = "client_certificate")]
    pub client_key: Option<PathBuf>,
    /// Name that the certificate of the API server must have, if it is not the host of its address.
    #[arg(long, global = true, value_name = "NAME")]
    pub tls_server_name: Option<String>,
    /// Accept any certificate of the API server. The connection is then insecure.
    #[arg(long, global = true, switch())]
    pub insecure_skip_tls_verify: bool,
    /// User to impersonate.
    #[arg(long = "as", global = true, value_name = "USER")]
    pub impersonate: Option<String>,
    /// Group to impersonate. May be repeated.
    #[arg(
        long = "as-group",
        global = true,
        value_name = "GROUP",
        requires = "impersonate"
    )]
    pub impersonate_group: Vec<String>,
    /// UID to impersonate.
    #[arg(long = "as-uid", global = true, value_name = "UID", requires = "impersonate")]
    pub impersonate_uid: Option<String>,
    /// Time limit of one request to the hub or the cluster, such as 30s. It does not apply to watches. 0 means no limit.
    #[arg(long, global = true, value_name = "DURATION", default_value = "30s", value_parser = request_timeout)]
    pub request_timeout: TimeDelta,
}
