//! Generates the CRDs, with what derive macros cannot express: CEL rules, bounds and list types
//! (`docs/design/rules.md#one-set-of-spec-rules`). Every rule names its field (by its position) and the remedy (in
//! its message).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

use crate::{ManagedClustersUpgrade, ManagedClustersUpgradeApproval, ManagedClustersUpgradeReport};

/// `status.observedGeneration` of an object that the controller has not seen. Tools that follow kstatus take an object without
/// conditions for a finished one, unless its status describes another generation.
const UNOBSERVED: i64 = -1;

/// Our CRDs, in the order of installation.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        ManagedClustersUpgrade::crd(),
        ManagedClustersUpgradeReport::crd(),
        ManagedClustersUpgradeApproval::crd(),
    ];
    for version in crds.iter_mut().flat_map(|crd| &mut crd.spec.versions) {
        if let Some(schema) = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut())
        {
            tidy(schema);
            let status = schema
                .properties
                .as_mut()
                .and_then(|properties| properties.get_mut("status"));
            if let Some(status) = status {
                status.default = Some(JSON(json!({"observedGeneration": UNOBSERVED})));
            }
        }
    }
    crds
}

/// Removes what derive macros leave in a schema, at every depth.
fn tidy(schema: &mut JSONSchemaProps) {
    // rustfmt decides where source lines end, but kubectl explain wraps paragraphs itself, so line ends are removed.
    if let Some(description) = &mut schema.description {
        *description = description
            .split("\n\n")
            .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
            .join("\n\n");
    }
    // Where null is not allowed, the API server drops it and then sets the default, so null means absent.
    schema.nullable = None;
    if schema.x_kubernetes_int_or_string == Some(true) {
        schema.any_of = Some(["integer", "string"].map(of_type).to_vec());
    }
    schema
        .properties
        .iter_mut()
        .flat_map(|properties| properties.values_mut())
        .for_each(tidy);
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) => tidy(item),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(tidy),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(value)) = &mut schema.additional_properties {
        tidy(value);
    }
}

fn of_type(name: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some(name.to_owned()),
        ..Default::default()
    }
}

/// A Go duration of at least one second and at most a year (`2h`, `90m`, `1h30m`).
pub(crate) fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 32,
        "x-kubernetes-validations": [{
            "rule": "self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('8760h')",
            "message": "must be a duration of at least 1s and at most 8760h in hours, minutes and seconds, such as 90m, 2h or 1h30m (days are not a unit)",
        }],
    })
}

/// A duration that may be zero.
pub(crate) fn duration_or_zero(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 32,
        "x-kubernetes-validations": [{
            "rule": "self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$|^0$') && duration(self) <= duration('8760h')",
            "message": "must be a duration of at most 8760h in hours, minutes and seconds, such as 10m or 1h30m (days are not a unit)",
        }],
    })
}

/// A duration that may be zero, or the word `Estimate`.
pub(crate) fn minimum_remaining(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 32,
        "x-kubernetes-validations": [{
            "rule": "self == 'Estimate' || (self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$|^0$') && duration(self) <= duration('8760h'))",
            "message": "must be Estimate, or a duration of at most 8760h in hours, minutes and seconds, such as 2h or 1h30m (days are not a unit)",
        }],
    })
}

/// A number of at least 1, or a percentage from 1% to 100%.
pub(crate) fn max_concurrency(_: &mut SchemaGenerator) -> Schema {
    int_or_percent(
        "type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",
        "must be a number of clusters of at least 1, or a percentage from 1% to 100% such as 25%",
    )
}

/// A number of at least 0, or a percentage from 0% to 100%.
pub(crate) fn max_failures(_: &mut SchemaGenerator) -> Schema {
    int_or_percent(
        "type(self) == int ? self >= 0 : self.matches('^([1-9]?[0-9]|100)%$')",
        "must be a number of clusters of at least 0, or a percentage from 0% to 100% such as 5%",
    )
}

/// `CanariesComplete`, a number of at least 0, or a percentage from 0% to 100%.
pub(crate) fn checkpoint(_: &mut SchemaGenerator) -> Schema {
    int_or_percent(
        "type(self) == int ? self >= 0 : self.matches('^(CanariesComplete|([1-9]?[0-9]|100)%)$')",
        "must be CanariesComplete, a number of clusters of at least 0, or a percentage from 0% to 100% such as 50%",
    )
}

fn int_or_percent(rule: &str, message: &str) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "maxLength": 64,
        "maximum": 1_000_000,
        "x-kubernetes-validations": [{"rule": rule, "message": message}],
    })
}

/// The embedded manifests of an action's ManifestWork, kept as the user wrote them.
pub(crate) fn manifests(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 50,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        },
        "x-kubernetes-validations": [{
            "rule": "self.all(m, has(m.metadata) && has(m.metadata.name) && m.metadata.name != '')",
            "message": "every manifest needs metadata.name; generateName is not supported in a ManifestWork",
        }],
    })
}

/// A word of a set that grows with releases. It is not an enum: after a rollback the API server must still store what
/// a newer release has written, byte for byte, and must not reject an object because of one word.
pub(crate) fn word(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 64,
        "pattern": "^[A-Z][A-Za-z0-9]*$",
    })
}

/// Conditions as a map by type, so that other writers can own conditions of other types.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>();
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

#[cfg(test)]
mod tests;
