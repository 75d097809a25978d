//! The hub's certificate authority, its API server's certificate, and the key that signs `ServiceAccount` tokens.

use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Names the API server is reached by.
const SERVER_NAMES: [&str; 5] = [
    "127.0.0.1",
    "10.0.0.1",
    "localhost",
    "kubernetes.default",
    "kubernetes.default.svc",
];

/// Writes `ca.crt`, `server.crt`, `server.key`, `sa.key` and `sa.pub` into a directory; returns the CA's PEM.
pub(crate) fn write(dir: &Path) -> Result<String> {
    let ca_key = KeyPair::generate()?;
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name.push(DnType::CommonName, "mcu-hub-ca");
    ca.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    let ca_pem = ca.self_signed(&ca_key)?.pem();
    let issuer = Issuer::new(ca, ca_key);

    let server_key = KeyPair::generate()?;
    let mut server = CertificateParams::new(SERVER_NAMES.map(str::to_owned).to_vec())?;
    server
        .distinguished_name
        .push(DnType::CommonName, "kube-apiserver");
    server.use_authority_key_identifier_extension = true;
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let server_pem = server.signed_by(&server_key, &issuer)?.pem();

    write_file(dir, "ca.crt", &ca_pem)?;
    write_file(dir, "server.crt", &server_pem)?;
    write_file(dir, "server.key", &server_key.serialize_pem())?;
    let account_key = KeyPair::generate()?;
    write_file(dir, "sa.key", &account_key.serialize_pem())?;
    write_file(dir, "sa.pub", &account_key.public_key_pem())?;
    Ok(ca_pem)
}

fn write_file(dir: &Path, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}
