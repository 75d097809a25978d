//! Placements and their decisions.

use serde_json::{Value, json};

use super::{
    CLUSTER, Names, conditions, definition, expressions, integer, label_selector, limited, list, object,
    one_of, required, taint_fields, text, with,
};

fn cluster_selector(cel: bool) -> Value {
    let mut fields = vec![
        ("claimSelector", object(&[("matchExpressions", expressions())])),
        ("labelSelector", label_selector()),
    ];
    if cel {
        fields.push(("celSelector", object(&[("celExpressions", list(text()))])));
    }
    object(&fields)
}

pub(super) fn placement() -> Value {
    let decided = object(&[
        ("clusterCount", json!({"type": "integer", "default": 0})),
        ("decisionGroupIndex", integer()),
        ("decisionGroupName", text()),
        ("decisions", list(text())),
    ]);
    let status = object(&[
        ("conditions", conditions()),
        ("decisionGroups", list(decided)),
        ("numberOfSelectedClusters", integer()),
    ]);
    let schema = required(
        &["spec"],
        object(&[("spec", placement_spec()), ("status", status)]),
    );
    let names = Names {
        group: CLUSTER,
        version: "v1beta1",
        kind: "Placement",
        plural: "placements",
        short: &[],
        scope: "Namespaced",
    };
    let columns = [
        (
            "Succeeded",
            "string",
            ".status.conditions[?(@.type==\"PlacementSatisfied\")].status",
        ),
        (
            "Reason",
            "string",
            ".status.conditions[?(@.type==\"PlacementSatisfied\")].reason",
        ),
        ("SelectedClusters", "integer", ".status.numberOfSelectedClusters"),
    ];
    definition(&names, &columns, &schema)
}

pub(super) fn placement_decision() -> Value {
    let decision = required(
        &["clusterName", "reason"],
        object(&[("clusterName", text()), ("reason", text())]),
    );
    let status = required(&["decisions"], object(&[("decisions", list(decision))]));
    let names = Names {
        group: CLUSTER,
        version: "v1beta1",
        kind: "PlacementDecision",
        plural: "placementdecisions",
        short: &[],
        scope: "Namespaced",
    };
    definition(&names, &[], &object(&[("status", status)]))
}

fn placement_spec() -> Value {
    object(&[
        ("clusterSets", list(text())),
        ("decisionStrategy", object(&[("groupStrategy", groups())])),
        ("numberOfClusters", integer()),
        (
            "predicates",
            list(object(&[("requiredClusterSelector", cluster_selector(true))])),
        ),
        (
            "prioritizerPolicy",
            object(&[
                ("configurations", list(prioritizer())),
                ("mode", json!({"type": "string", "default": "Additive"})),
            ]),
        ),
        (
            "scoreRateLimit",
            json!({"type": "string", "default": "1m", "pattern": "^[0-9]+[hms]$"}),
        ),
        (
            "sortBy",
            with(
                one_of(&["ClusterName", "Score"]),
                &json!({"default": "ClusterName"}),
            ),
        ),
        (
            "spreadPolicy",
            object(&[(
                "spreadConstraints",
                with(list(constraint()), &json!({"maxItems": 8})),
            )]),
        ),
        ("tolerations", list(toleration())),
    ])
}

fn groups() -> Value {
    let group = required(
        &["groupClusterSelector", "groupName"],
        object(&[
            ("groupClusterSelector", cluster_selector(false)),
            (
                "groupName",
                json!({"type": "string", "pattern": "^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$"}),
            ),
        ]),
    );
    let per_group = json!({"x-kubernetes-int-or-string": true, "default": "100%"});
    object(&[
        ("clustersPerDecisionGroup", per_group),
        ("decisionGroups", list(group)),
    ])
}

fn prioritizer() -> Value {
    let score = required(
        &["type"],
        object(&[
            (
                "addOn",
                required(
                    &["resourceName", "scoreName"],
                    object(&[("resourceName", text()), ("scoreName", text())]),
                ),
            ),
            ("builtIn", text()),
            (
                "type",
                with(one_of(&["BuiltIn", "AddOn"]), &json!({"default": "BuiltIn"})),
            ),
        ]),
    );
    let weight = json!({"type": "integer", "default": 1, "minimum": -10, "maximum": 10});
    required(
        &["scoreCoordinate"],
        object(&[("scoreCoordinate", score), ("weight", weight)]),
    )
}

fn constraint() -> Value {
    required(
        &["topologyKey", "topologyKeyType"],
        object(&[
            ("maxSkew", json!({"type": "integer", "default": 1, "minimum": 1})),
            ("topologyKey", limited(0, 316, None)),
            ("topologyKeyType", one_of(&["Label", "Claim"])),
            (
                "whenUnsatisfiable",
                with(
                    one_of(&["DoNotSchedule", "ScheduleAnyway"]),
                    &json!({"default": "ScheduleAnyway"}),
                ),
            ),
        ]),
    )
}

fn toleration() -> Value {
    let [effect, key] = taint_fields();
    object(&[
        effect,
        key,
        ("operator", json!({"type": "string", "default": "Equal"})),
        ("tolerationSeconds", integer()),
        ("value", limited(0, 1024, None)),
    ])
}
