//! Probes that are left of a finished upgrade, because its leader ended before it had deleted them.

use observe::testing::probe;

use super::*;

#[test]
fn a_finished_upgrade_is_read_again_when_a_probe_of_it_is_left() {
    let context = led(&[complete()]);
    let mut left = probe("c1", ("u1", "ns/u1"), "0123456789abcdef", 5);
    index(&context, |index| {
        index.work(&Change::Applied(left.clone()), Utc::now());
    });
    assert_eq!(wanted(&context), ["u1-report-1"]);

    let context = led(&[complete()]);
    left.metadata.deletion_timestamp = Some(api::time::from_chrono(Utc::now()));
    index(&context, |index| {
        index.work(&Change::Applied(left), Utc::now());
    });
    assert!(wanted(&context).is_empty(), "its agent has only not let go of it");
}
