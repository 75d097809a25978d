use std::collections::BTreeSet;
use std::io::Read as _;

use cyclonedx_bom::prelude::{Bom, Validate as _};
use oci_spec::image::{Descriptor, ImageConfiguration, ImageIndex, ImageManifest};

use super::*;

const TARGET: &str = "x86_64-unknown-linux-gnu";
const PROGRAMS: [Program; 2] = [Program::McuController, Program::UpdateService];

fn commit(time: i64) -> Commit {
    Commit {
        revision: "0123456789abcdef0123456789abcdef01234567".to_owned(),
        time,
    }
}

fn sample(program: Program, architecture: Architecture, binary: &[u8], time: i64) -> Image {
    let entries = vec![
        Entry::file("licenses/b/LICENSE", b"b".to_vec()),
        Entry::file("licenses/a/LICENSE", b"a".to_vec()),
        Entry::program(program.name(), binary.to_vec()),
    ];
    let layers = vec![layer(entries, time).unwrap()];
    Image::new(program, architecture, "0.1.0", layers, &commit(time)).unwrap()
}

/// A written layout, by its index.
struct Written {
    directory: tempfile::TempDir,
    index: ImageIndex,
}

impl Written {
    fn new(layout: &Layout) -> Self {
        let directory = tempfile::tempdir().unwrap();
        layout.write(directory.path()).unwrap();
        let index = ImageIndex::from_file(directory.path().join("index.json")).unwrap();
        Self { directory, index }
    }

    fn blob(&self, descriptor: &Descriptor) -> Vec<u8> {
        let path = self
            .directory
            .path()
            .join("blobs/sha256")
            .join(descriptor.digest().digest());
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(Blob::new(bytes.clone()).digest, descriptor.digest().to_string());
        assert_eq!(bytes.len() as u64, descriptor.size());
        bytes
    }

    fn manifest(&self, descriptor: &Descriptor) -> ImageManifest {
        ImageManifest::from_reader(self.blob(descriptor).as_slice()).unwrap()
    }
}

/// Path, mode, owner and time of each file of a layer.
fn listed(layer: &[u8]) -> Vec<(String, u32, u64, u64)> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(layer));
    let entries = archive.entries().unwrap();
    entries
        .map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            let path = entry.path().unwrap().display().to_string();
            (
                path,
                header.mode().unwrap(),
                header.uid().unwrap() + header.gid().unwrap(),
                header.mtime().unwrap(),
            )
        })
        .collect()
}

#[test]
fn equal_inputs_give_equal_images_and_others_do_not() {
    let digest = |binary: &[u8], time| {
        let image = sample(Program::McuController, Architecture::Amd64, binary, time);
        Layout::new(&[image]).unwrap().digest().to_owned()
    };
    assert_eq!(digest(b"one", 7), digest(b"one", 7));
    assert_ne!(digest(b"one", 7), digest(b"two", 7));
    assert_ne!(digest(b"one", 7), digest(b"one", 8));
}

#[test]
fn the_index_leads_to_an_image_of_each_architecture_that_runs_as_a_numeric_user_who_is_not_root() {
    for program in PROGRAMS {
        let images = [Architecture::Amd64, Architecture::Arm64];
        let images = images.map(|one| sample(program, one, one.name().as_bytes(), 7));
        let written = Written::new(&Layout::new(&images).unwrap());
        let mut found = Vec::new();
        for descriptor in written.index.manifests() {
            let manifest = written.manifest(descriptor);
            let config = written.blob(manifest.config());
            let config = ImageConfiguration::from_reader(config.as_slice()).unwrap();
            let platform = descriptor.platform().as_ref().unwrap();
            assert_eq!(config.architecture(), platform.architecture());
            found.push(platform.architecture().to_string());
            assert_eq!(config.created().as_deref(), Some("1970-01-01T00:00:07Z"));
            let run = config.config().as_ref().unwrap();
            assert_eq!(run.user().as_deref(), Some("65532:65532"));
            assert_eq!(*run.entrypoint(), Some(vec![format!("/{}", program.name())]));
            let labels = run.labels().as_ref().unwrap();
            let label = |name: &str| labels[&format!("org.opencontainers.image.{name}")].as_str();
            assert_eq!(label("revision"), commit(7).revision);
            assert_eq!(label("title"), program.name());
            has_the_layers_that_it_names(&written, &manifest, &config);
        }
        assert_eq!(found, ["amd64", "arm64"]);
    }
}

fn has_the_layers_that_it_names(written: &Written, manifest: &ImageManifest, config: &ImageConfiguration) {
    let unpacked = config.rootfs().diff_ids();
    assert_eq!(unpacked.len(), manifest.layers().len());
    for (layer, unpacked) in manifest.layers().iter().zip(unpacked) {
        let mut bytes = Vec::new();
        let layer = written.blob(layer);
        flate2::read::GzDecoder::new(layer.as_slice())
            .read_to_end(&mut bytes)
            .unwrap();
        assert_eq!(Blob::new(bytes).digest, *unpacked);
    }
}

#[test]
fn a_layer_has_its_directories_and_files_in_order_owned_by_root_and_as_old_as_the_commit() {
    let image = sample(Program::McuController, Architecture::Amd64, b"binary", 7);
    let written = Written::new(&Layout::new(&[image]).unwrap());
    let manifest = written.manifest(&written.index.manifests()[0]);
    let found = listed(&written.blob(&manifest.layers()[0]));
    let expected = [
        ("licenses/", 0o755),
        ("licenses/a/", 0o755),
        ("licenses/b/", 0o755),
        ("licenses/a/LICENSE", 0o644),
        ("licenses/b/LICENSE", 0o644),
        ("mcu-controller", 0o755),
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for ((path, mode, owner, time), (expected, wanted)) in found.into_iter().zip(expected) {
        assert_eq!(
            (path.trim_end_matches('/'), mode),
            (expected.trim_end_matches('/'), wanted)
        );
        assert_eq!((owner, time), (0, 7));
    }
}

#[test]
fn a_layout_replaces_the_one_before() {
    let directory = tempfile::tempdir().unwrap();
    for binary in [b"one", b"two"] {
        let image = sample(Program::McuController, Architecture::Amd64, binary, 7);
        let layout = Layout::new(&[image]).unwrap();
        layout.write(directory.path()).unwrap();
        let blobs = std::fs::read_dir(directory.path().join("blobs/sha256")).unwrap();
        assert_eq!(blobs.count(), 3, "a layer, a config and a manifest");
    }
}

/// The names in the bill of materials of a program.
fn billed(program: Program) -> BTreeSet<String> {
    let dependencies = sbom::Dependencies::read(program.name(), TARGET).unwrap();
    let bytes = sbom::render(&dependencies).unwrap();
    assert_eq!(bytes, sbom::render(&dependencies).unwrap());
    let bom = Bom::parse_from_json(bytes.as_slice()).unwrap();
    assert!(bom.validate().passed(), "{:?}", bom.validate());
    let components = bom.components.unwrap().0;
    components.iter().map(|one| one.name.to_string()).collect()
}

#[test]
fn the_bill_of_materials_is_valid_and_names_what_is_linked_and_nothing_else() {
    let [controller, service] = PROGRAMS.map(billed);
    for linked in ["kube", "ring", "rollout"] {
        assert!(controller.contains(linked), "{linked}");
    }
    // A procedural macro, a dependency of tests, those of other programs, a build tool, one for another system.
    for other in [
        "serde_derive",
        "testenv",
        "oci-client",
        "clap_complete",
        "cc",
        "windows-sys",
    ] {
        assert!(!controller.contains(other), "{other}");
    }
    for linked in ["reqwest", "ring", "toml", "update-graph", "zlib-rs"] {
        assert!(service.contains(linked), "{linked}");
    }
    for other in ["kube", "k8s-openapi", "rollout", "mcu-controller", "serde_derive"] {
        assert!(!service.contains(other), "{other}");
    }
}

#[test]
fn each_image_has_a_licence_of_every_package_of_others() {
    for program in PROGRAMS {
        let dependencies = sbom::Dependencies::read(program.name(), TARGET).unwrap();
        let entries = licences::entries(&dependencies).unwrap();
        let image = layer(entries, 7).unwrap();
        let found: BTreeSet<String> = listed(&image.blob.bytes)
            .into_iter()
            .map(|(path, ..)| path.trim_end_matches('/').to_owned())
            .collect();
        let others = dependencies
            .packages
            .iter()
            .filter(|package| package.source.is_some());
        // Some ship no text. That of Apache-2.0 is our own licence.
        let without: Vec<String> = others
            .filter(|package| {
                !package
                    .license
                    .as_deref()
                    .unwrap_or_default()
                    .contains("Apache-2.0")
            })
            .map(|package| format!("licenses/{}-{}", package.name, package.version))
            .filter(|directory| !found.contains(directory))
            .collect();
        assert!(found.contains("licenses/LICENSE") && found.contains("licenses/THIRD-PARTY.txt"));
        assert!(found.iter().any(|path| path.starts_with("licenses/ring-")));
        assert_eq!(without, [""; 0]);
    }
}

#[test]
fn only_the_update_service_takes_certificates_and_only_certificates() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.crt");
    let pem = |kind: &str| format!("-----BEGIN {kind}-----\nAA==\n-----END {kind}-----\n");
    let taken = |program, text: &str| {
        std::fs::write(&file, text).unwrap();
        certificates(program, &file)
    };
    let public = pem("CERTIFICATE");
    let read = taken(Program::UpdateService, &public).unwrap();
    assert_eq!(read, public.as_bytes());
    assert!(taken(Program::McuController, &public).is_err());
    assert!(taken(Program::UpdateService, "a text").is_err());
    assert!(taken(Program::UpdateService, &(public + &pem("PRIVATE KEY"))).is_err());
}
