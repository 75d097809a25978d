//! Pushes a layout to a registry.

use anyhow::{Context as _, Result, ensure};
use docker_credential::{CredentialRetrievalError, DockerCredential};
use http::HeaderValue;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};
use oci_spec::image::MediaType;

use super::layout::Layout;

/// Pushes a layout under a reference with a tag; returns the reference by digest. Credentials are those of docker or podman, if
/// they have any for the registry.
///
/// # Errors
/// The reference is not one, or the registry refuses something.
pub async fn push(layout: &Layout, reference: &str, plain_http: bool) -> Result<String> {
    // It fails when there is a provider already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let tagged: Reference = reference
        .parse()
        .with_context(|| format!("{reference} names no image"))?;
    ensure!(
        tagged.digest().is_none(),
        "{reference}: an image is pushed under a tag, not under a digest"
    );
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

fn credentials(registry: &str) -> Result<RegistryAuth> {
    let none = |error: &CredentialRetrievalError| {
        matches!(
            error,
            CredentialRetrievalError::ConfigNotFound
                | CredentialRetrievalError::ConfigReadError
                | CredentialRetrievalError::NoCredentialConfigured
        )
    };
    for found in [
        docker_credential::get_credential(registry),
        docker_credential::get_podman_credential(registry),
    ] {
        match found {
            Ok(DockerCredential::UsernamePassword(user, password)) => {
                return Ok(RegistryAuth::Basic(user, password));
            }
            Ok(DockerCredential::IdentityToken(token)) => return Ok(RegistryAuth::Bearer(token)),
            Err(error) if none(&error) => {}
            Err(error) => return Err(error).context("the credentials of docker or podman"),
        }
    }
    Ok(RegistryAuth::Anonymous)
}
