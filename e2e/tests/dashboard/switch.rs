//! The page goes from one upgrade to another. These tests are skipped where there is no browser.

use e2e::Browser;
use serde_json::{Value, json};

use crate::Running;
use crate::page::open;

/// Everything that the page says about clusters, besides the fleet's colours: for eyes and for screen readers.
const TOLD: &str = "const text = (place) => document.querySelector(place).textContent; return {
    title: document.title,
    state: text('#state'),
    facts: text('#facts'),
    bar: document.querySelector('#progress').children.length,
    bar_label: document.querySelector('#progress').getAttribute('aria-label'),
    legend: text('#legend'),
    cells: text('#cells'),
    active: document.querySelector('#map').getAttribute('aria-activedescendant'),
    height: document.querySelector('#canvas').getBoundingClientRect().height,
    timeline: text('#timeline'),
    drawings: document.querySelectorAll('#timeline svg, #timeline-rows tr').length,
    rows: document.querySelectorAll('#cluster-rows tr').length,
    causes: text('#causes'),
    announced: text('#announcer'),
    story: document.querySelector('#story').hidden,
    focused: document.activeElement.id,
}";

/// Holds what the server tells about clusters in the streams that are opened from now on, until `release()`.
const HOLD: &str = "
    const original = window.fetch;
    const released = new Promise((release) => (window.release = release));
    window.fetch = async (path, options) => {
        const response = await original(path, options);
        if (!path.startsWith('/api/events')) return response;
        const hold = new TransformStream({
            async transform(chunk, controller) {
                const text = new TextDecoder().decode(chunk);
                const found = ['event: fleet', 'event: causes'].map((name) => text.indexOf(name)).filter((at) => at >= 0);
                const at = found.length ? Math.min(...found) : text.length;
                if (at > 0) controller.enqueue(new TextEncoder().encode(text.slice(0, at)));
                if (at === text.length) return;
                await released;
                controller.enqueue(new TextEncoder().encode(text.slice(at)));
            },
        });
        return new Response(response.body.pipeThrough(hold), { status: response.status });
    };";

/// A status without clusters.
fn empty(state: &str) -> Value {
    let none = json!({
        "total": 0, "initialized": 0, "partialUpgrade": 0, "complete": 0, "failed": 0, "pending": 0,
    });
    json!({"observedGeneration": 1, "state": state, "inFlight": 0, "effectiveMaxConcurrency": 10, "clustersSummery": none})
}

/// A page that shows spring, of which a cluster is open, and then chooses winter with the keyboard's focus on the choice.
async fn switch_to_winter(browser: &Browser) {
    browser
        .wait("document.querySelector('#announcer').textContent.startsWith('spring: ') && document.querySelector('#causes b')")
        .await
        .unwrap();
    browser
        .wait("[...document.querySelector('#upgrade').options].some((option) => option.value === 'upgrades/winter')")
        .await
        .unwrap();
    browser
        .run::<Value>("document.querySelector('#clusters').open = true")
        .await
        .unwrap();
    browser
        .wait("document.querySelector('#cluster-rows button')")
        .await
        .unwrap();
    browser
        .run::<Value>("document.querySelector('#cluster-rows button').click()")
        .await
        .unwrap();
    browser
        .wait("!document.querySelector('#story').hidden && document.activeElement.id === 'story-title'")
        .await
        .unwrap();
    choose(browser, "winter").await;
}

async fn choose(browser: &Browser, name: &str) {
    let script = format!(
        "const choice = document.querySelector('#upgrade'); choice.focus(); choice.value = 'upgrades/{name}'; choice.dispatchEvent(new Event('change'))"
    );
    browser.run::<Value>(&script).await.unwrap();
    let shown = format!(
        "document.querySelector('#title').textContent === 'upgrades/{name}' && !document.querySelector('#main').hidden"
    );
    browser.wait(&shown).await.unwrap();
}

#[tokio::test]
async fn an_upgrade_without_clusters_shows_nothing_of_the_one_before() {
    let running = Running::start(30, false).await.unwrap();
    running
        .add_empty_upgrade("winter", false, &empty("Stalled"))
        .await
        .unwrap();
    let Some(browser) = open(&running).await.unwrap() else {
        return;
    };
    switch_to_winter(&browser).await;
    browser
        .wait("document.querySelector('#facts').textContent.includes('0 of 0') && document.querySelector('#causes li')")
        .await
        .unwrap();
    browser
        .wait("document.querySelector('#timeline').textContent")
        .await
        .unwrap();
    let told: Value = browser.run(TOLD).await.unwrap();
    assert_eq!(told["title"], "winter: Stalled");
    assert_eq!(told["state"], "Stalled");
    assert_eq!(told["bar"], 0, "{told}");
    assert_eq!(told["bar_label"], "no clusters");
    assert_eq!(told["cells"], "");
    assert_eq!(told["active"], Value::Null);
    assert_eq!(told["height"], 0);
    assert_eq!(told["timeline"], "No cluster has started yet.");
    assert_eq!((&told["drawings"], &told["rows"]), (&json!(0), &json!(0)));
    assert_eq!(told["causes"], "No cluster failed or waits.");
    assert!(!told["announced"].as_str().unwrap().contains("spring"), "{told}");
    assert_eq!(told["story"], true);
    assert_eq!(told["focused"], "upgrade");

    choose(&browser, "spring").await;
    browser
        .wait("document.querySelector('#facts').textContent.includes(' of 30 (') && document.querySelector('#timeline svg')")
        .await
        .unwrap();
    browser
        .wait("document.querySelector('#canvas').getBoundingClientRect().height > 0 && document.querySelector('#cells').textContent.startsWith('edge-00000')")
        .await
        .unwrap();
    browser.quit().await.unwrap();
}

#[tokio::test]
async fn nothing_of_the_former_upgrade_stays_while_the_reports_of_the_next_one_are_listed() {
    let running = Running::start(30, true).await.unwrap();
    running
        .add_empty_upgrade("winter", false, &empty("Stalled"))
        .await
        .unwrap();
    let Some(browser) = open(&running).await.unwrap() else {
        return;
    };
    browser.run::<Value>(HOLD).await.unwrap();
    switch_to_winter(&browser).await;
    let told: Value = browser.run(TOLD).await.unwrap();
    assert_eq!(told["title"], "winter: Stalled");
    let facts = told["facts"].as_str().unwrap();
    for counted in ["Complete", "Failed", "Pending", "Canaries"] {
        assert!(!facts.contains(counted), "{facts}");
    }
    for place in ["legend", "cells", "timeline", "causes", "announced"] {
        assert_eq!(told[place], "", "{place}: {told}");
    }
    for place in ["bar", "height", "drawings", "rows"] {
        assert_eq!(told[place], 0, "{place}: {told}");
    }
    assert_eq!(told["bar_label"], "not known yet");
    assert_eq!(told["active"], Value::Null);
    let retries: u32 = browser
        .run("return document.querySelectorAll('#actions [data-key=retry]').length")
        .await
        .unwrap();
    assert_eq!(retries, 0);
    browser.run::<Value>("window.release()").await.unwrap();
    browser
        .wait("document.querySelector('#facts').textContent.includes('0 of 0')")
        .await
        .unwrap();
    browser.quit().await.unwrap();
}

#[tokio::test]
async fn a_page_opens_with_an_upgrade_that_runs_and_not_with_the_first_name() {
    let running = Running::start(30, false).await.unwrap();
    running
        .add_empty_upgrade("autumn", true, &empty("Paused"))
        .await
        .unwrap();
    let Some(browser) = open(&running).await.unwrap() else {
        return;
    };
    browser
        .wait("document.querySelector('#upgrade').options.length === 2")
        .await
        .unwrap();
    let shown: Vec<String> = browser
        .run(
            "return [document.querySelector('#upgrade').value, document.querySelector('#title').textContent]",
        )
        .await
        .unwrap();
    assert_eq!(shown, ["upgrades/spring", "upgrades/spring"]);
    browser.quit().await.unwrap();
}
