//! What the server answers, and what it refuses.

use anyhow::{Context as _, Result};
use e2e::reported_fleet::{NAME, NAMESPACE};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::Running;

fn client() -> Client {
    // An error only means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().build().unwrap()
}

impl Running {
    fn get(&self, path: &str) -> RequestBuilder {
        client().get(format!("http://{}{path}", self.address))
    }

    fn authorized(&self, path: &str) -> RequestBuilder {
        self.get(path).bearer_auth(&self.token)
    }

    async fn act(&self, action: &str, uid: &str) -> Result<Response> {
        self.act_in(NAMESPACE, action, uid).await
    }

    async fn act_in(&self, namespace: &str, action: &str, uid: &str) -> Result<Response> {
        let body = json!({"action": action, "namespace": namespace, "name": NAME, "uid": uid});
        let request = client().post(format!("http://{}/api/actions", self.address));
        Ok(request.bearer_auth(&self.token).json(&body).send().await?)
    }

    /// The stream of a page that shows the upgrade.
    async fn follow(&self) -> Result<Stream> {
        let path = format!("/api/events?namespace={NAMESPACE}&name={NAME}");
        let response = self.authorized(&path).send().await?;
        Ok(Stream {
            response,
            text: String::new(),
        })
    }

    async fn story(&self, cluster: &str) -> Result<Response> {
        let path = format!("/api/story?namespace={NAMESPACE}&name={NAME}&cluster={cluster}");
        Ok(self.authorized(&path).send().await?)
    }
}

/// A stream of messages.
struct Stream {
    response: Response,
    text: String,
}

impl Stream {
    /// The next messages, up to one of this name.
    async fn until(&mut self, last: &str) -> Result<Vec<(String, Value)>> {
        let mut found = Vec::new();
        loop {
            while let Some(end) = self.text.find("\n\n") {
                let message: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name));
                if let (Some(name), Some(data)) = (field("event: "), field("data: ")) {
                    found.push((name.to_owned(), serde_json::from_str(data)?));
                    if name == last {
                        return Ok(found);
                    }
                }
            }
            let chunk = self.response.chunk().await?.context("the stream ended")?;
            self.text.push_str(&String::from_utf8_lossy(&chunk));
        }
    }
}

/// The cause of the failed clusters.
fn failed(messages: &[(String, Value)]) -> &Value {
    let mut causes = find(messages, "causes")["causes"].as_array().unwrap().iter();
    causes.find(|cause| cause["phase"] == "Failed").unwrap()
}

fn find<'a>(messages: &'a [(String, Value)], name: &str) -> &'a Value {
    &messages.iter().find(|(given, _)| given == name).unwrap().1
}

#[tokio::test]
async fn the_page_is_served_with_a_policy_that_forbids_inline_scripts_and_other_servers() {
    let running = Running::start(3, false).await.unwrap();
    for path in ["/", "/app.js", "/style.css", "/icon.svg"] {
        let response = running.get(path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let policy = response.headers()["content-security-policy"].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        let text = response.text().await.unwrap();
        for foreign in ["https://", " style=", " onclick=", "innerHTML"] {
            assert!(!text.contains(foreign), "{path}: {foreign}");
        }
    }
    assert_eq!(running.get("/secret").send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn requests_of_other_pages_other_names_and_without_the_token_are_refused() {
    let running = Running::start(3, true).await.unwrap();
    let path = format!("/api/story?namespace={NAMESPACE}&name={NAME}&cluster=edge-00000");
    let status = |request: RequestBuilder| async move { request.send().await.unwrap().status().as_u16() };
    assert_eq!(status(running.get(&path)).await, 401);
    assert_eq!(status(running.get(&path).bearer_auth("guess")).await, 401);
    let rebound = running.authorized(&path).header("host", "evil.example");
    assert_eq!(status(rebound).await, 421);
    let foreign = running.authorized(&path).header("origin", "http://evil.example");
    assert_eq!(status(foreign).await, 403);
    let port = running.address.port();
    let tunnel = running
        .authorized(&path)
        .header("host", format!("localhost:{}", port ^ 1));
    assert_ne!(status(tunnel).await, 421);
}

#[tokio::test]
async fn a_page_is_told_the_whole_fleet_and_then_only_what_changes() {
    let mut running = Running::start(600, false).await.unwrap();
    let mut stream = running.follow().await.unwrap();
    let messages = stream.until("causes").await.unwrap();
    assert_eq!(find(&messages, "hello")["allowActions"], false);
    assert_eq!(find(&messages, "current"), &Value::Bool(true));
    assert_eq!(find(&messages, "upgrades")["upgrades"][0]["name"], NAME);
    assert_eq!(find(&messages, "upgrades")["upgrades"][0]["runs"], true);
    assert_eq!(find(&messages, "upgrade")["target"], "4.19.3");
    let tiles = find(&messages, "fleet")["tiles"].as_array().unwrap();
    assert_eq!(tiles.len(), 600);
    assert_eq!(tiles[0][0], "edge-00000");
    assert_eq!(failed(&messages)["reason"], "ClusterUpgradeTimeout");

    let change = |row: &mut Value| row["phase"] = json!("Failed");
    running.fleet.change(2, &[99], change).await.unwrap();
    let messages = stream.until("changes").await.unwrap();
    let changes = find(&messages, "changes");
    assert_eq!(changes["tiles"].as_array().unwrap().len(), 1, "{changes}");
    assert_eq!(changes["tiles"][0][0], "edge-00599");
    running.fleet.delete_upgrade().await.unwrap();
    assert_eq!(
        find(&stream.until("upgrade").await.unwrap(), "upgrade"),
        &Value::Null
    );
}

#[tokio::test]
async fn the_story_of_a_cluster_is_what_why_says() {
    let running = Running::start(600, false).await.unwrap();
    let messages = running.follow().await.unwrap().until("causes").await.unwrap();
    let failed = failed(&messages)["example"].as_str().unwrap();
    let story: Value = running.story(failed).await.unwrap().json().await.unwrap();
    assert_eq!(story["reason"], "ClusterUpgradeTimeout");
    assert_eq!(story["steps"][0]["outcome"], "Failed");
    let remedy = story["remedy"].as_str().unwrap();
    assert!(
        remedy.contains("kubectl mcu retry spring -n upgrades"),
        "{remedy}"
    );
    assert_eq!(running.story("edge-99999").await.unwrap().status(), 404);
}

#[tokio::test]
async fn a_dashboard_without_actions_changes_nothing() {
    let running = Running::start(3, false).await.unwrap();
    let upgrade = running.fleet.upgrade().await.unwrap();
    let response = running
        .act("pause", upgrade["metadata"]["uid"].as_str().unwrap())
        .await
        .unwrap();
    assert_eq!(response.status(), 403);
    assert!(response.text().await.unwrap().contains("--allow-actions"));
    assert_eq!(
        running.fleet.upgrade().await.unwrap()["metadata"],
        upgrade["metadata"]
    );
}

#[tokio::test]
async fn actions_change_the_upgrade_that_was_shown_and_no_other() {
    let running = Running::start(3, true).await.unwrap();
    let upgrade = running.fleet.upgrade().await.unwrap();
    let uid = upgrade["metadata"]["uid"].as_str().unwrap();
    let refused = running.act("pause", "another").await.unwrap();
    assert_eq!(refused.status(), 502);
    assert!(
        refused
            .text()
            .await
            .unwrap()
            .contains("deleted and created again")
    );
    assert_eq!(running.act("explode", uid).await.unwrap().status(), 422);
    let elsewhere = running.act_in("default", "pause", uid).await.unwrap();
    assert_eq!(elsewhere.status(), 403);
    assert!(
        elsewhere
            .text()
            .await
            .unwrap()
            .contains("does not show this namespace")
    );

    assert_eq!(running.act("pause", uid).await.unwrap().status(), 204);
    assert_eq!(running.fleet.upgrade().await.unwrap()["spec"]["paused"], true);
    assert_eq!(running.act("resume", uid).await.unwrap().status(), 204);
    assert_ne!(running.fleet.upgrade().await.unwrap()["spec"]["paused"], true);
    assert_eq!(running.act("retry", uid).await.unwrap().status(), 204);
    let annotations = &running.fleet.upgrade().await.unwrap()["metadata"]["annotations"];
    assert!(
        annotations[api::names::ANNOTATION_RETRY_FAILED].is_string(),
        "{annotations}"
    );
}
