//! The program `spoke-sim`: what it says if it cannot start.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use std::process::Command;

#[test]
fn an_error_is_a_line_without_a_backtrace() {
    let output = Command::new(env!("CARGO_BIN_EXE_spoke-sim"))
        .args(["agents", "--all", "--kubeconfig", "nowhere.yaml"])
        .env("RUST_BACKTRACE", "1")
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.starts_with("error: reading nowhere.yaml: "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}
