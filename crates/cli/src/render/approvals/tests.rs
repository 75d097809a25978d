use super::*;

#[test]
fn an_approval_that_does_not_count_any_more_is_told() {
    let upgrade = Upgrade::read(json!({"status": {"observedGeneration": 1, "approvals": [{
        "name": "half", "state": "Waiting", "planHash": "1a2b",
        "lastApproval": {"planHash": "1a2b", "approver": "anna", "approvedAt": "1970-01-01T00:00:00Z"},
    }]}}));
    let text = render(&[upgrade], false, None, DateTime::UNIX_EPOCH, Paint::default());
    assert!(
        text.ends_with("anna approved at 1970-01-01T00:00:00Z, and that does not count any more\n"),
        "{text}"
    );
}

#[test]
fn a_sentence_says_that_there_is_no_checkpoint() {
    let of = |status: Value, named| {
        let upgrade = Upgrade::read(json!({"metadata": {"generation": 1}, "status": status}));
        none(&[upgrade], named)
    };
    let seen = json!({"observedGeneration": 1});
    assert_eq!(none(&[], false), Some("No checkpoints found.\n"));
    assert_eq!(of(seen.clone(), false), Some("No checkpoints found.\n"));
    assert_eq!(of(seen, true), Some("The upgrade has no checkpoint.\n"));
    assert_eq!(
        of(json!({}), true),
        Some("The controller has not processed this upgrade yet.\n")
    );
    let has_one = json!({"observedGeneration": 1, "approvals": [
        {"name": "half", "state": "Waiting", "planHash": "1a2b"},
    ]});
    assert_eq!(of(has_one, true), None);
}

#[test]
fn checkpoints_are_listed_with_how_long_they_wait_and_who_approved() {
    let upgrade = Upgrade::read(json!({
        "metadata": {"name": "spring", "namespace": "fleet", "uid": "u1", "generation": 1},
        "status": {"observedGeneration": 1, "approvals": [
            {"name": "first", "state": "Approved", "planHash": "1a2b", "approver": "anna", "message": "CHG0042"},
            {"name": "half", "state": "Waiting", "planHash": "1a2b", "waitingSince": "1970-01-01T00:00:00Z", "changed": "the spec"},
        ]},
    }));
    let now = DateTime::UNIX_EPOCH + chrono::TimeDelta::hours(4);
    let paint = Paint::default();
    assert_eq!(
        render(std::slice::from_ref(&upgrade), false, None, now, paint),
        "UPGRADE   CHECKPOINT   STATE      WAITING   APPROVER   EXPIRES   MESSAGE\n\
         spring    first        Approved   <none>    anna       <none>    CHG0042\n\
         spring    half         Waiting    4h        <none>     <none>    since the last approval the spec changed\n"
    );
    let json = render(
        std::slice::from_ref(&upgrade),
        true,
        Some(Output::Json),
        now,
        paint,
    );
    assert!(json.contains("\"upgrade\": \"spring\""), "{json}");
    assert_eq!(
        asked(&upgrade, now).as_deref(),
        Some("checkpoint half waiting for 4h: kubectl mcu approve spring half -n fleet")
    );
    assert_eq!(
        render(
            std::slice::from_ref(&upgrade),
            true,
            Some(Output::Name),
            now,
            paint
        ),
        "spring/first\nspring/half\n"
    );
}
