//! A blocked-edges file: it blocks something, or the data set is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use update_graph::{GraphData, lint};

fuzz_target!(|bytes: &[u8]| {
    let files = || {
        [
            ("version".to_owned(), b"1.1.0".to_vec()),
            ("blocked-edges/4.1.0.yaml".to_owned(), bytes.to_vec()),
        ]
    };
    if let Ok((data, _)) = GraphData::from_files(files(), 1) {
        assert!(!data.blocks.is_empty());
    }
    let _ = lint::files(files());
});
