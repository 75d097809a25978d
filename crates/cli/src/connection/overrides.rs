//! Flags that override what the kubeconfig says of the server and of the user, as in kubectl.

use std::path::Path;

use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};

use crate::args::ConnectionArgs;

/// Name of an entry that only flags describe.
const FLAGS: &str = "kubectl-mcu-flags";

/// True if flags choose entries of the kubeconfig.
pub(super) const fn names_entries(flags: &ConnectionArgs) -> bool {
    flags.context.is_some() || flags.cluster.is_some() || flags.user.is_some()
}

/// True if flags override entries.
pub(super) const fn any(flags: &ConnectionArgs) -> bool {
    flags.server.is_some()
        || flags.token.is_some()
        || flags.certificate_authority.is_some()
        || flags.client_certificate.is_some()
        || flags.tls_server_name.is_some()
        || flags.insecure_skip_tls_verify
}

/// Overrides the entries that the context, or the flags, name. Entries that do not exist are added, so that a server and a token
/// are enough.
pub(super) fn apply(kubeconfig: &mut Kubeconfig, flags: &ConnectionArgs, options: &mut KubeConfigOptions) {
    let context_name = options
        .context
        .clone()
        .or_else(|| kubeconfig.current_context.clone());
    let context = kubeconfig
        .contexts
        .iter()
        .find(|entry| Some(&entry.name) == context_name.as_ref())
        .and_then(|entry| entry.context.clone());
    let cluster_name = options
        .cluster
        .clone()
        .or_else(|| context.as_ref().map(|context| context.cluster.clone()))
        .unwrap_or_else(|| FLAGS.to_owned());
    let user_name = options
        .user
        .clone()
        .or_else(|| context.as_ref().and_then(|context| context.user.clone()))
        .unwrap_or_else(|| FLAGS.to_owned());
    override_cluster(cluster_of(kubeconfig, &cluster_name), flags);
    override_user(user_of(kubeconfig, &user_name), flags);
    // A context that does not exist stays an error, unless none was asked for.
    if context.is_none() && options.context.is_none() {
        kubeconfig.contexts.push(NamedContext {
            name: FLAGS.to_owned(),
            context: Some(Context {
                cluster: cluster_name,
                user: Some(user_name),
                ..Context::default()
            }),
            ..NamedContext::default()
        });
        options.context = Some(FLAGS.to_owned());
    }
}

fn cluster_of<'a>(kubeconfig: &'a mut Kubeconfig, name: &str) -> &'a mut Cluster {
    let at = kubeconfig.clusters.iter().position(|entry| entry.name == name);
    let at = at.unwrap_or_else(|| {
        kubeconfig.clusters.push(NamedCluster {
            name: name.to_owned(),
            ..NamedCluster::default()
        });
        kubeconfig.clusters.len() - 1
    });
    kubeconfig.clusters[at].cluster.get_or_insert_default()
}

fn user_of<'a>(kubeconfig: &'a mut Kubeconfig, name: &str) -> &'a mut AuthInfo {
    let at = kubeconfig.auth_infos.iter().position(|entry| entry.name == name);
    let at = at.unwrap_or_else(|| {
        kubeconfig.auth_infos.push(NamedAuthInfo {
            name: name.to_owned(),
            ..NamedAuthInfo::default()
        });
        kubeconfig.auth_infos.len() - 1
    });
    kubeconfig.auth_infos[at].auth_info.get_or_insert_default()
}

fn override_cluster(cluster: &mut Cluster, flags: &ConnectionArgs) {
    if let Some(server) = &flags.server {
        cluster.server = Some(server.clone());
    }
    if let Some(name) = &flags.tls_server_name {
        cluster.tls_server_name = Some(name.clone());
    }
    if let Some(file) = &flags.certificate_authority {
        cluster.certificate_authority = Some(text(file));
        cluster.certificate_authority_data = None;
        cluster.insecure_skip_tls_verify = None;
    }
    if flags.insecure_skip_tls_verify {
        cluster.insecure_skip_tls_verify = Some(true);
        (cluster.certificate_authority, cluster.certificate_authority_data) = (None, None);
    }
}

/// Another way to log in replaces that of the kubeconfig.
fn override_user(user: &mut AuthInfo, flags: &ConnectionArgs) {
    if let Some(token) = &flags.token {
        *user = AuthInfo {
            token: Some(token.clone().into()),
            ..AuthInfo::default()
        };
    }
    if let (Some(certificate), Some(key)) = (&flags.client_certificate, &flags.client_key) {
        *user = AuthInfo {
            token: user.token.take().filter(|_| flags.token.is_some()),
            client_certificate: Some(text(certificate)),
            client_key: Some(text(key)),
            ..AuthInfo::default()
        };
    }
}

fn text(file: &Path) -> String {
    file.display().to_string()
}
