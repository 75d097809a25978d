//! Releases that are refused for one reason after the other.

use serde_json::json;

use super::Bench;
use crate::fault::Faults;

#[test]
fn a_release_that_is_still_refused_says_what_refuses_it_now() {
    let mut bench = Bench::new();
    bench.faults = "unverified".parse().unwrap();
    bench.ask(json!({"version": "4.12.0"}));
    bench.pass(75);
    let (status, reason, _) = bench.condition("ReleaseAccepted").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "RetrievePayload"));
    bench.faults = "refusing=AdminAckRequired: read this".parse().unwrap();
    bench.pass(0);
    let (status, reason, message) = bench.condition("ReleaseAccepted").unwrap();
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("False", "PreconditionChecks")
    );
    assert!(
        message.contains("failed because of \"AdminAckRequired\": read this"),
        "{message}"
    );
    bench.faults = Faults::default();
    bench.pass(0);
    bench.pass(75);
    assert_eq!(bench.head().0, "4.12.0");
}
