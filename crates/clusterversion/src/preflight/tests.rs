use std::collections::BTreeMap;
use std::sync::Arc;

use update_graph::query::RiskNote;

use super::*;
use crate::types::{ClusterOperatorCondition, ConditionStatus};

mod gates;
mod risks;

fn condition(kind: &str, status: ConditionStatus) -> ClusterOperatorCondition {
    ClusterOperatorCondition {
        kind: kind.to_owned(),
        status,
        reason: "Why".to_owned(),
        message: "Because.".to_owned(),
        ..ClusterOperatorCondition::default()
    }
}

/// A cluster that would take the update, to another minor version.
fn well() -> Facts {
    Facts {
        current: Ok("4.19.20".to_owned()),
        channel: Ok("stable-4.20".to_owned()),
        health: Ok(Health {
            progressing: Some(condition("Progressing", ConditionStatus::False)),
            failing: Some(condition("Failing", ConditionStatus::False)),
            retrieved: Some(condition("RetrievedUpdates", ConditionStatus::True)),
            upgradeable: None,
            blocks_patch_updates: false,
        }),
        offer: Ok(Offer::Recommended { image: String::new() }),
        gates: Ok(Vec::new()),
        all_gates: Ok(Vec::new()),
        history: Ok(Vec::new()),
        pools: Ok(Pools::default()),
        accepts_risks: Ok(false),
    }
}

fn changed(change: impl FnOnce(&mut Health)) -> Facts {
    let mut facts = well();
    change(facts.health.as_mut().unwrap());
    facts
}

fn offering(offer: Offer) -> Facts {
    Facts {
        offer: Ok(offer),
        ..well()
    }
}

const IMAGE: &str = "quay.io/release@sha256:1111111111111111111111111111111111111111111111111111111111111111";

fn with_risks(risks: &[(&str, Option<bool>)]) -> Facts {
    let risks = risks.iter().map(|(name, applies)| OfferedRisk {
        name: (*name).to_owned(),
        message: "It leaks.".to_owned(),
        applies: *applies,
    });
    offering(Offer::Conditional {
        image: IMAGE.to_owned(),
        risks: risks.collect(),
    })
}

fn with_gates(keys: &[&str]) -> Facts {
    let gates = keys.iter().map(|key| Gate {
        key: (*key).to_owned(),
        text: "An API is removed.".to_owned(),
    });
    let gates: Vec<Gate> = gates.collect();
    Facts {
        gates: Ok(gates.clone()),
        all_gates: Ok(gates),
        ..well()
    }
}

fn plan() -> PlannedUpdate {
    PlannedUpdate {
        version: "4.20.4".to_owned(),
        channel: "stable-4.20".to_owned(),
        ..PlannedUpdate::default()
    }
}

fn set(names: &[&str]) -> std::collections::BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// `ready`, `ready by IMAGE`, or the reasons with their names.
fn told(facts: &Facts, plan: &PlannedUpdate) -> String {
    let listed = |findings: &[PreflightFinding]| {
        let each = findings.iter().map(|finding| match finding.names.as_slice() {
            [] => finding.reason.to_string(),
            names => format!("{}({})", finding.reason, names.join(",")),
        });
        each.collect::<Vec<_>>().join(" ")
    };
    match judge(facts, plan) {
        Verdict::Ready(Request::AsPlanned) => "ready".to_owned(),
        Verdict::Ready(Request::ByImage(image)) => format!("ready by {image}"),
        Verdict::Ready(Request::AcceptingRisks(names)) => format!("ready accepting {}", names.join(",")),
        Verdict::Blocked(findings) => format!("blocked {}", listed(&findings)),
        Verdict::Unknown(findings) => format!("unknown {}", listed(&findings)),
    }
}

#[test]
fn a_cluster_that_is_well_and_offers_the_version_is_ready() {
    assert_eq!(told(&well(), &plan()), "ready");
    let by_image = offering(Offer::Recommended {
        image: IMAGE.to_owned(),
    });
    assert_eq!(told(&by_image, &plan()), format!("ready by {IMAGE}"));
}

#[test]
fn what_a_cluster_cannot_be_asked_can_be_ignored() {
    let mut facts = well();
    facts.gates = Err(Missing::Unsupported("the agent evaluates no rules".to_owned()));
    assert_eq!(told(&facts, &plan()), "unknown PreflightUnsupported");
    let ignoring = PlannedUpdate {
        ignore: set(&["FailedToCompletePrecheck"]),
        ..plan()
    };
    assert_eq!(told(&facts, &ignoring), "ready");
    facts.channel = Err(Missing::Pending);
    assert_eq!(told(&facts, &ignoring), "unknown PreflightPending");
}

#[test]
fn a_fact_that_is_missing_or_may_not_be_read_is_unknown() {
    let pending = Missing::Pending;
    let take: [fn(&mut Facts, &Missing); 5] = [
        |facts, why| facts.current = Err(why.clone()),
        |facts, why| facts.channel = Err(why.clone()),
        |facts, why| facts.health = Err(why.clone()),
        |facts, why| facts.offer = Err(why.clone()),
        |facts, why| facts.gates = Err(why.clone()),
    ];
    for one in take {
        for (why, expected) in [
            (&pending, "unknown PreflightPending"),
            (
                &Missing::Unsupported("old".to_owned()),
                "unknown PreflightUnsupported",
            ),
            (
                &Missing::Forbidden("get".to_owned()),
                "unknown PreflightForbidden",
            ),
        ] {
            let mut facts = well();
            one(&mut facts, why);
            assert_eq!(told(&facts, &plan()), expected);
        }
    }
    let mut without_pools = well();
    without_pools.pools = Err(pending);
    assert_eq!(told(&without_pools, &plan()), "ready");
    let with_pools = PlannedUpdate {
        with_pools: true,
        ..plan()
    };
    assert_eq!(told(&without_pools, &with_pools), "unknown PreflightPending");
    for kind in ["progressing", "failing", "retrieved"] {
        let facts = changed(|health| match kind {
            "progressing" => health.progressing = None,
            "failing" => health.failing = None,
            _ => health.retrieved = None,
        });
        assert_eq!(told(&facts, &plan()), "unknown PreflightPending", "{kind}");
    }
}

#[test]
fn a_condition_that_is_neither_true_nor_false_is_unknown() {
    for status in [ConditionStatus::Unknown, ConditionStatus::Unset] {
        let facts = changed(|health| health.failing = Some(condition("Failing", status)));
        assert_eq!(told(&facts, &plan()), "unknown PreflightPending");
        let facts = changed(|health| health.upgradeable = Some(condition("Upgradeable", status)));
        assert_eq!(told(&facts, &plan()), "unknown PreflightPending");
    }
}

#[test]
fn an_unhealthy_cluster_is_blocked_unless_the_author_does_not_insist() {
    let (yes, no) = (ConditionStatus::True, ConditionStatus::False);
    let facts = |name: &str| {
        changed(|health| match name {
            "Failing" => health.failing = Some(condition("Failing", yes)),
            "Progressing" => health.progressing = Some(condition("Progressing", yes)),
            _ => health.retrieved = Some(condition("RetrievedUpdates", no)),
        })
    };
    for (name, reason) in [
        ("Failing", "Failing"),
        ("Progressing", "Updating"),
        ("CannotRetrieveUpdates", "UpdatesNotRetrieved"),
    ] {
        assert_eq!(told(&facts(name), &plan()), format!("blocked {reason}"));
        let ignoring = PlannedUpdate {
            ignore: set(&[name]),
            ..plan()
        };
        assert_eq!(told(&facts(name), &ignoring), "ready");
        let other = PlannedUpdate {
            ignore: set(&[reason, "Other"]),
            ..plan()
        };
        let expected = if name == reason {
            "ready".to_owned()
        } else {
            format!("blocked {reason}")
        };
        assert_eq!(told(&facts(name), &other), expected);
    }
}

#[test]
fn a_newer_cluster_is_blocked_and_one_that_runs_the_target_is_ready() {
    let runs = |version: &str| Facts {
        current: Ok(version.to_owned()),
        ..offering(Offer::NotListed)
    };
    assert_eq!(told(&runs("4.20.4"), &plan()), "ready");
    assert_eq!(told(&runs("4.20.5"), &plan()), "blocked NewerThanTarget");
    let elsewhere = Facts {
        channel: Ok("stable-4.21".to_owned()),
        ..runs("4.21.3")
    };
    assert_eq!(told(&elsewhere, &plan()), "blocked NewerThanTarget");
    let allowed = PlannedUpdate {
        allow_downgrade: true,
        ..plan()
    };
    assert_eq!(told(&runs("4.20.5"), &allowed), "blocked NotOffered");
    let mut back = runs("4.20.4");
    back.health.as_mut().unwrap().progressing = Some(condition("Progressing", ConditionStatus::True));
    assert_eq!(
        told(&back, &plan()),
        "blocked Updating",
        "its update to the target is still running"
    );
    let anyway = PlannedUpdate {
        ignore: set(&["Progressing"]),
        ..plan()
    };
    assert_eq!(told(&back, &anyway), "ready");
}

#[test]
fn an_update_in_another_channel_is_not_judged_by_the_updates_of_this_one() {
    let mut facts = offering(Offer::NotListed);
    facts.channel = Ok("stable-4.19".to_owned());
    assert_eq!(told(&facts, &plan()), "unknown ChannelDiffers");
    // A channel without the version that a cluster runs, or none, has no updates to retrieve.
    let retrieved = Some(condition("RetrievedUpdates", ConditionStatus::False));
    facts.health.as_mut().unwrap().retrieved = retrieved;
    assert_eq!(told(&facts, &plan()), "unknown ChannelDiffers");
    facts.health.as_mut().unwrap().retrieved = Some(condition("RetrievedUpdates", ConditionStatus::True));
    let keeping = PlannedUpdate {
        channel: String::new(),
        ..plan()
    };
    assert_eq!(told(&facts, &keeping), "blocked NotOffered");
    assert_eq!(told(&offering(Offer::Ambiguous), &plan()), "blocked NotOffered");
}

#[test]
fn an_update_graph_tells_what_is_served_in_a_channel_that_the_cluster_does_not_evaluate() {
    let mut facts = offering(Offer::NotListed);
    facts.channel = Ok("stable-4.19".to_owned());
    let risk = RiskNote {
        name: "Leak".to_owned(),
        url: String::new(),
        message: "It leaks.".to_owned(),
        always: true,
    };
    let serving = |from: &str, risks: &[RiskNote]| PlannedUpdate {
        by_graph: Some(Arc::new(UpdatesTo {
            from: BTreeMap::from([(from.to_owned(), risks.to_vec())]),
        })),
        ..plan()
    };
    assert_eq!(told(&facts, &serving("4.19.20", &[])), "ready");
    assert_eq!(told(&facts, &serving("4.19.19", &[])), "blocked NotOffered");
    let with_risk = serving("4.19.20", std::slice::from_ref(&risk));
    assert_eq!(told(&facts, &with_risk), "unknown RiskUnknown(Leak)");
    // The image of a release is believed from the cluster alone, so acceptance helps only where the cluster evaluates the risk.
    let accepting = PlannedUpdate {
        accepted_risks: set(&["Leak"]),
        accept_unknown_risks: true,
        ..with_risk
    };
    assert_eq!(told(&facts, &accepting), "unknown RiskUnknown(Leak)");

    facts.channel = Ok("stable-4.20".to_owned());
    assert_eq!(
        told(&facts, &serving("4.19.20", &[])),
        "blocked NotOffered",
        "the cluster knows better"
    );
}

#[test]
fn pools_count_only_where_the_upgrade_waits_for_them() {
    let group = |state, names: &[&str]| PoolGroup {
        state,
        count: names.len(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    let pools = Pools {
        version: "4.20.1".to_owned(),
        groups: vec![
            group(PoolState::Degraded, &["b"]),
            group(PoolState::Paused, &["c", "e"]),
            group(PoolState::Updating, &["d"]),
            group(PoolState::Updated, &["a"]),
        ],
        ..Pools::default()
    };
    let facts = Facts {
        pools: Ok(pools),
        ..well()
    };
    assert_eq!(told(&facts, &plan()), "ready");
    let waiting = PlannedUpdate {
        with_pools: true,
        ..plan()
    };
    assert_eq!(told(&facts, &waiting), "blocked PoolDegraded(b) PoolPaused(c,e)");
}

#[test]
fn a_cluster_at_the_target_is_ready_unless_the_upgrade_would_wait_for_its_pools_in_vain() {
    let paused = PoolGroup {
        state: PoolState::Paused,
        count: 1,
        names: vec!["worker".to_owned()],
    };
    let facts = Facts {
        current: Ok(plan().version),
        pools: Ok(Pools {
            version: plan().version,
            groups: vec![paused],
            ..Pools::default()
        }),
        ..well()
    };
    assert_eq!(told(&facts, &plan()), "ready");
    let waiting = PlannedUpdate {
        with_pools: true,
        ..plan()
    };
    assert_eq!(told(&facts, &waiting), "blocked PoolPaused(worker)");
}

#[test]
fn a_paused_pool_counts_before_an_update_although_its_nodes_are_up_to_date() {
    let facts = |state| Facts {
        pools: Ok(Pools {
            groups: vec![PoolGroup {
                state,
                count: 1,
                names: vec!["worker".to_owned()],
            }],
            worker_is_paused: true,
            ..Pools::default()
        }),
        ..well()
    };
    assert_eq!(told(&facts(PoolState::Updated), &plan()), "ready");
    let waiting = PlannedUpdate {
        with_pools: true,
        ..plan()
    };
    for (state, expected) in [
        (PoolState::Updated, "blocked PoolPaused(worker)"),
        (PoolState::Paused, "blocked PoolPaused(worker)"),
        (
            PoolState::Degraded,
            "blocked PoolDegraded(worker) PoolPaused(worker)",
        ),
    ] {
        assert_eq!(told(&facts(state), &waiting), expected);
    }
    let at_target = Facts {
        current: Ok(plan().version),
        ..facts(PoolState::Updated)
    };
    assert_eq!(told(&at_target, &waiting), "ready", "no node has to follow");
}

#[test]
fn what_is_offered_is_not_known_while_updates_cannot_be_retrieved() {
    let away = |status| {
        let mut facts = offering(Offer::NotListed);
        facts.health.as_mut().unwrap().retrieved = Some(condition("RetrievedUpdates", status));
        facts
    };
    assert_eq!(told(&away(ConditionStatus::True), &plan()), "blocked NotOffered");
    assert_eq!(
        told(&away(ConditionStatus::False), &plan()),
        "blocked UpdatesNotRetrieved"
    );
    assert_eq!(
        told(&away(ConditionStatus::Unknown), &plan()),
        "unknown PreflightPending"
    );
    let ignoring = PlannedUpdate {
        ignore: set(&["CannotRetrieveUpdates"]),
        ..plan()
    };
    assert_eq!(
        told(&away(ConditionStatus::False), &ignoring),
        "blocked NotOffered"
    );
}

#[test]
fn a_cluster_that_cannot_retrieve_its_updates_tells_whether_it_lists_the_version() {
    let message = |offer| {
        let mut facts = offering(offer);
        facts.health.as_mut().unwrap().retrieved =
            Some(condition("RetrievedUpdates", ConditionStatus::False));
        match judge(&facts, &plan()) {
            Verdict::Blocked(findings) => findings[0].message.clone(),
            other => panic!("{other:?}"),
        }
    };
    let unlisted = message(Offer::NotListed);
    assert_eq!(
        unlisted,
        "The cluster does not list 4.20.4: RetrievedUpdates=False: Why: Because."
    );
    let listed = message(Offer::Recommended { image: String::new() });
    assert!(lacks_target(&unlisted) && !lacks_target(&listed), "{listed}");
}

#[test]
fn how_an_update_is_requested_follows_from_the_offer_alone() {
    let accepting = PlannedUpdate {
        accepted_risks: set(&["Leak"]),
        ..plan()
    };
    let mut facts = with_risks(&[("Leak", Some(true))]);
    let by_image = Request::ByImage(IMAGE.to_owned());
    assert_eq!(request(&facts, &accepting), by_image);
    assert_eq!(
        request(&facts, &plan()),
        Request::AsPlanned,
        "the risk is not accepted"
    );
    let failing = Some(condition("Failing", ConditionStatus::True));
    facts.health.as_mut().unwrap().failing = failing;
    assert_eq!(told(&facts, &accepting), "blocked Failing");
    assert_eq!(request(&facts, &accepting), by_image);
    facts.current = Ok(accepting.version.clone());
    assert_eq!(
        request(&facts, &accepting),
        Request::AsPlanned,
        "it runs the target"
    );
}

#[test]
fn a_request_by_image_is_not_checked_against_the_updates() {
    let mut facts = offering(Offer::NotListed);
    facts.channel = Ok("other".to_owned());
    facts.health.as_mut().unwrap().retrieved = Some(condition("RetrievedUpdates", ConditionStatus::False));
    let by_image = PlannedUpdate {
        image: "quay.io/other@sha256:2".to_owned(),
        ..plan()
    };
    assert_eq!(told(&facts, &by_image), "ready");
    let only_image = PlannedUpdate {
        version: String::new(),
        ..by_image
    };
    assert_eq!(told(&facts, &only_image), "ready");
    // Nobody asks for the gates of an unknown version, so only the condition tells of them.
    let unasked = |facts: Facts| Facts {
        gates: Err(Missing::Unsupported("the agent evaluates no rules".to_owned())),
        ..facts
    };
    assert_eq!(told(&unasked(well()), &only_image), "ready");
    let mut asking = unasked(well());
    asking.health.as_mut().unwrap().upgradeable = Some(ClusterOperatorCondition {
        reason: "AdminAckRequired".to_owned(),
        ..condition("Upgradeable", ConditionStatus::False)
    });
    assert_eq!(
        told(&asking, &only_image),
        "blocked AdminAckRequired",
        "it may be another minor version"
    );
}

#[test]
fn nothing_is_ready_of_which_nothing_is_known() {
    for why in [Missing::Pending, Missing::Unsupported("old".to_owned())] {
        let verdict = judge(&Facts::missing(&why), &plan());
        assert!(matches!(verdict, Verdict::Unknown(_)), "{verdict:?}");
    }
}
