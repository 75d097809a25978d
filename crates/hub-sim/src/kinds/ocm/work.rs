//! ManifestWorks.

use serde_json::{Value, json};

use super::{
    Names, SUBDOMAIN, boolean, conditions, definition, integer, keyed, limited, list, object, one_of,
    required, text, with,
};

const WORK: &str = "work.open-cluster-management.io";

pub(super) fn manifest_work() -> Value {
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
                required(
                    &["name", "namespace"],
                    object(&[("name", account()), ("namespace", account())]),
                ),
            ),
            ("type", one_of(&["ServiceAccount"])),
        ]),
    );
    let resource = || {
        required(
            &["name", "resource"],
            object(&[
                ("group", text()),
                ("name", text()),
                ("namespace", text()),
                ("resource", text()),
            ]),
        )
    };
    let policy = with(
        one_of(&["Foreground", "Orphan", "SelectivelyOrphan"]),
        &json!({"default": "Foreground"}),
    );
    let deletion = object(&[
        ("propagationPolicy", policy),
        (
            "selectivelyOrphans",
            object(&[("orphaningRules", list(resource()))]),
        ),
        ("ttlSecondsAfterFinished", integer()),
    ]);
    let spec = object(&[
        ("deleteOption", deletion),
        ("executor", object(&[("subject", subject)])),
        ("manifestConfigs", list(manifest_config(resource()))),
        ("workload", object(&[("manifests", list(manifest))])),
    ]);
    let names = Names {
        group: WORK,
        version: "v1",
        kind: "ManifestWork",
        plural: "manifestworks",
        short: &[],
        scope: "Namespaced",
    };
    definition(&names, &[], &object(&[("spec", spec), ("status", work_status())]))
}

fn work_status() -> Value {
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
    let value = required(
        &["fieldValue", "name"],
        object(&[("fieldValue", value), ("name", text())]),
    );
    let manifest_status = required(
        &["conditions", "resourceMeta"],
        object(&[
            ("conditions", conditions()),
            ("resourceMeta", meta),
            ("statusFeedback", object(&[("values", keyed(&["name"], value))])),
        ]),
    );
    object(&[
        ("conditions", conditions()),
        ("resourceStatus", object(&[("manifests", list(manifest_status))])),
    ])
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
                with(
                    one_of(&["OnSpokePresent", "OnSpokeChange"]),
                    &json!({"default": "OnSpokePresent"}),
                ),
            ),
            ("jsonPaths", with(list(text()), &json!({"minItems": 1}))),
        ]),
    );
    let apply = object(&[
        (
            "fieldManager",
            json!({"type": "string", "default": "work-agent", "pattern": "^work-agent"}),
        ),
        ("force", boolean()),
        ("ignoreFields", keyed(&["condition"], ignored)),
    ]);
    let strategies = one_of(&["Update", "CreateOnly", "ServerSideApply", "ReadOnly"]);
    let strategy = required(
        &["type"],
        object(&[
            ("serverSideApply", apply),
            ("type", with(strategies, &json!({"default": "Update"}))),
        ]),
    );
    required(
        &["resourceIdentifier"],
        object(&[
            ("conditionRules", keyed(&["condition"], rule)),
            ("feedbackRules", list(feedback)),
            (
                "feedbackScrapeType",
                with(one_of(&["Poll", "Watch"]), &json!({"default": "Poll"})),
            ),
            ("resourceIdentifier", resource),
            ("updateStrategy", strategy),
        ]),
    )
}
