use super::*;

fn finding(names: &[&str], message: &str) -> PreflightFinding {
    PreflightFinding {
        reason: PreflightReason::RiskNotAccepted,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        message: message.to_owned(),
    }
}

fn messages(names: &[&str], message: &str) -> Vec<String> {
    let causes = of_verdict(Verdict::Blocked(vec![finding(names, message)]));
    causes.into_iter().map(|cause| cause.message).collect()
}

#[test]
fn each_name_has_its_own_part_of_the_text_and_no_other() {
    let text = "BigLeak: It leaks; a lot. See Leak: page; Leak: It leaks";
    assert_eq!(
        messages(&["Leak", "BigLeak"], text),
        ["Leak: It leaks", "BigLeak: It leaks; a lot. See Leak: page"]
    );
    let text = "The cluster evaluates channel \"a\", which preflight.setChannel sets: Leak: x; Odd: y";
    assert_eq!(messages(&["Leak", "Odd"], text), ["Leak: x", "Odd: y"]);
    // Without a part of its own, the whole text is shown.
    assert_eq!(
        messages(&["worker"], "Pools worker are paused"),
        ["Pools worker are paused"]
    );
    assert_eq!(messages(&["A", "B"], "x; A: B: y"), ["A: B: y", "x; A: B: y"]);
}

#[test]
fn a_cluster_that_names_thousands_of_gates_gets_a_limited_number_of_short_texts() {
    let names: Vec<String> = (0..3200).map(|number| format!("ack-4.19-{number}")).collect();
    let texts: Vec<String> = names.iter().map(|name| format!("{name}: x")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = finding(&names, &texts.join("; "));
    let causes = of_verdict(Verdict::Blocked(vec![found.clone(), found]));
    assert_eq!(
        causes.iter().filter(|cause| !cause.name.is_empty()).count(),
        MAX_NAMES
    );
    assert_eq!(causes[0].message, "ack-4.19-0: x");
    assert_eq!(
        causes[MAX_NAMES].message,
        "The cluster names 3136 more, which are not shown"
    );
    let bytes: usize = causes.iter().map(|cause| cause.message.len()).sum();
    assert!(bytes < 10_000, "{bytes}");
}

#[test]
fn a_text_of_a_megabyte_is_cut_and_read_in_time() {
    let causes = messages(&["Leak"], &"; ".repeat(500_000));
    assert_eq!(causes.len(), 1);
    assert!(causes[0].len() <= MAX_TEXT + 3);
    let causes = messages(&[], &"\u{e9}".repeat(450_000));
    assert!(causes[0].len() <= MAX_TEXT + 3 && causes[0].ends_with('\u{2026}'));
}
