//! `deploy/install.yaml`: the base in one file, for `kubectl apply -f`.

use crate::base::{Base, HEADER};

/// Where it is, relative to the repository's root.
pub const PATH: &str = "deploy/install.yaml";

/// The text of the file.
#[must_use]
pub fn render(base: &Base) -> String {
    let mut text = HEADER.to_owned();
    for file in &base.files {
        // A generated CRD says by which command; here it is another one.
        let body = file.with_image(&base.image);
        let body = match body.split_once('\n') {
            Some((first, rest)) if file.is_crd && first.starts_with('#') => rest,
            _ => &body,
        };
        text += "---\n";
        text += body.trim_end();
        text += "\n";
    }
    text
}
