//! A newer build of the controller, played at its wire: it writes words into rows that the older build does not know, and reads
//! them back.

/// Words of rows: the old and the new one. A phase, reasons of clusters that go on and that failed, and the name of a step are among
/// them.
const WORDS: [(&str, &str); 6] = [
    ("\"phase\":\"Partial\"", "\"phase\":\"Advancing\""),
    ("\"reason\":\"Progressing\"", "\"reason\":\"GettingThere\""),
    ("\"reason\":\"Running\"", "\"reason\":\"OnItsWay\""),
    ("\"reason\":\"ClusterUpgradeTimeout\"", "\"reason\":\"OutOfTime\""),
    ("\"reason\":\"PostActionFailed\"", "\"reason\":\"CheckFailed\""),
    ("\"name\":\"Soak\"", "\"name\":\"Bake\""),
];

/// The word that the older build would have written.
#[must_use]
pub fn old(word: &str) -> &str {
    match word {
        "Advancing" => "Partial",
        "GettingThere" => "Progressing",
        "OnItsWay" => "Running",
        "OutOfTime" => "ClusterUpgradeTimeout",
        "CheckFailed" => "PostActionFailed",
        "Bake" => "Soak",
        other => other,
    }
}

/// Whether only the newer build writes a word.
#[must_use]
pub fn is_newer(word: &str) -> bool {
    old(word) != word
}

/// The JSON of reports with the words of the newer build.
#[must_use]
pub fn newer(json: &str) -> String {
    WORDS
        .iter()
        .fold(json.to_owned(), |json, (old, new)| json.replace(old, new))
}

/// The JSON of reports with the words of the older build.
#[must_use]
pub fn older(json: &str) -> String {
    WORDS
        .iter()
        .fold(json.to_owned(), |json, (old, new)| json.replace(new, old))
}
