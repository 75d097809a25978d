//! Pushes a layout to a registry.

use anyhow::{Context as _, Result, bail, ensure};
use docker_credential::{CredentialRetrievalError, DockerCredential};
use http::HeaderValue;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};
use oci_spec::image::MediaType;

use super::layout::Layout;

/// The reference under which an image is to be pushed. It is read before anything is built, so that a typing error costs no time.
///
/// # Errors
/// It is no reference, or one with a digest.
pub(super) fn tagged(reference: &str) -> Result<Reference> {
    let tagged: Reference = reference.parse().with_context(|| {
        format!("{reference:?} names no image; write REGISTRY/REPOSITORY:TAG, such as registry.example.com/fleet/mcu:0.1.0")
    })?;
    ensure!(
        tagged.digest().is_none(),
        "{reference}: an image is pushed under a tag, not under a digest"
    );
    Ok(tagged)
}

/// Pushes a layout under a reference with a tag; returns the reference by digest. Credentials are those of docker or podman, if
/// they have any for the registry.
///
/// # Errors
/// The reference is not one, or the registry refuses something.
pub async fn push(layout: &Layout, reference: &str, plain_http: bool) -> Result<String> {
    // It fails when there is a provider already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let tagged = tagged(reference)?;
    let protocol = if plain_http {
        ClientProtocol::Http
    } else {
        ClientProtocol::Https
    };
    let client = Client::try_from(ClientConfig {
        protocol,
        ..ClientConfig::default()
    })?;
    let credentials = credentials(tagged.resolve_registry())?;
    client
        .auth(&tagged, &credentials, RegistryOperation::Push)
        .await?;
    for blob in &layout.blobs {
        client
            .push_blob(&tagged, blob.bytes.clone(), &blob.digest)
            .await
            .with_context(|| format!("cannot push {}", blob.digest))?;
    }
    for manifest in &layout.manifests {
        let by_digest = tagged.clone_with_digest(manifest.digest.clone());
        put(&client, &by_digest, &manifest.bytes, &MediaType::ImageManifest).await?;
    }
    put(&client, &tagged, &layout.index.bytes, &MediaType::ImageIndex).await?;
    let (registry, repository) = (tagged.registry(), tagged.repository());
    Ok(format!("{registry}/{repository}@{}", layout.digest()))
}

async fn put(client: &Client, reference: &Reference, bytes: &[u8], kind: &MediaType) -> Result<()> {
    let kind = HeaderValue::from_str(kind.as_ref())?;
    let pushed = client.push_manifest_raw(reference, bytes.to_vec(), kind).await;
    pushed
        .map(drop)
        .with_context(|| format!("cannot push {reference}"))
}

/// Under this name docker stores the login of Docker Hub, and asks credential helpers for it.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// Looks for a login by the name of its registry.
type Lookup<'a> = &'a dyn Fn(&str) -> Result<DockerCredential, CredentialRetrievalError>;

fn credentials(registry: &str) -> Result<RegistryAuth> {
    stored(
        registry,
        &[
            &docker_credential::get_credential,
            &docker_credential::get_podman_credential,
        ],
    )
}

/// The names under which a login of the registry may be stored. Podman and docker have different ones for Docker Hub.
fn names(registry: &str) -> Vec<&str> {
    match registry {
        "index.docker.io" | "registry-1.docker.io" => vec![DOCKER_HUB, registry, "docker.io"],
        _ => vec![registry],
    }
}

/// The first login with a user name that is found. A failure counts only if there is none, since a helper fails, too, where it knows
/// no login. So does an identity token: only docker exchanges it for a token that registries take.
fn stored(registry: &str, lookups: &[Lookup<'_>]) -> Result<RegistryAuth> {
    let none = |error: &CredentialRetrievalError| {
        matches!(
            error,
            CredentialRetrievalError::ConfigNotFound
                | CredentialRetrievalError::ConfigReadError
                | CredentialRetrievalError::NoCredentialConfigured
        )
    };
    let mut failure = None;
    let mut has_identity_token = false;
    for lookup in lookups {
        for name in names(registry) {
            match lookup(name) {
                Ok(DockerCredential::UsernamePassword(user, password)) => {
                    return Ok(RegistryAuth::Basic(user, password));
                }
                Ok(DockerCredential::IdentityToken(_)) => has_identity_token = true,
                Err(error) if none(&error) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
    }
    if has_identity_token {
        bail!(
            "the login for {registry} is an identity token, with which images cannot be pushed here: log in with a user name and a \
             password or an access token (docker login --username USER {registry})"
        );
    }
    match failure {
        Some(error) => Err(error).context("the credentials of docker or podman"),
        None => Ok(RegistryAuth::Anonymous),
    }
}

#[cfg(test)]
mod tests;
