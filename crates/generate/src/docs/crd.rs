//! The resources, field by field, from the schemas that the API server enforces.

use std::fmt::Write as _;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use serde_json::Value;

use super::{cell, table};

pub(super) fn render() -> String {
    let mut text = String::from("# Resources\n\n");
    for crd in api::schema::crds() {
        text.push_str(&resource(&crd));
    }
    text
}

fn resource(crd: &CustomResourceDefinition) -> String {
    let names = &crd.spec.names;
    let mut text = format!("## {}\n\n", names.kind);
    for version in &crd.spec.versions {
        let short = names.short_names.clone().unwrap_or_default().join(", ");
        let _ = write!(
            text,
            "`{}/{}`, {}, plural `{}`, short `{short}`.\n\n",
            crd.spec.group,
            version.name,
            crd.spec.scope.to_lowercase(),
            names.plural
        );
        let schema = version
            .schema
            .as_ref()
            .and_then(|schema| schema.open_api_v3_schema.as_ref());
        if let Some(schema) = schema {
            if let Some(description) = &schema.description {
                text.push_str(description);
                text.push_str("\n\n");
            }
            text.push_str(&fields(schema));
            text.push_str(&rules(schema));
        }
        text.push_str(&columns(version));
    }
    text
}

fn fields(schema: &JSONSchemaProps) -> String {
    let mut rows = Vec::new();
    walk(schema, "", &mut rows);
    format!("### Fields\n\n{}", table(["Field", "Type", "Meaning"], rows))
}

fn walk(schema: &JSONSchemaProps, path: &str, rows: &mut Vec<[String; 3]>) {
    let standard = ["apiVersion", "kind", "metadata"];
    for (name, property) in schema.properties.iter().flatten() {
        if path.is_empty() && standard.contains(&name.as_str()) {
            continue;
        }
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let required = schema.required.iter().flatten().any(|required| required == name);
        rows.push([format!("`{path}`"), kind(property, required), meaning(property)]);
        walk(property, &path, rows);
        if let Some(JSONSchemaPropsOrArray::Schema(item)) = &property.items {
            walk(item, &format!("{path}[]"), rows);
        }
    }
}

fn kind(schema: &JSONSchemaProps, required: bool) -> String {
    let base = if schema.x_kubernetes_int_or_string == Some(true) {
        "integer or string".to_owned()
    } else {
        schema.type_.clone().unwrap_or_else(|| "any".to_owned())
    };
    let item = match &schema.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) => item.type_.as_ref().map(|item| format!(" of {item}")),
        _ => None,
    };
    let required = if required { ", required" } else { "" };
    format!("{base}{}{required}", item.unwrap_or_default())
}

fn meaning(schema: &JSONSchemaProps) -> String {
    let mut parts: Vec<String> = schema
        .description
        .iter()
        .map(|text| {
            let end = if text.ends_with('.') { "" } else { "." };
            format!("{}{end}", cell(text))
        })
        .collect();
    if let Some(values) = &schema.enum_ {
        let values: Vec<String> = values
            .iter()
            .filter_map(|value| value.0.as_str().map(|text| format!("`{text}`")))
            .collect();
        parts.push(format!("One of {}.", values.join(", ")));
    }
    if let Some(default) = &schema.default
        && let Some(shown) = scalar(&default.0)
    {
        parts.push(format!("Default `{shown}`."));
    }
    if let Some(most) = schema.max_items {
        parts.push(format!("At most {most}."));
    }
    for rule in schema.x_kubernetes_validations.iter().flatten() {
        if let Some(message) = &rule.message {
            parts.push(format!("Rule: {}.", cell(message)));
        }
    }
    parts.join(" ")
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Rules of the object as a whole; those of fields are beside the fields.
fn rules(schema: &JSONSchemaProps) -> String {
    let messages: Vec<String> = schema
        .x_kubernetes_validations
        .iter()
        .flatten()
        .filter_map(|rule| rule.message.clone())
        .map(|message| format!("- {message}\n"))
        .collect();
    if messages.is_empty() {
        return String::new();
    }
    format!("### Rules\n\n{}\n", messages.concat())
}

fn columns(version: &CustomResourceDefinitionVersion) -> String {
    let rows = version
        .additional_printer_columns
        .iter()
        .flatten()
        .map(|column| {
            let wide = if column.priority.unwrap_or(0) > 0 {
                "wide"
            } else {
                "always"
            };
            [
                cell(&column.name),
                wide.to_owned(),
                format!("`{}`", column.json_path.replace('|', "\\|")),
            ]
        })
        .collect::<Vec<_>>();
    format!("### Columns\n\n{}", table(["Column", "Shown", "Path"], rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_listed_with_type_default_rule_and_nesting() {
        let text = render();
        for part in [
            "## ManagedClustersUpgrade\n",
            "## ManagedClustersUpgradeReport\n",
            "`spec.upgradeStrategy.maxConcurrency` | integer or string |",
            "Default `10`.",
            "`spec.ocpOperators.include[].name` | string, required |",
            "`status.conditions[].observedGeneration`",
            "`rows[].phase` | string, required |",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }
}
