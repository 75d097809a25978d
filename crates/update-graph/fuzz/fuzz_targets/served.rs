//! A served graph: reading, writing and reading again give the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use update_graph::v1::Served;
use update_graph::{Arch, Builder};

fuzz_target!(|bytes: &[u8]| {
    let Ok(served) = Served::parse(bytes, &Arch::amd64()) else {
        return;
    };
    let (graph, _) = Builder::new().served(served).build();
    let whole = graph.whole();
    let again = Served::parse(&whole, &Arch::amd64()).expect("what is written can be read");
    assert!(again.problems.is_empty());
    assert!(Builder::new().served(again).build().0.whole() == whole);
});
