use super::*;

fn change(upgrade: &Upgrade) -> Value {
    patch(upgrade, &json!({"paused": true}))
}

fn version(number: i32, spec: &Value) -> Upgrade {
    Upgrade::read(json!({
        "metadata": {"name": "spring", "namespace": "upgrades", "uid": "u1", "resourceVersion": number.to_string(),
            "generation": 1},
        "spec": spec, "status": {"inFlight": number},
    }))
}

fn conflict() -> Failure {
    Failure::Server {
        reason: "Conflict".to_owned(),
        message: "the object has been modified".to_owned(),
    }
}

/// Writes to a hub whose object has this version by then; what was sent, and how it ended.
async fn written(now: &Upgrade) -> (Vec<Value>, Result<Upgrade, Failure>) {
    let spec = json!({"clusterVersion": {"version": "4.20.4"}});
    let versions = std::cell::RefCell::new(Vec::new());
    let send = async |patch: Value| {
        versions.borrow_mut().push(
            patch
                .pointer("/metadata/resourceVersion")
                .cloned()
                .unwrap_or_default(),
        );
        if patch["metadata"]["resourceVersion"] == now.object["metadata"]["resourceVersion"] {
            Ok(version(9, &spec))
        } else {
            Err(conflict())
        }
    };
    let read = async || Ok(version(8, now.object.get("spec").unwrap_or(&Value::Null)));
    let ended = write(&version(7, &spec), change, send, read).await;
    (versions.into_inner(), ended)
}

#[test]
fn a_preview_has_the_change_and_keeps_the_rest() {
    let upgrade = version(
        7,
        &json!({"paused": false, "clusterVersion": {"version": "4.20.4"}}),
    );
    let shown = preview(&upgrade, &change(&upgrade));
    let spec = json!({"paused": true, "clusterVersion": {"version": "4.20.4"}});
    assert_eq!(shown.object.get("spec"), Some(&spec));
    assert_eq!(upgrade.object["spec"]["paused"], false);
}

#[tokio::test]
async fn a_status_that_moves_meanwhile_does_not_refuse_the_edit_and_another_spec_does() {
    let spec = json!({"clusterVersion": {"version": "4.20.4"}});
    let (sent, ended) = written(&version(7, &spec)).await;
    assert_eq!((sent, ended.is_ok()), (vec![json!("7")], true));
    let (sent, ended) = written(&version(8, &spec)).await;
    assert_eq!((sent, ended.is_ok()), (vec![json!("7"), json!("8")], true));
    let (sent, ended) = written(&version(8, &json!({"clusterVersion": {"version": "4.20.5"}}))).await;
    assert_eq!(sent, [json!("7")]);
    let text = ended.unwrap_err().to_string();
    assert!(text.contains("somebody has changed the spec"), "{text}");
}

#[tokio::test]
async fn an_edit_is_not_tried_for_ever_and_other_failures_are_passed_on() {
    let spec = json!({});
    let tries = std::cell::Cell::new(0);
    let send = async |_: Value| {
        tries.set(tries.get() + 1);
        Err(conflict())
    };
    let read = async || Ok(version(8, &json!({})));
    let ended = write(&version(7, &spec), change, send, read).await;
    assert_eq!((tries.get(), ended.unwrap_err()), (ATTEMPTS, conflict()));
    let send = async |_: Value| Err(Failure::Interrupted);
    let ended = write(&version(7, &spec), change, send, read).await;
    assert_eq!(ended.unwrap_err(), Failure::Interrupted);
}
