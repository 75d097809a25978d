//! The page in a real browser. These tests are skipped where there is none.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::Result;
use chrono::{TimeDelta, Utc};
use e2e::Browser;
use e2e::browser::key;
use repository::browser;
use serde_json::{Value, json};

use crate::{Running, Served};

pub(crate) const WINDOW: (u32, u32) = (1280, 1240);

/// A browser that shows the map of a dashboard; `None` where there is no browser.
pub(crate) async fn open(running: &Running) -> Result<Option<Browser>> {
    let Some(programs) = browser::find() else {
        return Ok(None);
    };
    let browser = Browser::start(&programs, WINDOW).await?;
    browser.open(&running.url()).await?;
    browser
        .wait("performance.getEntriesByName('fleet-painted').length")
        .await?;
    Ok(Some(browser))
}

#[tokio::test]
async fn a_change_on_the_hub_appears_without_a_reload() {
    let mut running = Running::start(300, false).await.unwrap();
    let Some(browser) = open(&running).await.unwrap() else {
        return;
    };
    let change = |row: &mut Value| {
        row["phase"] = json!("Failed");
        row["reason"] = json!("Unheard");
    };
    running.fleet.change(0, &[7], change).await.unwrap();
    let causes = "document.querySelector('#causes').textContent.includes('Unheard')";
    browser.wait(causes).await.unwrap();
    browser
        .run::<Value>("document.querySelector('#clusters').open = true")
        .await
        .unwrap();
    browser
        .wait("document.querySelector('#cluster-rows').textContent.includes('Unheard')")
        .await
        .unwrap();
    browser
        .wait("document.querySelector('#announcer').textContent")
        .await
        .unwrap();
    browser.quit().await.unwrap();
}

#[tokio::test]
async fn answers_of_clusters_what_holds_them_and_the_expected_end_are_shown() {
    let mut running = Running::start(300, false).await.unwrap();
    let Some(browser) = open(&running).await.unwrap() else {
        return;
    };
    let in_hours = |hours: i64| (Utc::now() + TimeDelta::hours(hours)).to_rfc3339();
    let status = json!({
        "preflight": {"ready": 290, "blocked": 8, "unknown": 2, "unsupported": 0},
        "estimate": {"p50": in_hours(5), "p90": in_hours(30), "basis": "Usual", "samples": 0},
    });
    running.fleet.set_status(&status).await.unwrap();
    let blocked = |row: &mut Value| {
        row["phase"] = json!("Blocked");
        row["reason"] = json!("AdminAckRequired");
        row["message"] = json!("ack-4.13-removals-in-4.14: APIs are removed");
    };
    running.fleet.change(0, &[7, 8], blocked).await.unwrap();
    for (place, text) in [
        ("#facts", "290 ready, 8 blocked, 2 unknown, 0 unsupported"),
        ("#facts", "Expected end"),
        ("#facts", "in 9 of 10 cases within"),
        ("#causes", "ack-4.13-removals-in-4.14"),
        ("#timeline", "Expected to end"),
    ] {
        let shown = format!("document.querySelector('{place}').textContent.includes('{text}')");
        browser.wait(&shown).await.unwrap();
    }
    browser.quit().await.unwrap();
}

#[tokio::test]
async fn keys_alone_reach_a_cluster_and_its_story_and_lead_back() {
    let running = Running::start(300, false).await.unwrap();
    let Some(browser) = open(&running).await.unwrap() else {
        return;
    };
    browser
        .run::<Value>("document.querySelector('#map').focus()")
        .await
        .unwrap();
    browser.press(key::RIGHT).await.unwrap();
    browser.press(key::RIGHT).await.unwrap();
    browser.press(key::LEFT).await.unwrap();
    let cell =
        "document.querySelector('#' + document.querySelector('#map').getAttribute('aria-activedescendant'))";
    let text: String = browser.run(&format!("return {cell}.textContent")).await.unwrap();
    assert!(text.starts_with("edge-00001, "), "{text}");
    browser.press(key::ENTER).await.unwrap();
    browser
        .wait("document.activeElement.id === 'story-title' && document.activeElement.textContent === 'edge-00001'")
        .await
        .unwrap();
    browser.press(key::ESCAPE).await.unwrap();
    browser.wait("document.activeElement.id === 'map'").await.unwrap();
    browser.quit().await.unwrap();
}

#[tokio::test]
async fn the_focus_stays_on_a_cause_that_is_chosen_and_on_one_whose_clusters_change() {
    let mut running = Running::start(300, true).await.unwrap();
    let Some(browser) = open(&running).await.unwrap() else {
        return;
    };
    let failed = "document.querySelector('#causes [data-key^=\"Failed \"]')";
    browser.wait(failed).await.unwrap();
    let count: u32 = browser
        .run(&format!(
            "{failed}.focus(); return Number({failed}.querySelector('b').textContent)"
        ))
        .await
        .unwrap();
    browser.press(key::ENTER).await.unwrap();
    let chosen =
        format!("document.activeElement === {failed} && {failed}.getAttribute('aria-pressed') === 'true'");
    browser.wait(&chosen).await.unwrap();
    let change = |row: &mut Value| {
        row["phase"] = json!("Failed");
        row["reason"] = json!("ClusterUpgradeTimeout");
    };
    running.fleet.change(0, &[249], change).await.unwrap();
    let more = format!(
        "Number({failed}.querySelector('b').textContent) === {}",
        count + 1
    );
    browser.wait(&more).await.unwrap();
    browser.wait(&chosen).await.unwrap();
    browser.quit().await.unwrap();
}

#[tokio::test]
async fn texts_of_clusters_stay_texts_and_nothing_inline_runs() {
    let mut running = Running::start(10, false).await.unwrap();
    let Some(browser) = open(&running).await.unwrap() else {
        return;
    };
    let markup = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>";
    let change = |row: &mut Value| {
        row["phase"] = json!("Failed");
        row["message"] = json!(markup);
        row["reason"] = json!("<b>Bold</b>");
    };
    running.fleet.change(0, &[0], change).await.unwrap();
    let causes = "document.querySelector('#causes').textContent.includes(\"<img src=x onerror=document.title='owned'>\")";
    browser.wait(causes).await.unwrap();
    let made: u32 = browser
        .run("return document.querySelectorAll('#causes img, #causes script, #causes b > b').length")
        .await
        .unwrap();
    assert_eq!(made, 0);
    let refused: bool = browser
        .run("try { document.body.innerHTML = '<p>x</p>'; return false } catch (error) { return error instanceof TypeError }")
        .await
        .unwrap();
    assert!(refused, "a text may become markup");
    let title: String = browser.run("return document.title").await.unwrap();
    assert!(!title.contains("owned"), "{title}");
    browser.quit().await.unwrap();
}

#[tokio::test]
async fn the_token_leaves_the_address_and_a_page_without_it_shows_nothing() {
    let running = Running::start(10, false).await.unwrap();
    let Some(browser) = open(&running).await.unwrap() else {
        return;
    };
    let address: String = browser.run("return location.href").await.unwrap();
    assert!(!address.contains(&running.token), "{address}");
    browser.reload().await.unwrap();
    browser
        .wait("document.querySelector('#title').textContent")
        .await
        .unwrap();
    browser.run::<Value>("sessionStorage.clear()").await.unwrap();
    browser
        .open(&format!("http://{}/", running.address))
        .await
        .unwrap();
    browser
        .wait("document.querySelector('#empty').textContent.includes('kubectl mcu dashboard')")
        .await
        .unwrap();
    assert!(
        browser
            .run::<bool>("return document.querySelector('#main').hidden")
            .await
            .unwrap()
    );
    browser.quit().await.unwrap();
}

#[tokio::test]
async fn an_action_is_asked_for_before_it_is_done() {
    let running = Running::start(10, true).await.unwrap();
    let Some(browser) = open(&running).await.unwrap() else {
        return;
    };
    browser
        .wait("document.querySelector('#actions button')")
        .await
        .unwrap();
    browser.click("#actions button").await.unwrap();
    browser
        .wait("document.querySelector('dialog').open")
        .await
        .unwrap();
    assert_ne!(running.fleet.upgrade().await.unwrap()["spec"]["paused"], true);
    let question: String = browser
        .run("return document.querySelector('#question').textContent")
        .await
        .unwrap();
    assert_eq!(question, "Pause upgrades/spring?");
    browser.click("dialog .primary").await.unwrap();
    browser
        .wait("document.querySelector('#actions').textContent.includes('Resume')")
        .await
        .unwrap();
    assert_eq!(running.fleet.upgrade().await.unwrap()["spec"]["paused"], true);
    browser.quit().await.unwrap();
}

#[tokio::test]
async fn a_dashboard_that_only_reads_offers_no_action() {
    let running = Running::start(10, false).await.unwrap();
    let Some(browser) = open(&running).await.unwrap() else {
        return;
    };
    browser
        .wait("document.querySelector('#causes li')")
        .await
        .unwrap();
    assert!(
        browser
            .run::<bool>("return document.querySelector('#actions').hidden")
            .await
            .unwrap()
    );
    browser.quit().await.unwrap();
}

#[tokio::test]
async fn a_filter_by_phase_is_told_and_limits_the_table() {
    let running = Running::start(300, false).await.unwrap();
    let Some(browser) = open(&running).await.unwrap() else {
        return;
    };
    browser
        .run::<Value>("document.querySelector('#clusters').open = true")
        .await
        .unwrap();
    let failed = "[...document.querySelectorAll('#legend > button')].find((button) => button.textContent.includes('Failed'))";
    browser
        .run::<Value>(&format!("{failed}.id = 'of-failed'"))
        .await
        .unwrap();
    browser.click("#of-failed").await.unwrap();
    browser
        .wait(&format!("{failed}.getAttribute('aria-pressed') === 'true'"))
        .await
        .unwrap();
    browser
        .wait("document.querySelector('#found').textContent.includes('found')")
        .await
        .unwrap();
    let phases: Vec<String> = browser
        .run("return [...document.querySelectorAll('#cluster-rows tr')].map((row) => row.children[1].textContent)")
        .await
        .unwrap();
    assert!(
        !phases.is_empty() && phases.iter().all(|phase| phase == "Failed"),
        "{phases:?}"
    );
    browser.quit().await.unwrap();
}

#[tokio::test]
async fn the_timeline_ends_with_the_upgrade_although_clusters_were_left_out() {
    let mut running = Running::start(10, false).await.unwrap();
    let Some(browser) = open(&running).await.unwrap() else {
        return;
    };
    let ago = |minutes: i64| (Utc::now() - TimeDelta::minutes(minutes)).to_rfc3339();
    let complete = |row: &mut Value| {
        row["phase"] = json!("Complete");
        row["since"] = json!(ago(300));
        row["steps"] = json!([{
            "name": "Platform", "startedAt": ago(360), "finishedAt": ago(300), "outcome": "Succeeded",
        }]);
    };
    let aborted = |row: &mut Value| {
        row["phase"] = json!("Aborted");
        row["since"] = json!(ago(290));
        row["steps"] = json!([{"name": "Platform", "startedAt": ago(350)}]);
    };
    let skipped = |row: &mut Value| {
        row["phase"] = json!("Skipped");
        row["steps"] = json!([]);
    };
    let all: Vec<usize> = (0..10).collect();
    running.fleet.change(0, &all[2..], complete).await.unwrap();
    running.fleet.change(0, &all[..1], aborted).await.unwrap();
    running.fleet.change(0, &all[1..2], skipped).await.unwrap();
    let completed = ago(270);
    let status = json!({"state": "Complete", "inFlight": 0, "completedAt": completed});
    running.fleet.set_status(&status).await.unwrap();
    let label = "document.querySelector('#timeline svg')?.getAttribute('aria-label')";
    let told = "9 of 10 clusters have started, 8 are complete and 0 failed, 1 left out";
    browser
        .wait(&format!("{label}?.startsWith('{told}')"))
        .await
        .unwrap();
    let clock =
        "new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })";
    browser
        .wait(&format!(
            "document.querySelector('#timeline-rows tr:last-child th')?.textContent === {clock}.format(Date.parse('{completed}'))"
        ))
        .await
        .unwrap();
    let counts: Vec<String> = browser
        .run("return [...document.querySelectorAll('#timeline-rows tr:last-child td')].map((cell) => cell.textContent)")
        .await
        .unwrap();
    assert_eq!(counts, ["9", "8", "0", "1"]);
    browser.quit().await.unwrap();
}

#[tokio::test]
async fn a_page_is_not_live_while_the_command_cannot_follow_the_hub() {
    let Some(programs) = browser::find() else {
        return;
    };
    let closed = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, hub_sim::kubeconfig(closed.local_addr().unwrap())).unwrap();
    drop(closed);
    let served = Served::before(&kubeconfig, false).await.unwrap();
    let browser = Browser::start(&programs, WINDOW).await.unwrap();
    browser.open(&served.url()).await.unwrap();
    let connection = "document.querySelector('#connection')";
    browser
        .wait(&format!(
            "{connection}.textContent === 'Out of date, trying again'"
        ))
        .await
        .unwrap();
    let [is_green, is_told]: [bool; 2] = browser
        .run(&format!(
            "return [{connection}.dataset.live === 'true', !document.querySelector('#trouble').hidden]"
        ))
        .await
        .unwrap();
    assert!(!is_green && is_told);
    browser.quit().await.unwrap();
}
