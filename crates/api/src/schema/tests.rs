use super::*;

#[test]
fn every_property_of_our_crds_has_a_description() {
    for crd in crds() {
        let value = serde_json::to_value(&crd).unwrap();
        let mut missing = Vec::new();
        walk(
            &value["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
            "",
            &mut missing,
        );
        assert_eq!(missing, Vec::<String>::new());
    }
}

#[test]
fn the_description_of_the_conditions_of_an_upgrade_names_every_type() {
    const PLACE: &str =
        "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/conditions/description";
    let crds = serde_json::to_value(crds()).unwrap();
    let mut crds = crds.as_array().unwrap().iter();
    let upgrades = crds.find(|crd| crd["spec"]["names"]["kind"] == "ManagedClustersUpgrade");
    let text = upgrades.unwrap().pointer(PLACE).unwrap().as_str().unwrap();
    for type_ in crate::conditions::TYPES
        .iter()
        .chain([&crate::conditions::CLOCK_SKEW])
    {
        assert!(text.contains(type_), "{type_}");
    }
}

#[test]
fn no_schema_allows_null_and_no_description_breaks_lines_within_a_paragraph() {
    let text = serde_json::to_string(&crds()).unwrap();
    assert!(!text.contains("\"nullable\":true"));
    let broken = text.match_indices("\\n").filter(|(at, _)| {
        let (before, after) = (&text[..*at], &text[at + 2..]);
        !before.ends_with("\\n") && !after.starts_with("\\n")
    });
    assert_eq!(broken.count(), 0);
}

#[test]
fn a_number_or_percentage_says_which_types_it_takes() {
    let crd = serde_json::to_value(ManagedClustersUpgrade::crd()).unwrap();
    assert_ne!(crd, serde_json::to_value(&crds()[0]).unwrap(), "tidied");
    let strategy = &serde_json::to_value(&crds()[0]).unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        ["properties"]["spec"]["properties"]["upgradeStrategy"]["properties"];
    for field in ["maxConcurrency", "maxFailures"] {
        assert_eq!(
            strategy[field]["anyOf"],
            serde_json::json!([{"type": "integer"}, {"type": "string"}])
        );
    }
}

fn walk(schema: &serde_json::Value, path: &str, missing: &mut Vec<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            let path = format!("{path}.{name}");
            let standard = matches!(path.as_str(), ".metadata" | ".apiVersion" | ".kind");
            if property["description"].as_str().unwrap_or_default().is_empty() && !standard {
                missing.push(path.clone());
            }
            walk(property, &path, missing);
        }
    }
    if !schema["items"].is_null() {
        walk(&schema["items"], &format!("{path}[]"), missing);
    }
}
