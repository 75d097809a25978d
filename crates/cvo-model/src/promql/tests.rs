use super::*;

fn body(kind: &str, result: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}"#)
}

fn judge(text: &str) -> Exposure {
    exposure(&QueryResult::parse(text.as_bytes()))
}

#[test]
fn exactly_one_sample_of_0_or_1_is_an_answer_and_all_else_has_its_text() {
    let one = |value: &str| format!(r#"[{{"metric":{{"a":"b"}},"value":[1700000000.1,"{value}"]}}]"#);
    let two = r#"[{"metric":{},"value":[1,"1"]},{"metric":{},"value":[1,"1"]}]"#;
    for (result, expected) in [
        (body("vector", &one("0")), Ok(false)),
        (body("vector", &one("1")), Ok(true)),
        (body("vector", &one("-0")), Ok(false)),
        (body("vector", &one("1e0")), Ok(true)),
        (
            body("vector", &one("0.5")),
            Err("invalid PromQL result (must be 0 or 1): 0.5"),
        ),
        (
            body("vector", &one("2")),
            Err("invalid PromQL result (must be 0 or 1): 2"),
        ),
        (
            body("vector", &one("NaN")),
            Err("invalid PromQL result (must be 0 or 1): NaN"),
        ),
        (
            body("vector", &one("+Inf")),
            Err("invalid PromQL result (must be 0 or 1): +Inf"),
        ),
        (
            body("vector", &one("-Inf")),
            Err("invalid PromQL result (must be 0 or 1): -Inf"),
        ),
        (
            body("vector", "[]"),
            Err("invalid PromQL result length must be one, but is 0"),
        ),
        (
            body("vector", two),
            Err("invalid PromQL result length must be one, but is 2"),
        ),
        (
            body("scalar", r#"[1,"1"]"#),
            Err("invalid PromQL result type is scalar, not vector"),
        ),
        (
            body("matrix", "[]"),
            Err("invalid PromQL result type is matrix, not vector"),
        ),
        (
            body("string", r#"[1,"1"]"#),
            Err("invalid PromQL result type is string, not vector"),
        ),
        (
            r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#.to_owned(),
            Err("executing PromQL query: bad_data: parse error"),
        ),
        (
            r#"{"status":"success"}"#.to_owned(),
            Err("executing PromQL query: bad_response: "),
        ),
    ] {
        assert_eq!(judge(&result), expected.map_err(str::to_owned), "{result}");
    }
    assert!(
        judge("Bad Gateway")
            .unwrap_err()
            .starts_with("executing PromQL query: bad_response: ")
    );
    assert_eq!(
        exposure(&Err("Get \"https://thanos\": dial tcp: lookup failed".to_owned())),
        Err("executing PromQL query: Get \"https://thanos\": dial tcp: lookup failed".to_owned())
    );
}

#[test]
fn the_cluster_id_takes_the_place_of_the_empty_one() {
    assert_eq!(
        inject_cluster_id(r#"a{_id=""} or b{_id="",c=""}"#, "u"),
        r#"a{_id="u"} or b{_id="u",c=""}"#
    );
}
