use super::*;
use serde_json::json;

fn values(text: &str) -> Vec<Value> {
    split(text)
        .into_iter()
        .map(|document| document.value.unwrap())
        .collect()
}

#[test]
fn yaml_documents_are_cut_at_separators_and_empty_ones_do_not_count() {
    let text = "# head\n---\na: 1\n---\n# only a remark\n---\nb: |\n  --- no separator\n--- # remark\nc: 3\n";
    assert_eq!(
        values(text),
        [
            json!({"a": 1}),
            json!({"b": "--- no separator\n"}),
            json!({"c": 3})
        ]
    );
    assert_eq!(values(""), Vec::<Value>::new());
}

#[test]
fn json_streams_are_read() {
    assert_eq!(
        values("{\"a\": 1}\n{\"b\": 2}\n"),
        [json!({"a": 1}), json!({"b": 2})]
    );
    assert_eq!(values("{a: 1}"), [json!({"a": 1})]);
}

#[test]
fn a_broken_document_is_told_with_its_line_and_hides_no_other() {
    let documents = split("a: 1\n---\nb: [\nc: 2\n---\nd: 3\n");
    assert_eq!(documents.len(), 3);
    let error = documents[1].value.as_ref().unwrap_err();
    assert!(
        error.starts_with("cannot be read: ") && error.contains('4'),
        "{error}"
    );
    assert_eq!(documents[2].value, Ok(json!({"d": 3})));
}

#[test]
fn a_key_given_twice_is_an_error() {
    let documents = split("a: 1\na: 2\n");
    let error = documents[0].value.as_ref().unwrap_err();
    assert_eq!(
        error,
        "cannot be read: duplicate mapping key: a at line 2, column 1"
    );
}

#[test]
fn a_list_is_its_items() {
    let list = json!({"kind": "List", "items": [{"a": 1}, {"b": 2}]});
    assert_eq!(items(list), [json!({"a": 1}), json!({"b": 2})]);
    let other = json!({"kind": "Box", "items": [1]});
    assert_eq!(items(other.clone()), [other]);
}

#[test]
fn scalars_mean_what_kubectl_takes_them_for() {
    assert_eq!(
        values("a: true\nb: 4.12.0\nc: 25%\nd: 3h\ne: yes\n"),
        [json!({"a": true, "b": "4.12.0", "c": "25%", "d": "3h", "e": true})]
    );
}
