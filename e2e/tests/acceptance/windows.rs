//! Maintenance windows (`docs/design/rules.md#maintenance-windows`).

use std::time::Duration;

use anyhow::{Context as _, Result};
use api::names::Step::{Platform, PreAction};
use api::report::Phase;
use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};
use e2e::{Scenario, TestHub, sample};
use serde_json::{Value, json};

/// A full minute that is 20 to 80 seconds away: there is time to see a cluster wait for it.
fn next_minute() -> Result<DateTime<Utc>> {
    let soon = Utc::now() + TimeDelta::seconds(80);
    Ok(soon.duration_trunc(TimeDelta::minutes(1))?)
}

/// A window that opens once a year, at this minute.
fn opening(at: DateTime<Utc>, minutes: i64, names: &[String]) -> Value {
    json!({
        "name": "once", "schedule": at.format("%M %H %d %m *").to_string(), "duration": format!("{minutes}m"),
        "clusterSelector": {"matchExpressions": [{"key": "metadata.name", "operator": "In", "values": names}]},
    })
}

fn always(names: &[String]) -> Value {
    json!({
        "name": "always", "schedule": "* * * * *", "duration": "1h",
        "clusterSelector": {"matchExpressions": [{"key": "name", "operator": "In", "values": names}]},
    })
}

#[tokio::test]
async fn clusters_start_when_their_windows_open() -> Result<()> {
    let s = Scenario::of(&TestHub::shared().await?, 4, |number, cluster| match number {
        4 => cluster.label("place", "Europe.Atlantis"),
        _ => cluster.label("place", "Asia.Kathmandu"),
    })
    .await?
    // The opening is up to 80 s away.
    .within(e2e::WAIT_TIMEOUT + Duration::from_secs(80));
    let opens = next_minute()?;
    // Clocks in Kathmandu are 5:45 ahead.
    let there = opens + TimeDelta::minutes(345);
    s.create(json!({
        "upgradeStrategy": {"maxConcurrency": 1},
        "maintenance": {
            "timeZoneFrom": {"label": "place"},
            "windows": [opening(there, 30, &s.some(&[1])), always(&s.some(&[2, 4]))],
        },
    }))
    .await?;
    // The first waits, and takes no slot from the second.
    s.agent(2).completed().await?;
    let waits = s
        .up()
        .row_until(s.c(1), "waits", |row| row.reason == "WaitingForWindow")
        .await?;
    let local = there.format("%Y-%m-%d %H:%M +05:45 (Asia/Kathmandu)").to_string();
    assert!(waits.message.contains(&local), "{} {local}", waits.message);
    for (number, reason) in [(3, "NoWindow"), (4, "InvalidTimeZone")] {
        let row = s
            .up()
            .row_until(s.c(number), reason, |row| row.reason == reason)
            .await?;
        assert_eq!(row.phase, Phase::Blocked, "{}", row.message);
    }
    let seen = s
        .until("the second is done", |seen| seen.clusters().complete == 1)
        .await?;
    assert!(
        seen.is("Reconciling") && seen.is_not("Stalled"),
        "it waits for an opening"
    );
    let work = s.work(1, Platform).await?;
    let created = work.raw["metadata"]["creationTimestamp"]
        .as_str()
        .and_then(api::time::parse_rfc3339);
    let late = created.context("it has a time")? - opens;
    // That it is the very second is tested where time is virtual; here the machine may be slow.
    assert!((0..=10).contains(&late.num_seconds()), "{late}");
    s.agent(1).completed().await?;
    s.until("stalled", |seen| seen.stalled("ClustersBlocked")).await?;
    // A window for the third, and none for the others: the rest goes on, and what runs is not touched.
    s.edit(json!({"maintenance": {"windows": [always(&s.some(&[1, 2, 3]))], "timeZoneFrom": null}}))
        .await?;
    s.work(3, Platform).await?;
    s.agent(3).partial().await?;
    s.edit(json!({"maintenance": {"exclusions": [{"name": "now", "start": "2000-01-01T00:00", "end": "2100-01-01T00:00"}]}}))
        .await?;
    s.agent(3).completed().await?;
    let seen = s
        .until("stalled", |seen| {
            seen.stalled("NoWindow") || seen.stalled("ClustersBlocked")
        })
        .await?;
    assert_eq!(seen.clusters().complete, 3);
    Ok(())
}

#[tokio::test]
async fn an_update_waits_for_the_next_window_if_the_pre_action_outlasts_this_one() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({
        "preUpgradeAction": sample::action("backup"),
        "upgradeStrategy": {"maxConcurrency": 1},
        "maintenance": {"windows": [always(s.names())]},
    }))
    .await?;
    s.work(1, PreAction).await?;
    let hour =
        |from: i64| (Utc::now() + TimeDelta::hours(from)).to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let exclusion = json!([{"name": "freeze", "start": hour(-1), "end": hour(1)}]);
    s.edit(json!({"maintenance": {"exclusions": exclusion}})).await?;
    s.until("the second waits", |seen| {
        seen.waiting(s.c(2))
            .is_some_and(|note| note.reason == "WaitingForWindow")
    })
    .await?;
    s.agent(1).available(PreAction).await?;
    let row = s
        .up()
        .row_until(s.c(1), "waits", |row| row.reason == "WaitingForWindow")
        .await?;
    assert_eq!(row.phase, Phase::Pending);
    assert_eq!((s.created(1, Platform), s.created(2, PreAction)), (0, 0));
    s.edit(json!({"maintenance": {"exclusions": null}})).await?;
    s.work(1, Platform).await?;
    assert_eq!(s.created(1, PreAction), 1, "its pre-action is done");
    Ok(())
}

#[tokio::test]
async fn windows_that_cannot_be_read_are_refused_with_their_field() -> Result<()> {
    let s = Scenario::new(1).await?;
    let window = |change: Value| {
        let mut window = json!({"name": "w", "schedule": "0 22 * * 1-5", "duration": "6h"});
        sample::merge(&mut window, &change);
        json!({"maintenance": {"windows": [window]}})
    };
    let exclusion = |start: &str| json!({"maintenance": {"exclusions": [{"name": "e", "start": start, "end": "2027-01-07T00:00"}]}});
    for (change, words) in [
        (
            window(json!({"schedule": "0 22 * *  "})),
            ["windows[0].schedule", "five fields"],
        ),
        (
            window(json!({"duration": "0s"})),
            ["windows[0].duration", "at least 1s"],
        ),
        (window(json!({"name": ""})), ["windows[0].name", "at least 1"]),
        (
            exclusion("2026-12-18 00:00:00"),
            ["exclusions[0].start", "2026-12-18T00:00"],
        ),
        (
            json!({"maintenance": {"timeZoneFrom": {}}}),
            ["timeZoneFrom", "exactly one"],
        ),
        (
            json!({"maintenance": {"timeZoneFrom": {"claim": "region.example.com"}}}),
            ["timeZoneFrom.claim", "zone or tz"],
        ),
        (
            json!({"maintenance": {"minimumRemaining": "1d"}}),
            ["minimumRemaining", "days are not a unit"],
        ),
        (
            json!({"maintenance": {"windows": [{"name": "w", "schedule": "0 22 * * *", "duration": "90m"}], "minimumRemaining": "1h30m"}}),
            ["minimumRemaining", "shorter than every window"],
        ),
    ] {
        let said = s.up().refused(change.clone()).await?;
        for word in words {
            assert!(said.contains(word), "{change}: no {word:?} in {said}");
        }
    }
    // What admission cannot know, the controller says.
    s.create(json!({"maintenance": {"timeZone": "europe/berlin"}}))
        .await?;
    let seen = s.until("invalid", |seen| seen.stalled("InvalidSpec")).await?;
    let said = seen.message("Stalled");
    assert!(
        said.contains("spec.maintenance.timeZone") && said.contains("Europe/Berlin"),
        "{said}"
    );
    Ok(())
}
