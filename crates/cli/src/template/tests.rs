use super::*;
use serde_json::json;

fn list() -> Value {
    json!({"kind": "List", "items": [
        {"metadata": {"name": "spring", "labels": {"app.kubernetes.io/name": "mcu", "set-name": "prod"}},
         "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Stalled", "status": "True"}]}},
        {"metadata": {"name": "autumn"}, "status": {"counts": {"total": 3}}},
    ]})
}

fn jsonpath(template: &str) -> String {
    Template::jsonpath(template).unwrap().render(&list())
}

#[test]
fn a_template_prints_what_kubectl_prints() {
    for (template, expected) in [
        ("{.items[*].metadata.name}", "spring autumn"),
        ("{.items[0].metadata.name}", "spring"),
        ("{.items[-1:].metadata.name}", "autumn"),
        ("{.items[0:2].metadata.name}", "spring autumn"),
        ("{.items[0]['metadata'].name}", "spring"),
        ("{.items[0].metadata.labels.app\\.kubernetes\\.io/name}", "mcu"),
        ("{.items[0].metadata.labels['app\\.kubernetes\\.io/name']}", "mcu"),
        ("{.items[0].metadata.labels.set-name}", "prod"),
        (
            "{.items[0].status.conditions[?(@.type==\"Stalled\")].status}",
            "True",
        ),
        (
            "{.items[?(@.metadata.labels.set-name=='prod')].metadata.name}",
            "spring",
        ),
        ("{..total}", "3"),
        ("{.items[1].status.counts}", "{\"total\":3}"),
        ("{.items[1].nothing}", ""),
        ("name: {.items[1].metadata.name}!", "name: autumn!"),
        (
            "{range .items[*]}{.metadata.name}{\"\\t\"}{$.kind}{\"\\n\"}{end}",
            "spring\tList\nautumn\tList\n",
        ),
        (
            "{range .items[*]}{.metadata.name}:{range .status.conditions[*]} {.type}={.status}{end};{end}",
            "spring: Ready=False Stalled=True;autumn:;",
        ),
        ("{'{}'}", "{}"),
        ("{.kind}{@.kind}{$.kind}", "ListListList"),
    ] {
        assert_eq!(jsonpath(template), expected, "{template}");
    }
}

#[test]
fn columns_have_a_line_per_item_and_none_for_what_is_missing() {
    let columns = Template::columns(
        "NAME:.metadata.name,TYPES:.status.conditions[*].type,SET:{.metadata.labels.set-name}",
    );
    assert_eq!(
        columns.unwrap().render(&list()),
        "NAME     TYPES           SET\nspring   Ready,Stalled   prod\nautumn   <none>          <none>\n"
    );
    let single = Template::columns("NAME:metadata.name").unwrap();
    assert_eq!(single.render(&list()["items"][0]), "NAME\nspring\n");
    let bare = single.without_headers();
    assert_eq!(bare.render(&list()["items"][0]), "spring\n");
    assert_eq!(bare.render(&list()), "spring\nautumn\n");
    assert!(single.has_headers() && !bare.has_headers());
}

#[test]
fn a_wrong_template_is_refused_with_what_is_wrong() {
    for (template, expected) in [
        ("{.items[*", "closing brace"),
        ("{.items[*}", "not closed"),
        ("{range .items[*]}x", "no {end}"),
        ("x{end}", "no {range}"),
        ("{.a..}", "name is missing"),
        ("{.a b}", "is not a step"),
        ("{.a[x]}", "cannot be read"),
    ] {
        let error = Template::jsonpath(template).unwrap_err();
        assert!(error.contains(expected), "{template}: {error}");
    }
    assert!(Template::columns("NAME").unwrap_err().contains("HEADER:JSONPATH"));
}
