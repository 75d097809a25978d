//! The program `hub-sim`: what it says if it cannot serve.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use std::net::TcpListener;
use std::process::Command;

/// What `hub-sim serve` with these arguments writes to standard error when it fails.
fn refused(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_hub-sim"))
        .arg("serve")
        .args(arguments)
        .env("RUST_BACKTRACE", "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn an_error_is_a_line_without_a_backtrace() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (arguments, start) in [
        (
            ["--crd", "nowhere.yaml"],
            "error: cannot read nowhere.yaml: ".to_owned(),
        ),
        (
            ["--listen", address.as_str()],
            format!("error: cannot listen on {address}: "),
        ),
    ] {
        let error = refused(&arguments);
        assert!(error.starts_with(&start), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
