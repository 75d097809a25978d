//! How responses of the hub are interpreted.

use super::reports::{due, report};
use super::*;

#[tokio::test]
async fn an_overloaded_hub_is_told_apart_from_one_that_says_no() {
    let load_of = |code, details| status(code, "", "etcdserver: request timed out", &details);
    let seconds = |seconds: u32| json!({"retryAfterSeconds": seconds});
    for (answer, expected) in [
        (
            load_of(429, seconds(7)),
            Load::Overloaded(Some(Duration::from_secs(7))),
        ),
        (load_of(503, json!({})), Load::Overloaded(None)),
        (load_of(504, json!({})), Load::Overloaded(None)),
        (load_of(500, json!({})), Load::Overloaded(None)),
        (load_of(403, json!({})), Load::Served),
        (work(Some(UID), false), Load::Served),
        (Answer::HungUp, Load::Unknown),
    ] {
        let hub = Hub::new(vec![answer]);
        assert_eq!(carry_out(&hub.client(), &create()).await.1, expected);
    }
}

#[tokio::test]
async fn how_long_to_wait_is_read_from_the_header_also_of_an_answer_that_is_no_status() {
    let service = service_fn(|_: Request<Body>| async {
        let answer = Response::builder().status(429).header("retry-after", "11");
        answer.body(Body::from(b"Too many requests, please try again later.".to_vec()))
    });
    let (outcome, load) = carry_out(&Client::new(service, "default"), &create()).await;
    assert_eq!(load, Load::Overloaded(Some(Duration::from_secs(11))));
    assert!(matches!(
        outcome,
        WriteResult::Failed(WriteError {
            kind: WriteErrorKind::Overloaded,
            ..
        })
    ));
}

/// A proxy that does not know the way, or an API server that does not serve the kind.
#[tokio::test]
async fn a_page_that_is_not_found_does_not_say_that_the_object_is_gone() {
    let read = || {
        job(Write::Read {
            cluster: Arc::from("c1"),
            step: Step::Platform,
            uid: Some(Arc::from("w1")),
            owner: Arc::from("ns/mcu"),
            asked: rollout::testing::at(0),
        })
    };
    for page in [
        json!("404 page not found"),
        json!({"message": "no Route matched"}),
    ] {
        for job in [delete(), read(), report(due(true, false))] {
            let (outcome, hub) = run(&job, vec![Answer::Said(404, page.clone())]).await;
            assert!(matches!(outcome, WriteResult::Failed(_)), "{outcome:?}");
            assert_eq!(hub.calls().len(), 1);
        }
    }
}

#[tokio::test]
async fn a_connection_that_was_refused_has_carried_nothing() {
    let nobody = service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, _>(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))
    });
    let outcome = execute(&Client::new(nobody, "default"), &create()).await;
    assert!(matches!(
        outcome,
        WriteResult::Failed(WriteError {
            kind: WriteErrorKind::Unreachable,
            ..
        })
    ));
}
#[tokio::test]
async fn a_report_that_is_refused_tells_which_rows() {
    let invalid = |causes: serde_json::Value| {
        json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422, "reason": "Invalid",
            "message": "ManagedClustersUpgradeReport \"up-report-1\" is invalid: rows[17].revision: Too long",
            "details": {"causes": causes},
        })
    };
    let cause = |field: &str| json!({"reason": "FieldValueInvalid", "message": "no", "field": field});
    for (causes, rows, about) in [
        (
            json!([
                cause("rows[17].revision"),
                cause("rows[3].steps[0].name"),
                cause("rows[17].retry")
            ]),
            vec![3, 17],
            true,
        ),
        (json!([]), vec![], true),
        (json!([cause("rows")]), vec![], true),
        (json!([cause("metadata.ownerReferences")]), vec![], false),
    ] {
        let (outcome, _) = run(
            &report(due(false, true)),
            vec![Answer::Said(422, invalid(causes))],
        )
        .await;
        let WriteResult::ReportRefused {
            text,
            rows: named,
            about_rows,
        } = outcome
        else {
            panic!("{outcome:?}")
        };
        assert_eq!((named, about_rows), (rows, about));
        assert_eq!(text, "rows[17].revision: Too long");
    }
}
