//! The kinds of Open Cluster Management, described here: which fields exist, which are required, defaults, and how lists are merged.
//! Nothing compares them with the definitions of the pinned OCM yet.

use serde_json::{Map, Value, json};

const CLUSTER: &str = "cluster.open-cluster-management.io";
const WORK: &str = "work.open-cluster-management.io";
const LABEL: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const SUBDOMAIN: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$";
const REASON: &str = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// The definitions of all kinds.
pub(super) fn definitions() -> Vec<Value> {
    vec![
        managed_cluster(),
        cluster_set(),
        set_binding(),
        placement(),
        placement_decision(),
        manifest_work(),
    ]
}

struct Names {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    scope: &'static str,
}

fn definition(names: &Names, columns: &[(&str, &str, &str)], schema: &Value) -> Value {
    let columns: Vec<Value> = columns
        .iter()
        .map(|(name, of, path)| json!({"name": name, "type": of, "jsonPath": path}))
        .collect();
    json!({
        "spec": {
            "group": names.group,
            "scope": names.scope,
            "names": {
                "kind": names.kind,
                "plural": names.plural,
                "singular": names.kind.to_lowercase(),
                "shortNames": names.short,
            },
            "versions": [{
                "name": names.version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

fn object(fields: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> = fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "properties": properties})
}

fn required(fields: &[&str], mut schema: Value) -> Value {
    schema["required"] = json!(fields);
    schema
}

fn with(mut schema: Value, extra: &Value) -> Value {
    for (name, value) in extra.as_object().into_iter().flatten() {
        schema[name] = value.clone();
    }
    schema
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn keyed(keys: &[&str], items: Value) -> Value {
    with(list(items), &json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}))
}

fn text() -> Value {
    json!({"type": "string"})
}

fn one_of(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

fn integer() -> Value {
    json!({"type": "integer"})
}

fn boolean() -> Value {
    json!({"type": "boolean"})
}

fn limited(least: u64, most: u64, pattern: Option<&str>) -> Value {
    let mut schema = json!({"type": "string", "maxLength": most});
    if least > 0 {
        schema["minLength"] = least.into();
    }
    if let Some(pattern) = pattern {
        schema["pattern"] = pattern.into();
    }
    schema
}

fn condition() -> Value {
    required(
        &["lastTransitionTime", "message", "reason", "status", "type"],
        object(&[
            ("lastTransitionTime", json!({"type": "string", "format": "date-time"})),
            ("message", limited(0, 32_768, None)),
            ("observedGeneration", json!({"type": "integer", "minimum": 0})),
            ("reason", limited(1, 1024, Some(REASON))),
            ("status", one_of(&["True", "False", "Unknown"])),
            ("type", limited(0, 316, Some(LABEL))),
        ]),
    )
}

fn conditions() -> Value {
    keyed(&["type"], condition())
}

fn expressions() -> Value {
    let expression = required(
        &["key", "operator"],
        object(&[("key", text()), ("operator", text()), ("values", list(text()))]),
    );
    list(expression)
}

fn label_selector() -> Value {
    let schema = object(&[
        ("matchExpressions", expressions()),
        ("matchLabels", json!({"type": "object", "additionalProperties": {"type": "string"}})),
    ]);
    with(schema, &json!({"x-kubernetes-map-type": "atomic"}))
}

fn taint_fields() -> [(&'static str, Value); 2] {
    [
        ("effect", one_of(&["NoSelect", "PreferNoSelect", "NoSelectIfNew"])),
        ("key", limited(0, 316, Some(LABEL))),
    ]
}

fn managed_cluster() -> Value {
    let [effect, key] = taint_fields();
    let added = ("timeAdded", json!({"type": "string", "format": "date-time", "nullable": true}));
    let taint = required(&["effect", "key"], object(&[effect, key, added, ("value", limited(0, 1024, None))]));
    let client = required(&["url"], object(&[("caBundle", text()), ("url", text())]));
    let quantities = json!({"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}});
    let claim = object(&[("name", limited(1, 253, None)), ("value", limited(1, 1024, None))]);
    let namespace = required(
        &["clusterSet", "name"],
        object(&[("clusterSet", text()), ("conditions", conditions()), ("name", limited(0, 63, None))]),
    );
    let schema = object(&[
        (
            "spec",
            object(&[
                ("hubAcceptsClient", boolean()),
                ("leaseDurationSeconds", json!({"type": "integer", "default": 60})),
                ("managedClusterClientConfigs", list(client)),
                ("taints", list(taint)),
            ]),
        ),
        (
            "status",
            object(&[
                ("allocatable", quantities.clone()),
                ("capacity", quantities),
                ("clusterClaims", list(claim)),
                ("conditions", conditions()),
                ("managedNamespaces", keyed(&["clusterSet", "name"], namespace)),
                ("version", object(&[("kubernetes", text())])),
            ]),
        ),
    ]);
    let names = Names {
        group: CLUSTER,
        version: "v1",
        kind: "ManagedCluster",
        plural: "managedclusters",
        short: &["mcl", "mcls"],
        scope: "Cluster",
    };
    let columns = [
        ("Hub Accepted", "boolean", ".spec.hubAcceptsClient"),
        ("Joined", "string", ".status.conditions[?(@.type==\"ManagedClusterJoined\")].status"),
        ("Available", "string", ".status.conditions[?(@.type==\"ManagedClusterConditionAvailable\")].status"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ];
    definition(&names, &columns, &schema)
}

fn cluster_set() -> Value {
    const EXCLUSIVE: &str = "ExclusiveClusterSetLabel";
    let kind = with(one_of(&[EXCLUSIVE, "LabelSelector"]), &json!({"default": EXCLUSIVE}));
    let selector = required(
        &["selectorType"],
        object(&[("labelSelector", label_selector()), ("selectorType", kind)]),
    );
    let selector = with(selector, &json!({"default": {"selectorType": EXCLUSIVE}}));
    let namespaces = keyed(&["name"], required(&["name"], object(&[("name", limited(0, 63, None))])));
    let spec = object(&[("clusterSelector", selector), ("managedNamespaces", namespaces)]);
    let spec = with(spec, &json!({"default": {"clusterSelector": {"selectorType": EXCLUSIVE}}}));
    let schema = object(&[("spec", spec), ("status", object(&[("conditions", list(condition()))]))]);
    let names = Names {
        group: CLUSTER,
        version: "v1beta2",
        kind: "ManagedClusterSet",
        plural: "managedclustersets",
        short: &["mclset", "mclsets"],
        scope: "Cluster",
    };
    let columns = [
        ("Empty", "string", ".status.conditions[?(@.type==\"ClusterSetEmpty\")].status"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ];
    definition(&names, &columns, &schema)
}

fn set_binding() -> Value {
    let schema = object(&[
        ("spec", object(&[("clusterSet", json!({"type": "string", "minLength": 1}))])),
        ("status", object(&[("conditions", list(condition()))])),
    ]);
    let names = Names {
        group: CLUSTER,
        version: "v1beta2",
        kind: "ManagedClusterSetBinding",
        plural: "managedclustersetbindings",
        short: &["mclsetbinding", "mclsetbindings"],
        scope: "Namespaced",
    };
    definition(&names, &[], &schema)
}

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

fn placement() -> Value {
    let group = required(
        &["groupClusterSelector", "groupName"],
        object(&[
            ("groupClusterSelector", cluster_selector(false)),
            ("groupName", json!({"type": "string", "pattern": "^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$"})),
        ]),
    );
    let per_group = json!({"x-kubernetes-int-or-string": true, "default": "100%"});
    let groups = object(&[("clustersPerDecisionGroup", per_group), ("decisionGroups", list(group))]);
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
            ("type", with(one_of(&["BuiltIn", "AddOn"]), &json!({"default": "BuiltIn"}))),
        ]),
    );
    let weight = json!({"type": "integer", "default": 1, "minimum": -10, "maximum": 10});
    let prioritizer = required(&["scoreCoordinate"], object(&[("scoreCoordinate", score), ("weight", weight)]));
    let constraint = required(
        &["topologyKey", "topologyKeyType"],
        object(&[
            ("maxSkew", json!({"type": "integer", "default": 1, "minimum": 1})),
            ("topologyKey", limited(0, 316, None)),
            ("topologyKeyType", one_of(&["Label", "Claim"])),
            (
                "whenUnsatisfiable",
                with(one_of(&["DoNotSchedule", "ScheduleAnyway"]), &json!({"default": "ScheduleAnyway"})),
            ),
        ]),
    );
    let [effect, key] = taint_fields();
    let toleration = object(&[
        effect,
        key,
        ("operator", json!({"type": "string", "default": "Equal"})),
        ("tolerationSeconds", integer()),
        ("value", limited(0, 1024, None)),
    ]);
    let spec = object(&[
        ("clusterSets", list(text())),
        ("decisionStrategy", object(&[("groupStrategy", groups)])),
        ("numberOfClusters", integer()),
        ("predicates", list(object(&[("requiredClusterSelector", cluster_selector(true))]))),
        (
            "prioritizerPolicy",
            object(&[
                ("configurations", list(prioritizer)),
                ("mode", json!({"type": "string", "default": "Additive"})),
            ]),
        ),
        (
            "scoreRateLimit",
            json!({"type": "string", "default": "1m", "pattern": "^[0-9]+[hms]$"}),
        ),
        ("sortBy", with(one_of(&["ClusterName", "Score"]), &json!({"default": "ClusterName"}))),
        (
            "spreadPolicy",
            object(&[("spreadConstraints", with(list(constraint), &json!({"maxItems": 8})))]),
        ),
        ("tolerations", list(toleration)),
    ]);
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
    let schema = required(&["spec"], object(&[("spec", spec), ("status", status)]));
    let names = Names {
        group: CLUSTER,
        version: "v1beta1",
        kind: "Placement",
        plural: "placements",
        short: &[],
        scope: "Namespaced",
    };
    let columns = [
        ("Succeeded", "string", ".status.conditions[?(@.type==\"PlacementSatisfied\")].status"),
        ("Reason", "string", ".status.conditions[?(@.type==\"PlacementSatisfied\")].reason"),
        ("SelectedClusters", "integer", ".status.numberOfSelectedClusters"),
    ];
    definition(&names, &columns, &schema)
}

fn placement_decision() -> Value {
    let decision = required(&["clusterName", "reason"], object(&[("clusterName", text()), ("reason", text())]));
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

fn manifest_work() -> Value {
    let manifest = json!({
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    });
    let account = || limited(1, 253, Some(SUBDOMAIN));
    let subject = required(
        &["type"],
        object(&[
            (
                "serviceAccount",
                required(&["name", "namespace"], object(&[("name", account()), ("namespace", account())])),
            ),
            ("type", one_of(&["ServiceAccount"])),
        ]),
    );
    let resource = || {
        required(
            &["name", "resource"],
            object(&[("group", text()), ("name", text()), ("namespace", text()), ("resource", text())]),
        )
    };
    let policy = with(
        one_of(&["Foreground", "Orphan", "SelectivelyOrphan"]),
        &json!({"default": "Foreground"}),
    );
    let deletion = object(&[
        ("propagationPolicy", policy),
        ("selectivelyOrphans", object(&[("orphaningRules", list(resource()))])),
        ("ttlSecondsAfterFinished", integer()),
    ]);
    let spec = object(&[
        ("deleteOption", deletion),
        ("executor", object(&[("subject", subject)])),
        ("manifestConfigs", list(manifest_config(resource()))),
        ("workload", object(&[("manifests", list(manifest))])),
    ]);
    let meta = required(
        &["ordinal"],
        object(&[
            ("group", text()),
            ("kind", text()),
            ("name", text()),
            ("namespace", text()),
            ("ordinal", integer()),
            ("resource", text()),
            ("version", text()),
        ]),
    );
    let value = required(
        &["type"],
        object(&[
            ("boolean", boolean()),
            ("integer", integer()),
            ("jsonRaw", limited(0, 1024, None)),
            ("string", text()),
            ("type", one_of(&["Integer", "String", "Boolean", "JsonRaw"])),
        ]),
    );
    let value = required(&["fieldValue", "name"], object(&[("fieldValue", value), ("name", text())]));
    let manifest_status = required(
        &["conditions", "resourceMeta"],
        object(&[
            ("conditions", conditions()),
            ("resourceMeta", meta),
            ("statusFeedback", object(&[("values", keyed(&["name"], value))])),
        ]),
    );
    let status = object(&[
        ("conditions", conditions()),
        ("resourceStatus", object(&[("manifests", list(manifest_status))])),
    ]);
    let names = Names {
        group: WORK,
        version: "v1",
        kind: "ManifestWork",
        plural: "manifestworks",
        short: &[],
        scope: "Namespaced",
    };
    definition(&names, &[], &object(&[("spec", spec), ("status", status)]))
}

fn manifest_config(resource: Value) -> Value {
    let rule = required(
        &["condition", "type"],
        object(&[
            ("celExpressions", list(text())),
            ("condition", text()),
            ("message", text()),
            ("messageExpression", text()),
            ("type", one_of(&["WellKnownConditions", "CEL"])),
        ]),
    );
    let rule = with(
        rule,
        &json!({"x-kubernetes-validations": [{
            "rule": "self.type != 'CEL' || self.condition != \"\"",
            "message": "Condition is required for CEL rules",
        }]}),
    );
    let path = required(
        &["name", "path"],
        object(&[("name", text()), ("path", text()), ("version", text())]),
    );
    let feedback = required(
        &["type"],
        object(&[
            ("jsonPaths", keyed(&["name"], path)),
            ("type", one_of(&["WellKnownStatus", "JSONPaths"])),
        ]),
    );
    let ignored = required(
        &["condition", "jsonPaths"],
        object(&[
            (
                "condition",
                with(one_of(&["OnSpokePresent", "OnSpokeChange"]), &json!({"default": "OnSpokePresent"})),
            ),
            ("jsonPaths", with(list(text()), &json!({"minItems": 1}))),
        ]),
    );
    let apply = object(&[
        ("fieldManager", json!({"type": "string", "default": "work-agent", "pattern": "^work-agent"})),
        ("force", boolean()),
        ("ignoreFields", keyed(&["condition"], ignored)),
    ]);
    let strategies = one_of(&["Update", "CreateOnly", "ServerSideApply", "ReadOnly"]);
    let strategy = required(
        &["type"],
        object(&[("serverSideApply", apply), ("type", with(strategies, &json!({"default": "Update"})))]),
    );
    required(
        &["resourceIdentifier"],
        object(&[
            ("conditionRules", keyed(&["condition"], rule)),
            ("feedbackRules", list(feedback)),
            ("feedbackScrapeType", with(one_of(&["Poll", "Watch"]), &json!({"default": "Poll"}))),
            ("resourceIdentifier", resource),
            ("updateStrategy", strategy),
        ]),
    )
}
