//! Release lists and release metadata, and versions inside both.
#![no_main]

use libfuzzer_sys::fuzz_target;
use update_graph::v1::Served;
use update_graph::{Arch, Builder, ReleaseMetadata, Version, release_list};

fuzz_target!(|bytes: &[u8]| {
    let _ = ReleaseMetadata::parse(bytes);
    if let Ok(list) = release_list::parse(bytes, &Arch::amd64()) {
        let whole = Builder::new().list(list).build().0.whole();
        Served::parse(&whole, &Arch::amd64()).expect("what is written can be read");
    }
    if let Some((version, arch)) = std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| Version::split(text).ok())
    {
        assert_eq!(Version::parse(&version.to_string()), Ok(version.clone()));
        assert!(arch.is_none_or(|arch| Arch::parse(arch.as_str()).is_ok()));
    }
});
